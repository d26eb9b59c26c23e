"""Everything that is asked and checked, at once and under one deadline; what comes of it in the order of the config."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from backends.client import Origin
from backends.replica import Replica
from gateway.build import replica_maker
from gateway.config import Config, Model, Problem, Reading
from gateway.config.extras import missing
from gateway.config.problems import Path
from gateway.doctor import (
    access,
    capacity,
    certificates,
    classifier,
    disk,
    engine,
    events,
    learning,
    machine,
    pools,
    ports,
    redis,
    semantic,
    warm,
)
from gateway.doctor.classifier import ClassifierFacts
from gateway.doctor.engine import Engine, engine_of
from gateway.doctor.events import EventsFacts
from gateway.doctor.facts import ReplicaFacts
from gateway.doctor.findings import Finding, Severity, fail
from gateway.doctor.machine import Machine
from gateway.doctor.ports import PortFacts
from gateway.doctor.probe import Deep, client_of, probe
from gateway.doctor.redis import RedisFacts
from gateway.keyfile import KeyFile, KeyFileError, KeyRecord

if TYPE_CHECKING:
    from gateway.doctor.meaning import Meaning

_AT_ONCE = 64
_UNSET = re.compile(r"environment variable (\w+) is not set")


@dataclass(frozen=True, slots=True)
class Options:
    """`timeout` of each question, `total` of all of them; `deep` sends one request to each replica's model."""

    timeout: float = 5.0
    total: float = 20.0
    deep: bool = False


class Line(msgspec.Struct, frozen=True):
    """One finding as it is told. `line` 0: no line of the config."""

    severity: Severity
    key: str
    line: int
    what: str
    mend: str


@dataclass(slots=True)
class _Asked:
    """One replica and what it said."""

    where: Path
    model: Model
    number: int
    replica: Replica
    facts: ReplicaFacts = field(default_factory=ReplicaFacts)
    heard: dict[str, EventsFacts | None] = field(default_factory=dict)

    @property
    def origin(self) -> Origin:
        return client_of(self.replica).origin


@dataclass(slots=True)
class _Findings:
    asked: list[_Asked] = field(default_factory=list)
    ports: dict[Path, tuple[str, int, PortFacts | None]] = field(default_factory=dict)
    found: list[Finding] = field(default_factory=list)
    redis: RedisFacts | None = None
    meaning: Meaning | None = None
    classifier: ClassifierFacts | None = None


async def diagnose(reading: Reading, options: Options, this: Machine, wall: Callable[[], float] = time.time) -> list[Line]:
    """Every finding, those that say that all is well included."""
    state = _Findings()
    _prepare(reading, state)
    config = reading.config
    await _within(_questions(config, state, options, wall), options.total)
    now = wall()
    found = [*state.found, *machine.built(this), *machine.libraries(this), *machine.descriptors(this, config)]
    for path, (host, port, facts) in state.ports.items():
        found += ports.judge(path, host, port, facts) if facts is not None else []
    found += [*_listeners(config), *machine.workers(this, config)]
    if _uses_redis(config):
        asked = state.redis or RedisFacts("it was not asked before the time was up")
        found += redis.judge(("redis", "url"), asked, config.redis.timeout)
    found += semantic.policy(config)
    if state.classifier is not None:
        found += classifier.judge(state.classifier, config)
    if state.meaning is not None:
        found += state.meaning.findings(now)
    for index, model in enumerate(config.models):
        found += _model(reading, index, model, [one for one in state.asked if one.where[1] == index], now)
    found += _files(config, now)
    lines = [Line(one.severity, one.key, reading.line(one.where) if one.where else 0, one.what, one.mend) for one in found]
    return sorted([*map(_problem, reading.errors), *lines], key=lambda line: line.line)


def _problem(problem: Problem) -> Line:
    unset = _UNSET.search(problem.message)
    mend = f"Set {unset[1]}, or write ${{{unset[1]}:-default}}." if unset else "Correct the config; `tiergate check` tells more."
    return Line("fail", problem.path, problem.line, problem.message, mend)


def _prepare(reading: Reading, state: _Findings) -> None:
    """Who will be asked. A replica whose URL could not be read has its own error already."""
    config = reading.config
    make = replica_maker(config)
    for index, model in enumerate(config.models):
        for number, replica in enumerate(model.replicas):
            where: Path = ("models", index, "replicas", number)
            if not replica.url:
                continue
            try:
                state.asked.append(_Asked(where, model, number, make(model.name, replica)))
            except (ValueError, OSError) as error:  # among them ssl's, for certificates that the config's own error names
                state.found.append(fail(where, str(error), "Correct this replica."))
    if config.any_semantic and not missing(config) and not any(_of_embedder(error) for error in reading.errors):
        from gateway.doctor.meaning import Meaning  # noqa: PLC0415 - what it needs may not be installed

        state.meaning = Meaning(config, make)
    server = config.server
    if server.port and server.host:
        state.ports["server", "port"] = (server.host, server.port, None)
    host, _, port = server.metrics.rpartition(":")
    if port and int(port):
        state.ports["server", "metrics"] = (host.strip("[]"), int(port), None)


def _of_embedder(error: Problem) -> bool:
    """One that is not known cannot be built: the error says so itself."""
    return error.path.startswith("cache.semantic.embedder")


def _uses_redis(config: Config) -> bool:
    return "redis" in (config.limits.store, config.fleet.share) or config.cache.exact.store in ("redis", "two_level")


