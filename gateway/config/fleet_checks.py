"""Cross-checks of what reaches replicas, and of TLS to any server; when asked to, of the certificates themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec

from gateway.config.certificates import TlsError, client_context, server_context
from gateway.config.checks import Report
from gateway.config.kinds import Unfit, Url, is_host
from gateway.config.problems import Path, quote
from gateway.config.schema import Config, Discover, Model, Replica
from gateway.config.tls import BackendTls

_ONLY = {"dns": {"name", "port", "scheme", "path", "servers"}, "srv": {"name", "scheme", "path", "servers"}, "file": {"path"}}
_PLACED = ("sticky", "work_cost")  # balances that ask what is cached
_NEEDED = {"dns": ("name", "port"), "srv": ("name",), "file": ("path",)}


def check_fleet(config: Config, report: Report, *, files: bool) -> None:
    """`files`: also read the certificates."""
    _twice(config, report)
    for index, model in enumerate(config.models):
        here: Path = ("models", index)
        if model.kind != "litellm" and not model.replicas and not model.discover and not report.told(here):
            report((*here, "replicas"), 'must not be empty where there is no "discover"')
        sources = [((*here, "discover", n), f"{d.kind} {d.name or d.path}") for n, d in enumerate(model.discover)]
        report.twice(sources, lambda _: "this very source")
        for number, discover in enumerate(model.discover):
            _discover((*here, "discover", number), discover, report)
        _events(here, model, report)
    for path, tls, urls in _backends(config):
        if tls.key is not None and tls.cert is None:
            report((*path, "key"), "a key without a cert")
        if tls.ca is not None and not tls.verify:
            report((*path, "verify"), "a ca is given, but nothing is verified")
        if urls and not any(url.startswith("https:") for url in urls):
            report(path, "tls needs an https:// URL")
        elif files:
            _try(lambda tls=tls: client_context(tls), path, report)  # type: ignore[misc] # mypy cannot infer the default
    server = config.server.tls
    if files and server is not None:
        _try(lambda: server_context(server), ("server", "tls"), report)


def _events(here: Path, model: Model, report: Report) -> None:
    """What engines say of their caches: who listens, and to whom."""
    if model.balance.precise is not None:
        if model.kind == "litellm" or model.balance.kind not in _PLACED:
            report((*here, "balance", "precise"), f"is for kind openai, with a balance of kind {', '.join(_PLACED)}")
        elif not any(replica.events for replica in model.replicas) and all(one.kind != "file" for one in model.discover):
            report((*here, "balance", "precise"), "no replica has `events`: where its engine publishes them")
    for number, replica in enumerate(model.replicas):
        place = (*here, "replicas", number)
        if replica.events is not None and model.balance.precise is None:
            report((*place, "events"), "nobody would listen: the model has no balance.precise")
        if replica.replay is not None and replica.events is None:
            report((*place, "replay"), "without `events` there is nothing to replay")


def _twice(config: Config, report: Report) -> None:
    """An address where one engine speaks stands for that one. Another model may have the same engine, at the same URL."""
    first: dict[str, tuple[Path, Model, Replica]] = {}
    for index, model in enumerate(config.models):
        for number, replica in enumerate(model.replicas):
            for key, address in (("events", replica.events), ("replay", replica.replay)):
                place: Path = ("models", index, "replicas", number, key)
                if not address:
                    continue
                before, its_model, other = first.setdefault(address, (place, model, replica))
                same = before[-1] == key and its_model is not model and other.url == replica.url
                if before != place and not same:
                    whose = f"`{before[-1]}` of replica {quote(other.name)}" + (
                        "" if its_model is model else f" of {quote(its_model.name)}"
                    )
                    report(place, f"{report.show(address)} is {whose} already ({report.where(before)}): each engine has its own")


def _backends(config: Config) -> Iterator[tuple[Path, BackendTls, list[str]]]:
    """Every `tls` towards another server: its place, itself, and the URLs that it is for where they are known."""
    classifier = config.routing.classifier
    if classifier.tls is not None and classifier.url is not None:
        yield ("routing", "classifier", "tls"), classifier.tls, [classifier.url]
    for index, model in enumerate(config.models):
        if model.tls is not None:
            urls = [] if model.discover else [replica.url for replica in model.replicas]
            yield ("models", index, "tls"), model.tls, urls
        for number, replica in enumerate(model.replicas):
            if replica.tls is not None:
                yield ("models", index, "replicas", number, "tls"), replica.tls, [replica.url]


def _try(make: Callable[[], object], path: Path, report: Report) -> None:
    try:
        make()
    except TlsError as error:
        report((*path, error.key), str(error))


def _discover(path: Path, discover: Discover, report: Report) -> None:
    kind = discover.kind
    if kind not in _ONLY:
        return  # unreadable, and reported
    for name in ("name", "port", "scheme", "path", "servers"):
        if getattr(discover, name) and name not in _ONLY[kind]:
            report((*path, name), f"has no meaning for kind {kind}")
    missing = [name for name in _NEEDED[kind] if not getattr(discover, name)]
    for name in missing:
        if not report.told((*path, name)):
            report(path, f'missing key "{name}": kind {kind} needs it')
    if kind != "file" and not missing:
        _address(path, discover, report)
    if (kind == "srv" or discover.servers) and find_spec("dns") is None:
        report(path, "needs the package dnspython: install tiergate[dns]")


def _address(path: Path, discover: Discover, report: Report) -> None:
    """The URL that replicas found so would have."""
    if not is_host((discover.name or "").strip("[]")):
        report((*path, "name"), "not a name that can be looked up")
    try:
        Url().read(f"http://host{discover.path or ''}")
        fit = (discover.path or "/").startswith("/")
    except Unfit:
        fit = False
    if not fit:
        report((*path, "path"), "expected the path of a URL such as /v1")
