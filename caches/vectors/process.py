"""The engine's process, from outside: started, asked, ended. One object is one life of it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import cast

import msgspec

from caches.vectors import asks
from caches.vectors.engine import Setup
from caches.vectors.faults import Declined

_AT_ONCE = 4  # asks with the engine: it never waits for the next one
_KILL_SECONDS = 5.0  # until the system has taken a killed process away; not longer, should somebody else have waited for it


class EngineGone(Exception):  # noqa: N818 - it names what happened
    """The process has ended, or does not begin; `told`: it said why."""

    def __init__(self, why: str, *, told: bool = False) -> None:
        super().__init__(why)
        self.told = told


class EngineError(Exception):
    """The engine answered with an error."""


class EngineProcess:
    """`hello` is what it said when it began."""

    def __init__(self, process: asyncio.subprocess.Process, line: _Line, steady: Callable[[], float], hello: asks.Hello) -> None:
        self._process = process
        self._line = line
        self._steady = steady
        self.hello = hello

    @classmethod
    async def start(cls, setup: Setup, steady: Callable[[], float]) -> EngineProcess:
        """Raises EngineGone and OSError."""
        ours, theirs = socket.socketpair()
        line = _Line(steady)
        with theirs:
            try:
                await asyncio.get_running_loop().create_unix_connection(lambda: line, sock=ours)
            except BaseException:
                ours.close()
                raise
            process = await _spawned(setup, theirs.fileno(), line)
        try:
            hello = _welcome(await line.hello)
        except BaseException:
            await _ended(process, line, 0.0)
            raise
        return cls(process, line, steady, hello)

    @property
    def alive(self) -> bool:
        return not self._line.closed and self._line.damage is None

    @property
    def damage(self) -> str | None:
        """What it could not read of what it had written; it ends then. Also when nobody waits for the answer any more."""
        return self._line.damage

    @property
    def died_reading(self) -> bool:
        """It ended while it had something to read for somebody."""
        return self._line.died_reading

    @property
    def queued(self) -> int:
        """How many wait for their ask to be sent."""
        return self._line.queued

    def silent_for(self) -> float:
        """Seconds since it last answered, while it has something to answer."""
        return self._steady() - self._line.heard_at if self._line.waiting else 0.0

    async def ask(self, ask: asks.Ask, patience: float) -> msgspec.Raw:
        """Waits for its turn for `patience` seconds. Raises EngineGone, EngineError and Declined."""
        reply = await self._line.ask(ask, patience)
        if reply.declined is not None:
            raise Declined(reply.declined)
        if reply.error is not None:
            raise EngineError(reply.error)
        return reply.answer

    async def end(self, seconds: float) -> None:
        await _ended(self._process, self._line, seconds)


class _Line(asyncio.Protocol):
    """Frames out, frames in. A few asks are with the engine at a time, and the others wait here, in their order: one whose asker
    has left by then is never sent, so what comes late does not make what follows late too.
    """

    def __init__(self, steady: Callable[[], float]) -> None:
        self.hello: asyncio.Future[asks.Hello] = asyncio.get_running_loop().create_future()
        self.hello.add_done_callback(lambda done: done.cancelled() or done.exception())  # heard, also when nobody waits any more
        self.waiting: dict[int, asyncio.Future[asks.Reply]] = {}
        self.reads: set[int] = set()  # of them, those that write nothing
        self.closed = False
        self.died_reading = False
        self.damage: str | None = None
        self.queued = 0
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self.heard_at = steady()
        self._steady = steady
        self._transport: asyncio.Transport | None = None
        self._number = 0
        self._held = bytearray()
        self._replies = msgspec.msgpack.Decoder(asks.Reply)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by name

    def data_received(self, data: bytes) -> None:
        self._held += data
        self.heard_at = self._steady()
        head = asks.LENGTH.size
        while len(self._held) >= head:
            end = head + asks.LENGTH.unpack_from(self._held)[0]
            if len(self._held) < end:
                return
            self._frame(bytes(self._held[head:end]))
            del self._held[:end]

    def connection_lost(self, _: Exception | None) -> None:
        self.closed = True
        self.died_reading = bool(self.reads)
        gone = EngineGone("the engine's process has ended")
        if not self.hello.done():
            self.hello.set_exception(gone)
        for future in self.waiting.values():
            if not future.done():
                future.set_exception(gone)
            self._turns.release()
        self.waiting.clear()

    async def ask(self, ask: asks.Ask, patience: float) -> asks.Reply:
        await self._turn(patience)
        if self.closed or self._transport is None:
            self._turns.release()
            raise EngineGone("the engine's process has ended")
        frame = asks.framed(asks.Call(self._number, ask))
        if not self.waiting:
            self.heard_at = self._steady()  # its silence until now was none
        future: asyncio.Future[asks.Reply] = asyncio.get_running_loop().create_future()
        self.waiting[self._number] = future  # stays there when its asker leaves: the engine still works at it
        if isinstance(ask, asks.Search | asks.Fetch) or (isinstance(ask, asks.Page) and not ask.delete):
            self.reads.add(self._number)
        self._number += 1
        self._transport.write(frame)
        return await future

    async def _turn(self, patience: float) -> None:
        if not self._turns.locked():
            await self._turns.acquire()
            return
        self.queued += 1
        try:
            async with asyncio.timeout(patience):
                await self._turns.acquire()
        except TimeoutError:
            raise Declined("overload") from None  # a burst says nothing against the engine
        finally:
            self.queued -= 1

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _frame(self, frame: bytes) -> None:
        if not self.hello.done():
            self.hello.set_result(msgspec.msgpack.decode(frame, type=asks.Hello))
            return
        reply = self._replies.decode(frame)
        if reply.damaged:
            self.damage = reply.error
        future = self.waiting.pop(reply.number)
        self.reads.discard(reply.number)
        self._turns.release()
        if not future.done():
            future.set_result(reply)


def _welcome(hello: asks.Hello) -> asks.Hello:
    if hello.refused is not None:
        raise EngineGone(hello.refused, told=True)
    return hello


async def _spawned(setup: Setup, descriptor: int, line: _Line) -> asyncio.subprocess.Process:
    root = str(Path(__file__).parents[2])  # where this very package is found
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    command = (sys.executable, "-P", "-m", "caches.vectors.engine", str(descriptor), msgspec.json.encode(setup).decode())
    try:
        return await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            pass_fds=(descriptor,),
            env={**os.environ, "PYTHONPATH": path},
        )
    except BaseException:
        line.close()
        raise


async def _ended(process: asyncio.subprocess.Process, line: _Line, seconds: float) -> None:
    """Also when cancelled: then at once."""
    line.close()
    try:
        async with asyncio.timeout(seconds):
            await process.wait()
    except TimeoutError:
        pass
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError, TimeoutError):
                process.kill()
                async with asyncio.timeout(_KILL_SECONDS):
                    await process.wait()
