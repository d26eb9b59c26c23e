"""Where a request fits: seats and tokens of each replica, for a fleet whose memory may be short before its seats are.

Rules of this file
- A request takes up its prompt and the answer that it is thought to get. What runs where is told by who knows (`tell`, `move`);
  what has a slot and is nowhere yet is kept here, on the place that it fitted.
- It fits where a seat is free, and tokens: its own, or half of what the place has in all. So a large request waits until half
  of a replica is free, not until all of one is, and an idle one takes whatever comes.
- Whoever is next in line and fits nowhere waits until he does, and nobody behind him goes first: else small requests would
  keep a large one out for ever.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import NamedTuple

from limits.entry import Entry
from limits.scheduler import Queue
from limits.waiting import SlotAsk


class Place(NamedTuple):
    """A replica: what is free, and the tokens that it has in all. Less than nothing may be free."""

    seats: int
    tokens: float
    bound: float


class Places:
    __slots__ = ("_due", "_places")

    counted = True

    def __init__(self) -> None:
        self._places: dict[Hashable, Place] = {}
        self._due: dict[Hashable, tuple[int, int]] = {}  # requests, tokens: on their way there

    def tell(self, places: Mapping[Hashable, tuple[int, float, float]]) -> None:
        """Of all replicas that may be given anything."""
        self._places = {key: Place(*place) for key, place in places.items()}

    def move(self, key: Hashable, place: tuple[int, float, float]) -> None:
        """Of one of them."""
        if key in self._places:
            self._places[key] = Place(*place)

    @property
    def used_up(self) -> bool:
        return self._find(1) is None

    def fits(self, ask: SlotAsk) -> bool:
        return self._find(ask.prompt + ask.output) is not None

    def may_pass(self, ask: SlotAsk, queue: Queue) -> bool:
        """Whether a newcomer may have a free slot at once: he overtakes nobody, and fits."""
        return not queue.load.requests and self.fits(ask)

    def take(self, entry: Entry) -> None:
        """It has a slot."""
        size = entry.ask.prompt + entry.ask.output
        key = self._find(size)
        requests, tokens = self._due.get(key, (0, 0))
        self._due[key] = requests + 1, tokens + size
        entry.place = key, size

    def placed(self, entry: Entry) -> None:
        """It is somewhere, and counted there, or nowhere any more. Once is enough."""
        if entry.place is None:
            return
        (key, size), entry.place = entry.place, None
        requests, tokens = self._due[key]
        if requests == 1:
            del self._due[key]
        else:
            self._due[key] = requests - 1, tokens - size

    def _find(self, size: int) -> Hashable | None:
        """The key of the place with the most free tokens, if it fits there."""
        due, best, most = self._due, None, float("-inf")
        for key, place in self._places.items():
            requests, tokens = due.get(key, (0, 0)) if due else (0, 0)
            free = place.tokens - tokens
            if place.seats > requests and free > most and free >= min(size, place.bound / 2):
                best, most = key, free
        return best


class Anywhere:
    """Nobody counts tokens: a free slot is room for any request."""

    __slots__ = ()

    counted = used_up = False

    def tell(self, places: Mapping[Hashable, tuple[int, float, float]]) -> None: ...

    def move(self, key: Hashable, place: tuple[int, float, float]) -> None: ...

    def fits(self, ask: SlotAsk) -> bool:  # noqa: ARG002 - as the others
        return True

    def may_pass(self, ask: SlotAsk, queue: Queue) -> bool:  # noqa: ARG002 - as above
        return True

    def take(self, entry: Entry) -> None: ...

    def placed(self, entry: Entry) -> None: ...


ANYWHERE = Anywhere()
