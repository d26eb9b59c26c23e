"""Trains the policy that is shipped: `python -m routing.learned.sources DATA OUT` (`make route-weights`).

Sources (per-prompt outcomes, gzipped JSON lines in the folder DATA; each file's small and large scores are means over models)

    file            what it is                        licence       small                     large
    routellm_mmlu   MMLU, lm-sys/RouteLLM             Apache-2.0    mixtral-8x7b              gpt-4-1106
    mmlu_pro        TIGER-AI-Lab/MMLU-Pro             MIT data      llama-3.1-8b, qwen1.5-7b, llama-3.1-70b, qwen1.5-72b,
                                                                    mistral-7b-v0.2           mixtral-8x7b
    llmrouter       13 tasks, ulab-uiuc/LLMRouter     MIT           llama-3.1-8b, gemma-2-9b, llama-3.1-nemotron-51b,
                                                                    mistral-7b-v0.3           llama-3.3-nemotron-49b
    zeroeval_gsm    GSM8K, WildEval/ZeroEval          Apache-2.0    llama-3-8b, llama-3.1-8b, llama-3-70b, llama-3.1-70b,
                                                                    qwen2-7b, gemma-2-9b      qwen2-72b

Rules
- All rows of each file are used, but a prompt whose first 90 letters came before: MMLU-Pro repeats MMLU, LLMRouter repeats
  both and GSM8K.
- A file's level is that of its models, not of its prompts: its scores are shifted to the mean of all files.
- A file weighs by its kinds of tasks and the square root of its rows: an examination is one kind of ask, however many questions
  it has.
- Everyday asks are in none of the files: some are added by assumption (`assumed`), each as ASSUMED rows.
- MT-Bench is not among them: it is kept for measuring.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from routing.harness import READ
from routing.learned.assumed import EASY, EASY_PAIRS, HARD, HARD_PAIRS
from routing.learned.policy import Policy
from routing.learned.train import Row, train

SEED = 8
ASSUMED = 200.0
AMOUNTS_COST = 10.0  # lower than for one's own traffic: over many kinds of asks, amounts say more, and in any language
_LETTERS = 90


@dataclass(frozen=True, slots=True)
class Source:
    file: str
    small: tuple[str, ...]
    large: tuple[str, ...]
    kinds: int = 1


SOURCES = (
    Source("routellm_mmlu", ("mixtral-8x7b-instruct-v0.1",), ("gpt-4-1106-preview",)),
    Source(
        "llmrouter",
        ("llama-3.1-8b-instruct", "mistral-7b-instruct-v0.3", "gemma-2-9b-it"),
        ("llama-3.1-nemotron-51b-instruct", "llama-3.3-nemotron-super-49b-v1"),
        kinds=13,
    ),
    Source(
        "zeroeval_gsm",
        ("llama-3-8b-instruct", "llama-3.1-8b-instruct", "qwen2-7b-instruct", "gemma-2-9b-it"),
        ("llama-3-70b-instruct", "llama-3.1-70b-instruct", "qwen2-72b-instruct"),
    ),
    Source(
        "mmlu_pro",
        ("llama-3.1-8b-instruct", "qwen1.5-7b-chat", "mistral-7b-instruct-v0.2"),
        ("llama-3.1-70b-instruct", "qwen1.5-72b-chat", "mixtral-8x7b-instruct-v0.1"),
    ),
)


def rows_of(folder: Path, sources: Sequence[Source] = SOURCES) -> list[Row]:
    """The rows of all sources, levelled and weighed."""
    seen: set[str] = set()
    files = [_read(folder / f"{source.file}.jsonl.gz", source, seen) for source in sources]
    means = [(_mean([row.small or 0.0 for row in rows]), _mean([row.large or 0.0 for row in rows])) for rows in files]
    level = _mean([small for small, _ in means]), _mean([large for _, large in means])
    most = max(map(len, files))
    return [
        replace(
            row,
            small=(row.small or 0.0) - small + level[0],
            large=(row.large or 0.0) - large + level[1],
            weight=source.kinds * (most / len(rows)) ** 0.5,
        )
        for source, rows, (small, large) in zip(sources, files, means, strict=True)
        for row in rows
    ]


def assumed() -> list[Row]:
    sides = ((EASY, EASY_PAIRS), (HARD, HARD_PAIRS))
    return [Row(text, *scores, ASSUMED) for scores, pairs in sides for pair in pairs for text in pair]


def opening(prompt: str) -> str:
    """What tells a prompt from others, however its options are laid out."""
    return re.sub("[^a-z]", "", prompt.lower())[:_LETTERS]


def _read(path: Path, source: Source, seen: set[str]) -> list[Row]:
    rows: list[Row] = []
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in map(json.loads, lines):
            scores: Mapping[str, Any] = line["scores"]
            key = opening(line["prompt"])
            if key in seen or not all(model in scores for model in (*source.small, *source.large)):
                continue
            seen.add(key)
            small, large = (_mean([float(scores[model]) for model in side]) for side in (source.small, source.large))
            rows.append(Row(line["prompt"][:READ], small, large))
    return rows


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m routing.learned.sources", description="Train the policy that is shipped.")
    parser.add_argument("data", type=Path, help="folder of the sources")
    parser.add_argument("out", type=Path, help="file to write")
    parser.add_argument(
        "--without", nargs="*", default=[], choices=[source.file for source in SOURCES], help="sources to leave out"
    )
    asked = parser.parse_args(arguments)
    sources = [source for source in SOURCES if source.file not in asked.without]
    missing = [f"{source.file}.jsonl.gz" for source in sources if not (asked.data / f"{source.file}.jsonl.gz").is_file()]
    if missing:
        print(f"{', '.join(missing)}: not in {asked.data}; docs/learned.md says where they come from", file=sys.stderr)
        return 2
    rows = rows_of(asked.data, sources)
    policy: Policy = train([*rows, *assumed()], base=None, seed=SEED, amounts_cost=AMOUNTS_COST)
    policy.save(asked.out)
    print(f"{asked.out}: version {policy.version}, {len(rows)} rows, {len(policy.keys)} grams, {asked.out.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
