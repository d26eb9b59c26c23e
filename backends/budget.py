"""How many retries a pool may spend: a share of its own requests, so that retries cannot become the load.

Bound, at the instant of every grant: retries of the last ten seconds ≤ max(100, 20 % of the requests of the last
ten seconds). Bins are one second wide, so retries are counted for ten to eleven seconds and requests for nine to
ten: the error is on the safe side. A retry takes a lease like any attempt, but brings no budget of its own.
"""

from __future__ import annotations

from backends.window import Window

_SECONDS = 10
_FLOOR = 100
_SHARE = 0.2


class RetryBudget:
    __slots__ = ("_attempts", "_retries", "attempt")

    def __init__(self) -> None:
        self._attempts = Window(_SECONDS)
        self._retries = Window(_SECONDS + 1)
        self.attempt = self._attempts.add  # on the path of every request: one call, not two

    def may_retry(self, now: float) -> bool:
        """True, and counted as spent, while the bound holds."""
        retries = self._retries.count(now)
        requests = self._attempts.count(now) - retries
        if retries + 1 > max(_FLOOR, _SHARE * requests):
            return False
        self._retries.add(now)
        return True
