"""What calls the gateways: connections that stay open, prompts that were never sent before, and the time each answer took."""

from __future__ import annotations

import asyncio
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

import httptools

from bench.upstream import USUAL, Paced

KEY = "tg-bench-key"
CONNECTIONS = 32
USUAL_SIZE = 500
# English, which tiergate's rules can rate; of a language that they do not know they read less.
_FILLER = (
    b"The team met on Monday to talk about the new office. Rent is lower there, the trains are close, and the lease runs for "
    b"five years. Some would rather stay, since they can walk to work today. A vote is planned for the end of the month. "
)


@dataclass(frozen=True, slots=True)
class Target:
    """Where requests go and how they have to look there."""

    port: int
    model: str
    headers: Mapping[str, str] = field(default_factory=dict)
    also: tuple[str, ...] = ()  # models that have their turn after the first
    keys: Sequence[str] = (KEY,)  # which all have their turn

    def fields(self, key: str = KEY) -> dict[str, str]:
        return {"host": "bench", "content-type": "application/json", "authorization": f"Bearer {key}", **self.headers}

    def head(self, key: str = KEY) -> bytes:
        """All of a request but its length and its body."""
        lines = "".join(f"{name}: {value}\r\n" for name, value in self.fields(key).items())
        return b"POST /v1/chat/completions HTTP/1.1\r\n" + lines.encode()


class Turns:
    """The head and the model of one request after the other: the models take turns, and so do the keys, with each model alike."""

    def __init__(self, target: Target) -> None:
        self._heads = [target.head(key) for key in target.keys]
        self._models = (target.model, *target.also)

    def of(self, number: int) -> tuple[bytes, str]:
        """Of the request of this number, from 0."""
        heads, models = self._heads, self._models
        shift = number // math.lcm(len(heads), len(models))
        return heads[number % len(heads)], models[(number + shift) % len(models)]


@dataclass(frozen=True, slots=True)
class Load:
    requests: int
    connections: int = CONNECTIONS
    stream: Paced | None = None
    size: int = USUAL_SIZE
    spread: float = 0.0  # seconds over which the connections begin


@dataclass(frozen=True, slots=True)
class Taken:
    """Milliseconds from the request's last byte written to the answer's end, and to the first event of a stream."""

    whole: list[float]
    first: list[float]


class Bodies:
    """Chat requests that no cache and no prefix tree has seen."""

    def __init__(self) -> None:
        self.number = 0
        self.salt = os.urandom(4).hex()

    def next(self, model: str, *, stream: Paced | None = None, size: int = USUAL_SIZE) -> bytes:
        self.number += 1
        streamed = '"stream":true,' if stream else ""
        paced = f" ({stream.told()})" if stream is not None and stream != USUAL else ""
        head = (
            f'{{"model":"{model}","temperature":0,{streamed}"messages":[{{"role":"system","content":'
            f'"You are the assistant of team {self.salt}-{self.number}.{paced}"}},{{"role":"user","content":"'
            "Summarize the following text in two sentences. "
        ).encode()
        room = size - len(head) - 4
        return head + (_FILLER * (room // len(_FILLER) + 1))[: max(0, room)] + b'"}]}'


class Same(Bodies):
    """The same request again and again, of each model: after the first, an exact cache has the answer."""

    def next(self, model: str, *, stream: Paced | None = None, size: int = USUAL_SIZE) -> bytes:
        sent, self.number = self.number, 0
        body = super().next(model, stream=stream, size=size)
        self.number = sent + 1
        return body


class Caller(asyncio.Protocol):
    """One client connection: sends a request when told, says when the answer has ended."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is one without inheriting from it
        self.done: asyncio.Future[int] | None = None
        self.first = 0.0  # when the first piece of a body came
        self.size = self.events = 0

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the protocol's
        self._fail(ConnectionError("the peer closed the connection"))

    def data_received(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(ConnectionError(f"the peer sent no HTTP: {error}"))

    def on_body(self, piece: bytes) -> None:
        if not self.first:
            self.first = time.perf_counter()
        self.size += len(piece)
        self.events += piece.count(b"data:")

    def on_message_complete(self) -> None:
        if self.done is not None and not self.done.done():
            self.done.set_result(self.parser.get_status_code())

    def _fail(self, error: ConnectionError) -> None:
        if self.done is not None and not self.done.done():
            self.done.set_exception(error)

    async def call(self, head: bytes, body: bytes, *, stream: Paced | None) -> tuple[float, float]:
        """Send and wait for the end; milliseconds to the end and to the first piece of the body."""
        if self.transport.is_closing():
            raise ConnectionError("the peer closed the connection")
        self.parser = httptools.HttpResponseParser(self)
        self.done = asyncio.get_running_loop().create_future()
        self.first, self.size, self.events = 0.0, 0, 0
        began = time.perf_counter()
        self.transport.write(b"%bcontent-length: %d\r\n\r\n%b" % (head, len(body), body))
        status = await self.done
        ended = time.perf_counter()
        self._check(status, stream)
        return (ended - began) * 1e3, ((self.first or ended) - began) * 1e3

    def _check(self, status: int, stream: Paced | None) -> None:
        """A gateway that answers fast because it does not answer is not to win."""
        if status != 200:
            raise RuntimeError(f"the peer answered {status}")
        if stream is not None and self.events < stream.tokens * 0.9:  # an event's name that two reads share is not counted
            raise RuntimeError(f"a stream had {self.events} events instead of {stream.tokens}")
        if stream is None and self.size < 300:
            raise RuntimeError(f"an answer had {self.size} bytes")


async def drive(target: Target, bodies: Bodies, load: Load, protocol: Callable[[], Caller] = Caller) -> Taken:
    """Send the load's requests over its connections, each the next one as soon as it has its answer."""
    loop = asyncio.get_running_loop()
    turns = Turns(target)
    left = load.requests
    taken = Taken([], [])
    callers: list[Caller] = []

    async def work(number: int, caller: Caller) -> None:
        nonlocal left
        await asyncio.sleep(number * load.spread / load.connections)
        while left > 0:
            left -= 1
            head, model = turns.of(bodies.number)
            body = bodies.next(model, stream=load.stream, size=load.size)
            whole, first = await caller.call(head, body, stream=load.stream)
            taken.whole.append(whole)
            taken.first.append(first)

    try:
        for _ in range(load.connections):
            _, caller = await loop.create_connection(protocol, "127.0.0.1", target.port)
            callers.append(caller)
        async with asyncio.TaskGroup() as group:
            for number, caller in enumerate(callers):
                group.create_task(work(number, caller))
    except* (OSError, RuntimeError) as errors:
        raise RuntimeError(str(_first(errors))) from None
    finally:
        for caller in callers:
            caller.transport.abort()
    return taken


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    error = errors.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error
