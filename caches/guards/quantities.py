"""Numbers as they are written, brought to one form: `1,000`, `1k` and `one thousand` are the same quantity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from caches.guards.tables.quantities import CURRENCIES, NUMBER_WORDS, SCALES, SUFFIXES, UNITS

_LONGEST_EXACT = 15  # digits that a float holds


class Quantity(NamedTuple):
    value: str  # in the unit's base: grams, seconds, months
    unit: str = ""  # what it measures in; `th`: an ordinal, `clock`: a time of day
    said: str = ""  # the number as it stands there


def plain(digits: str, unit: str = "") -> Quantity:
    return Quantity(digits, unit, digits)


def of_digits(token: str) -> Quantity | None:
    """A token that begins with a digit or a currency sign: `£50`, `10GB`, `7pm`, `3rd`, `v3.11`.

    None: letters behind it that are no unit make a name of it, as `2fa`.
    """
    money = CURRENCIES.get(token[0], "")
    body = token if token[0].isdigit() else token[1:]
    end = len(body)
    while end and not body[end - 1].isdigit():
        end -= 1
    digits, tail = body[:end].replace(",", ""), body[end:].strip(",").lower()
    return _tailed(digits, tail, money) if digits.replace(".", "").replace(":", "").isdigit() else None


def _tailed(digits: str, tail: str, money: str) -> Quantity | None:
    if not tail:
        return plain(digits.removesuffix(":00"), "clock") if ":" in digits else measured(digits, money)
    if tail in {"am", "pm"}:
        return plain(digits.removesuffix(":00"), "clock")
    if tail in {"st", "nd", "rd", "th"}:
        return plain(digits, "th")
    if tail == "%":
        return measured(digits, "pct")
    if tail in SUFFIXES and (money or tail in {"k", "mn", "bn"}):
        return measured(scaled(digits, SUFFIXES[tail]), money)
    unit = UNITS.get(tail.lstrip("°"))
    return measured(digits, *unit) if unit is not None and ":" not in digits else None


def measured(digits: str, unit: str, factor: float = 1) -> Quantity:
    whole, dot, fraction = digits.partition(".")
    if dot and not fraction.strip("0"):
        digits = whole  # 3.0 is 3, but 3.10 is not 3.1: it may be a version
    elif dot and unit and "." not in fraction:
        digits = f"{whole}.{fraction.rstrip('0')}"
    return Quantity(scaled(digits, factor), unit, digits)


def scaled(digits: str, factor: float) -> str:
    """The product, as digits. What a float cannot hold, or is no plain number, stays as it is written."""
    if factor == 1 or len(digits) > _LONGEST_EXACT or digits.count(".") > 1:
        return digits
    return f"{float(digits) * factor:.15g}"


def of_words(words: Sequence[str], start: int) -> tuple[int, int]:
    """The number that number words from `start` on spell, and where they end."""
    total = current = 0
    at = start
    while at < len(words):
        word = words[at]
        if word in NUMBER_WORDS:
            current += NUMBER_WORDS[word]
        elif word in SCALES and (current or at == start):
            current = max(current, 1) * SCALES[word]
            if SCALES[word] > 100:
                total, current = total + current, 0
        elif not (word == "and" and at + 1 < len(words) and words[at + 1] in NUMBER_WORDS and words[at - 1] in SCALES):
            break
        at += 1
    return total + current, at
