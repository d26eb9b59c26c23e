"""One pass over the words of a text, which puts each where a guard will look for it."""

from __future__ import annotations

from caches.guards import chinese, quantities
from caches.guards.concepts import concept
from caches.guards.quantities import Quantity
from caches.guards.spell import one_slip, vocabulary
from caches.guards.tables import words
from caches.guards.tables.calendar import DATES, PERIODS, RELATIVE
from caches.guards.tables.english import FILLER, FUNCTION, SPEECH
from caches.guards.tables.names import ALIASES, KNOWN
from caches.guards.tables.negators import NEGATORS
from caches.guards.tables.quantities import BARE_UNITS, GLUED_UNITS, NUMBER_WORDS, ORDINALS, SCALES, TIME_UNITS, UNITS
from caches.guards.tables.scope import ASKED_FOR, FORMS
from caches.guards.tables.shades import SHADES
from caches.guards.words import Words

_RELATIONS = words(
    "from to into than before after by over versus vs against for of on in at as about through with under without until since"
)
_AUXILIARIES = words("is are was were do does did can could will would should may might must has have had am")
_SUBJECTS = {"i": "i", "we": "i", "you": "you", "he": "they", "she": "they", "they": "they"}
_GENDERS = {word: sex for sex, all_ in (("m", "he him his himself"), ("f", "she her hers herself")) for word in all_.split()}
_MATTER_AT_THE_END = words("do does mean for")  # what does it do? what is it for?
_AS = words("as in")
_BEFORE_A_FORM = words("as in a an one single")
_BEFORE_A_UNIT = words("per a each every one")
_REQUEST = 4  # words within which a verb makes a text a request
_SHORTEST_SLIP = 5
_SLIPS = {
    letter: tuple(day for day in DATES if day[0] == letter and len(day) >= _SHORTEST_SLIP)
    for letter in "abcdefghijklmnopqrstuvwxyz"
}
_PRICES = frozenset(map(concept, ("price", "cost", "fee", "charge")))
_SHORTEST_NON = 7  # of a word that begins with `non` and is two


