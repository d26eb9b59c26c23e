"""Limiters on one server: each a node of its own."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from redis_server import RedisServer

from limits.types import LimitExceeded, Scope

KEY = Scope("key:acme/k", "key", rpm=600, name="k")
TENANT = Scope("tenant:acme", "tenant", rpm=60, tpm=1000, max_parallel=4, name="acme")
SCOPES = [KEY, TENANT]


class Node:
    """A limiter that is started, and ends gently, or as if it was killed."""

    def __init__(self, url, **options):
        from limits.redis.limiter import RedisLimiter

        self.limiter = RedisLimiter(url, **{"rng": random.Random(), "deadline": 0.5} | options)

    async def start(self):
        await self.limiter.start()
        return self.limiter

    def die(self):
        """Nothing more is heard of it."""
        limiter = self.limiter
        for task in (limiter._beating, limiter.line._running, limiter.line._serving):
            task.cancel()


@asynccontextmanager
async def nodes(url: str, count: int = 1, **options) -> AsyncIterator[list]:
    async with AsyncExitStack() as stack:
        made = [Node(url, **options) for _ in range(count)]
        for node in made:
            await node.start()
            stack.push_async_callback(node.limiter.close)
        for node in made:
            await heard(node.limiter)
        yield [node.limiter for node in made]


async def heard(limiter) -> None:
    """Everything that it said before, the server has done; and it knows how many nodes there are."""
    await limiter.held.beat()


async def until(condition, seconds: float = 20.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.002)


async def refused(scope):
    """Enter; the refusal, or None."""
    try:
        await scope.__aenter__()
    except LimitExceeded as error:
        return error
    return None


async def leave(scope) -> None:
    await scope.__aexit__(None, None, None)


def keys(server: RedisServer, pattern: bytes = b"*") -> list[bytes]:
    return server.command(b"KEYS", pattern).split(b"\r\n")[2::2]


def slots(server: RedisServer) -> int:
    return sum(int(server.command(b"ZCARD", key)[1:-2]) for key in keys(server, b"*:slots"))


def spent(limiter, scope) -> tuple[int, int]:
    """Whole requests and tokens, rounded up, as it last heard."""
    place = limiter.standing([scope])
    return scope.rpm - place.request_remaining, scope.tpm - place.token_remaining
