"""The picture: TTFT, the share in time and hits, as curves over the speeds, or as bars for one speed. Needs matplotlib."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Json = Mapping[str, Any]
_FIELDS = {"ttft_mean": "mean TTFT, s", "good": "share in time, %", "hit": "prompt tokens found cached, %"}


def draw(path: Path, documents: Sequence[Json]) -> None:
    """A row for each source. Raises ImportError without matplotlib, OSError."""
    rows = len(documents)
    figure = importlib.import_module("matplotlib.figure").Figure(figsize=(13, 3.6 * rows), layout="constrained")
    importlib.import_module("matplotlib.backends.backend_agg").FigureCanvasAgg(figure)
    for row, document in enumerate(documents):
        for column, (field, title) in enumerate(_FIELDS.items()):
            axes = figure.add_subplot(rows, len(_FIELDS), row * len(_FIELDS) + column + 1)
            if len(document["results"]) > 1:
                _curves(axes, document["results"], field)
            else:
                _bars(axes, document["results"][0]["policies"], field)
            axes.set_title(f"{document['source']}: {title}", fontsize=9, loc="left")
            axes.grid(alpha=0.3)
            if row == column == 0 and axes.get_lines():
                axes.legend(fontsize=7)
    figure.savefig(path, dpi=100)


def _value(it: Json, field: str) -> float:
    value = it[field]["mean"] or 0.0
    return max(value, 1e-3) if field == "ttft_mean" else 100.0 * value


def _curves(axes: Any, results: Sequence[Json], field: str) -> None:
    speeds = [result["speed"] for result in results]
    for number, it in enumerate(results[0]["policies"]):
        values = [_value(result["policies"][number], field) for result in results]
        axes.plot(speeds, values, marker="o", markersize=3, linewidth=2.2 if number == 0 else 1.2, label=it["policy"])
    axes.set(xlabel="speed of the trace", yscale="log" if field == "ttft_mean" else "linear")


def _bars(axes: Any, policies: Sequence[Json], field: str) -> None:
    names = [it["policy"] for it in reversed(policies)]
    axes.barh(names, [_value(it, field) for it in reversed(policies)])
    axes.tick_params(axis="y", labelsize=7)
    if field == "ttft_mean":
        axes.set_xscale("log")
