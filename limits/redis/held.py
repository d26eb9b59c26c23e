"""What this node holds: parallel slots on the server, renewed for as long as it lives, and its place among the nodes.

Leases that the server has lost meanwhile are taken again with the next renewal, free or not; those of a node that died end by
themselves. All renewals are written at once, and behind them a question how many nodes there are, which is the probe of the line.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Sequence
from contextlib import suppress

from limits.redis.line import Away, Line
from limits.redis.names import Known
from limits.redis.scripts import LEASE
from limits.redis.words import Words

BEAT = 1.0  # seconds
_RENEWALS = 3.0
_PIECE = 256  # leases in one call
_MOST = 1000  # nodes
_log = logging.getLogger("tiergate.limits")


class Held:
    """`instances`: as many nodes there are at least."""

    def __init__(self, line: Line, words: Words, rng: random.Random, instances: int) -> None:
        self._line = line
        self._words = words
        self._rng = rng
        self._slots: dict[bytes, tuple[Known, ...]] = {}
        self._unknown: set[bytes] = set()  # of these, those of which the server was not told yet
        self._renewed = float("-inf")
        self._instances = instances
        self.nodes = instances  # as of the last answer

    def add(self, lease: bytes, scopes: Sequence[Known], *, told: bool) -> None:
        limited = tuple([known for known in scopes if known.slots])
        if limited:
            self._slots[lease] = limited
            if not told:
                self._unknown.add(lease)

    def drop(self, lease: bytes) -> tuple[Known, ...]:
        """Of which scopes the server may think that it is held."""
        held = self._slots.pop(lease, ())
        if lease in self._unknown:
            self._unknown.discard(lease)
            return ()
        return held

    def items(self) -> list[tuple[bytes, tuple[Known, ...]]]:
        return list(self._slots.items())

    async def run(self, predecessor: bytes) -> None:
        """For ever."""
        while True:
            self._line.check()
            with suppress(Away):
                await self.beat(predecessor)
                predecessor = b""
            await asyncio.sleep(BEAT * self._rng.uniform(0.5, 1.0))

    async def beat(self, gone: bytes = b"") -> None:
        """Raises Away."""
        if asyncio.get_running_loop().time() - self._renewed >= _RENEWALS and self._line.up:
            self.renew()
        answer = await self._line.ask(*self._words.count(gone), 8, probe=True)
        self.nodes = max(self._instances, min(int.from_bytes(answer, "big"), _MOST))

    def renew(self) -> None:
        self._renewed = asyncio.get_running_loop().time()
        self._unknown.clear()
        leases: dict[bytes, list[bytes]] = {}
        for lease, scopes in self._slots.items():
            for known in scopes:
                leases.setdefault(known.leases, []).append(lease)
        for key, who in leases.items():
            for start in range(0, len(who), _PIECE):
                self._line.say(*self._words.renew(key, who[start : start + _PIECE]))

    def leave(self) -> None:
        """It is a node no longer."""
        if self._line.connected:
            self._line.say(*self._words.leave())


assert _RENEWALS + BEAT < LEASE / 2, "a lease outlives a renewal that is lost"
