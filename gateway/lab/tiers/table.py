"""The result for people to read, as a table in Markdown, from the same document as the JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

Json = Mapping[str, Any]


def table(documents: Sequence[Json]) -> str:
    return "\n\n".join("\n".join(_part(document)) for document in documents)


def _part(document: Json) -> Iterator[str]:
    yield (
        f"**{document['source']}**: {document['requests']:,} requests, {document['small']} cheap and {document['large']} dear "
        f"replicas of {document['slots']} slots, {document['share']:.0%} may go up, {len(document['seeds'])} seeds"
    )
    yield ""
    columns = _columns(document)
    yield f"| speed | policy | {' | '.join(columns)} |"
    yield f"|{'---|' * (len(columns) + 2)}"
    for result in document["results"]:
        for it in result["policies"]:
            yield f"| {result['speed']:g} | {it['policy']} | {' | '.join(cell(it) for cell in columns.values())} |"


def _columns(document: Json) -> dict[str, Callable[[Json], str]]:
    """Differences are from the first policy, paired; in brackets their range over the seeds."""
    return {
        "quality": lambda it: _percent(it["quality"]),
        "difference": lambda it: _apart(it["quality"]),
        f"slot within {document['wait_s']:g} s": lambda it: _percent(it["in_time"]),
        "difference ": lambda it: _apart(it["in_time"]),
        f"first token within {document['goal_s']:g} s": lambda it: _percent(it["good"]),
        "mean TTFT": lambda it: _seconds(it["ttft_mean"]),
        "p99 TTFT": lambda it: _seconds(it["ttft_p99"]),
        "large": lambda it: _percent(it["large"]),
        "spilled": lambda it: _percent(it["spilled"]),
        "borrowed": lambda it: _percent(it["borrowed"]),
        "kept": lambda it: _percent(it["kept"]),
    }


def _percent(it: Json) -> str:
    return f"{it['mean']:.1%}"


def _apart(it: Json) -> str:
    """In points."""
    mean, low, high = (100 * value for value in it["against"])
    return "" if not low and not high else f"{mean:+.1f} ({low:+.1f} to {high:+.1f})"


def _seconds(it: Json) -> str:
    value = it["mean"]
    return "" if value is None else f"{value:.2f} s" if value < 10 else f"{value:,.0f} s"
