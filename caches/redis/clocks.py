"""How far a server's clock is ahead of ours, told by its answers. Pure.

Each answer brings the server's time, and was made no later than it came: the difference of the two clocks is at least server time
minus time of receipt. Of one minute the greatest of these is nearest to the truth; of all minutes that an answer's making may
span the least counts. So a moment of ours never becomes too late a moment of the server's, even where either clock was set back
meanwhile: what is stored is never taken for younger than it is.
"""

from __future__ import annotations

from collections import deque

_MINUTE = 60.0


class Offsets:
    """`seconds`: how long an answer's making may take."""

    def __init__(self, seconds: float) -> None:
        self._minutes: deque[float] = deque(maxlen=int(seconds / _MINUTE) + 1)  # that are over, and in which something came
        self._present: float | None = None
        self._ends = float("-inf")

    def observe(self, server: float, received: float, tick: float) -> None:
        """`tick`: a clock that is never set, which tells minutes apart."""
        offset = server - received
        if tick >= self._ends:
            if self._present is not None:
                self._minutes.append(self._present)
            self._present, self._ends = offset, tick + _MINUTE
        elif self._present is None or offset > self._present:
            self._present = offset

    def least(self) -> float | None:
        """None: nothing was heard yet."""
        return None if self._present is None else min(self._present, *self._minutes, self._present)
