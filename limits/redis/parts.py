"""A node's part of budgets while the server is away, and what it has to tell it of them afterwards.

- A part is what was left of the whole when the server last spoke, divided by the nodes; of a period that begins meanwhile, the
  whole divided by them. It is written as the whole of which the others have used the rest, so refusals say whose budget it is.
- What is used of it is told to the server when that is back, for the day that it was reserved on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from limits.budget import Used, day_of, month_of, room_in
from limits.redis.names import Known


class Part(Used):
    """`spent`: by day, what the server was not told of yet."""

    __slots__ = ("_fresh", "known", "outage", "spent")

    def __init__(self, known: Known, nodes: int, outage: int) -> None:
        scope, used = known.scope, known.used
        super().__init__(used.day, _others(scope.day, used.today, nodes), _others(scope.month, used.month, nodes))
        self._fresh = _others(scope.day, 0, nodes), _others(scope.month, 0, nodes)
        self.known = known
        self.outage = outage
        self.spent: dict[int, int] = {}

    def advance(self, day: int) -> None:
        if day > self.day:
            today, month = self._fresh
            self.month = self.month if month_of(day) == month_of(self.day) else month
            self.day, self.today = day, today

    def add(self, tokens: int, day: int) -> None:
        super().add(tokens, day)
        self.spent[day] = self.spent.get(day, 0) + tokens


class Parts:
    """`wall`: this node's, which has the say about the day while the server says nothing."""

    def __init__(self, wall: Callable[[], float]) -> None:
        self._wall = wall
        self._parts: dict[str, Part] = {}
        self._outage = 0
        self._nodes = 1

    def begin(self, nodes: int) -> None:
        self._outage += 1
        self._nodes = nodes

    def fit(self, budgeted: Sequence[Known], tokens: int, *, clamp: bool, least: int) -> tuple[int, list[Part]]:
        """As `limits.budget.Budgets.fit`. Raises LimitExceeded."""
        now, parts = self._wall(), [self._part(known) for known in budgeted]
        day = max([day_of(now), *(part.day for part in parts)])
        for part in parts:
            part.advance(day)
        scopes = [known.scope for known in budgeted]
        return room_in(scopes, parts, tokens, clamp=clamp, least=least, now=now), parts

    def correct(self, budgeted: Iterable[Known], day: int, more: int) -> None:
        for known in budgeted:
            self._part(known).add(more, day)

    def untold(self) -> Iterator[tuple[Known, int, int]]:
        """Whose, day and tokens; each of them once."""
        for part in self._parts.values():
            spent, part.spent = part.spent, {}
            for day, tokens in spent.items():
                if tokens:
                    yield part.known, day, tokens

    def _part(self, known: Known) -> Part:
        part = self._parts.get(known.scope.id)
        if part is None or part.outage != self._outage:
            fresh = self._parts[known.scope.id] = Part(known, self._nodes, self._outage)
            if part is not None:
                fresh.spent = part.spent
            return fresh
        part.known = known
        return part


def _others(limit: int | None, used: int, nodes: int) -> int:
    """What this node counts as used by the others."""
    return used if limit is None else limit - max(0, limit - used) // nodes
