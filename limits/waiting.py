"""The values and exceptions of the queue in front of a pool."""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from dataclasses import dataclass

from msgspec import Struct

from limits.mean import Mean

OUTPUT = 2
"""What a token of the output costs, in tokens of the prompt: it takes a step of the engine for itself, those share some."""


class Priority(enum.IntEnum):
    """The class of a request; the smaller, the more urgent."""

    REALTIME = 0
    STANDARD = 1
    BATCH = 2


class SlotAsk(Struct):  # made for every request, in a third of the time that a dataclass takes
    """A request that wants to run on a pool. `deadline` is absolute, on the scheduler's clock.

    `leaves`: when the one who asks goes, where others may join the wait and outlast it; it counts for the refusal of a wait that
    would be too long, and for nothing else.

    `tokens` and `size` are what it takes up while it waits, `prompt` and `output` the tokens that it is thought to cost.
    Where it says its `form` (its operation and what else tells something of the answer), `output` is found out by the
    scheduler; `most` is the longest that the answer can be, None: the client named no maximum.
    """

    priority: Priority
    tenant: str
    tokens: int
    size: int
    deadline: float
    weight: int = 1
    due: float = math.inf  # when its client wants it to be over, if it said so; absolute, for the order alone
    prompt: int = 0
    output: int = 0
    form: str = ""
    most: int | None = None
    since: float | None = None  # when it came, of one that gave its slot up: it waits at its old place, and gives way no more
    leaves: float = math.inf
    means: Sequence[Mean] = ()  # what the predictor went by, found once

    def __post_init__(self) -> None:
        if self.priority.__class__ is not Priority:
            raise TypeError(f"priority must be a Priority, not {type(self.priority).__name__}")
        if self.tokens < 0 or self.size < 0 or self.prompt < 0 or self.output < 0:
            raise ValueError("an ask takes up a negative amount")

    @property
    def hasty(self) -> bool:
        return self.due < math.inf

    @property
    def cost(self) -> int:
        """What it is charged when it begins. Never nothing: who asks for nothing takes turns, too."""
        return self.prompt + OUTPUT * self.output or 1


def cost_of(prompt: int, output: int) -> int:
    """Tokens of service, see `OUTPUT`."""
    return prompt + OUTPUT * output


class Spent(Struct):  # as above
    """What a request really cost: tokens of the prompt that were computed, and of the answer. `whole`: it came to its end.

    `cached`: tokens of the prompt that were not computed; None: nobody said.
    """

    prompt: int
    output: int
    whole: bool
    cached: int | None = None


@dataclass(frozen=True, slots=True)
class QueueBounds:
    """How much may wait in front of one pool, and for how long; three-tuples go by class, realtime first.

    `weights` are shares of the tokens served while all classes wait. `tenant_share` is how much of each bound one
    tenant may hold while others want room: more than that is borrowed, and is taken back when the queue is full.
    `refuse_early`: who would wait longer than it may is not let in.
    """

    max_requests: int
    max_bytes: int
    max_tokens: int
    max_wait: tuple[float, float, float]
    weights: tuple[int, int, int] = (16, 4, 1)
    tenant_share: float = 0.5
    refuse_early: bool = False

    def __post_init__(self) -> None:
        if min(self.max_requests, self.max_bytes, self.max_tokens, *self.max_wait) < 0:
            raise ValueError("a bound of the queue is negative")
        if min(self.weights) < 1:
            raise ValueError("the weight of a class must be at least 1, or it starves")
        if not 0 < self.tenant_share <= 1:
            raise ValueError("tenant_share must be above 0 and at most 1")


@dataclass(frozen=True, slots=True)
class Order:
    """Who is next. `per_token`: seconds by which each output token that a request is thought to make, up to `cap`, puts it back
    in its tenant's line: 0 is first come, first served, much is shortest first.

    `promote_after` None: the classes share by weight. Else the most urgent class goes first, and one whose oldest request
    has waited so many seconds counts as one class more urgent, after twice that as two.
    """

    per_token: float = 0.0
    cap: int = 512
    promote_after: float | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.per_token < math.inf or self.cap < 0:
            raise ValueError("per_token and cap must not be negative")
        if self.promote_after is not None and not self.promote_after > 0:
            raise ValueError("promote_after must be above 0")


@dataclass(frozen=True, slots=True)
class GiveWay:
    """How a running batch request gives its slot up for a realtime one that waits; see `limits.lent`.

    `within`: seconds from its dispatch; what ran longer is not thrown away. `requeue`: it waits again, so there has to be room.
    """

    within: float
    requeue: bool

    def __post_init__(self) -> None:
        if not self.within > 0:
            raise ValueError("within must be above 0")


@dataclass(frozen=True, slots=True)
class ReservedShare:
    """What a tenant has of one pool whatever others ask for: slots, tokens a minute (prompt and output), or both."""

    tenant: str
    slots: int | None = None
    tpm: int | None = None

    def __post_init__(self) -> None:
        if self.slots is None and self.tpm is None:
            raise ValueError("a reserved share is of slots, of tokens, or of both")
        if (self.slots is not None and self.slots < 1) or (self.tpm is not None and self.tpm < 1):
            raise ValueError("a reserved share must be at least 1")


@dataclass(frozen=True, slots=True)
class ReservedStanding:
    """Where a reserved share stands. `slots` are guaranteed just now, `used` are in use; `tokens_left` None: it names no tokens.

    `reserved` and `borrowed` count the requests that got a slot, by whether it was one of these.
    """

    tenant: str
    slots: int
    used: int
    tokens_left: int | None
    reserved: int
    borrowed: int


class QueueFull(Exception):  # noqa: N818 - as above
    """No room to wait. `tenant`: the room is there, but this tenant holds its share; else the pool is full."""

    def __init__(self, *, tenant: bool, retry_after: float) -> None:
        super().__init__(tenant, retry_after)
        self.tenant = tenant
        self.retry_after = retry_after

    def __str__(self) -> str:
        what = "the tenant holds its share of the queue" if self.tenant else "the queue is full"
        return f"{what}; try again in {self.retry_after:.0f} s"


class WaitTooLong(QueueFull):
    """There is room, but no slot in time: it would wait `expected` seconds and may wait `most`.

    `tenant`: because this tenant has more than its part of what waits.
    """

    def __init__(self, *, tenant: bool, retry_after: float, expected: float, most: float) -> None:
        super().__init__(tenant=tenant, retry_after=retry_after)
        self.expected = expected
        self.most = most

    def __str__(self) -> str:
        return f"it would wait {self.expected:.0f} s, and may wait {self.most:.0f} s; try again in {self.retry_after:.0f} s"


class QueueTimeout(Exception):  # noqa: N818 - as above
    """The deadline came before a slot did, after `waited` seconds in the queue."""

    def __init__(self, waited: float, retry_after: float = 1.0) -> None:
        super().__init__(waited, retry_after)
        self.waited = waited
        self.retry_after = retry_after

    def __str__(self) -> str:
        return f"no slot came free within {self.waited:.3f} s"


class Preempted(Exception):  # noqa: N818 - as above
    """Its slot was taken back for a more urgent request, before anything of its answer was there."""
