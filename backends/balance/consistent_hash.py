"""A session stays with its replica, by rendezvous hashing with bounded load.

Every replica has a rank of its own for a session, and the highest rank wins. So when a replica goes, only its own
sessions move, spread over all others, and they return with it; nothing is stored for a session.

- The session is compared whole: ids that share a beginning have nothing in common.
- A replica with more than 1.25 × the mean + 1 in flight is passed over, for this request alone: the next one of
  the same session asks again, and other sessions are not touched. One hot session cannot drown its replica.
- Without a session: the fewest requests in flight.

The rank is (a·h + b) mod p with h from the session and a, b from the name: one multiplication a replica, and the
same in every process, so that gateways beside each other agree.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from hashlib import blake2b

from backends.balance.least_requests import LeastRequests
from backends.replica import Replica
from backends.types import Ask

_PRIME = 2**61 - 1
_NAMES = 4096  # names kept; they can be made anew at any time
_LOAD = 1.25


class ConsistentHash:
    __slots__ = ("_keys", "_unbound")

    wants_waiting = False
    wants_first_byte = False

    def __init__(self, rng: random.Random) -> None:
        self._keys: dict[str, tuple[int, int]] = {}
        self._unbound = LeastRequests(rng)

    def choose(self, replicas: Sequence[Replica], ask: Ask) -> Replica:
        if ask.session is None:
            return self._unbound.choose(replicas, ask)
        most = _LOAD * sum([replica.inflight for replica in replicas]) / len(replicas) + 1
        point = _point(ask.session.encode("utf-8", "surrogatepass"))
        highest = -1
        chosen = replicas[0]
        for replica in replicas:
            if replica.inflight > most:
                continue
            a, b = self._keys.get(replica.name) or self._key(replica.name)
            rank = (a * point + b) % _PRIME
            if rank > highest:
                highest, chosen = rank, replica
        return chosen

    def _key(self, name: str) -> tuple[int, int]:
        if len(self._keys) >= _NAMES:
            self._keys.clear()
        digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        key = int.from_bytes(digest[:8]) % (_PRIME - 1) + 1, int.from_bytes(digest[8:]) % _PRIME
        self._keys[name] = key
        return key


def _point(session: bytes) -> int:
    return int.from_bytes(blake2b(session, digest_size=8).digest()) % _PRIME
