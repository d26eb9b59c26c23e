"""All guards, one after the other. Each is a pure function of two readings, symmetric, and says a word or None."""

from __future__ import annotations

from caches.guards.antonyms import antonyms
from caches.guards.code import code
from caches.guards.dates import dates
from caches.guards.degrees import degrees
from caches.guards.direction import direction
from caches.guards.entities import entities
from caches.guards.forms import forms
from caches.guards.grammar import grammar
from caches.guards.kinds import kinds
from caches.guards.letters import letters
from caches.guards.negation import negation
from caches.guards.numbers import numbers
from caches.guards.persons import persons
from caches.guards.pictures import pictures
from caches.guards.plurals import plurals
from caches.guards.question import question
from caches.guards.quotes import quotes
from caches.guards.reading import Reading
from caches.guards.scope import scope
from caches.guards.shades import shades
from caches.guards.tense import tense
from caches.guards.units import units

GUARDS = (
    numbers,
    units,
    dates,
    quotes,
    code,
    entities,
    negation,
    antonyms,
    kinds,
    direction,
    shades,
    degrees,
    tense,
    grammar,
    plurals,
    scope,
    forms,
    question,
    persons,
    pictures,
    letters,
)


def veto(a: Reading, b: Reading) -> str | None:
    """The name of the guard that forbids one answer for both; None: no guard does."""
    if a.rest != b.rest:
        return "length"
    for guard in GUARDS:
        reason = guard(a, b)
        if reason is not None:
            return reason
    return None
