"""The picture: what each policy makes of each wait, as a share of the first policy's. Needs matplotlib."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

MISSING = "no picture: matplotlib is not installed (pip install 'tiergate[plots]')"
Json = Mapping[str, Any]
_FIELDS = {"mean": "mean", "short_p95": "short\np95", "long_p99": "long\np99", "worst": "worst"}


def draw(path: Path, documents: Sequence[Json]) -> None:
    """A row for each source, a column for each load. Raises ImportError without matplotlib, OSError."""
    rows, columns = len(documents), max(len(document["results"]) for document in documents)
    figure = importlib.import_module("matplotlib.figure").Figure(figsize=(4.2 * columns, 3 * rows), layout="constrained")
    importlib.import_module("matplotlib.backends.backend_agg").FigureCanvasAgg(figure)
    for row, document in enumerate(documents):
        for column, result in enumerate(document["results"]):
            axes = figure.add_subplot(rows, columns, row * columns + column + 1)
            _bars(axes, result["policies"])
            axes.set_title(f"{document['source']}, load {result['load']}", fontsize=9, loc="left")
            if row == column == 0:
                axes.legend(fontsize=7)
    figure.savefig(path, dpi=110)


def _bars(axes: Any, policies: Sequence[Json]) -> None:
    width = 0.8 / len(policies)
    for number, it in enumerate(policies):
        places = [place + number * width for place in range(len(_FIELDS))]
        axes.bar(places, [max(it[name]["s"] or 0.0, 0.01) for name in _FIELDS], width * 0.95, label=it["policy"])
    axes.set(yscale="log", ylabel="seconds", ylim=(0.01, 1000))
    axes.set_xticks([place + 0.4 - width / 2 for place in range(len(_FIELDS))], list(_FIELDS.values()), fontsize=8)
    axes.grid(alpha=0.3, axis="y")
