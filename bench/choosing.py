"""What it costs to choose a replica and to count what was sent there, by the size of the pool: `python -m bench.choosing`.

Microseconds of CPU, the best of five rounds, of the default policy: choose, enter the lease, first byte, leave.
"""

from __future__ import annotations

import asyncio
import random
import time

from backends.balance import make_balance
from backends.breaker import Breaker
from backends.client import Client, Origin
from backends.pool import Pool
from backends.replica import Replica
from backends.types import Ask

_ROUNDS, _STEPS = 5, 1000
_SIZES = (2, 8, 16, 17, 64, 256, 1000)
_TOKENS = 500


async def main() -> None:
    for size in _SIZES:
        pool = _pool(size)
        held = {f"r{number}": 400 for number in range(min(size, 3))}
        asks = (Ask(None, _TOKENS), Ask(None, _TOKENS, cached=held), Ask("a session", _TOKENS))
        new, known, session = [await _best(pool, ask) for ask in asks]
        print(f"{size:4} replicas: {new:6.1f} us, where three hold the prompt {known:6.1f}, of a session {session:6.1f}")


def _pool(size: int) -> Pool:
    client = Client(Origin.parse("http://127.0.0.1:9/v1"))
    members = [Replica(f"r{number}", client, breaker=Breaker(random.Random(1))) for number in range(size)]
    pool = Pool("m", members, make_balance("work_cost", seed=1))
    for replica in members:
        replica.up = True
    return pool


async def _best(pool: Pool, ask: Ask) -> float:
    rounds = []
    for _ in range(_ROUNDS):
        began = time.process_time()
        for _ in range(_STEPS):
            replica = pool.pick(ask)
            assert replica is not None
            async with pool.lease(replica, None, ask) as lease:
                lease.first_byte()
        rounds.append(time.process_time() - began)
    return min(rounds) / _STEPS * 1e6


if __name__ == "__main__":
    asyncio.run(main())
