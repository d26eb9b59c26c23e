"""Between a request and the owner of what decisions rest on: balances, queues, replicas in flight, breakers, the exact cache.

The owner may be this process (`gateway.dispatch.local`) or another one (`gateway.dispatch.link`); a caller cannot tell.

    async with dispatcher.admit(scopes, question) as ticket      one request and a parallel slot of every scope
        entry = await ticket.look(question)                      the exact cache
        async with ticket.work(ask) as grant                     tokens, a slot of the pool
            async with await grant.attempt() as attempt          a replica
            grant.settle(tokens)
        await ticket.store(entry)

What an owner elsewhere can be asked at once it is asked at once: `question` tells at admission what will be wanted next. So
where the owner is a process of its own, a request costs one question and, when all is over, one word.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Protocol

from msgspec import Struct

from backends.pool import Pool
from backends.replica import Replica
from backends.types import Outcome
from caches.flight import Flight
from caches.types import Entry
from gateway.dispatch.unplaced import NoPlacing
from limits.slots import Scheduler
from limits.types import Scope, Standing
from limits.waiting import Priority, Spent


@dataclass(frozen=True, slots=True)
class Lane:
    """One model's replicas and the queue in front of them, in the process that owns them."""

    name: str
    pool: Pool
    scheduler: Scheduler
    placing: NoPlacing = field(default_factory=NoPlacing)


class WorkAsk(Struct):  # made in a third of the time that a dataclass takes
    """What a request needs of one model. `deadline` is absolute, on the monotonic clock."""

    model: str
    tokens: int  # to reserve
    clamp: bool  # they may be cut down to a limit's burst: the client named no maximum
    model_scope: Scope | None  # the tenant's own limit on this model
    priority: Priority
    tenant: str
    weight: int
    size: int  # bytes that wait with it
    deadline: float
    session: str | None
    prompt_tokens: int
    form: str = ""  # what tells something of how long the answer will be; see `limits.predict`
    most: int | None = None  # tokens of the answer, all its choices; None: the client named no maximum
    due: float = math.inf  # when its client wants it to be over, if it said so; absolute, for the order in the queue alone
    stream: bool = False  # its first byte says when the first token came
    since: float | None = None  # when it came, of one that has given a slot up
    leaves: float = math.inf  # until when its client waits for an answer to begin, if it said so; absolute, for the queue alone
    prefix: bytes = b""  # what its prompt begins with, as `caches.chain` packs it, where the pool wants to know
    shared: bool = False  # others may join: once it waits its client's patience is no end of that
    ids: bytes = b""  # the same of its token ids, as `caches.tokens` does, where they are known
    spare: bool = False  # it takes a slot only where nobody else wants it, and is told to give it back when somebody does


class Question(Struct):
    """What a request wants to know beyond its admission. `first` tells what it will ask for where nothing is cached.

    `first` knows the request, so nothing that the request keeps may keep a question: that would be a cycle for each request,
    and memory that waits for the garbage collector is cold when it is used again.
    """

    lookup: bytes | None  # the cache key to look up
    share: bytes | None  # the key under which identical requests share one answer
    stream: bool  # the answer is to be one
    first: Callable[[], WorkAsk | None]
    unsure: bool = False  # an answer that is not asked for here may do: nothing is asked of a model before that is known


class Attempt(Protocol):
    """A replica's lease, from entering to leaving. What it showed is said once; see `backends.lease`."""

    replica: Replica
    doubted: bool

    async def __aenter__(self) -> object: ...
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /
    ) -> None: ...
    def first_byte(self) -> None: ...
    def complete(self) -> None:
        """A good answer came at once: as `first_byte`, and then `settle`."""

    def settle(self, outcome: Outcome, after: float = 0.0) -> None: ...
    def suspect(self) -> None:
        """No connection to it could be made."""


