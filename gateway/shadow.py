"""Is what the semantic cache serves right? Some of it is asked of the model as well, unseen by the client and at nobody's cost.

    served    a few in a hundred of the answers that were served: the model is asked, in the lowest class, within a budget
    nearly    an answer that was nearly served: the model was asked anyway, so the comparison is all it costs

The two answers are compared (`caches.semantic.compare`, then a judge if the operator names one), and what that shows is learned.
A pair that was right becomes an exact alias: the next such question needs no embedding. One that was wrong is never served again,
and the model's answer takes its place.
"""

from __future__ import annotations

import math
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from caches.semantic.packed import said
from caches.semantic.types import Asked, Found, Semantic, Shown
from caches.types import Entry
from gateway.behind import Behind, Produce
from gateway.entries import Entries
from gateway.job import Job
from gateway.metrics import Metrics

_MINUTE = 60.0


class Agree(Protocol):
    async def agree(self, kept: str, fresh: str) -> bool | None: ...


@dataclass(slots=True)
class Budget:
    """So many a minute, refilled evenly; none are saved up beyond a minute's, or one. It begins with `left`, or a minute's."""

    per_minute: float
    clock: Callable[[], float]
    left: float = math.inf
    at: float = 0.0

    def __post_init__(self) -> None:
        self.left, self.at = min(self.left, self.per_minute), self.clock()

    def take(self, amount: float = 1.0) -> bool:
        now = self.clock()
        self.left = min(max(1.0, self.per_minute), self.left + (now - self.at) * self.per_minute / _MINUTE)
        self.at = now
        if self.left < amount:
            return False
        self.left -= amount
        return True


class Shadows:
    """`share` of the served answers, 0-1."""

    def __init__(
        self,
        semantic: Semantic,
        behind: Behind,
        store: Callable[[Entry], Awaitable[None]],
        *,
        share: float,
        budget: Budget,
        judge: Agree | None,
        entries: Entries,
        metrics: Metrics,
        rng: random.Random,
    ) -> None:
        self._semantic = semantic
        self._behind = behind
        self._store = store
        self._share = share
        self._budget = budget
        self._judge = judge
        self._entries = entries
        self._metrics = metrics
        self._rng = rng

    def served(self, job: Job, asked: Asked, found: Found, produce: Produce) -> None:
        """An answer was served. Returns at once."""
        if self._share and self._rng.random() < self._share and self._budget.take():
            self._behind.spawn(self._verify(job, asked, found, produce))

    def nearly(self, asked: Asked, found: Found, body: bytes) -> None:
        """A model has answered what was nearly served. Returns at once."""
        if self._share and self._budget.take():
            self._behind.spawn(self._learn_of(asked, found, body))

    async def _verify(self, job: Job, asked: Asked, found: Found, produce: Produce) -> None:
        assert found.entry is not None, "told of an answer that was served"
        assert found.score is not None, "it was served for its score"
        made = await self._behind.answer(job, produce, paid=False)
        if made is None:
            return
        again, body = made
        right = await self._right(asked, found.entry.id, body)
        self._count(right)
        if right is None:
            return
        await self._semantic.learn(asked, found.entry.id, found.score, right=right, weight=1.0 / self._share)
        if job.use is None or not job.use.store:
            return
        if right:
            await self._store(self._entries.alias(job, found.entry))
        else:
            fresh = self._entries.made(again, body)
            await self._store(fresh)
            await self._semantic.keep(asked, self._entries.meant(again, fresh))

    async def _learn_of(self, asked: Asked, found: Found, body: bytes) -> None:
        grey = found.grey
        assert grey is not None, "told of an answer that was nearly served"
        right = await self._right(asked, grey.id, body)
        self._count(right)
        if right is not None:
            await self._semantic.learn(asked, grey.id, grey.score, right=right, weight=1.0)

    async def _right(self, asked: Asked, kept: str, body: bytes) -> bool | None:
        shown: Shown = await self._semantic.compare(asked, kept, body)
        if shown.right is not None or self._judge is None or not shown.kept:
            return shown.right
        one, other = said(shown.kept), said(body)
        return None if one is None or other is None else await self._judge.agree(one, other)

    def _count(self, right: bool | None) -> None:
        self._metrics.verified.add(("unknown" if right is None else "right" if right else "wrong",))
