"""Our moments as moments of a server's clock, and never too late ones. Pure.

Three clocks: the server's and our wall clock, which may be set, and our tick, which may not. Each answer brings the server's time
and was made no later than it came: the server is ahead of the tick by at least server time minus tick of receipt. Of one minute
the greatest of these is nearest to the truth, and of all minutes that an answer's making may span the least counts; of our wall
clock's lead over the tick, the greatest. So what is stored is never taken for younger than it is, even where a clock was set back
while it was made. Where the server's was, and we were told nothing since, the server can tell by `present`, which is then ahead
of it.
"""

from __future__ import annotations

from collections import deque

_MINUTE = 60.0
_SET = 0.1  # seconds by which no answer differs from others of its minute, or a clock may have been set


class Clocks:
    """`seconds`: how long an answer's making may take."""

    def __init__(self, seconds: float) -> None:
        self._minutes: deque[tuple[float, float]] = deque(maxlen=int(seconds / _MINUTE) + 1)  # that are over: both of the below
        self._server = float("inf")  # its least lead over the tick in this minute, but for the last stretch
        self._stretch: float | None = None  # the greatest since the minute began, or a clock may have been set
        self._wall = float("-inf")  # its greatest lead over the tick in this minute
        self._ends = float("-inf")

    def observe(self, server: float, wall: float, tick: float) -> None:
        """An answer came just now."""
        if tick >= self._ends:
            if self._stretch is not None:
                self._minutes.append((min(self._server, self._stretch), self._wall))
            self._server, self._stretch, self._wall, self._ends = float("inf"), None, float("-inf"), tick + _MINUTE
        lead = server - tick
        if self._stretch is None or abs(lead - self._stretch) <= _SET:
            self._stretch = lead if self._stretch is None else max(lead, self._stretch)
        else:
            self._server, self._stretch = min(self._server, self._stretch), lead
        self._wall = max(self._wall, wall - tick)

    @property
    def known(self) -> bool:
        """Whether anything was heard yet; else nothing can be told."""
        return self._stretch is not None

    def present(self, tick: float) -> float:
        """What time it is there, at least."""
        assert self._stretch is not None, "something was heard"
        return tick + min(self._server, self._stretch, *(server for server, _ in self._minutes))

    def server_time(self, wall: float) -> float:
        """Of a moment of ours, within the time that an answer's making may take."""
        return self.present(wall - max(self._wall, *(lead for _, lead in self._minutes), self._wall))
