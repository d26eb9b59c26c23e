"""The waiting line joined to the event loop: `async with scheduler.slot(ask) as slot`.

Rules of this file
- A slot is held from entering to leaving, on every way out. Who is cancelled after a slot was given to it and before
  it woke up hands the slot on.
- In flight never passes capacity, unless capacity shrank or running requests were taken over; then those finish, and
  nobody follows until there is room. Without capacity, waiting goes on until a deadline or until capacity is back.
- Whatever frees or adds a slot gives it to the next in line at once: nobody waits while a slot is free, unless tokens are
  counted (see `limits.places`) and the next in line waits for those.
- One timer, for the earliest deadline.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Protocol, Self

from limits.entry import Entry, State, Waiter
from limits.lent import Lent
from limits.places import ANYWHERE, Anywhere, Places
from limits.predict import Predictor
from limits.provisioned import ReservedQueue
from limits.scheduler import Queue
from limits.spare import Spares
from limits.waiting import (
    GiveWay,
    Order,
    Priority,
    QueueBounds,
    QueueFull,
    QueueTimeout,
    ReservedShare,
    ReservedStanding,
    SlotAsk,
    Spent,
    cost_of,
)

_LATE = 0.001
"""A loop's timer may be a millisecond early; better once and late than twice."""
_FAR = 3600.0
"""A timer for a deadline further off, or for none at all, is set again after so long."""
_FIRST_COME = Order()
NOTHING = Spent(0, 0, whole=False)


class Timer(Protocol):
    def cancel(self) -> None: ...


class Loop(Protocol):
    """As much of an event loop as the queue needs: one that simulates time has it, too."""

    def call_later(self, delay: float, callback: Callable[[Loop], None], loop: Loop, /) -> Timer: ...


class LoopWaiter(Waiter, Protocol):
    """A future, or what stands for one."""

    def get_loop(self) -> Loop: ...


