"""Slow start: a replica that joins is given its work little by little.

From the moment when it is up for the first time, over `ramp_seconds`, its share grows from a tenth to all:

- Its slots are that share of what it would be given otherwise, so the pool's capacity grows with them; its tokens too.
- When the policy chooses it while a warm one has a free slot, it takes that share of the requests, and none while it
  has more than that share of a warm one's mean load. So it holds for every policy, also for one that fills the emptiest.
- A session decides by its own hash rather than by chance: it goes over to the new replica once, and stays.

No timer: the shares are worked out when the pool refreshes, which it does in steps while there are any.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from zlib import crc32

from backends.replica import Replica
from backends.types import Ask

_STEPS = 64
_FIRST_SHARE = 0.1  # less would be no start


class Ramp:
    """Writes `slots`, `most_tokens` and `ramp_from` of the replicas of one pool. `shares` has those in their slow start."""

    __slots__ = ("_random", "shares")

    def __init__(self, rng: random.Random) -> None:
        self._random = rng.random
        self.shares: dict[Replica, float] = {}

    def update(self, replicas: Iterable[Replica], now: float) -> float | None:
        """Work out the slots; the moment from which they are to be worked out again, if any."""
        self.shares = {}
        again = None
        for replica in replicas:
            governor = replica.governor
            slots = replica.slots = min(replica.max_inflight, governor.slots)
            replica.most_tokens = governor.tokens
            share = _share(replica, now) if replica.ramp_seconds else 1.0
            if share < 1.0:
                self.shares[replica] = share
                replica.slots, replica.most_tokens = max(1, int(slots * share)), governor.tokens * share
                step = now + replica.ramp_seconds / _STEPS
                again = step if again is None else min(again, step)
        return again

    def takes(self, chosen: Replica, warm: Sequence[Replica], ask: Ask) -> bool:
        """Whether one in its slow start takes this request, where each of `warm` could."""
        share = self.shares[chosen]
        draw = self._random() if ask.session is None else crc32(ask.session.encode("utf-8", "surrogatepass")) / 2**32
        return draw < share and chosen.inflight <= share * sum([replica.inflight for replica in warm]) / len(warm)


def _share(replica: Replica, now: float) -> float:
    """A slow start begins when its replica is up for the first time, and is not begun anew."""
    if replica.ramp_from is None:
        if not replica.up:
            return _FIRST_SHARE
        replica.ramp_from = now
    share = max(_FIRST_SHARE, (now - replica.ramp_from) / replica.ramp_seconds)
    if share >= 1.0:
        replica.ramp_seconds = 0.0
    return min(1.0, share)
