"""Cascades over the answers of a file: each known trio of models, on each of its data sets and categories."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gateway.lab.routing.answers import Question
from gateway.lab.routing.data import BadData
from gateway.lab.routing.outcomes import Outcomes
from gateway.lab.routing.replay import FEWEST, KNOWN, Trio, having, replayed
from routing.agreement import agree
from routing.cascade import Switch

Json = dict[str, Any]


def cascades(
    questions: Sequence[Question],
    sets: Sequence[Outcomes],
    asked: Sequence[Trio],
    *,
    draws: int,
    seed: int,
) -> Iterator[Json]:
    """`sets`: their rows name the categories of questions with the same id. Raises BadData."""
    trios = asked or KNOWN
    subsets = _subsets(questions, {row.id: row.category for rows in sets for row in rows.rows if row.id})
    told = 0
    for trio in trios:
        for name, members in subsets.items():
            found = having(members, trio)
            if len(found) >= FEWEST:
                told += 1
                yield {"subset": name, **replayed(found, trio, same, Switch(), draws, seed)}
    if not told:
        wanted = "; ".join(", ".join(trio.models) for trio in trios)
        raise BadData(f"no {FEWEST} questions were answered by all of {wanted}; name three others with --trio")


def same(one: str, other: str) -> bool:
    """As the gateway compares two answers; what nobody can tell goes to the large model."""
    return agree(one, other) is True


def _subsets(questions: Sequence[Question], category_of: Mapping[str, str]) -> dict[str, list[Question]]:
    found: dict[str, list[Question]] = {}
    for it in questions:
        found.setdefault(it.dataset or "all", []).append(it)
    for it in questions:
        category = category_of.get(it.id, "")
        if category and category != it.dataset:
            found.setdefault(f"{it.dataset}, {category}", []).append(it)
    return found
