"""The page docs/routing-eval.md out of a document of `tiergate route-eval --json`. Every figure in it is computed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench.route_prose import AS_SHIPPED, CALIBRATION, CASCADES, LEARNED_FROM, STREAMS, TOP, TRAVEL
from gateway.lab.routing import table
from gateway.lab.routing.table import figure, number, origin

Json = Mapping[str, Any]

FEW = 300  # labels after which calibration is told in short
MANY = 1000  # rows of a set of which that is told
GOOD = 0.6  # APGR on a left-out task that is worth having
SOURCES = {
    "llmrouter": ("ulab-uiuc/LLMRouter, 13 tasks", "MIT"),
    "routellm_mmlu": ("lm-sys/RouteLLM, MMLU", "Apache-2.0"),
    "mmlu_pro": ("TIGER-AI-Lab/MMLU-Pro", "Apache-2.0, its questions MIT"),
    "zeroeval_gsm": ("WildEval/ZeroEval, GSM8K", "Apache-2.0, its questions MIT"),
    "routellm_mtbench": ("lm-sys/RouteLLM, MT-Bench", "Apache-2.0"),
}


def page(document: Json, command: str) -> str:
    parts = [
        TOP.format(command=command, draws=document["parameters"]["draws"], default=document["parameters"]["default"]),
        _data(document["sets"]),
        "## In short\n\n" + "\n".join([*_short(document), *_also_short(document)]),
        "![quality against the share of the strong model](routing-eval.png)",
        LEARNED_FROM + (AS_SHIPPED if document["parameters"]["shipped"] else ""),
        *(_set(document, rows) for rows in document["sets"]),
        _travel(document),
        _calibration(document),
        _streams(document),
        _cascades(document),
        _latency(document),
    ]
    return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"


def _data(sets: Sequence[Json]) -> str:
    rows = []
    for it in sets:
        source, licence = SOURCES.get(it["name"], ("", ""))
        pair = f"{it['weak']} ({number(it['weak_mean'])}) and {it['strong']} ({number(it['strong_mean'])})"
        drawn = f" of {it['of']:,}" if it["of"] > it["rows"] + it["unpaired"] else ""
        rows.append([it["name"], source, licence, f"{it['rows']:,}{drawn}", pair])
    return "## Data\n\n" + _markdown(["set", "source", "licence", "rows", "weak and strong model (mean quality)"], rows)


def _short(document: Json) -> Iterator[str]:
    """What stands in the tables, said plainly, the bad things too."""
    results = [it for it in document["results"] if it["protocol"] != "yardstick" and not it.get("seen")]
    under = [it for it in results if it["apgr"]["high"] is not None and it["apgr"]["high"] < 0.5]
    unsure = [it for it in results if _holds_chance(it)]
    yield f"- **Worse than chance** (the interval's upper end is below .500): {_list(under)}."
    if any(it["protocol"] == "task" and not it["levelled"] for it in under):
        yield "  Of bare scores of left-out tasks .500 is not chance: what `means of other tasks` gets is."
    yield from _left_out(results)
    yield f"- Not to be told from chance: {_counts(unsure, results)}."
    worse = [it for it in results if it["over_length"]["high"] is not None and it["over_length"]["high"] < 0]
    better = [it for it in results if it["over_length"]["low"] is not None and it["over_length"]["low"] > 0]
    others = [it for it in results if it["router"] != "length"]
    yield f"- Surely better than the length of the prompt: {_counts(better, others)}."
    yield f"- Surely worse than the length of the prompt: {_counts(worse, others)}."
    own = [it for it in results if it["protocol"] in {"own", "based"}]
    for name in (rows["name"] for rows in document["sets"]):
        best = max((it for it in own if it["set"] == name), key=_value, default=None)
        alone = max((it for it in results if it["set"] == name and it["protocol"] in {"alone", "cross"}), key=_value)
        if best is not None:
            yield (
                f"- {name}: with labels of its own at best {figure(best['apgr'])} ({origin(best)}); without any at best "
                f"{figure(alone['apgr'])} ({_who(alone)}), chosen in hindsight."
            )
    yield from _by_chance(document)


def _left_out(results: Sequence[Json]) -> Iterator[str]:
    bare = [it for it in results if it["protocol"] == "task" and not it["levelled"]]
    level = {it["set"]: it for it in results if it["protocol"] == "task" and it["levelled"]}
    if bare:
        told = "; ".join(f"{it['set']} {figure(it['apgr'])}, levelled {number(_value(level[it['set']]))}" for it in bare)
        good = [it["set"] for it in bare if _value(it) >= GOOD] or ["none"]
        yield f"- Tasks left out: {told}. At {number(GOOD)} or more without levelling: {', '.join(good)}."


def _by_chance(document: Json) -> Iterator[str]:
    """Beside folds of whole templates, with the same labels."""
    for it in document["splits"]:
        strict = [
            figure(own["apgr"])
            for own in document["results"]
            if own["protocol"] == "own" and (own["set"], own["labels"]) == (it["set"], it["labels"])
        ]
        beside = f"; {strict[0]} where whole templates are kept apart" if strict else ""
        yield (
            f"- {it['set']}, {it['labels']:,} labels: {figure(it['apgr'])} where rows are split at random, as published figures "
            f"are (mean and range of {it['splits']}){beside}."
        )


def _also_short(document: Json) -> Iterator[str]:
    errors = {
        what: [
            max(it["calibration"][head]["ece"]["value"] for head in ("small", "large")) for it in document["results"] if fits(it)
        ]
        for what, fits in (
            ("own", _after_few_labels),
            ("away", lambda it: it["protocol"] == "cross" and it["calibration"] is not None),
        )
    }
    if all(errors.values()):
        yield (
            f"- Calibration error (the worse head) after {FEW} labels of one's own, on sets of {MANY:,} rows and more: at most "
            f"{number(max(errors['own']))}. On files that were not learned from: {number(min(errors['away']))} to "
            f"{number(max(errors['away']))}."
        )
    sent = [it["sent"] for it in document["results"] if "sent" in it]
    if sent:
        share = f"{min(sent):.0%} to {max(sent):.0%}"
        yield f"- A threshold of `learned` that is right for {table.TUNED:.0%} sends {share} of a set it was not made for."
    if document["streams"]:
        worst = 100 * max(abs(it["worst_window"] - it["budget"]) for it in document["streams"])
        yield f"- A budget is kept within {worst:.1f} points over any 500 requests, from 500 requests after a shift on."


def _after_few_labels(it: Json) -> bool:
    return it["protocol"] in {"own", "based"} and it["labels"] == FEW and it["rows"] >= MANY and it["calibration"] is not None


def _holds_chance(it: Json) -> bool:
    found = it["apgr"]
    return found["low"] is None or found["low"] <= 0.5 <= found["high"]


def _counts(some: Sequence[Json], results: Sequence[Json]) -> str:
    """How many of how many, by how they were trained."""
    words = {"alone": "of routers as they are", "own": "on labels of the set", "task": "on its other tasks"}
    words |= {"cross": "on other files", "based": "on other files and then labels of the set"}
    told = []
    for protocol, what in words.items():
        of = sum(it["protocol"] == protocol for it in results)
        if of:
            told.append(f"{sum(it['protocol'] == protocol for it in some)} of {of} {what}")
    return ", ".join(told)


def _list(results: Sequence[Json]) -> str:
    return "; ".join(f"{_who(it)} on {it['set']}" for it in results) or "none"


def _who(it: Json) -> str:
    learned = origin(it)
    return f"`{it['router']}`" if learned == "-" else f"`{it['router']}` ({learned})"


def _value(it: Json) -> float:
    return it["apgr"]["value"] or 0.0


def _set(document: Json, rows: Json) -> str:
    head = [name for name in table.HEAD if not name.startswith("ECE")]
    body = [table.cells(it)[: len(head)] for it in table.results(document, rows["name"])]
    return f"## {rows['name']}\n\n{table.told_of(rows)}.\n\n" + _markdown(head, body)


def _travel(document: Json) -> str:
    head = ["router", "tuned on", *(rows["name"] for rows in document["sets"])]
    return _section("Thresholds do not travel", TRAVEL.format(tuned=table.TUNED), head, table.sent(document))


def _calibration(document: Json) -> str:
    rows = []
    for it in document["results"]:
        calibration = it["calibration"]
        if calibration is not None:
            heads = [figure(calibration[head]["ece"]) for head in ("small", "large")]
            briers = [number(calibration[head]["brier"]) for head in ("small", "large")]
            rows.append([it["set"], origin(it), f"{calibration['rows']:,}", *heads, *briers])
    head = ["set", "learned from", "rows", "ECE small", "ECE large", "Brier small", "Brier large"]
    return _section("Calibration", CALIBRATION, head, rows)


def _streams(document: Json) -> str:
    found = document["streams"]
    if not found:
        return ""
    worst, early = (100 * max(abs(it[what] - it["budget"]) for it in found) for what in ("worst_window", "after"))
    prose = STREAMS.format(worst=worst, early=early)
    return _section("A budget on a stream that shifts", prose, table.STREAM, table.streams(found))


def _cascades(document: Json) -> str:
    rows = table.cascades(document["cascades"])
    return _section("Cascades", CASCADES, table.CASCADE, rows) if rows else ""


def _latency(document: Json) -> str:
    head = ["router", "prompts p50", "p99", "4,000 characters p50", "p99"]
    prose = "Milliseconds of CPU on one core, figures of the machine that wrote this page."
    return _section("Cost of a decision", prose, head, table.latencies(document["latency"]))


def _section(title: str, prose: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return f"## {title}\n\n{prose.rstrip()}\n\n{_markdown(head, rows)}"


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns that are empty everywhere are left out."""
    kept = [place for place in range(len(head)) if any(row[place] not in {"", "-"} for row in rows)]
    lines = [[head[place] for place in kept], ["---"] * len(kept), *([row[place] for place in kept] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
