"""A circuit breaker for what a cache asks of others (a store, an embedder): no I/O, no clock and no chance of its own.

    closed ── `failures` in a row ──► open
    open ── its time has passed ──► half-open: one attempt at a time, all others are refused
    half-open ── the attempt failed ──► open, for twice as long (up to a bound)
    half-open ── the attempt succeeded ──► closed

Rules
1. It heals by itself: the only way into open sets the time at which it ends.
2. What was cancelled says nothing of the other side: it changes nothing, but gives the probe back.
3. A result counts only if its attempt began in the present state. So the stragglers of a bad minute neither reopen a breaker
   that has just healed, nor close one that has just opened.
4. How long it stays open is drawn at random, shorter than the bound and never longer: many nodes that lost one server do not
   all come back to it at one instant.

    with breaker.attempt():              # raises BreakerOpen
        async with asyncio.timeout(0.05):
            return await server.ask()    # any Exception is a failure; its end without one is a success
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol

_TOP_LEVEL = 16  # 2 ** 16 times any opening is beyond any bound; keeps the power small


class BreakerOpen(Exception):  # noqa: N818 - it names what happened
    """The other side has failed too often to be asked just now."""


@dataclass(frozen=True, slots=True)
class BreakerRules:
    failures: int = 3
    open_seconds: float = 1.0
    max_open_seconds: float = 15.0


class OnChange(Protocol):
    """`error` is the failure that opened it; None: it closed."""

    def __call__(self, error: BaseException | None, /) -> None: ...


class Breaker:
    """`is_open` is a plain attribute, for the path of every request; read it, never set it. `on_change` hears of closed to open
    and of open to closed: once each, not of every probe that fails.
    """

    __slots__ = ("_clock", "_epoch", "_level", "_on_change", "_probing", "_rng", "_row", "_rules", "is_open", "open_until")

    def __init__(
        self,
        clock: Callable[[], float],
        rng: random.Random,
        rules: BreakerRules = BreakerRules(),
        on_change: OnChange | None = None,
    ) -> None:
        self._clock = clock
        self._rng = rng
        self._rules = rules
        self._on_change = on_change
        self._row = 0
        self._level = 0
        self._epoch = 0
        self._probing = False
        self.is_open = False
        self.open_until = 0.0

    def attempt(self) -> Attempt:
        """To be entered at once. Raises BreakerOpen."""
        if self.is_open:
            if self._probing or self._clock() < self.open_until:
                raise BreakerOpen
            self._probing = True
        return Attempt(self, self._epoch)

    def record(self, epoch: int, error: BaseException | None) -> None:
        """The end of an attempt that began in `epoch`."""
        if epoch != self._epoch:
            return
        if error is None:
            self._row = 0
            if self.is_open:
                self._close()
        elif not isinstance(error, Exception):  # cancelled
            self._probing = False
        elif self.is_open:
            self._open(self._level + 1)
        else:
            self._row += 1
            if self._row >= self._rules.failures:
                self._open(0)
                self._tell(error)

    def _open(self, level: int) -> None:
        self._level = min(level, _TOP_LEVEL)
        seconds = min(self._rules.max_open_seconds, self._rules.open_seconds * 2**self._level)
        self.open_until = self._clock() + seconds * self._rng.uniform(0.5, 1.0)
        self.is_open = True
        self._next_epoch()

    def _close(self) -> None:
        self.is_open = False
        self._next_epoch()
        self._tell(None)

    def _next_epoch(self) -> None:
        self._epoch += 1
        self._row = 0
        self._probing = False

    def _tell(self, error: BaseException | None) -> None:
        if self._on_change is not None:
            self._on_change(error)


class Attempt:
    """One try, from its beginning to its end."""

    __slots__ = ("_breaker", "_epoch")

    def __init__(self, breaker: Breaker, epoch: int) -> None:
        self._breaker = breaker
        self._epoch = epoch

    def __enter__(self) -> None:
        """Nothing is left to be done: the breaker has let it in."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._breaker.record(self._epoch, error)
