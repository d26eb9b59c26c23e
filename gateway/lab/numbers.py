"""Numbers on a command line, for argparse."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable


def number(text: str, good: Callable[[float], bool], what: str) -> float:
    """Raises ArgumentTypeError, which says `what` it should be."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not good(value):
        raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
    return value


def whole(text: str, most: int) -> int:
    """From 1 to `most`. Raises ArgumentTypeError."""
    if not text.isascii() or not text.isdigit() or not 0 < int(text[:12]) <= most:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to {most:,}")
    return int(text)
