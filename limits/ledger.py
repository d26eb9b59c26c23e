"""The accounts of all scopes, and the decisions over several of them at once.

Rules of this file
- A decision checks every scope before it debits any, and awaits nothing: all or none.
- An account with a slot held is never forgotten, so what a lease gives back always finds its account.
- Idle accounts, but for a few, are dropped as new ones come, two looked at for each, so memory follows use without a pause or
  a timer.
- Only a new request brings new limits into an account. One that is under way finds its accounts by id, so that it
  does not bring back limits that have changed since it came.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from copy import copy

from limits.bucket import LARGEST, Account, clamped, longest, standing
from limits.types import LimitExceeded, Scope, Standing

_FEW = 64  # accounts that are kept though they are idle: opening one costs more than keeping it


class Ledger:
    """Time is an argument, in whole microseconds, and never goes back."""

    def __init__(self) -> None:
        self._accounts: OrderedDict[str, Account] = OrderedDict()
        self._opened = 0
        self.since = 0  # no decision was made after this moment yet

    def __len__(self) -> int:
        return len(self._accounts)

    def admit(self, scopes: Sequence[Scope], now: int) -> tuple[Scope, ...]:
        """Debit one request and hold one slot of every scope; returns the scopes without repetitions."""
        if self._opened and len(self._accounts) > _FEW:
            self._sweep(now)
        accounts: list[Account] = []
        fits = True
        for scope in scopes:
            account = self._current(scope, now)
            if account not in accounts:
                accounts.append(account)
                fits = fits and account.fits(1, None, 1)
        if not fits:
            raise _refusal([(account, 1, None, 1) for account in accounts])
        for account in accounts:
            account.take(1, 0, 1)
        return tuple(scopes) if len(accounts) == len(scopes) else tuple([account.scope for account in accounts])

    def reserve(self, scopes: Sequence[Scope], model: Scope | None, requests: int, tokens: int, *, clamp: bool, now: int) -> int:
        """Debit tokens of every scope, and `requests` that were given back before; of `model` all three resources.

        Returns what was debited, after clamping.
        """
        accounts = self._held(scopes, now)
        other = None if model is None else self._other(model, accounts, now)
        tokens = 0 if tokens < 0 else LARGEST if tokens > LARGEST else tokens
        if clamp:
            tokens = clamped(tokens, accounts if other is None else [*accounts, other])
        fits = other is None or other.fits(1, tokens, 1)
        for account in accounts:
            fits = fits and account.fits(requests, tokens, 0)
        if not fits:
            demands = [(account, requests, tokens, 0) for account in accounts]
            raise _refusal(demands if other is None else [*demands, (other, 1, tokens, 1)])
        for account in accounts:
            account.take(requests, tokens, 0)
        if other is not None:
            other.take(1, tokens, 1)
        return tokens

    def settle(self, scopes: Sequence[Scope], reserved: int, tokens: int, now: int) -> None:
        """Correct a reservation to what was used."""
        more = (0 if tokens < 0 else LARGEST if tokens > LARGEST else tokens) - reserved
        if more > 0:
            for account in self._held(scopes, now):
                account.take(0, more, 0)
        elif more < 0:
            for scope in scopes:
                known = self._accounts.get(scope.id)
                if known is not None:  # what was forgotten meanwhile was full
                    known.give_tokens(-more)

    def refund(self, scopes: Sequence[Scope]) -> None:
        """Give one request back. What was forgotten meanwhile was full."""
        for scope in scopes:
            account = self._accounts.get(scope.id)
            if account is not None:
                account.give_request()

    def release(self, scopes: Sequence[Scope]) -> None:
        """Free one slot."""
        for scope in scopes:
            self._accounts[scope.id].parallel -= 1

    def parallel(self, scope: Scope) -> int:
        account = self._accounts.get(scope.id)
        return 0 if account is None else account.parallel

    def crowded(self, scopes: Iterable[Scope]) -> bool:
        """Whether one of them has most of its slots in use."""
        for scope in scopes:
            account = self._accounts.get(scope.id)
            if account is not None and account.parallel * 4 >= account.max_parallel * 3:
                return True
        return False

    def resume(self, scopes: Sequence[Scope], now: int) -> tuple[Scope, ...]:
        """Hold one slot of every scope, free or not, for what was debited before; returns them without repetitions."""
        accounts = dict.fromkeys(self._held(scopes, now))
        for account in accounts:
            account.take(0, 0, 1)
        return tuple([account.scope for account in accounts])

    def commit(self, now: int) -> None:
        """What was decided is to outlive this process. These balances do not."""

    def standing(self, scopes: Iterable[Scope], now: int) -> Standing:
        return standing(self._seen(scopes, now))

    def seen(self, scopes: Sequence[Scope], now: int) -> list[Account]:
        """The accounts as a new request would find them, to look at: one that is not known, or under other limits, is made and
        not kept.
        """
        found = self._seen(scopes, now)
        for number, scope in enumerate(scopes):
            if found[number].scope is not scope:
                found[number] = copy(found[number])
                found[number].adopt(scope, now)
        return found

    def _seen(self, scopes: Iterable[Scope], now: int) -> list[Account]:
        found = []
        for scope in scopes:
            account = self._accounts.get(scope.id) or self._blank(scope, now)
            if account.at < now:
                account.advance(now)
            found.append(account)
        return found

    def _current(self, scope: Scope, now: int) -> Account:
        """The account of a scope under its present limits, opened if need be."""
        account = self._accounts.get(scope.id)
        if account is None:
            account = self._accounts[scope.id] = self._blank(scope, now)
            self._opened += 1
            return account
        if account.scope is not scope:
            account.adopt(scope, now)
        account.advance(now)
        return account

    def _blank(self, scope: Scope, now: int) -> Account:
        """The account of a scope that is not known here."""
        return Account(scope, now)

    def _other(self, model: Scope, accounts: Sequence[Account], now: int) -> Account:
        account = self._current(model, now)
        if account in accounts:
            raise ValueError(f"scope {model.id!r} is charged by the admission already")
        return account

    def _held(self, scopes: Sequence[Scope], now: int) -> list[Account]:
        """The accounts of scopes that a request is charged to. A reservation may outlive the admission, which kept them."""
        accounts: list[Account] = []
        for scope in scopes:
            account = self._accounts.get(scope.id) or self._current(scope, now)
            account.advance(now)
            accounts.append(account)
        return accounts

    def _sweep(self, now: int) -> None:
        """Look at the accounts that were longest not looked at: drop the idle, put the others at the end."""
        accounts = self._accounts
        for _ in range(min(2 * self._opened, len(accounts))):
            key, account = accounts.popitem(last=False)
            account.advance(now)
            if not account.idle():
                accounts[key] = account
        self._opened = 0


def _refusal(demands: Iterable[tuple[Account, int, int | None, int]]) -> LimitExceeded:
    found = [account.refusal(requests, tokens, slots) for account, requests, tokens, slots in demands]
    refusal = longest([one for one in found if one is not None])
    assert refusal is not None, "refused without a reason"
    return refusal
