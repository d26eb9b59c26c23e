"""Policies trained on some rows and told on others, by the gateway's own trainer and classifier; several at a time.

A prompt is read once a process: its grams are kept for all lessons, to learn from and to be told. What is told of them is what
the classifier says of a request with nothing but that prompt.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait
from pathlib import Path
from threading import Thread

import numpy as np

from gateway.lab.routing.metrics import Floats
from gateway.lab.routing.scored import LEARNED, Scored, body_of, of_verdicts
from routing.conversation import thread_of
from routing.grams import Grams, grams_of
from routing.learned.classifier import Learned
from routing.learned.policy import Policy
from routing.learned.train import Row, train

Places = tuple[tuple[int, tuple[int, ...]], ...]  # rows of sets, by the sets' numbers


@dataclass(frozen=True, slots=True)
class Taught:
    """The prompts of a set, and what the pair scored on them."""

    prompts: tuple[str, ...]
    weak: Floats
    strong: Floats


@dataclass(frozen=True, slots=True)
class Lesson:
    """`base`: a policy's file that the trainer begins with; `keep`: where the trained one goes."""

    name: str
    learn: Places
    tell: Places
    seed: int = 0
    base: Path | None = None
    keep: Path | None = None


@dataclass(frozen=True, slots=True)
class Told:
    """For each of the lesson's `tell` what the policy said. `prior`: P(good enough) of either end, of the policy's held-out
    prompts; `scores`: theirs.
    """

    said: tuple[Scored, ...]
    prior: Floats
    scores: Floats


class School:
    def __init__(self, sets: Sequence[Taught]) -> None:
        self._sets = tuple(sets)
        self._read: dict[tuple[int, int], Grams] = {}

    def teach(self, lesson: Lesson) -> Told:
        """Raises TooFewRows, or what loading a base raises."""
        places = [(number, place) for number, chosen in lesson.learn for place in chosen]
        rows = [self._row(number, place) for number, place in places]
        base = None if lesson.base is None else Policy.load(lesson.base)
        # A base judges the rows, and names words as it does.
        grams = None if base is not None else [self._grams(number, place) for number, place in places]
        policy = train(rows, base=base, seed=lesson.seed, read=grams)
        if lesson.keep is not None:
            policy.save(lesson.keep)
        prior = np.array(policy.chances, dtype=np.float64).reshape(-1, 2)
        judge = Learned(policy)
        asked = ((judge.verdict(self._grams(number, place)) for place in chosen) for number, chosen in lesson.tell)
        return Told(tuple(of_verdicts(LEARNED, verdicts) for verdicts in asked), prior, np.array(policy.scores))

    def all(self, lessons: Sequence[Lesson], jobs: int, tell: Callable[[int, int], None]) -> dict[str, Told]:
        """By name. With several jobs each process reads the prompts for itself."""
        found = {}
        for name, told in self._each(lessons, min(jobs, len(lessons))):
            found[name] = told
            tell(len(found), len(lessons))
        return found

    def _each(self, lessons: Sequence[Lesson], jobs: int) -> Iterator[tuple[str, Told]]:
        if jobs < 2:
            yield from ((lesson.name, self.teach(lesson)) for lesson in lessons)
            return
        sets = self._sets
        with ProcessPoolExecutor(jobs, get_context("spawn"), initializer=_open, initargs=(sets,)) as pool:
            asked = {pool.submit(_teach, lesson): lesson.name for lesson in lessons}
            try:
                for done in as_completed(asked):
                    yield asked[done], done.result()
            finally:
                pool.shutdown(wait=False, cancel_futures=True)

    def _row(self, number: int, place: int) -> Row:
        it = self._sets[number]
        return Row(ask_of(it.prompts[place]), float(it.weak[place]), float(it.strong[place]))

    def _grams(self, number: int, place: int) -> Grams:
        key = (number, place)
        if key not in self._read:
            grams = grams_of(ask_of(self._sets[number].prompts[place]))
            ids = array("I", sorted(grams.ids))  # the trainer goes through them; a tenth of the memory
            self._read[key] = replace(grams, words=[], packed=b"", ids=ids)
        return self._read[key]


def ask_of(prompt: str) -> str:
    """What the classifiers see of a prompt: bounded, without what programs put into it."""
    return thread_of(body_of(prompt), "chat").ask()


_open_school: list[School] = []  # of a process of the pool: its one


def _open(sets: Sequence[Taught]) -> None:
    Thread(target=_ends_with_parent, daemon=True).start()
    _open_school.append(School(sets))


def _ends_with_parent() -> None:
    """Whoever began this is gone, by whatever signal: what is learned here nobody would hear."""
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _teach(lesson: Lesson) -> Told:
    return _open_school[0].teach(lesson)
