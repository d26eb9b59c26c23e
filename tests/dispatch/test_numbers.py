"""The numbers that stand for scopes between a worker and the owner."""

from dataclasses import replace

from gateway.dispatch import numbers
from gateway.dispatch.numbers import ScopeNumbers
from limits.types import Scope

SCOPE = Scope("key:acme/k", "key", 60, None, None, "k")


def test_a_scope_that_is_made_anew_has_the_number_that_it_had(monkeypatch) -> None:
    """Each change of the key file makes all of them anew: the owner is told once, and what is remembered does not grow."""
    monkeypatch.setattr(numbers, "_MOST_SCOPES", 10)
    known = ScopeNumbers()
    assert {known.one(replace(SCOPE)) for _ in range(100)} == {1}
    assert [terms.number for terms in known.new()] == [1]
    assert len(known._numbers) <= 10


def test_other_limits_are_another_scope() -> None:
    """The owner hears of a key's new limits by a new number."""
    known = ScopeNumbers()
    assert known.of([SCOPE, replace(SCOPE, rpm=120), SCOPE]) == (1, 2, 1)
    assert [(terms.number, terms.rpm) for terms in known.new()] == [(1, 60), (2, 120)]


def test_too_many_are_forgotten_and_no_number_comes_twice(monkeypatch) -> None:
    """After that a scope is introduced again, under a number that was nobody's."""
    monkeypatch.setattr(numbers, "_MOST_SCOPES", 2)
    known = ScopeNumbers()
    known.of([replace(SCOPE, id=str(number)) for number in range(3)])
    known.forget()
    assert known.everybody() == []
    assert known.one(SCOPE) == 4
    assert known.scope(4) == SCOPE
