"""What tells two questions apart that an embedding takes for one.

`Reading.of` reads a text once, `veto` compares two readings: the name of the guard that says they differ, or None. Every guard
is a file with one function of that name:

    numbers units dates     quantities, measures and points of the calendar
    quotes code             what is to be taken literally, and identifiers and formulas
    entities                names, languages, tools
    negation antonyms kinds a no, a contrary, another thing of the same kind
    direction               who does what to whom
    scope forms             how much is asked for, and in which form
    question persons        what kind of question, and who is meant

    structure               what two questions do not share: no guard, see caches.semantic.decision

English and Chinese; other languages are compared word by word, and by what is not language: numbers, names, quotations, code.
"""

from __future__ import annotations

from caches.guards.reading import Reading
from caches.guards.veto import veto

__all__ = ["Reading", "veto"]
