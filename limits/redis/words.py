"""What is sent with a script: how many keys, the keys, the arguments. See `limits.redis.scripts` for their order."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from limits.redis.names import PREFIX, Known
from limits.redis.scripts import ADOPT, CHARGE, CORRECT, CORRECT_BUDGETS, NODES, RENEW, RESERVE, RESERVE_BUDGETS, Script

_NODES = PREFIX + b"nodes"
Said = tuple[Script, Sequence[bytes]]
Correction = tuple[Known, int, int, bool]
"""Requests to give back, tokens to add, whether its lease ends."""


class Words:
    """`node` asks. `moment`: the time that the server is to go by, in whole microseconds; else its own."""

    def __init__(self, node: bytes, moment: Callable[[], int] | None) -> None:
        self._node = node
        self._given = moment

    def admit(self, lease: bytes, scopes: Sequence[Known]) -> list[bytes]:
        return [*self._keys(scopes), self._moment(), lease, *_terms(scopes)]

    def reserve(
        self,
        admission: bytes,
        lease: bytes,
        scopes: Sequence[Known],
        model: Known | None,
        requests: int,
        tokens: int,
        *,
        clamp: bool,
        least: int,
        budgeted: Sequence[Known],
    ) -> Said:
        """`model`, if there is one, is the last of the scopes. `budgeted`: those of them that have a budget."""
        words = [*self._keys(scopes, budgeted), self._moment(), admission, lease, b"%d" % requests, b"%d" % tokens]
        words += (b"1" if clamp else b"0", b"0" if model is None else b"1", *_terms(scopes))
        if not budgeted:
            return RESERVE, words
        for known in budgeted:
            words += known.budget_terms
        return RESERVE_BUDGETS, [*words, b"%d" % least, b"%d" % len(budgeted)]

    def correct(
        self, name: bytes, lease: bytes, scopes: Sequence[Correction], day: int = 0, more: int = 0, settled: int = 0
    ) -> Said:
        """`day`: of the budgets that `more` tokens are added to, and `settled` used for good; 0: none is corrected."""
        budgeted = [known for known, *_ in scopes if known.budgeted] if day else []
        words = [*self._keys([known for known, *_ in scopes], budgeted), self._moment(), name, lease]
        for known, requests, tokens, ends in scopes:
            words += (*known.terms[:4], b"%d" % requests, b"%d" % tokens, b"1" if ends and known.slots else b"0")
        if not budgeted:
            return CORRECT, words
        return CORRECT_BUDGETS, [*words, b"%d" % day, b"%d" % more, b"%d" % settled, b"%d" % len(budgeted)]

    def read(self, budgeted: Sequence[Known]) -> list[bytes]:
        return [b"%d" % len(budgeted), *(known.budget for known in budgeted), self._moment()]

    def charge(self, known: Known, number: int, day: int, tokens: int) -> Said:
        """To a budget, once; numbers grow."""
        words = [b"2", _open(known, self._node) + b":told", known.budget, self._moment()]
        return CHARGE, [*words, b"%d" % number, b"%d" % day, b"%d" % tokens]

    def adopt(self, name: bytes, lease: bytes, charged: Known, slots: Sequence[Known], gone: bytes) -> Said:
        """`charged`: any scope of the tenant; `gone`: the node whose leases end with this."""
        keys = [_open(charged, self._node), _open(charged, gone), *(known.leases for known in slots)]
        return ADOPT, [b"%d" % len(keys), *keys, self._moment(), name, lease, gone]

    def renew(self, leases: bytes, who: Sequence[bytes]) -> Said:
        return RENEW, [b"1", leases, self._moment(), *who]

    def count(self, gone: bytes) -> Said:
        """It is a node, and `gone` is none any more."""
        return NODES, [b"1", _NODES, self._moment(), self._node, gone]

    def leave(self) -> Said:
        return NODES, [b"1", _NODES, self._moment(), b"", self._node]

    def _moment(self) -> bytes:
        return b"" if self._given is None else b"%d" % self._given()

    def _keys(self, scopes: Sequence[Known], budgeted: Sequence[Known] = ()) -> list[bytes]:
        words = [b"%d" % (1 + 2 * len(scopes) + len(budgeted)), _open(scopes[0], self._node)]
        for known in scopes:
            words += (known.balance, known.leases)
        words += [known.budget for known in budgeted]
        return words


def _open(known: Known, node: bytes) -> bytes:
    return PREFIX + b"{" + known.tag + b"}:open:" + node.hex().encode()


def _terms(scopes: Sequence[Known]) -> list[bytes]:
    return [term for known in scopes for term in known.terms]
