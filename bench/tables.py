"""How figures are written in the pages."""

from __future__ import annotations

from collections.abc import Sequence

from bench.figures import Spread

NONE = "-"


def spread(figures: Sequence[float], digits: int) -> str:
    found = Spread.of(figures)
    if found is None:
        return NONE
    return f"{found.median:,.{digits}f} ({found.low:,.{digits}f} to {found.high:,.{digits}f})"


def number(figure: float | None, digits: int) -> str:
    return NONE if figure is None else f"{figure:,.{digits}f}"


def table(title: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [title, ["---"] * len(title), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
