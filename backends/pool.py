"""A pool of replicas behind one model: who is ready, and who is next.

Rules:
1. Health, breaker and drain decide who is ready. They never touch a count: `inflight` belongs to the leases.
2. A pool whose breakers are all open is better than no pool: while none of the replicas that are up and not
   draining has a closed breaker, all of them are ready.
3. One that refuses, or whose finding fault with requests is in doubt, is held off a moment (see `hold`): it is
   ready, but not on offer. Where all are, the one that is held off for the shortest is asked, and so is one for who
   was tried in vain at all others. Its free slots are no capacity: who has none elsewhere waits.
4. A half-open replica gets the next first attempt, whatever the policy thinks of it: one request a round, so
   that healing does not depend on a session or a latency that happens to lead there.
5. The lists are made when something changes, not when somebody asks. What it depends on changes
   only through the methods here and the setters of Replica, which all call `refresh` at once. Time is the one
   exception, and it has three effects: an open breaker becomes half-open at an instant that is known when it
   opens, a hold ends, and a slow start (see `ramp`) goes on in steps. The earliest such instant is kept, and whoever
   asks after it refreshes first. A list is replaced, never edited.
6. Replicas come and go at run time; names are unique among those that are there. One that leaves is drained
   first (no new lease), then removed. Its running leases do not notice: they hold the replica, and its client
   must stay open until `drained`. Its last lease says so; nobody polls.
7. Where more than sixteen are on offer, a policy that can is given them in the order of their load (see `order`), and looks at a
   few: what a request costs does not grow with the pool. For fewer a plain pass costs less than to keep them in order.

Between `pick` and entering the lease there must be no await: that is what makes the choice and the count one
step, and the probe of a half-open replica a single one.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Collection, Hashable, Sequence
from typing import cast

from backends.balance import Balance, Ordering
from backends.budget import RetryBudget
from backends.counted import CountedLease, Watcher, emptiest, place_of, takes
from backends.lease import Lease
from backends.order import Order
from backends.prefill import Speeds
from backends.prewarm import NoPrewarm
from backends.ramp import Ramp
from backends.replica import Replica
from backends.stats import ReplicaStats, stats_of
from backends.types import NOBODY, OK, Ask, Outcome
from backends.warmup import WarmUp

_log = logging.getLogger("tiergate.pool")

_FAULTS = 5  # requests in a row that a replica found fault with, from which on another one is asked for its opinion,
_SECOND_OPINION = 1.0  # once in so many seconds
_TELL_AGAIN = 60.0
_PLAIN = 16  # replicas on offer, up to which all are looked at


class Pool:
    """`pick` and `lease` are on the path of every request. Listeners must not raise and must not block."""

    def __init__(
        self,
        name: str,
        replicas: Sequence[Replica],
        balance: Balance,
        *,
        clock: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
    ) -> None:
        if len({replica.name for replica in replicas}) != len(replicas):
            raise ValueError(f"two replicas of pool {name!r} have the same name")
        self.name = name
        self.replicas = tuple(replicas)
        self.balance = balance
        self.clock = clock
        self._ramp = Ramp(rng or random.Random())
        self._budget = RetryBudget()
        self._speeds = Speeds()
        self.prewarm = NoPrewarm()
        self._ready: list[Replica] = []
        self._offer: list[Replica] = []  # of those, who is not held off
        self._held: list[Replica] = []
        self._refusing = False  # all are held off, and on offer for that
        self._opinion_at = float("-inf")
        self._order: Order | None = None
        self._trials: list[Replica] = []
        self._capacity = 0
        self._refresh_at: float | None = None
        self._on_capacity: list[Callable[[int], None]] = []
        self._watcher: Watcher | None = None
        self._places: dict[Hashable, int] = {}  # seats of each replica that may be given anything, where that is watched
        self._on_suspect: list[Callable[[Replica], None]] = []
        self._on_join: list[Callable[[Replica, WarmUp | None], None]] = []
        self._on_leave: list[Callable[[Replica], None]] = []
        self._on_metrics: list[Callable[[Replica, bytes], None]] = []
        for replica in self.replicas:
            replica.bind(self.refresh)
        self.refresh()

    def ready(self) -> list[Replica]:
        self.catch_up()
        return list(self._ready)

    def capacity(self) -> int:
        """Slots of the ready replicas. A half-open one counts for one slot, whether its probe is out or not."""
        if self._refresh_at is not None:
            self.catch_up()
        return self._capacity

    def on_capacity(self, listener: Callable[[int], None]) -> None:
        """`listener` hears the new capacity whenever it has changed."""
        self._on_capacity.append(listener)

    def count(self, watcher: Watcher) -> None:
        """Count tokens too, and choose by them; `watcher` hears, now and later, where there is room."""
        self._watcher = watcher
        self.refresh()

    def moved(self, replica: Replica) -> None:
        """A lease that is counted came or went."""
        seats = self._places.get(replica)
        if self._watcher is not None and seats is not None:
            self._watcher.move(replica, place_of(replica, seats))

    def add(self, replica: Replica, *, warm_up: WarmUp | None = None, slow_start: float = 0.0, cold: bool = False) -> None:
        """A replica joins. It is not up before its first good check, and, where one is asked for, its warm-up.

        `cold`: nothing that clients send is known there yet; see `prewarm`.

        ValueError when its name is taken.
        """
        if any(other.name == replica.name for other in self.replicas):
            raise ValueError(f"a replica {replica.name!r} is in pool {self.name!r} already")
        replica.bind(self.refresh)
        replica.ramp_seconds, replica.ramp_from = slow_start, None
        if cold:
            self.prewarm.mark(replica)
        self.replicas = (*self.replicas, replica)
        if replica.up:  # else it changes nothing yet: a thousand that join at once are not looked at a thousand times
            self.refresh()
        for listener in self._on_join:
            listener(replica, warm_up)

    def remove(self, replica: Replica) -> None:
        """It belongs to the pool no more, at once: its name is free. Leases that run on it go on to their end."""
        if replica not in self.replicas:
            return
        self.replicas = tuple(other for other in self.replicas if other is not replica)
        replica.unbind()
        self._speeds.forget(replica)
        self.refresh()
        for listener in self._on_leave:
            listener(replica)

    async def drained(self, replica: Replica) -> None:
        """Returns when no lease of the replica runs any more. It should get no new ones: drained, or removed."""
        emptied = replica.emptied = replica.emptied or asyncio.Event()
        while replica.inflight:
            emptied.clear()
            await emptied.wait()

    def on_join(self, listener: Callable[[Replica, WarmUp | None], None]) -> None:
        """`listener` hears of every replica that is added from now on, with the warm-up it is to have."""
        self._on_join.append(listener)

    def on_leave(self, listener: Callable[[Replica], None]) -> None:
        self._on_leave.append(listener)

    @property
    def wants_metrics(self) -> bool:
        """Somebody reads what the replicas' servers tell of themselves, so somebody must scrape it."""
        return self.balance.wants_waiting or self.prewarm.watches or (len(self.replicas) > 1 and bool(self._on_metrics))

    def on_metrics(self, listener: Callable[[Replica, bytes], None]) -> None:
        """`listener` is given what a replica's server tells of itself, whenever that was scraped."""
        self._on_metrics.append(listener)

    def scraped(self, replica: Replica, page: bytes) -> None:
        for listener in self._on_metrics:
            listener(replica, page)

    def pick(self, ask: Ask, tried: Collection[Replica] = ()) -> Replica | None:
        if self._refresh_at is not None:
            self.catch_up()
        if not tried:
            for trial in self._trials:
                if trial.inflight < trial.slots:
                    return trial
        if len(self._offer) > _PLAIN and self.balance.wants_order and not self._refusing:
            found = self._look(ask, tried)
            if found is not None and found not in self._ramp.shares:
                return found
        if not tried:
            free = [replica for replica in self._offer if replica.inflight < replica.slots]
        else:
            free = [replica for replica in self._offer if replica.inflight < replica.slots and replica not in tried]
        if self._watcher is not None:
            free = [replica for replica in free if takes(replica, ask.tokens)] or emptiest(free)
        if not free:
            return self._least_loaded(tried)
        if self._refusing:
            return min(free, key=_held_until)
        chosen = self.balance.choose(free, ask)
        return self._warm_instead(chosen, free, ask) if chosen in self._ramp.shares else chosen

    def _look(self, ask: Ask, tried: Collection[Replica]) -> Replica | None:
        """Rule 7."""
        balance = cast("Ordering", self.balance)
        order = self._order
        if order is None:
            order = self._order = Order(self._offer, balance.load)
        if self._watcher is not None:
            return balance.pick(order, ask, tried, lambda replica: replica not in tried and takes(replica, ask.tokens))
        return balance.pick(order, ask, tried, (lambda replica: replica not in tried) if tried else _anybody)

    def lease(self, replica: Replica, began: float | None = None, ask: Ask = NOBODY) -> Lease:
        """`began`: when the attempt did, where it runs already and is taken over; else it is now."""
        now = self.clock()
        self._budget.attempt(now)
        since = now if began is None else began
        lease = Lease(self, replica, since, ask) if self._watcher is None else CountedLease(self, replica, since, ask)
        if replica.hold.faulted >= _FAULTS:
            lease.doubted = self._doubts(replica, now)
        return lease

    def may_retry(self) -> bool:
        """True, and counted as spent, while the retries of the last ten seconds keep their share of the requests."""
        return self._budget.may_retry(self.clock())

    def drain(self, replica: Replica) -> None:
        """No new leases; those that run go on. It is empty when `replica.inflight` is 0."""
        replica.draining = True

    def undrain(self, replica: Replica) -> None:
        replica.draining = False

    def suspect(self, replica: Replica) -> None:
        """A connection to it could not be made: whoever watches its health should look now, not at the next round."""
        for listener in self._on_suspect:
            listener(replica)

    def on_suspect(self, listener: Callable[[Replica], None]) -> None:
        self._on_suspect.append(listener)

    def stats(self) -> list[ReplicaStats]:
        self.catch_up()
        return [stats_of(replica, self.clock()) for replica in self.replicas]

    def record(self, lease: Lease, outcome: Outcome, now: float, after: float = 0.0) -> None:
        """The result of an attempt, from its lease. `after`: seconds that a refusal named to come back."""
        replica = lease.replica
        breaker = replica.breaker
        before = breaker.epoch
        if outcome is OK:
            hold = replica.hold
            if hold.faulted or hold.wrong:
                hold.serve()
            if hold.row:
                self.accepted(lease)
        elif outcome is Outcome.REFUSED:
            replica.hold.refusals += 1
            self._hold(replica, now, lease.began, after)
        elif outcome is Outcome.FAULTED:
            replica.hold.faulted += 1
            if lease.doubted and replica.hold.doubt(now, lease.began):
                self.refresh()
        if not breaker.record(outcome, now, lease.epoch, probe=lease.probe):
            return
        if breaker.epoch != before:
            if not breaker.tripped:
                replica.governor.recovered()
            self._log_breaker(replica, now)
        self.refresh()

    def accepted(self, lease: Lease) -> None:
        """A good answer has begun, where the replica had refused."""
        if lease.replica.hold.accept(lease.began):
            self.refresh()

    def left(self, lease: Lease) -> None:
        """A lease has ended, where the replica had refused: if it had a place there, that is free now."""
        if lease.served:
            lease.replica.hold.lift()
        if lease.served or lease.replica.held:
            self.refresh()

    def overruled(self, replica: Replica, *, served: bool) -> None:
        """Another one was asked what this one found fault with. `served`: it found none."""
        hold, now = replica.hold, self.clock()
        if not served:
            hold.clear()
            self.refresh()
            return
        hold.refusals += 1
        hold.wrong = True
        self._hold(replica, now, now)
        if now - hold.told >= _TELL_AGAIN:
            hold.told = now
            _log.warning(
                "%s/%s: it finds fault with requests that other replicas serve: is its --max-model-len or chat template another?",
                self.name,
                replica.name,
            )

    def _hold(self, replica: Replica, now: float, began: float, after: float = 0.0) -> None:
        if replica.hold.refuse(now, began, after):
            self.refresh()

    def _doubts(self, replica: Replica, now: float) -> bool:
        """Whether another one should be asked if it finds fault once more: always, once it was in the wrong."""
        if len(self._ready) < 2 or (not replica.hold.wrong and now - self._opinion_at < _SECOND_OPINION):
            return False
        self._opinion_at = now
        return True

    def prefilled(self, replica: Replica, tokens: int, seconds: float) -> None:
        """One request alone had its first token, from a lease."""
        if replica in self.replicas:
            self._speeds.sample(replica, tokens, seconds)

    def refresh(self) -> None:
        """Work out anew who is ready. Needed from outside only after `max_inflight` of a replica was changed."""
        now = self.clock()
        step = self._ramp.update(self.replicas, now)
        able = [replica for replica in self.replicas if replica.up and not replica.draining]
        sound = [replica for replica in able if not replica.breaker.tripped]
        tripped = [replica for replica in able if replica.breaker.tripped]
        half_open = [replica for replica in tripped if now >= replica.breaker.open_until]
        held = [replica for replica in able if now < replica.hold.until]
        trials = [replica for replica in half_open if replica.breaker.allows(now) and replica not in held] if sound else []
        usual = sound or able
        ready = sound + trials if sound else able
        moments = [replica.breaker.open_until for replica in tripped if now < replica.breaker.open_until]
        moments += [replica.hold.until for replica in held]
        self._order = None
        self._refresh_at = min(moments if step is None else [*moments, step], default=None)
        self._ready, self._trials = ready, trials
        free = [replica for replica in usual if replica not in held] if held else usual
        self._refusing = not free and bool(usual)
        self._held = [replica for replica in usual if replica in held] if free else []
        self._offer = (free or usual) + trials
        for replica in self.replicas:
            replica.ready = replica.held = False
            replica.order = None
        for replica in ready:
            replica.ready = True
        for replica in self._held:
            replica.held = True
        if self._watcher is not None:
            self._places = {replica: 1 if sound and replica.breaker.tripped else _seats(replica) for replica in ready}
            self._watcher.tell({replica: place_of(replica, self._places[replica]) for replica in ready})
        self._announce(sum(map(_seats, usual)) + (len(half_open) if sound else 0))

    def _warm_instead(self, chosen: Replica, free: list[Replica], ask: Ask) -> Replica:
        """The policy chose one in its slow start, which may leave this request to one that is warm."""
        warm = [replica for replica in free if replica not in self._ramp.shares]
        return self.balance.choose(warm, ask) if warm and not self._ramp.takes(chosen, warm, ask) else chosen

    def _announce(self, capacity: int) -> None:
        if capacity == self._capacity:
            return
        self._capacity = capacity
        for listener in self._on_capacity:
            listener(capacity)

    def catch_up(self) -> None:
        """What has changed by time alone, if anything has."""
        if self._refresh_at is not None and self.clock() >= self._refresh_at:
            self.refresh()

    def _least_loaded(self, tried: Collection[Replica]) -> Replica | None:
        full = [replica for replica in self._offer if replica not in tried]
        if full:
            return min(full, key=_load)
        held = [replica for replica in self._held if replica not in tried] if tried else []
        return min(held, key=_held_until) if held else None

    def _log_breaker(self, replica: Replica, now: float) -> None:
        if replica.breaker.tripped:
            seconds = replica.breaker.open_until - now
            _log.warning("%s/%s: breaker open for %.1f s, its requests keep failing", self.name, replica.name, seconds)
        else:
            _log.info("%s/%s: breaker closed", self.name, replica.name)


def _anybody(_replica: Replica) -> bool:
    return True


def _load(replica: Replica) -> float:
    return replica.inflight / replica.slots


def _held_until(replica: Replica) -> float:
    return replica.hold.until


def _seats(replica: Replica) -> int:
    """What it adds to the capacity: one that is held off has what runs there, and nothing free."""
    return min(replica.slots, replica.inflight) if replica.held else replica.slots
