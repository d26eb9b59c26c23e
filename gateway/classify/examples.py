"""How like the operator's examples an ask is: asked where the embedder is, or of whoever has it.

The examples are embedded at the start, in the embedder's own threads; until they are, and whenever there is no vector in time,
the classifier `instead` judges. A text that the embedder cannot read (too long, another script) or that is like none of the
examples is one that it does not know.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import msgspec

from gateway.dispatch.session import Session
from gateway.dispatch.similar import CallOwner
from gateway.errors import ApiError
from gateway.metrics import Metrics
from routing import examples
from routing.types import Classifier, Verdict
from routing.words import words

MOST = 400  # characters of an ask that are embedded: one that is twice as long takes twice the time
_TRAVEL = 0.5  # seconds to the owner and back, beside its own deadline
_encode = msgspec.msgpack.encode

Likeness = dict[str, float]
"""Of the nearest example of each tier; empty where the text cannot be read."""


class Away(Exception):  # noqa: N818 - it names what happened
    """No likeness was to be had in time; the message is a word for a metric."""


class Rates(Protocol):
    async def likeness(self, text: str, scope: str) -> Likeness:
        """Raises Away."""
        ...

    async def run(self) -> None:
        """For ever, or until there is nothing to be done."""


class RatesNothing:
    """No classifier of this kind."""

    async def likeness(self, text: str, scope: str) -> Likeness:  # noqa: ARG002 - the protocol's
        raise Away("failed")

    async def run(self) -> None:
        """Nothing is to be done."""


class RemoteRates(RatesNothing):
    """From a worker. `seconds`: the owner's deadline."""

    def __init__(self, call: CallOwner, seconds: float) -> None:
        self._call = call
        self._seconds = seconds + _TRAVEL

    async def likeness(self, text: str, scope: str) -> Likeness:
        try:
            told = await self._call("likeness", _encode((text, scope)), self._seconds)
        except ApiError:
            raise Away("dispatcher") from None
        likeness, away = msgspec.msgpack.decode(told, type=tuple[Likeness, str])
        if away:
            raise Away(away)
        return likeness


def rating_calls(rates: Rates) -> dict[str, Callable[[Session, bytes], Awaitable[bytes]]]:
    """The owner's side, by verb."""

    async def likeness(_: Session, payload: bytes) -> bytes:
        text, scope = msgspec.msgpack.decode(payload, type=tuple[str, str])
        try:
            return _encode((await rates.likeness(text, scope), ""))
        except Away as away:
            return _encode(({}, str(away)))

    return {"likeness": likeness}


class ByExample:
    """The classifier. `order`: tiers from cheap to dear; `least`: likeness below which nobody knows."""

    def __init__(self, rates: Rates, order: Sequence[str], least: float, *, instead: Classifier, metrics: Metrics) -> None:
        self._rates, self._order, self._least = rates, tuple(order), least
        self._instead, self._metrics = instead, metrics

    async def judge(self, body: Mapping[str, Any], endpoint: str, tenant: str) -> Verdict:
        text = words(body, endpoint, MOST)
        if not text:
            return replace(self._instead.classify(body, endpoint), instead="no_text")
        try:
            found = examples.verdict(await self._rates.likeness(text, tenant), self._order, self._least)
        except Away as away:
            self._metrics.classified.add((str(away),))
            return replace(self._instead.classify(body, endpoint), instead=str(away))
        self._metrics.classified.add(("unknown" if found.score is None else "answered",))
        return found

    async def run(self) -> None:
        await self._rates.run()
