"""Streams drawn from clusters: the same for a seed, and what becomes of each question told by hand."""

from collections import Counter
from math import inf
from random import Random

import pytest
from eval_words import Cut, opened
from hypothesis import given
from hypothesis import strategies as st

from gateway.lab.cacheeval.drawing import Ask, Plan, ceilings, draw
from gateway.lab.cacheeval.judge import Judge
from gateway.lab.cacheeval.learner import FromEvidence
from gateway.lab.cacheeval.shadow import Shadow
from gateway.lab.cacheeval.stream import End, run
from gateway.lab.cacheeval.vectors import Vectors

EXACT, SEMANTIC, WRONG, MISS = End.EXACT, End.SEMANTIC, End.WRONG, End.MISS
FOX, DOG = ("red fox", "the red fox"), ("red dog", "dog barks now")


def vectors():
    it = opened()
    return Vectors(it.model, it.covers)


def asks(*texts):
    return [Ask(0 if text in FOX else 1, text) for text in texts]


class Always:
    """A learner that notes what it is told and opens from one score on, once it knows so much."""

    def __init__(self, before=2.0, after=2.0, labels=1):
        self.seen, self._before, self._after, self._labels = [], before, after, labels

    def cut(self):
        return self._after if len(self.seen) >= self._labels else self._before

    def learn(self, score, *, right, weight):
        self.seen.append((round(score, 2), right, weight))


class Moved(Cut):
    """Its cut is the learner's."""

    def __init__(self, learner, grey):
        super().__init__(0.0, grey)
        self._learner = learner

    def decide(self, cosine, asked, stored):
        self._serve = self._learner.cut()
        return super().decide(cosine, asked, stored)


def shadow(learner, budget=100, rate=1.0, judge=None):
    return Shadow(budget, learner, Random(0), rate, judge)


def test_the_same_seed_draws_the_same():
    """And another one, or shuffled ranks, something else."""
    clusters = [tuple(f"{cluster} {number}" for number in range(3)) for cluster in range(50)]
    plan = Plan(200, 1.0, seed=7)
    assert draw(clusters, plan) == draw(clusters, plan)
    assert draw(clusters, plan) != draw(clusters, Plan(200, 1.0, seed=8))
    assert draw(clusters, plan) != draw(clusters, Plan(200, 1.0, seed=7, shuffle=True))


def test_ranks_follow_the_law():
    """The first cluster comes as often as its share of 1/rank has it, each of its questions as often as the other."""
    clusters = [(f"{cluster} a", f"{cluster} b") for cluster in range(10)]
    drawn = draw(clusters, Plan(20_000, 1.0, seed=1))
    harmonic = sum(1 / rank for rank in range(1, 11))
    counts = Counter(ask.cluster for ask in drawn)
    for cluster in (0, 1, 9):
        assert counts[cluster] / 20_000 == pytest.approx(1 / (cluster + 1) / harmonic, rel=0.1)
    assert Counter(ask.text for ask in drawn if ask.cluster == 0)["0 a"] / counts[0] == pytest.approx(0.5, abs=0.03)


def test_ceilings():
    """Of texts that came before, and of clusters that did."""
    found = ceilings(asks("red fox", "the red fox", "red fox", "red dog"))
    assert (found.asks, found.texts, found.clusters) == (4, 1, 2)


def test_a_stream_by_hand():
    """Stored texts are exact hits; what was served by meaning is not stored, so it is looked up again, and wrong again."""
    course = run(
        Cut(0.45),  # "red fox" and "the red fox" are 0.82 alike, "red fox" and "red dog" 0.5
        asks("red fox", "red fox", "the red fox", "the red fox", "red dog", "red dog", "dog barks now", "dog barks now"),
        vectors(),
    )
    assert course.ends == [MISS, EXACT, SEMANTIC, SEMANTIC, WRONG, WRONG, MISS, EXACT]
    assert course.wrong == {("red fox", "red dog"): 2}
    assert course.embedded == 6
    assert course.count() == {MISS: 2, EXACT: 2, SEMANTIC: 2, WRONG: 2}


def test_a_text_without_a_vector_is_stored_exactly():
    """It misses once, and nothing is embedded for it or compared with it."""
    course = run(Cut(-1.0), [Ask(0, "现在"), Ask(0, "现在"), Ask(1, "red fox")], vectors())
    assert course.ends == [MISS, EXACT, MISS]
    assert course.embedded == 1


