"""What a node decides alone while the server is away: by its part of every limit, of as many nodes as there last were.

- It begins warm: with its part of what was spent when the server last spoke, and with the slots that this node holds.
- A part is whole, and one at least: with more nodes than a limit has requests, together they let in more than it.
- A demand that fits the burst and not its part passes when the part is full, and makes a debt: else it could never pass here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from limits.bucket import clamped, foreseen, longest
from limits.ledger import Ledger
from limits.redis.names import Known
from limits.redis.scripts import LARGEST
from limits.types import LimitExceeded, Scope, Standing


class Share:
    """Time is an argument, in whole microseconds."""

    def __init__(self) -> None:
        self._ledger = _WarmLedger()
        self._outage = 0
        self.nodes = 1  # changes between outages

    def begin(self) -> None:
        self._outage += 1

    def admit(self, scopes: Sequence[Known], now: int) -> None:
        """Raises LimitExceeded."""
        parts = self._parts(scopes, now)
        try:
            self._ledger.admit(parts, now)
        except LimitExceeded as refused:
            raise _of_the_whole(refused, scopes) from None

    def reserve(self, scopes: Sequence[Known], model: Known | None, requests: int, tokens: int, *, clamp: bool, now: int) -> int:
        """Returns what was debited. Raises LimitExceeded."""
        everyone = [*scopes] if model is None else [*scopes, model]
        tokens = min(max(tokens, 0), LARGEST)
        if clamp:
            tokens = clamped(tokens, [known.account for known in everyone])
        _check(everyone, tokens)
        parts, others = self._parts(scopes, now), self._parts([] if model is None else [model], now)
        try:
            taken = self._ledger.reserve(parts, others[0] if others else None, requests, tokens, clamp=True, now=now)
        except LimitExceeded as refused:
            raise _of_the_whole(refused, everyone) from None
        self._ledger.settle([*parts, *others], taken, tokens, now)
        return tokens

    def foresee(
        self,
        scopes: Sequence[Known],
        model: Known | None,
        tokens: int | None,
        fit: Callable[[int], int],
        *,
        clamp: bool,
        now: int,
    ) -> LimitExceeded | None:
        """See `limits.bucket.foreseen`; as `admit` and `reserve` would decide."""
        everyone = [*scopes] if model is None else [*scopes, model]

        def fitting(wanted: int) -> int:
            wanted = fit(wanted)
            most = clamped(wanted, [known.account for known in everyone]) if clamp else wanted
            _check(everyone, most)
            return most

        accounts = self._ledger.seen(self._parts(scopes, now), now)
        other = None if model is None else self._ledger.seen(self._parts([model], now), now)[0]
        refused = foreseen(accounts, other, tokens, fitting, clamp=True)
        return None if refused is None else _of_the_whole(refused, everyone)

    def parallel(self, scope: Known) -> int:
        return self._ledger.parallel(scope.part)

    def correct(self, scopes: Iterable[Known], more: int, now: int) -> None:
        """Charge so many tokens more, or less than none."""
        self._ledger.settle([known.part for known in scopes], max(0, -more), max(0, more), now)

    def refund(self, scopes: Iterable[Known]) -> None:
        self._ledger.refund([known.part for known in scopes])

    def hold(self, scopes: Sequence[Known], now: int) -> None:
        """Slots, free or not."""
        self._ledger.resume(self._parts(scopes, now), now)

    def release(self, scopes: Iterable[Known]) -> None:
        self._ledger.release([known.part for known in scopes])

    def standing(self, scopes: Sequence[Known], now: int) -> Standing:
        return self._ledger.standing(self._parts(scopes, now), now)

    def _parts(self, scopes: Sequence[Known], now: int) -> list[Scope]:
        parts = [known.shared_among(self.nodes) for known in scopes]
        for known, part in zip(scopes, parts, strict=True):
            if known.warm != self._outage:
                known.warm = self._outage
                known.account.advance(now)
                self._ledger.warm(part, -(-known.account.requests // self.nodes), -(-known.account.tokens // self.nodes), now)
        return parts


class _WarmLedger(Ledger):
    def warm(self, scope: Scope, requests: int, tokens: int, now: int) -> None:
        """At least so much was spent."""
        account = self._current(scope, now)
        account.requests = max(account.requests, requests) if account.request_unit else 0
        account.tokens = max(account.tokens, tokens) if account.token_unit else 0


def _check(everyone: Iterable[Known], tokens: int) -> None:
    """Raises LimitExceeded for more than one of them ever holds."""
    too_much = longest([one for known in everyone if (one := _never(known, tokens)) is not None])
    if too_much is not None:
        try:
            raise too_much
        finally:
            del too_much  # it refers to this frame


def _never(known: Known, tokens: int) -> LimitExceeded | None:
    most = known.scope.at_once(known.scope.tpm)
    return None if most is None or tokens <= most else known.account.refusal(0, tokens, 0)


def _of_the_whole(refused: LimitExceeded, scopes: Iterable[Known]) -> LimitExceeded:
    """Says whose limit it is by the object that callers know."""
    refused.scope = next((known.scope for known in scopes if known.scope.id == refused.scope.id), refused.scope)
    return refused
