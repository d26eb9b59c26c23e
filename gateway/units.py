"""Durations and sizes as people write them: `30s`, `250ms`, `16MiB`, `1GB`.

A plain number is seconds, or bytes. What is formatted reads back to the same number, exactly.
"""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction

_QUANTITY = re.compile(r"(\d[\d_]{0,23}(?:\.\d{1,24})?) ?([A-Za-z]{0,3})", re.ASCII)

_SECONDS = {
    "": Fraction(1),
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "m": Fraction(60),
    "h": Fraction(3600),
    "d": Fraction(86400),
}
_SHOWN_SECONDS = ("h", "m", "s", "ms")

_BYTES = {
    "": 1,
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
}
_SHOWN_BYTES = ("TiB", "GiB", "MiB", "KiB", "TB", "GB", "MB", "kB")


def parse_duration(text: str) -> float:
    """`1.5s` is 1.5, `5m` is 300.0; raises ValueError."""
    number, unit = _split(text)
    if unit not in _SECONDS:
        raise ValueError("not a duration")
    return float(number * _SECONDS[unit])


def format_duration(value: float) -> str:
    """The largest unit, up to hours, in which `value` is a whole number."""
    if value == 0:
        return "0s"
    for unit in _SHOWN_SECONDS:
        count = round(Fraction(value) / _SECONDS[unit])
        if count and float(count * _SECONDS[unit]) == value:
            return f"{count}{unit}"
    return f"{Decimal(repr(value)):f}s"


def parse_size(text: str) -> int:
    """`2MiB` is 2,097,152; a fraction must come to whole bytes; raises ValueError."""
    number, unit = _split(text)
    if unit.lower() not in _BYTES:
        raise ValueError("not a size")
    exact = number * _BYTES[unit.lower()]
    if exact != int(exact):
        raise ValueError("not a whole number of bytes")
    return int(exact)


def format_size(value: int) -> str:
    """The unit that gives the smallest whole number."""
    exact = [(value // _BYTES[unit.lower()], unit) for unit in _SHOWN_BYTES if value and value % _BYTES[unit.lower()] == 0]
    if not exact:
        return str(value)
    count, unit = min(exact, key=lambda pair: pair[0])
    return f"{count}{unit}"


def _split(text: str) -> tuple[Fraction, str]:
    match = _QUANTITY.fullmatch(text)
    if match is None:
        raise ValueError("not a quantity")
    return Fraction(match[1].replace("_", "")), match[2]
