"""The numbers under which the owner knows a worker's scopes: small ones, in place of the whole limits in every question."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from gateway.dispatch import messages as m
from limits.types import Scope

_MOST_SCOPES = 65_536


class ScopeNumbers:
    """The numbers under which the owner knows this worker's scopes."""

    def __init__(self) -> None:
        self._numbers: dict[int, tuple[int, Scope]] = {}  # by identity, which is quick; each is kept, so that nobody else has it
        self._values: dict[Scope, int] = {}  # whenever the key file changes, equal scopes come as other objects
        self._scopes: dict[int, Scope] = {}
        self._next = count(1)
        self._new: list[m.ScopeTerms] = []

    def of(self, scopes: Sequence[Scope]) -> tuple[int, ...]:
        return tuple([self.one(scope) for scope in scopes])

    def one(self, scope: Scope) -> int:
        known = self._numbers.get(id(scope))
        return known[0] if known is not None else self._introduce(scope)

    def maybe(self, scope: Scope | None) -> int | None:
        """Of a model's own limit, where it has one."""
        return None if scope is None else self.one(scope)

    def scope(self, number: int) -> Scope | None:
        return self._scopes.get(number)

    def new(self) -> list[m.ScopeTerms]:
        """Those that the owner has not been told of."""
        new, self._new = self._new, []
        return new

    def everybody(self) -> list[m.ScopeTerms]:
        self._new = []
        return [_terms(number, scope) for number, scope in self._scopes.items()]

    def _introduce(self, scope: Scope) -> int:
        number = self._values.get(scope)
        if number is None:
            number = self._values[scope] = next(self._next)
            self._scopes[number] = scope
            self._new.append(_terms(number, scope))
        if len(self._numbers) >= _MOST_SCOPES:
            self._numbers.clear()
        self._numbers[id(scope)] = number, scope
        return number

    def forget(self) -> None:
        """Keys come and go. While no request refers to any, and nobody is connected, all are forgotten if there are too many."""
        if len(self._scopes) > _MOST_SCOPES:
            self._scopes.clear()
            self._values.clear()
            self._numbers.clear()


def _terms(number: int, scope: Scope) -> m.ScopeTerms:
    return m.ScopeTerms(
        number, scope.id, scope.kind, scope.rpm, scope.tpm, scope.max_parallel, scope.name, scope.burst, scope.day, scope.month
    )
