"""A table as lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def columns(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Left-aligned, as wide as they must be; a column that is empty everywhere is left out."""
    kept = [place for place in range(len(head)) if any(row[place] not in {"", "-"} for row in rows)]
    grid = [[row[place] for place in kept] for row in (head, *rows)]
    widths = [max(len(row[place]) for row in grid) for place in range(len(kept))]
    for row in grid:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
