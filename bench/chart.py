"""The picture of docs/benchmarks.json. Runs in an environment with matplotlib and nothing of ours.

python bench/chart.py docs/benchmarks.json docs/benchmarks.png
"""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

OURS, DIRECT = "tiergate", "direct"
PANELS = {"request_us": "CPU µs a request, 32 connections", "token_us": "CPU µs a streamed token, one each 10 ms"}


def draw(result: dict[str, Any], path: Path) -> None:
    figure, axes = plt.subplots(1, len(PANELS), figsize=(10, 3.2), layout="constrained")
    for axis, (key, title) in zip(axes, PANELS.items(), strict=True):
        panel(axis, title, figures(result, key))
    figure.suptitle(f"{result['machine']['cpu']}, {result['date']}", fontsize=8, color="#666666")
    figure.savefig(path, dpi=150, metadata={"Software": None})


def figures(result: dict[str, Any], key: str) -> dict[str, list[float]]:
    found = {name: [one[key] for one in peer["rounds"] if one[key]] for name, peer in result["peers"].items() if name != DIRECT}
    return dict(sorted(((name, taken) for name, taken in found.items() if taken), key=lambda pair: -statistics.median(pair[1])))


def panel(axis: Any, title: str, taken: dict[str, list[float]]) -> None:
    """One bar for each gateway on a scale that lets a hundredfold be seen; the whisker is the range of the rounds."""
    names = list(taken)
    middles = [statistics.median(figures) for figures in taken.values()]
    lows = [middle - min(figures) for middle, figures in zip(middles, taken.values(), strict=True)]
    highs = [max(figures) - middle for middle, figures in zip(middles, taken.values(), strict=True)]
    colours = ["#c2410c" if name == OURS else "#94a3b8" for name in names]
    axis.barh(names, middles, xerr=[lows, highs], color=colours, ecolor="#334155", capsize=2, height=0.65)
    for place, (middle, high) in enumerate(zip(middles, highs, strict=True)):
        axis.annotate(f"{middle:,.0f}", (middle + high, place), (4, 0), textcoords="offset points", va="center", fontsize=8)
    axis.set_xscale("log")
    if middles:
        axis.set_xlim(min(middles) / 3, max(map(sum, zip(middles, highs, strict=True))) * 3)
    axis.set_title(title, fontsize=10)
    axis.tick_params(labelsize=9)
    axis.spines[["top", "right"]].set_visible(False)


if __name__ == "__main__":
    draw(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), Path(sys.argv[2]))
