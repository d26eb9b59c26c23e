"""The kind of question: when is not where, and whether is not why."""

from __future__ import annotations

from caches.guards.reading import Reading

_CLASSES = {"@which": "@what", "@amount": "@price", "@howmany": "@howlong"}
_AKIN = {
    frozenset(pair.split()): gap
    for pair, gap in {
        "@what @how": 0.22, "@what @who": 0.1, "@what @where": 0.1, "@what @when": 0.1, "@what @price": 0.1,
        "@what @howlong": 0.1,
        "@what @howold": 0.1, "@what @howbig": 0.1, "@what @howtall": 0.1, "@what @howfar": 0.1, "@what @howfast": 0.1,
        "@what @howoften": 0.1, "@how @whether": 0.25, "@what @whether": 0.25, "@howlong @when": 0.15, "@howtall @howbig": 0.05,
        "@howlong @price": 0.2, "@experience @how": 0.2, "@experience @what": 0.2, "@whatif @what": 0.1, "@whatif @how": 0.2,
    }.items()
}  # fmt: skip
"""Kinds that may mean the same, and how much more alike the rest must be."""
_UNSAID, _UNSAID_WHETHER = 0.05, 0.1  # where one text is a request or a statement
_MODALS = {"could": "can", "may": "can", "might": "can", "would": "will", "must": "should"}
_MODAL = 0.05


def question(a: Reading, b: Reading) -> str | None:
    return "question" if apart(a, b) >= 1 else None


def apart(a: Reading, b: Reading) -> float:
    """0: the same kind; 1: another one; between: it depends on the rest."""
    if {a.frame, b.frame} == {"@howmany", "@which"}:
        return 1.0
    one, other = _CLASSES.get(a.frame, a.frame), _CLASSES.get(b.frame, b.frame)
    if one == other:
        return _modal(a.auxiliary, b.auxiliary) if one == "@whether" else 0.0
    if not one or not other:
        return _UNSAID_WHETHER if "@whether" in {one, other} else _UNSAID
    return _AKIN.get(frozenset((one, other)), 1.0)


def _modal(one: str, other: str) -> float:
    """Whether I should is not whether I can; whether it is, and whether it will be, may be."""
    one, other = _MODALS.get(one, one), _MODALS.get(other, other)
    if one == other:
        return 0.0
    if "should" in {one, other}:
        return 1.0
    return _MODAL if {one, other} & {"can", "will"} else 0.0
