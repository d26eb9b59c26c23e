"""One JSON line a request, to standard output.

Lines are encoded on the loop (2 µs) and written by a thread, ten times a second: a log reader that stands still
must not stop the tokens. What does not fit the buffer is dropped and counted, and the next line says how much.

Several workers write to one inherited descriptor. A line must not be cut by another's, so each writes whole lines, and
in one call no more than is written as a whole:

- a file: any size. Linux holds the file's lock (opened to append) or that of the shared position during a write. Not over
  NFS, which knows no append;
- a pipe: PIPE_BUF bytes, 4,096 on Linux, as POSIX has it. A terminal and a socket (systemd's journal) get the same.

A line has at most some 2,900 bytes, for all that a client may write into it is cut. Where PIPE_BUF is 512 (macOS), a longer
line goes out alone and may be cut by another one. A worker that is killed cannot leave half a line where PIPE_BUF holds.
"""

from __future__ import annotations

import os
import select
import stat
import sys
import threading
from collections.abc import Iterator
from typing import BinaryIO, Protocol

import msgspec

_MAX_BUFFER = 16 * 1024 * 1024
_PIPE_BUF = getattr(select, "PIPE_BUF", 512)  # absent where there are no pipes of this kind; POSIX promises 512
_encode = msgspec.json.Encoder().encode


class RequestLog(Protocol):
    """Takes the facts of a finished request: what is encoded as a JSON object."""

    def write(self, facts: object) -> None: ...
    def close(self) -> None: ...


class NullLog:
    """`observability: {log: off}`."""

    def write(self, facts: object) -> None:
        pass

    def close(self) -> None:
        pass


class JsonLog:
    """JSON lines on a stream that may block, without blocking the caller.

    `worker`: the number of this one among several that write to the same stream; each line then has it. The thread is started
    here: make it after the fork.

    One loop writes, one thread takes: either adds or removes whole items of one list, which needs no lock.
    """

    def __init__(self, stream: BinaryIO | None = None, interval: float = 0.1, *, worker: int | None = None) -> None:
        self._stream = stream if stream is not None else sys.stdout.buffer
        self._last = b"" if worker is None else b',"worker":%d}' % worker
        self._most = _whole(self._stream) if worker is not None else _MAX_BUFFER
        self._interval = interval
        self._lines: list[bytes] = []
        self._came = self._went = 0  # bytes: `write` counts the ones, the thread the others
        self._closing = threading.Event()
        self.dropped = 0
        self._thread = threading.Thread(target=self._run, name="request-log", daemon=True)
        self._thread.start()

    def write(self, facts: object) -> None:
        """Queue one line: an object with one field at least."""
        line = _encode(facts)
        if self.dropped:
            line = b'%b,"log_lines_dropped":%d}' % (line[:-1], self.dropped)
        if self._last:
            line = line[:-1] + self._last
        size = len(line) + 1
        if self._came - self._went + size > _MAX_BUFFER:
            self.dropped += 1
            return
        self._came += size
        self._lines.append(line)

    def close(self) -> None:
        """Write what is left; gives up after 2 s when the reader does not read."""
        self._closing.set()
        self._thread.join(timeout=2)

    def _run(self) -> None:
        try:
            while not self._closing.wait(self._interval):
                self._flush()
            self._flush()
        except (OSError, ValueError):  # the reader is gone: the gateway lives on without its log
            self.write = lambda facts: None  # type: ignore[method-assign] # noqa: ARG005

    def _flush(self) -> None:
        lines = self._lines[:]
        del self._lines[: len(lines)]
        self._went += sum(map(len, lines)) + len(lines)
        for batch in _batches(lines, self._most):
            self._stream.write(batch)
            self._stream.flush()


def _whole(stream: BinaryIO) -> int:
    """How many bytes one write puts there without those of another process in between."""
    try:
        mode = os.fstat(stream.fileno()).st_mode
    except OSError:  # no descriptor, nobody to share it with
        return _MAX_BUFFER
    return _MAX_BUFFER if stat.S_ISREG(mode) else _PIPE_BUF


def _batches(lines: list[bytes], most: int) -> Iterator[bytes]:
    """Whole lines, as many as `most` bytes have room for; a line that is longer by itself."""
    batch: list[bytes] = []
    size = 0
    for line in lines:
        if batch and size + len(line) + 1 > most:
            yield b"\n".join(batch) + b"\n"
            batch, size = [], 0
        batch.append(line)
        size += len(line) + 1
    if batch:
        yield b"\n".join(batch) + b"\n"
