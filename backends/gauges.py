"""Reads one gauge out of a Prometheus exposition that somebody else wrote.

Rules: no I/O; linear time; whatever the text is, the answer is a finite number that is not negative, or None.
"""

from __future__ import annotations

import math
import re

WAITING = b"vllm:num_requests_waiting"

_MOST_SAMPLES = 1024  # one a data-parallel engine; a page with more of them is not one of ours
_MOST_LINE = 4096
# What follows the name on its line: labels (a quoted value may hold anything, a brace too), then the value.
_SAMPLE = re.compile(rb'(?:\{(?:[^"}\n]|"(?:[^"\\\n]|\\.)*+")*+\})?+[ \t]++([^ \t\r\n]{1,40})(?=[ \t\r\n]|\Z)')


def read_gauge(text: bytes, name: bytes) -> float | None:
    """The sum over all samples of the gauge `name`; None when there is none that can be read."""
    total: float | None = None
    at = text.find(name)
    for _ in range(_MOST_SAMPLES):
        if at < 0:
            return total
        end = at + len(name)
        if at == 0 or text[at - 1] == 0x0A:
            value = _value(text, end)
            if value is not None:
                total = value if total is None else total + value
        at = text.find(name, end)
    return None


def _value(text: bytes, start: int) -> float | None:
    sample = _SAMPLE.match(text, start, start + _MOST_LINE)
    if sample is None:
        return None
    try:
        value = float(sample[1])
    except ValueError:
        return None
    return value if math.isfinite(value) and 0.0 <= value <= 1e12 else None
