"""Gateways that share a store, and entries to put there."""

import asyncio
import hashlib
import random
import time
from contextlib import AsyncExitStack
from typing import Self

from redis_server import RedisServer

from caches.breaker import BreakerRules
from caches.memory import MemoryStore
from caches.types import Entry, ExactStore

BODY = b'{"choices":[{"message":{"role":"assistant","content":"Hello."}}]}'
QUICK = BreakerRules(failures=3, open_seconds=0.05, max_open_seconds=0.2)
MAX_ENTRY = 4_000_000


def key_of(n: int) -> bytes:
    return b"%024d" % n


def ident(key: bytes) -> str:
    return "ce-" + hashlib.blake2b(key, digest_size=12).hexdigest()


def entry(n: int, *, tenant="acme", model="small", body=BODY, ttl=60.0, age=0.0, tags=(), began=None) -> Entry:
    """`age`: how long ago it began to be made; `began`: exactly then."""
    now, key = time.time(), key_of(n)
    return Entry(
        ident(key), key, tenant, model, "small", "chat", body, now, now + ttl, 3, 4, tags=tags,
        began_at=now - age if began is None else began,
    )  # fmt: skip


def redis_store(url: str, **options):
    from caches.redis.store import RedisStore

    return RedisStore(url, ident, **{"max_entry": MAX_ENTRY, "rules": QUICK, "rng": random.Random(7), "deadline": 0.5} | options)


def two_level_store(url: str, **options):
    from caches.two_level import TwoLevelStore

    return TwoLevelStore(redis_store(url, **options), 10_000_000, max_entry=MAX_ENTRY, rng=random.Random(7))


async def until(condition, seconds: float = 20.0) -> None:
    """Wait until something holds; a test fails if it never does. The condition may be a coroutine function."""
    async with asyncio.timeout(seconds):
        while True:
            held = condition()
            if asyncio.iscoroutine(held):
                held = await held
            if held:
                return
            await asyncio.sleep(0.002)


def know_for_long(server: RedisServer) -> None:
    """As a server that has heard of every flush since 1970: a new one takes nothing that is older than itself."""
    from caches.redis.store import EVERYTHING_FIELD, MARKS

    server.command(b"HSET", MARKS.encode(), EVERYTHING_FIELD, b"1")


class World:
    """`one` and `two` are two gateways' stores; of kind memory, which nobody shares, they are the same."""

    def __init__(self, kind: str, server: RedisServer | None) -> None:
        self.kind = kind
        self.server = server
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        if self.server is not None:
            know_for_long(self.server)
        self.one = await self.store()
        self.two = self.one if self.kind == "memory" else await self.store()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._stack.aclose()

    async def store(self) -> ExactStore:
        store = self._made()
        await store.start()
        self._stack.push_async_callback(store.close)
        if self.kind == "two_level":
            await until(lambda: store._changes.believed)
        return store

    def _made(self) -> ExactStore:
        if self.kind == "memory":
            return MemoryStore(10_000_000, max_entry=MAX_ENTRY)
        return redis_store(self.server.url) if self.kind == "redis" else two_level_store(self.server.url)

    async def keep(self, made: Entry, store: ExactStore | None = None) -> Entry:
        """Put an answer that began to be made now, or when it says."""
        store, fresh = store or self.one, time.time() - made.began_at < 1

        async def taken() -> bool:  # in the moment of a flush it is refused, as it must be
            if fresh:
                made.began_at = time.time()
            return await store.put(made)

        await until(taken)
        return made
