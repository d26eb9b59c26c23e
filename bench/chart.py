"""The pictures of docs/benchmarks.json. Runs in an environment with matplotlib and nothing of ours.

python bench/chart.py docs/benchmarks.json docs/benchmarks.png docs/benchmarks-scale.png

A picture that there are no figures for is not made, and an old one of that name goes.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable
from itertools import zip_longest
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

OURS, DIRECT = "tiergate", "direct"
PANELS = {
    "request_us": "CPU µs a request, 32 connections",
    "token_us": "CPU µs a streamed token, one each 10 ms",
    "coalesced_us": "CPU µs a streamed token, eight in a read",
}
COLOURS = {OURS: "#c2410c", "nginx": "#111827", "vllm-router": "#2563eb", "smg": "#16a34a", "sglang-router": "#9333ea",
           "litellm": "#ca8a04", "portkey": "#db2777", DIRECT: "#94a3b8"}  # fmt: skip
Lines = dict[str, dict[int, list[float]]]
"""By gateway and number: the figures of the rounds."""


def draw(result: dict[str, Any], path: Path) -> None:
    figure, axes = plt.subplots(1, len(PANELS), figsize=(13, 3.2), layout="constrained")
    for axis, (key, title) in zip(axes, PANELS.items(), strict=True):
        panel(axis, title, figures(result, key))
    save(figure, result, path)


def save(figure: Any, result: dict[str, Any], path: Path) -> None:
    figure.suptitle(f"{result['machine']['cpu']}, {result['date']}", fontsize=8, color="#666666")
    figure.savefig(path, dpi=110, metadata={"Software": None})


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
    dress(axis, title)


def dress(axis: Any, title: str) -> None:
    axis.set_title(title, fontsize=10)
    axis.tick_params(labelsize=9)
    axis.spines[["top", "right"]].set_visible(False)


def draw_growth(result: dict[str, Any], path: Path) -> None:
    panels: list[tuple[str, Lines]] = [
        ("CPU µs a token, by streams at once", crowds(result, "token_us")),
        ("Latest token, ms beyond its 50, by streams at once", crowds(result, "late_worst")),
        ("CPU µs a request, by tenants", sized(result["tenants"])),
        ("CPU µs a request, by replicas", sized(result["replicas"])),
    ]
    there = [(title, lines) for title, lines in panels if lines]
    rows = -(-len(there) // 2)
    figure, axes = plt.subplots(rows, 2, figsize=(10, 3.2 * rows), layout="constrained", squeeze=False)
    for axis, one in zip_longest(axes.flat, there):
        if one is None:
            axis.set_visible(False)
        else:
            growth(axis, *one)
    save(figure, result, path)


def crowds(result: dict[str, Any], key: str) -> Lines:
    lines: Lines = {}
    for name, peer in result["crowds"].items():
        for one in peer["rounds"]:
            for count, crowd in one["crowds"].items():
                if crowd[key] is not None:
                    lines.setdefault(name, {}).setdefault(int(count), []).append(crowd[key])
    return lines


def sized(groups: dict[str, Any]) -> Lines:
    def taken(peer: dict[str, Any]) -> list[float]:
        return [one["request_us"] for one in peer["rounds"] if one["request_us"] is not None]

    found = {name: {int(count): taken(peer) for count, peer in sizes.items()} for name, sizes in groups.items()}
    lines = {name: {count: each for count, each in sizes.items() if each} for name, sizes in found.items()}
    return {name: sizes for name, sizes in lines.items() if sizes}


def growth(axis: Any, title: str, lines: Lines) -> None:
    """A line for each gateway through the medians, and a bar for the range of the rounds."""
    for name, sizes in lines.items():
        counts = sorted(sizes)
        middles = [statistics.median(sizes[count]) for count in counts]
        reach = [[middle - min(sizes[count]) for count, middle in zip(counts, middles, strict=True)],
                 [max(sizes[count]) - middle for count, middle in zip(counts, middles, strict=True)]]  # fmt: skip
        style = {"linestyle": "--"} if name == DIRECT else {}
        axis.errorbar(counts, middles, yerr=reach, label=name, color=COLOURS.get(name), marker="o", markersize=3, capsize=2,
                      linewidth=1.8 if name == OURS else 1.0, **style)  # fmt: skip
    axis.set_xscale("log")
    axis.set_xticks(sorted({count for sizes in lines.values() for count in sizes}))
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axis.minorticks_off()
    axis.set_yscale("log")
    axis.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axis.legend(fontsize=7, frameon=False)
    dress(axis, title)


def made(path: Path, there: bool, drawn: Callable[[dict[str, Any], Path], None], result: dict[str, Any]) -> None:
    if there:
        drawn(result, path)
    else:
        path.unlink(missing_ok=True)


if __name__ == "__main__":
    told, first, second = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), Path(sys.argv[2]), Path(sys.argv[3])
    made(first, any(figures(told, key) for key in PANELS), draw, told)
    made(second, bool(crowds(told, "token_us") or sized(told["tenants"]) or sized(told["replicas"])), draw_growth, told)
