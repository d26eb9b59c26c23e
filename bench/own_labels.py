"""What labels of one's own are worth: public outcomes replayed as an operator's traffic, learned by `tiergate calibrate`.

    .venv/bin/python -m bench.own_labels DATA [--labels 100 300 1000 3000] [--json]

DATA is a folder of public outcomes (llmrouter, mmlu_pro, routellm_mmlu, zeroeval_gsm; cascade_answers for agreement). For
each set a generic policy is trained on the other sets, without the rows that this one has too. It stands for the one that ships,
which knows these very sets. Then N rows of the set, in random order, are what was written down; the ruling is that of `tiergate
calibrate`, and both policies are measured on LATER other rows by what was right.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gateway.lab.calibrate.measure import Figures, Outcomes, Told, measure
from gateway.lab.calibrate.recalibrate import recalibrated
from gateway.lab.calibrate.samples import Sample
from gateway.lab.calibrate.study import study
from gateway.lab.routing.metrics import Resamples
from routing.grams import grams_of
from routing.learned.policy import Policy
from routing.learned.train import Row, train

LATER = 2000
GENERIC = 1500  # rows of each other set
_LETTERS = 90  # at the beginning, by which a row is found again in another set
_MOST_TEXT = 8000
SETS = {
    "llmrouter": ("llama-3.1-8b-instruct", "llama-3.1-nemotron-51b-instruct"),
    "mmlu_pro": ("llama-3.1-8b-instruct", "llama-3.1-70b-instruct"),
    "routellm_mmlu": ("mixtral-8x7b-instruct-v0.1", "gpt-4-1106-preview"),
    "zeroeval_gsm": ("llama-3.1-8b-instruct", "llama-3.1-70b-instruct"),
}


@dataclass(frozen=True, slots=True)
class Outcome:
    key: str
    text: str
    small: float
    large: float
    agreed: bool | None  # whether both models gave the same answer


def read_set(folder: Path, name: str, seed: int) -> list[Outcome]:
    """In random order."""
    small, large = SETS[name]
    answers = {row["id"]: row["answers"] for row in _rows(folder / "cascade_answers.jsonl.gz")}
    found = []
    for row in _rows(folder / f"{name}.jsonl.gz"):
        scores, said = row["scores"], answers.get(row["id"], {})
        if small in scores and large in scores:
            agreed = said[small] == said[large] if said.get(small) and said.get(large) else None
            key = re.sub(r"\W+", "", row["prompt"].lower())[:_LETTERS]
            found.append(Outcome(key, row["prompt"][:_MOST_TEXT], float(scores[small]), float(scores[large]), agreed))
    random.Random(seed).shuffle(found)
    return found


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def generic(sets: dict[str, list[Outcome]], without: str, seed: int) -> Policy:
    """What is learned of all other sets."""
    known = {one.key for one in sets[without]}
    rows = [
        Row(one.text, one.small, one.large)
        for name, found in sets.items() if name != without
        for one in [one for one in found if one.key not in known][:GENERIC]
    ]  # fmt: skip
    return train(rows, base=None, seed=seed)


def samples(rows: Sequence[Outcome], *, agreement: bool) -> list[Sample]:
    """As `tiergate calibrate` reads them. By agreement the large tier is taken as right."""
    made = []
    for at, one in enumerate(rows):
        labels = (float(bool(one.agreed)), 1.0) if agreement else (one.small, one.large)
        made.append(Sample(float(at), at.to_bytes(8), grams_of(one.text), one.text, *labels, one.agreed if agreement else None))
    return made


def worth(policy: Policy, later: Sequence[Outcome]) -> Figures:
    was = Outcomes(np.array([one.small for one in later]), np.array([one.large for one in later]))
    return measure(Told.of([policy.judge(one.text) for one in later]), was, Resamples(len(later)))[0]


def replay(sets: dict[str, list[Outcome]], labels: Sequence[int], seed: int) -> Iterator[dict[str, Any]]:
    for name, rows in sets.items():
        base = generic(sets, name, seed)
        later = rows[-LATER:] if len(rows) > 2 * LATER else rows[len(rows) // 2 :]
        first = rows[: -len(later)]
        yield {"set": name, "labels": 0, "tested": len(later), **_told("generic", worth(base, later))}
        for agreement in (False, True):
            known = [one for one in first if one.agreed is not None] if agreement else first
            for count in labels:
                if len(known) >= count:
                    own = samples(known[:count], agreement=agreement)
                    result = study(own, shipped=base, current=base, since=0.0, seed=seed)
                    yield {
                        "set": name,
                        "labels": count,
                        "labels_by": "agreement" if agreement else "what was right",
                        **_told("trained", worth(result.tried[0].policy, later)),
                        **_told("recalibrated", worth(recalibrated(base, own), later)),
                        "takes_over": result.new.kind if result.new.ruling.swap else "none",
                        "why": result.new.ruling.why,
                    }


def _told(name: str, told: Figures) -> dict[str, Any]:
    apgr = told.apgr
    return {name: {"apgr": apgr.value, "low": apgr.low, "high": apgr.high, "ece": told.ece.value, "kept": told.kept}}


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Markdown."""
    heads = ("set", "labels", "by", "APGR", "ECE", "kept small at 95 %", "ECE, calibrated anew", "takes over")
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    for row in rows:
        if not row["labels"]:
            lines.append(f"| {row['set']} | generic | | {_cells(row['generic'])} | | |")
        else:
            calibrated = f"{row['recalibrated']['ece']:.3f}"
            lines.append(
                f"| | {row['labels']:,} | {row['labels_by']} | {_cells(row['trained'])} | {calibrated} | {row['takes_over']} |"
            )
    return "\n".join(lines)


def _cells(told: dict[str, Any]) -> str:
    between = "" if told["low"] is None else f" [{told['low']:.3f}, {told['high']:.3f}]"
    return f"{told['apgr']:.3f}{between} | {told['ece']:.3f} | {told['kept']:.2f}"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="What labels of one's own are worth.")
    parser.add_argument("data", type=Path, metavar="DATA")
    parser.add_argument("--labels", type=int, nargs="+", default=[100, 300, 1000, 3000])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args(argv)
    missing = [file for file in (*SETS, "cascade_answers") if not (args.data / f"{file}.jsonl.gz").is_file()]
    if missing:
        named = ", ".join(f"{file}.jsonl.gz" for file in missing)
        print(f"{named}: not in {args.data}; docs/learned.md says where the public outcomes come from", file=sys.stderr)
        return 2
    sets = {name: read_set(args.data, name, args.seed) for name in SETS}
    rows = []
    for row in replay(sets, args.labels, args.seed):
        rows.append(row)
        print(row["set"], row.get("labels_by", "generic"), row["labels"], file=sys.stderr)
    print(json.dumps(rows, indent=2) if args.json else table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
