"""What it costs to know whose cache holds a prompt: `python -m bench.prefix`.

Microseconds of CPU, the best of five rounds; bytes as the interpreter counts them.
"""

from __future__ import annotations

import random
import time
import tracemalloc
from collections.abc import Callable

from backends.balance import make_balance
from backends.breaker import Breaker
from backends.client import Client, Origin
from backends.pool import Pool
from backends.replica import Replica
from backends.types import Ask
from caches.chain import Chain, chain, chain_key
from caches.crowd import Crowd
from caches.holders import Holders
from caches.prefix import PrefixIndex
from caches.prompts import prompt_parts

_ROUNDS, _STEPS = 5, 200
_PROMPT_TOKENS = 12_000
_BYTES = 48_000
_KEY = chain_key("model", None, "salt")
_WORDS = ("the", "quick", "brown", "fox", "jumps", "over", "a", "lazy", "dog", "and", "asks", "what", "became", "of", "it")


def main() -> None:
    body = _conversation(_BYTES)
    print(f"chain of a short question             {_best(lambda: _chained(_conversation(60))):7.1f} us")
    print(f"chain of {_BYTES:,} bytes of messages     {_best(lambda: _chained(body)):7.1f} us")
    for crowded in (False, True):
        for replicas in (2, 8, 64, 256):
            decide, kind = _decisions(replicas, crowded=crowded), "that many share" if crowded else "of its own"
            print(f"{_PROMPT_TOKENS:,} tokens {kind:15}, {replicas:3} replicas: whole decision {_best(decide):7.1f} us")
    _memory()


def _best(work: Callable[[], object]) -> float:
    """Of one call."""
    rounds = []
    for _ in range(_ROUNDS):
        began = time.process_time()
        for _ in range(_STEPS):
            work()
        rounds.append(time.process_time() - began)
    return min(rounds) / _STEPS * 1e6


def _conversation(size: int, seed: int = 1) -> dict[str, object]:
    rng = random.Random(seed)
    messages, left, turn = [], size, 0
    while left > 0:
        text = " ".join(rng.choices(_WORDS, k=min(160, left // 5 + 1)))
        messages.append({"role": "assistant" if turn % 2 else "user", "content": text})
        left, turn = left - len(text), turn + 1
    return {"model": "m", "messages": messages}


def _chained(body: dict[str, object]) -> bytes:
    parts, answer = prompt_parts(body, "chat")
    return chain(_KEY, parts, answer=answer)


def _decisions(count: int, *, crowded: bool) -> Callable[[], object]:
    """Unpack, match, choose, note what is sent; half of the replicas hold some of the prompt, one all but the last turn."""
    index, crowd = PrefixIndex(), Crowd(time.monotonic)
    client = Client(Origin.parse("http://127.0.0.1:1/v1"))
    replicas = [Replica(f"r{number}", client, breaker=Breaker(random.Random(1))) for number in range(count)]
    pool = Pool("m", replicas, make_balance("work_cost", seed=1))
    for replica in replicas:
        replica.up = True
    packed = _chained(_conversation(_BYTES))
    whole = Chain.unpack(packed)
    for number in range(0, count, 2):
        held = len(whole.blocks) * (number + 1) // count
        index.add(f"r{number}", Chain(whole.blocks[:held], held * whole.block), held * 64)

    company = whole if crowded else Chain.unpack(_chained(_conversation(_BYTES, 2)))

    def decide() -> None:
        prompt = Chain.unpack(packed)
        cached, many = index.match(prompt, _PROMPT_TOKENS), crowd.along(prompt, _PROMPT_TOKENS)
        holders = cached.counts() if many and isinstance(cached, Holders) else ()
        chosen = pool.pick(Ask(None, _PROMPT_TOKENS, cached=cached, holders=holders, prefix=prompt.blocks, crowd=many))
        assert chosen is not None
        index.add(chosen.name, prompt, _PROMPT_TOKENS)
        crowd.came(company)

    return decide


def _memory() -> None:
    """Of a million tokens that have nothing in common, held by one replica; and by eight in turn."""
    for replicas in (1, 8):
        tracemalloc.start()
        index = PrefixIndex(tokens=1 << 40, most=1 << 40)
        tokens, before = 0, tracemalloc.get_traced_memory()[0]
        for number in range(100):
            prompt = Chain.unpack(_chained(_conversation(_BYTES, number)))
            for replica in range(replicas):
                index.add(f"r{replica}", prompt, _PROMPT_TOKENS)
            tokens += _PROMPT_TOKENS * replicas
        held = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
        print(f"a million tokens, each held {replicas} times: {held / tokens:4.2f} MB, {held / len(index):4.0f} bytes an entry")


if __name__ == "__main__":
    main()
