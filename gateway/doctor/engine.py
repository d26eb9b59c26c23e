"""Checks of one replica: is it there, is it vLLM, does it take our key, and does it serve what the config says?"""

from __future__ import annotations

import re
from dataclasses import dataclass

import msgspec

from gateway.config import Model
from gateway.config.problems import Path, quote
from gateway.doctor.clocks import http_date, skew
from gateway.doctor.facts import ReplicaFacts, Reply
from gateway.doctor.findings import Finding, fail, listed, meant, ok, shown, warn

OLDEST_TESTED = (0, 32)
"""The vLLM that the tests' look-alike imitates, and that the gateway was run against."""

_VERSION = re.compile(r"v?(\d{1,6})\.(\d{1,6})")
_START = "Start the engine there, or correct the port and host of the URL."


class Card(msgspec.Struct):
    """What vLLM lists of a model that it serves."""

    id: str
    max_model_len: int | None = None


class _Cards(msgspec.Struct):
    data: list[Card]


class _Version(msgspec.Struct):
    version: str


@dataclass(frozen=True, slots=True)
class Engine:
    """A replica's own word on what it is; `cards` None when it did not say."""

    cards: tuple[Card, ...] | None
    version: str | None


def engine_of(facts: ReplicaFacts) -> Engine:
    """What the answers say; hostile ones say nothing."""
    return Engine(_cards(facts.replies.get("models")), _version(facts.replies.get("version")))


