"""What calls the gateways: connections that stay open, prompts that were never sent before, and the time each answer took."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

import httptools

from bench.upstream import TOKENS

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

    def fields(self) -> dict[str, str]:
        return {"host": "bench", "content-type": "application/json", "authorization": f"Bearer {KEY}", **self.headers}

    def head(self) -> bytes:
        """All of a request but its length and its body."""
        lines = "".join(f"{name}: {value}\r\n" for name, value in self.fields().items())
        return b"POST /v1/chat/completions HTTP/1.1\r\n" + lines.encode()


@dataclass(frozen=True, slots=True)
class Load:
    requests: int
    connections: int = CONNECTIONS
    stream: bool = False
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

    def next(self, model: str, *, stream: bool = False, size: int = USUAL_SIZE) -> bytes:
        self.number += 1
        streamed = '"stream":true,' if stream else ""
        head = (
            f'{{"model":"{model}","temperature":0,{streamed}"messages":[{{"role":"system","content":'
            f'"You are the assistant of team {self.salt}-{self.number}."}},{{"role":"user","content":"'
            "Summarize the following text in two sentences. "
        ).encode()
        room = size - len(head) - 4
        return head + (_FILLER * (room // len(_FILLER) + 1))[: max(0, room)] + b'"}]}'


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

    async def call(self, head: bytes, body: bytes, *, stream: bool) -> tuple[float, float]:
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
        self._check(status, stream=stream)
        return (ended - began) * 1e3, ((self.first or ended) - began) * 1e3

    def _check(self, status: int, *, stream: bool) -> None:
        """A gateway that answers fast because it does not answer is not to win."""
        if status != 200:
            raise RuntimeError(f"the peer answered {status}")
        if stream and self.events < TOKENS * 0.9:  # an event's name that two reads share is not counted
            raise RuntimeError(f"a stream had {self.events} events instead of {TOKENS}")
        if not stream and self.size < 300:
            raise RuntimeError(f"an answer had {self.size} bytes")


async def drive(target: Target, bodies: Bodies, load: Load) -> Taken:
    """Send the load's requests over its connections, each the next one as soon as it has its answer."""
    loop = asyncio.get_running_loop()
    head = target.head()
    left = load.requests
    taken = Taken([], [])
    callers: list[Caller] = []

    async def work(number: int, caller: Caller) -> None:
        nonlocal left
        await asyncio.sleep(number * load.spread / load.connections)
        while left > 0:
            left -= 1
            body = bodies.next(target.model, stream=load.stream, size=load.size)
            whole, first = await caller.call(head, body, stream=load.stream)
            taken.whole.append(whole)
            taken.first.append(first)

    try:
        for _ in range(load.connections):
            _, caller = await loop.create_connection(Caller, "127.0.0.1", target.port)
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
