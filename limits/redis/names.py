"""A scope as the server knows it, and what its last answer said of it.

Names of tenants and keys are not on the server: keys are digests of ids. The ids of one tenant's scopes are `kind:tenant` or
`kind:tenant/rest`, and what they have in common is their hash tag.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import replace
from hashlib import blake2b

from limits.bucket import UNIT, Account
from limits.budget import MOST, Used
from limits.redis.scripts import LARGEST
from limits.types import Scope, at_once

PREFIX = b"tiergate:limits:2:"
_MOST = 65_536


class Known:
    """`account` is what the server last said, under the scope's own limits. `terms` are these limits as it reads them: requests a
    minute and at once, tokens a minute and at once, slots.
    """

    __slots__ = (
        "account", "balance", "budget", "budget_terms", "budgeted", "leases", "part", "parts", "scope", "tag", "terms", "used",
        "warm",
    )  # fmt: skip

    def __init__(self, scope: Scope, account: Account) -> None:
        self.scope = scope
        self.account = account
        self.tag = _digest(scope.id.partition(":")[2].partition("/")[0])
        place = PREFIX + b"{" + self.tag + b"}:" + _digest(scope.id)
        self.balance, self.leases = place, place + b":slots"
        self.terms = (*_terms(scope.rpm, scope), *_terms(scope.tpm, scope), _term(scope.max_parallel))
        self.budgeted = scope.day is not None or scope.month is not None
        self.budget = place + b":budget"
        self.budget_terms = (_allowance(scope.day), _allowance(scope.month))
        self.used = Used(0)
        self.part = scope  # this node's own, of one in `parts`
        self.parts = 1
        self.warm = 0  # the outage for which its part has taken over what was spent

    @property
    def slots(self) -> bool:
        return self.scope.max_parallel is not None

    def learn(self, now: int, values: tuple[int, ...]) -> None:
        """What the server says: see `scripts.ACCOUNT`."""
        requests, rest, tokens, token_rest, slots = values
        account = self.account
        account.at = now
        account.requests = requests * UNIT + rest
        account.tokens = tokens * UNIT + token_rest
        account.parallel = slots

    def shared_among(self, nodes: int) -> Scope:
        if self.parts != nodes:
            scope = self.scope
            self.part = replace(
                scope, rpm=_part(scope.rpm, nodes), tpm=_part(scope.tpm, nodes), max_parallel=_part(scope.max_parallel, nodes)
            )
            self.parts = nodes
        return self.part


class Names:
    """Scopes that were seen; those seen first are forgotten when there are too many."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Known] = OrderedDict()

    def of(self, scopes: Iterable[Scope], now: int) -> list[Known]:
        """Without repetitions."""
        found: list[Known] = []
        for scope in scopes:
            known = self._known.get(scope.id)
            if known is None or known.scope is not scope:
                known = self._learn(scope, known, now)
            if known not in found:
                found.append(known)
        return found

    def _learn(self, scope: Scope, known: Known | None, now: int) -> Known:
        if known is None:
            account = Account(scope, now)
        else:
            account = known.account
            account.adopt(scope, now)
        fresh = self._known[scope.id] = Known(scope, account)
        if known is not None:
            fresh.warm, fresh.used = known.warm, known.used
        elif len(self._known) > _MOST:
            self._known.popitem(last=False)
        return fresh


def _term(limit: int | None) -> bytes:
    return b"-1" if limit is None or limit > LARGEST else b"%d" % limit


def _allowance(limit: int | None) -> bytes:
    return b"-1" if limit is None else b"%d" % min(limit, MOST)


def _terms(limit: int | None, scope: Scope) -> tuple[bytes, bytes]:
    """A limit and what may be spent of it at once."""
    return (b"-1", b"-1") if limit is None or limit > LARGEST else (b"%d" % limit, b"%d" % at_once(limit, scope.burst))


def _part(limit: int | None, nodes: int) -> int | None:
    """One at least: less would be a closed door."""
    return limit if not limit else max(1, limit // nodes)


def _digest(text: str) -> bytes:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest().encode()
