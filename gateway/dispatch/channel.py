"""Whole messages over a Unix socket, as both ends of it see them: a worker and the dispatcher.

On the wire a message is a frame: its length in 4 bytes, little-endian, then that many bytes. An empty one means nothing, so there
is none.

Rules of this file
1. One write for all that a tick of the loop has to say, and one call for all that one read brought: the kernel and the loop cost
   more than a message does, so many messages share them.
2. Messages go out in the order of the calls, `send` and `tell` alike.
3. No timer is made for a message. There is at most one, and it only looks whether anything is left to go.
4. Nothing waits here, so everything is bounded: a frame by `max_frame`, what a peer leaves unread by `max_buffer` (and the one
   message that went over it). Past either the connection is of no use, and ends.
5. `on_closed` comes once for each connection that was made, from the loop and never from within a call of ours.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from collections.abc import Callable
from functools import partial
from typing import Final, cast

MIB: Final = 1024 * 1024
_HEAD: Final = 4
_pack = struct.Struct("<I").pack
_unpack_from = struct.Struct("<I").unpack_from
_SMALL: Final = 4096  # pieces of a message below it are put together, so that single bytes take no more room than others
_JOINED: Final = 65_536  # up to here copying the messages of a tick into one piece is cheaper than handing over many

_log = logging.getLogger("tiergate.dispatch")


class Channel(asyncio.Protocol):
    """One end of a connection. `on_frames` is called with the whole messages of one read, in order; if it fails, the loop closes.

    A plain protocol: asking for a buffer and cutting views of it costs more than the copy that a BufferedProtocol would save.
    """

    __slots__ = ("_before_flush", "_due", "_head", "_loop", "_max_buffer", "_max_frame", "_missing", "_on_closed", "_on_frames",
                 "_on_writable", "_out", "_patience", "_pieces", "_pressing", "_queued", "_timer", "_transport", "closed",
                 "writable", "writes")  # fmt: skip

    def __init__(
        self,
        on_frames: Callable[[list[bytes]], None],
        on_closed: Callable[[], None],
        *,
        on_writable: Callable[[], None] | None = None,
        before_flush: Callable[[], None] | None = None,
        max_frame: int = 80 * MIB,
        max_buffer: int = 64 * MIB,
        patience: float = 0.001,
    ) -> None:
        self.closed = True  # nothing that is sent now goes anywhere: not connected yet, or not any more
        self.writable = True  # False while the peer is slow to read: better send nothing that can wait
        self.writes = 0  # so far
        self._on_frames = on_frames
        self._on_closed = on_closed
        self._on_writable = on_writable
        self._before_flush = before_flush  # called before what was said leaves
        self._max_frame = max_frame
        self._max_buffer = max_buffer
        self._patience = patience
        self._loop: asyncio.AbstractEventLoop
        self._transport: asyncio.Transport | None = None
        self._out: list[bytes] = []  # heads and payloads by turns
        self._queued = 0  # bytes of them
        self._pressing = False  # one of them was sent, not told
        self._due = False  # the end of this tick is about to look at them
        self._timer: asyncio.TimerHandle | None = None
        self._head = b""  # of a frame, when a read ended in it
        self._pieces: list[bytes] = []  # of the payload of a frame that is not whole
        self._missing = 0  # bytes of that payload

    # -- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport = cast(asyncio.Transport, transport)
        self.closed = False

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the protocol's signature; either way it is over
        self._end()
        self._transport = None
        self._pieces = []
        self._on_closed()

    def data_received(self, data: bytes) -> None:
        frames: list[bytes] = []
        at = 0
        if self._missing:
            frames, at = self._continued(data)
        elif self._head:
            data = self._head + data
            self._head = b""
        end = len(data)
        while at + _HEAD <= end:
            size: int = _unpack_from(data, at)[0]
            if not 0 < size <= self._max_frame:
                self._refuse(size)
                return
            at += _HEAD
            if at + size > end:
                self._missing = size - (end - at)
                self._keep(data[at:])
                break
            frames.append(data[at : at + size])
            at += size
        else:
            self._head = data[at:]
        if frames:
            self._due = True  # what this brings about goes out behind it, within this tick: the tasks that it wakes run before
            try:
                self._on_frames(frames)
            finally:
                self._loop.call_soon(self._end_of_tick)

    def pause_writing(self) -> None:
        self.writable = False

    def resume_writing(self) -> None:
        self.writable = True
        if self._on_writable is not None:
            self._on_writable()

    # -- what is said

    def send(self, payload: bytes) -> None:
        """Say it at the end of this tick. On a closed channel nobody hears it."""
        if self._add(payload):
            self._pressing = True
            if not self._due:
                self._due = True
                self._loop.call_soon(self._end_of_tick)

    def tell(self, payload: bytes) -> None:
        """Say it with the next message that is sent, or else when `patience` is over."""
        if self._add(payload) and not self._due and self._timer is None:
            self._timer = self._loop.call_later(self._patience, self._out_of_patience)

    def flush(self) -> None:
        """Say now what is to be said."""
        out, size = self._out, self._queued
        if not out or self._transport is None:
            return
        self._out = []
        self._queued = 0
        if self._before_flush is not None:
            self._before_flush()
        self.writes += 1
        if size <= _JOINED:
            self._transport.write(b"".join(out))
        else:
            self._transport.writelines(out)

    @property
    def pending(self) -> int:
        """Bytes that the kernel has not got yet."""
        return self._queued + (self._transport.get_write_buffer_size() if self._transport is not None else 0)

    def close(self) -> None:
        """Close when all that was said is out; a peer that does not read can delay that for as long as it likes."""
        if not self.closed:
            self.flush()
            self._end()
            cast(asyncio.Transport, self._transport).close()

    def abort(self) -> None:
        """Close now, whatever is still to be said, and also when closing has begun."""
        self._end()
        if self._transport is not None:
            self._transport.abort()

    # -- the inside

    def _add(self, payload: bytes) -> bool:
        """Put it behind what is to be said already; False where nobody will hear it."""
        size = len(payload)
        if not 0 < size <= self._max_frame:
            raise ValueError(f"a message of {size} bytes: 1 to {self._max_frame} can be sent")
        if self.closed:
            return False
        if not self.writable and self.pending > self._max_buffer:
            _log.error("a peer left %d bytes unread: the connection is cut", self.pending)
            self.abort()
            return False
        self._out += (_pack(size), payload)
        self._queued += _HEAD + size
        if self._queued > _JOINED:
            self.flush()  # so that `writable` is true to what is on its way
        return True

    def _end_of_tick(self) -> None:
        self._due = False
        if self._pressing:
            self._pressing = False
            self.flush()
        elif self._out and self._timer is None:
            self._timer = self._loop.call_later(self._patience, self._out_of_patience)

    def _out_of_patience(self) -> None:
        self._timer = None
        self.flush()

    def _end(self) -> None:
        self.closed = True
        self._out = []
        self._queued = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # -- what is heard

    def _continued(self, data: bytes) -> tuple[list[bytes], int]:
        """What earlier reads left unfinished: its message if it is whole now, and where the next one begins in `data`."""
        missing = self._missing - len(data)
        if missing > 0:
            self._missing = missing
            self._keep(data)
            return [], len(data)
        self._pieces.append(data[: self._missing])
        whole = b"".join(self._pieces)
        self._pieces = []
        at, self._missing = self._missing, 0
        return [whole], at

    def _keep(self, data: bytes) -> None:
        pieces = self._pieces
        if pieces and len(data) < _SMALL and len(pieces[-1]) < _SMALL:
            pieces[-1] += data
        else:
            pieces.append(data)

    def _refuse(self, size: int) -> None:
        _log.error("a peer began a message of %d bytes, of at most %d: the connection is cut", size, self._max_frame)
        self.abort()


async def connect(path: str, make_channel: Callable[[], Channel]) -> Channel:
    """A channel to who listens at `path`; OSError if nobody does."""
    _, channel = await asyncio.get_running_loop().create_unix_connection(make_channel, path)
    return channel


async def listen(at: socket.socket | str, make_channel: Callable[[], Channel]) -> asyncio.AbstractServer:
    """Channels of whoever connects, at a path or on a socket that is bound already.

    Such a socket belongs to who bound it: its path outlives this listener, so that the next one can take its place.
    """
    loop = asyncio.get_running_loop()
    if isinstance(at, str):
        return await loop.create_unix_server(make_channel, at)
    listening = partial(loop.create_unix_server, make_channel, sock=at)
    try:
        return await listening(cleanup_socket=False)  # type: ignore[call-arg] # not every version has it
    except TypeError:  # asyncio before 3.13 does not know the word, and lets every path be
        return await listening()
