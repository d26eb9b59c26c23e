"""The supervisor's waiting: for signals, for what its children tell, for a point in time."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterable
from types import FrameType, TracebackType
from typing import Any, Self

from gateway.node.child import HANDLED

_LONGEST = 3_600_000  # milliseconds in one go: poll takes no number above 31 bits


class Signals:
    """In its scope the signals of `HANDLED` do nothing by themselves; `wait` returns them. Of the main thread only."""

    def __enter__(self) -> Self:
        self._reading, self._writing = os.pipe()
        for end in (self._reading, self._writing):
            os.set_blocking(end, False)
        self._wakeup_before = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        self._before: dict[signal.Signals, Any] = {number: signal.signal(number, _arrived) for number in HANDLED}
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup_before)
        for end in self.descriptors:
            os.close(end)

    @property
    def descriptors(self) -> tuple[int, int]:
        return self._reading, self._writing

    def wait(self, pipes: Iterable[int], seconds: float | None) -> tuple[list[int], set[int]]:
        """The signals that have come, and the pipes that can be read."""
        poll = select.poll()
        for pipe in (self._reading, *pipes):
            poll.register(pipe, select.POLLIN)
        milliseconds = None if seconds is None else min(_LONGEST, max(0, int(seconds * 1000) + 1))
        readable = {descriptor for descriptor, _ in poll.poll(milliseconds)}
        if self._reading not in readable:
            return [], readable
        return list(os.read(self._reading, 4096)), readable - {self._reading}


def _arrived(number: int, frame: FrameType | None) -> None:
    """The number is on the pipe already; without a handler it would not be."""


def how(code: int) -> str:
    """How a process ended whose exit code, or minus whose last signal, is `code`."""
    if code >= 0:
        return f"with exit code {code}"
    try:
        return f"by {signal.Signals(-code).name}"
    except ValueError:  # most of the real-time signals have no name
        return f"by signal {-code}"
