"""What can be seen in a text without understanding it: how much of each feature, from 0 to 1.

Rules
- A feature saturates: after a few different words there is no more to gain, and the same word counts once.
- Words that say what to do count where instructions stand, at the beginning and at the end (LEAD characters of each); words that
  say what it is about count everywhere.
- A text is cut into words once, and these are looked up in one set; forms are the business of `shape`.
- `known` is False for a text in a language or a script that the word lists do not cover: its silence means nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from routing import shape, words_en, words_zh

LEAD = 350
DENSE = 3000  # of a text in Chinese, which says as much in half the characters, this many are read
FEW_WORDS = 8  # a text of fewer different words is in no language that could be told
FIRST_WORDS = 24  # where an English text shows itself
SHORT = 160  # units; an ask this short may be a mere question of fact

_LEAD_ONLY = frozenset({"work", "chore", "creative", "brief", "fact", "what", "reasoning", "format", "proof"})
# How many different words it takes for a feature to be all there; fewer count in proportion.
_ENOUGH = {
    "proof": 1,
    "reasoning": 1,
    "work": 2,
    "coding": 1,
    "constraint": 5,
    "chore": 1,
    "creative": 1,
    "format": 2,
    "brief": 1,
}
# What a question of fact does not have.
_NOT_PLAIN = frozenset({"proof", "maths", "quantities", "code", "reasoning", "options"})

# A word begins with a letter and goes on with letters and hyphens; every other byte of a text in small letters ends it.
LETTERS = b"abcdefghijklmnopqrstuvwxyz"
_SPACED = bytes(byte if byte in LETTERS + b"-" else ord(" ") for byte in range(256))
_STRAY_HYPHENS = re.compile(b" -+")
_ASCII = bytes(range(128))
_HAN = re.compile(r"[\u3400-\u9fff\uf900-\ufaff]+")
# Letters that no list covers: from Greek to Mongolian, kana, hangul and more.
_OTHER_SCRIPT = re.compile(r"[\u0370-\u1dff\u2c00-\u2dff\u3040-\u30ff\u3130-\u318f\uac00-\ud7ff\ua640-\uabff]+")


@dataclass(slots=True)
class Reading:
    """The features of one text. `units` is its length, a Chinese character counting as two."""

    values: dict[str, float]
    units: int
    known: bool


class _Text:
    """A text in the forms that the features look at, each made once. `words` of a caller's are as `read` takes them."""

    __slots__ = ("characters", "english", "han", "heard", "lead", "lead_heard", "lower", "text", "units")

    def __init__(self, text: str, words: list[bytes] | None = None) -> None:
        foreign = "" if text.isascii() else _foreign(text)
        self.han = sum(map(len, _HAN.findall(foreign))) if foreign else 0
        self.units = len(text) + self.han
        if self.han > DENSE // 2 and len(text) > DENSE:
            text = text[: DENSE // 3] + "\n" + text[-2 * DENSE // 3 :]
            foreign = _foreign(text)
        self.text = text
        self.lower = lower = text.lower()
        self.characters: AbstractSet[str] = set(foreign.lower()) if foreign else frozenset()
        plain = lower.encode("ascii", "replace")
        if words is None or foreign or b"-" in plain:
            words = _words(plain)
        self.lead, self.heard = lower, words_en.LISTENED.intersection(words)
        self.lead_heard = self.heard
        self.english = _are_english(self.heard) or _are_english(words[:FIRST_WORDS])
        if len(lower) > 2 * LEAD:
            self.lead = lower[:LEAD] + "\n" + lower[-LEAD:]
            self.lead_heard = words_en.LISTENED.intersection(_words(self.lead.encode("ascii", "replace")))

    def words(self) -> list[bytes]:
        return _words(self.lower.encode("ascii", "replace"))


def _are_english(words: Iterable[bytes]) -> bool:
    """Whether two different ones are."""
    return len(words_en.ENGLISH.intersection(words)) >= 2


def _words(plain: bytes) -> list[bytes]:
    """The words of a text in small letters. Its few steps over the whole text cost a third of what a pattern does."""
    spaced = plain.translate(_SPACED)
    if b"-" in spaced:
        spaced = (b" " + spaced).replace(b" -", b"  ")
        if b" -" in spaced:
            spaced = _STRAY_HYPHENS.sub(b" ", spaced)
    return spaced.split()


def _foreign(text: str) -> str:
    """A text without its ASCII characters, and without halves of surrogate pairs."""
    return text.encode("utf-8", "ignore").translate(None, _ASCII).decode()


def read(text: str, words: list[bytes] | None = None) -> Reading:
    """The features of a text of bounded length. `words`: of the text in small letters, where a caller has cut it, the letters
    between any two other characters; other words among them do no harm, and "a", "an" and "the" may be left out.
    """
    source = _Text(text, words)
    tally: dict[str, int] = {}
    if source.heard or source.lead_heard:
        _count_english(source, tally)
    if source.han:
        _count_chinese(source, tally)
    values: dict[str, float] = {}
    if tally:
        for kind, enough in _ENOUGH.items():
            if kind in tally:
                values[kind] = min(1.0, tally[kind] / enough)
    _add_size(source, values)
    _add_subject(source, tally, values)
    _add_ease(source, tally, values)
    return Reading(values, source.units, _is_known(source, values))


def _count_english(source: _Text, tally: dict[str, int]) -> None:
    heard, lead_heard = source.heard, source.lead_heard
    for word in heard:
        kind = words_en.KINDS.get(word)
        if kind is not None and (kind not in _LEAD_ONLY or word in lead_heard):
            tally[kind] = tally.get(kind, 0) + 1
    for word in lead_heard:
        for phrase, kind in words_en.PHRASES.get(word, ()):
            if phrase in source.lead:
                tally[kind] = tally.get(kind, 0) + 1
    if shape.is_chore(source.lead, lead_heard):
        tally["chore"] = 1
    if shape.is_writing(source.lead, lead_heard):
        tally["creative"] = 1


def _count_chinese(source: _Text, tally: dict[str, int]) -> None:
    for first in words_zh.FIRST & source.characters:
        for word, kind in words_zh.KINDS[first]:
            if word in (source.lead if kind in _LEAD_ONLY else source.lower):
                tally[kind] = tally.get(kind, 0) + 1


def _add_size(source: _Text, values: dict[str, float]) -> None:
    values["length"] = min(1.0, math.log2(source.units / 80) / 6) if source.units > 80 else 0.0
    if "?" in source.text or "？" in source.text:
        questions = source.text.count("?") + source.text.count("？")
        if questions > 1:
            values["questions"] = min(1.0, (questions - 1) / 3)
    items = shape.items(source.text)
    if items >= 2:
        values["steps"] = min(1.0, items / 6)
    if shape.has_options(source.text):
        values["options"] = 1.0


def _add_subject(source: _Text, tally: dict[str, int], values: dict[str, float]) -> None:
    """What it is about: a field, mathematics, code. Two terms of a field are enough, or seven of its everyday words."""
    maths = shape.formulas(source.text, source.lower, source.characters)
    if tally:
        terms = tally.get("domain", 0) + max(0, min(tally.get("field", 0), 7) - 1) / 3
        if terms:
            values["domain"] = min(1.0, terms / 2)
        maths += min(2, tally.get("elementary", 0))
    if maths:
        values["maths"] = min(1.0, maths / 3)
    code = shape.code(source.text)
    if code:
        values["code"] = code
    if shape.has_trace(source.text):
        values["trace"] = 1.0
    quantities = shape.quantities(source.lower)
    if quantities >= 2:
        values["quantities"] = min(1.0, quantities / 3)


def _add_ease(source: _Text, tally: dict[str, int], values: dict[str, float]) -> None:
    """The signs of an easy request, as far as nothing hard is about."""
    if "chore" in values:
        values["chore"] *= 1.0 - max(values.get("maths", 0.0), values.get("coding", 0.0), values.get("code", 0.0))
    if source.units < 80 and shape.is_arithmetic(source.lower):
        values["arithmetic"] = 1.0
    elif source.units < 60 and shape.is_pleasantry(source.lower):
        values["pleasantry"] = 1.0
    elif source.units <= SHORT and values.keys().isdisjoint(_NOT_PLAIN):
        fact = 1.0 if "fact" in tally else max(shape.fact(source.lower), 0.6 if "what" in tally else 0.0)
        if fact:
            fact -= max(2 * values.get("domain", 0.0), values.get("work", 0.0))
        if fact > 0 and shape.numbers(source.lower) < 2:
            values["fact"] = fact


def _is_known(source: _Text, values: dict[str, float]) -> bool:
    """Whether the text is in English (two different words are, as most texts say with their first few), Chinese, or a notation
    that needs neither.
    """
    if source.characters and _OTHER_SCRIPT.search("".join(source.characters)):
        others = sum(map(len, _OTHER_SCRIPT.findall(source.text)))
        if others * 7 >= len(source.text):
            return False
    if source.english or "code" in values or "maths" in values:
        return True
    words = source.words()
    if len(words) < FEW_WORDS or _are_english(words):
        return True
    different = len(set(words))
    return different < FEW_WORDS or source.han * 2 >= different
