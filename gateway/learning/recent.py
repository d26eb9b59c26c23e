"""What was decided lately, by the id that the client was told: feedback names that, and comes later.

In memory alone, for as many requests and bytes as have room. A tenant rates its own requests only, and each a few times: feedback
counts against no limit, so no more of it is learned from than there are requests, which do.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from gateway.learning.line import Line, Side

_MOST = 4096
_MOST_RATED = 3  # times
_MOST_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Decided:
    """A request that `auto` decided, as it would be written down."""

    id: str
    tenant: str
    answered: Side
    text: str
    score: float | None
    told_small: float | None
    told_large: float | None
    policy: str
    model: str

    def line(self, at: float) -> Line:
        return Line(
            at=at, id=self.id, tenant=self.tenant, answered=self.answered, source="feedback", text=self.text, score=self.score,
            told_small=self.told_small, told_large=self.told_large, policy=self.policy, model=self.model,
        )  # fmt: skip


class Recent:
    def __init__(self, most: int = _MOST, most_bytes: int = _MOST_BYTES) -> None:
        self._known: OrderedDict[tuple[str, str], Decided] = OrderedDict()
        self._rated: dict[tuple[str, str], int] = {}
        self._most = most
        self._most_bytes = most_bytes
        self._size = 0

    def add(self, decided: Decided) -> None:
        """The id may be the client's own: of two requests that it calls the same the last one counts."""
        key = decided.tenant, decided.id
        if key in self._known:
            self._forget(key)
        self._size += len(decided.text)
        self._known[key] = decided
        while len(self._known) > self._most or self._size > self._most_bytes:
            self._forget(next(iter(self._known)))

    def find(self, tenant: str, request_id: str) -> Decided | None:
        return self._known.get((tenant, request_id))

    def rate(self, decided: Decided) -> bool:
        """Whether this is to be learned from, too."""
        key = decided.tenant, decided.id
        times = self._rated[key] = self._rated.get(key, 0) + 1
        return times <= _MOST_RATED

    def _forget(self, key: tuple[str, str]) -> None:
        self._size -= len(self._known.pop(key).text)
        self._rated.pop(key, None)
