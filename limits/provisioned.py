"""The waiting line of a pool of which some tenants have a share for themselves.

Rules of this file, beside those of `limits.scheduler`
- A tenant whose share is not used up is served before all classes and tenants: of its requests the next of its most urgent class.
  Nothing of that is charged to the class or the tenant: it is not of what they share.
- Beyond its share a tenant stands in line like the others, and is charged like them. So a share that is not used is everybody's,
  and its owner has the very next slots that come free.
- Of the room in the queue an owner has the same part as of the slots. What it has waiting within that nobody else pushes out. To
  get there it pushes out others: as any tenant does, so borrowed room first, and then the newest of the least urgent class, be it
  more urgent than its own. The classes' parts are of the room that is in no share.
"""

from __future__ import annotations

import math
import random
from collections.abc import Collection, Iterator, Sequence
from itertools import chain

from limits.entry import Entry, Load, State
from limits.reserved import Owner, Reservations
from limits.room import parts
from limits.scheduler import Queue
from limits.waiting import Order, Priority, QueueBounds, ReservedShare, ReservedStanding, SlotAsk


class ReservedQueue(Queue):
    """Nothing is anybody's before `resize` has told how many slots there are."""

    def __init__(
        self, bounds: QueueBounds, order: Order, shares: Sequence[ReservedShare], rng: random.Random | None = None
    ) -> None:
        super().__init__(bounds, order, rng)
        self._reservations = Reservations(shares)
        self._owners = self._reservations.owners
        self._waiting: dict[str, Owner] = {}
        self._running: dict[Entry, tuple[Owner, int]] = {}
        self._most_unnamed = bounds.tenant_share
        self._weights = bounds.weights

    def resize(self, capacity: int) -> None:
        super().resize(capacity)
        self._reservations.resize(capacity)
        shared = max(0.0, 1 - sum([self._part(owner) for owner in self._owners.values()]))
        self._room.parts = parts(_of(self._bound, shared), self._weights)

    def expected(self, ask: SlotAsk, now: float) -> float | None:
        """An owner's requests go on its share as well as in line: at both paces together."""
        shared, owner = super().expected(ask, now), self._owners.get(ask.tenant)
        if owner is None or not shared or not owner.slots:
            return shared
        work = sum([line.work_of(ask.tenant) for line in self._lines[: ask.priority + 1]])
        own = work / (owner.slots * self.outlook.slot_rate)
        if owner.share.tpm is not None:
            own = max(own, work / 2 * 60 / max(1, owner.share.tpm))  # a token costs two at most
        return shared * own / (shared + own)

    def reserved(self, now: float) -> Sequence[ReservedStanding]:
        return [owner.standing(now) for owner in self._owners.values()]

    def take(self, ask: SlotAsk, now: float) -> Entry:
        owner = self._owners.get(ask.tenant)
        if owner is None:
            return super().take(ask, now)
        if not self._reservations.may(owner, _tokens(ask), now):
            owner.borrowed += 1
            return super().take(ask, now)
        self._seq += 1
        return self._begin(Entry(ask, None, self._seq, now, ask.deadline), owner, now)

    def head(self, now: float) -> Entry | None:
        if self._waiting:
            for owner in self._reservations.in_turn(self._waiting.values(), now):
                entry = self._first_of(owner)
                tokens = _tokens(entry.ask)
                if self._reservations.may(owner, tokens, now):
                    return entry
                owner.wait_for(tokens, now)
        return super().head(now)

    def dispatch(self, entry: Entry, now: float) -> None:
        owner = self._owners.get(entry.ask.tenant)
        if owner is not None and self._reservations.may(owner, _tokens(entry.ask), now):
            self._lines[entry.priority].hand_over(entry)
            self._drain.note(now)
            self._ended(entry, State.DISPATCHED, now)
            self._begin(entry, owner, now)
        else:
            super().dispatch(entry, now)
            if owner is not None:
                owner.borrowed += 1

    def adopt(self, tenant: str, now: float) -> Entry | None:
        """On its share while there are slots of it: what it takes of the tokens is known at the end."""
        owner = self._owners.get(tenant)
        if owner is None or owner.running >= owner.slots:
            return None
        self._seq += 1
        return self._begin(Entry(SlotAsk(Priority.STANDARD, tenant, 0, 0, now), None, self._seq, now, now), owner, now)

    def settle(self, entry: Entry, cost: int, tokens: int | None = None) -> None:
        ran = self._running.pop(entry, None)
        if ran is None:
            super().settle(entry, cost)
        else:
            owner, thought = ran
            self._reservations.end(owner, thought, thought if tokens is None else tokens)

    def _begin(self, entry: Entry, owner: Owner, now: float) -> Entry:
        tokens = _tokens(entry.ask)
        entry.state = State.DISPATCHED
        entry.lent = False
        self._running[entry] = owner, tokens
        self._reservations.begin(owner, tokens, now)
        return entry

    def _first_of(self, owner: Owner) -> Entry:
        return next(entry for line in self._lines if (entry := line.head_of(owner.tenant)) is not None)

    def _count(self, ask: SlotAsk) -> None:
        super()._count(ask)
        owner = self._owners.get(ask.tenant)
        if owner is not None:
            self._waiting[ask.tenant] = owner

    def _join(self, entry: Entry) -> None:
        super()._join(entry)
        self._changed(entry)

    def _ended(self, entry: Entry, state: State, now: float) -> None:
        super()._ended(entry, state, now)
        self._changed(entry)
        if entry.ask.tenant not in self._tenants:
            self._waiting.pop(entry.ask.tenant, None)

    def _changed(self, entry: Entry) -> None:
        """Another of its tenant's requests may be next."""
        owner = self._owners.get(entry.ask.tenant)
        if owner is not None:
            owner.poor_until = -math.inf

    # -- room

    def _candidates(self, ask: SlotAsk, *, beyond: bool) -> Iterator[tuple[Entry, bool]]:
        owner = self._owners.get(ask.tenant)
        held = self._tenants.get(ask.tenant, Load()).copy()
        held.add(ask)
        usual = super()._candidates(ask, beyond=beyond)
        return chain(self._of_others(ask), usual) if owner is not None and self._keeps(owner, held) else usual

    def _of_others(self, ask: SlotAsk) -> Iterator[tuple[Entry, bool]]:
        kept = self._kept(ask)
        rest = ((entry, False) for line in reversed(self._lines) for entry in line.newest() if entry not in kept)
        return (each for each in chain(self._others(ask), rest) if each[0].ask.tenant != ask.tenant)

    def _kept(self, ask: SlotAsk) -> Collection[Entry]:
        """What waits within the shares of other owners: of each its most urgent, the oldest first."""
        kept: set[Entry] = set()
        for tenant, owner in self._waiting.items():
            if tenant == ask.tenant:
                continue
            held, whole = self._tenants[tenant].copy(), False
            for entry in chain.from_iterable(line.newest_of(tenant) for line in reversed(self._lines)):
                whole = whole or self._keeps(owner, held)
                if whole:
                    kept.add(entry)
                else:
                    held.remove(entry.ask)
        return kept

    def _keeps(self, owner: Owner, held: Load) -> bool:
        """Whether what the owner has waiting is within its part of the queue. One request always is."""
        return held.requests <= 1 or held.within(_of(self._bound, self._part(owner)))

    def _part(self, owner: Owner) -> float:
        return owner.part if owner.share.slots is not None else min(owner.part, self._most_unnamed)


def _of(bound: Load, part: float) -> Load:
    return Load(int(bound.requests * part), int(bound.bytes * part), int(bound.tokens * part))


def _tokens(ask: SlotAsk) -> int:
    return ask.prompt + ask.output
