"""The answer of a provider, as the code that asked for it sees it: what `backends.answer.Answer` is for a socket.

It is pulled, chunk by chunk, by whoever relays it: nothing is read ahead, and while it is paused the library is not asked for
more, and only the deadline in all runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from backends.alarm import Deadlines
from backends.answer import Opens
from backends.errors import BadResponse, Phase, UpstreamTimeout
from backends.litellm.events import DONE, Events
from backends.litellm.failures import broken
from backends.litellm.library import Chunks


@dataclass(slots=True)
class Rest:
    """What follows the first event of a stream."""

    chunks: Chunks
    events: Events

    async def opening(self) -> bytes:
        """All up to the first event that says something. Empty when none does: the library makes an answer of any garbage."""
        opening = b""
        while not self.events.said and (piece := await self.next()):
            opening += piece
        return opening if self.events.said or self.events.counted else b""

    async def next(self) -> bytes:
        """The next event; empty at the end."""
        chunk = await anext(self.chunks, None)
        return b"" if chunk is None else self.events.write(chunk)


class LiteLLMAnswer:
    """As `backends.answer.Answer`."""

    __slots__ = ("_deadlines", "_gate", "_held", "_rest", "complete", "headers", "status")

    def __init__(
        self, status: int, headers: list[tuple[bytes, bytes]], held: bytes, rest: Rest | None, deadlines: Deadlines
    ) -> None:
        self.status = status
        self.headers = headers
        self.complete = rest is None
        self._held = held
        self._rest = rest
        self._deadlines = deadlines
        self._gate: asyncio.Event | None = None  # closed while paused

    async def read(self, limit: int) -> bytes:
        """The whole body. A longer one than `limit` is a BadResponse."""
        pieces: list[bytes] = []
        size = 0
        while piece := await self.first():
            size += len(piece)
            if size > limit:
                raise BadResponse("the body is too long")
            pieces.append(piece)
        return b"".join(pieces)

    async def first(self) -> bytes:
        """The next piece. Empty only at the end."""
        if self._held:
            held, self._held = self._held, b""
            return held
        return await self._next()

    async def relay(
        self,
        sink: Callable[[bytes], None],
        frames: Callable[[bytes], bool] | None = None,  # noqa: ARG002 - here nothing comes in HTTP chunks
    ) -> None:
        while piece := await self.first():
            sink(piece)

    async def relay_if(self, opens: Opens, sink: Callable[[bytes], None], frames: Callable[[bytes], bool] | None = None) -> bool:
        piece = await self.first()
        if not opens(piece):
            self._held = piece
            return False
        await self.relay(sink, frames)
        return True

    def pause(self) -> None:
        if not self.complete and self._gate is None:
            self._gate = asyncio.Event()

    def resume(self) -> None:
        if self._gate is not None:
            self._gate.set()
            self._gate = None

    async def _next(self) -> bytes:
        if self._rest is None:
            return b""
        if self._gate is not None:
            await self._paused(self._gate)
        total, span = self._deadlines.total_at, self._deadlines.between_tokens
        at = total if span is None else min(total, asyncio.get_running_loop().time() + span)
        timer = asyncio.timeout_at(at)
        try:
            async with timer:
                piece = await self._rest.next()
        except Exception as error:  # noqa: BLE001 - the edge to the library: whatever it raises ends the stream
            phase: Phase = "total" if at == total else "between_tokens"
            failure = UpstreamTimeout(phase, sent=True) if timer.expired() else broken(error)
        else:
            return piece or self._end(self._rest)
        try:
            raise failure
        finally:
            del failure  # it refers to this frame

    async def _paused(self, gate: asyncio.Event) -> None:
        try:
            async with asyncio.timeout_at(self._deadlines.total_at):
                await gate.wait()
        except TimeoutError:
            raise UpstreamTimeout("total", sent=True) from None

    def _end(self, rest: Rest) -> bytes:
        self.complete, self._rest = True, None
        return DONE if rest.events.finished else b""
