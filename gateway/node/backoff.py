"""How long to wait before a process that died is started again."""

from __future__ import annotations

_FIRST = 0.1
_LONGEST = 5.0
_SETTLED = 10.0


class Backoff:
    """At once for one that served, then 0.1 s, doubling to 5 s, until one has lived for ten seconds and served."""

    def __init__(self) -> None:
        self._deaths = 0

    def after(self, lived: float, *, served: bool) -> float:
        """Seconds to wait after a process that lived so long, and had told that it is ready or not."""
        if served and lived >= _SETTLED:
            self._deaths = 0
        self._deaths += 1
        waits = self._deaths - served
        return min(_LONGEST, _FIRST * 2.0 ** min(waits - 1, 16)) if waits else 0.0
