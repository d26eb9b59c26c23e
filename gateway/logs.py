"""One JSON line a request, to standard output.

Lines are encoded on the loop (2 µs) and written by a thread, ten times a second: a log reader that stands still
must not stop the tokens. What does not fit the buffer is dropped and counted, and the next line says how much.
"""

from __future__ import annotations

import sys
import threading
from typing import BinaryIO, Protocol

import msgspec

_MAX_BUFFER = 16 * 1024 * 1024
_encode = msgspec.json.Encoder().encode


class RequestLog(Protocol):
    """Takes the facts of a finished request."""

    def write(self, facts: dict[str, object]) -> None: ...
    def close(self) -> None: ...


class NullLog:
    """`observability: {log: off}`."""

    def write(self, facts: dict[str, object]) -> None:
        pass

    def close(self) -> None:
        pass


class JsonLog:
    """JSON lines on a stream that may block, without blocking the caller."""

    def __init__(self, stream: BinaryIO | None = None, interval: float = 0.1) -> None:
        self._stream = stream if stream is not None else sys.stdout.buffer
        self._interval = interval
        self._lines: list[bytes] = []
        self._size = 0
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self.dropped = 0
        self._thread = threading.Thread(target=self._run, name="request-log", daemon=True)
        self._thread.start()

    def write(self, facts: dict[str, object]) -> None:
        """Queue one line."""
        if self.dropped:
            facts = {**facts, "log_lines_dropped": self.dropped}
        line = _encode(facts)
        with self._lock:
            if self._size + len(line) > _MAX_BUFFER:
                self.dropped += 1
                return
            self._lines.append(line)
            self._size += len(line) + 1

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
        with self._lock:
            lines, self._lines, self._size = self._lines, [], 0
        if lines:
            self._stream.write(b"\n".join(lines) + b"\n")
            self._stream.flush()