def test_a_judge_before_the_answer():
    """What the policy leaves open is served when it approves, and is a miss when it does not."""
    stream = asks("red fox", "the red fox", "red dog")
    assert run(Cut(2.0, grey=0.4), stream, vectors(), Judge(1.0, 0.0)).ends == [MISS, SEMANTIC, MISS]
    fooled = run(Cut(2.0, grey=0.4), stream, vectors(), Judge(1.0, 1.0))
    assert fooled.ends == [MISS, SEMANTIC, WRONG]
    assert fooled.verified == 2


def test_an_approved_hit_becomes_an_exact_one():
    """After its verification the question is served without being compared; the verification speaks for 1/rate hits."""
    learner = Always(before=0.45)
    it = shadow(learner, rate=0.999)
    course = run(Moved(learner, 0.4), asks("red fox", "the red fox", "the red fox"), vectors(), shadow=it)
    assert course.ends == [MISS, SEMANTIC, EXACT]
    assert learner.seen == [(0.82, True, pytest.approx(1 / 0.999))]
    assert (course.shadowed, course.learned_at, course.cut) == (1, None, 2.0)


def test_a_rejected_hit_never_comes_back():
    """The fresh answer is stored for the question, which is right from then on."""
    learner = Always(before=0.45, after=0.45)
    course = run(Moved(learner, 0.4), asks("red fox", "red dog", "red dog"), vectors(), shadow=shadow(learner))
    assert course.ends == [MISS, WRONG, EXACT]
    assert learner.seen == [(0.5, False, 1.0)]


def test_the_grey_zone_teaches():
    """A grey candidate is a miss and is verified; then the cut opens and its like are served."""
    learner = Always(before=2.0, after=0.6)
    stream = [Ask(0, "red fox"), Ask(0, "the red fox"), Ask(2, "big old oak"), Ask(2, "the big old oak")]
    course = run(Moved(learner, 0.4), stream, vectors(), shadow=shadow(learner))
    assert course.ends == [MISS, MISS, MISS, SEMANTIC]
    assert learner.seen == [(0.82, True, 1.0), (0.87, True, 1.0)]


def test_the_budget_is_kept():
    """Once it is spent nothing more is verified, and the question that spent it is told."""
    learner = Always(before=0.45, after=0.45)
    course = run(Moved(learner, 0.4), asks("red fox", "the red fox", "red dog"), vectors(), shadow=shadow(learner, budget=1))
    assert (len(learner.seen), course.shadowed, course.learned_at) == (1, 1, 2)
    assert course.ends == [MISS, SEMANTIC, WRONG]


def test_a_learned_cut_needs_evidence():
    """The preset's cut holds until there are labels enough; then the lowest that keeps the bound, or none does."""
    learner = FromEvidence(0.9, max_error=0.05)
    for _ in range(290):
        learner.learn(0.8, right=True, weight=1)
    assert learner.cut() == 0.9
    for _ in range(10):
        learner.learn(0.7, right=True, weight=1)
    assert learner.cut() == 0.7
    for _ in range(30):
        learner.learn(0.75, right=False, weight=1)
    assert learner.cut() == 0.8
    for _ in range(50):
        learner.learn(0.95, right=False, weight=1)
    assert learner.cut() == inf


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=40), st.integers(0, 20), st.integers(0, 20))
def test_every_question_comes_to_one_end(drawn, serve, grey):
    """Whatever the policy: no more hits by an exact tier alone than the ceiling, and each question counted once."""
    stream = [Ask(cluster, f"word{cluster} text{number} {cluster}") for cluster, number in drawn]
    course = run(Cut(serve / 20, grey / 20), stream, vectors(), Judge(0.5, 0.5))
    known = ceilings(stream)
    ends = course.count()
    assert ends.total() == len(stream) == known.asks
    assert ends[WRONG] == sum(course.wrong.values())
    assert ends[EXACT] <= known.texts <= known.clusters
    assert ends[EXACT] + ends[SEMANTIC] <= known.clusters
    assert course.embedded == len(stream) - ends[EXACT]
    alone = run(Cut(2.0), stream, vectors()).count()
    assert (alone[EXACT], alone[MISS]) == (known.texts, len(stream) - known.texts)
