"""What each key cannot say alone: names that must exist, or exist once.

Rules: a value that could not be read is `""` or left out, has been reported, and is passed over here; a name that came
from the environment is never repeated, neither as the culprit nor as a suggestion.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from importlib.util import find_spec

from gateway.config.extras import missing
from gateway.config.kinds import is_pattern
from gateway.config.problems import Path, Problems, quote, render_path, suggest
from gateway.config.reader import Reader
from gateway.config.schema import Config, LiteLLM, Model, Tenant, Verifier

_DECIDED = frozenset(LiteLLM.__dataclass_fields__) | {
    "base_url", "client", "custom_llm_provider", "fallbacks", "input", "max_retries", "messages", "mock_response", "no-log",
    "num_retries", "prompt", "stream", "stream_options", "timeout",
}  # fmt: skip
"""Arguments of litellm that have a key of their own, or that the gateway sets for each request."""
_SEALS = 16  # characters of a secret that seals messages


class Report:
    """Adds problems at the place of a value."""

    def __init__(self, reader: Reader, problems: Problems) -> None:
        self._reader = reader
        self._problems = problems

    def __call__(self, path: Path, message: str) -> None:
        mark = self._reader.mark(path)
        self._problems.add(mark.line, mark.column, path, message)

    def told(self, path: Path) -> bool:
        """Something at or below `path` is wrong already."""
        place = render_path(path)
        return any(problem.path.startswith(place) for problem in self._problems.found)

    def given(self, path: Path) -> bool:
        """It is no default."""
        return path in self._reader.marks

    def where(self, path: Path) -> str:
        """The line of a value, or the key whose default it is."""
        mark = self._reader.marks.get(path)
        return f"on line {mark.line}" if mark is not None else render_path(path)

    def show(self, value: str) -> str:
        return "from the environment" if value in self._reader.from_env else quote(value)

    def unknown(self, path: Path, what: str, value: str, known: Collection[str]) -> None:
        """`value` is none of `known`: says so, with the nearest one. Nothing at all where a known one was unreadable."""
        if value in known or not value or "" in known:
            return
        visible = [word for word in known if word not in self._reader.from_env]
        hint = "" if value in self._reader.from_env or self._problems.full else suggest(value, visible)
        self(path, f"unknown {what} {self.show(value)}{hint}")

    def twice(self, named: Iterable[tuple[Path, str]], what: Callable[[str], str]) -> None:
        """Of the pairs (place, name), a name may come once."""
        first: dict[str, Path] = {}
        for path, name in named:
            if name in first:
                self(path, f"{what(self.show(name))} is taken already: {self.where(first[name])}")
            elif name:
                first[name] = path


def check(config: Config, report: Report) -> None:
    """Every cross-check there is."""
    _names(config, report)
    _models(config, report)
    _tiers(config, report)
    _plans(config, report)
    _tenants(config, report)
    _semantic(config, report)
    _shared_stores(config, report)
    _amounts(config, report)


def public_names(config: Config) -> Iterator[tuple[Path, str]]:
    """Everything that a client may put in `model`, with its place; the first to have a name keeps it."""
    yield ("routing", "auto"), config.routing.auto
    for index, model in enumerate(config.models):
        yield ("models", index, "name"), model.name
        for number, adapter in enumerate(model.adapters):
            yield ("models", index, "adapters", number, "name"), adapter.name
    for route in config.routing.routes:
        if route != config.routing.auto:
            yield ("routing", "routes", route), route
    for alias in config.routing.aliases:
        yield ("routing", "aliases", alias), alias


def unknown_model(pattern: str, config: Config) -> str:
    """The complaint about a name, or pattern, that nothing in the config has; empty where all is well."""
    known = [name for _, name in public_names(config)]
    return "" if is_pattern(pattern) or pattern in known else f"unknown model {quote(pattern)}{suggest(pattern, known)}"


def _names(config: Config, report: Report) -> None:
    report.twice(public_names(config), lambda name: f"the model name {name}")
    aliases = config.routing.aliases
    known = [name for _, name in public_names(config) if name not in aliases]
    for alias, target in aliases.items():
        if target in aliases and target not in known:
            report(("routing", "aliases", alias), f"{report.show(target)} is an alias itself: name a model")
        else:
            report.unknown(("routing", "aliases", alias), "model", target, known)


def _models(config: Config, report: Report) -> None:
    names = [name for model in config.models for name in (model.name, *(adapter.name for adapter in model.adapters))]
    for index, model in enumerate(config.models):
        here: Path = ("models", index)
        replicas = (((*here, "replicas", number, "name"), replica.name) for number, replica in enumerate(model.replicas))
        report.twice(replicas, lambda name: f"a replica {name} of this model")
        slots, least = model.concurrency, (*here, "concurrency", "min")
        if slots.min > slots.max and report.given(least):
            report(least, f"must not be above max, which is {slots.max}")
        for number, name in enumerate(model.fallback):
            if name == model.name:
                report((*here, "fallback", number), "a model cannot be its own fallback")
            else:
                report.unknown((*here, "fallback", number), "model", name, names)
        if model.endpoints == ():
            report((*here, "endpoints"), "must not be empty")
        _backend(here, model, report)


def _backend(here: Path, model: Model, report: Report) -> None:
    """What belongs to the model's kind, and what does not."""
    if model.kind != "litellm":
        if model.litellm is not None:
            report((*here, "litellm"), "is for kind litellm only")
        return
    if find_spec("litellm") is None:
        report((*here, "kind"), 'kind litellm needs the litellm library: pip install "tiergate[litellm]"')
    if model.litellm is None:
        report(here, "kind litellm needs its own section: `litellm: {model: provider/model}`")
    for name, given in (
        ("replicas", model.replicas),
        ("discover", model.discover),
        ("tls", model.tls),
        ("adapters", model.adapters),
    ):
        if given:
            report((*here, name), f"kind litellm has no {name}")
    if model.served_name != model.name:
        report((*here, "served_name"), "kind litellm has no served_name: name the provider's model in litellm.model")
    for name in model.litellm.params if model.litellm is not None else ():
        if name in _DECIDED:
            report((*here, "litellm", "params", name), "not to be set here: it has a key of its own, or the gateway sets it")


