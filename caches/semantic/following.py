"""What other gateways have flushed, deleted and refused, taken out of the semantic cache of this one.

    read what is new ──► obey ──► note how far ──► believe for `LEASE` seconds from when it was asked for ──► again, soon

- Whoever posts an order and waits for `LEASE` seconds knows that this cache has obeyed, or serves nothing: as long as it cannot
  ask, or its store does not obey, it is not believed.
- How far it has read is noted in the store, after all of it was obeyed: a restart reads on from there.
- An order counts from when it is heard, so nobody's clock matters: what was kept meanwhile goes with it.
- What has been lost may have meant anything, so everything goes. A store that follows a server for the first time begins empty.
- On a store that the gateways share (`shared`) whoever flushes takes it out for all, and leaves marks there (see `flushes`). So
  that is believed without this, and nothing goes because something was lost.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from caches.errors import CacheAway
from caches.orders import LEASE, NEVER, Deleted, Flushed, Forgotten, News, Order, Orders, Place, Refused
from caches.types import ExactStore
from caches.vectors.types import StoreAway
from caches.which import Which

if TYPE_CHECKING:
    from caches.semantic.cache import SemanticCache


_EVERY = 0.15  # seconds
_PIECE = 256  # refusals in one order
_NOTE = "heard"
_log = logging.getLogger("tiergate.caches")


@dataclass(frozen=True, slots=True)
class _Twin:
    """The exact answer that a deleted one came with."""

    exact: str
    tenant: str | None


class Following:
    """`exact`: where the exact answers are that go with a kept one. `tick` must never be set."""

    def __init__(self, cache: SemanticCache, orders: Orders, exact: ExactStore, tick: Callable[[], float]) -> None:
        self._cache = cache
        self._orders = orders
        self._exact = exact
        self._tick = tick
        self._until = NEVER
        self._place: Place | None = None
        self._noted: Place | None = None
        self._known = False  # what is noted
        self._todo: deque[Order | _Twin] = deque()
        self._told = True  # of the log: whether it is heard

    @property
    def believed(self) -> bool:
        return self._cache.writer.shared or self._tick() < self._until

    async def run(self) -> None:
        """For ever."""
        while True:
            more = self._cache.writer.open and await self.turn()
            await asyncio.sleep(0 if more else _EVERY)

    async def turn(self) -> bool:
        """Whatever is to be heard now. Whether there is more."""
        try:
            more = await self._turn()
        except (CacheAway, StoreAway) as away:
            self._tell(away.reason)
            return False
        self._tell("")
        return more

    async def _turn(self) -> bool:
        if not self._known:
            self._noted = self._place = _place(await self._cache.store.note(_NOTE))
            self._known = True
        await self._obey()  # what its store did not do the last time
        sent = self._tick()
        news = await self._orders.read(self._place)
        self._place = news.place
        self._hear(news)
        await self._obey()
        if not news.more:
            self._until = sent + LEASE
            await self._note()
            await self._tell_refused()
        return news.more

    def _hear(self, news: News) -> None:
        """What is flushed is neither served nor kept from here on."""
        self._todo.extend(order for order, _ in news.orders)
        flushes = self._cache.writer.flushes
        for order, ago in news.orders:
            if isinstance(order, Flushed):
                flushes.begin(_as_meant(order.which, ago), told=True)
        if news.lost and not self._cache.writer.shared:
            _log.info("what other gateways have flushed until now is not known: the semantic cache begins empty")
            everything = Which(everything=True)
            flushes.begin(everything, told=True)
            self._todo.append(Flushed(everything))

    async def _obey(self) -> None:
        while self._todo:
            await self._do(self._todo[0])
            self._todo.popleft()

    async def _do(self, order: Order | _Twin) -> None:
        cache = self._cache
        match order:
            case Flushed():
                await cache.writer.obey()
            case Forgotten(exact, tenant):
                await cache.writer.forget(exact, tenant)
            case Deleted(hit, tenant):
                gone = await cache.delete(hit, tenant)
                if gone.twin:
                    self._todo.append(_Twin(gone.twin, tenant))
            case _Twin(exact, tenant):
                await self._exact.delete(exact, tenant)
            case Refused(pairs):
                for pair in pairs:
                    cache.refused.add(pair)
                cache.writer.wake()

    async def _note(self) -> None:
        """Where it cannot be noted, all of it is obeyed once more after a restart."""
        if self._place != self._noted:
            with suppress(StoreAway):
                await self._cache.store.keep_note(_NOTE, msgspec.msgpack.encode(self._place))
                self._noted = self._place

    async def _tell_refused(self) -> None:
        fresh = self._cache.fresh
        while fresh:
            pairs = tuple(fresh.popleft() for _ in range(min(_PIECE, len(fresh))))
            try:
                await self._orders.post(Refused(pairs))
            except CacheAway:
                fresh.extendleft(reversed(pairs))
                raise

    def _tell(self, reason: str) -> None:
        if bool(reason) is not self._told or self._cache.writer.shared:
            return
        self._told = not reason
        if reason:
            _log.warning("other gateways are not heard (%s): the semantic cache serves nothing", reason)
        else:
            _log.info("other gateways are heard again: the semantic cache serves")


def _as_meant(which: Which, ago: float) -> Which:
    return which if which.older_than is None else replace(which, older_than=which.older_than + ago)


def _place(noted: bytes | None) -> Place | None:
    if noted is None:
        return None
    try:
        return msgspec.msgpack.decode(noted, type=Place)
    except (msgspec.MsgspecError, ValueError):
        return None
