"""What the learned classifier costs on one core: a judgement of short and long asks, in English and in Chinese (microseconds)."""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable

from routing.learned.assumed import EASY_PAIRS, HARD_PAIRS
from routing.learned.classifier import Learned
from routing.learned.shipped import shipped

ROUNDS = 1500


def asks(size: int, rng: random.Random, *, chinese: bool) -> list[str]:
    """Asks of so many characters, of sentences that training had: all of their words are known."""
    sentences = [pair[chinese] for pair in (*EASY_PAIRS, *HARD_PAIRS)]
    made = []
    for _ in range(50):
        text = ""
        while len(text) < size:
            text += rng.choice(sentences) + " "
        made.append(text[:size])
    return made


def measured(judge: Callable[[str], object], texts: list[str]) -> tuple[float, float]:
    """Median and 99th percentile of the CPU time of a judgement, in microseconds."""
    for text in texts:
        judge(text)
    spent = []
    gc.collect()
    for turn in range(ROUNDS):
        began = time.thread_time_ns()
        judge(texts[turn % len(texts)])
        spent.append((time.thread_time_ns() - began) / 1000)
    spent.sort()
    return spent[ROUNDS // 2], spent[ROUNDS * 99 // 100]


def main() -> None:
    classifier, rng = Learned(shipped()), random.Random(0)

    def judge(text: str) -> object:
        return classifier.classify({"messages": [{"role": "user", "content": text}]}, "chat")

    print(f"{'ask':32}{'p50 us':>10}{'p99 us':>10}")
    for chinese in (False, True):
        for size in (40, 400, 4000):
            median, tail = measured(judge, asks(size, rng, chinese=chinese))
            print(f"{size} characters, {'Chinese' if chinese else 'English':20}{median:10.0f}{tail:10.0f}")


if __name__ == "__main__":
    main()
