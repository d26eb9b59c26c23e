"""What the stores of exact answers cost and keep: hit ratios under a scan, time of one get and put.

    .venv/bin/python bench/cache_stores.py [--redis URL] [--json]

Absolute times belong to one machine and one day. The hit ratios do not: the traces are drawn with a fixed seed. Without `--redis`
a server from PATH is started, if there is one there.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import subprocess
import sys
import tempfile
import time
from bisect import bisect
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator
from hashlib import blake2b
from itertools import accumulate
from pathlib import Path

import msgspec

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from caches.key import exact_key
from caches.memory import MemoryStore
from caches.scope import Scope
from caches.types import Entry, ExactStore

_KEYS = 20_000
_REQUESTS = 100_000
_STRETCH = 5_000  # requests between the beginning of a scan and its end
_IN_SCAN = 0.8  # of the requests of such a stretch belong to it
_ROUNDS = 20_000
_BYTES = 2_000
_SECRET = b"bench"
_SCOPE = Scope("acme")


class Lru:
    """What the store is held against."""

    def __init__(self, max_bytes: int) -> None:
        self._most = max_bytes
        self._sizes: OrderedDict[int, int] = OrderedDict()
        self._bytes = 0

    def ask(self, key: int, size: int) -> bool:
        """Whether it is there; if not, it is put."""
        if key in self._sizes:
            self._sizes.move_to_end(key)
            return True
        self._sizes[key] = size
        self._bytes += size
        while self._bytes > self._most:
            self._bytes -= self._sizes.popitem(last=False)[1]
        return False


class Ours:
    def __init__(self, max_bytes: int) -> None:
        self._store = MemoryStore(max_bytes, lambda: 0.0)

    def ask(self, key: int, size: int) -> bool:
        name = b"%d" % key
        if _at_once(self._store.get(name)) is not None:
            return True
        entry = Entry(str(key), name, "t", "m", "small", "chat", b"", 0.0, 1.0)
        entry.body = bytes(max(0, size - entry.size))
        _at_once(self._store.put(entry))
        return False


def trace(requests: int, keys: int, skew: float, scans: bool, seed: int = 7) -> Iterator[int]:
    """Keys as they are asked for. Those of `keys` and above belong to a scan: each is asked for once, and never again."""
    rng = random.Random(seed)
    weights = list(accumulate(1 / (rank + 1) ** skew for rank in range(keys)))
    fresh = keys
    for n in range(requests):
        if scans and n // _STRETCH % 2 and rng.random() < _IN_SCAN:
            fresh += 1
            yield fresh
        else:
            yield bisect(weights, rng.random() * weights[-1])


def size_of(key: int) -> int:
    return 1_500 + key * 2_654_435_761 % 4_000


def hit_ratio(cache: Lru | Ours, asked: Iterator[int], keys: int) -> float:
    """Of the requests that can hit."""
    hits = total = 0
    for key in asked:
        hit = cache.ask(key, size_of(key))
        if key < keys:
            total += 1
            hits += hit
    return hits / total


def ratios() -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    everything = sum(size_of(key) for key in range(_KEYS))
    for scans in (False, True):
        for skew in (0.8, 1.0):
            for share in (0.02, 0.1, 0.3):
                room = int(everything * share)
                lru, ours = (hit_ratio(made(room), trace(_REQUESTS, _KEYS, skew, scans), _KEYS) for made in (Lru, Ours))
                rows.append({"scans": scans, "skew": skew, "room": share, "lru": round(lru, 4), "s3fifo": round(ours, 4)})
    return rows


def _at_once(call: Awaitable[object]) -> object:
    """The memory store never waits."""
    step = call.__await__()
    try:
        next(step)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waited")


def _ident(key: bytes) -> str:
    return "ce-" + blake2b(key, digest_size=12).hexdigest()


def _entry(n: int) -> Entry:
    key, now = b"%024d" % n, time.time()
    text = " ".join(f"word{(n * 31 + i * i) % 997}" for i in range(_BYTES // 8))
    body = msgspec.json.encode({"choices": [{"message": {"role": "assistant", "content": text}}]})
    return Entry(_ident(key), key, "acme", "m", "small", "chat", body, now, now + 3600)


async def _timed(call: Callable[[int], Awaitable[object]], rounds: int) -> dict[str, float]:
    """Microseconds a call, of this process and of the clock on the wall."""
    for n in range(rounds // 10):
        await call(n)
    cpu, wall = time.process_time(), time.perf_counter()
    for n in range(rounds):
        await call(n)
    return {
        "cpu_us": round((time.process_time() - cpu) / rounds * 1e6, 2),
        "wall_us": round((time.perf_counter() - wall) / rounds * 1e6, 2),
    }


async def costs(store: ExactStore, rounds: int) -> dict[str, dict[str, float]]:
    entries = [_entry(n) for n in range(100)]
    body = {"messages": [{"role": "user", "content": "x" * _BYTES}], "temperature": 0}

    def key() -> bytes:
        return exact_key(secret=_SECRET, scope=_SCOPE, endpoint="chat", models=[("m", "1")], body=body, tier=None)

    async def lookup(_: int) -> None:
        await store.get(key())

    async def put(n: int) -> None:
        await store.put(entries[n % 100])

    return {
        "put": await _timed(put, rounds // 4),
        "hit": await _timed(lambda n: store.get(entries[n % 100].key), rounds),
        "miss": await _timed(lambda n: store.get(b"%d" % n), rounds),
        "key and miss": await _timed(lookup, rounds),
    }


async def of_redis(url: str) -> dict[str, dict[str, dict[str, float]]]:
    from caches.redis.store import RedisStore  # noqa: PLC0415 - an extra
    from caches.two_level import TwoLevelStore  # noqa: PLC0415

    shared = RedisStore(url, _ident, max_entry=1_000_000, deadline=1.0)
    found = {}
    for name, store in (("redis", shared), ("two_level", TwoLevelStore(RedisStore(url, _ident, max_entry=1_000_000), 10**8))):
        await store.start()
        await store.put(_entry(0))  # a new server marks the moment
        await asyncio.sleep(0.3)
        found[name] = await costs(store, _ROUNDS // 10)
        await store.close()
    return found


def report(ratio_rows: list[dict[str, object]], measured: dict[str, dict[str, dict[str, float]]]) -> str:
    return "\n".join(
        [
            "Hit ratio of what can hit (Zipf over 20,000 keys; a scan: 80 % of every other 5,000 requests)\n",
            "| scan | skew | room | LRU | S3-FIFO |",
            "|---|---|---|---|---|",
            *(
                f"| {'yes' if row['scans'] else 'no'} | {row['skew']} | {row['room']:.0%} | {row['lru']:.1%} "
                f"| {row['s3fifo']:.1%} |"
                for row in ratio_rows
            ),
            f"\nMicroseconds a call (CPU of this process, clock on the wall), answers of {_BYTES} bytes\n",
            "| store | call | CPU | wall |",
            "|---|---|---|---|",
            *(
                f"| {store} | {call} | {took['cpu_us']:.1f} | {took['wall_us']:.1f} |"
                for store, calls in measured.items()
                for call, took in calls.items()
            ),
        ]
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--redis", help="the URL of an empty Redis or Valkey")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    measured = {"memory": asyncio.run(costs(MemoryStore(10**8), _ROUNDS))}
    with tempfile.TemporaryDirectory(prefix="tg-") as folder:
        server, url = (None, args.redis) if args.redis else _start(folder)
        try:
            if url:
                measured |= asyncio.run(of_redis(url))
        finally:
            if server is not None:
                server.kill()
                server.wait()
    rows = ratios()
    print(msgspec.json.encode({"ratios": rows, "costs": measured}).decode() if args.json else report(rows, measured))
    return 0


def _start(folder: str) -> tuple[subprocess.Popen[bytes] | None, str]:
    program = shutil.which("valkey-server") or shutil.which("redis-server")
    if program is None:
        return None, ""
    place = f"{folder}/s"
    server = subprocess.Popen(
        [program, "--port", "0", "--unixsocket", place, "--save", ""], stdout=subprocess.DEVNULL, cwd=folder
    )
    while not Path(place).exists():
        time.sleep(0.01)
    return server, f"unix://{place}"


if __name__ == "__main__":
    sys.exit(main())
