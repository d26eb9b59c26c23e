"""What the guards and the decision cost: microseconds of CPU for a question that is read, and for two that are compared.

    .venv/bin/python bench/guards.py [FILE] [--json]

FILE: JSON lines of pairs {a, b}; without one, the pairs of the guards' own tests are taken. The best of seven rounds counts.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(1, str(Path(__file__).resolve().parent.parent / "tests" / "guards"))

from guard_tables import SAME, TRAPS

from caches.guards import Reading, veto
from caches.semantic.decision import judge
from caches.semantic.eligible import refusal

T = TypeVar("T")
ROUNDS = 7
LONG = "How do I find the best way to configure a router so that all of the devices in a house connect"


def cheapest(work: Callable[[T], object], items: Sequence[T]) -> float:
    """Microseconds an item."""
    rounds = []
    for _ in range(ROUNDS):
        begin = time.process_time_ns()
        for item in items:
            work(item)
        rounds.append((time.process_time_ns() - begin) / len(items) / 1000)
    return min(rounds)


def pairs(path: Path | None) -> list[tuple[str, str]]:
    if path is None:
        return [*SAME, *(pair for trap in TRAPS.values() for pair in trap)]
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return [(row["a"], row["b"]) for row in rows]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    texts = pairs(args.file)
    readings = [(Reading.of(a), Reading.of(b)) for a, b in texts]
    figures = {
        "eligible, 20 words": cheapest(lambda text: refusal(text, personal=True), [LONG] * 1000),
        "read, 20 words": cheapest(Reading.of, [LONG] * 1000),
        "read, as they are": cheapest(Reading.of, [text for pair in texts for text in pair]),
        "veto": cheapest(lambda pair: veto(*pair), readings),
        "judge": cheapest(lambda pair: judge(*pair, 0.9), readings),
    }
    if args.json:
        print(json.dumps({name: round(figure, 2) for name, figure in figures.items()}))
    else:
        print(f"{len(texts)} pairs; microseconds of CPU")
        for name, figure in figures.items():
            print(f"  {name:20} {figure:7.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
