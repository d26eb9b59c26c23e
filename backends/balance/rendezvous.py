"""Rendezvous hashing: every replica has a rank of its own for a point, and the highest rank is the point's home.

When a replica goes, only the points that were at home there move, spread over all others, and they return with it; nothing is
stored for a point. The rank is (a·h + b) mod p with h the point and a, b from the replica's name: one multiplication a replica,
and the same in every process, so that gateways beside each other agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from heapq import nlargest

from backends.replica import Replica

_PRIME = 2**61 - 1
_NAMES = 4096  # names kept; they can be made anew at any time


class Rendezvous:
    __slots__ = ("_keys",)

    def __init__(self) -> None:
        self._keys: dict[str, tuple[int, int]] = {}

    def home(self, replicas: Iterable[Replica], point: int) -> Replica | None:
        """The one of them where the point is at home; None of none."""
        highest = -1
        home = None
        for replica in replicas:
            a, b = self._keys.get(replica.name) or self._key(replica.name)
            rank = (a * point + b) % _PRIME
            if rank > highest:
                highest, home = rank, replica
        return home

    def highest(self, replicas: Sequence[Replica], point: int, count: int) -> list[Replica]:
        """Its home, the one that would be if that one went, and so on."""
        keys = [self._keys.get(replica.name) or self._key(replica.name) for replica in replicas]
        ranks = [(a * point + b) % _PRIME for a, b in keys]
        return [replicas[at] for at in nlargest(count, range(len(ranks)), key=ranks.__getitem__)]

    def _key(self, name: str) -> tuple[int, int]:
        if len(self._keys) >= _NAMES:
            self._keys.clear()
        digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        key = int.from_bytes(digest[:8]) % (_PRIME - 1) + 1, int.from_bytes(digest[8:]) % _PRIME
        self._keys[name] = key
        return key


def point_of(session: str) -> int:
    return int.from_bytes(blake2b(session.encode("utf-8", "surrogatepass"), digest_size=8).digest()) % _PRIME
