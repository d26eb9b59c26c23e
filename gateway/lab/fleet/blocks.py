"""The KV memory of an engine: blocks that requests hold, and blocks that nobody holds but that may be wanted again.

A full block of a prompt has a key, equal for equal prompts up to its end. What is let go stays, as the newest, until its place is
wanted: the least recently held goes first, and of one request's blocks the last, for it is of no use without those before it.
"""

from __future__ import annotations

from collections.abc import Sequence


class Blocks:
    """Never more than `capacity` in all: `held + idle <= capacity`."""

    __slots__ = ("_holders", "_idle", "capacity", "held")

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.held = 0
        self._holders: dict[int, int] = {}  # known blocks that are held: by how many
        self._idle: dict[int, None] = {}  # known blocks that are not, the oldest first

    @property
    def idle(self) -> int:
        return len(self._idle)

    def known(self, keys: Sequence[int]) -> int:
        """How many of the first ones are here."""
        holders, idle = self._holders, self._idle
        for number, key in enumerate(keys):
            if key not in holders and key not in idle:
                return number
        return len(keys)

    def take(self, keys: Sequence[int], fresh: int) -> bool:
        """Hold these known blocks and `fresh` new ones. False, and nothing happens, where there is no room."""
        holders, idle = self._holders, self._idle
        waking = sum(key in idle for key in keys)
        if self.held + waking + fresh > self.capacity:
            return False
        for key in keys:
            if key in idle:
                del idle[key]
            holders[key] = holders.get(key, 0) + 1
        self.held += waking + fresh
        for _ in range(self.held + len(idle) - self.capacity):
            del idle[next(iter(idle))]
        return True

    def learn(self, keys: Sequence[int]) -> None:
        """These of the new blocks are computed: from now on they are known. One that is known already is shared instead."""
        holders, idle = self._holders, self._idle
        for key in keys:
            if key in holders:
                self.held -= 1
            elif key in idle:
                del idle[key]
            holders[key] = holders.get(key, 0) + 1

    def leave(self, keys: Sequence[int], others: int) -> None:
        """Let go of known blocks, and of so many that have no key."""
        holders = self._holders
        self.held -= others
        for key in reversed(keys):
            holders[key] -= 1
            if not holders[key]:
                del holders[key]
                self.held -= 1
                self._idle[key] = None
