"""How much a JSON body may hold, found out before it is decoded: decoding is one step, in which nobody else is served.

Length does not tell: 2 MiB of one text are decoded in a millisecond, of empty lists in half a second. What costs are parts, the
values and keys that stand outside of strings. They are looked for in windows at random places of the body, and counted only
where those show very many: what windows miss is too little to matter.
"""

from __future__ import annotations

import random
import re
from itertools import islice

from gateway.errors import ApiError

MAX_BRACKETS = 50_000
"""Lists and objects: so many are decoded, looked through and let go of in some 30 ms."""

MAX_STRINGS = 100_000
"""Keys and strings: 10 ms, or 60 where all are keys of one object."""

MAX_VALUES = 2_000_000
"""Values of lists and objects, as numbers are: 50 ms. A prompt of token ids has no more, whatever the context."""

MAX_SLOW_NUMBERS = 2_000
"""Numbers like 1e308, which take the decoder twenty times as long as others."""

UNLOOKED = 16_384
"""Bytes of a body in which there is no room for so much."""

_SLOW_NUMBER = re.compile(rb"\d[eE][+-]?0*[123]\d\d")
_WINDOWS, _WINDOW = 128, 64
_SEEN = _WINDOWS * _WINDOW
_SUSPICIOUS = 2
_SEAM = b" "  # between windows: nothing that is looked for holds it
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
    slow = len(_SLOW_NUMBER.findall(seen)) > _SUSPICIOUS
    if (
        seen.count(b'"') * scale > 2 * MAX_STRINGS
        or _brackets(seen) * scale > MAX_BRACKETS
        or seen.count(b",") * scale > MAX_VALUES
        or slow
    ):
        _count(raw, slow=slow)


def _count(raw: bytes, *, slow: bool) -> None:
    """What stands in strings is no part. Of valid JSON exact: a backslash stands in strings only."""
    pieces = raw.replace(rb"\\", b"").replace(rb"\"", b"").split(b'"', 2 * MAX_STRINGS + 1)
    if len(pieces) > 2 * MAX_STRINGS + 1:
        raise _too_much(f"{MAX_STRINGS} keys and strings")
    outside = b"".join(pieces[::2])
    if _brackets(outside) > MAX_BRACKETS:
        raise _too_much(f"{MAX_BRACKETS} lists and objects")
    if outside.count(b",") > MAX_VALUES:
        raise _too_much(f"{MAX_VALUES} values")
    if slow and next(islice(_SLOW_NUMBER.finditer(outside), MAX_SLOW_NUMBERS, None), None) is not None:
        raise _too_much(f"{MAX_SLOW_NUMBERS} numbers with huge exponents")


def _brackets(text: bytes) -> int:
    return text.count(b"[") + text.count(b"{")


def _too_much(what: str) -> ApiError:
    return ApiError(400, "invalid_json", f"The JSON body holds more than {what}.")
