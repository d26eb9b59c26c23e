"""What the embedded vector store costs: searches inside a partition, puts, a flush, opening, memory and disk.

    make bench-vectors
    python -m bench.vectors [--points 1000,10000,100000] [--tenants 1000] [--dimension 384] [--searches 2000] [--json]

Vectors are random and of length 1, a partition a tenant, answers of 2 KB. A search goes the whole way of the product: event loop,
the engine's process and back, cosines made anew. `fresh` is before the engine has laid its points out, `tidy` after.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import psutil
import uvloop

from bench import machine
from bench.figures import percentile
from caches.embed.types import Vector
from caches.vectors.embedded import embedded_store
from caches.vectors.rows import collection_name
from caches.vectors.store import QdrantStore, Times
from caches.vectors.types import Point
from caches.which import Which

NEVER = 1e9
ALONE = Times(search=30.0, write=600.0, open=600.0, tend=NEVER)
"""Nothing in the background, and no deadline: what is measured is what is asked."""

BATCH = 64
TTL = 1e6


@dataclass(frozen=True, slots=True)
class Tail:
    """Milliseconds."""

    p50: float
    p95: float
    p99: float


@dataclass(frozen=True, slots=True)
class Size:
    points: int
    put_rate: float  # points a second
    fresh: Tail
    tidy_s: float  # how long searches are refused, if all is laid out at one time
    tidy: Tail
    flushed: int
    flush_ms: float
    open_s: float
    rss_mb: float  # of the engine's process
    disk_mb: float


class Crowd:
    """Tenants and their points, made from a seed."""

    def __init__(self, points: int, tenants: int, dimension: int) -> None:
        made = np.random.default_rng(7).standard_normal((points, dimension)).astype(np.float32)
        self.vectors = made / np.linalg.norm(made, axis=1, keepdims=True)
        self.tenants = tenants
        self.answer = json.dumps({"choices": [{"message": {"content": "one answer and another, " * 80}}]}).encode()
        self.now = time.time()

    def point(self, number: int) -> Point:
        tenant = number % self.tenants
        return Point(
            id=f"cs-{number:024x}",
            partition=f"{tenant:064x}",
            vector=self.vectors[number],
            text=f"question {number}, of ordinary length, as people ask it",
            tenant=f"tenant-{tenant}",
            model="small",
            tags=(),
            stored_at=self.now + number / 1e6,
            expires_at=self.now + TTL,
            answer=self.answer,
        )

    def batches(self) -> Iterator[list[Point]]:
        for start in range(0, len(self.vectors), BATCH):
            yield [self.point(number) for number in range(start, min(start + BATCH, len(self.vectors)))]

    def asked(self, rng: random.Random) -> tuple[str, Vector]:
        """A tenant that has points, and something near one of them."""
        number = rng.randrange(len(self.vectors))
        return f"{number % self.tenants:064x}", self.vectors[number]


def main(argv: Sequence[str] | None = None) -> int:
    args = arguments(argv)
    for objection in machine.objections(machine.mood()):
        print(f"the machine is busy: {objection}", file=sys.stderr)
    sizes = [uvloop.run(measured(points, args)) for points in args.points]
    print(json.dumps([asdict(size) for size in sizes], indent=1) if args.json else table(sizes))
    return 0


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", default="1000,10000,100000", type=lambda text: [int(word) for word in text.split(",")])
    parser.add_argument("--tenants", default=1000, type=int)
    parser.add_argument("--dimension", default=384, type=int)
    parser.add_argument("--searches", default=2000, type=int)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args(argv)


async def measured(points: int, args: argparse.Namespace) -> Size:
    crowd = Crowd(points, args.tenants, args.dimension)
    with tempfile.TemporaryDirectory(prefix="tiergate-bench-") as name:
        folder = Path(name)
        async with opened(folder, args.dimension, points) as store:
            put_s = await timed_puts(store, crowd)
            fresh = await searched(store, crowd, args.searches)
            began = time.perf_counter()
            await store.tidy()
            tidy_s = time.perf_counter() - began
            tidy = await searched(store, crowd, args.searches)
            rss = sum(child.memory_info().rss for child in psutil.Process().children())
            disk = taken_by(folder)
            began = time.perf_counter()
            flushed = await store.flush(Which(tenant="tenant-3"))
            flush_s = time.perf_counter() - began
        began = time.perf_counter()
        async with opened(folder, args.dimension, points):
            open_s = time.perf_counter() - began
    return Size(points, points / put_s, fresh, tidy_s, tidy, len(flushed), flush_s * 1e3, open_s, rss / 1e6, disk / 1e6)


def taken_by(folder: Path) -> int:
    return sum(file.stat().st_blocks * 512 for file in folder.rglob("*") if file.is_file())


@asynccontextmanager
async def opened(folder: Path, dimension: int, points: int) -> AsyncIterator[QdrantStore]:
    store = embedded_store(folder, collection_name("bench", "0" * 8, dimension), dimension, max_points=2 * points, times=ALONE)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


async def timed_puts(store: QdrantStore, crowd: Crowd) -> float:
    spent = 0.0
    for batch in crowd.batches():
        began = time.perf_counter()
        await store.put(batch)
        spent += time.perf_counter() - began
    return spent


async def searched(store: QdrantStore, crowd: Crowd, searches: int) -> Tail:
    rng = random.Random(11)
    taken = []
    for number in range(searches + searches // 10):
        partition, vector = crowd.asked(rng)
        began = time.perf_counter()
        found = await store.search(partition, vector)
        if number >= searches // 10:  # the first ones warm it up
            taken.append((time.perf_counter() - began) * 1e3)
        assert found[0].cosine > 0.999, "a point that is there was not found"
    return Tail(percentile(taken, 0.5), percentile(taken, 0.95), percentile(taken, 0.99))


def table(sizes: Sequence[Size]) -> str:
    lines = [f"{os.cpu_count()} cores; times in ms unless told otherwise"]
    lines.append(
        f"{'points':>8} {'puts/s':>8} {'fresh p50':>10} {'p95':>6} {'p99':>6} {'tidy s':>7} {'tidy p50':>9} {'p95':>6} {'p99':>6}"
        f" {'flush':>6} {'of':>5} {'open s':>7} {'RSS MB':>7} {'disk MB':>8}"
    )
    lines += [
        f"{size.points:>8,} {size.put_rate:>8,.0f} {size.fresh.p50:>10.2f} {size.fresh.p95:>6.2f} {size.fresh.p99:>6.2f}"
        f" {size.tidy_s:>7.2f} {size.tidy.p50:>9.2f} {size.tidy.p95:>6.2f} {size.tidy.p99:>6.2f}"
        f" {size.flush_ms:>6.1f} {size.flushed:>5} {size.open_s:>7.2f} {size.rss_mb:>7.0f} {size.disk_mb:>8.0f}"
        for size in sizes
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
