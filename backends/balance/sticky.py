"""Where most of the prompt is cached, until that replica is saturated; then where the least prefill waits. The rule of llm-d.

- Replicas that hold at least `share` of the prompt are the candidates; where there is none, all are.
- If the best of the candidates has more than `patience` tokens of prefill before it than the best of the others, all are
  candidates: 80,000 tokens are five seconds of an engine that reads 16,000 a second.
- Of the candidates the one with the least prefill to do, this prompt's uncached part included; ties at random.

For comparison: a prompt of which 79 % is cached is placed as if nothing were.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from backends.replica import Replica
from backends.types import Ask


class Sticky:
    __slots__ = ("_patience", "_random", "_share")

    wants_waiting = False
    wants_first_byte = False
    wants_pending = True
    wants_prefix = True
    wants_crowd = False
    wants_order = False

    def __init__(self, rng: random.Random, share: float = 0.8, patience: float = 80_000.0) -> None:
        self._random = rng.random
        self._share = share
        self._patience = patience

    def choose(self, replicas: Sequence[Replica], ask: Ask) -> Replica:
        candidates = self._candidates(replicas, ask)
        loads = [_pending(replica) + ask.uncached(replica.name) for replica in candidates]
        least = min(loads)
        ties = [replica for replica, load in zip(candidates, loads, strict=True) if load == least]
        return ties[0] if len(ties) == 1 else ties[int(self._random() * len(ties))]

    def _candidates(self, replicas: Sequence[Replica], ask: Ask) -> Sequence[Replica]:
        least = self._share * ask.prompt_tokens
        held = [replica for replica in replicas if ask.cached.get(replica.name, -1) >= least]
        others = [replica for replica in replicas if ask.cached.get(replica.name, -1) < least]
        if not held or not others:
            return replicas
        penalty = min(map(_pending, held)) - min(map(_pending, others))
        return replicas if penalty > self._patience else held


def _pending(replica: Replica) -> int:
    return replica.pending + replica.others_pending
