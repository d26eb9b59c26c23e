"""The picture: quality against the share that goes to the strong model, a field for each set. Needs matplotlib."""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gateway.lab.routing.table import number, origin

MISSING = "no picture: matplotlib is not installed (pip install 'tiergate[plots]')"
Json = Mapping[str, Any]
_ACROSS = 2
_STYLES = {"yardstick": ":", "alone": "-", "own": "-", "based": "-", "task": "--", "cross": "-."}
RANDOM = "random"
ORACLE = "oracle"  # it would make all others one line
REST = "all others"


def draw(path: Path, document: Json) -> None:
    """Raises ImportError without matplotlib, OSError."""
    picture(document).savefig(path, dpi=100)


def picture(document: Json) -> Any:
    """A matplotlib figure. What is trained and told in the same way has one colour in all fields. Raises ImportError."""
    sets = document["sets"]
    told = {rows["name"]: _told([it for it in document["results"] if it["set"] == rows["name"]]) for rows in sets}
    names = dict.fromkeys(_name(it) for results in told.values() for it in results)
    colours = dict(zip(names, itertools.cycle(_palette()), strict=False))
    down = -(-len(sets) // _ACROSS)
    across = min(_ACROSS, len(sets))
    figure = importlib.import_module("matplotlib.figure").Figure(figsize=(9 * across, 6.2 * down), layout="constrained")
    importlib.import_module("matplotlib.backends.backend_agg").FigureCanvasAgg(figure)
    for place, rows in enumerate(sets, 1):
        axes = figure.add_subplot(down, across, place)
        _curves(axes, told[rows["name"]], colours)
        axes.set_title(f"{rows['name']}: {rows['weak']} and {rows['strong']}, {rows['rows']:,} rows", loc="left", fontsize=10)
    return figure


def _palette() -> list[Any]:
    """Strong colours first, then their pale ones, then others."""
    maps = importlib.import_module("matplotlib").colormaps
    paired = maps["tab20"].colors
    return [*paired[::2], *paired[1::2], *maps["tab20b"].colors]


def _told(results: list[Json]) -> list[Json]:
    """Of policies of other files only the one of all others, where there is one: more lines cannot be read."""
    several = any(it.get("learned_from") == REST for it in results)
    return [
        it
        for it in results
        if it["router"] != ORACLE
        and not it.get("seen")
        and not (several and it["protocol"] == "cross" and it["learned_from"] != REST)
    ]


def _curves(axes: Any, results: list[Json], colours: Mapping[str, Any]) -> None:
    best = max((it for it in results if it["protocol"] != "yardstick"), key=_apgr, default=None)
    for it in results:
        share = [point["share"] * 100 for point in it["quality"]]
        value = [point["value"] for point in it["quality"]]
        colour = colours[_name(it)]
        (line,) = axes.plot(share, value, _STYLES[it["protocol"]], color=colour, label=_label(it))
        if it["router"] == RANDOM:
            line.set(color="black", linewidth=1)
        if it is best:
            low, high = ([point[edge] for point in it["quality"]] for edge in ("low", "high"))
            axes.fill_between(share, low, high, color=colour, alpha=0.15, linewidth=0, label=f"95 % interval: {_name(it)}")
    axes.set(xlabel="% sent to the strong model", ylabel="mean quality", xlim=(0, 100))
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7, loc="lower right")


def _name(it: Json) -> str:
    learned = origin(it)
    return str(it["router"]) if learned == "-" else f"{it['router']}, {learned}"


def _label(it: Json) -> str:
    name = _name(it)
    return name if it["apgr"]["value"] is None else f"{name} {number(it['apgr']['value'])}"


def _apgr(it: Json) -> float:
    return it["apgr"]["value"] or 0.0
