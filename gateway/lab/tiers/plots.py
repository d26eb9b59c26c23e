"""The picture: quality, slots in time and mean TTFT over the speeds. Needs matplotlib."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Json = Mapping[str, Any]
_FIELDS = {"quality": "mean outcome, %", "in_time": "slot in time, %", "ttft_mean": "mean TTFT, s"}


def draw(path: Path, documents: Sequence[Json]) -> None:
    """A row for each source. Raises ImportError without matplotlib, OSError."""
    figure = importlib.import_module("matplotlib.figure").Figure(figsize=(13, 3.6 * len(documents)), layout="constrained")
    importlib.import_module("matplotlib.backends.backend_agg").FigureCanvasAgg(figure)
    for row, document in enumerate(documents):
        results = document["results"]
        for column, (field, title) in enumerate(_FIELDS.items()):
            axes = figure.add_subplot(len(documents), len(_FIELDS), row * len(_FIELDS) + column + 1)
            scale = 1.0 if field == "ttft_mean" else 100.0
            for number, it in enumerate(results[0]["policies"]):
                values = [scale * (result["policies"][number][field]["mean"] or 0.0) for result in results]
                speeds = [result["speed"] for result in results]
                axes.plot(speeds, values, marker="o", markersize=3, linewidth=2.2 if number == 0 else 1.2, label=it["policy"])
            axes.set(xlabel="speed of the trace", yscale="log" if field == "ttft_mean" else "linear")
            axes.set_title(f"{document['source']}: {title}", fontsize=9, loc="left")
            axes.grid(alpha=0.3)
            if row == column == 0:
                axes.legend(fontsize=7)
    figure.savefig(path, dpi=100)
