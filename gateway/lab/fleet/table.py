"""The result for people to read, as a table in Markdown, from the same document as the JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

Json = Mapping[str, Any]


def table(documents: Sequence[Json]) -> str:
    return "\n\n".join("\n".join(_part(document)) for document in documents)


def _part(document: Json) -> Iterator[str]:
    setting, several = document["setting"], len(document["results"]) > 1
    seeds = len(document["seeds"])
    yield (
        f"**{document['source']}**: {document['requests']:,} requests, {setting['replicas']} replicas, "
        f"{seeds} {'seed' if seeds == 1 else 'seeds'}"
    )
    yield ""
    columns = _columns(document)
    heads = [*(["speed"] if several else []), "policy", *columns]
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    for result in document["results"]:
        for it in result["policies"]:
            cells = [*([f"{result['speed']:g}"] if several else []), it["policy"], *(cell(it) for cell in columns.values())]
            yield f"| {' | '.join(cells)} |"


def _columns(document: Json) -> dict[str, Callable[[Json], str]]:
    columns: dict[str, Callable[[Json], str]] = {
        "hit": lambda it: _share(it["hit"]),
        "mean TTFT": lambda it: _seconds(it["ttft_mean"]),
        "of the first": lambda it: _ratio(it["ttft_ratio"]),
        "p99 TTFT": lambda it: _seconds(it["ttft_p99"]),
        f"at most {document['goal_s']:g} s": lambda it: _share(it["good"]),
        "ITL p99": lambda it: _seconds(it["itl_p99"]),
        "imbalance": lambda it: _plain(it["imbalance"]),
    }
    if any(it["refused"]["mean"] for result in document["results"] for it in result["policies"]):
        columns["refused"] = lambda it: _share(it["refused"])
    return columns


def _share(it: Json) -> str:
    return f"{it['mean']:.1%}"


def _seconds(it: Json) -> str:
    value = it["mean"]
    return (
        ""
        if value is None
        else f"{value * 1000:.0f} ms"
        if value < 0.1
        else f"{value:,.2f} s"
        if value < 100
        else f"{value:,.0f} s"
    )


def _ratio(it: Json) -> str:
    if it["mean"] is None:
        return ""
    low, high = it["range"]
    return f"{it['mean']:.2f}" if f"{low:.2f}" == f"{high:.2f}" else f"{it['mean']:.2f} ({low:.2f} to {high:.2f})"


def _plain(it: Json) -> str:
    return "" if it["mean"] is None else f"{it['mean']:.2f}"
