"""The picture of a run: how latencies are spread, and how it went over time. Needs matplotlib, drawn without a screen."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gateway.lab.load.measures import Measures

MISSING = "no picture: matplotlib is not installed (pip install 'tiergate[plots]')"
_CURVES = {"ttft": "TTFT", "tpot": "TPOT", "itl": "gap", "e2e": "end to end"}


def draw(path: Path, measures: Measures, document: Mapping[str, Any]) -> None:
    """Raises ImportError without matplotlib, OSError."""
    figure = importlib.import_module("matplotlib.figure").Figure(figsize=(10, 8), layout="constrained")
    importlib.import_module("matplotlib.backends.backend_agg").FigureCanvasAgg(figure)
    above, below = figure.subplots(2, 1)
    _spread(above, measures)
    _course(below, document["series"])
    figure.suptitle(f"{document['parameters']['url']}  {document['parameters']['arrivals']}")
    figure.savefig(path, dpi=120)


def _spread(axes: Any, measures: Measures) -> None:
    for name, title in _CURVES.items():
        if curve := measures.histograms[name].curve():
            axes.plot([value for value, _ in curve], [share * 100 for _, share in curve], label=title)
    axes.set(xscale="log", xlabel="ms from the intended send time (TPOT and gap: between tokens)", ylabel="% at most")
    axes.grid(alpha=0.3, which="both")
    if axes.get_lines():
        axes.legend(loc="lower right")


def _course(axes: Any, series: Mapping[str, Any]) -> None:
    width, buckets = series["bucket_s"], series["buckets"]
    at = [bucket["at_s"] for bucket in buckets]
    for name, color in (("arrivals", "tab:gray"), ("failed", "tab:red"), ("dropped", "black")):
        counts = [bucket[name] / width for bucket in buckets]
        if name == "arrivals" or any(counts):
            axes.step(at, counts, where="post", color=color, label=f"{name} /s")
    axes.set(xlabel="s after the warm-up, by when requests were due", ylabel="requests /s")
    axes.set_ylim(bottom=0)
    times = axes.twinx()
    for name, style in (("ttft_mean_ms", "-"), ("ttft_max_ms", ":")):
        times.plot(at, [bucket[name] if bucket[name] is not None else float("nan") for bucket in buckets], style,
                   color="tab:blue", label=name.removesuffix("_ms").replace("_", " ").replace("ttft", "TTFT"))  # fmt: skip
    times.set_ylabel("TTFT, ms")
    times.set_ylim(bottom=0)
    handles, labels = axes.get_legend_handles_labels()
    more, names = times.get_legend_handles_labels()
    axes.legend(handles + more, labels + names, loc="upper right")
