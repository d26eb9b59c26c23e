"""The answer to one request, as the code that asked for it sees it.

The connection pushes from below (`begin`, `push`, `end`, `fail`), synchronously and from inside the read callback; the
caller pulls from above (`read`, or `first` and then `relay`). Neither side waits for the other to be scheduled.

Rules:
- Until somebody reads, at most `HOLD` bytes of body are held; then the socket is not read any more.
- Bytes that arrived before a failure are handed out before the failure is raised.
- Once `complete` or failed, an answer never touches its connection again: that may be serving another request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from backends.errors import BadResponse

HOLD = 262_144  # one full read of the event loop; more waits in the kernel, where it pushes back on the peer

_HEAD, _BODY, _END = 1, 2, 3  # how far an answer has come, and how far a waiter wants it


Opens = Callable[[bytes], bool]
"""Whether it took the first bytes of a body."""


class Line(Protocol):
    """What an answer asks of the connection that it arrives on."""

    def halt(self) -> None: ...
    def proceed(self) -> None: ...
    def abort(self) -> None: ...


class Answer:
    """Status, headers (names in lower case, as received) and a body that is still arriving."""

    __slots__ = (
        "_error",
        "_full",
        "_held",
        "_limit",
        "_line",
        "_loop",
        "_paused",
        "_sink",
        "_size",
        "_waiter",
        "_want",
        "complete",
        "frames",
        "headers",
        "relayed",
        "status",
    )

    def __init__(self, line: Line, loop: asyncio.AbstractEventLoop, sink: Callable[[bytes], None] | None = None) -> None:
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.complete = False
        self.relayed = False  # pieces go to a sink, and only the end is waited for
        self.frames: Callable[[bytes], bool] | None = None
        self._line = line
        self._loop = loop
        self._held: list[bytes] = []
        self._size = 0
        self._limit: int | None = None
        self._sink = sink  # given from the start: then nothing is ever held
        self._error: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._want = 0
        self._paused = False
        self._full = False

    # ---- the caller's side

    async def read(self, limit: int) -> bytes:
        """The whole body. A longer one than `limit` is a BadResponse, and is not read to its end."""
        if self.complete and self._size <= limit:
            return self._take()
        self._limit = limit
        if self._size > limit:
            self._overflow()
        if self.complete and self._size > limit:
            raise BadResponse("the body is too long")
        if self.open:
            self._empty()
            await self._until(_END)
        if self._error is not None:
            raise self._told()
        return self._take()

    async def first(self) -> bytes:
        """The first body bytes: all that arrived by now. Empty only when the body is."""
        if not self._held and self.open:
            await self._until(_BODY)
        if not self._held and self._error is not None:
            raise self._told()
        return self._take()

    async def relay(self, sink: Callable[[bytes], None], frames: Callable[[bytes], bool] | None = None) -> None:
        """Hand every further piece of the body to `sink`, from inside the read callback; return at the end of the body.

        `frames` is shown each read that begins where a chunk does, before it is parsed. True: it was one whole chunk or several,
        and is dealt with. It raises nothing but what ends the answer.
        """
        if self._held:
            sink(self._take())
        await self._rest(sink, frames)

    async def relay_if(self, opens: Opens, sink: Callable[[bytes], None], frames: Callable[[bytes], bool] | None = None) -> bool:
        """`relay`, of a body whose first bytes `opens` is shown in place of the sink. False once it did not take them: they are
        still there for `first` and `read`; so it is when the body is empty.
        """
        if self._held:
            piece = self._take()
            if not opens(piece):
                self._keep(piece)
                return False
            await self._rest(sink, frames)
            return True
        opened = False

        def first(piece: bytes) -> None:
            nonlocal opened
            waiter = self._waiter
            opened = waiter is not None and not waiter.done() and opens(piece)  # done: cancelled, and it has not heard of it yet
            if opened:
                self._sink, self.frames = sink, frames
            else:
                self._sink, self.relayed, self._want = None, False, _BODY
                self._keep(piece)

        try:
            await self._rest(first, None)
        finally:
            if not opened:
                self._sink = None  # it refers to us
        return opened

    async def _rest(self, sink: Callable[[bytes], None], frames: Callable[[bytes], bool] | None) -> None:
        if self.open:
            self._sink = sink
            self.frames = frames
            self.relayed = True
            await self._until(_END)
        if self._error is not None and not self._held:
            raise self._told()

    def pause(self) -> None:
        """Stop reading from the socket. A piece that was already read may still come."""
        if self.open and not self._paused:
            self._paused = True
            if not self._full:
                self._line.halt()

    def resume(self) -> None:
        if self._paused and self.open:  # of a complete one `halted` stays true: `release` resumes the socket
            self._paused = False
            if not self._full:
                self._line.proceed()

    @property
    def open(self) -> bool:
        """More may come."""
        return not self.complete and self._error is None

    @property
    def halted(self) -> bool:
        """The socket is not being read."""
        return self._paused or self._full

    # ---- the connection's side

    async def begun(self) -> Answer:
        """Wait for the head."""
        self._want = _HEAD
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None
        if not self.status and self._error is not None:
            raise self._told()
        return self

    def push(self, piece: bytes) -> None:
        """The body bytes of one read."""
        sink = self._sink
        if sink is None:
            self._keep(piece)
            return
        try:
            sink(piece)
        except Exception as error:  # noqa: BLE001 - the caller's code: its error is raised where the caller waits
            self.fail(error)

    def _keep(self, piece: bytes) -> None:
        self._held.append(piece)
        self._size += len(piece)
        if self._size > (HOLD if self._limit is None else self._limit):
            self._overflow()

    def tell(self) -> None:
        """Wake the caller if what it waits for is there; once per read, so that a small answer costs one wake-up."""
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            stage = _END if self.complete else _BODY if self._held else _HEAD if self.status else 0
            if stage >= self._want:
                waiter.set_result(None)

    def fail(self, error: Exception) -> None:
        """No more will come. The caller learns of it when it has taken what is held."""
        if self.open:
            self._error = error
            self._line.abort()
            if self._waiter is not None and not self._waiter.done():
                self._waiter.set_result(None)

    # ---- between the two

    def _told(self) -> Exception:
        """The failure, to be raised: kept here it would hold, by its traceback, the frames that hold us."""
        error, self._error = self._error, ConnectionError("the failure was told already")
        assert error is not None
        return error

    async def _until(self, stage: int) -> None:
        self._want = stage
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _take(self) -> bytes:
        held = self._held
        body = held[0] if len(held) == 1 else b"".join(held)
        held.clear()
        self._size = 0
        if self._full:
            self._empty()
        return body

    def _empty(self) -> None:
        if self._full and self.open:  # likewise
            self._full = False
            if not self._paused:
                self._line.proceed()

    def _overflow(self) -> None:
        if self._limit is not None:
            self.fail(BadResponse("the body is too long"))
        elif not self._full and self.open:
            self._full = True
            if not self._paused:
                self._line.halt()
