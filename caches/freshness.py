"""How good a kept answer still is, to one who asks for it now.

    0 ──── fresh ──── ttl ──── stale ──── ttl + stale: gone

Stores keep an entry until its `expires_at`, which its maker's policy and wishes set (`ExactPolicy.lifetime`). How much of that
is fresh is a matter of whoever asks: the policy in force now counts, also for what was stored under another.
"""

from __future__ import annotations

import enum

from caches.policy import ExactPolicy
from caches.types import Entry


class Freshness(enum.Enum):
    FRESH = "fresh"  # to be served
    STALE = "stale"  # to be served once more, while a new one is made
    GONE = "gone"  # a miss


_FRESH, _STALE, _GONE = Freshness  # an enum member costs a look-up in its class each time


def freshness(entry: Entry, policy: ExactPolicy, now: float, max_age: float | None = None) -> Freshness:
    """`max_age`: the oldest that the client takes, in seconds. As in HTTP, whoever says one does not want a stale answer."""
    age = max(0.0, now - entry.stored_at)  # another node's clock may be ahead
    if now >= entry.expires_at or (max_age is not None and age > max_age):
        return _GONE
    if age < policy.ttl:
        return _FRESH
    return _STALE if age < policy.ttl + policy.stale and max_age is None else _GONE
