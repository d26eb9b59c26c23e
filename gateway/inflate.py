"""Request bodies that come compressed: `content-encoding: gzip` and `deflate`.

A few kilobytes can hold gigabytes, so the output is bounded while it is made, by the same bound as a plain body. The first
piece, which is all of nearly every body, is made at once; the rest in a worker thread, where zlib lets the loop run on.
"""

from __future__ import annotations

import asyncio
import zlib
from typing import Any

from gateway.errors import ApiError

AT_ONCE = 262_144  # of output: under a millisecond
_PIECE = 1_048_576
_SLICE = 65_536  # of input: what a step leaves of it is copied
_MAX_MEMBERS = 64  # a gzip file may be several, one after the other; each may be empty
_WINDOWS = {b"gzip": 31, b"x-gzip": 31, b"deflate": 15}
_RAW = -15


def encoding_of(value: bytes) -> bytes | None:
    """The encoding that a `content-encoding` names; None for none. ApiError 415 for one that is not read here."""
    encoding = value.strip().lower()
    if encoding in (b"", b"identity"):
        return None
    if encoding not in _WINDOWS:
        message = "Send the request body plain, or with content-encoding gzip or deflate."
        raise ApiError(415, "unsupported_encoding", message, headers={"accept-encoding": "gzip, deflate"})
    return encoding


async def inflate(body: bytes, encoding: bytes, bound: int) -> bytes:
    """The plain body. ApiError 413 when it is over the bound, 400 when it is not what its encoding says."""
    work = _Inflation(body, encoding, bound)
    if not work.step(AT_ONCE):
        await asyncio.to_thread(work.rest)
    return work.result()


class _Inflation:
    """One body under way."""

    def __init__(self, body: bytes, encoding: bytes, bound: int) -> None:
        self._window = _WINDOWS[encoding]
        if encoding == b"deflate" and not _has_zlib_head(body):
            self._window = _RAW
        self._bound = bound
        self._members = 0
        self._pieces: list[bytes] = []
        self._made = 0
        self._body = memoryview(body)
        self._at = 0
        self._stream: Any = None

    def step(self, most: int) -> bool:
        """Make at most so many bytes more; is it done?"""
        end = self._made + most
        try:
            while self._made < end:
                if not self._next_member():
                    return True
                stream, given = self._stream, self._body[self._at : self._at + _SLICE]
                self._add(piece := stream.decompress(given, end - self._made))
                taken = len(given) - len(stream.unconsumed_tail) - len(stream.unused_data)
                self._at += taken
                if not (taken or piece or stream.eof):
                    raise _broken("it is cut short")
        except zlib.error:
            raise _broken("it is damaged, or is of another encoding") from None
        return not self._next_member()

    def rest(self) -> None:
        while not self.step(_PIECE):
            pass

    def result(self) -> bytes:
        return self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)

    def _next_member(self) -> bool:
        """Is there a member to go on with? False at the end of the last one."""
        if self._stream is not None and not self._stream.eof:
            return True
        if self._members and self._at == len(self._body):
            return False
        if self._members and self._window != _WINDOWS[b"gzip"]:
            raise _broken("something follows its end")
        self._members += 1
        if self._members > _MAX_MEMBERS:
            raise _broken(f"it has more than {_MAX_MEMBERS} members")
        self._stream = zlib.decompressobj(self._window)
        return True

    def _add(self, piece: bytes) -> None:
        self._made += len(piece)
        if self._made > self._bound:
            message = f"The decompressed request body is over this gateway's limit of {self._bound} bytes."
            raise ApiError(413, "body_too_large", message)
        if piece:
            self._pieces.append(piece)


def _has_zlib_head(body: bytes) -> bool:
    """`deflate` means zlib's format (RFC 9110); some clients send it without zlib's two bytes in front."""
    return len(body) >= 2 and body[0] & 15 == 8 and (body[0] << 8 | body[1]) % 31 == 0


def _broken(what: str) -> ApiError:
    return ApiError(400, "invalid_encoding", f"The compressed request body cannot be read: {what}.")
