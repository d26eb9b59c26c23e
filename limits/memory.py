"""The limiter whose balances live in this process.

Rules of this file
- Entering and leaving are the only places that may wait in another implementation; here they never do, so no
  cancellation can fall between a debit and the lease that gives it back.
- Admission and reservation hold scopes and plain values, never an account, so that a store elsewhere can hand out
  the same.
- A clock that goes back stands still here until it has caught up: no time is refilled twice.
- Budgets are told first: of two reasons it is the one that lasts longer.
- With a vault, balances outlive the process (see `limits.kept`), and what a request had debited is there when it is
  adopted: adopting takes its slots, whatever their number, and debits nothing but what budgets had set aside.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Self

from limits.bucket import foreseen
from limits.budget import Budgets, Used
from limits.journal import Journal
from limits.keepers import Keepers
from limits.kept import KeptLedger
from limits.ledger import Ledger
from limits.types import Budgeted, LastingLimiter, LimitExceeded, LimitsState, Scope, Standing
from limits.vault import Vault


class MemoryLimiter(LastingLimiter):
    state = LimitsState("memory")
    decided_alone = 0

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        vault: Vault | None = None,
        *,
        wall: Callable[[], float] = time.time,
        journal: Journal | None = None,
    ) -> None:
        self.ledger = Ledger() if vault is None else KeptLedger(vault)
        self._keeper = Keepers(journal, vault)
        self.spending = Budgets(wall, self._keeper)
        self._clock = clock
        self._now = max(int(clock() * 1e6), self.ledger.since)

    async def start(self) -> None:
        """Raises JournalInUse."""
        await self._keeper.start()

    async def close(self) -> None:
        await self._keeper.close()

    @property
    def kept(self) -> str:
        return self._keeper.state

    def now(self) -> int:
        """Microseconds, never less than before."""
        now = int(self._clock() * 1e6)
        if now <= self._now:
            return self._now
        self._now = now
        return now

    def admit(self, scopes: Sequence[Scope]) -> MemoryAdmission:
        return MemoryAdmission(self, scopes)

    def adopt(self, scopes: Sequence[Scope], *, refunded: bool = False) -> AdoptedAdmission:
        """A request that a predecessor admitted, and that runs on. `scopes` are under the limits of today.

        `refunded`: its request was given back meanwhile.
        """
        admission = AdoptedAdmission(self, scopes)
        admission.refunded = refunded
        return admission

    def commit(self) -> None:
        """What was decided so far outlives this process, if there is a vault. Without one it costs nothing."""
        self._keeper.commit()
        self.ledger.commit(self._now)

    def standing(self, scopes: Sequence[Scope]) -> Standing:
        return self.ledger.standing(scopes, self.now())

    async def refresh(self, scopes: Sequence[Scope]) -> None:
        """They are here."""

    def foresee(
        self, scopes: Sequence[Scope], model_scope: Scope | None, tokens: int | None, *, clamp: bool, least: int
    ) -> LimitExceeded | None:
        everyone, now = [*scopes] if model_scope is None else [*scopes, model_scope], self.now()
        fit = lambda wanted: self.spending.fit(everyone, wanted, clamp=clamp, least=least)[0]  # noqa: E731 - for this call
        model = None if model_scope is None else self.ledger.seen((model_scope,), now)[0]
        return foreseen(self.ledger.seen(scopes, now), model, tokens, fit, clamp=clamp)

    def parallel(self, scope: Scope) -> int:
        return self.ledger.parallel(scope)

    def crowded(self, scopes: Sequence[Scope]) -> bool:
        """Whether one of them has most of its parallel slots in use."""
        return self.ledger.crowded(scopes)

    def budgets(self, scopes: Sequence[Scope]) -> list[Budgeted]:
        return self.spending.standing(scopes)

    async def ask_budgets(self, scopes: Sequence[Scope]) -> list[Budgeted]:
        return self.spending.standing(scopes)

    async def set_back_budgets(self, scopes: Sequence[Scope]) -> None:
        self.spending.set_back(scopes)
        self.commit()


class MemoryAdmission:
    """One request under its limits. It holds a slot of every scope from entering to leaving."""

    __slots__ = ("_charged", "_limiter", "_scopes", "refunded")

    def __init__(self, limiter: MemoryLimiter, scopes: Sequence[Scope]) -> None:
        self._limiter = limiter
        self._scopes = self._charged = scopes
        self.refunded = False

    async def __aenter__(self) -> Self:
        limiter = self._limiter
        self._scopes = self._charged = limiter.ledger.admit(self._scopes, limiter.now())
        return self

    async def __aexit__(self, *_exc: object) -> None:
        self._limiter.ledger.release(self._scopes)

    def reserve(self, tokens: int, *, model_scope: Scope | None = None, clamp: bool = False, least: int = 1) -> MemoryReservation:
        return MemoryReservation(self, self._limiter, tokens, model_scope, clamp, least)

    def debit(self, tokens: int, model: Scope | None, clamp: bool, least: int) -> tuple[int, Sequence[Scope], Sequence[Used]]:
        """Step 2, for the reservation: the tokens taken, and the scopes and budgets that they were taken from.

        A request that was given back, by an earlier refusal on another model, is taken again with the tokens.
        """
        limiter, scopes = self._limiter, self._scopes
        requests = 1 if self.refunded else 0
        charged = self._charged = scopes if model is None else (*scopes, model)
        try:
            tokens, budgets = limiter.spending.fit(charged, tokens, clamp=clamp, least=least)
            taken = limiter.ledger.reserve(scopes, model, requests, tokens, clamp=clamp, now=limiter.now())
        except LimitExceeded:
            self.refund()
            raise
        if budgets:
            limiter.spending.take(budgets, taken)
        self.refunded = False
        return taken, charged, budgets

    def resume(self, model: Scope | None, day: int, tokens: int) -> tuple[Sequence[Scope], Sequence[Used]]:
        """The same for a reservation that was made before: its scopes, a slot of the model's, and its budgets."""
        limiter, scopes = self._limiter, self._scopes
        self._charged = scopes if model is None else (*scopes, *limiter.ledger.resume((model,), limiter.now()))
        return self._charged, limiter.spending.resume(self._charged, day, tokens)

    def refund(self) -> None:
        if not self.refunded:
            self.refunded = True
            self._limiter.ledger.refund(self._scopes)

    def conclude(self, tokens: int, *, refund: bool) -> None:
        if refund:
            self.refund()
        self._limiter.ledger.settle(self._scopes, 0, tokens, self._limiter.now())
        self._limiter.spending.charge(self._scopes, tokens)

    def standing(self) -> Standing:
        return self._limiter.ledger.standing(self._charged, self._limiter.now())


