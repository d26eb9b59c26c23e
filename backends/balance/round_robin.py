"""Each in turn: the one whose last turn is longest ago.

A position in the list would not do, since the list is another one whenever a replica is full, tried or down.
One that comes back is owed a single turn, not all that it missed.
"""

from __future__ import annotations

from collections.abc import Sequence

from backends.replica import Replica
from backends.types import Ask

_STRANGERS = 64  # turns kept of replicas that are not on offer now


class RoundRobin:
    __slots__ = ("_count", "_turns")

    wants_waiting = False
    wants_first_byte = False
    wants_pending = False
    wants_prefix = False
    wants_crowd = False
    wants_order = False

    def __init__(self) -> None:
        self._count = 0
        self._turns: dict[str, int] = {}

    def choose(self, replicas: Sequence[Replica], ask: Ask) -> Replica:  # noqa: ARG002  the verb of every policy
        turns = self._turns
        chosen = replicas[0]
        longest_ago = self._count + 1
        for replica in replicas:
            turn = turns.get(replica.name, 0)
            if turn < longest_ago:
                chosen, longest_ago = replica, turn
        self._count += 1
        turns[chosen.name] = self._count
        if len(turns) > 2 * len(replicas) + _STRANGERS:
            self._forget()
        return chosen

    def _forget(self) -> None:
        """Keep the newer half, so that names which come and go for ever do not add up."""
        newest = sorted(self._turns.items(), key=lambda turn: turn[1])[len(self._turns) // 2 :]
        self._turns = dict(newest)
