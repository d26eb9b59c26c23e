"""Numbers: every one of them must be in both texts, whatever it is written like.

A unit that is not said matches any: `at 18` and `18 years old`. A `1` may be missing: `one egg`, `an egg`.
"""

from __future__ import annotations

from caches.guards.quantities import Quantity
from caches.guards.reading import Reading

_ANY = frozenset({"", "th", "clock"})


def numbers(a: Reading, b: Reading) -> str | None:
    if a.quantities == b.quantities:
        return None
    rest = list(b.quantities)
    lonely = [quantity for quantity in a.quantities if not _take(quantity, rest)]
    lonely = [quantity for quantity in lonely if not _take_like(quantity, rest)]
    return "numbers" if any(quantity[:2] != ("1", "") for quantity in (*lonely, *rest)) else None


def _take(quantity: Quantity, rest: list[Quantity]) -> bool:
    for other in rest:
        if quantity[:2] == other[:2]:
            rest.remove(other)
            return True
    return False


def _take_like(quantity: Quantity, rest: list[Quantity]) -> bool:
    for other in rest:
        if quantity.said == other.said and (quantity.unit in _ANY or other.unit in _ANY):
            rest.remove(other)
            return True
    return False