def _questions(config: Config, state: _Findings, options: Options, wall: Callable[[], float]) -> Iterator[Awaitable[None]]:
    gate = asyncio.Semaphore(_AT_ONCE)

    async def ask(one: _Asked) -> None:
        async with gate:
            deep = _deep(one.model) if options.deep else None
            await probe(
                one.facts, one.replica, context=client_of(one.replica).ssl_context, timeout=options.timeout, wall=wall, deep=deep
            )

    async def hear(one: _Asked, key: str, address: str) -> None:
        async with gate:
            one.heard[key] = await events.ask(address, options.timeout)

    async def bind(path: Path, host: str, port: int) -> None:
        state.ports[path] = (host, port, await ports.try_port(host, port, options.timeout))

    async def ask_redis() -> None:
        state.redis = await redis.ask(config.redis.url.reveal(), options.timeout, wall)

    if _uses_redis(config):
        yield ask_redis()
    if config.routing.classifier.kind == "remote" and config.routing.classifier.url:
        state.classifier = classifier.ClassifierFacts()
        yield classifier.ask(state.classifier, config, options.timeout)
    if state.meaning is not None:
        yield from state.meaning.questions(options.timeout)
    for path, (host, port, _) in list(state.ports.items()):
        yield bind(path, host, port)
    for one in state.asked:
        yield ask(one)
        own = one.model.replicas[one.number]
        for key, address in (("events", own.events), ("replay", own.replay)):
            if address and one.model.balance.precise is not None:
                one.heard[key] = None
                yield hear(one, key, address)


async def _within(questions: Iterator[Awaitable[None]], seconds: float) -> None:
    """All of them at once; what has not ended in time is cancelled, and leaves what it has found."""
    tasks = [asyncio.ensure_future(question) for question in questions]
    if not tasks:
        return
    try:
        await asyncio.wait(tasks, timeout=seconds)
    finally:
        for task in tasks:
            task.cancel()
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(result, Exception):
            raise result


def _deep(model: Model) -> Deep | None:
    """The cheapest request of an endpoint that the model serves."""
    bodies: dict[str, tuple[bytes, dict[str, object]]] = {
        "chat": (b"/chat/completions", {"messages": [{"role": "user", "content": "ping"}], "max_tokens": 1}),
        "completions": (b"/completions", {"prompt": "ping", "max_tokens": 1}),
        "embeddings": (b"/embeddings", {"input": "ping"}),
    }
    for endpoint, (path, body) in bodies.items():
        if endpoint in model.endpoints:
            return Deep(path, msgspec.json.encode({"model": model.served_name, **body}))
    return None


def _listeners(config: Config) -> list[Finding]:
    server = config.server
    host, _, port = server.metrics.rpartition(":")
    return ports.same_port(("server", "metrics"), server.port, int(port or 0), (server.host, host.strip("[]")))


def _model(reading: Reading, index: int, model: Model, asked: list[_Asked], now: float) -> list[Finding]:
    """One pool: each replica, then all of them beside each other."""
    where: Path = ("models", index)
    engines = {one.number: engine_of(one.facts) for one in asked}
    found = [finding for one in asked for finding in _replica(reading, one, engines[one.number], now)]
    found += pools.differences(where, model, engines)
    found += warm.budget(where, model)
    found += pools.twins(where, model, {one.number: one.origin for one in asked}, {one.number: one.facts for one in asked})
    return _once(found)


def _replica(reading: Reading, one: _Asked, said: Engine, now: float) -> list[Finding]:
    where, facts, model, config = one.where, one.facts, one.model, reading.config
    secret = model.replicas[one.number].api_key
    unreadable = reading.broken((*where, "api_key"))
    found = pools.loops(where, one.origin, facts, _own_addresses(config), config.server.port)
    if found:
        return found
    found += engine.reachable(where, facts)
    if facts.certificate is not None:
        found += certificates.judge((*where, "url"), one.origin.host, facts.certificate, now)
    found += engine.health(where, facts, config.health.timeout)
    found += engine.key(where, facts, configured=bool(secret), unreadable=unreadable)
    found += engine.is_engine(where, facts, said, one.origin.base_path)
    if not reading.broken((*where[:2], "served_name")):
        found += engine.served(where, model, one.number, said)
    if not reading.broken((*where[:2], "context")):
        found += engine.context(where, model, one.number, said)
    if not reading.broken((*where[:2], "concurrency")):
        found += capacity.capacity(where, model, one.number, facts)
    found += engine.version(where, said)
    found += engine.clock(where, facts, model.replicas[one.number].name)
    found += events.judge(where, model, one.number, one.heard)
    found += engine.deep(where, facts, secret.reveal())
    well = all(finding.severity == "ok" for finding in found)
    return [*engine.summary(where, model, facts, said), *found] if well else found


def _own_addresses(config: Config) -> tuple[str, ...]:
    host = config.server.host
    return ("127.0.0.1", "::1") if host in ("0.0.0.0", "::", "localhost") else (host,)  # noqa: S104 - compared, not bound


def _once(findings: list[Finding]) -> list[Finding]:
    return list(dict.fromkeys(findings))


def _files(config: Config, now: float) -> list[Finding]:
    """The key file, and who has a key at all."""
    where: Path = ("keys", "path")
    path = config.keys.path
    found = disk.key_file(where, path)
    records: list[KeyRecord] = []
    if not any(finding.severity == "fail" for finding in found):
        try:
            records = KeyFile(path).records()
        except (KeyFileError, OSError) as error:
            found.append(fail(where, str(error), "Restore the file from a copy, or move it away and make the keys anew."))
    found += disk.free_space(where, path)
    if config.any_budget and config.limits.store == "memory":
        found += disk.budgets(("limits", "budgets", "path"), config.limits.budgets.path)
    found += learning.check(config)
    found += [*access.admin(config), *access.plans(config), *access.patterns(config)]
    return [*found, *access.callers(config, records, now), *access.strangers(config, records)]
