"""Chinese runs cut into numbers, dates, negations, question words and the characters that are left: the matter."""

from __future__ import annotations

import re
from collections.abc import Iterator

from caches.guards.quantities import Quantity, measured, plain, scaled
from caches.guards.tables.chinese import DATES, DIGITS, FRAMES, KEPT, MANNERS, MYRIADS, NEGATORS, PERSONS, TENS, UNITS
from caches.guards.tables.quantities import UNITS as MEASURES
from caches.guards.tables.shades import SHADES

_NUMERALS = "".join((*DIGITS, *TENS, *MYRIADS))


def _entries() -> dict[str, tuple[str, str]]:
    found = dict.fromkeys(MANNERS, ("drop", ""))
    found |= {phrase: ("text", phrase) for phrase in KEPT}
    found |= {phrase: ("date", date) for phrase, date in DATES.items()}
    found |= dict.fromkeys(NEGATORS, ("not", ""))
    found |= {phrase: ("frame", frame) for frame, phrases in FRAMES.items() for phrase in phrases.split()}
    return found | {phrase: ("person", person) for phrase, person in PERSONS.items()}


_ENTRIES = _entries()
_UNIT = "|".join(sorted(UNITS, key=len, reverse=True))
_PIECE = re.compile(
    r"(?P<either>(?P<verb>[\u3400-\u9fff])[不没](?P=verb))"  # 能不能, 去不去: a question, not a negation
    r"|(?P<whether>不$)"  # 好玩不: another way to ask
    f"|(?P<entry>{'|'.join(sorted(_ENTRIES, key=len, reverse=True))})"
    f"|(?P<number>第?[{''.join(DIGITS)}十][{_NUMERALS}]{{0,19}}(?:{_UNIT})?)"
)
_SHADES = {word: shade for word, shade in SHADES.items() if word[0] >= "\u3400"}
_SHADE = re.compile(f"(?<![其吉])(?:{'|'.join(sorted(_SHADES, key=len, reverse=True))})")
_COUNTED = re.compile(f"([{''.join((*TENS, *MYRIADS))}]*)({_UNIT})?")


def pieces(run: str) -> Iterator[tuple[str, str]]:
    """`drop`, `text`, `date`, `not`, `frame`, `person` and `number`, in order."""
    at = 0
    for match in _PIECE.finditer(run):
        if match.start() > at:
            yield "text", run[at : match.start()]
        at = match.end()
        if match["either"]:
            yield from pieces(match["verb"])
        elif match["whether"]:
            yield "drop", ""
        elif match["entry"]:
            yield _ENTRIES[match["entry"]]
        else:
            yield "number", match["number"]
    if at < len(run):
        yield "text", run[at:]


def shades(run: str) -> Iterator[tuple[str, str]]:
    """Quantifiers, modal verbs and the like: (axis, value)."""
    return (_SHADES[match.group()] for match in _SHADE.finditer(run))


def quantity(text: str) -> Quantity:
    """`第三`, `两公斤`, `一千二百`."""
    bare = text.removeprefix("第")
    unit = bare.lstrip(_NUMERALS)
    number = str(value(bare.removesuffix(unit)))
    return plain(number, "th") if bare != text else _measured(number, unit)


def counted(number: Quantity, run: str) -> tuple[Quantity, str]:
    """A number in digits with the myriads and the unit that follow it, and the rest of the run: `3万元的`."""
    match = _COUNTED.match(run)
    if match is None or number.unit or not match.group():
        return number, run
    digits = number.value
    for sign in match[1]:
        digits = scaled(digits, TENS.get(sign) or MYRIADS[sign])
    return _measured(digits, match[2] or ""), run[match.end() :] or "的"


def _measured(digits: str, unit: str) -> Quantity:
    named = UNITS.get(unit, "")
    return measured(digits, *MEASURES[named]) if named in MEASURES else plain(digits, named)


def value(numerals: str) -> int:
    """`一千二百` → 1200, `二〇二四` → 2024, `三万` → 30000."""
    if not any(sign in TENS or sign in MYRIADS for sign in numerals):
        return int("".join(str(DIGITS[sign]) for sign in numerals))
    total = section = digit = 0
    for sign in numerals:
        if sign in DIGITS:
            digit = DIGITS[sign]
        elif sign in TENS:
            section += (digit or 1) * TENS[sign]
            digit = 0
        else:
            total = (total + max(section + digit, 1)) * MYRIADS[sign]
            section = digit = 0
    return total + section + digit
