"""A budget on a stream that shifts from one set to another, kept by the gateway's own cuts (routing/cuts.py).

A policy is learned from half of the first set. Requests are drawn from the other half, then from the second set; the cut begins
with the policy's prior and follows what it sees. Beside it the threshold that is right for the first set, left alone.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gateway.lab.progress import Progress
from gateway.lab.routing import travel
from gateway.lab.routing.folds import grouped, others, sample
from gateway.lab.routing.lessons import Lesson, School, Taught
from gateway.lab.routing.metrics import Floats
from gateway.lab.routing.outcomes import Outcomes
from gateway.lab.routing.protocols import keys_of_all
from gateway.lab.routing.scored import Scored
from gateway.lab.routing.settings import Settings
from routing.aims import Aim, Told
from routing.cuts import Begin, Cuts

Json = dict[str, Any]
EACH = 2000  # requests of each set
SETTLED = 500  # requests after the shift, from which on the budget is to be kept
WINDOW = 500
MOST = 3000  # rows that a policy is learned from
FEWEST = 300  # rows of a set that a stream can be drawn from
UNRATED = math.nextafter(0.5, -math.inf)  # where the gateway puts requests without a score, if their default is not the cheapest
_ROUTE = "auto"


@dataclass(frozen=True, slots=True)
class Leg:
    """What was said of the rows that one part of a stream is drawn from, and what they scored."""

    said: Scored
    weak: Floats
    strong: Floats


def streams(sets: Sequence[Outcomes], budgets: Sequence[float], settings: Settings, progress: Progress) -> Iterator[Json]:
    """Each set large enough, followed by each other. Raises ValueError where there are not two."""
    large = [number for number, rows in enumerate(sets) if len(rows) >= FEWEST]
    if len(large) < 2:
        raise ValueError(f"a stream needs two files of {FEWEST} rows and more")
    lessons = [_lesson(sets, first, [then for then in large if then != first], settings.seed) for first in large]
    school = School([Taught(tuple(rows.prompts), rows.weak, rows.strong) for rows in sets])
    told = school.all(lessons, settings.jobs, progress.step("policies trained", len(lessons)))
    for lesson in lessons:
        here, *after = lesson.tell
        found = told[lesson.name]
        begin = Begin(UNRATED, [*map(tuple, found.prior.tolist())], found.scores.tolist())
        first = _leg(sets, here, found.said[0])
        for there, said in zip(after, found.said[1:], strict=True):
            for budget in budgets:
                then = _leg(sets, there, said)
                yield {
                    "first": sets[here[0]].name,
                    "then": sets[there[0]].name,
                    "budget": budget,
                    **shifted(first, then, budget, begin, settings.seed),
                }


def shifted(first: Leg, then: Leg, budget: float, begin: Begin, seed: int) -> Json:
    """Shares that went up: just before the shift, just after it, and the window farthest from the budget once it has settled."""
    rng = random.Random(seed)
    legs = [(leg, rng.randrange(len(leg.weak))) for leg in (first, then) for _ in range(EACH)]
    up = sent(legs, budget, begin, rng)
    rolling = np.convolve(up[EACH + SETTLED :], np.ones(WINDOW) / WINDOW, mode="valid")
    worst = rolling[np.argmax(np.abs(rolling - budget))]
    fixed = travel.share(then.said.scores, travel.threshold(first.said.scores, budget))
    return {
        "before": float(up[EACH - WINDOW : EACH].mean()),
        "after": float(up[EACH : EACH + SETTLED].mean()),
        "settled": float(up[EACH + SETTLED :].mean()),
        "worst_window": float(worst),
        "fixed_threshold": fixed,
        **_quality(then, [place for _, place in legs[EACH:]], up[EACH:]),
    }


def sent(legs: Sequence[tuple[Leg, int]], budget: float, begin: Begin, rng: random.Random) -> NDArray[np.bool_]:
    """Which requests went up."""
    cuts = Cuts({_ROUTE: Aim("large", budget)}, {}, begin)
    flags = []
    for leg, place in legs:
        score, small, large = (_known(column, place) for column in (leg.said.scores, leg.said.small, leg.said.large))
        draw = rng.random()
        cut = cuts.scope(_ROUTE, "").cut(lambda draw=draw: draw)  # type: ignore[misc]
        up = cut.lets_up(small, large) if score is None else score >= cut.threshold
        cuts.tell(_ROUTE, "", Told(up, open=True, score=score, small=small, large=large))
        flags.append(up)
    return np.array(flags)


def _quality(leg: Leg, places: Sequence[int], up: NDArray[np.bool_]) -> Json:
    """Of the second part: the mean of what was chosen, and that of chance with as many sent."""
    weak, strong = leg.weak[places], leg.strong[places]
    share = up.mean()
    return {
        "quality": float(np.where(up, strong, weak).mean()),
        "quality_of_chance": float(weak.mean() + share * (strong - weak).mean()),
    }


def _lesson(sets: Sequence[Outcomes], first: int, then: Sequence[int], seed: int) -> Lesson:
    """Learns half of the first, without what the others have too; tells its other half and the others."""
    by_set = keys_of_all(sets)
    elsewhere = set().union(*(by_set[number] for number in then))
    told = grouped(by_set[first], 2, seed)[0]
    learn = sample([place for place in others(told, len(sets[first])) if by_set[first][place] not in elsewhere], MOST, seed)
    tell = ((first, tuple(told)), *((number, tuple(range(len(sets[number])))) for number in then))
    return Lesson(f"{first}/stream", ((first, tuple(learn)),), tell, seed)


def _leg(sets: Sequence[Outcomes], tell: tuple[int, Sequence[int]], said: Scored) -> Leg:
    number, places = tell
    return Leg(said, sets[number].weak[list(places)], sets[number].strong[list(places)])


def _known(column: Floats | None, place: int) -> float | None:
    return None if column is None or np.isnan(column[place]) else float(column[place])