def _tiers(config: Config, report: Report) -> None:
    used = list(dict.fromkeys(model.tier for model in config.models))
    routing, classifier = config.routing, config.routing.classifier
    for index, tier in enumerate(routing.tiers):
        report.unknown(("routing", "tiers", index), "tier", tier, used)
    report.twice(((("routing", "tiers", i), tier) for i, tier in enumerate(routing.tiers)), lambda name: f"the tier {name}")
    for index, model in enumerate(config.models):
        if model.tier and model.tier not in routing.tiers and "" not in routing.tiers:
            report(("models", index, "tier"), f"the tier {report.show(model.tier)} is missing from routing.tiers")
    for tier, other in routing.fallback.items():
        report.unknown(("routing", "fallback", tier), "tier", tier, used)
        report.unknown(("routing", "fallback", tier), "tier", other, used)
        if tier == other:
            report(("routing", "fallback", tier), "a tier cannot be its own fallback")
    report.unknown(("routing", "classifier", "tier"), "tier", classifier.tier or "", used)
    report.unknown(("routing", "classifier", "default_tier"), "tier", classifier.default_tier or "", used)
    if classifier.kind == "fixed" and classifier.tier is None:
        report(("routing", "classifier", "kind"), "classifier kind fixed needs a tier")


def _plans(config: Config, report: Report) -> None:
    known = [model.name for model in config.models]  # an adapter counts as its pool's model
    for name, plan in config.plans.items():
        for model in plan.models:
            report.unknown(("plans", name, "models", model), "model", model, known)


def _tenants(config: Config, report: Report) -> None:
    tenants = [(("tenants", index), tenant) for index, tenant in enumerate(config.tenants)]
    report.twice((((*here, "name"), tenant.name) for here, tenant in tenants), lambda name: f"the tenant {name}")
    known = [name for _, name in public_names(config)]
    for here, tenant in tenants:
        report.unknown((*here, "plan"), "plan", tenant.plan or "", config.plans.keys())
        _model_lists(here, tenant, known, report)
        ids = (((*here, "keys", number, "id"), key.id) for number, key in enumerate(tenant.keys))
        report.twice(ids, lambda name: f"a key {name} of this tenant")
    keys = (
        ((*here, "keys", number, "sha256"), key.sha256.reveal())
        for here, tenant in tenants
        for number, key in enumerate(tenant.keys)
    )
    report.twice(keys, lambda _: "this very key")


