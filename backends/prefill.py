"""How fast replicas read prompts, each beside the others of its pool: what divides the cost of work there.

A sample is a stream whose request was alone on its replica from dispatch to first byte, with at least 1,024 tokens to compute:
tokens by seconds. Others would make it slower than the replica is, and a short prompt measures the network.

- It is compared with what the pool's prompts of that size took, from one power of two to the next: engines read short prompts and
  very long ones at other rates than those between, and whoever happened to get those is no slower.
- Samples are averaged as logarithms, the last 50 of them; two that are twice and half as fast are none that is faster.
- A speed is the distance from the mean of the measured replicas, less a fifth, and less what few samples can be off by, for
  estimates of tokens are. Engines of one kind must come out equal, not nearly so: the least difference decides between all
  that are idle, and one of them would get whatever comes.
- It ages with the samples that others give, not with time: where all are busy nobody is alone, and what was measured stays. A
  replica that gave none in eight rounds of the pool's counts for half as many with every four rounds more, down to none. So
  one that was slow once, and is asked no more for that, is tried again: of some hundred requests one, in a pool of three.
- It is bounded by a factor of four, whatever was measured.
"""

from __future__ import annotations

from math import copysign, exp, log, sqrt

from backends.replica import Replica

LEAST_TOKENS = 1024
_MEMORY = 50
_POOL_MEMORY = 200
_DOUBT = 0.75  # what one sample can be off by, as a logarithm; of n by the root of n less
_NOISE = log(1.2)
_MOST = log(4.0)
_FRESH = 8  # rounds: as many samples as there are replicas that were measured
_HALF_LIFE = 4
_LEAST = 1e-6  # samples
_AT_ONCE = 16  # replicas that are compared for one sample; of more only with every second one, every third …


class Speeds:
    """Writes `speed` of the replicas of one pool."""

    __slots__ = ("_at", "_known", "_samples", "_sizes")

    def __init__(self) -> None:
        self._known: dict[Replica, tuple[float, float]] = {}  # mean distance of logarithms of tokens a second, samples
        self._sizes: dict[int, tuple[float, float]] = {}  # by the bits of its tokens: mean of those of the pool, samples
        self._samples = 0
        self._at: dict[Replica, int] = {}  # the number of its last sample

    def sample(self, replica: Replica, tokens: int, seconds: float) -> None:
        if tokens < LEAST_TOKENS or seconds <= 0.0:
            return
        rate, size = log(tokens / seconds), tokens.bit_length()
        usual = self._sizes[size] = _taken_in(self._sizes.get(size, (0.0, 0)), rate, _POOL_MEMORY)
        mean, _ = self._known.get(replica, (0.0, 0))
        self._known[replica] = _taken_in((mean, self._weight(replica)), rate - usual[0], _MEMORY)
        self._samples += 1
        self._at[replica] = self._samples
        if self._samples % (1 + len(self._known) // _AT_ONCE) == 0:
            self._compare()

    def forget(self, replica: Replica) -> None:
        self._at.pop(replica, None)
        if self._known.pop(replica, None) is not None:
            self._compare()

    def _weight(self, replica: Replica) -> float:
        """The samples that it counts for now."""
        if replica not in self._known:
            return 0.0
        rounds = (self._samples - self._at[replica]) / len(self._known)
        return self._known[replica][1] * exp(-log(2.0) * max(0.0, rounds - _FRESH) / _HALF_LIFE)

    def _compare(self) -> None:
        weights = {replica: self._weight(replica) for replica in self._known}
        total = sum(weights.values()) or 1.0
        average = sum(mean * weights[replica] for replica, (mean, _) in self._known.items()) / total
        for replica, (mean, _) in self._known.items():
            off = mean - average
            sure = max(0.0, abs(off) - _NOISE - _DOUBT / sqrt(max(weights[replica], _LEAST)))
            replica.speed = exp(copysign(min(sure, _MOST), off))
            if replica.order is not None:
                replica.order.moved(replica)


def _taken_in(known: tuple[float, float], value: float, memory: int) -> tuple[float, float]:
    """The mean with one value more, and how many it is of, at most `memory`."""
    mean, count = known[0], min(known[1] + 1, memory)
    return mean + (value - mean) / count, count
