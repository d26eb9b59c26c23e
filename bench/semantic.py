"""CPU of the semantic cache: a lookup, by what it comes to, and what a request pays that has no part in it.

    python -m bench.semantic [--entries 3000] [--questions FILE] [--json]

Questions are those of a file of pairs (its texts alone, shuffled), or, without one, made of a dozen shapes and made-up nouns,
which are more alike than people's. The CPU is that of this process and of the engine's, over the whole run of each kind.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import random
import tempfile
import time
from functools import partial
from math import exp, log
from pathlib import Path

import psutil

from caches.embed import minilm, onnx
from caches.embed.threaded import ThreadedEmbedder
from caches.scope import Scope
from caches.semantic.cache import SemanticCache
from caches.semantic.partition import partition, split
from caches.semantic.types import Asked, SemanticPolicy
from caches.types import Entry
from caches.vectors.embedded import embedded_store
from caches.vectors.rows import collection_name

SHAPES = (
    "how do I {verb} the {a} of my {b}", "what does {a} mean in {b}", "where can I find {a} near {b}",
    "why is {a} better than {b}", "who wrote the {a} about {b}", "can {a} be used with {b}",
    "which {a} fits a {b} from {c}", "when was the {a} of {b} built",
    "is it safe to {verb} {a} after {b}", "tell me the difference between {a} and {b}", "how much {a} does a {b} need for {c}",
    "what happens if {a} meets {b} at {c}",
)  # fmt: skip
VERBS = [
    "reset", "change", "delete", "find", "export", "rename", "archive", "print", "share", "restore", "import", "freeze",
    "unlock", "audit", "merge",
]  # fmt: skip
STARTS = [
    "bar", "cal", "dor", "fen", "gil", "hos", "jun", "kel", "lom", "mar", "nor", "pal", "quin", "ros", "sel", "tam", "vor",
    "wil", "yar", "zen",
]  # fmt: skip
ENDS = [
    "ton", "vale", "dine", "mark", "less", "ford", "bury", "wick", "land", "port", "more", "side", "field", "stone", "gate",
    "ham", "leaf", "worth",
]  # fmt: skip
FILLER = (
    "I have tried the usual steps twice already and read the manual from the first page to the last one without any luck so"
    " any hint that you could give me in simple words would be welcome because my colleagues are waiting for the result"
)
POLICY = SemanticPolicy("strict", None, 3600.0, 1.0, multi_turn=False, skip_personal=False)
SECRET = b"0" * 32
BODY = json.dumps({"choices": [{"message": {"role": "assistant", "content": "Open the settings. " * 20}}]}).encode()


def noun(rng: random.Random) -> str:
    """One of 6,480, some of them much commoner than others."""
    rank = int(exp(rng.random() * log(len(STARTS) * len(STARTS) * len(ENDS)))) - 1
    rest, end = divmod(rank, len(ENDS))
    first, second = divmod(rest, len(STARTS))
    return STARTS[second] + (STARTS[first] if first else "") + ENDS[end]


def question(rng: random.Random, words: int) -> str:
    asked = rng.choice(SHAPES).format(verb=rng.choice(VERBS), a=noun(rng), b=noun(rng), c=noun(rng))
    more = " ".join(FILLER.split()[: max(0, words - len(asked.split()))])
    return f"{asked} {more}".strip()


def asked(text: str) -> Asked:
    return Asked("aa" * 24, "", text, "acme", "t:acme", "strict", None, "r")


class Cpu:
    """Of this process and its children, in seconds."""

    def __init__(self) -> None:
        self._me = psutil.Process()

    def __call__(self) -> float:
        all_of = [self._me, *self._me.children(recursive=True)]
        times = [process.cpu_times() for process in all_of]
        return float(sum(each.user + each.system for each in times))


async def lookups(cache: SemanticCache, texts: list[str], cpu: Cpu) -> dict[str, float]:
    spent, waited, found = cpu(), [], 0
    for text in texts:
        began = time.perf_counter()
        found += (await cache.look(asked(text))).entry is not None
        waited.append(time.perf_counter() - began)
    waited.sort()
    return {
        "lookups": len(texts), "hits": found, "cpu_ms": (cpu() - spent) / len(texts) * 1e3,
        "p50_ms": waited[len(waited) // 2] * 1e3, "p95_ms": waited[len(waited) * 95 // 100] * 1e3,
    }  # fmt: skip


def spared(count: int = 200_000) -> dict[str, float]:
    """Microseconds of what a request pays that has no part in it, and of what one pays for its partition."""
    messages = [{"role": "system", "content": "be brief" * 40}, {"role": "user", "content": "how do I reset it " * 60}]
    bodies: dict[str, dict[str, object]] = {
        "tools": {"model": "m", "messages": messages, "temperature": 0, "tools": [{"type": "function"}]},
        "several turns": {
            "model": "m",
            "messages": [*messages, {"role": "assistant", "content": "x"}, messages[1]],
            "temperature": 0,
        },
        "embeddings": {"model": "m", "input": "x"},
        "eligible": {"model": "m", "messages": messages, "temperature": 0},
    }
    told = {}
    for name, body in bodies.items():
        endpoint = "embeddings" if name == "embeddings" else "chat"
        began = time.perf_counter()
        for _ in range(count):
            split(endpoint, body, POLICY)
        told[f"split, {name}"] = (time.perf_counter() - began) / count * 1e6
    found = split("chat", bodies["eligible"], POLICY)
    began = time.perf_counter()
    for _ in range(count // 10):
        partition(secret=SECRET, scope=Scope("acme"), endpoint="chat", models=[("m", "1")], rest=found.rest(), tier=None)
    told["partition of a 2 KB body"] = (time.perf_counter() - began) / (count // 10) * 1e6
    return told


def asked_by_people(path: Path) -> list[str]:
    """The texts of a JSON list of pairs, in an order of their own."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        pairs = json.load(file)
    texts = sorted({pair[side] for pair in pairs for side in ("text_a", "text_b")})
    random.Random(1).shuffle(texts)
    return texts