class Scheduler:
    """The slots of one pool and the queue in front of them."""

    def __init__(
        self,
        bounds: QueueBounds,
        capacity: int,
        clock: Callable[[], float] = time.monotonic,
        order: Order = _FIRST_COME,
        reserved: Sequence[ReservedShare] = (),
        give_way: GiveWay | None = None,
        places: Places | Anywhere = ANYWHERE,
        rng: random.Random | None = None,
    ) -> None:
        self.queue = ReservedQueue(bounds, order, reserved, rng) if reserved else Queue(bounds, order, rng)
        self.queue.resize(max(0, capacity))
        self._lent = None if give_way is None else Lent(self.queue, give_way)
        self.spares = Spares()
        self.places = places
        self.predictor = Predictor()
        self.capacity = max(0, capacity)
        self.inflight = 0
        self.dispatched = 0
        self._clock = clock
        self._timer: Timer | None = None
        self._due = 0.0

    def slot(self, ask: SlotAsk) -> Slot:
        return Slot(self, ask)

    def spare(self, ask: SlotAsk) -> SpareSlot:
        """For what nobody waits for; see `limits.spare`."""
        return SpareSlot(self, ask)

    def resume(self, tenant: str = "") -> ResumedSlot:
        """The place of a request that runs already, on a slot that another process gave to it."""
        return ResumedSlot(self, tenant)

    @property
    def full(self) -> bool:
        """Who asks now has to wait. Where tokens are counted a large request may have to even if not."""
        return self.inflight >= self.capacity or self.places.used_up

    def admits(self, ask: SlotAsk) -> bool:
        """Whether this one has a slot at once: there is one, and nobody waits."""
        return self.inflight < self.capacity and self.places.may_pass(ask, self.queue)

    def set_capacity(self, n: int) -> None:
        self.capacity = max(0, n)
        self.queue.resize(self.capacity)
        self.fill()

    def tell(self, places: Mapping[Hashable, tuple[int, float, float]]) -> None:
        """The free seats, free tokens and all tokens of each replica, where tokens are counted."""
        self.places.tell(places)
        self.fill()

    def move(self, key: Hashable, place: tuple[int, float, float]) -> None:
        """Those of one replica."""
        self.places.move(key, place)
        self.fill()

    def reserved(self) -> Sequence[ReservedStanding]:
        """Where the reserved shares stand."""
        return self.queue.reserved(self._clock())

    def depth(self, priority: Priority) -> int:
        """Requests of this class that wait."""
        return self.queue.depth(priority)

    @property
    def queued_bytes(self) -> int:
        return self.queue.load.bytes

    @property
    def queued_tokens(self) -> int:
        return self.queue.load.tokens

    def join(self, ask: SlotAsk, waiter: LoopWaiter) -> Entry:
        """Wait in line; QueueFull or QueueTimeout if that may not be."""
        now, refusal = self._clock(), None
        if self._lent is not None and self._lent.may_serve(ask) and self.queue.until(ask, now) > now:
            refusal = self.queue.too_long(ask, now)
        entry, pushed_out = self.queue.push(ask, waiter, now, early=refusal is None)
        _wake(pushed_out)
        self._arm(waiter.get_loop())
        self._look_again()
        self._claim(entry)
        if refusal is not None and entry.state is State.WAITING and self._lent is not None and not self._lent.claimed(entry):
            self.queue.cancel(entry, now)
            try:
                raise refusal
            finally:
                del refusal  # it refers to this frame
        if len(self.spares):
            self.spares.recall(self.queue.load.requests)
        return entry

    def abandon(self, entry: Entry) -> None:
        """The waiter is cancelled."""
        if entry.state is State.DISPATCHED:
            self.places.placed(entry)
            self.queue.settle(entry, 0, 0)
            self.release()
        else:
            self.queue.cancel(entry, self._clock())
            self._look_again()

    def take(self, ask: SlotAsk) -> Entry:
        """A slot is free."""
        self.inflight += 1
        self.dispatched += 1
        entry = self.queue.take(ask, self._clock())
        self.places.take(entry)
        return entry

    def settle(self, entry: Entry, spent: Spent | None) -> None:
        """What it really cost, once; None: nobody knows, and it cost what was thought."""
        ask, queue = entry.ask, self.queue
        if entry.place is not None:
            self.places.placed(entry)
        if self._lent is not None and self._lent.left(entry) and (spent is None or spent == NOTHING):
            queue.give_back(entry)
            return
        if ask.prompt or ask.output:  # of what another process began nothing is known
            queue.outlook.completed(entry.cost, self._clock() - entry.enqueued - entry.waited)
        if spent is None:
            queue.settle(entry, entry.cost)
            return
        queue.settle(entry, cost_of(spent.prompt, spent.output), spent.prompt + spent.output)
        if spent.whole and ask.form:
            self.predictor.learn(ask, spent.output)

    def give_back(self, entry: Entry) -> None:
        """It has left its slot, as it was told to, and cost its class nothing."""
        self.places.placed(entry)
        self.queue.give_back(entry)

    def adopt(self, tenant: str) -> Entry | None:
        """One more runs, free slot or not."""
        self.inflight += 1
        return self.queue.adopt(tenant, self._clock())

    def release(self) -> None:
        self.inflight -= 1
        if self.queue.load.requests:
            self.fill()

    def expected(self, ask: SlotAsk) -> float | None:
        """Seconds until it would have a slot if it asked now; None: nobody knows."""
        return 0.0 if self.admits(ask) else self.queue.expected(ask, self._clock())

    def line_wait(self, priority: Priority) -> float | None:
        """Seconds until all that waits in this class now has a slot; None: nobody knows."""
        outlook = self.queue.outlook
        return outlook.whole(priority, self._clock()) if outlook.lines[priority].entries else 0.0

    def max_wait(self, ask: SlotAsk) -> float:
        """Seconds that it may wait if it asked now."""
        return self.queue.patience(ask, self._clock())

    def come_back(self, ask: SlotAsk) -> float:
        """In how many seconds such a request had better come, whose client waits for a slot no longer."""
        if ask.form:
            ask.output = self.predictor.predict(ask)
        return self.queue.come_back(ask, self._clock())

    def refusal(self, ask: SlotAsk) -> QueueFull | None:
        """What it would be told at once if it asked now: that there is no room, or no slot in time."""
        return None if self.admits(ask) else self.queue.refusal(ask, self._clock())

    def raise_priority(self, entry: Entry, priority: Priority) -> None:
        self.queue.raise_priority(entry, priority, self._clock())
        self._look_again()
        self._claim(entry)

    def lend(self, entry: Entry, order: Callable[[], bool]) -> bool:
        """Whether its slot may be asked back, for as long as it is held or until `keep`: then by `order`, see `limits.lent`."""
        return self._lent is not None and self._lent.lend(entry, order)

    def keep(self, entry: Entry) -> None:
        """It does not give its slot up any more, whatever it was told."""
        claimant = None if self._lent is None else self._lent.keep(entry)
        if claimant is not None:
            self._claim(claimant)

    def _claim(self, entry: Entry) -> None:
        if self._lent is not None:
            self._lent.claim(entry, self._clock(), self.inflight - self.capacity)

    def fill(self) -> None:
        """Give free slots to those next in line."""
        queue, now = self.queue, self._clock()
        while self.inflight < self.capacity and (entry := queue.head(now)):
            if entry.waiter is None or entry.waiter.done():
                queue.cancel(entry, now)
            elif entry.deadline <= now:
                queue.timeout(entry, now)
                _wake([entry])
            elif not self.places.fits(entry.ask):
                return
            else:
                queue.dispatch(entry, now)
                self.places.take(entry)
                if self._lent is None or queue.urgent(entry.priority):
                    entry.lent = False
                self.inflight += 1
                self.dispatched += 1
                _wake([entry])

    def _look_again(self) -> None:
        """Another may be next in line, and fit where the one before did not."""
        if self.places.counted:
            self.fill()

    def _arm(self, loop: Loop) -> None:
        """A timer that is set earlier stays: when it fires too early it is set again."""
        deadline = self.queue.next_deadline()
        if deadline is None or (self._timer is not None and self._due <= deadline):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._due = deadline
        delay = min(max(0.0, deadline - self._clock()) + _LATE, _FAR)
        self._timer = loop.call_later(delay, self._expire, loop)

    def _expire(self, loop: Loop) -> None:
        self._timer = None
        _wake(self.queue.expire(self._clock()))
        self._look_again()
        self._arm(loop)


