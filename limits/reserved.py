"""Shares of one pool that tenants have for themselves, and who of them may use his just now.

Rules of this file
- A request may run on a tenant's share while fewer of its requests do than it has slots, and while what is left of its tokens
  holds what the request is thought to take. Tokens refill continuously, a minute's worth at most is left. A request larger than
  that may run when all of it is left; what it took beyond is a debt.
- Tokens are plain ones: of the prompt those that were computed, and those of the answer. Taken as predicted, corrected later.
- A share without slots is of tokens alone. It may use an equal part of the slots that no share names.
- Where the slots do not suffice, shares are cut down in proportion, to one slot at least. As long as there are two slots, one is
  in no share, so that the others never starve.
- Of several that may, the one that uses the least of its slots is first; of equals, whose turn is longest ago.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from limits.bucket import UNIT, Account
from limits.types import Scope
from limits.waiting import ReservedShare, ReservedStanding


class Owner:
    """A tenant with a share. `slots` are what it has now, `running` its requests on them, `part` what these are of all slots.

    `poor_until`: before that its tokens do not hold its next request, unless others of its requests come or go.
    """

    __slots__ = ("borrowed", "part", "poor_until", "reserved", "running", "share", "slots", "tenant", "tokens", "turn")

    def __init__(self, share: ReservedShare) -> None:
        self.share = share
        self.tenant = share.tenant
        self.slots = share.slots or 0
        self.part = 0.0
        self.running = 0
        self.turn = 0
        self.poor_until = -math.inf
        self.reserved = self.borrowed = 0  # requests that got a slot
        self.tokens = None if share.tpm is None else Account(Scope(share.tenant, "reserved", tpm=share.tpm), 0)

    def holds(self, tokens: int, now: float) -> bool:
        """Whether that much is left of its tokens."""
        account = self.tokens
        if account is None:
            return True
        account.advance(_micros(now))
        return account.fits(0, min(tokens, account.token_burst // UNIT), 0)

    def wait_for(self, tokens: int, now: float) -> None:
        """Its next request needs so many, and may not run now."""
        account = self.tokens
        if account is not None:
            lacking = account.tokens + min(tokens * UNIT, account.token_burst) - account.token_burst
            self.poor_until = now + lacking / account.token_rate / 1e6

    def standing(self, now: float) -> ReservedStanding:
        account, left = self.tokens, None
        if account is not None:
            account.advance(_micros(now))
            left = max(0, account.token_burst - account.tokens) // UNIT
        return ReservedStanding(self.tenant, self.slots, self.running, left, self.reserved, self.borrowed)


class Reservations:
    """All shares of one pool. `running` requests are on them, of `room` at most."""

    def __init__(self, shares: Sequence[ReservedShare]) -> None:
        self.owners = {share.tenant: Owner(share) for share in shares}
        self.running = 0
        self.room = 0
        self._turns = 0

    def resize(self, capacity: int) -> None:
        """Work out what each has of so many slots."""
        self.room = max(1, capacity - 1) if capacity else 0
        owners = list(self.owners.values())
        given = scaled([owner.share.slots or 1 for owner in owners], self.room)
        unnamed = sum(owner.share.slots is None for owner in owners)
        more = max(0, self.room - sum(given)) // max(1, unnamed)
        for owner, slots in zip(owners, given, strict=True):
            owner.slots = slots + (more if owner.share.slots is None else 0)
            if capacity:  # without slots it stays what it was: who waits keeps his place
                owner.part = owner.slots / capacity

    def may(self, owner: Owner, tokens: int, now: float) -> bool:
        """Whether a request of so many tokens may run on the owner's share."""
        return owner.running < owner.slots and self.running < self.room and owner.holds(tokens, now)

    def in_turn(self, owners: Iterable[Owner], now: float) -> list[Owner]:
        """Those that may have something left, who goes first first."""
        return sorted([owner for owner in owners if owner.running < owner.slots and owner.poor_until <= now], key=_turn)

    def begin(self, owner: Owner, tokens: int, now: float) -> None:
        self._turns += 1
        owner.turn = self._turns
        owner.running += 1
        owner.reserved += 1
        self.running += 1
        if owner.tokens is not None:
            owner.tokens.advance(_micros(now))
            owner.tokens.take(0, tokens, 0)

    def end(self, owner: Owner, thought: int, tokens: int) -> None:
        """Of the tokens that it was thought to take, it took so many."""
        owner.running -= 1
        owner.poor_until = -math.inf
        self.running -= 1
        if owner.tokens is None:
            return
        if tokens > thought:
            owner.tokens.take(0, tokens - thought, 0)
        else:
            owner.tokens.give_tokens(thought - tokens)


def scaled(slots: Sequence[int], room: int) -> list[int]:
    """The same; where they are more than `room`, one for each, and of the rest in proportion. What is left over goes to whom most
    was cut off.
    """
    total, count = sum(slots), len(slots)
    if total <= room:
        return list(slots)
    if room <= count:
        return [min(1, room)] * count
    shared, wanted = room - count, total - count
    given = [1 + (each - 1) * shared // wanted for each in slots]
    by_loss = sorted(range(count), key=lambda index: -((slots[index] - 1) * shared % wanted))
    for index in by_loss[: room - sum(given)]:
        given[index] += 1
    return given


def _turn(owner: Owner) -> tuple[float, int]:
    return owner.running / owner.slots, owner.turn


def _micros(now: float) -> int:
    return int(now * 1e6)
