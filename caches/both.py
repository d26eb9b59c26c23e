"""The two caches, as whoever deletes from them sees them: one.

    ce-…   an exact answer; the semantic cache gives up what it keeps of it, and has nothing more for that very request
    cs-…   what was served for another question: the pair is refused, and its owner's or the operator's delete takes the kept
           answer out of both caches

An approved answer that was made for another question (an alias) is gone with the answer that it came from: it is confirmed
each time before it is served. Other gateways, each with a semantic cache of its own, are told first, and waited for (see
`caches.orders`). One cache that is away keeps nobody from the other, and is told of afterwards.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

from caches.errors import CacheAway
from caches.orders import NEVER, Deleted, Flushed, Forgotten, Telling
from caches.semantic.ids import exact_of, is_exact, read_hit
from caches.semantic.types import Gone, OwnedSemantic
from caches.types import ExactStore
from caches.which import Which

T = TypeVar("T")
_NOTHING = Gone()


class Both:
    """`secret`: what ids were made with."""

    def __init__(self, exact: ExactStore, semantic: OwnedSemantic, others: Telling, secret: bytes) -> None:
        self._exact = exact
        self._semantic = semantic
        self._others = others
        self._secret = secret

    async def delete(self, id: str, tenant: str | None) -> bool:  # noqa: A002 - the name of the field it is
        """By an id that was shown. `tenant` is whose wish it is; None: the operator's. Raises CacheAway."""
        trouble = _Trouble()
        posted, told = NEVER, False
        if is_exact(id):
            posted = await trouble.kept(self._others.post(Forgotten(id, tenant)), otherwise=NEVER)
            found = await trouble.kept(self._exact.delete(id, tenant), otherwise=False)
            meant = await trouble.kept(self._semantic.forget(id, tenant, known=found), otherwise=False)
            await self._others.settle(posted)
            trouble.tell()
            return found or meant
        if known := read_hit(self._secret, id, tenant):
            posted = await trouble.kept(self._others.post(Deleted(id, tenant)), otherwise=NEVER)
            told = known.pair is not None and posted > NEVER
        gone = await trouble.kept(self._semantic.delete(id, tenant), otherwise=_NOTHING)
        found = gone.found or told
        for exact in filter(None, (exact_of(id), gone.twin)):
            found = await trouble.kept(self._exact.delete(exact, tenant), otherwise=False) or found
        await self._others.settle(posted)
        trouble.tell()
        return found

    async def feedback(self, tenant: str, request_id: str, score: float) -> bool:
        """Whether it has changed what is served. Raises CacheAway."""
        served = await self._semantic.feedback(tenant, request_id, score)
        if not served:
            return False
        if alias := exact_of(served):
            await self._exact.delete(alias, tenant)
        return True

    async def flush(self, which: Which, *, dry_run: bool = False) -> int:
        """Raises CacheAway."""
        trouble, posted = _Trouble(), NEVER
        if not dry_run:
            posted = await trouble.kept(self._others.post(Flushed(which)), otherwise=NEVER)
        meant = await trouble.kept(self._semantic.flush(which, dry_run=dry_run), otherwise=0)
        exact = await trouble.kept(self._exact.flush(which, dry_run=dry_run), otherwise=0)
        await self._others.settle(posted)
        trouble.tell()
        return meant + exact


class _Trouble:
    """That of the cache that was away last, for when the other one is done."""

    def __init__(self) -> None:
        self._away: CacheAway | None = None

    async def kept(self, work: Awaitable[T], *, otherwise: T) -> T:
        try:
            return await work
        except CacheAway as away:
            self._away = away
            return otherwise

    def tell(self) -> None:
        if self._away is not None:
            raise self._away
