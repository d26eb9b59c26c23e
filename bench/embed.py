"""What an embedding costs, and what it keeps the event loop from.

    python -m bench.embed [--beside FOLDER [--pairs FILE]] [--json]

- A model's CPU and time by length, one text a call on one thread, with its tokenizer and pooling.
- The same through the embedder: what the queue, the thread and the way back add; a remembered vector; `covers`.
- How late the event loop's ticks come while 64-token texts are embedded without a pause: in a thread, in another process (it
  shares cores with the loop, but no interpreter lock), and not at all. A thread that sleeps as long is the measure's own error: a
  loop that other events wake rounds its timers to the millisecond.
- With another folder (`bench/minilm.py --float` makes the 32-bit one): cosines to it, and how well each ranks labelled pairs.

Waits for the machine say nothing of the code: compare CPU, and medians of several runs on a quiet machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import numpy as np
import uvloop

from caches.embed import minilm
from caches.embed.description import Description, Folder, read_folder
from caches.embed.onnx import OnnxModel
from caches.embed.threaded import ThreadedEmbedder
from caches.embed.types import Model, Vector
from gateway.lab.cacheeval.formats import load

TOKENS = (8, 16, 64, 200)
ROUNDS = 300
STALL_SECONDS = 5.0
TICK = 0.001

_ELSEWHERE = """
from bench.embed import minilm, text
model = minilm.load()
print("ready", flush=True)
while True:
    model.embed([text(64)])