class MemoryReservation:
    """Tokens of one admission, and a slot of the model's scope, from entering to leaving."""

    __slots__ = ("_admission", "_budgets", "_charged", "_clamp", "_least", "_limiter", "_model", "_settled", "day", "tokens")

    def __init__(
        self,
        admission: MemoryAdmission,
        limiter: MemoryLimiter,
        tokens: int,
        model: Scope | None,
        clamp: bool = False,
        least: int = 1,
    ) -> None:
        self._admission = admission
        self._limiter = limiter
        self._model = model
        self._clamp = clamp
        self._least = least
        self._settled = False
        self._charged: Sequence[Scope] = ()
        self._budgets: Sequence[Used] = ()
        self.tokens = tokens
        self.day = 0

    async def __aenter__(self) -> Self:
        self.tokens, self._charged, self._budgets = self._admission.debit(self.tokens, self._model, self._clamp, self._least)
        if self._budgets:
            self.day = self._budgets[0].day
        return self

    async def __aexit__(self, *_exc: object) -> None:
        ledger, model = self._limiter.ledger, self._model
        if not self._settled:
            self.settle(0)
            if model is not None:
                ledger.refund((model,))
        if model is not None:
            ledger.release((model,))

    def settle(self, tokens: int) -> None:
        self._end(tokens, tokens)

    def lose(self, *, successor: bool = False) -> None:  # noqa: ARG002 - what is set aside is not kept anyway
        self._end(self.tokens, 0)

    def _end(self, tokens: int, budgeted: int) -> None:
        if not self._settled:
            self._settled = True
            limiter = self._limiter
            now = limiter.now() if tokens > self.tokens else 0  # giving back is the same at any time
            limiter.ledger.settle(self._charged, self.tokens, tokens, now)
            if self._budgets:
                limiter.spending.settle(self._budgets, self.day, self.tokens, budgeted)


class AdoptedAdmission(MemoryAdmission):
    """An admission whose request was debited before. Entering never refuses; all else is as with any other."""

    __slots__ = ()

    async def __aenter__(self) -> Self:
        limiter = self._limiter
        self._scopes = self._charged = limiter.ledger.resume(self._scopes, limiter.now())
        return self

    def adopt_reservation(
        self,
        tokens: int,
        model_scope: Scope | None = None,
        *,
        day: int = 0,
        lost: bool = False,  # noqa: ARG002 - of budgets it is not debited either way
    ) -> AdoptedReservation:
        """The reservation that it held: `tokens` are what was set aside, after clamping; see `Reservation.day`."""
        reservation = AdoptedReservation(self, self._limiter, tokens, model_scope)
        reservation.day = day
        return reservation


class AdoptedReservation(MemoryReservation):
    __slots__ = ()

    async def __aenter__(self) -> Self:
        self._charged, self._budgets = self._admission.resume(self._model, self.day, self.tokens)
        return self
