"""What it costs that workers report their counts and one process shows them, in CPU milliseconds.

    python -m bench.tally

One worker with 200 tenants, two models and eight outcomes; four of them where the state of a node is stored. Prints a table.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from statistics import median

from gateway.metrics import Metrics
from gateway.outcomes import OUTCOMES
from gateway.tally import Tally
from gateway.tallyfile import TallyFile

_MODELS = (("small-model", "small"), ("large-model", "large"))
_ROUNDS = 20


def count(metrics: Metrics, requests: int, rng: random.Random) -> None:
    """What so many requests leave behind."""
    for _ in range(requests):
        where, seconds = rng.choice(_MODELS), rng.random()
        metrics.requests.add((metrics.tenant(f"tenant-{rng.randrange(200)}"), *where, rng.choice(OUTCOMES)))
        for histogram in (metrics.duration, metrics.ttft, metrics.tpot):
            histogram.observe(where, seconds)
        metrics.overhead.observe((), seconds / 1000)
        metrics.tokens.add(("prompt",), 100)
        metrics.tokens.add(("completion",), 50)


def cost(work: Callable[[], object], before: Callable[[], object] = lambda: None) -> float:
    """The median of several rounds; `before` is not counted."""
    rounds = []
    for _ in range(_ROUNDS):
        before()
        start = time.process_time()
        work()
        rounds.append(time.process_time() - start)
    return median(rounds) * 1000


def main() -> None:
    rng, parts, file = random.Random(1), list[bytes](), TallyFile()
    worker, node = Metrics(worker=True), Metrics()
    tally = Tally(node)

    def take() -> None:
        parts[:] = worker.take()

    def absorb() -> None:
        for part in parts:
            tally.absorb("w1", part)

    count(worker, 50_000, rng)
    rows = [("everything: take", cost(take, worker.again)), ("everything: absorb", cost(absorb))]
    size = sum(map(len, parts))
    rows.append(("nothing new: take", cost(take)))
    for rate in (100, 500, 2000):

        def work(rate: int = rate) -> None:
            count(worker, rate // 2, rng)

        def work_and_take() -> None:
            work()
            take()

        rows.append((f"half a second of {rate} requests/s: take", cost(take, work)))
        rows.append((f"half a second of {rate} requests/s: absorb", cost(absorb, work_and_take)))
    for name in ("w2", "w3", "w4"):
        worker.again()
        for part in worker.take():
            tally.absorb(name, part)
    rows.append(("scrape: store the state of 4 workers", cost(lambda: file.write(tally.keep()))))
    rows.append(("scrape: the page", cost(node.exposition)))
    rows.append(("a new dispatcher: restore", cost(lambda: Tally(Metrics()).restore(file.read()))))
    for name, milliseconds in rows:
        print(f"{name:50} {milliseconds:8.2f} ms")
    print(f"{len(node.requests.values)} rows of requests; everything is {size} bytes, the state {len(tally.keep())}")


if __name__ == "__main__":
    main()