class Reader:
    """An instance is one use: `run`, and then its attributes."""

    def __init__(self, found: Words) -> None:
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
        self.shades: set[tuple[str, str]] = set()
        self.places: list[str] = []
        self.genders = ""
        self.negations = 0
        self.frame = self.subject = self.auxiliary = ""
        self._capitals = found.capitals
        self._frames: list[str] = []
        self._relation = ""
        self._asks_for_form = not ASKED_FOR.isdisjoint(found.line[:_REQUEST])
        self._about_words = not SPEECH.isdisjoint(found.line)

    def run(self) -> None:
        at = 0
        while at < len(self.line):
            at = self._step(at)
        self._settle()

    def _next(self, at: int) -> str:
        return self.line[at] if at < len(self.line) else ""

    def _step(self, at: int) -> int:
        """Read what begins at `at`; where the next thing begins."""
        word = self.line[at]
        if not word[0].isalpha():
            return self._digits(word, at)
        if word in SHADES and not (word == "most" and at and self.line[at - 1] == "the"):
            self.shades.add(SHADES[word])
        if word in FUNCTION and not (word == "one" and self._next(at + 1) in SCALES):
            self._small(word, at)
        elif "\u3400" <= word[0] <= "\u9fff":
            self._chinese(word)
        elif word in NUMBER_WORDS or word == "one":
            number, end = quantities.of_words(self.line, at)
            return self._quantity(quantities.plain(str(number)), end)
        elif word in ORDINALS and not (word == "second" and at and self.line[at - 1] in _BEFORE_A_UNIT):
            if word == "first" and at + 1 == len(self.line):
                return at + 1  # without asking first
            self.quantities.append(quantities.plain(str(ORDINALS[word]), "th"))
            self.places.append("")
            self.bag.add(word)
        elif word in RELATIVE and self._period(at + 1):
            self.dates.add(RELATIVE[word] + self.line[at + 1])
            return at + 2
        else:
            self._word(word, at)
        return at + 1

    def _period(self, at: int) -> bool:
        return self._next(at) in PERIODS or self._next(at) in DATES

    def _digits(self, word: str, at: int) -> int:
        if word[0] == "@":
            self._frames.append(word)
            return at + 1
        quantity = quantities.of_digits(word)
        if quantity is None:
            self._word(word, at)
            return at + 1
        if quantity.unit == "clock" and word[-1] == "m":
            self.dates.add(word[-2:])
        return self._quantity(quantity, at + 1)

    def _small(self, word: str, at: int) -> None:
        self.bag.add(word)
        if not self.subject and word in _SUBJECTS and not self.content:
            self.subject = _SUBJECTS[word]
        if not self.auxiliary and word in _AUXILIARIES:
            self.auxiliary = word
        if word in _GENDERS:
            self.genders += _GENDERS[word]
        if at + 1 == len(self.line) and word in _MATTER_AT_THE_END:
            self.content.append(word)
        if word in _RELATIONS:
            self._relation = word
        elif word == "this" and self._period(at + 1):
            self.dates.add("this" + self.line[at + 1])

    def _word(self, word: str, at: int) -> None:
        date = DATES.get(word) or self._mistyped_date(word)
        if date or (word in {"may", "march"} and word in self._capitals):
            self.dates.add(date or word)
            self.bag.add(date or word)
        elif word in NEGATORS:
            self._not(word)
        elif word not in FILLER or self._about_words:
            if len(word) >= _SHORTEST_NON and word.startswith("non") and word not in KNOWN and word[3:] in vocabulary():
                self._not("non")
                word = word[3:]
            self._matter(word, self.line[at - 1] if at else "")

    def _mistyped_date(self, word: str) -> str:
        if len(word) < _SHORTEST_SLIP or word in KNOWN or word in vocabulary():
            return ""
        return next((DATES[known] for known in _SLIPS.get(word[0], ()) if one_slip(word, known)), "")

    def _not(self, word: str) -> None:
        self.negations += 1
        self.bag.add(word)
        if word in _RELATIONS:
            self._relation = word

    def _matter(self, word: str, before: str) -> None:
        meant = concept(word)
        if word in KNOWN or word in self._capitals or ALIASES.get(word) in KNOWN:
            self.names.add(meant)
        form = FORMS.get(word)
        if form is not None and (
            self._asks_for_form or word == "plainly" or (self._relation in _AS and before in _BEFORE_A_FORM)
        ):
            self.forms.add(form)
        unit = UNITS.get(word)
        if unit is not None and word not in BARE_UNITS and word not in TIME_UNITS and word.removesuffix("s") not in TIME_UNITS:
            self.units.add(f"{unit[0]}*{unit[1]:g}")
        self.bag.add(meant)
        self.content.append(meant)
        self.surface.setdefault(meant, word)
        if self._relation:
            self.roles[meant] = self._relation
            self._relation = ""

    def _quantity(self, quantity: Quantity, at: int) -> int:
        """A number, and the unit that may follow it."""
        word = self._next(at)
        if word and "\u3400" <= word[0] <= "\u9fff":
            quantity, self.line[at] = chinese.counted(quantity, word)
        elif not quantity.unit and word in UNITS and word not in GLUED_UNITS:
            quantity = quantities.measured(quantity.value, *UNITS[word])
            at += 1
        self.quantities.append(quantity)
        self.places.append(self._relation)
        self._relation = ""
        return at

    def _chinese(self, run: str) -> None:
        self.shades.update(chinese.shades(run))
        for kind, text in chinese.pieces(run):
            if kind == "text":
                self.content.extend(text)
                self.bag.update(text)
            elif kind == "date":
                self.dates.add(text)
            elif kind == "not":
                self.negations += 1
            elif kind == "frame":
                self._frames.append(text)
            elif kind == "person":
                self.subject = self.subject or text
            elif kind == "number":
                self.quantities.append(chinese.quantity(text))
                self.places.append("")

    def _settle(self) -> None:
        """What kind of question it is, and what of its matter only says so."""
        frames = self._frames
        frame = frames[0] if frames else ""
        if len(frames) > 1 and frame in {"@when", "@where"}:
            frame = frames[1]  # When my card is lost, what do I do?
        if (
            frame in {"@what", "@which", "@price", "@amount", ""}
            and len(self.content) > 1
            and not _PRICES.isdisjoint(self.content)
        ):
            self.content = [word for word in self.content if word not in _PRICES]
            frame = "@price" if frame else frame
        if frame == "@what" and "time" in self.content and len(self.content) > 1:
            self.content.remove("time")
            frame = "@when"
        if not frame and self.line and self.line[0] in _AUXILIARIES:
            frame = "@whether"
        self.frame = frame
