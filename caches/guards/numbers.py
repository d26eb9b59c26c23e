"""Numbers: every one of them must be in both texts, whatever it is written like.

A unit that is not said matches any: `at 18` and `18 years old`. A one in letters may be missing: `one egg`, `an egg`.
"""

from __future__ import annotations

from collections.abc import Callable

from caches.guards.quantities import Quantity
from caches.guards.reading import Reading

_ANY = frozenset({"", "th", "clock"})
_MOST = 64  # numbers that are paired one by one; more must be the same in the same order


def numbers(a: Reading, b: Reading) -> str | None:
    if a.quantities == b.quantities:
        return None
    if max(len(a.quantities), len(b.quantities)) > _MOST:
        return "numbers"
    rest = list(b.quantities)
    lonely = [quantity for quantity in a.quantities if not _take(quantity, rest, _same)]
    lonely = [quantity for quantity in lonely if not _take(quantity, rest, _alike)]
    return "numbers" if any(quantity[:2] != ("1", "") or quantity.said.isdigit() for quantity in (*lonely, *rest)) else None


def _take(quantity: Quantity, rest: list[Quantity], fits: Callable[[Quantity, Quantity], bool]) -> bool:
    for other in rest:
        if fits(quantity, other):
            rest.remove(other)
            return True
    return False


def _same(one: Quantity, other: Quantity) -> bool:
    return one[:2] == other[:2]


def _alike(one: Quantity, other: Quantity) -> bool:
    return one.said == other.said and (one.unit in _ANY or other.unit in _ANY)
