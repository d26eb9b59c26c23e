"""What is said of served answers, and what becomes of it: labels, complaints, deletes.

    a label       from a comparison with what a model says: a wrong one refuses the pair for all, and is a strike
    a complaint   a tenant's feedback: refuses the pair for that tenant, and is a strike if the answer is its own
    a delete      a tenant's, or the operator's: refuses the pair, or a whole request, and takes the answer out

Two strikes retire an answer. A complaint is no label: complaints do not come at random, so they show no share of wrong answers.
A good score changes nothing: no caller may loosen what protects the others.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING

from caches.errors import CacheAway
from caches.semantic.ids import read_hit, twin_of
from caches.semantic.recent import Recent, Served
from caches.semantic.refused import Refused
from caches.semantic.types import Asked, Gone
from caches.vectors.types import StoreAway

if TYPE_CHECKING:
    from caches.semantic.cache import SemanticCache

_BAD = 0.5  # a score under it is a complaint
_STRIKES = 2  # wrong answers that retire a kept one
_MOST_FRESH = 1024


class Verdicts:
    def __init__(self, cache: SemanticCache, secret: bytes) -> None:
        self.refused = Refused(secret)
        self.fresh: deque[bytes] = deque(maxlen=_MOST_FRESH)  # refused here, and not by a delete of a hit: other gateways lack it
        self._cache = cache
        self._secret = secret
        self._recent = Recent()
        self._strikes: Counter[str] = Counter()

    def bars(self, pair: bytes, point: str, tenant: str) -> bool:
        """Whether that answer is never to be served to that question."""
        return point in self._cache.writer.doomed or self.refused.bars(pair, tenant)

    async def learn(self, asked: Asked, id: str, score: float, *, right: bool, weight: float) -> None:  # noqa: A002 - the protocol's
        known = read_hit(self._secret, id, asked.tenant)
        if known is None or known.pair is None or self.bars(known.pair, known.point, asked.tenant):
            return
        self._cache.evidence.learn(asked.scope, score, right=right, weight=weight)
        if not right:
            self._refuse(known.pair, None)
            await self._strike(known.point)

    async def feedback(self, tenant: str, request_id: str, score: float) -> str:
        served = self._recent.take(tenant, request_id) if score < _BAD else None
        if served is None:
            return ""
        self._refuse(served.pair, tenant)
        if served.owner == tenant:
            await self._strike(served.point)
        return served.id

    def served(self, tenant: str, request_id: str, id: str, owner: str, maker: str | None = None) -> None:  # noqa: A002 - an id's name
        """`owner`: whose answer it was; `maker`: to whom the hit was shown first, if that is somebody else."""
        known = read_hit(self._secret, id, maker or tenant)
        if known is None or known.pair is None:
            return
        self._recent.add(tenant, request_id, Served(id, known.point, known.pair, owner))

    async def delete(self, id: str, tenant: str | None) -> Gone:  # noqa: A002 - the protocol's
        known = read_hit(self._secret, id, tenant)
        if known is None:
            return Gone()
        if known.pair is not None:
            self.refused.refuse(known.pair, tenant)
            self._cache.writer.wake()
        try:
            point = await self._cache.writer.delete(known.point, tenant)
        except StoreAway as away:
            if known.pair is None:
                raise CacheAway(f"the vector store is away ({away.reason})") from None
            self._cache.writer.doomed[known.point] = tenant
            return Gone(found=True)
        return Gone(known.pair is not None or point is not None, "" if point is None else twin_of(point.tags))

    async def forget(self, exact: str, tenant: str | None, *, known: bool) -> bool:
        many = 0
        try:
            many = await self._cache.writer.forget(exact, tenant)
        except StoreAway as away:
            raise CacheAway(f"the vector store is away ({away.reason})") from None
        finally:
            if known or many:
                self.fresh.append(self.refused.refuse_request(exact, tenant))
                self._cache.writer.wake()
        return many > 0

    def _refuse(self, pair: bytes, tenant: str | None) -> None:
        self.fresh.append(self.refused.refuse(pair, tenant))
        self._cache.writer.wake()

    async def _strike(self, point: str) -> None:
        self._strikes[point] += 1
        if self._strikes[point] < _STRIKES:
            return
        del self._strikes[point]
        try:
            await self._cache.store.delete([point])
        except StoreAway:
            self._cache.writer.doomed[point] = None
        self._cache.gate.remove(point)
