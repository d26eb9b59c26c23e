"""What it costs to go by what engines say of their caches: `python -m bench.precise`.

Microseconds of CPU, the best of five rounds; bytes as the interpreter counts them.
"""

from __future__ import annotations

import random
import time
import tracemalloc
from functools import partial

import msgspec

from bench.prefix import _best
from caches.chain import Chain
from caches.kvevents import read_batch
from caches.precise import PreciseIndex
from caches.tokens import STEP, root, token_chain
from gateway.tokenizing import Answer

_TOKENS = 12_000
_BATCHES = 64  # of 8,192 tokens, as an engine reads them in a step
_BATCH = 8_192
_root = partial(root, b"secret")


def main() -> None:
    rng = random.Random(1)
    tokens = _ids(rng, _TOKENS)
    answer = msgspec.json.encode({"count": _TOKENS, "tokens": tokens})
    start = _root(None, None)
    read = _best(lambda: token_chain(start, msgspec.json.decode(answer, type=Answer).tokens))
    print(f"{_TOKENS:,} token ids read and digested       {read:7.1f} us")
    for replicas in (2, 8, 64):
        index, packed = PreciseIndex(_root), token_chain(start, tokens)
        for number in range(replicas):
            held = (_TOKENS - number * STEP) // STEP
            index.heard(f"r{number}", read_batch(_batch(tokens[: held * STEP], STEP))[1][0])
        print(f"looked up and noted, {replicas:2} replicas          {_best(partial(_look, index, packed)):7.1f} us")
    for block in (16, 128):
        _events(rng, block)


def _look(index: PreciseIndex, packed: bytes) -> None:
    prompt = Chain.unpack(packed)
    index.match(prompt, _TOKENS)
    index.sent("r0", prompt)


def _events(rng: random.Random, block: int) -> None:
    """Half a million tokens that have nothing in common."""
    batches = [_batch(_ids(rng, _BATCH), block, name) for name in range(_BATCHES)]

    spent = min(_all(batches) for _ in range(3))
    tracemalloc.start()
    index = PreciseIndex(_root)
    for batch in batches:
        _take(index, batch)
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    thousands = _BATCHES * _BATCH / 1000
    print(f"1,000 tokens told of in blocks of {block:3}    {spent / thousands * 1e6:7.1f} us")
    print(f"a million tokens in blocks of {block:3}: {size / (_BATCHES * _BATCH):4.1f} MB")


def _all(batches: list[bytes]) -> float:
    index, began = PreciseIndex(_root), time.process_time()
    for batch in batches:
        _take(index, batch)
    return time.process_time() - began


def _take(index: PreciseIndex, batch: bytes) -> None:
    for event in read_batch(batch)[1]:
        index.heard("a", event)


def _batch(tokens: list[int], block: int, name: int = 0) -> bytes:
    hashes = [(name << 32) + number for number in range(len(tokens) // block)]
    event = {"type": "BlockStored", "block_hashes": hashes, "parent_block_hash": None, "token_ids": tokens, "block_size": block}
    return msgspec.msgpack.encode([0.0, [event]])


def _ids(rng: random.Random, count: int) -> list[int]:
    return [rng.randrange(100_000) for _ in range(count)]


if __name__ == "__main__":
    main()
