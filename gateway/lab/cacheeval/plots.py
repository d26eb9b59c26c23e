"""The picture: precision over what is served, for every cut, and what presets do with each category. Needs matplotlib."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

MISSING = "no picture: matplotlib is not installed (pip install 'tiergate[plots]')"
Json = Mapping[str, Any]
MOST_BARS = 2  # policies whose categories are drawn; more cannot be read
_MARKS = "osD^v<>P*X"


def draw(path: Path, document: Json) -> None:
    """A row for each set of data and embedder. Raises ImportError without matplotlib, OSError."""
    parts = [part for part in document["results"] if part["kind"] in {"scores", "lookups", "stream"}]
    count = max(1, len(parts))
    figure = importlib.import_module("matplotlib.figure").Figure(figsize=(13, 4.6 * count), layout="constrained")
    importlib.import_module("matplotlib.backends.backend_agg").FigureCanvasAgg(figure)
    for row, part in enumerate(parts):
        if part["kind"] == "stream":
            left = figure.add_subplot(count, 1, row + 1)
            _streams(left, part)
        else:
            left = figure.add_subplot(count, 2, 2 * row + 1)
            _curves(left, part)
            _categories(figure.add_subplot(count, 2, 2 * row + 2), part)
        left.set_title(f"{part['data']}, {part['embedder']}", loc="left", fontsize=10)
    figure.savefig(path, dpi=120)


def _curves(axes: Any, part: Json) -> None:
    for it in part["curves"]:
        points = [point for point in it["points"] if point["error"] is not None]
        axes.plot([point["recall"] * 100 for point in points], [100 - point["error"] * 100 for point in points], label=it["name"])
    lookups = part["kind"] == "lookups"
    for mark, it in zip(_MARKS, part.get("scores", part.get("lookups", ())), strict=False):
        x, y = (it["right"]["share"], _right(it)) if lookups else (it["served"]["share"], it["precision"]["share"])
        if x is not None and y is not None:
            axes.plot([x * 100], [y * 100], mark, label=it["policy"], color="black", markersize=6, fillstyle="none")
    axes.set(xlabel="% of the wanted that are served", ylabel="% of the served that are right", xlim=(0, 101))
    axes.grid(alpha=0.3)
    if any(len(line.get_xdata()) for line in axes.get_lines()):
        axes.legend(loc="lower left", fontsize=8)
    else:
        axes.set_ylim(0, 101)
        axes.text(50, 50, "nothing is served at any cut", ha="center")


def _right(it: Json) -> float | None:
    return it["right"]["hits"] / it["hits"]["hits"] if it["hits"]["hits"] else None


def _categories(axes: Any, part: Json) -> None:
    scores: Sequence[Json] = part.get("scores", ())[:MOST_BARS]
    names = sorted({name for it in scores for name in it["categories"]})
    if not names:
        axes.axis("off")
        return
    height = 0.8 / max(1, len(scores))
    for number, it in enumerate(scores):
        for right, colour in ((True, "tab:blue"), (False, "tab:red")):
            values = [_bar(it["categories"].get(name), right=right) for name in names]
            places = [place + number * height for place in range(len(names))]
            axes.barh(places, values, height * 0.9, color=colour, alpha=1 - 0.5 * number,
                      label=f"{it['policy']}: {'wanted' if right else 'traps'}")  # fmt: skip
    axes.set(
        xlabel="% served", yticks=[place + 0.4 - height / 2 for place in range(len(names))], yticklabels=names, xlim=(0, 100)
    )
    axes.invert_yaxis()
    axes.grid(alpha=0.3, axis="x")
    axes.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, 1.1), ncols=4)


def _bar(it: Json | None, *, right: bool) -> float:
    share = None if it is None else it["served" if right else "traps_served"]["share"]
    return 0.0 if share is None else share * 100


def _streams(axes: Any, part: Json) -> None:
    courses = part["courses"]
    left = [0.0] * len(courses)
    for key, colour in (("exact", "tab:gray"), ("semantic", "tab:blue"), ("wrong", "tab:red")):
        values = [course[key]["share"] * 100 for course in courses]
        axes.barh([course["policy"] for course in courses], values, left=left, color=colour, label=key)
        left = [begin + value for begin, value in zip(left, values, strict=True)]
    for key, style in (("exact_alone", "--"), ("ceiling", ":")):
        axes.axvline(part["asks"][key]["share"] * 100, linestyle=style, color="black", label=key.replace("_", " "))
    least = min(course["exact"]["share"] for course in courses) * 100
    axes.set(xlabel="% of all questions", xlim=(max(0.0, least - 5), None))
    axes.invert_yaxis()
    axes.legend(fontsize=8, loc="upper right", bbox_to_anchor=(1, 1.1), ncols=5)
