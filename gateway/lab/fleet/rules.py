"""Rules for comparison, as policies of a pool: of other routers, each with its source and its constants, and variants of ours."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence

from backends.replica import Replica
from backends.types import Ask
from gateway.lab.fleet.costs import Costs
from gateway.lab.fleet.engine import Engine

Size = Callable[[str], float]


class _Rule:
    wants_waiting = False
    wants_first_byte = False
    wants_pending = False
    wants_prefix = True
    wants_crowd = False
    wants_order = False

    def __init__(self, rng: random.Random) -> None:
        self._random = rng.random

    def least(self, replicas: Sequence[Replica], costs: Sequence[float]) -> Replica:
        """Ties at random."""
        best = min(costs)
        ties = [replica for replica, cost in zip(replicas, costs, strict=True) if cost == best]
        return ties[0] if len(ties) == 1 else ties[int(self._random() * len(ties))]

    def idlest(self, replicas: Sequence[Replica]) -> Replica:
        return self.least(replicas, [replica.inflight for replica in replicas])


class CacheAware(_Rule):
    """SGLang's router (lightseekorg/smg, docs/concepts/routing/cache-aware.md, policy cache_aware; defaults 0.3, 64, 1.5).

    Out of balance, which is when most and fewest requests in flight differ by more than `apart` and by more than `times`: the
    fewest. Else the longest match, where it is more than `share` of the prompt, of equal ones the fewest; where it is not, the
    fewest, or with `size`, the tokens that a replica's tree holds, the smallest tree: so it was before (sgl-project/sglang).
    """

    def __init__(
        self, rng: random.Random, size: Size | None = None, share: float = 0.3, apart: int = 64, times: float = 1.5
    ) -> None:
        super().__init__(rng)
        self._size, self._share, self._apart, self._times = size, share, apart, times

    def choose(self, replicas: Sequence[Replica], ask: Ask) -> Replica:
        flying = [replica.inflight for replica in replicas]
        if max(flying) - min(flying) > self._apart and max(flying) > self._times * min(flying):
            return self.idlest(replicas)
        matches = [ask.cached.get(replica.name, 0) for replica in replicas]
        longest = max(matches)
        if longest > self._share * ask.prompt_tokens:
            return self.idlest([replica for replica, match in zip(replicas, matches, strict=True) if match == longest])
        if self._size is None:
            return self.idlest(replicas)
        return self.least(replicas, [self._size(replica.name) for replica in replicas])


class PrefixCache(_Rule):
    """AIBrix's prefix-cache (vllm-project/aibrix, pkg/plugins/gateway/algorithms/README.md; 16 and 2 as deployed, not 8 and 1).

    Most and fewest requests in flight differ by more than `apart`: the fewest. Else the longest match among the replicas with at
    most `factor` standard deviations above the mean in flight, of equal matches the fewest; where nobody matches, the fewest.
    """

    def __init__(self, rng: random.Random, apart: int = 16, factor: float = 2.0) -> None:
        super().__init__(rng)
        self._apart, self._factor = apart, factor

    def choose(self, replicas: Sequence[Replica], ask: Ask) -> Replica:
        flying = [replica.inflight for replica in replicas]
        if max(flying) - min(flying) > self._apart:
            return self.idlest(replicas)
        mean = sum(flying) / len(flying)
        most = mean + self._factor * math.sqrt(sum((number - mean) ** 2 for number in flying) / len(flying))
        able = [replica for replica in replicas if ask.cached.get(replica.name, 0) and replica.inflight <= most]
        if not able:
            return self.idlest(replicas)
        longest = max(ask.cached[replica.name] for replica in able)
        return self.idlest([replica for replica in able if ask.cached[replica.name] == longest])


class Longest(_Rule):
    """The longest match and nothing else; of equal ones the fewest in flight. A warning: what all prompts share goes to one."""

    def choose(self, replicas: Sequence[Replica], ask: Ask) -> Replica:
        matches = [ask.cached.get(replica.name, 0) for replica in replicas]
        return self.idlest([replica for replica, match in zip(replicas, matches, strict=True) if match == max(matches)])


class Knowing(_Rule):
    """Looks into the engines, as nobody can: the exact seconds of prefill before this prompt, and `own` times those of its own.

    What is missing to it is what better estimates, of tokens, of caches and of speed, could bring to work cost.
    """

    def __init__(self, rng: random.Random, engines: Mapping[str, Engine], costs: Costs, own: float = 1.5) -> None:
        super().__init__(rng)
        self._engines, self._costs, self._own = engines, costs, own

    def choose(self, replicas: Sequence[Replica], ask: Ask) -> Replica:
        return self.least(replicas, [self._seconds(self._engines[replica.name], replica, ask) for replica in replicas])

    def _seconds(self, engine: Engine, replica: Replica, ask: Ask) -> float:
        own = self._costs.alone(ask.prompt_tokens, engine.cached(ask.prefix, ask.prompt_tokens))
        return engine.backlog() + self._own * own + 0.01 * replica.inflight
