"""The cut that keeps errors under a bound: chosen on one half of the data, told on the other.

A cut holds when the upper end of the Wilson interval of the wrong ones among all that it serves is at most the bound. That takes
evidence: with no error at all a bound of 2 % needs 189 served pairs, one of 0.5 % needs 765.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from gateway.lab.cacheeval.curve import Curve, Point
from gateway.lab.cacheeval.scoring import Count
from gateway.lab.cacheeval.wilson import Z95, wilson

STRICTEST = "strict"


@dataclass(frozen=True, slots=True)
class Calibration:
    max_error: float
    chosen_on: int  # pairs
    told_on: int
    cut: float | None  # None: no cut can be shown to hold
    chosen: Count | None
    told: Count | None


def lowest(curve: Curve, max_error: float) -> Point | None:
    """The lowest cut whose upper bound is at most `max_error`."""
    good = [point for point in curve.points if wilson(point.wrong, point.served + point.wrong)[1] <= max_error]
    return good[-1] if good else None


def needed(max_error: float) -> int:
    """Served pairs without an error that it takes to show a bound: Wilson's upper end of none of n is z²/(n + z²)."""
    return ceil(Z95 * Z95 * (1 - max_error) / max_error)


def holds(count: Count, max_error: float) -> bool:
    """Whether these figures show the bound."""
    return wilson(count.wrong, count.served + count.wrong)[1] <= max_error


def at(cut: float, scored: Sequence[tuple[float | None, bool]]) -> Count:
    count = Count()
    for score, same in scored:
        count.add(same=same, served=score is not None and score >= cut)
    return count


def calibrate(
    chosen_on: Curve, chosen: Sequence[tuple[float | None, bool]], told: Sequence[tuple[float | None, bool]], max_error: float
) -> Calibration:
    point = lowest(chosen_on, max_error)
    if point is None:
        return Calibration(max_error, len(chosen), len(told), None, None, None)
    return Calibration(max_error, len(chosen), len(told), point.cut, at(point.cut, chosen), at(point.cut, told))


def lines(found: Mapping[str, Calibration], own: Mapping[str, Count], max_error: float, *, measured: bool) -> list[str]:
    """What an operator pastes into a config. `own`: what each preset's own cut does on the half that was chosen on; `measured`:
    the product has cuts of its own for this embedder.

    The preset that serves most while its own cut holds the bound; else the one that does with the cut that was found, and the
    cut; the strictest there is where nothing is shown to hold.
    """
    good = [name for name, count in own.items() if measured and holds(count, max_error)]
    cuts = {name: it for name, it in found.items() if it.cut is not None and it.chosen is not None}
    bound = f"    max_error: {max_error:g}  # kept by what is learned from verified answers"
    if good:
        preset = max(good, key=lambda name: own[name].served)
        told = [f"    preset: {preset}  # its own cut holds the bound on these data", bound]
    elif cuts:
        preset = max(cuts, key=lambda name: _served(cuts[name]))
        cut = f"    cut: {cuts.pop(preset).cut:.4f}  # of this embedder alone: holds the bound on these data"
        told = [f"    preset: {preset}", cut, bound]
    else:
        told = [f"    preset: {STRICTEST}  # no preset's own cut is shown to hold the bound here", bound]
    return ["cache:", "  semantic:", *told, *(f"    # {name}: a cut of {it.cut:.4f} would" for name, it in cuts.items())]


def _served(it: Calibration) -> int:
    return 0 if it.chosen is None else it.chosen.served