async def run(entries: int, people: list[str]) -> dict[str, object]:
    folder, rng, cpu = minilm.folder(), random.Random(5), Cpu()
    about = folder.about
    embedder = ThreadedEmbedder(about, partial(onnx.OnnxModel, folder), clock=time.monotonic, rng=random.Random(1))
    with tempfile.TemporaryDirectory() as place:
        store = embedded_store(Path(place), collection_name(about.name, about.fingerprint, about.dimension), about.dimension)
        cache = SemanticCache(embedder=embedder, store=store, secret=SECRET, wall=time.time, max_answer=1 << 18, preset="strict")
        await cache.writer.turn()
        made = [question(rng, words) for words in (0, 0, 50) for _ in range(entries // 3)]
        kept = [*people[: entries * 2 // 3], *made[entries * 2 // 3 :]] if people else made
        now = time.time()
        for number, text in enumerate(kept):
            entry = Entry(f"ce-{number}", b"k", "acme", "m", "small", "chat", BODY, now, now + 3600)
            await cache.keep(asked(text), entry)
            if number % 500 == 499:
                await cache.writer.turn()
        await cache.writer.turn()
        await asyncio.sleep(1)
        short, long = [text for text in kept if len(text.split()) < 20], [text for text in kept if len(text.split()) > 40]
        kinds = {
            "hit, about 16 tokens": [f"please, {rng.choice(short)} ?" for _ in range(300)],
            "hit, about 60 tokens": [f"please, {rng.choice(long)} ?" for _ in range(300)],
            "a stream of misses": people[entries : entries + 3000] if people else [question(rng, 0) for _ in range(3000)],
        }
        told: dict[str, object] = {name: await lookups(cache, texts, cpu) for name, texts in kinds.items()}
        await cache.close()
    return {**told, "microseconds": spared()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, default=3000, help="kept questions in the one partition (default: 3000)")
    parser.add_argument("--questions", type=Path, metavar="FILE", help="JSON pairs of text_a and text_b, .gz or not")
    parser.add_argument("--json", action="store_true", help="print JSON")
    args = parser.parse_args()
    told = asyncio.run(run(args.entries, asked_by_people(args.questions) if args.questions else []))
    if args.json:
        print(json.dumps(told, indent=2))
        return
    for name, figures in told.items():
        assert isinstance(figures, dict)
        print(f"{name}: " + ", ".join(f"{what} {value:.4g}" for what, value in figures.items()))


if __name__ == "__main__":
    main()