def _model_lists(here: Path, tenant: Tenant, known: list[str], report: Report) -> None:
    lists: list[tuple[Path, tuple[str, ...]]] = [((*here, "models"), tenant.models)]
    lists += [((*here, "keys", number, "models"), key.models or ()) for number, key in enumerate(tenant.keys)]
    for path, names in lists:
        for index, name in enumerate(names):
            if not is_pattern(name):
                report.unknown((*path, index), "model", name, known)


def _shared_stores(config: Config, report: Report) -> None:
    """What several gateways share they must also agree on."""
    cache, exact = config.cache, config.cache.exact
    shared = exact.enabled and exact.store in ("redis", "two_level")
    if shared and not cache.secret:
        report(
            ("cache", "exact", "store"), f"cache store {exact.store} needs cache.secret: every gateway's keys are made with it"
        )
    if config.fleet.share == "redis" and not cache.secret:
        report(("fleet", "share"), "share redis needs cache.secret: gateways of one secret understand each other")
    elif config.fleet.share == "redis" and len(cache.secret.reveal()) < _SEALS:
        report(("cache", "secret"), f"too short for fleet.share, whose messages it seals: {_SEALS} characters at least")
    for where, complaint in missing(config):
        report(where, complaint)
    if not config.any_semantic:
        return
    here = ("cache", "semantic", "qdrant", "url")
    if cache.semantic.qdrant.url is not None and not cache.secret:
        report(here, "a Qdrant server needs cache.secret: every gateway's keys are made with it")
    if not exact.enabled:
        report(("cache", "exact", "enabled"), "the semantic cache stands behind the exact one, which is off")


def _semantic(config: Config, report: Report) -> None:
    semantic, here = config.cache.semantic, ("cache", "semantic")
    known = [name for _, name in public_names(config)]
    embedder = semantic.embedder
    if embedder.kind != "minilm" and not embedder.model:
        report((*here, "embedder", "kind"), f"embedder kind {embedder.kind} needs a model")
    asked = [((*here, "shadow", "judge"), semantic.shadow.judge or "", "chat")]
    if semantic.verifier is not None:
        asked.append(((*here, "verifier", "model"), semantic.verifier.model or "", "chat"))
        _verifier((*here, "verifier"), semantic.verifier, report)
    if embedder.kind == "pool":
        asked.append(((*here, "embedder", "model"), embedder.model, "embeddings"))
        if config.routing.aliases.get(embedder.model, embedder.model) in (config.routing.auto, *config.routing.routes):
            report((*here, "embedder", "model"), "must be one model: the vectors of several cannot be compared")
    for where, name, endpoint in asked:
        report.unknown(where, "model", name, known)
        if (pools := behind(config, name)) and not any(endpoint in pool.endpoints for pool in pools):
            report(where, f"the model {report.show(name)} does not serve {endpoint}")


def _verifier(here: Path, verifier: Verifier, report: Report) -> None:
    """What its kind needs, and what belongs to the other one."""
    needs, others = ("model", ("path", "threshold")) if verifier.kind == "pool" else ("path", ("model",))
    if getattr(verifier, needs) is None and not report.told(here):
        report(here, f"verifier kind {verifier.kind} needs a {needs}")
    for name in others:
        if getattr(verifier, name) is not None:
            report((*here, name), f"verifier kind {verifier.kind} has no {name}")


def behind(config: Config, name: str) -> list[Model]:
    """The pools that a name leads to: a model's own, an adapter's, an alias's, a route's, all of them for `auto`."""
    meant = config.routing.aliases.get(name, name)
    route = config.routing.routes.get(meant)
    if route is not None and route.models is not None:
        return [model for model in config.models if model.name in route.models]
    if meant == config.routing.auto or route is not None:
        return list(config.models)
    return [model for model in config.models if meant in (model.name, *(adapter.name for adapter in model.adapters))]


def _amounts(config: Config, report: Report) -> None:
    exact, breaker = config.cache.exact, config.breaker
    if exact.max_entry > exact.max_bytes:
        report(("cache", "exact", "max_entry"), "larger than max_bytes")
    if breaker.open > breaker.max_open:
        report(("breaker", "open"), "longer than max_open")
