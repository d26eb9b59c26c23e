"""How much a JSON body may hold, found out before it is decoded: decoding is one step, in which nobody else is served.

Length does not tell: 2 MiB of one text are decoded in a millisecond, of empty lists in half a second. What costs are parts, the
values and keys that stand outside of strings. They are looked for in windows at random places of the body, and counted only
where those show very many: what windows miss is too little to matter.
"""

from __future__ import annotations

import random
import re

from gateway.errors import ApiError

MAX_BRACKETS = 50_000
"""Lists and objects: so many are decoded, looked through and let go of in some 30 ms."""

MAX_STRINGS = 200_000
"""Keys and strings: 25 ms, or four times that where all are keys of one object. A bias for each word of a vocabulary is less."""

MAX_VALUES = 1_000_000
"""Values of lists and objects, as numbers are: 30 ms. A prompt of token ids has no more."""

MAX_SLOW_NUMBERS = 2_000
"""Numbers like 1e308, which take the decoder twenty times as long as others, and those of more digits than 64 bits or a float
have. The time of these grows with the square of their length, so each 25 digits in a row count as one."""

UNLOOKED = 16_384
"""Bytes of a body in which there is no room for so much."""

_SLOW_NUMBER = re.compile(rb"\d(?:[eE][+-]?0*[123]\d\d|(?<![\d.].)\d{20,}|(?<!\d.)\d{24,})", re.DOTALL)
_SHAPE = bytes.maketrans(b"123456789E", b"000000000e")
_SHAPES = (
    b"0" * 21,
    b"0e000",
    b"0e+000",
    b"0e-000",
)  # one of these is in the shape of each; a search costs a twentieth of the pattern's
_WINDOWS, _WINDOW = 128, 64
_SEEN = _WINDOWS * _WINDOW
_SUSPICIOUS = 2
_DIGITS = 25
_SEAM = b"."  # between windows: what follows may be the rest of a fraction
_random = random.Random()


def refuse_too_much(raw: bytes) -> None:
    """ApiError 400 for a body of which one of the bounds above does not hold."""
    length = len(raw)
    if length <= UNLOOKED:
        return
    stride = length // _WINDOWS
    starts = [at + int(_random.random() * stride) for at in range(0, stride * _WINDOWS, stride)]
    seen = _SEAM.join([raw[start : start + _WINDOW] for start in starts])
    scale = 2 * length / _SEEN  # half of what is allowed is looked at closely
    shape = seen.translate(_SHAPE)
    slow = any(one in shape for one in _SHAPES) and len(_SLOW_NUMBER.findall(seen)) > _SUSPICIOUS
    if (
        seen.count(b'"') * scale > 2 * MAX_STRINGS
        or _brackets(seen) * scale > MAX_BRACKETS
        or seen.count(b",") * scale > MAX_VALUES
        or slow
    ):
        _count(raw, slow=slow)


def _count(raw: bytes, *, slow: bool) -> None:
    """What stands in strings is no part. Of valid JSON exact: a backslash stands in strings only."""
    if b"\\" in raw:
        raw = raw.replace(rb"\\", b"").replace(rb"\"", b"")
    pieces = raw.split(b'"', 2 * MAX_STRINGS + 1)
    if len(pieces) > 2 * MAX_STRINGS + 1:
        raise _too_much(f"{MAX_STRINGS} keys and strings")
    outside = b"".join(pieces[::2])
    if _brackets(outside) > MAX_BRACKETS:
        raise _too_much(f"{MAX_BRACKETS} lists and objects")
    if outside.count(b",") > MAX_VALUES:
        raise _too_much(f"{MAX_VALUES} values")
    if slow and _too_slow(outside):
        raise _too_much(f"{MAX_SLOW_NUMBERS} numbers that are very long or have huge exponents")


def _too_slow(outside: bytes) -> bool:
    slow = 0
    for number in _SLOW_NUMBER.finditer(outside):
        slow += 1 + (number.end() - number.start()) // _DIGITS
        if slow > MAX_SLOW_NUMBERS:
            return True
    return False


def _brackets(text: bytes) -> int:
    return text.count(b"[") + text.count(b"{")


def _too_much(what: str) -> ApiError:
    return ApiError(400, "invalid_json", f"The JSON body holds more than {what}.")
