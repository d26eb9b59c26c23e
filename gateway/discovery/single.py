"""Work that may get stuck where nothing can interrupt it: in a thread.

Work that is still stuck is waited for again rather than joined by another, so that it holds one thread, however long it
hangs and however often it is asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from gateway.discovery.types import LookFailed

T = TypeVar("T")


class Single(Generic[T]):
    """At most one run of `work` at a time."""

    def __init__(self, work: Callable[[], Coroutine[Any, Any, T]], seconds: float) -> None:
        self._work = work
        self._seconds = seconds
        self._running: asyncio.Task[T] | None = None

    async def __call__(self) -> T:
        """Its result. LookFailed when it takes too long; it then runs on for the next call."""
        task = self._running = self._running or asyncio.get_running_loop().create_task(self._work())
        try:
            done, _ = await asyncio.wait([task], timeout=self._seconds)
        except asyncio.CancelledError:
            task.cancel()
            raise
        if not done:
            raise LookFailed(f"no answer within {self._seconds:g} s")
        self._running = None
        return task.result()
