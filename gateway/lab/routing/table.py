"""The result for people to read, from the same document as the JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gateway.lab.columns import columns

Json = Mapping[str, Any]
_FIGURES = ("APGR", "over length", "CPT(50)", "CPT(80)", "within tasks", "ECE small", "ECE large")
HEAD = ["router", "learned from", "don't know", *_FIGURES]
_RUN = ("tried", "accuracy", "over large", "escalated", "cost by call", "by character")
CASCADE = ["questions of", "small", "large", "n", "large alone", *_RUN]
STREAM = ["first", "then", "budget", "before", "first 500", "settled", "worst 500", "fixed threshold", "quality", "chance"]


def table(document: Json) -> str:
    parts = [_set(document, rows) for rows in document["sets"]]
    parts += [part for part in (_travel(document), _streams(document), _cascades(document), _latency(document)) if part]
    return "\n\n".join(parts)


def _set(document: Json, rows: Json) -> str:
    lines = [f"== {rows['name']}: {told_of(rows)}"]
    lines += columns(HEAD, [cells(it) for it in results(document, rows["name"])])
    return "\n".join(lines)


def results(document: Json, name: str) -> list[Json]:
    """Of a set; what was learned of rows by chance stands beside what was learned of whole templates."""
    found = [it for it in document["results"] if it["set"] == name]
    for split in (it for it in document["splits"] if it["set"] == name):
        own = [place for place, it in enumerate(found) if it["protocol"] == "own" and it["labels"] <= split["labels"]]
        found.insert(own[-1] + 1 if own else len(found), split)
    return found


def told_of(rows: Json) -> str:
    left = [f"{rows[what]:,} left out ({why})" for what, why in _LEFT if rows[what]]
    scale = f", scores of 0-{rows['scale']:g} divided by it" if rows["scale"] != 1 else ""
    chosen = {"extremes": " (the worst and the best by mean score)", "known": "", "asked": ""}[rows["pair"]]
    who = f"{rows['weak']} {number(rows['weak_mean'])} > {rows['strong']} {number(rows['strong_mean'])}{chosen}"
    drawn = f" of {rows['of']:,}" if rows["of"] > rows["rows"] + rows["unpaired"] else ""
    return "; ".join([who, f"{rows['rows']:,}{drawn} rows in {rows['categories']} categories{scale}", *left])


_LEFT = (("contaminated", "contaminated"), ("unpaired", "without a score of both"))


def cells(it: Json) -> list[str]:
    calibration = it["calibration"]
    errors = ["-", "-"] if calibration is None else [number(calibration[head]["ece"]["value"]) for head in ("small", "large")]
    inside = "-" if it["within_categories"] is None else number(it["within_categories"])
    unsure = f"{it['abstained']:.0%}" if it["abstained"] else "-"
    gap = [figure(it["apgr"]), difference(it["over_length"]), figure(it["cpt50"]), figure(it["cpt80"])]
    name = f"{it['router']} (has seen these rows)" if it.get("seen") else it["router"]
    return [name, origin(it), unsure, *gap, inside, *errors]


def origin(it: Json) -> str:
    return {
        "alone": "-",
        "yardstick": "-",
        "own": f"{it.get('labels', 0):,} of this set",
        "split": f"{it.get('labels', 0):,} of this set, rows split at random",
        "based": f"base + {it.get('labels', 0):,} of this set",
        "task": "its other tasks, levelled" if it.get("levelled") else "its other tasks",
        "cross": str(it.get("learned_from")),
    }[it["protocol"]]


UNBOUNDED = "unbounded"
"""In place of an interval: where some draws have no gap at all, a part of the gap may be anything."""


def figure(it: Json) -> str:
    if it["value"] is None:
        return "no gap"
    return f"{number(it['value'])} ({UNBOUNDED if it['low'] is None else number(it['low']) + '-' + number(it['high'])})"


def difference(it: Json) -> str:
    if it["value"] is None:
        return "-"
    return f"{signed(it['value'])} ({UNBOUNDED if it['low'] is None else signed(it['low']) + ' to ' + signed(it['high'])})"


def signed(value: float) -> str:
    return f"{value:+.3f}".replace("0.", ".", 1)


def number(value: float) -> str:
    """.620, 1.178"""
    return f"{value:.3f}".replace("0.", ".", 1) if -1 < value < 1 else f"{value:.3f}"


def _travel(document: Json) -> str:
    rows = sent(document)
    if not rows:
        return ""
    head = ["router", "tuned on", *(it["name"] for it in document["sets"])]
    return "\n".join([f"== a threshold tuned to {TUNED:.0%} on one set sends, of each set", *columns(head, rows)])


TUNED = 0.3


def sent(document: Json) -> list[list[str]]:
    """Rows of: router, where its threshold was tuned, the share that it sends of each set."""
    names = [rows["name"] for rows in document["sets"]]
    rows = [
        [it["router"], names[tuned], *(f"{share:.0%}" for share in shares)]
        for it in document["travel"]
        for tuned, shares in enumerate(it["shares"])
    ]
    crossed: dict[str, dict[str, str]] = {}
    for it in document["results"]:
        if "sent" in it:
            crossed.setdefault(it["learned_from"], {})[it["set"]] = f"{it['sent']:.0%}"
    return rows + [["learned", tuned, *(found.get(name, "-") for name in names)] for tuned, found in crossed.items()]


def _streams(document: Json) -> str:
    rows = streams(document["streams"])
    return "\n".join(["== shares that go up on a stream that shifts", *columns(STREAM, rows)]) if rows else ""


def streams(found: Sequence[Json]) -> list[list[str]]:
    shares = ("budget", "before", "after", "settled", "worst_window", "fixed_threshold")
    return [
        [it["first"], it["then"], *(f"{it[what]:.1%}" for what in shares), number(it["quality"]), number(it["quality_of_chance"])]
        for it in found
    ]


def _cascades(document: Json) -> str:
    rows = cascades(document["cascades"])
    head = "== cascades: two small models, the large one where they differ; costs of always large = 1"
    return "\n".join([head, *columns(CASCADE, rows)]) if rows else ""


def cascades(found: Sequence[Json]) -> list[list[str]]:
    rows = []
    for it in found:
        who = [it["subset"], " + ".join(it["smalls"]), it["large"], f"{it['questions']:,}", number(it["large_accuracy"])]
        rows.append([*who, "all", *_run(it)])
        rows.append([*who, f"{it['switched']['tried']:.0%}", *_run(it["switched"])])
    return rows


def _run(it: Json) -> list[str]:
    costs = ["-" if cost is None else number(cost) for cost in (it["cost_by_call"], it["cost_by_character"])]
    return [number(it["accuracy"]), difference(it["over_large"]), f"{it['escalated']:.0%}", *costs]


def _latency(document: Json) -> str:
    if not document["latency"]:
        return ""
    head = ["router", "prompts p50", "p99", "4,000 characters p50", "p99"]
    return "\n".join(["== ms of CPU of one decision", *columns(head, latencies(document["latency"]))])


def latencies(found: Sequence[Json]) -> list[list[str]]:
    measures = [(what, part) for what in ("prompts", "long") for part in ("p50_ms", "p99_ms")]
    return [[it["router"], *(f"{it[what][part]:.3f}" for what, part in measures)] for it in found]
