"""What the queue's order and the predictor cost: `python -m bench.order`. Microseconds of CPU, the best of five rounds."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from functools import partial

from limits.entry import Entry
from limits.predict import Predictor
from limits.scheduler import Queue
from limits.waiting import Order, Priority, QueueBounds, SlotAsk

_BOUNDS = QueueBounds(10**6, 10**12, 10**12, (1e9, 1e9, 1e9))
_ROUNDS, _STEPS = 5, 20_000


class _Nobody:
    def done(self) -> bool:
        return False

    def set_result(self, result: None, /) -> None: ...


def main() -> None:
    print(f"one prediction                        {_best(_predictions):6.2f} us")
    print(f"one answer learned                    {_best(_lessons):6.2f} us")
    print(f"a slot that is free, and settled      {_best(_free):6.2f} us")
    for depth in (10, 1_000, 100_000):
        print(f"join, be next, settle; {depth:7,} waiting {_best(partial(_queued, depth)):6.2f} us")


def _best(work: Callable[[], float]) -> float:
    return min(work() for _ in range(_ROUNDS)) / _STEPS * 1e6


def _asks(count: int) -> list[SlotAsk]:
    rng = random.Random(1)
    return [
        SlotAsk(Priority(rng.randrange(3)), f"t{rng.randrange(50)}", 1, 1, 1e9, rng.randint(1, 4), prompt=rng.randrange(4000),
                output=rng.randrange(800), form="chat+stream", most=rng.choice([None, 500]))
        for _ in range(count)
    ]  # fmt: skip


def _taught(asks: list[SlotAsk]) -> Predictor:
    predictor = Predictor()
    for ask in asks:
        predictor.learn(ask, ask.output)
    return predictor


def _predictions() -> float:
    asks = _asks(_STEPS)
    predictor = _taught(asks)
    began = time.process_time()
    for ask in asks:
        predictor.predict(ask)
    return time.process_time() - began


def _lessons() -> float:
    asks = _asks(_STEPS)
    predictor = _taught(asks)
    began = time.process_time()
    for ask in asks:
        predictor.learn(ask, ask.output)
    return time.process_time() - began


def _free() -> float:
    asks, queue = _asks(_STEPS), Queue(_BOUNDS, Order(0.03))
    began = time.process_time()
    for ask in asks:
        queue.settle(queue.take(ask, 0.0), 100)
    return time.process_time() - began


def _queued(depth: int) -> float:
    asks, queue, now = _asks(_STEPS), Queue(_BOUNDS, Order(0.03)), 0.0
    for ask in _asks(depth):
        queue.push(ask, _Nobody(), now)
    began = time.process_time()
    for ask in asks:
        now += 0.001
        queue.push(ask, _Nobody(), now)
        head = queue.head(now)
        assert isinstance(head, Entry)
        queue.dispatch(head, now)
        queue.settle(head, 100)
    return time.process_time() - began


if __name__ == "__main__":
    main()
