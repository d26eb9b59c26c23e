"""Checks of replicas beside each other: those of one pool should be alike, and not be one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence

from backends.client import Origin
from gateway.config import Model
from gateway.config.problems import Path
from gateway.doctor.engine import Engine, max_model_len
from gateway.doctor.facts import ReplicaFacts
from gateway.doctor.findings import Finding, fail, listed, shown, warn

_ALIKE = "Run the same engine with the same flags behind one model, or make it a model of its own."


def differences(where: Path, model: Model, engines: Mapping[int, Engine]) -> list[Finding]:
    """Replicas of one pool answer the same request differently when they differ in these."""
    known = {number: engine for number, engine in engines.items() if engine.cards is not None}
    lengths = {number: max_model_len(model, engine) for number, engine in known.items()}
    names = {number: tuple(sorted(card.id for card in engine.cards or ())) for number, engine in known.items()}
    versions = {number: engine.version for number, engine in known.items() if engine.version is not None}
    findings = []
    for what, values in (("versions", versions), ("context lengths", lengths), ("served models", names)):
        odd = _odd(values)
        if odd:
            told = ", ".join(f"{model.replicas[number].name} {_told(values[number])}" for number in odd)
            findings.append(warn((*where, "replicas"), f"its replicas differ in their {what}: {told}", _ALIKE))
    return findings


def _odd(values: Mapping[int, Hashable]) -> list[int]:
    """One replica of each value, the commonest first; nobody where all are the same."""
    common = [value for value, _ in Counter(values.values()).most_common(4)]
    return [next(n for n, other in values.items() if other == value) for value in common] if len(common) > 1 else []


def _told(value: object) -> str:
    if isinstance(value, tuple):
        return f"serves {listed(value)}"
    return f"has {shown(str(value).encode()) if value is not None else 'none'}"


def twins(where: Path, model: Model, origins: Mapping[int, Origin], facts: Mapping[int, ReplicaFacts]) -> list[Finding]:
    """Two replicas that are one server: it would get twice its slots, and fail over to itself."""
    seen: dict[tuple[str, int, str], int] = {}
    findings = []
    for number, origin in origins.items():
        places = [(address, origin.port, origin.base_path) for address in facts[number].addresses or (origin.host,)]
        first = next((seen[place] for place in places if place in seen), None)
        if first is not None:
            what = f"the same server as replica {model.replicas[first].name}: it would count twice"
            findings.append(warn((*where, "replicas", number, "url"), what, "Delete one of the two, or correct its URL."))
        for place in places:
            seen.setdefault(place, number)
    return findings


def loops(where: Path, origin: Origin, facts: ReplicaFacts, own: Sequence[str], port: int) -> list[Finding]:
    """The URL leads to this gateway itself. `own`: the addresses that it listens on."""
    if port == 0 or origin.port != port or not any(address in own for address in facts.addresses):
        return []
    return [fail((*where, "url"), "this is the address that the gateway itself listens on", "Write the engine's address.")]