def _cards(reply: Reply | None) -> tuple[Card, ...] | None:
    if reply is None or reply.status != 200:
        return None
    try:
        return tuple(msgspec.json.decode(reply.body, type=_Cards).data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _version(reply: Reply | None) -> str | None:
    if reply is None or reply.status != 200:
        return None
    try:
        return msgspec.json.decode(reply.body, type=_Version).version[:64]
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def reachable(where: Path, facts: ReplicaFacts) -> list[Finding]:
    """Nothing could be asked, or it hangs, or it is unwell."""
    url, stopped = (*where, "url"), facts.stopped
    if stopped is not None:
        match stopped.trouble:
            case "dns":
                return [fail(url, stopped.why, "Correct the host in the URL, or add the name to DNS.")]
            case "certificate" if facts.certificate is not None:
                return []  # `certificates.judge` tells
            case "certificate":
                return [fail(url, stopped.why, "Write http:// if the engine serves plain HTTP, or correct the port.")]
            case _:
                return [fail(url, stopped.why, _START)]
    silence = facts.silences.get("health") or facts.silences.get("models")
    if silence is not None:
        mend = {
            "timeout": "Look at the engine's log: it may be starting, stuck, or something else that listens there.",
            "not_http": "Correct the port: something that is no engine listens there.",
        }.get(silence.trouble, "Write https:// if the engine serves TLS; else correct the port or look at the engine's log.")
        return [fail(url, silence.why, mend)]
    if not facts.finished:
        return [fail(url, "it was not asked to the end before the time of the whole check was up", "Look whether it hangs.")]
    return []


def health(where: Path, facts: ReplicaFacts, patience: float) -> list[Finding]:
    """`/health` and how long it takes; the gateway's own check waits `patience` seconds."""
    reply = facts.replies.get("health")
    if reply is None:
        return []
    url = (*where, "url")
    if reply.status != 200:
        return [fail(url, f"/health answers {reply.status}, so it will get no requests", "Look at the engine's log.")]
    if reply.seconds > patience / 2:
        what = f"/health took {reply.seconds * 1000:.0f} ms, close to health.timeout"
        return [warn(url, what, "Raise health.timeout, or look why the engine is so slow to answer.")]
    return []


def key(where: Path, facts: ReplicaFacts, *, configured: bool, unreadable: bool) -> list[Finding]:
    """Does it take our key?"""
    reply = facts.replies.get("models")
    if reply is None or reply.status not in (401, 403):
        return []
    place = (*where, "api_key")
    if unreadable:
        return [warn(place, "its key could not be checked, for it could not be read", "Mend the key's own error first.")]
    if configured:
        return [fail(place, f"the engine refuses this key ({reply.status})", "Set api_key to what the engine's --api-key says.")]
    return [fail(place, f"the engine wants a key ({reply.status}), and none is set", "Set api_key to the engine's --api-key.")]


def is_engine(where: Path, facts: ReplicaFacts, engine: Engine, base_path: str) -> list[Finding]:
    """Something answers: is it a model server, and is that vLLM?"""
    reply, url = facts.replies.get("models"), (*where, "url")
    if reply is None or reply.status in (401, 403):
        return []
    if engine.cards is None:
        said = f"answers {base_path}/models with {reply.status}" + ("" if reply.status != 200 else ", but with no list of models")
        if reply.status == 404 and not base_path.endswith("/v1"):
            return [fail(url, f"what listens there {said}", "End the URL with /v1.")]
        return [fail(url, f"what listens there is no vLLM: it {said}", "Correct the port and path of the URL.")]
    if engine.version is None and "version" in facts.replies:
        return [warn(url, "it does not tell a version at /version, so it may be no vLLM", "Expect less of other engines.")]
    return []


def served(where: Path, model: Model, number: int, engine: Engine) -> list[Finding]:
    """The served names that the config will ask for are among those that it lists."""
    if engine.cards is None:
        return []
    ids = [card.id for card in engine.cards]
    wanted: list[tuple[Path, str]] = [((*where[:2], "served_name"), model.served_name)]
    wanted += [((*where[:2], "adapters", i, "served_name"), adapter.served_name) for i, adapter in enumerate(model.adapters)]
    replica = model.replicas[number].name
    return [
        fail(
            path,
            f"replica {replica} does not serve {quote(name)}; it serves {listed(ids)}",
            f"Write the name that it serves{meant(name, ids)}" if meant(name, ids) else "Write one of these, or correct the URL.",
        )
        for path, name in wanted
        if name and name not in ids
    ]


def context(where: Path, model: Model, number: int, engine: Engine) -> list[Finding]:
    """The configured context is not more than it takes."""
    length = max_model_len(model, engine)
    if length is None:
        return []
    place, replica = (*where[:2], "context"), model.replicas[number].name
    if model.context is None:
        what = f"not set, so `auto` cannot tell which prompts fit; replica {replica} takes {length} tokens"
        return [warn(place, what, f"Write `context: {length}`.")]
    if length < model.context:
        what = f"{model.context} tokens, but replica {replica} takes {length}"
        return [fail(place, what, f"Write `context: {length}`, or start the engine with --max-model-len {model.context}.")]
    return []


def max_model_len(model: Model, engine: Engine) -> int | None:
    """Of the model that the config asks for; of an adapter vLLM does not tell it."""
    return next((card.max_model_len for card in engine.cards or () if card.id == model.served_name), None)


def version(where: Path, engine: Engine) -> list[Finding]:
    """Old enough that nobody tried it with this gateway."""
    found = _VERSION.match(engine.version or "")
    if found is None or (int(found[1]), int(found[2])) >= OLDEST_TESTED or (int(found[1]), int(found[2])) == (0, 1):
        return []  # a build from source calls itself 0.1.dev…, whatever it is
    tested = ".".join(map(str, OLDEST_TESTED))
    return [
        warn((*where, "url"), f"vLLM {quote(engine.version or '')} is older than what is tested, {tested}", "Update the engine.")
    ]


def clock(where: Path, facts: ReplicaFacts, name: str) -> list[Finding]:
    """Its Date header against our time."""
    for reply in facts.replies.values():
        found = skew((*where, "url"), f"replica {name}", http_date(reply.header(b"date")), reply.asked, reply.seconds, step=1.0)
        if found:
            return found
    return []


def deep(where: Path, facts: ReplicaFacts, secret: str) -> list[Finding]:
    """The one-token request."""
    reply, silence, place = facts.replies.get("deep"), facts.silences.get("deep"), (*where, "url")
    if silence is not None:
        return [fail(place, f"one token: {silence.why}", "Look at the engine's log.")]
    if reply is None:
        return []
    if reply.status != 200:
        what = f"one token: the engine answers {reply.status}: {shown(reply.body, secret)}"
        return [fail(place, what, "Look at served_name, api_key and the engine's log.")]
    return [ok(place, f"one token took {reply.seconds * 1000:.0f} ms")]


def summary(where: Path, model: Model, facts: ReplicaFacts, engine: Engine) -> list[Finding]:
    """What is well: one line."""
    reply = facts.replies.get("health")
    if reply is None or reply.status != 200 or engine.cards is None:
        return []
    length = max_model_len(model, engine)
    vllm = f"vLLM {shown(engine.version.encode())}" if engine.version else "an engine that tells no version"
    tokens = f", {length} tokens" if length is not None else ""
    names = listed([card.id for card in engine.cards])
    return [ok((*where, "url"), f"{vllm} serves {names}{tokens}; /health took {reply.seconds * 1000:.1f} ms")]
