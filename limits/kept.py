"""A ledger whose balances are in a vault as well, so that a successor goes on from them.

Rules of this file
- What a decision changed is collected, and written at the next commit. Refilling is no change: it follows from the time.
- A scope that is seen for the first time goes on from what the vault held when it was opened, once. Later it is known
  here, or was forgotten since it had nothing spent.
- Slots are not kept: they are of requests that run, and those come back by being adopted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from limits.bucket import Account
from limits.ledger import Ledger
from limits.types import Scope
from limits.vault import Spent, Vault, scope_key


class KeptLedger(Ledger):
    def __init__(self, vault: Vault) -> None:
        super().__init__()
        self._vault = vault
        self._changed: dict[str, Account] = {}
        self.since = vault.now

    def admit(self, scopes: Sequence[Scope], now: int) -> tuple[Scope, ...]:
        admitted = super().admit(scopes, now)
        self._note(admitted)
        return admitted

    def reserve(self, scopes: Sequence[Scope], model: Scope | None, requests: int, tokens: int, *, clamp: bool, now: int) -> int:
        taken = super().reserve(scopes, model, requests, tokens, clamp=clamp, now=now)
        self._note(scopes if model is None else (*scopes, model))
        return taken

    def settle(self, scopes: Sequence[Scope], reserved: int, tokens: int, now: int) -> None:
        super().settle(scopes, reserved, tokens, now)
        if tokens != reserved:
            self._note(scopes)

    def refund(self, scopes: Sequence[Scope]) -> None:
        super().refund(scopes)
        self._note(scopes)

    def commit(self, now: int) -> None:
        vault = self._vault
        for account in self._changed.values():
            scope = account.scope
            vault.put(account.key, Spent(account.at, account.requests, account.tokens, scope.rpm, scope.tpm))
        self._changed.clear()
        vault.commit(now)

    def _note(self, scopes: Sequence[Scope]) -> None:
        accounts, changed = self._accounts, self._changed
        for scope in scopes:
            account = accounts.get(scope.id)
            if account is not None:
                changed[scope.id] = account

    def _current(self, scope: Scope, now: int) -> Account:
        known = self._accounts.get(scope.id)
        if known is not None and known.scope is scope:
            known.advance(now)
            return known
        account = super()._current(scope, now)
        if known is None:
            self._vault.past.pop(account.key, None)
        self._changed[scope.id] = account  # other limits are a change too: the way back to nothing spent depends on them
        return account

    def _blank(self, scope: Scope, now: int) -> Account:
        key = scope_key(scope.id)
        past = self._vault.past.get(key)
        account = super()._blank(scope, now) if past is None else _resumed(past, scope, now)
        account.key = key
        return account


def _resumed(past: Spent, scope: Scope, now: int) -> Account:
    """Refilled up to now under the limits that it was kept with, then under those of today."""
    account = Account(replace(scope, rpm=past.rpm, tpm=past.tpm), past.at)
    account.requests, account.tokens = past.requests, past.tokens
    account.adopt(scope, now)
    return account
