"""The values, protocols and exceptions of rate limits.

Callers hold these and nothing else of this package's insides. What a limiter hands out is entered and left with
`async with` and has no reference to balances on its face, so balances may live in this process, in another, or
in a shared store, and the caller reads the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Literal, Protocol

from msgspec import Struct

Resource = Literal["requests", "tokens", "parallel", "daily_budget", "monthly_budget"]

_WHAT: Mapping[Resource, str] = {
    "requests": "requests per minute",
    "tokens": "tokens per minute",
    "parallel": "parallel requests",
    "daily_budget": "tokens a day",
    "monthly_budget": "tokens a month",
}

BURST, SHORTEST_BURST, LONGEST_BURST = 60.0, 1.0, 3600.0
"""Seconds: what a limit may be spent of at once where nothing else is said, and between what that may be set."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Something that has limits: a key, a tenant, a plan, a tenant's use of one model.

    `id` names the balance: equal ids share it. Keep one Scope object for many requests: seeing the same object
    again is cheaper than comparing a new one. None is unlimited, 0 lets nothing through. `name` is for messages.
    `burst`: the seconds of its limits that may be spent at once.
    `day` and `month` are budgets: tokens of a calendar day and month, in UTC.
    """

    id: str
    kind: str
    rpm: int | None = None
    tpm: int | None = None
    max_parallel: int | None = None
    name: str = ""
    burst: float = BURST
    day: int | None = None
    month: int | None = None

    def __post_init__(self) -> None:
        for limit in (self.rpm, self.tpm, self.max_parallel, self.day, self.month):
            if limit is not None and limit < 0:
                raise ValueError(f"a limit of {self.kind} {self.name or self.id!r} is negative")
        if not SHORTEST_BURST <= self.burst <= LONGEST_BURST:
            raise ValueError(f"the burst of {self.kind} {self.name or self.id!r} is not from 1 s to an hour")

    def at_once(self, limit: int | None) -> int | None:
        """How many requests or tokens of a limit a minute may be spent at once: whole ones, and one at least."""
        return None if limit is None else at_once(limit, self.burst)


def at_once(limit: int, burst: float) -> int:
    """The whole part of so many seconds of a limit a minute, but one at least; of a closed door nothing."""
    return limit and max(1, limit * round(burst * 1000) // 60_000)


class Standing(Struct):  # made for every request, in a third of the time that a dataclass takes
    """Where a caller stands: for each resource the scope with the least left. None: unlimited.

    A limit is that of a minute; what remains can be spent now, and is the burst when the bucket is full. A reset is the seconds
    until it is, if nothing more is spent.
    """

    request_limit: int | None = None
    request_remaining: int | None = None
    request_reset: float | None = None
    token_limit: int | None = None
    token_remaining: int | None = None
    token_reset: float | None = None
    request_burst: int | None = None
    token_burst: int | None = None


@dataclass(frozen=True, slots=True)
class Budgeted:
    """What a scope has used of its budgets, and when their periods end: seconds since 1970."""

    scope: Scope
    day_used: int
    month_used: int
    day_ends: int
    month_ends: int


class LimitExceeded(Exception):  # noqa: N818 - it names what happened, as asyncio.QueueFull does
    """A limit refused; no balance was changed. `used`, `limit` and `requested` are whole requests, tokens or slots.

    After `wait` seconds the same demand passes, if nobody else spends meanwhile. When a slot is what lacks, nobody
    knows the time, and `wait` is a hint. `never`: the demand is larger than the whole burst, so no waiting helps
    and `wait` is 0. `until`: when the period of a budget ends, seconds since 1970; of other limits 0.
    """

    def __init__(
        self,
        scope: Scope,
        resource: Resource,
        *,
        limit: int,
        used: int,
        requested: int,
        wait: float,
        never: bool = False,
        until: int = 0,
    ) -> None:
        super().__init__(scope, resource, limit, used, requested, wait, never, until)
        self.scope = scope
        self.resource: Resource = resource
        self.limit = limit
        self.used = used
        self.requested = requested
        self.wait = wait
        self.never = never
        self.until = until

    @property
    def budget(self) -> bool:
        return self.until > 0

    def __str__(self) -> str:
        whose = f"{self.scope.kind} {self.scope.name}".rstrip()
        what = _WHAT[self.resource]
        end = "it can never fit" if self.never else f"try again in {self.wait:.3f} s"
        return f"{what} of {whose}: limit {self.limit}, used {self.used}, requested {self.requested}; {end}"


class LimitsAway(Exception):  # noqa: N818 - as above
    """Balances are kept elsewhere, that is not to be reached, and without it nothing is to be let in."""


class Reservation(Protocol):
    """Tokens set aside for a request that is about to run."""

    @property
    def tokens(self) -> int:
        """What was set aside, after clamping."""

    @property
    def day(self) -> int:
        """Of whose budgets it was, in days since 1970; 0: of none."""

    def settle(self, tokens: int) -> None:
        """Charge what was really used. The first call wins; more than was set aside makes a debt that is carried.

        Leaving the reservation's scope unsettled charges nothing and gives the model scope's request back.
        """

    def lose(self, *, successor: bool = False) -> None:
        """As `settle`, where nobody here will know what was used: charge what was set aside to limits, which refill, and nothing
        to budgets. Who turns out to have it still adopts it with `lost`. `successor`: another process will adopt it.
        """


class Admission(Protocol):
    """A request that passed step 1 and holds one parallel slot of every scope until its scope is left."""

    def reserve(
        self, tokens: int, *, model_scope: Scope | None = None, clamp: bool = False, least: int = 1
    ) -> AbstractAsyncContextManager[Reservation]:
        """Step 2, atomic: tokens of every scope and its budgets; of `model_scope` also one request and a parallel slot.

        `clamp` (the caller named no maximum): more than the smallest burst is cut down to it, and to what is left of a
        budget, where that is `least` (the prompt) at least. Without it such a
        demand can never pass. A refusal raises LimitExceeded and gives step 1's request back.
        """

    def refund(self) -> None:
        """Give step 1's request back, once: something later refused the request."""

    def conclude(self, tokens: int, *, refund: bool) -> None:
        """It needs no reservation: charge so many tokens, into debt if need be, and give its request back if that is said.

        Once, and nothing is reserved or given back after it.
        """

    def standing(self) -> Standing:
        """Of all scopes that this request is charged to, the model scope included, also of a reservation that was refused."""


