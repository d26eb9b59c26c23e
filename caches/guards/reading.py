"""A question as the guards see it: read once, compared often."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass

from caches.guards import chinese, quantities, words
from caches.guards.concepts import concept
from caches.guards.quantities import Quantity
from caches.guards.scan import quotations
from caches.guards.spell import one_slip, vocabulary
from caches.guards.tables.calendar import DATES, PERIODS, RELATIVE
from caches.guards.tables.english import FILLER, FUNCTION, SPEECH
from caches.guards.tables.names import ALIASES, KNOWN
from caches.guards.tables.negators import NEGATORS
from caches.guards.tables.scope import ASKED_FOR, FORMS
from caches.guards.tables.quantities import BARE_UNITS, NUMBER_WORDS, ORDINALS, SCALES, TIME_UNITS, UNITS

MAX_CHARS = 4000
"""What is read of a text. What lies behind it must be equal, letter for letter."""

_RELATIONS = frozenset("from to into than before after by over versus vs against for of on in at as about through with under without until since".split())
_AUXILIARIES = frozenset("is are was were do does did can could will would should may might must has have had am".split())
_SUBJECTS = {"i": "i", "we": "i", "you": "you", "he": "they", "she": "they", "they": "they"}
_MATTER_AT_THE_END = frozenset({"do", "does", "mean", "for"})  # what does it do? what is it for?
_AS = frozenset({"as", "in"})
_BEFORE_A_FORM = frozenset({"as", "in", "a", "an", "one", "single"})
_REQUEST = 4  # words within which a verb makes a text a request
_SHORTEST_SLIP = 5
_PRICES = frozenset(map(concept, ("price", "cost", "fee", "charge")))


@dataclass(frozen=True, slots=True)
class Reading:
    text: str
    content: tuple[str, ...]  # what the question is about: concepts, in order
    surface: Mapping[str, str]  # concept → the word that stood there
    bag: frozenset[str]  # the concept of every word, small ones included
    quantities: tuple[Quantity, ...]
    units: frozenset[str]  # named without a number
    dates: frozenset[str]
    negations: int
    names: frozenset[str]
    forms: frozenset[str]  # what the answer shall look like
    quoted: tuple[str, ...]
    signs: str  # operators and brackets, if there are operators
    identifiers: frozenset[str]
    links: frozenset[str]
    frame: str  # the kind of question: see tables/phrases.py
    roles: Mapping[str, str]  # concept → the preposition before it
    subject: str  # `i`, `you` or `they`: the first pronoun, if one asks or is asked about
    auxiliary: str  # the first of can, should, is, do …
    han: str  # the Chinese of it, without its grammar

    @classmethod
    def of(cls, text: str) -> Reading:
        head = text[:MAX_CHARS]
        if not head.isascii():
            head = unicodedata.normalize("NFKC", head)[:MAX_CHARS]
        return _Reader(words.read(head)).reading(text, head)


class _Reader:
    """One pass over the words. An instance is one use."""

    def __init__(self, found: words.Words) -> None:
        self.found = found
        self.line = found.line
        self.content: list[str] = []
        self.surface: dict[str, str] = {}
        self.roles: dict[str, str] = {}
        self.bag: set[str] = set()
        self.quantities: list[Quantity] = []
        self.units: set[str] = set()
        self.dates: set[str] = set()
        self.names: set[str] = set()
        self.forms: set[str] = set()
        self.frames: list[str] = []
        self.negations = 0
        self.relation = ""
        self.subject = ""
        self.auxiliary = ""
        self.asks_for_form = not ASKED_FOR.isdisjoint(found.line[:_REQUEST])
        self.about_words = not SPEECH.isdisjoint(found.line)

    def reading(self, text: str, head: str) -> Reading:
        at = 0
        while at < len(self.line):
            at = self._step(at)
        return Reading(
            text=text,
            frame=self._frame(),
            content=tuple(self.content),
            surface=self.surface,
            bag=frozenset(self.bag),
            quantities=tuple(self.quantities),
            units=frozenset(self.units),
            dates=frozenset(self.dates),
            negations=self.negations,
            names=frozenset(self.names),
            forms=frozenset(self.forms),
            quoted=quotations(head),
            signs="".join(sorted(self.found.signs)),
            identifiers=frozenset(self.found.identifiers),
            links=frozenset(self.found.links),
            roles=self.roles,
            subject=self.subject,
            auxiliary=self.auxiliary,
            han="".join(self.found.han),
        )

    def _step(self, at: int) -> int:
        """Read what begins at `at`; where the next thing begins."""
        word = self.line[at]
        if word[0].isdigit() or not word[0].isalpha():
            if word[0] == "@":
                self.frames.append(word)
                return at + 1
            quantity = quantities.of_digits(word)
            if quantity is None:
                return self._word(word, at)
            if quantity.unit == "clock" and word[-1] == "m":
                self.dates.add(word[-2:])
            return self._quantity(quantity, at + 1)
        if word in FUNCTION and not (word == "one" and at + 1 < len(self.line) and self.line[at + 1] in SCALES):
            self._small(word, at)
            return at + 1
        if "\u3400" <= word[0] <= "\u9fff":
            self._chinese(word)
            return at + 1
        if word in NUMBER_WORDS:
            number, end = quantities.of_words(self.line, at)
            return self._quantity(Quantity(str(number), '', str(number)), end)
        if word in ORDINALS and not (word == "second" and self.quantities and at and self.line[at - 1][0].isdigit()):
            self.quantities.append(Quantity(str(ORDINALS[word]), "th", str(ORDINALS[word])))
            self.bag.add(word)
            return at + 1
        if word in RELATIVE and at + 1 < len(self.line) and (self.line[at + 1] in PERIODS or self.line[at + 1] in DATES):
            self.dates.add(RELATIVE[word] + self.line[at + 1])
            return at + 2
        return self._word(word, at)

    def _small(self, word: str, at: int) -> None:
        self.bag.add(word)
        if not self.subject and word in _SUBJECTS and not self.content:
            self.subject = _SUBJECTS[word]
        if not self.auxiliary and word in _AUXILIARIES:
            self.auxiliary = word
        if at + 1 == len(self.line) and word in _MATTER_AT_THE_END:
            self.content.append(word)
        if word in _RELATIONS:
            self.relation = word
        elif word == "this" and at + 1 < len(self.line) and (self.line[at + 1] in PERIODS or self.line[at + 1] in DATES):
            self.dates.add("this" + self.line[at + 1])

    def _word(self, word: str, at: int) -> int:
        date = DATES.get(word)
        if date is None and len(word) >= _SHORTEST_SLIP and word not in KNOWN and word not in vocabulary():
            date = next((DATES[known] for known in DATES if len(known) >= _SHORTEST_SLIP and one_slip(word, known)), None)
        if date is not None or word in self.found.capitals and word in {"may", "march"}:
            self.dates.add(date or word)
            self.bag.add(date or word)
            return at + 1
        if word in NEGATORS:
            self.negations += 1
            self.bag.add(word)
            self.relation = word if word in _RELATIONS else self.relation
            return at + 1
        if word in FILLER and not self.about_words:
            return at + 1
        if word.startswith("non") and len(word) > 6 and concept(word[3:]) != word and word not in KNOWN and word[3:] in vocabulary():
            self.negations += 1
            self.bag.add("non")
            word = word[3:]
        self._matter(word, self.line[at - 1] if at else "")
        return at + 1

    def _matter(self, word: str, before: str = "") -> None:
        meant = concept(word)
        if word in KNOWN or word in self.found.capitals or ALIASES.get(word) in KNOWN:
            self.names.add(meant)
        form = FORMS.get(word)
        if form is not None and (self.asks_for_form or word == "plainly" or (self.relation in _AS and before in _BEFORE_A_FORM)):
            self.forms.add(form)
        unit = UNITS.get(word)
        if unit is not None and word not in TIME_UNITS and word not in BARE_UNITS and word.rstrip("s") not in TIME_UNITS:
            self.units.add(f"{unit[0]}*{unit[1]:g}")
        self.bag.add(meant)
        self.content.append(meant)
        self.surface.setdefault(meant, word)
        if self.relation:
            self.roles[meant] = self.relation
            self.relation = ""

    def _quantity(self, quantity: Quantity, at: int) -> int:
        """A number, and the unit that may follow it."""
        word = self.line[at] if at < len(self.line) else ""
        unit = UNITS.get(word)
        if word and not quantity.unit and "\u3400" <= word[0] <= "\u9fff" and chinese.leading_unit(word):
            lead = chinese.leading_unit(word)
            self.line[at] = word[len(lead) :] or "的"
            unit = UNITS.get(chinese.UNITS[lead])
            at -= 1
        if unit is not None and (not quantity.unit) and word not in BARE_UNITS:
            quantity = quantities.measured(quantity.value, *unit)
            at += 1
        self.quantities.append(quantity)
        self.relation = ""
        return at

    def _chinese(self, run: str) -> None:
        for kind, text in chinese.pieces(run):
            if kind == "text":
                for sign in text:
                    self.content.append(sign)
                    self.bag.add(sign)
            elif kind == "date":
                self.dates.add(text)
            elif kind == "not":
                self.negations += 1
            elif kind == "frame":
                self.frames.append(text)
            elif kind == "nth":
                self.quantities.append(Quantity(text, "th", text))
            elif kind == "number":
                number, _, named = text.partition(" ")
                unit = UNITS.get(named)
                self.quantities.append(quantities.measured(number, *unit) if unit else Quantity(number, named, number))

    def _frame(self) -> str:
        frames = self.frames
        frame = frames[0] if frames else ""
        if len(frames) > 1 and frame in {"@when", "@where"}:
            frame = frames[1]  # When my card is lost, what do I do?
        if frame in {"@what", "@which", "@price", "@amount", ""} and not _PRICES.isdisjoint(self.content) and len(self.content) > 1:
            self.content = [word for word in self.content if word not in _PRICES]
            frame = "@price" if frame else frame
        if frame == "@what" and "time" in self.content and len(self.content) > 1:
            self.content.remove("time")
            frame = "@when"
        if not frame and self.line and self.line[0] in _AUXILIARIES:
            frame = "@whether"
        return frame
