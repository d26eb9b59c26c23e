"""Chinese terms and the English words that they mean."""

from __future__ import annotations

from collections.abc import Iterator


def translated(run: str) -> Iterator[str]:
    """The words of a run of characters."""
    yield from run
