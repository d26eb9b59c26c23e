"""A circuit breaker that does no I/O and owns no clock: outcomes and the time go in, a verdict comes out.

    CLOSED ── failures in a row, or their share of the last seconds ──► OPEN
    OPEN ── its time has passed ──► half-open: one probe at a time
    half-open ── the probe failed ──► OPEN, for twice as long (up to a bound)
    OPEN or half-open ── any success of an attempt that began since ──► CLOSED

Rules:
1. It heals by itself: the only way into OPEN sets the time at which it ends.
2. Only FAILED counts against a replica, and FAULTED is as good as OK. REFUSED and NEUTRAL change nothing, but give a probe back.
3. A result counts only in the epoch in which its attempt began. So the stragglers of a bad minute neither
   reopen a breaker that has just healed nor close one that has just opened.
4. Attempts may run while it is open (a pool never ejects its last replica). Their failures do not prolong
   the opening, and a success is as good as a probe's.
5. A breaker that reopens soon after it closed goes on doubling. The short opening is for the first fault,
   not for every round of a replica that flaps.
"""

from __future__ import annotations

import enum
import random
from dataclasses import dataclass

from backends.types import Outcome
from backends.window import Window

_SOUND = (Outcome.OK, Outcome.FAULTED)
_TOP_LEVEL = 16  # 2 ** 16 times any opening is beyond any bound; keeps the power small


class State(enum.Enum):
    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


@dataclass(frozen=True, slots=True)
class BreakerRules:
    """`failures` in a row open it, or a share of `ratio` of at least `samples` results in the last `window` seconds."""

    failures: int = 5
    ratio: float = 0.5
    samples: int = 20
    window: int = 10
    open_seconds: float = 5.0
    max_open_seconds: float = 60.0


class Breaker:
    """`tripped` and `epoch` are plain attributes, for the path of every request; read them, never set them."""

    __slots__ = ("_bad", "_closed_at", "_good", "_level", "_probing", "_rng", "_row", "_rules", "epoch", "open_until", "tripped")

    def __init__(self, rng: random.Random, rules: BreakerRules = BreakerRules()) -> None:
        self._rng = rng
        self._rules = rules
        self._good = Window(rules.window)
        self._bad = Window(rules.window)
        self._row = 0
        self._level = -1
        self._closed_at = float("-inf")
        self._probing = False
        self.tripped = False
        self.open_until = 0.0
        self.epoch = 0

    def state(self, now: float) -> State:
        if not self.tripped:
            return State.CLOSED
        return State.HALF_OPEN if now >= self.open_until else State.OPEN

    def allows(self, now: float) -> bool:
        """A new attempt may go there: closed, or half-open with the probe still free."""
        return not self.tripped or (not self._probing and now >= self.open_until)

    def take_probe(self, now: float) -> bool:
        """True for exactly one caller until it is recorded (whatever its outcome) or the state changes."""
        if not self.tripped or self._probing or now < self.open_until:
            return False
        self._probing = True
        return True

    def record(self, outcome: Outcome, now: float, epoch: int, *, probe: bool = False) -> bool:
        """Count the result of an attempt that began in `epoch`. True when the state or the probe changed."""
        if epoch != self.epoch:
            return False
        if self.tripped:
            return self._record_tripped(outcome, now, probe=probe)
        if outcome in _SOUND:
            self._row = 0
            self._good.add(now)
        elif outcome is Outcome.FAILED:
            self._row += 1
            self._bad.add(now)
            if self._row >= self._rules.failures or self._too_many(now):
                self._trip(now)
                return True
        return False

    def _record_tripped(self, outcome: Outcome, now: float, *, probe: bool) -> bool:
        if outcome in _SOUND:
            self._close(now)
            return True
        if not probe:
            return False
        self._probing = False
        if outcome is Outcome.FAILED:
            self._trip(now)
        return True

    def _too_many(self, now: float) -> bool:
        bad = self._bad.count(now)
        results = bad + self._good.count(now)
        return results >= self._rules.samples and bad >= self._rules.ratio * results

    def _trip(self, now: float) -> None:
        rules = self._rules
        calm = not self.tripped and now - self._closed_at >= rules.max_open_seconds
        self._level = 0 if calm else min(self._level + 1, _TOP_LEVEL)
        seconds = min(rules.max_open_seconds, rules.open_seconds * 2**self._level)
        # Jitter shortens only, so the bound holds, and several gateways do not probe at the same instant.
        self.open_until = now + seconds * self._rng.uniform(0.8, 1.0)
        self.tripped = True
        self._next_epoch()

    def _close(self, now: float) -> None:
        self.tripped = False
        self._closed_at = now
        self._good.clear()
        self._bad.clear()
        self._next_epoch()

    def _next_epoch(self) -> None:
        self.epoch += 1
        self._row = 0
        self._probing = False
