"""The result for people to read, as a table in Markdown, from the same document as the JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Json = Mapping[str, Any]
_COLUMNS = {"mean": "mean wait", "short_p95": "short p95", "long_p99": "long p99", "worst": "worst"}


def table(documents: Sequence[Json]) -> str:
    return "\n\n".join("\n".join(_part(document)) for document in documents)


def _part(document: Json) -> Iterator[str]:
    seeds = len(document["seeds"])
    yield f"**{document['source']}**: {document['requests']:,} requests, {document['slots']} slots, {seeds} seeds"
    yield ""
    limited = any(it["refused"] for result in document["results"] for it in result["policies"])
    yield f"| load | policy | {' | '.join(_COLUMNS.values())} | rank accuracy |{' refused |' if limited else ''}"
    yield f"|---|---|{'---|' * len(_COLUMNS)}---|{'---|' if limited else ''}"
    for result in document["results"]:
        for it in result["policies"]:
            cells = [_cell(it[name]) for name in _COLUMNS]
            refused = f" {it['refused']:.1%} |" if limited else ""
            yield f"| {result['load']} | {it['policy']} | {' | '.join(cells)} | {_share(it['rank_accuracy'])} |{refused}"
    if document["tenants"]:
        yield from _tenants(document)


def _tenants(document: Json) -> Iterator[str]:
    """Each tenant's waits, where some are not like the others."""
    names = [it["policy"] for it in document["results"][0]["policies"]]
    yield ""
    yield f"| load | tenant: mean, p99 | {' | '.join(names)} |"
    yield f"|---|---|{'---|' * len(names)}"
    for result in document["results"]:
        for tenant in result["policies"][0]["tenants_mean_s"]:
            yield f"| {result['load']} | {tenant} | {' | '.join(_waits(it, tenant) for it in result['policies'])} |"


def _waits(it: Json, tenant: str) -> str:
    mean, p99, refused = (it[f"tenants_{name}"].get(tenant) for name in ("mean_s", "p99_s", "refused"))
    served = "none served" if mean is None else f"{_seconds(mean)}, {_seconds(p99)}"
    return f"{served} ({refused:.0%} refused)" if refused else served


def _cell(it: Json) -> str:
    """Seconds, and in brackets what that is of the first policy's."""
    if it["s"] is None:
        return "none"
    return _seconds(it["s"]) if it["ratio"] is None or it["s"] < 0.01 else f"{_seconds(it['s'])} ({it['ratio']:.2f})"


def _seconds(value: float) -> str:
    return f"{value:.2f}" if value < 100 else f"{value:,.0f}"


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"