class Grant(Protocol):
    """Tokens and a slot that are held."""

    tokens: int  # what was reserved, after clamping
    queued: float  # seconds

    async def attempt(self) -> Attempt | None:
        """The next replica to try, never the same twice; None when there is none, or no budget for another try."""

    def settle(self, tokens: int, spent: Spent | None = None) -> None:
        """Charge what was really used; `spent`: what the fleet did for it, where that is known.

        Leaving unsettled charges nothing, and gives the model scope's request back.
        """

    def lend(self, order: Callable[[], bool] | None) -> None:
        """The owner may want the slot back for somebody more urgent, and says so by `order`, once. True is a promise to give it
        up, by `again` or by leaving; False is for good, and so is None here.
        """

    async def again(self) -> None:
        """Give the slot up and wait for another one, at the old place in line; nothing was tried then. The tokens stay set aside.

        Raises what entering does. Then no slot is held, and nothing is to be settled.
        """


class WorkScope(AbstractAsyncContextManager[Grant], Protocol):
    """Entering waits for a slot. Raises LimitExceeded, QueueFull, QueueTimeout and NoReplica."""

    def raise_priority(self, priority: Priority) -> None:
        """While it waits: on to a more urgent class. Later or earlier, nothing."""


class Elsewhere(Protocol):
    """The same answer is being made for another process's client."""

    stream: bool  # how it is made

    def feed(self, flight: Flight) -> Coroutine[Any, Any, None]:
        """The producer of a flight that gets the pieces from there. `flight.note` is then the record of that work."""


class Ticket(Protocol):
    """An admitted request."""

    @property
    def away(self) -> str:
        """Why the last look could not ask the exact cache; empty: it could, or there was none."""

    async def look(self, question: Question, *, again: bool = False) -> Entry | None:
        """The answer that is kept, if any. Asked again when the answer that the request shared has failed.

        `again`: also when nothing was acted on since, for that took a while.
        """

    def elsewhere(self) -> Elsewhere | None:
        """Who makes this answer already, in another process; None when this request is to make it, or to join one here.

        As of the last look, and for the flight that it joins at once.
        """

    def follow(self) -> None:
        """It shares an answer that is made here already. Work that was asked for with the admission is not needed."""

    def work(self, ask: WorkAsk) -> WorkScope:
        """What one model needs. May outlive the ticket's own scope: work is shared."""

    async def come_back(self, ask: WorkAsk, share: bytes | None) -> float | None:
        """In how many seconds such a request had better come, whose client waits for a slot no longer. Raises ApiError.

        `share`: the key of an answer that another process makes; None then: that does not wait for a slot.
        """

    async def store(self, entry: Entry) -> None:
        """Keep an answer."""

    def refund(self) -> None:
        """Give the request back, once: something later refused it."""

    def conclude(self, tokens: int, *, refund: bool) -> None:
        """No model is asked for it: charge so many tokens, and give the request back if that is said. Once."""

    def standing(self) -> Standing:
        """Of all scopes that it is charged to. Also before entering, and after a refusal, as far as it is known here."""


class Admit(AbstractAsyncContextManager[Ticket], Protocol):
    """Entering raises LimitExceeded."""

    def standing(self) -> Standing: ...

    async def peek(self) -> None:
        """Find out where its scopes stand, for the answer to a request that is refused before it is admitted."""


class Dispatcher(Protocol):
    """The owner, as requests see it."""

    def admit(self, scopes: Sequence[Scope], question: Question | None = None) -> Admit: ...

    def several(self, model: str) -> bool:
        """Whether there is more than one replica to choose from."""

    def hearing(self, model: str) -> bool:
        """Whether some engine of it says what it has cached, and is understood."""

    def engines(self, model: str) -> Sequence[Replica]:
        """Those that are up, to be asked what is no request of a client."""

    async def store_entry(self, entry: Entry) -> None:
        """Keep an answer that no request waits for."""

    async def first_to_renew(self, key: bytes) -> bool:
        """Whether a stale answer is this caller's to renew: one at a time is, whichever process asks."""

    async def renewed(self, key: bytes) -> None:
        """That is over, well or not."""


class NoReplica(Exception):  # noqa: N818 - it names what happened
    """No replica of this model may be asked now."""