class Limiter(Protocol):
    """Keeps the balances."""

    def admit(self, scopes: Sequence[Scope]) -> AbstractAsyncContextManager[Admission]:
        """Step 1, atomic: one request and one parallel slot of every scope, or LimitExceeded and nothing."""

    def standing(self, scopes: Sequence[Scope]) -> Standing:
        """Spends nothing; also for the answer to a refusal."""


class Adopted(AbstractAsyncContextManager[Admission], Protocol):
    """A request that a predecessor of this process admitted. Entering takes its slots, free or not, and debits nothing."""

    def adopt_reservation(
        self, tokens: int, model_scope: Scope | None = None, *, day: int = 0, lost: bool = False
    ) -> AbstractAsyncContextManager[Reservation]:
        """The reservation that it held: `tokens` are what was set aside, after clamping; see `Reservation.day`.

        `lost`: this process gave it up by `Reservation.lose`.
        """


AWAY = ("timeout", "connection", "password", "failed")
"""Why a store of limits decides nothing: it is slow or silent, not to be reached, or closed to us, or does what it must not."""


KEPT = ("full", "failed")
"""Why budgets are in memory only: the disk is full, or the file cannot be written."""


@dataclass(frozen=True, slots=True)
class LimitsState:
    """Where balances are kept. `away`: why that decides nothing just now, one of AWAY; then `instead` does: `local`, `open` or
    `closed`.
    """

    kind: str  # `memory`, `redis`
    away: str = ""
    instead: str = ""

    def __str__(self) -> str:
        """For people."""
        if self.kind == "memory":
            return self.kind
        return f"{self.kind} away: {self.away}; {self.instead}" if self.away else f"{self.kind} ok"


class LastingLimiter(Limiter, Protocol):
    """One whose balances outlive the process that decides, so that a successor goes on from them."""

    decided_alone: int
    """Decisions that were made without the store that is meant to make them."""

    @property
    def state(self) -> LimitsState: ...

    async def start(self) -> None:
        """A store that does not answer is no error: then it is away."""

    async def close(self) -> None: ...

    def adopt(self, scopes: Sequence[Scope], *, refunded: bool = False) -> Adopted:
        """A request that runs on; `refunded`: it was given back meanwhile."""

    def commit(self) -> None:
        """What was decided so far is lasting."""

    async def refresh(self, scopes: Sequence[Scope]) -> None:
        """So that `standing` and `parallel` tell of now. Where the store is away they tell what is decided by instead."""

    def foresee(
        self, scopes: Sequence[Scope], model_scope: Scope | None, tokens: int | None, *, clamp: bool, least: int
    ) -> LimitExceeded | None:
        """Why a request would be refused if it came now, by what is known here; nothing is spent. `tokens`: see
        `Admission.reserve`; None: it reserves none. Raises LimitsAway.
        """

    def parallel(self, scope: Scope) -> int:
        """Its parallel slots that are held."""

    @property
    def kept(self) -> str:
        """Whether what is used of budgets outlives this gateway: `ok`, or why not, one of KEPT; empty: that is not its task."""

    def crowded(self, scopes: Sequence[Scope]) -> bool:
        """Whether one of them has most of its parallel slots in use: the end of a request then matters to others at once."""

    def budgets(self, scopes: Sequence[Scope]) -> list[Budgeted]:
        """Of those that have one, as far as it is known here."""

    async def ask_budgets(self, scopes: Sequence[Scope]) -> list[Budgeted]:
        """The same, as it is where it is kept, while that can be asked."""

    async def set_back_budgets(self, scopes: Sequence[Scope]) -> None:
        """Nothing is used of them. Raises LimitsAway."""
