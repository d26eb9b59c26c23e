"""Chinese runs cut into numbers, dates, negations, question words and the characters that are left: the matter."""

from __future__ import annotations

import re
from collections.abc import Iterator

from caches.guards.tables.chinese import DATES, DIGITS, FRAMES, KEPT, MANNERS, MYRIADS, NEGATORS, TENS, UNITS

_NUMERALS = "".join((*DIGITS, *TENS, *MYRIADS))


def _entries() -> dict[str, tuple[str, str]]:
    found = {phrase: ("drop", "") for phrase in MANNERS}
    found |= {phrase: ("text", phrase) for phrase in KEPT}
    found |= {phrase: ("date", date) for phrase, date in DATES.items()}
    found |= {phrase: ("not", "") for phrase in NEGATORS}
    found |= {phrase: ("frame", frame) for frame, phrases in FRAMES.items() for phrase in phrases.split()}
    return found


_ENTRIES = _entries()
_UNIT = "|".join(sorted(UNITS, key=len, reverse=True))
_PIECE = re.compile(
    "(?P<entry>" + "|".join(sorted(_ENTRIES, key=len, reverse=True)) + ")"
    f"|(?P<nth>第)?(?P<number>[{_NUMERALS}]{{1,20}})(?P<unit>{_UNIT})?"
)  # fmt: skip
_LEADING_UNIT = re.compile(_UNIT)


def pieces(run: str) -> Iterator[tuple[str, str]]:
    """`drop`, `text`, `date`, `not`, `frame`, `number` (digits, a space, its unit) and `nth`, in order."""
    at = 0
    for match in _PIECE.finditer(run):
        if match.start() > at:
            yield "text", run[at : match.start()]
        at = match.end()
        if match["entry"]:
            yield _ENTRIES[match["entry"]]
        elif match["nth"]:
            yield "nth", str(value(match["number"]))
            if match["unit"]:
                yield "text", match["unit"]
        else:
            yield "number", f"{value(match['number'])} {UNITS.get(match['unit'] or '', '')}"
    if at < len(run):
        yield "text", run[at:]


def leading_unit(run: str) -> str:
    """The unit that a run begins with: `公斤` behind `5`."""
    match = _LEADING_UNIT.match(run)
    return match.group() if match else ""


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