class Slot:
    """A request's place on a pool. `queued` is how many seconds it waited; `on_wait` is called when it has to."""

    __slots__ = ("_ask", "_entry", "_held", "_scheduler", "on_wait", "queued", "spent")

    def __init__(self, scheduler: Scheduler, ask: SlotAsk) -> None:
        self._scheduler = scheduler
        self._ask = ask
        self._entry: Entry | None = None  # while it waits
        self._held: Entry | None = None  # while it has a slot
        self.queued = 0.0
        self.spent: Spent | None = None  # to be set before it is left, if it is known
        self.on_wait: Callable[[], None] | None = None

    async def __aenter__(self) -> Self:
        if not self.at_once():
            await self.wait()
        return self

    async def __aexit__(self, *_exc: object) -> None:
        self.leave()

    def at_once(self) -> bool:
        """Enter it, if that needs no waiting."""
        scheduler, ask = self._scheduler, self._ask
        if ask.form:
            ask.output = scheduler.predictor.predict(ask)
        if scheduler.admits(ask):
            self._held = scheduler.take(ask)
            return True
        return False

    def leave(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            self._scheduler.settle(held, self.spent)
        self._scheduler.release()

    async def wait(self) -> None:
        """Enter it, where it was not to be had at once."""
        if self.on_wait is not None:
            self.on_wait()
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        entry = self._entry = self._scheduler.join(self._ask, waiter)
        try:
            await waiter
        except BaseException:
            self._scheduler.abandon(entry)
            raise
        finally:
            self._entry = None
        self.queued = entry.waited
        if entry.failure is not None:
            try:
                raise entry.failure
            finally:
                del entry  # else this frame, its exception and the entry would keep one another alive
        self._held = entry

    def placed(self) -> None:
        """A replica has it now, or none does."""
        if self._held is not None and self._held.place is not None:
            self._scheduler.places.placed(self._held)

    def raise_priority(self, priority: Priority) -> None:
        """While it waits: on to a more urgent class. Later or earlier, nothing."""
        if self._entry is not None:
            self._scheduler.raise_priority(self._entry, priority)

    @property
    def waiting(self) -> bool:
        """In line, just now."""
        return self._entry is not None

    @property
    def since(self) -> float | None:
        """When it took its place in line, of one that is held."""
        return None if self._held is None else self._held.since

    def lend(self, order: Callable[[], bool]) -> bool:
        """As `Scheduler.lend`, of one that is held."""
        return self._held is not None and self._scheduler.lend(self._held, order)

    def keep(self) -> None:
        if self._held is not None:
            self._scheduler.keep(self._held)


class SpareSlot(Slot):
    """One that nobody else wants, or none: then entering raises QueueTimeout."""

    __slots__ = ()

    def at_once(self) -> bool:
        scheduler = self._scheduler
        if not scheduler.spares.room(scheduler.capacity, scheduler.inflight) or not super().at_once():
            raise QueueTimeout(0.0)
        scheduler.spares.take(self)
        return True

    def leave(self) -> None:
        held = self._held
        if held is not None and self._scheduler.spares.left(self) and self.spent is None:
            self._scheduler.give_back(held)
            self._held = None
        super().leave()

    def lend(self, order: Callable[[], bool]) -> bool:
        """It is asked back by `order` whenever somebody waits. What is lent by `Scheduler.lend` it is not."""
        self._scheduler.spares.lend(self, order, self._scheduler.queue.load.requests)
        return False

    def keep(self) -> None:
        self._scheduler.spares.lend(self, None, 0)


class ResumedSlot(Slot):
    """Entered at once, free or not."""

    __slots__ = ("_tenant",)

    def __init__(self, scheduler: Scheduler, tenant: str) -> None:
        self._scheduler = scheduler
        self._tenant = tenant
        self._entry = self._held = None
        self.queued = 0.0
        self.spent = None

    def at_once(self) -> bool:
        self._held = self._scheduler.adopt(self._tenant)
        return True


def _wake(entries: Iterable[Entry]) -> None:
    for entry in entries:
        if entry.waiter is not None and not entry.waiter.done():
            entry.waiter.set_result(None)
