"""Deadlines, and the one timer that keeps them.

Most deadlines move on long before they pass. So the timer is left alone when they do, and looks again when it rings;
only a deadline that came nearer arms it anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from msgspec import Struct

LONGEST = 3_600.0  # it rings at least this often, so that a deadline may be infinite
TICK = 0.001  # event loops round to the millisecond


class Deadlines(Struct):  # made for every request, in a third of the time that a dataclass takes
    """Seconds from where each begins, but `total_at`, which is a `loop.time()`.

    `first_token`: from the request written (each part of a large one begins it again) to the first byte of the body.
    `between_tokens`: from one piece of the body to the next. Nothing but body moves them: no drip of a head or of interim
    answers. None: no such timer. While an answer is paused only `total_at` runs.
    """

    connect: float
    first_token: float | None
    between_tokens: float | None
    total_at: float


class Alarm:
    """Calls `passed` once the time that `due` tells has come. `due` returns None while there is nothing to wait for."""

    __slots__ = ("_due", "_loop", "_passed", "_rings_at", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop, due: Callable[[], float | None], passed: Callable[[], None]) -> None:
        self._loop = loop
        self._due = due
        self._passed = passed
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at = 0.0

    def watch(self) -> None:
        """Something began, or came nearer."""
        due = self._due()
        if due is None:
            return
        if self._timer is not None:
            if self._rings_at <= due:
                return
            self._timer.cancel()
        self._rings_at = min(due, self._loop.time() + LONGEST)
        self._timer = self._loop.call_at(self._rings_at, self._ring)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring(self) -> None:
        self._timer = None
        due = self._due()
        if due is not None and due - self._loop.time() <= TICK:
            self._passed()
        else:
            self.watch()
