"""Requests of the gateway's own: to verify what its caches serve. They pay with nobody's balance, and wait like everybody.

They go the way of every request from the queue on: a slot of the pool, a replica's lease, the forwarder.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping, Sequence

import msgspec

from caches.breaker import Breaker, BreakerOpen
from gateway.behind import Gathered
from gateway.call import Call, ContextOverflow, Failures, Station, Unserved
from gateway.dispatch.types import Dispatcher, NoReplica, WorkAsk
from gateway.endpoints import BY_NAME
from gateway.errors import ApiError
from gateway.exchange import Work
from gateway.forward import Forwarder
from gateway.refusals import REFUSED
from gateway.relay import json_object
from limits.waiting import Priority, QueueTimeout
from routing.resolve import Catalog

_HEADERS = b"content-type: application/json\r\naccept-encoding: identity\r\n"
_OWN = "tiergate"  # in the queue, beside tenants

Message = Mapping[str, str]


class Unheard(Exception):  # noqa: N818 - it names what happened
    """A model has said nothing that can be read. `reason`: `timeout`, `breaker` or `failed`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


_FAILED: tuple[type[Exception], ...] = (TimeoutError, Unheard, Unserved, NoReplica, ContextOverflow, *REFUSED)


class Inner:
    """Short questions to a model, under a deadline and a breaker for each model."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        catalog: Catalog,
        stations: Mapping[str, Station],
        forwarder: Forwarder,
        clock: Callable[[], float],
    ) -> None:
        self._dispatcher = dispatcher
        self._catalog = catalog
        self._stations = stations
        self._forwarder = forwarder
        self._clock = clock
        self._breakers: dict[str, Breaker] = {}

    async def ask(self, model: str, messages: Sequence[Message], *, max_tokens: int, seconds: float, priority: Priority) -> str:
        """What it says. Raises Unheard."""
        body = {"messages": messages, "max_tokens": max_tokens, "temperature": 0}
        breaker = self._breakers.get(model)
        if breaker is None:
            breaker = self._breakers[model] = Breaker(self._clock, random.Random())
        ends = self._clock() + seconds
        try:
            with breaker.attempt():
                return _said(await self.post("chat", model, body, seconds=seconds, priority=priority))
        except BreakerOpen:
            raise Unheard("breaker") from None
        except _FAILED as error:
            late = isinstance(error, TimeoutError | QueueTimeout) or self._clock() >= ends
            raise Unheard("timeout" if late else "failed") from error

    async def post(self, endpoint: str, model: str, fields: Mapping[str, object], *, seconds: float, priority: Priority) -> bytes:
        """The body of its answer. Raises what a request may raise, and TimeoutError."""
        target = self._catalog.resolve(model, endpoint, lambda _: True).candidates[0]
        station, sink = self._stations[target.model.name], Gathered()
        call = Call(
            request_id=_OWN,
            endpoint=BY_NAME[endpoint],
            headers=_HEADERS,
            body=msgspec.json.encode({"model": target.served_name, **fields}),
            model=target.served_name,
            stream=False,
            deadline=self._clock() + seconds,
            work=Work(),
            impatient=True,
        )
        async with (
            asyncio.timeout(seconds),
            self._dispatcher.admit(()) as ticket,
            ticket.work(_ask_of(station, call, priority)) as grant,
        ):
            try:
                await self._forwarder.forward(call, station, grant, sink, Failures())
            finally:
                grant.settle(0)
        if not sink.whole:
            raise ApiError(502, "answer_too_large", "The model's answer is longer than was asked for.")
        return b"".join(sink.pieces)


def _ask_of(station: Station, call: Call, priority: Priority) -> WorkAsk:
    return WorkAsk(
        model=station.name,
        tokens=1,
        clamp=True,
        model_scope=None,
        priority=priority,
        tenant=_OWN,
        weight=1,
        size=len(call.body),
        deadline=call.deadline,
        session=None,
        prompt_tokens=len(call.body) // 4,
    )


def _said(body: bytes) -> str:
    answer = json_object(body)
    choices = answer.get("choices") if answer is not None else None
    message = choices[0].get("message") if type(choices) is list and choices and type(choices[0]) is dict else None
    content = message.get("content") if type(message) is dict else None
    if type(content) is not str:
        raise Unheard("failed")
    return content
