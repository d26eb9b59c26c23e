"""The result of a run for people to read, from the same document as the JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_ROWS = {
    "ttft": "TTFT",
    "tpot": "TPOT",
    "itl": "gap",
    "e2e": "end to end",
    "lag": "our lag",
    "stall": "our stall",
}
_COLUMNS = ("count", "mean", "p50", "p90", "p95", "p99", "p99_9", "max")


def table(document: Mapping[str, Any]) -> str:
    blocks = [_head(document), _latencies(document["latency_ms"]), _counts(document)]
    warnings = [f"WARNING: {text}." for text in document["warnings"]]
    return "\n\n".join([*blocks, *(["\n".join(warnings)] if warnings else [])])


def _head(document: Mapping[str, Any]) -> str:
    parameters, requests, rates = document["parameters"], document["requests"], document["rates_per_s"]
    failed = "".join(f", {count:,} {name}" for name, count in requests["failed"].items())
    lines = [
        f"target      {parameters['url']}  model {parameters['model'] or 'of the bodies'}",
        f"arrivals    {parameters['arrivals']}: {requests['arrivals']:,} in all, {_number(rates['arrivals'])}/s",
        f"requests    {requests['ok']:,} ok{failed}, {requests['dropped']:,} dropped here",
        f"throughput  {_number(rates['ok'])} ok/s over {document['span_s']:,.1f} s",
        f"tokens/s    {_number(rates['output_tokens'])} output, {_number(rates['prompt_tokens'])} prompt",
    ]
    goodput = document["goodput"]
    if goodput is not None:
        wanted = "" if goodput["met"] is None else f" (wanted: {goodput['wanted_share']:.2%})"
        lines.append(f"goodput     {goodput['share']:.2%}, {_number(goodput['per_s'])}/s at {goodput['slo']}{wanted}")
    if document["interrupted"]:
        lines.append("interrupted: this is what was measured so far")
    return "\n".join(lines)


def _latencies(latencies: Mapping[str, Mapping[str, float | None]]) -> str:
    lines = [f"{'ms':<11}" + "".join(f"{name.replace('_', '.'):>11}" for name in _COLUMNS)]
    for name, title in _ROWS.items():
        row = latencies[name]
        if row["count"]:
            lines.append(f"{title:<11}{row['count']:>11,}" + "".join(f"{_number(row[column]):>11}" for column in _COLUMNS[1:]))
    return "\n".join(lines)


def _counts(document: Mapping[str, Any]) -> str:
    tokens, generator = document["tokens"], document["generator"]
    groups = {"status": document["statuses"], "errors": document["errors"], **document["tiergate"]}
    lines = [
        f"{name:<11} " + ", ".join(f"{value} {count:,}" for value, count in group.items())
        for name, group in groups.items()
        if group
    ]
    lines.append(f"tokens      {tokens['prompt']:,} prompt ({tokens['cached']:,} told as cached), {tokens['output']:,} output")
    lines.append(
        f"this client {generator['cpu_s']:.1f} s of CPU in {generator['wall_s']:.1f} s ({generator['cpu_share']:.0%} of a core)"
    )
    return "\n".join(lines)


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 10_000 else f"{value:,.1f}" if value >= 100 else f"{value:.2f}"
