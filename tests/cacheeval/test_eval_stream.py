"""Streams drawn from clusters: the same for a seed, and what becomes of each question told by hand."""

from collections import Counter
from random import Random

import pytest
from eval_words import Cut, opened
from hypothesis import given
from hypothesis import strategies as st

from gateway.lab.cacheeval import product
from gateway.lab.cacheeval.course import End
from gateway.lab.cacheeval.drawing import Ask, Plan, ceilings, draw
from gateway.lab.cacheeval.judge import ScriptedJudge
from gateway.lab.cacheeval.shadow import Shadow
from gateway.lab.cacheeval.stream import run
from gateway.lab.cacheeval.vectors import Vectors

EXACT, SEMANTIC, WRONG, MISS = End.EXACT, End.SEMANTIC, End.WRONG, End.MISS
FOX, DOG = ("red fox", "the red fox"), ("red dog", "dog barks now")


def vectors():
    it = opened()
    return Vectors(it.model, it.covers)


def asks(*texts):
    return [Ask(0 if text in FOX else 1, text) for text in texts]


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


LOCK = "how do I lock my bank card"
RESET = "how do I reset the password of my account"
PAIR = [Ask(0, LOCK), Ask(0, "please how do I lock my bank card"), Ask(0, "please how do I lock my bank card")]


def whole(stream, preset="strict", judge=None, shadow=None):
    return product.run(preset, stream, vectors(), opened().covers, judge, shadow)


def shadow(budget=100, share=1.0, judge=None):
    return Shadow(budget, Random(0), 0.05, share, judge)


def test_the_whole_product_by_hand():
    """Its own cache serves a polite form of a question, by meaning each time, and neither another question nor another number."""
    stream = [*PAIR, Ask(1, RESET), Ask(1, RESET), Ask(2, "where is order 12 of mine"), Ask(3, "where is order 13 of mine")]
    course = whole(stream)
    assert course.ends == [MISS, SEMANTIC, SEMANTIC, MISS, EXACT, MISS, MISS]
    assert course.wrong == {}
    assert 2 <= course.embedded <= 6  # its gate spares what resembles nothing


def test_what_the_clusters_say_is_wrong_is_counted_so():
    """The same stream under labels that hold the polite form for another question."""
    course = whole([Ask(0, LOCK), Ask(1, PAIR[1].text), Ask(1, PAIR[1].text)])
    assert course.ends == [MISS, WRONG, WRONG]
    assert course.wrong == {(LOCK, PAIR[1].text): 2}
    assert course.wrong_texts == 1
    assert (course.labelled({(0, 1)}), course.labelled({(0, 2)})) == (2, 0)


def test_an_approved_hit_becomes_an_exact_one():
    """After its verification the question is served without being compared."""
    it = shadow()
    course = whole(PAIR, shadow=it)
    assert course.ends == [MISS, SEMANTIC, EXACT]
    assert (course.shadowed, course.learned_at, it.spent) == (1, None, 1)


def test_a_rejected_hit_never_comes_back():
    """The fresh answer is stored for the question, which is right from then on."""
    course = whole([Ask(0, LOCK), Ask(1, PAIR[1].text), Ask(1, PAIR[1].text)], shadow=shadow())
    assert course.ends == [MISS, WRONG, EXACT]


def test_a_verification_errs_as_its_judge_does():
    """One that approves everything makes an alias of a wrong answer, which is then exactly wrong."""
    course = whole([Ask(0, LOCK), Ask(1, PAIR[1].text), Ask(1, PAIR[1].text)], shadow=shadow(judge=ScriptedJudge(1.0, 1.0)))
    assert course.ends == [MISS, WRONG, WRONG]


def test_the_budget_is_kept():
    """Once it is spent nothing more is verified, and the question that spent it is told."""
    other = "please how do I reset the password of my account"
    course = whole([*PAIR, Ask(1, RESET), Ask(1, other), Ask(1, other)], shadow=shadow(budget=1))
    assert course.ends == [MISS, SEMANTIC, EXACT, MISS, SEMANTIC, SEMANTIC]
    assert (course.shadowed, course.learned_at) == (1, 2)


def test_a_share_of_the_served_is_verified():
    """Drawn by the seed."""
    stream = [Ask(0, LOCK), *[PAIR[1]] * 400]
    course = whole(stream, shadow=shadow(share=0.02))
    assert course.shadowed == 1
    assert 1 < course.ends.index(EXACT) < 400
    assert whole(stream, shadow=shadow(share=0.02)).ends == course.ends


def test_a_text_that_the_embedder_does_not_read_is_stored_exactly():
    """It misses once, and waits for no vector."""
    course = whole([Ask(0, "现在几点了"), Ask(0, "现在几点了")])
    assert (course.ends, course.embedded) == ([MISS, EXACT], 0)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=40), st.integers(0, 20), st.integers(0, 20))
def test_every_question_comes_to_one_end(drawn, serve, grey):
    """Whatever the policy: no more hits by an exact tier alone than the ceiling, and each question counted once."""
    stream = [Ask(cluster, f"word{cluster} text{number} {cluster}") for cluster, number in drawn]
    course = run(Cut(serve / 20, grey / 20), stream, vectors())
    known = ceilings(stream)
    ends = course.count()
    assert ends.total() == len(stream) == known.asks
    assert ends[WRONG] == sum(course.wrong.values())
    assert ends[EXACT] <= known.texts <= known.clusters
    assert ends[EXACT] + ends[SEMANTIC] <= known.clusters
    assert course.embedded == len(stream) - ends[EXACT]
    assert course.wrong_texts <= ends[WRONG]
    alone = run(Cut(2.0), stream, vectors()).count()
    assert (alone[EXACT], alone[MISS]) == (known.texts, len(stream) - known.texts)
