"""A dispatcher that takes over hears of everything that is held before it grants anything.

What the workers hold is counted as they tell of it. Asked before all of them have, a new dispatcher would find slots free that
are not. So workers are answered when as many as there are have said Hello, or a moment after the first one did: one may be dead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

_SECONDS = 0.5  # of the two that requests wait


class Gathering:
    """Of `expected` workers. Nobody waits where there was no dispatcher before, unless `again`: it stood still, and workers
    that had given it up come back.
    """

    def __init__(self, expected: int, *, again: bool = False) -> None:
        self._expected = expected
        self._again = again
        self._come: set[str] = set()
        self._waiting: list[Callable[[], None]] | None = None
        self._over = False

    def hello(self, worker: str, *, knew_another: bool, answer: Callable[[], None]) -> None:
        """A worker has told what it holds: `answer` it, now or when the others have, too."""
        self._come.add(worker)
        if self._over or (self._waiting is None and not knew_another and not self._again):
            answer()
            return
        if self._waiting is None:
            self._waiting = []
            asyncio.get_running_loop().call_later(_SECONDS, self.end)
        self._waiting.append(answer)
        if len(self._come) >= self._expected:
            self.end()

    def end(self) -> None:
        """Nobody is waited for any longer."""
        self._over = True
        waiting, self._waiting = self._waiting or [], None
        for answer in waiting:
            answer()
