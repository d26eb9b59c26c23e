"""Small first: whether that pays, learned from what came of it.

A cascade asks the cheapest tier, looks at the answer, and asks the dear tier where it does not stand up. That pays where small
answers mostly do: they answer more than their own cost, and what they agree on is mostly right. Where they seldom do it costs
more than asking the dear tier at once, and is wrong more often.

    on     every request is tried. Off as soon as some suffix of the last tries (16, 32, … 256) surely answered too few
    off    one request in `every` is tried. On as soon as some suffix of these surely answered enough

Enough is the larger of two shares:
- what pays: small tries cost `calls · price` each, so they must answer more than that share of the requests, and MARGIN more;
- what is good: where the small tier is right on a share `floor` of the requests, two draws of it agree on at least floor² of them
  (each request a coin) and about `floor` (each request sure, one way or the other) when they are right. The line is between them.

Surely is Wilson's score interval (1927), one-sided. Nothing here is random, and a state is one number of 256 bits.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple
from zlib import crc32

LENGTHS = (16, 32, 64, 128, 256)
MARGIN = 0.1
EVERY = 32
_BODY = struct.Struct("=?HI32s9x")  # on, tries, since, history
_CHECK = struct.Struct("=I")
_AFTER = 12  # whose, and the checksum
_RECORD = struct.Struct(f"=8sI?HI{LENGTHS[-1] // 8}s9x")
RECORD = _RECORD.size
ROUTES = 64  # that have a record in SIZE bytes
_FULL = (1 << LENGTHS[-1]) - 1
SIZE = ROUTES * RECORD
_TOO_FEW = 2.33  # standard deviations: 1 %
_ENOUGH = 1.64  # 5 %: a mistake costs no more than the next sixteen tries


@dataclass(frozen=True, slots=True)
class Worth:
    """`price`: of a small call, in those of the dear tier. `calls`: of a try. `floor`: how often small must be good enough."""

    price: float = 0.1
    calls: int = 2
    floor: float = 0.7

    @property
    def enough(self) -> float:
        """The share of the tries that must be answered by the small tier."""
        return min(1.0, max(self.calls * self.price + MARGIN, self.floor * (1.0 + self.floor) / 2))


class State(NamedTuple):
    """`history`: a bit a try, the last one lowest: whether the small tier answered. `since`: requests that were not tried."""

    on: bool = True
    tries: int = 0
    since: int = 0
    history: int = 0


class Switch:
    """Of one route. `on` is read, never set.

    `memory`: RECORD bytes, zeros at first, which processes may share: all learn of one another's tries. Nobody locks. Of two that
    write at once one is lost, and with it a try; what is torn, or of another route, is none, and then what was known here counts.
    """

    __slots__ = ("_every", "_known", "_long_off", "_memory", "_short_on", "_whose")

    def __init__(
        self, worth: Worth = Worth(), every: int = EVERY, *, route: str = "", memory: memoryview | bytearray | None = None
    ) -> None:
        self._every = every
        self._known = State()
        self._memory = bytearray(RECORD) if memory is None else memory
        self._whose = blake2b(repr((route, worth, every)).encode(), digest_size=8).digest()
        enough = worth.enough
        self._short_on = tuple((length, _most_below(length, enough)) for length in LENGTHS)
        self._long_off = tuple((length, _least_above(length, enough)) for length in LENGTHS)

    @property
    def on(self) -> bool:
        return self._read().on

    @property
    def due(self) -> bool:
        """What `tries` would say now."""
        return self._due(self._read())

    def tries(self) -> bool:
        """Whether the next request is asked of the small tier first. Call it once for each that might be."""
        state = self._read()
        if state.on:
            return True
        due = self._due(state)
        self._write(state._replace(since=0 if due else state.since + 1))
        return due

    def passed(self) -> None:
        """A request that might have been tried goes the normal way without being asked about: it was begun before one was due."""
        state = self._read()
        self._write(state._replace(since=min(state.since + 1, self._every - 1)))

    def saw(self, *, escalated: bool) -> bool:
        """What came of a try; whether that changed the switch."""
        state = self._read()
        history, tries = (state.history << 1 | (not escalated)) & _FULL, min(state.tries + 1, LENGTHS[-1])
        if state.on:
            changed = any(_answered(history, length) <= most for length, most in self._short_on if length <= tries)
        else:
            changed = any(_answered(history, length) >= least for length, least in self._long_off if length <= tries)
        self._write(State(on=not state.on) if changed else state._replace(history=history, tries=tries))
        return changed

    def _due(self, state: State) -> bool:
        return state.on or state.since + 1 >= self._every

    def _read(self) -> State:
        whole = bytes(self._memory[:RECORD])
        whose, check, on, tries, since, history = _RECORD.unpack(whole)
        if whose == self._whose and check == crc32(whole[_AFTER:]):
            self._known = State(on, tries, since, int.from_bytes(history, "little"))
        return self._known

    def _write(self, state: State) -> None:
        self._known = state
        body = _BODY.pack(state.on, state.tries, state.since, state.history.to_bytes(LENGTHS[-1] // 8, "little"))
        self._memory[:RECORD] = self._whose + _CHECK.pack(crc32(body)) + body


def _answered(history: int, length: int) -> int:
    return (history & ((1 << length) - 1)).bit_count()


def _most_below(length: int, share: float) -> int:
    """The most of so many tries that are surely below a share; -1: not even none."""
    return max((count for count in range(length + 1) if _bounds(count, length, _TOO_FEW)[1] < share), default=-1)


def _least_above(length: int, share: float) -> int:
    """The fewest of so many tries that are surely at a share; one more than there are: not even all."""
    return min((count for count in range(length + 1) if _bounds(count, length, _ENOUGH)[0] >= share), default=length + 1)


def _bounds(count: int, of: int, z: float) -> tuple[float, float]:
    share, square = count / of, z * z / of
    middle = share + square / 2
    half = z * math.sqrt(share * (1 - share) / of + square / (4 * of))
    return (middle - half) / (1 + square), (middle + half) / (1 + square)
