"""The tables of the semantic cache over public pairs of questions: what docs/caching.md shows.

    make bench-cache-eval
    python -m bench.cache_eval [--data DIR] [--only WORD]

Each table is printed under the command that makes it. Data that are not there are said so, and left out.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gateway.cli import main as tiergate

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data" / "semantic"


@dataclass(frozen=True, slots=True)
class Table:
    name: str
    data: tuple[str, ...]
    arguments: str = ""


TABLES = (
    Table("hard-pairs", ("fow_cache/pairs.jsonl",), "--threshold 0.8 --threshold 0.9 --threshold 0.95"),
    Table("verified", ("fow_cache/pairs.jsonl",), "--preset strict --judge 0.98/0.01"),
    Table("verified-widely", ("fow_cache/pairs.jsonl",), "--preset strict --judge 0.98/0.01 --judge-asks vetoed --grey 0.35"),
    Table("conversations", ("fow_cache/conv-parts",)),
    Table("near-duplicates", ("near_duplicates.jsonl",), "--threshold 0.9"),
    Table("lookups", ("gptcache_mock.json",), "--threshold 0.9"),
    Table("chinese", ("LCQMC_dev.txt", "PAWS-X_zh_dev_2k.tsv")),
    Table("stream", ("qqp_pairs_dev.json.gz",), "--stream 8000 --threshold 0.85 --threshold 0.9"),
    Table("learning", ("qqp_pairs_dev.json.gz",), "--stream 8000 --shadow 500"),
    Table("calibration", ("qqp_pairs_dev.json.gz",), "--calibrate --max-error 0.05"),
)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="where the files are (%(default)s)")
    parser.add_argument("--only", default="", metavar="WORD", help=f"one of {', '.join(table.name for table in TABLES)}")
    args = parser.parse_args(argv)
    worst = 0
    for table in TABLES:
        if args.only in table.name:
            worst = max(worst, _run(table, args.data))
    return worst


def _run(table: Table, place: Path) -> int:
    missing = [name for name in table.data if not (place / name).exists()]
    if missing:
        print(f"{table.name}: {', '.join(missing)} is not there", file=sys.stderr)
        return 0
    print(f"\n$ tiergate cache eval {' '.join([*table.data, table.arguments])}".rstrip(), flush=True)
    return tiergate(["cache", "eval", *(str(place / name) for name in table.data), *shlex.split(table.arguments)])


if __name__ == "__main__":
    sys.exit(main())
