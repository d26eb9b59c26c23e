"""Reads gauges out of a Prometheus exposition that somebody else wrote.

Rules: no I/O; linear time; whatever the text is, the answers are finite numbers that are not negative.
"""

from __future__ import annotations

import math
import re

WAITING = b"vllm:num_requests_waiting"

_MOST_SAMPLES = 1024  # one a data-parallel engine; a page with more of them is not one of ours
_MOST_LINE = 4096
# What follows the name on its line: labels (a quoted value may hold anything, a brace too), then the value.
_LABELS = rb'(?:\{((?:[^"}\n]|"(?:[^"\\\n]|\\.)*+")*+)\})?+'
_SAMPLE = re.compile(_LABELS + rb"[ \t]++([^ \t\r\n]{1,40})(?=[ \t\r\n]|\Z)")


def read_gauge(text: bytes, name: bytes) -> float | None:
    """The sum over all samples of the gauge `name`; None when there is none that can be read."""
    values = [value for _, value in read_samples(text, name)]
    return sum(values) if values else None


def read_samples(text: bytes, name: bytes) -> list[tuple[bytes, float]]:
    """The labels, as they stand there, and the value of each sample of `name` that can be read; none of too many."""
    found: list[tuple[bytes, float]] = []
    at = text.find(name)
    for _ in range(_MOST_SAMPLES):
        if at < 0:
            return found
        end = at + len(name)
        if at == 0 or text[at - 1] == 0x0A:
            sample = _SAMPLE.match(text, end, end + _MOST_LINE)
            value = None if sample is None else _value(sample[2])
            if sample is not None and value is not None:
                found.append((sample[1] or b"", value))
        at = text.find(name, end)
    return []


def _value(text: bytes) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and 0.0 <= value <= 1e12 else None
