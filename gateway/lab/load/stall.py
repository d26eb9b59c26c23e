"""How long this program's event loop stood still: a tick that should come every 10 ms, and how late it came.

While the loop stands still, bytes that have arrived are not looked at, so that every time measured may be that much too long.
Event loops count whole milliseconds: below one, nothing can be told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Self

EVERY = 0.010


class StallMeter:
    """Tells `record` within its `async with`."""

    def __init__(self, clock: Callable[[], float], record: Callable[[float], None]) -> None:
        self._clock = clock
        self._record = record
        self._timer: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> Self:
        self._arm()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _arm(self) -> None:
        self._due = self._clock() + EVERY
        self._timer = asyncio.get_running_loop().call_later(EVERY, self._tick)

    def _tick(self) -> None:
        self._record(max(0.0, self._clock() - self._due))
        self._arm()
