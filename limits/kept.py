"""A ledger whose balances are in a vault as well, so that a successor goes on from them.

Rules of this file
- Accounts that a decision looked at or gave back to are collected, and written at the next commit: writing one that
  did not change does no harm, to miss one that did would. Refilling is no change: it follows from the time.
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
        self._touched: list[Account] = []
        self.since = vault.now

    def settle(self, scopes: Sequence[Scope], reserved: int, tokens: int, now: int) -> None:
        super().settle(scopes, reserved, tokens, now)
        self._touch(scopes)

    def refund(self, scopes: Sequence[Scope]) -> None:
        super().refund(scopes)
        self._touch(scopes)

    def commit(self, now: int) -> None:
        put = self._vault.put
        last = {account.key: account for account in self._touched}  # it may have been forgotten and opened anew meanwhile
        for key, account in last.items():
            scope = account.scope
            put(key, account.at, account.requests, account.tokens, scope.rpm, scope.tpm, scope.burst)
        self._touched.clear()
        self._vault.commit(now)

    def _touch(self, scopes: Sequence[Scope]) -> None:
        accounts = self._accounts
        self._touched += [accounts[scope.id] for scope in scopes if scope.id in accounts]

    def _current(self, scope: Scope, now: int) -> Account:
        account = self._accounts.get(scope.id)
        if account is None or account.scope is not scope:
            account = super()._current(scope, now)
            self._vault.past.pop(account.key, None)
        else:
            account.advance(now)
        self._touched.append(account)
        return account

    def _held(self, scopes: Sequence[Scope], now: int) -> list[Account]:
        accounts = super()._held(scopes, now)
        self._touched += accounts
        return accounts

    def _blank(self, scope: Scope, now: int) -> Account:
        key = scope_key(scope.id)
        past = self._vault.past.get(key)
        account = super()._blank(scope, now) if past is None else _resumed(past, scope, now)
        account.key = key
        return account


def _resumed(past: Spent, scope: Scope, now: int) -> Account:
    """Refilled up to now under the limits that it was kept with, then under those of today."""
    account = Account(replace(scope, rpm=past.rpm, tpm=past.tpm, burst=past.burst), past.at)
    account.requests, account.tokens = past.requests, past.tokens
    account.adopt(scope, now)
    return account
