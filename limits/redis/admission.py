"""What the limiter hands out: one request under its limits, and its reservation.

Entering asks, leaving says. Whatever happens while it asks, a cancellation included, is undone by the line that asks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Self

from limits.redis.budgets import TODAY
from limits.redis.names import Known
from limits.redis.place import Place
from limits.redis.scripts import LARGEST
from limits.types import LimitExceeded, LimitsAway, Scope, Standing

if TYPE_CHECKING:
    from limits.redis.limiter import RedisLimiter


class RedisAdmission:
    """It holds a slot of every scope from entering to leaving."""

    __slots__ = ("_charged", "_id", "_limiter", "_place", "_scopes", "refunded")

    def __init__(self, limiter: RedisLimiter, scopes: Sequence[Scope], *, refunded: bool = False) -> None:
        self._limiter = limiter
        self._scopes = limiter.names(scopes)
        self._charged: Sequence[Known] = self._scopes
        self._id = limiter.new_id()
        self._place = Place.NOWHERE
        self.refunded = refunded

    async def __aenter__(self) -> Self:
        self._place = await self._limiter.debit_request(self._id, self._scopes)
        return self

    async def __aexit__(self, *_exc: object) -> None:
        there = self._place is Place.SERVER and not self.refunded
        self._limiter.release(self._id, self._scopes, b"q" + self._id if there else b"")

    def reserve(self, tokens: int, *, model_scope: Scope | None = None, clamp: bool = False, least: int = 1) -> RedisReservation:
        return RedisReservation(self, self._limiter, tokens, model_scope, clamp=clamp, least=least)

    async def debit(
        self, lease: bytes, tokens: int, model: Known | None, *, clamp: bool, least: int
    ) -> tuple[Place, int, int, Sequence[Known]]:
        """Step 2, for the reservation: where the tokens were taken, how many, of which day's budgets, and of which scopes.

        A request that was given back, by an earlier refusal on another model, is taken again with the tokens.
        """
        scopes, requests = self._scopes, int(self.refunded and bool(self._scopes))
        self._charged = scopes if model is None else [*scopes, model]
        try:
            place, taken, day = await self._limiter.debit_tokens(
                (self._id, lease), scopes, model, requests, tokens, clamp=clamp, least=least
            )
        except (LimitExceeded, LimitsAway):
            self.refund()
            raise
        if self.refunded:
            self._place, self.refunded = place, False
        return place, taken, day, self._charged

    def charge(self, model: Known | None) -> Sequence[Known]:
        """The scopes of a reservation that was made before."""
        self._charged = self._scopes if model is None else [*self._scopes, model]
        return self._charged

    def refund(self) -> None:
        if not self.refunded:
            self.refunded = True
            self._limiter.correct(self._place, b"q" + self._id, [(known, 1) for known in self._scopes], 0)

    def conclude(self, tokens: int, *, refund: bool) -> None:
        """As one correction, for the debit of the request, by whose name it counts, is corrected once."""
        back, self.refunded = int(refund and not self.refunded), self.refunded or refund
        charged = [(known, back) for known in self._scopes]
        self._limiter.correct(self._place, b"q" + self._id, charged, min(max(tokens, 0), LARGEST), TODAY)

    def standing(self) -> Standing:
        return self._limiter.standing_of(self._charged)


class RedisReservation:
    """Tokens of one admission, and a slot of the model's scope, from entering to leaving."""

    __slots__ = (
        "_admission", "_charged", "_clamp", "_id", "_least", "_limiter", "_model", "_place", "_settled", "day", "lost", "tokens",
    )  # fmt: skip

    def __init__(
        self,
        admission: RedisAdmission,
        limiter: RedisLimiter,
        tokens: int,
        model: Scope | None,
        *,
        clamp: bool = False,
        least: int = 1,
    ) -> None:
        self._admission = admission
        self._limiter = limiter
        self._model = None if model is None else limiter.names((model,))[0]
        self._clamp = clamp
        self._least = least
        self._id = limiter.new_id()
        self._settled = False
        self._charged: Sequence[Known] = ()
        self._place = Place.NOWHERE
        self.tokens = tokens
        self.day = 0
        self.lost = False  # its budgets have it back already

    async def __aenter__(self) -> Self:
        self._place, self.tokens, self.day, self._charged = await self._admission.debit(
            self._id, self.tokens, self._model, clamp=self._clamp, least=self._least
        )
        return self

    async def __aexit__(self, *_exc: object) -> None:
        if not self._settled:
            self._settled = True
            self._correct(0, 0, model_request=1)
        if self._model is not None:
            self._limiter.release(self._id, [self._model])

    def settle(self, tokens: int) -> None:
        if not self._settled:
            self._settled = True
            self._correct(tokens, tokens, model_request=0)

    def lose(self, *, successor: bool = False) -> None:
        if not self._settled:
            self._settled = True
            if not successor:  # who goes on from what is on the server
                self._correct(self.tokens, 0, model_request=0)

    def _correct(self, used: int, budgeted: int, *, model_request: int) -> None:
        charged = [(known, model_request if known is self._model else 0) for known in self._charged]
        more = min(max(used, 0), LARGEST) - self.tokens
        settled = min(max(budgeted, 0), LARGEST)
        of_budgets = settled - (0 if self.lost else self.tokens), settled
        self._limiter.correct(self._place, b"t" + self._id, charged, more, self.day, of_budgets)


class AdoptedRedisAdmission(RedisAdmission):
    """An admission whose request was debited before. Entering never refuses; all else is as with any other."""

    __slots__ = ()

    async def __aenter__(self) -> Self:
        self._place = Place.SERVER
        self._limiter.take_over(b"" if self.refunded else b"q" + self._id, self._id, self._scopes, self._scopes)
        return self

    def adopt_reservation(
        self, tokens: int, model_scope: Scope | None = None, *, day: int = 0, lost: bool = False
    ) -> AdoptedRedisReservation:
        """The reservation that it held: `tokens` are what was set aside, after clamping; see `Reservation.day`."""
        reservation = AdoptedRedisReservation(self, self._limiter, tokens, model_scope)
        reservation.day, reservation.lost = day, lost
        return reservation


class AdoptedRedisReservation(RedisReservation):
    __slots__ = ()

    async def __aenter__(self) -> Self:
        self._place, self._charged = Place.SERVER, self._admission.charge(self._model)
        self._limiter.take_over(b"t" + self._id, self._id, self._charged, [] if self._model is None else [self._model])
        return self
