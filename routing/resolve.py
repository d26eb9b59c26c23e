"""From the model name that a client wrote to the models that may answer it.

Rules
- A name is `auto`, another route, an alias, a model or an adapter, compared exactly; it may hold `/`. No name means two things.
- An alias stands for `auto`, a route, a model or an adapter, never for another alias.
- Permission is asked for what would run: the model or the adapter. `auto`, routes and aliases grant nothing and need nothing, so
  a key that may call one model may say `auto` and gets that model. An adapter is asked for by its own name.
- `auto` and a route mean the models that the key may call and that serve the endpoint, in config order; a route may name those
  that it chooses from. Adapters are never candidates: they were trained for one thing, and only their caller knows that this is
  it.
- A pinned model falls back to the names in its own `fallback` that the key may call and that serve the endpoint. An adapter has
  none: another model does not hold what the adapter learned.
- The refusals in order: unknown, not allowed, not served. A key that may not call a model learns nothing of its endpoints.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from routing.types import EndpointNotServed, Listing, Model, ModelNotAllowed, Resolution, Target, UnknownModel

Allowed = Callable[[str], bool]


class Catalog:
    """Every name that a client may ask for. Built once from the config; a contradiction in it is a ValueError.

    `routes`: the models that each chooses from, None for all; `auto` may be among them.
    """

    def __init__(
        self,
        models: Sequence[Model],
        *,
        auto: str = "auto",
        routes: Mapping[str, Sequence[str] | None] | None = None,
        aliases: Mapping[str, str] | None = None,
        adapters: Mapping[str, tuple[str, str]] | None = None,
    ) -> None:
        self._auto = auto
        self._aliases = dict(aliases or {})
        self._models = {model.name: Target(model.name, model, model.served_name) for model in models}
        self._routes = {auto: None, **(routes or {})}
        self._adapters = {name: self._adapter(name, pool, served) for name, (pool, served) in (adapters or {}).items()}
        self._targets = self._models | self._adapters
        self._refuse_double_names([model.name for model in models])
        self._check_references()
        self._fallbacks = {name: self._chain(target.model.fallback, name) for name, target in self._models.items()}
        self._behind = {route: self._chosen_from(route, names) for route, names in self._routes.items()}
        self._serving = {route: _by_endpoint(targets) for route, targets in self._behind.items()}

    def resolve(self, requested: str, endpoint: str, allowed: Allowed) -> Resolution:
        """The models that may answer. Raises UnknownModel, ModelNotAllowed or EndpointNotServed."""
        name = self._aliases.get(requested, requested)
        if name in self._routes:
            return self._resolve_auto(requested, name, endpoint, allowed)
        target = self._targets.get(name)
        if target is None:
            raise UnknownModel(requested)
        if not allowed(name):
            raise ModelNotAllowed(requested)
        if endpoint not in target.model.endpoints:
            raise EndpointNotServed(requested, endpoint)
        spare = [t for t in self._fallbacks.get(name, ()) if endpoint in t.model.endpoints and allowed(t.name)]
        return Resolution(requested, target, (target, *spare), auto=False)

    def _resolve_auto(self, requested: str, route: str, endpoint: str, allowed: Allowed) -> Resolution:
        candidates = tuple([target for target in self._serving[route].get(endpoint, ()) if allowed(target.name)])
        if not candidates:
            if not any(allowed(target.name) for target in self._behind[route]):
                raise ModelNotAllowed(requested)
            raise EndpointNotServed(requested, endpoint)
        return Resolution(requested, None, candidates, auto=True, route="" if route == self._auto else route)

    def names(self, allowed: Allowed) -> list[Listing]:
        """What the key may ask for: `auto`, then routes, aliases, models and adapters in config order."""
        listings: list[Listing] = []
        open_to = {route: [target for target in behind if allowed(target.name)] for route, behind in self._behind.items()}
        for route, targets in open_to.items():
            if targets:
                listings.append(Listing(route, "auto" if route == self._auto else "route", route, _largest(targets)))
        for alias, name in self._aliases.items():
            if open_to.get(name):
                listings.append(Listing(alias, "alias", name, _largest(open_to[name])))
            elif name not in self._routes and allowed(name):
                listings.append(Listing(alias, "alias", name, self._targets[name].model.context))
        listings += [Listing(t.name, "model", t.name, t.model.context) for t in self._models.values() if allowed(t.name)]
        listings += [Listing(n, "adapter", t.model.name, t.model.context) for n, t in self._adapters.items() if allowed(n)]
        return listings

    def _chosen_from(self, route: str, names: Sequence[str] | None) -> tuple[Target, ...]:
        if names is None:
            return tuple(self._models.values())
        if not names or not self._models.keys() >= set(names):
            raise ValueError(f"the route {route!r} is to choose from {', '.join(names) or 'nothing'}: name models")
        return tuple(target for name, target in self._models.items() if name in names)

    def _adapter(self, name: str, pool: str, served_name: str) -> Target:
        if pool not in self._models:
            raise ValueError(f"adapter {name!r} belongs to {pool!r}, which is not a model")
        return Target(name, self._models[pool].model, served_name)

    def _refuse_double_names(self, models: list[str]) -> None:
        seen: set[str] = set()
        for name in (*self._routes, *self._aliases, *models, *self._adapters):
            if name in seen:
                raise ValueError(f"the name {name!r} is given twice")
            seen.add(name)

    def _check_references(self) -> None:
        for alias, name in self._aliases.items():
            if name in self._aliases:
                raise ValueError(f"alias {alias!r} stands for {name!r}, which is an alias itself")
            if name not in self._routes and name not in self._targets:
                raise ValueError(f"alias {alias!r} stands for {name!r}, which is not a model")

    def _chain(self, names: Iterable[str], owner: str) -> tuple[Target, ...]:
        chain: list[Target] = []
        for written in names:
            name = self._aliases.get(written, written)
            if name not in self._targets or name == owner:
                raise ValueError(f"{owner!r} falls back to {written!r}, which is not another model")
            if self._targets[name] not in chain:
                chain.append(self._targets[name])
        return tuple(chain)


def _by_endpoint(targets: Iterable[Target]) -> dict[str, tuple[Target, ...]]:
    serving: dict[str, tuple[Target, ...]] = {}
    for target in targets:
        for endpoint in target.model.endpoints:
            serving[endpoint] = (*serving.get(endpoint, ()), target)
    return serving


def _largest(targets: Iterable[Target]) -> int | None:
    contexts = [target.model.context for target in targets]
    known = [context for context in contexts if context is not None]
    return max(known) if len(known) == len(contexts) else None
