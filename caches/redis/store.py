"""The store that several gateways share: one Redis or Valkey, one round trip for a get or a put.

Bounds and promises
- Every call returns within `deadline`, but `delete` and `flush`, which have `PATIENCE` a step. A server that is away is a miss
  (`away` says why); the breaker then spares it until it answers again, which needs no restart.
- After `flush` or `delete` has returned, no gateway finds what was meant, and none can store an answer that began to be made
  before, however its clock goes: moments are compared on the server, by its clock.
- A server that writes nothing (no memory, a replica by now) is read from as before: writes that it declines open no breaker.
- It is asked for the time when nothing else is asked of it, so how it stands is known without a request.
- What is read is outside input. A value that is foreign or damaged is a miss, and is deleted.
- One server, or one primary and its replicas: all keys carry one hash tag. Losing the last writes in a failover loses the last
  flushes too. A replica is never read.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from os import urandom
from typing import Any, ParamSpec, TypeVar

from caches.breaker import BreakerRules
from caches.errors import ExactStoreAway
from caches.marks import EVERYTHING, MOST_TAGS, field_of
from caches.redis import scripts
from caches.redis.clocks import Clocks
from caches.redis.server import Argument, Declined, Script, Server
from caches.redis.value import Foreign, digest, digest_of_id, seal, unseal
from caches.types import CacheStats, Entry, StoreState
from caches.which import Which

_log = logging.getLogger("tiergate.cache")
PREFIX = f"tiergate:{scripts.FORMAT}:{{exact}}:"
CHANNEL = PREFIX + "changes"
PATIENCE = 1.0  # seconds a step of what an operator asks for may take
_LARGE = 128 * 1024  # bytes from which on (un)packing takes the loop too long: it is done in a thread
MARKS, _INDEX, _ENTRIES = PREFIX + "marks", PREFIX + "index", PREFIX + "entry:"
_MICRO = 1_000_000
_BEAT = 1.0  # seconds of silence after which it is asked how it is
_LONGEST_ID = 64
EVERYTHING_FIELD = digest(EVERYTHING)
_FLUSHED, _CHANGED = b"f", b"c"
_RULES = BreakerRules()
P = ParamSpec("P")
T = TypeVar("T")


class RedisStore:
    """`ident` makes an entry's id of its key: entries are kept under their ids. `clock` is the wall clock by which entries are
    dated, `tick` one that is never set.
    """

    def __init__(
        self,
        url: str,
        ident: Callable[[bytes], str],
        *,
        max_entry: int,
        deadline: float = 0.05,
        connections: int = 8,
        connect_seconds: float = 1.0,
        rules: BreakerRules = _RULES,
        clock: Callable[[], float] = time.time,
        tick: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
    ) -> None:
        self.away: str | None = None
        self.me = urandom(8)  # who made a change
        self.server = Server(
            url, deadline=deadline, connections=connections, connect_seconds=connect_seconds, clock=tick,
            rng=rng or random.Random(), rules=rules,
        )  # fmt: skip
        self._ident = ident
        self._max_entry = max_entry
        self._clock = clock
        self._tick = tick
        self._clocks = Clocks(scripts.MAKING)
        self._declines = ""  # why the last put was
        self._heard_at = float("-inf")
        self._tasks: set[asyncio.Task[None]] = set()
        self._hits = 0
        self._misses = 0

    async def start(self) -> None:
        try:
            await self._learn_time()
        except ExactStoreAway as away:
            _log.warning("%s does not answer at start: %s", self.server.place, away.reason)
        self._spawn(self._beat())

    @property
    def state(self) -> StoreState:
        return StoreState("redis", self.server.away, "" if self.server.away else self._declines)

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.server.close()

    async def get(self, key: bytes) -> Entry | None:
        entry: Entry | None = None
        try:
            entry = await self._get(key)
            self.away = None
        except ExactStoreAway as away:
            self.away = away.reason
        if entry is None:
            self._misses += 1
        else:
            self._hits += 1
        return entry

    async def peek(self, key: bytes) -> Entry | None:
        return await self._get(key, peek=True)

    async def put(self, entry: Entry) -> bool:
        if len(entry.body) > self._max_entry or len(entry.tags) > MOST_TAGS or entry.id != self._ident(entry.key):
            return False
        try:
            stored = await self._put(entry)
            self.away = None
        except Declined as declined:
            self.away = None
            self._told_declined(declined.reason)
            return False
        except ExactStoreAway as away:
            self.away = away.reason
            return False
        self._told_declined("")
        return stored

    async def delete(self, id: str, tenant: str | None) -> bool:  # noqa: A002 - the protocol's
        if len(id) > _LONGEST_ID:
            return False
        who = EVERYTHING_FIELD if tenant is None else digest((tenant, None, None))
        keys = [_ENTRIES + id, MARKS, _INDEX]
        args = who, EVERYTHING_FIELD, id, digest_of_id(id), CHANNEL, _CHANGED + self.me + id.encode()
        found, _ = await self.ask(scripts.DELETE, keys, *args)
        return bool(found)

    async def flush(self, which: Which, *, dry_run: bool = False) -> int:
        """What is flushed is so from the first step on. Counting walks over all there is."""
        field, age = digest(field_of(which)), round((which.older_than or 0.0) * _MICRO)
        if dry_run:
            return await self._walk(field, await self._learn_time() - age, drop=False)
        args = field, EVERYTHING_FIELD, age, CHANNEL, _FLUSHED + self.me
        moment, _ = await self.ask(scripts.FLUSH, [MARKS], *args)
        return await self._walk(field, moment, drop=True)

    async def stats(self) -> CacheStats:
        """What is there as the index knows it, for all gateways; bytes from a sample; hits and misses are of this one alone."""
        try:
            count, some, seen, _ = await self._run(scripts.LOOK, [_INDEX], _ENTRIES)
        except ExactStoreAway:
            count = some = seen = 0
        return CacheStats(
            entries=count,
            bytes=some * count // max(1, seen),
            max_bytes=0,
            hits=self._hits,
            misses=self._misses,
            evictions=0,
        )

    async def _get(self, key: bytes, *, peek: bool = False) -> Entry | None:
        id, sent = self._ident(key), self._clock()  # noqa: A001 - the name of the field it is
        state, value, left, now = await self._run(scripts.GET, [_ENTRIES + id, MARKS], *((b"peek",) if peek else ()))
        if state == 0:
            return None
        if state != 1 or left <= 0:
            value = b""
        try:
            kept, born = await _in_thread(len(value), unseal, value, id, key, self._max_entry)
        except Foreign:
            if not peek:
                self._spawn(self._drop(id))
            return None
        ahead = now / _MICRO - self._clock()
        return Entry(
            kept.id, kept.key, kept.tenant, kept.model, kept.tier, kept.endpoint, kept.body,
            kept.stored_at - ahead, sent + left / 1000, kept.completion_tokens, kept.prompt_tokens, kept.generation,
            kept.tags, born / _MICRO - ahead, kept.alias,
        )  # fmt: skip

    async def _put(self, entry: Entry) -> bool:
        if not self._clocks.known:
            await self._run(scripts.TIME, [])
        now, there = self._clock(), self._clocks.server_time
        if entry.expires_at <= now or entry.born > now:
            return False
        entry.generation = (int.from_bytes(urandom(8), "big") >> 1) or 1
        value = await _in_thread(len(entry.body), seal, entry, float(round(there(entry.born) * _MICRO)), there(entry.stored_at))
        present, expiry = self._clocks.present(self._tick()), there(entry.expires_at)
        keys = [_ENTRIES + entry.id, MARKS, _INDEX]
        args = value, round(expiry * _MICRO), entry.id, digest_of_id(entry.id), round(present * _MICRO)
        stored, _ = await self._run(scripts.PUT, keys, *args, CHANNEL, _CHANGED + self.me + entry.id.encode())
        return bool(stored)

    async def _drop(self, id: str) -> None:  # noqa: A002 - the name of the field it is
        with suppress(ExactStoreAway):  # then the next one to find it does
            await self.ask(scripts.DROP, [_ENTRIES + id, _INDEX], id)

    async def _walk(self, field: bytes, moment: int, *, drop: bool) -> int:
        cursor = b"0"
        total = 0
        while True:
            cursor, found, _ = await self.ask(scripts.WALK, [_INDEX], cursor, field, moment, int(drop), _ENTRIES)
            total += int(found)
            if cursor == b"0":
                return total

    async def _learn_time(self) -> int:
        now: int = (await self.ask(scripts.TIME, []))[-1]
        return now

    async def ask(self, script: Script, keys: list[str], *args: Argument, patience: float = PATIENCE) -> list[Any]:
        """As an operator asks: more patiently. Raises ExactStoreAway."""
        try:
            return await self._run(script, keys, *args, patience=patience)
        except Declined as declined:
            raise ExactStoreAway(declined.reason) from None

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(_BEAT)
            if self._tick() - self._heard_at >= _BEAT:
                with suppress(ExactStoreAway):  # `server` knows
                    await self._run(scripts.TIME, [])

    async def _run(self, script: Script, keys: list[str], *args: Argument, patience: float = 0.0) -> list[Any]:
        answer = await self.server.run(script, keys, *args, patience=patience)
        self._heard_at = self._tick()
        self._clocks.observe(answer[-1] / _MICRO, self._clock(), self._tick())
        return answer

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _told_declined(self, reason: str) -> None:
        if reason and reason != self._declines:
            _log.warning("%s writes nothing (%s): no exact answers are kept there", self.server.place, reason)
        elif self._declines and not reason:
            _log.info("%s writes again: exact answers are kept there", self.server.place)
        self._declines = reason


async def _in_thread(size: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    return work(*args, **kwargs) if size < _LARGE else await asyncio.to_thread(work, *args, **kwargs)
