"""How many prompts began alike of late, and how far.

Rules of this file
1. A fixed table of counters, each for all digests with the same remainder: nothing grows, and nothing has to be looked up. What
   a beginning shares its counters with makes it look fuller, never emptier (as in the count-min sketch of Cormode and
   Muthukrishnan).
2. Who gets as far as a block has come through all before it, so the least count so far holds there too: one counter that nobody
   else touches puts right all behind it, and a prompt that has little in common with others is soon looked through.
3. "Of late" is a window that slides: what came in this span of time, and of what came in the one before it the part that the
   window still covers. Nothing is told when a request ends, so a request that is lost is forgotten like any other.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from math import inf

from caches.chain import Chain

_SLOTS = 65_521  # a prime: digests that were made in any way spread. Two tables of 256 KiB
_SECONDS = 20.0
_LEAST = 2.0  # prompts; one is nobody's crowd

Stretch = tuple[int, float]


class NoCrowd:
    """Nobody wants to know."""

    __slots__ = ()

    def came(self, prompt: Chain) -> None:
        """It was sent to somebody."""

    def along(self, prompt: Chain, tokens: int) -> Sequence[Stretch]:  # noqa: ARG002 - as the other kind
        """Of a prompt of so many tokens: (so far into it, prompts of late that had all of that); further with each, and fewer."""
        return ()


NO_CROWD = NoCrowd()


class Crowd(NoCrowd):
    """`seconds`: the window, on that clock."""

    __slots__ = ("_before", "_clock", "_counts", "_seconds", "_since")

    def __init__(self, clock: Callable[[], float], seconds: float = _SECONDS) -> None:
        self._clock = clock
        self._seconds = seconds
        self._since = clock()
        self._counts, self._before = _empty(), _empty()

    def came(self, prompt: Chain) -> None:
        if self._clock() - self._since >= self._seconds:
            self._slide()
        counts = self._counts
        for digest in prompt.blocks:
            counts[digest % _SLOTS] += 1

    def along(self, prompt: Chain, tokens: int) -> Sequence[Stretch]:
        blocks = prompt.blocks
        if not blocks:
            return ()
        share = 1.0 - self._slide() / self._seconds
        counts, before = self._counts, self._before
        slot = blocks[0] % _SLOTS
        if counts[slot] + share * before[slot] < _LEAST:  # most prompts begin alone, and need no list for it
            return ()
        ends: list[tuple[int, float]] = []
        least = inf
        for at, digest in enumerate(blocks):
            slot = digest % _SLOTS
            came = counts[slot] + share * before[slot]
            if came < least:
                ends.append((at, least))
                least = came
                if came < _LEAST:
                    break
        else:
            ends.append((len(blocks), least))
        return [(prompt.tokens_of(end * prompt.block, tokens), came) for end, came in ends if end]

    def _slide(self) -> float:
        """Seconds of the present span."""
        into = self._clock() - self._since
        if into >= self._seconds:
            spans = into // self._seconds
            self._before = self._counts if spans < 2 else _empty()
            self._counts = _empty()
            self._since += spans * self._seconds
            into -= spans * self._seconds
        return into


def _empty() -> array[int]:
    return array("I", bytes(4 * _SLOTS))
