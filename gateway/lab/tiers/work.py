"""A trace whose requests are prompts with known outcomes.

Rules of this file
- Which requests of a trace are turns of one conversation is told by what their prompts share: who has at least half of the blocks
  of an earlier request, and more than the first one, which a system prompt fills, goes on with what that began.
- A conversation draws one prompt, and each of its turns has the outcomes of that. Of its later turns a share are `follow-ups`:
  their own words look easy (they have the score of a prompt from the easiest quarter), but what they ask of a model is what the
  conversation asks. They stand for the worst that text alone can see.
- A trace that tells nothing of its prompts has conversations of one turn.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

from gateway.lab.fleet.job import Job
from gateway.lab.tiers.labels import Label, Labels


class Piece(NamedTuple):
    """One request: what it is to the fleet, which conversation it is of, what the models make of it, and its score."""

    job: Job
    talk: int
    label: Label
    score: float | None
    later: bool  # it is not the first of its conversation


def pieces_of(jobs: Sequence[Job], labels: Labels, follow_ups: float, seed: int) -> list[Piece]:
    rng = random.Random(f"{seed} labels")
    known = sorted(labels.labels, key=lambda label: 2.0 if label.score is None else label.score)
    easiest = known[: max(1, len(known) // 4)]
    drawn: dict[int, Label] = {}
    pieces = []
    for job, talk in zip(jobs, talks_of(jobs), strict=True):
        later = talk in drawn
        label = drawn.setdefault(talk, rng.choice(labels.labels))
        light = rng.random() < follow_ups
        pieces.append(Piece(job, talk, label, rng.choice(easiest).score if later and light else label.score, later))
    return pieces


def talks_of(jobs: Sequence[Job]) -> list[int]:
    """For each job the number of the one that began its conversation."""
    holder: dict[int, tuple[int, int]] = {}  # key of a block: the conversation, and how many blocks whoever had it last has
    talks = []
    for job in jobs:
        talk = job.number
        for depth in range(len(job.keys), 1, -1):
            found = holder.get(job.keys[depth - 1])
            if found is not None:
                if depth * 2 >= found[1]:
                    talk = found[0]
                break
        talks.append(talk)
        for key in job.keys:
            holder[key] = talk, len(job.keys)
    return talks
