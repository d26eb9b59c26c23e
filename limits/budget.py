"""Token budgets of calendar days and months, in UTC: what was used of them, and whether more fits.

Rules of this file
- What is kept of a scope is a day, what was used on it, and what in its month. A later day begins with nothing, and so does a
  later month; an earlier one never comes back, so a clock that goes back stays in the later period.
- Of all budgets of a request a decision is made before any is debited, all on the same day: all or none.
- What was reserved is settled on the day of its reservation: of a period that ended meanwhile nothing is left to correct.
- Settling may pass a budget, which is then used up until it ends; giving back stops at nothing used.
- An account is never forgotten, and set back in its place: who holds one corrects what counts.
- What outlives this process is what was settled, not what is reserved: of what runs nobody knows what it will use. A successor
  that takes over what runs takes its reservations again; what ends with the process is charged to no budget.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import date
from functools import lru_cache
from typing import Protocol

from limits.bucket import longest
from limits.types import Budgeted, LimitExceeded, Resource, Scope
from limits.vault import scope_key

DAY = 86_400  # seconds
MOST = 1 << 52  # is counted: a store's script has doubles
LARGEST = 1 << 40  # tokens of one request, as in `limits.ledger`
_EPOCH = date(1970, 1, 1).toordinal()
LAST_DAY = date.max.toordinal() - _EPOCH - 31


class Used:
    """Of one scope: tokens on `day` (days since 1970) and in its month, used or reserved; and of both what was `settled`, which
    is what is kept. `key` is its name there.
    """

    __slots__ = ("day", "key", "month", "settled_month", "settled_today", "today")

    def __init__(self, day: int, today: int = 0, month: int = 0, key: bytes = b"") -> None:
        self.day = day
        self.today = self.settled_today = today
        self.month = self.settled_month = month
        self.key = key

    def advance(self, day: int) -> None:
        if day > self.day:
            if month_of(day) != month_of(self.day):
                self.month = self.settled_month = 0
            self.today = self.settled_today = 0
            self.day = day

    def at(self, day: int) -> Used:
        """As it is on that day, if nothing is used until then."""
        found = Used(self.day, self.today, self.month)
        found.advance(day)
        return found

    def add(self, tokens: int, day: int) -> None:
        """So many more, or less than none, of what was reserved on `day`."""
        if day == self.day:
            today, month = self.today + tokens, self.month + tokens
            self.today = today if 0 <= today <= MOST else _bounded(today)
            self.month = month if 0 <= month <= MOST else _bounded(month)
        elif month_of(day) == month_of(self.day):
            self.month = _bounded(self.month + tokens)

    def settle(self, tokens: int, day: int) -> None:
        """So many are used for good, of what was reserved on `day`."""
        if day == self.day:
            self.settled_today, self.settled_month = _bounded(self.settled_today + tokens), _bounded(self.settled_month + tokens)
        elif month_of(day) == month_of(self.day):
            self.settled_month = _bounded(self.settled_month + tokens)

    def set_back(self, day: int) -> None:
        """Nothing is used; what runs stays reserved, and counts when it ends."""
        reserved = self.today - self.settled_today if day == self.day else 0
        in_month = self.month - self.settled_month if month_of(day) == month_of(self.day) else 0
        self.day, self.today, self.month = day, max(0, reserved), max(0, in_month)
        self.settled_today = self.settled_month = 0

    def found(self, day: int, today: int, month: int) -> None:
        """That was used before, too, as it turns out now."""
        if month_of(day) == month_of(self.day):
            self.month, self.settled_month = _bounded(self.month + month), _bounded(self.settled_month + month)
            if day == self.day:
                self.today, self.settled_today = _bounded(self.today + today), _bounded(self.settled_today + today)


class Keeper(Protocol):
    """Where accounts outlive this process."""

    def find(self, key: bytes) -> Used | None: ...

    def note(self, used: Used) -> None:
        """It has changed."""


class Nowhere:
    """Nothing is kept."""

    def find(self, _key: bytes) -> Used | None:
        return None

    def note(self, used: Used) -> None: ...


class Budgets:
    """`wall`: seconds since 1970."""

    def __init__(self, wall: Callable[[], float], keeper: Keeper | None = None) -> None:
        self.wall = wall
        self._keeper = keeper or Nowhere()
        self._note = self._keeper.note
        self._used: dict[str, Used] = {}
        self._today = self._begins = self._ends = 0  # the day that it is, and its moments

    def fit(self, scopes: Sequence[Scope], tokens: int, *, clamp: bool, least: int) -> tuple[int, Sequence[Used]]:
        """How many of the tokens every budget holds, and the accounts of those budgets. Raises LimitExceeded. Debits nothing.

        `clamp`: they may be cut down to what is left, but not below `least`.
        """
        for scope in scopes:
            if scope.day is not None or scope.month is not None:
                break
        else:
            return tokens, ()
        limited = _limited(scopes)
        tokens = min(max(tokens, 0), LARGEST)
        accounts = self._current(limited)
        return room_in(limited, accounts, tokens, clamp=clamp, least=least, now=self.wall()), accounts

    def take(self, accounts: Iterable[Used], tokens: int) -> None:
        """Debit. Right after `fit`."""
        for used in accounts:
            used.add(tokens, used.day)

    def resume(self, scopes: Iterable[Scope], day: int, tokens: int) -> list[Used]:
        """What a predecessor had debited on that day; the accounts."""
        accounts = self.of(scopes)
        for used in accounts:
            used.add(tokens, day)
        return accounts

    def settle(self, accounts: Iterable[Used], day: int, reserved: int, tokens: int) -> None:
        """Correct a reservation of that day to what was used."""
        tokens = min(max(tokens, 0), LARGEST)
        for used in accounts:
            used.add(tokens - reserved, day)
            used.settle(tokens, day)
            self._note(used)

    def charge(self, scopes: Iterable[Scope], tokens: int) -> None:
        """What was not reserved, on the day that it is."""
        accounts = self._current(_limited(scopes))
        self.take(accounts, min(max(tokens, 0), LARGEST))
        for used in accounts:
            used.settle(min(max(tokens, 0), LARGEST), used.day)
            self._note(used)

    def of(self, scopes: Iterable[Scope]) -> list[Used]:
        """The accounts of those that have a budget, as they are."""
        return [self._account(scope) for scope in _limited(scopes)]

    def standing(self, scopes: Iterable[Scope]) -> list[Budgeted]:
        limited = _limited(scopes)
        return [standing_of(scope, used) for scope, used in zip(limited, self._current(limited), strict=True)]

    def set_back(self, scopes: Iterable[Scope]) -> None:
        """Nothing is used, and the day is what the clock says, also where it was ahead."""
        for used in self.of(scopes):
            used.set_back(day_of(self.wall()))
            self._note(used)

    def _current(self, limited: Sequence[Scope]) -> list[Used]:
        now, known = self.wall(), self._used
        if not self._begins <= now < self._ends:
            self._today = day_of(now)
            self._begins, self._ends = self._today * DAY, (self._today + 1) * DAY
        day, accounts, current = self._today, [], True
        for scope in limited:
            used = known.get(scope.id) or self._account(scope)
            accounts.append(used)
            current = current and used.day == day
        if not current:
            self._align(accounts, day)
        return accounts

    def _align(self, accounts: Iterable[Used], day: int) -> None:
        """All on the same day, and that is noted, or a successor whose clock is behind would go back."""
        day = max(day, *(used.day for used in accounts))
        for used in accounts:
            if used.day != day:
                used.advance(day)
                self._note(used)

    def _account(self, scope: Scope) -> Used:
        used = self._used.get(scope.id)
        if used is None:
            key = scope_key("budget " + scope.id)
            used = self._used[scope.id] = self._keeper.find(key) or Used(day_of(self.wall()), key=key)
        return used


def _limited(scopes: Iterable[Scope]) -> list[Scope]:
    return [scope for scope in scopes if scope.day is not None or scope.month is not None]


def _bounded(tokens: int) -> int:
    return min(max(0, tokens), MOST)


def day_of(seconds: float) -> int:
    return min(max(0, int(seconds // DAY)), LAST_DAY)


@lru_cache(maxsize=256)
def month_of(day: int) -> int:
    """Months since the year 0."""
    found = date.fromordinal(min(max(0, day), LAST_DAY) + _EPOCH)
    return found.year * 12 + found.month - 1


def ends(day: int, resource: Resource) -> int:
    """When the period ends that the day is in: seconds since 1970."""
    if resource == "daily_budget":
        return (day + 1) * DAY
    following = month_of(day) + 1
    return (date(following // 12, following % 12 + 1, 1).toordinal() - _EPOCH) * DAY


def room_in(scopes: Sequence[Scope], accounts: Sequence[Used], tokens: int, *, clamp: bool, least: int, now: float) -> int:
    """How many of the tokens every budget holds. Raises LimitExceeded: of several budgets the one that lasts longest.

    Who may be cut down needs `least`, and one at least; who asks for none needs none.
    """
    room = tokens
    for scope, used in zip(scopes, accounts, strict=True):
        if scope.day is not None and scope.day - used.today < room:
            room = scope.day - used.today
        if scope.month is not None and scope.month - used.month < room:
            room = scope.month - used.month
    room = max(0, room)
    if room < tokens:
        need = min(tokens, max(1, least)) if clamp else tokens
        if need > room:
            raise _refusal(scopes, accounts, need, now)
    return room


def _refusal(scopes: Sequence[Scope], accounts: Sequence[Used], need: int, now: float) -> LimitExceeded:
    found = [one for scope, used in zip(scopes, accounts, strict=True) for one in _short(scope, used, need, now)]
    refused = longest(found)
    assert refused is not None, "refused without a reason"
    return refused


def _short(scope: Scope, used: Used, need: int, now: float) -> Iterable[LimitExceeded]:
    kinds: tuple[tuple[Resource, int | None, int], ...] = (
        ("daily_budget", scope.day, used.today),
        ("monthly_budget", scope.month, used.month),
    )
    for resource, limit, spent in kinds:
        if limit is not None and spent + need > limit:
            until, never = ends(used.day, resource), need > limit
            wait = 0.0 if never else max(0.0, until - now)
            yield LimitExceeded(
                scope, resource, limit=limit, used=spent, requested=need, wait=wait, never=never, until=until
            )  # fmt: skip


def standing_of(scope: Scope, used: Used) -> Budgeted:
    return Budgeted(
        scope,
        used.today,
        used.month,
        ends(used.day, "daily_budget"),
        ends(used.day, "monthly_budget"),
    )
