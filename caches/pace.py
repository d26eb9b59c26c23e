"""How fast a replay goes: at once, or as a model would write it.

Some interfaces show an answer as it comes, and a user who is used to that takes one that is there at once for a fault. A pace
costs the time that the cache has saved, so it is off unless the operator sets one, and bounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_STEP = 0.02  # seconds between two writes: what an eye takes for steady, and fifty wake-ups a second


@dataclass(frozen=True, slots=True)
class Pace:
    """`rate` in tokens a second; 0: all at once. `most`: seconds that a replay may take altogether."""

    rate: float = 0.0
    most: float = 10.0

    def seconds(self, tokens: int) -> float:
        """What a replay of so many tokens takes."""
        return min(tokens / self.rate, self.most) if self.rate > 0 else 0.0


AT_ONCE = Pace()


def paced(events: Sequence[bytes], tokens: int, pace: Pace) -> Iterator[tuple[float, bytes]]:
    """Events in groups, each with the seconds to wait before it: the first comes at once, the last when the time is over.

    `tokens`: how many the answer has; where nobody knows (0), every event is taken for one.
    """
    seconds = pace.seconds(tokens if tokens > 0 else len(events))
    steps = min(len(events) - 1, int(seconds / _STEP))
    if steps < 1:
        if events:
            yield 0.0, b"".join(events)
        return
    groups = steps + 1
    for number in range(groups):
        piece = events[len(events) * number // groups : len(events) * (number + 1) // groups]
        yield seconds / steps if number else 0.0, b"".join(piece)