"""

Rows = dict[str, dict[str, float]]


def text(tokens: int, number: int = 0) -> str:
    """Words of a token each; two are the beginning and the end."""
    words = ("time", "house", "river", "money", "light", "paper", "music", "green")
    return " ".join(words[(n * (number + 1) + number // 8) % len(words)] for n in range(tokens - 2))


def timed(call: Callable[[], object], rounds: int) -> dict[str, float]:
    """Milliseconds, medians: by the wall and by the CPU of this thread."""
    for _ in range(10):
        call()
    wall, cpu = [], []
    for _ in range(rounds):
        began, spent = time.perf_counter(), time.thread_time()
        call()
        wall.append(time.perf_counter() - began)
        cpu.append(time.thread_time() - spent)
    return {"p50 ms": 1000 * statistics.median(wall), "cpu ms": 1000 * statistics.median(cpu)}


def of_model(model: Model) -> Rows:
    return {f"{n} tokens": timed(partial(model.embed, [text(n)]), ROUNDS if n < 100 else ROUNDS // 5) for n in TOKENS}


async def through(embedder: ThreadedEmbedder) -> Rows:
    """Texts that are new each time; the CPU is the process's, so of the loop and of the thread."""
    rows: Rows = {}
    for tokens in TOKENS:
        wall, spent = [], time.process_time()
        for number in range(ROUNDS // 3):
            began = time.perf_counter()
            await embedder.embed(f"{text(tokens - 1)} {number}", within=10.0)
            wall.append(time.perf_counter() - began)
        cpu = (time.process_time() - spent) / len(wall)
        rows[f"{tokens} tokens"] = {"p50 ms": 1000 * statistics.median(wall), "cpu ms": 1000 * cpu}
    again = f"{text(15)} 0"
    rows["remembered"] = await repeated(lambda: embedder.embed(again))
    rows["covers"] = timed(lambda: embedder.covers(again), 2000)
    return rows


async def repeated(call: Callable[[], Awaitable[object]], rounds: int = 5000) -> dict[str, float]:
    began, spent = time.perf_counter(), time.process_time()
    for _ in range(rounds):
        await call()
    wall, cpu = time.perf_counter() - began, time.process_time() - spent
    return {"p50 ms": 1000 * wall / rounds, "cpu ms": 1000 * cpu / rounds}


async def stall(embedder: ThreadedEmbedder | None) -> dict[str, float]:
    """How late a tick of a millisecond comes; milliseconds."""
    busy = None if embedder is None else asyncio.create_task(flat_out(embedder))
    late, end = [], time.perf_counter() + STALL_SECONDS
    while (began := time.perf_counter()) < end:
        await asyncio.sleep(TICK)
        late.append(1000 * (time.perf_counter() - began - TICK))
    row = {"p50 ms": statistics.median(late), "p99 ms": float(np.quantile(late, 0.99)), "most ms": max(late)}
    if busy is not None:
        busy.cancel()
        await asyncio.gather(busy, return_exceptions=True)
    return row


async def flat_out(embedder: ThreadedEmbedder) -> None:
    number = 0
    while True:
        number += 1
        await embedder.embed(f"{text(63)} {number}", within=10.0)


class Sleeper:
    """Takes as long as 64 tokens do, without the CPU."""

    def __init__(self, about: Description, seconds: float) -> None:
        self.fingerprint, self.dimension, self.max_tokens = about.fingerprint, about.dimension, about.max_tokens
        self._seconds = seconds
        self._vector = np.ones(about.dimension, np.float32)

    def embed(self, texts: Sequence[str]) -> list[Vector | None]:
        time.sleep(self._seconds)
        return [self._vector] * len(texts)


@asynccontextmanager
async def embedding(about: Description, load: Callable[[], Model]) -> AsyncIterator[ThreadedEmbedder]:
    embedder = ThreadedEmbedder(about, load, clock=time.monotonic, rng=random.Random(1))
    await embedder.open()
    try:
        yield embedder
    finally:
        await embedder.close()


async def of_embedder(folder: Folder[Description]) -> tuple[Rows, Rows]:
    async with embedding(folder.about, partial(OnnxModel, folder)) as embedder:
        costs = await through(embedder)
        late = {"nothing else": await stall(None), "embedding in a thread": await stall(embedder)}
    async with elsewhere():
        late["embedding in another process"] = await stall(None)
    async with embedding(folder.about, partial(Sleeper, folder.about, costs["64 tokens"]["p50 ms"] / 1000)) as sleeping:
        late["a thread that sleeps"] = await stall(sleeping)
    return costs, late


@asynccontextmanager
async def elsewhere() -> AsyncIterator[None]:
    """Another process that embeds without a pause."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", _ELSEWHERE, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout is not None
        await process.stdout.readline()
        yield
    finally:
        process.kill()
        await process.wait()


def beside(one: Model, other: Model, pairs: Path | None) -> Rows:
    """Cosines of the same texts by both models, and the rank of pairs by each."""
    data = [pair for pair in load(pairs).pairs[:2000] if not pair.barred] if pairs else []
    texts = sorted({side for pair in data for side in (pair.a, pair.b)}) or [text(12, n) for n in range(64)]
    mine, theirs = vectors(one, texts), vectors(other, texts)
    both = [name for name in texts if name in mine and name in theirs]
    cosines = [float(mine[name] @ theirs[name]) for name in both]
    rows: Rows = {"cosine": {"mean": statistics.fmean(cosines), "least": min(cosines), "texts": float(len(both))}}
    scored = [pair for pair in data if {pair.a, pair.b} <= set(both)]
    for name, known in (("ours", mine), ("beside", theirs)) if scored else ():
        rows[f"area under the curve, {name}"] = {
            "mean": area([(float(known[pair.a] @ known[pair.b]), pair.same) for pair in scored])
        }
    return rows


def vectors(model: Model, texts: Sequence[str]) -> dict[str, Vector]:
    return {text: vector for text, vector in zip(texts, model.embed(texts), strict=True) if vector is not None}


def area(scored: list[tuple[float, bool]]) -> float:
    """The chance that a pair of one meaning has the higher cosine than a pair of two."""
    right = np.array([score for score, same in scored if same])
    wrong = np.array([score for score, same in scored if not same])
    above = (right[:, None] > wrong[None, :]).mean() + 0.5 * (right[:, None] == wrong[None, :]).mean()
    return float(above)


def show(title: str, rows: Rows) -> None:
    columns = list(next(iter(rows.values())))
    print(f"\n{title:36}" + "".join(f"{column:>12}" for column in columns))
    for name, row in rows.items():
        print(f"{name:36}" + "".join(f"{value:12.4g}" for value in row.values()))


def main() -> None:
    reads = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reads.add_argument("--beside", type=Path, metavar="FOLDER", help="another model's folder, to compare with")
    reads.add_argument("--pairs", type=Path, metavar="FILE", help="labelled pairs, as `tiergate cache eval` reads them")
    reads.add_argument("--json", action="store_true")
    asked = reads.parse_args()
    folder, began = minilm.folder(), time.perf_counter()
    model = OnnxModel(folder)
    tables = {"the model loads": {folder.about.fingerprint: {"seconds": time.perf_counter() - began}}}
    tables["the model, a text a call"] = of_model(model)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        tables["through the embedder"], tables["how late the loop is"] = runner.run(of_embedder(folder))
    if asked.beside:
        tables[f"beside {asked.beside.name}"] = beside(model, OnnxModel(read_folder(asked.beside)), asked.pairs)
    if asked.json:
        print(json.dumps(tables, indent=2))
        return
    for title, rows in tables.items():
        show(title, rows)


if __name__ == "__main__":
    main()
