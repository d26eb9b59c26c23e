"""A question as the guards see it: read once, compared often.

scan        text → tokens
words       tokens → words: contractions spelt out, manners dropped, turns of phrase made one
reader      words → what the guards compare
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass

from caches.guards.quantities import Quantity
from caches.guards.reader import Reader
from caches.guards.scan import quotations
from caches.guards.words import read

MAX_CHARS = 4000
"""What is read of a text. What lies behind it must be equal, letter for letter."""


@dataclass(frozen=True, slots=True)
class Reading:
    text: str
    rest: str  # what was not read
    content: tuple[str, ...]  # what the question is about: concepts, in order
    surface: Mapping[str, str]  # concept → the word that stood there
    bag: frozenset[str]  # the concept of every word, small ones included
    quantities: tuple[Quantity, ...]
    places: tuple[str, ...]  # the preposition before each number
    units: frozenset[str]  # named without a number
    dates: frozenset[str]
    negations: int
    shades: frozenset[tuple[str, str]]  # quantifiers, frequency, certainty, conjunctions: (axis, value)
    names: frozenset[str]
    forms: frozenset[str]  # what the answer shall look like
    quoted: tuple[str, ...]
    signs: str  # operators and brackets, if there are operators
    identifiers: frozenset[str]
    links: frozenset[str]
    frame: str  # the kind of question: see tables/phrases.txt
    roles: Mapping[str, str]  # concept → the preposition before it
    subject: str  # `i`, `you` or `they`: the first pronoun, if it comes before the matter
    genders: str  # of he and she, in order: `mf`
    auxiliary: str  # the first of can, should, is, do …
    han: str  # the Chinese of it

    @classmethod
    def of(cls, text: str) -> Reading:
        head = text[:MAX_CHARS]
        if not head.isascii():
            head = unicodedata.normalize("NFKC", head)[:MAX_CHARS]
        found = read(head)
        seen = Reader(found)
        seen.run()
        return cls(
            text=text,
            rest=text[MAX_CHARS:],
            content=tuple(seen.content),
            surface=seen.surface,
            bag=frozenset(seen.bag),
            quantities=tuple(seen.quantities),
            places=tuple(seen.places),
            units=frozenset(seen.units),
            dates=frozenset(seen.dates),
            negations=seen.negations,
            shades=frozenset(seen.shades),
            names=frozenset(seen.names),
            forms=frozenset(seen.forms),
            quoted=quotations(head),
            signs="".join(sorted(found.signs)),
            identifiers=frozenset(found.identifiers),
            links=frozenset(found.links),
            frame=seen.frame,
            roles=seen.roles,
            subject=seen.subject,
            genders=seen.genders,
            auxiliary=seen.auxiliary,
            han="".join(found.han),
        )
