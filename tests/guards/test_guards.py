"""Every guard on its table: what it must tell apart, and what it must let pass."""

from __future__ import annotations

import pytest
from guard_tables import SAME, TRAPS

from caches.guards import Reading, veto
from caches.guards.veto import GUARDS

NAMED = {
    "tools": "entities", "language": "entities", "format": "forms",
}  # fmt: skip
CASES = [(name, *pair) for name, pairs in TRAPS.items() for pair in pairs]


@pytest.mark.parametrize(("name", "a", "b"), CASES)
def test_a_guard_tells_apart(name, a, b):
    """The guard of that table says its name for every pair of it, whichever comes first."""
    guard = next(guard for guard in GUARDS if guard.__name__ == NAMED.get(name, name))
    assert guard(Reading.of(a), Reading.of(b)) == guard(Reading.of(b), Reading.of(a)) == name


@pytest.mark.parametrize(("name", "a", "b"), CASES)
def test_a_trap_is_vetoed(name, a, b):
    """Whatever guard speaks first, a trap is vetoed."""
    assert veto(Reading.of(a), Reading.of(b)) is not None


@pytest.mark.parametrize(("a", "b"), SAME)
def test_the_same_question_is_not_vetoed(a, b):
    """What means the same passes every guard, whichever comes first."""
    assert veto(Reading.of(a), Reading.of(b)) is None
    assert veto(Reading.of(b), Reading.of(a)) is None
