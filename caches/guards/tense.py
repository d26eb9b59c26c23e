"""When, and whether it is done, may be done or must be done: was is not is, should is not must.

Where a method, a place or a time is asked for by `I` or `you`, the modal verbs stand for each other: how do I, how can I.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

from caches.guards.reading import Reading
from caches.guards.tables import words

_MODES = {
    form: mode
    for mode, forms in {
        "present": "is are am do does", "past": "was were did had", "future": "will shall", "can": "can may might",
        "could": "could",
        "should": "should", "must": "must", "would": "would", "perfect": "has have",
    }.items()
    for form in forms.split()
}  # fmt: skip
_CONFLICTS = (
    "past/present past/future past/would should/present should/can should/past should/future must/present must/can must/past "
    "must/should could/can"
)
_APART = frozenset(frozenset(pair.split("/")) for pair in _CONFLICTS.split())
_GENERIC = frozenset({"present", "can", "could", "should", "must", "would", "future"})
_ASKERS = frozenset({"i", "you", "we", "one"})
_AGENTS = frozenset({"@who", "@what", "@which"})
_PAST = words(
    """
    won wrote made built took gave became began broke brought bought caught chose came drew drove ate fell felt found flew got
    went grew held kept knew led left lost met paid ran said saw sold sent sang spoke spent stole taught told thought threw wore
    """
)
_SUPERLATIVES = words("best most worst greatest biggest favorite ever")
"""What is the best film, and what was it: much the same."""
_MAKERS = words("author writer inventor creator composer founder discoverer painter sculptor")
"""Who is the author of it, was it, wrote it: whoever has made a thing stays who made it."""


def tense(a: Reading, b: Reading) -> str | None:
    one, other = mode(a), mode(b)
    if one == other or not one or not other or not a.frame or a.frame != b.frame or frozenset((one, other)) not in _APART:
        return None
    if {one, other} == {"past", "present"} and (_any(_SUPERLATIVES, a.bag, b.bag) or _any(_MAKERS, _said(a), _said(b))):
        return None
    if _GENERIC.issuperset((one, other)) and a.frame != "@whether" and b.frame != "@whether" and (_asker(a) or _asker(b)):
        return None
    return "tense"


def mode(reading: Reading) -> str:
    """What the first auxiliary says; without one, whether the verb of `who won` is in the past."""
    if reading.auxiliary:
        return _MODES.get(reading.auxiliary, "")
    if reading.frame in _AGENTS and reading.content:
        verb = reading.surface.get(reading.content[0], "")
        return "past" if verb in _PAST or verb.endswith("ed") else ""
    return ""


def _any(of: frozenset[str], one: AbstractSet[str], other: AbstractSet[str]) -> bool:
    return not of.isdisjoint(one) or not of.isdisjoint(other)


def _said(reading: Reading) -> set[str]:
    return set(reading.surface.values())


def _asker(reading: Reading) -> bool:
    return not _ASKERS.isdisjoint(reading.bag) or (reading.frame == "@how" and not reading.subject)
