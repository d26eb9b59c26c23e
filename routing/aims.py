"""What an operator may aim at when `auto` chooses between tiers, and how the requests of one aim are kept to it.

The sum over all requests of what should have gone up less what did (`owed`) is paid back by moving the aim itself, by the cube
of `owed / reach` (`correction`): hardly at all while it is noise, and by more than any aim can be away once it is large. That is
an integral controller with a soft middle; the plant that it drives is a quantile of recent scores (`share`, `quality`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, Self, TypeVar

AimKind = Literal["large", "quality", "threshold"]
Draw = Callable[[], float]
"""A number in [0, 1) that is the request's own: the same whenever it is asked for."""

WINDOW = 256
"""Scores from which a cut is made."""
_GOLDEN = 0.618033988749895
LEANING = 0.25
T = TypeVar("T")
SEEN = 500
"""Requests of which is told how many went up."""


@dataclass(frozen=True, slots=True)
class Aim:
    """`large`: the share of requests that may go to the tiers above the cheapest. `quality`: the share of the dearest tier's
    quality to keep. `threshold`: the score itself from which a request goes up.
    """

    kind: AimKind
    value: float


class Cut(NamedTuple):
    """For one request: the score from which it goes up a tier, and its place among them if nobody can rate it. None: then
    it goes where it would go without an aim.
    """

    threshold: float
    place: float | None = None

    def lets_up(self, small: float | None = None, large: float | None = None) -> bool:
        """Whether it may go up if nobody can rate it. `small`, `large`: what its classifier would say all the same."""
        return self.place is None or placed(self.place, small, large) >= self.threshold


class Told(NamedTuple):
    """What became of one request. `up`: it left the cheapest tier. `open`: by its score or for want of one, rather than forced.
    `looped`: it is a turn of a tool loop, of an ask for which that was decided before.

    `small` and `large`: how likely the cheapest and the dearest tier are good enough, where the classifier tells.
    """

    up: bool
    open: bool
    score: float | None = None
    small: float | None = None
    large: float | None = None
    looped: bool = False


class Amount(NamedTuple):
    """What a request has changed in the account, and in that of tool loops."""

    owed: float
    lent: float = 0.0


class Standing(NamedTuple):
    """How a scope stands. `share`: of its last `seen` requests, how many went up; None before the first. `kept`: the quality
    that was kept of the dearest tier's, as expected. `part`: of the requests whose score is the cut itself, how many go up.
    """

    aim: Aim
    cut: float
    part: float
    share: float | None
    seen: int
    kept: float | None = None


class Scope(Protocol):
    """Requests that have one aim together."""

    def cut(self, draw: Draw) -> Cut:
        """Where the line is for the next request."""
        ...

    def expect(self, told: Told) -> Amount:
        """A request will be sent, as far as is known: it is in the account from now on. What that changed there, for `forgo`."""
        ...

    def forgo(self, amount: Amount) -> None:
        """It was not sent."""
        ...

    def tell(self, told: Told, *, expected: bool = False) -> None:
        """A request was sent. `expected`: it is in the account already."""
        ...

    def renew(self, fresh: Self) -> None:
        """Scores mean something else from here on: to begin with they are those that another scope of this kind begins with. What
        is owed is owed as before.
        """
        ...

    def standing(self) -> Standing: ...


def placed(place: float, small: float | None, large: float | None) -> float:
    """Where a request stands that nobody can rate: at the place of all of these, and LEANING of the way to where its classifier
    would put it if that knew enough of it.
    """
    if small is None or large is None:
        return place
    return min(max(place + LEANING * (large - small) / 2.0, 0.0), 1.0)


def correction(owed: float, reach: float) -> float:
    """How much to add to the aim so that what is owed is paid back."""
    far = owed / reach
    return far * far * far


def spread(ordered: Iterable[T]) -> list[T]:
    """The same values, each part of them from all over the order: of what leaves a window one by one, neither end goes first."""
    values = list(ordered)
    keyed = sorted(range(len(values)), key=lambda place: place * _GOLDEN % 1.0)
    return [values[place] for place in keyed]


class Sent:
    """Of the last SEEN requests, how many went up."""

    __slots__ = ("_flags", "_place", "_up")

    def __init__(self) -> None:
        self._flags = bytearray()
        self._place = self._up = 0

    def note(self, up: bool) -> None:
        flags, place = self._flags, self._place
        if place == len(flags):
            flags.append(up)
        else:
            self._up -= flags[place]
            flags[place] = up
        self._up += up
        self._place = (place + 1) % SEEN

    def __len__(self) -> int:
        return len(self._flags)

    @property
    def share(self) -> float | None:
        return self._up / len(self._flags) if self._flags else None


class Raw:
    """A raw threshold: nothing follows from what was sent."""

    __slots__ = ("_aim", "_cut", "_sent")

    def __init__(self, threshold: float) -> None:
        self._aim = Aim("threshold", threshold)
        self._cut = Cut(threshold)
        self._sent = Sent()

    def renew(self, fresh: Self) -> None:
        self._aim, self._cut = fresh._aim, fresh._cut

    def cut(self, draw: Draw) -> Cut:  # noqa: ARG002 -- the interface of every scope
        return self._cut

    def expect(self, told: Told) -> Amount:  # noqa: ARG002
        return Amount(0.0)

    def forgo(self, amount: Amount) -> None:
        """Nothing depends on it."""

    def tell(self, told: Told, *, expected: bool = False) -> None:  # noqa: ARG002
        self._sent.note(told.up)

    def standing(self) -> Standing:
        return Standing(self._aim, self._aim.value, 1.0, self._sent.share, len(self._sent))
