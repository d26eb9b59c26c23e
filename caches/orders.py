"""What a gateway tells the others to take out of the semantic cache that each of them keeps for itself.

    Flushed     by `Which`
    Forgotten   what is kept of an exact answer
    Deleted     what was served under a hit's id: its pair is refused, and perhaps its answer goes
    Refused     pairs and requests, as digests: see `caches.semantic.refused`

They are told through the server of exact answers, which numbers them. Whoever has read up to some number reads on from there,
also after an outage or a restart. `post` returns a moment; once `settle` has waited for it, each gateway has obeyed, or serves
nothing. What a gateway has heard of the others is believed for `LEASE` seconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Protocol

import msgspec

from caches.which import Which

LEASE: Final = 0.5
NEVER: Final = float("-inf")


class Flushed(msgspec.Struct, frozen=True, tag="flush"):
    which: Which


class Forgotten(msgspec.Struct, frozen=True, tag="forget"):
    exact: str
    tenant: str | None


class Deleted(msgspec.Struct, frozen=True, tag="delete"):
    hit: str
    tenant: str | None


class Refused(msgspec.Struct, frozen=True, tag="refuse"):
    pairs: tuple[bytes, ...]


Order = Flushed | Forgotten | Deleted | Refused


class Place(msgspec.Struct, frozen=True):
    """How far somebody has read. `series` is another one where the server has lost what it had."""

    series: bytes
    number: int


@dataclass(slots=True)
class News:
    """`orders` of others, each with the seconds since it was given. `lost`: there were some that nobody can tell any more."""

    place: Place
    lost: bool
    more: bool
    orders: list[tuple[Order, float]] = field(default_factory=list)


class Telling(Protocol):
    async def post(self, order: Order) -> float:
        """Raises ExactStoreAway."""
        ...

    async def settle(self, posted: float) -> None: ...


class Orders(Telling, Protocol):
    async def read(self, place: Place | None) -> News:
        """What was posted behind that place. None: no place is known. Raises ExactStoreAway."""
        ...


class NoOrders:
    """There is no server that others could share."""

    async def post(self, order: Order) -> float:  # noqa: ARG002 - the protocol's
        return NEVER

    async def settle(self, posted: float) -> None:
        """Nobody is to hear of it."""
