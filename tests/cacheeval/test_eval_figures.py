"""Counts, intervals, curves, halves and calibration: held against figures told by hand, and against each other."""

import math

import pytest
from eval_words import Cut, WordModel, opened
from hypothesis import given
from hypothesis import strategies as st

from gateway.lab.cacheeval.calibrate import at, calibrate, lines, lowest, needed
from gateway.lab.cacheeval.clusters import clusters_of
from gateway.lab.cacheeval.curve import MAX_POINTS, curve
from gateway.lab.cacheeval.halves import halves
from gateway.lab.cacheeval.judge import ScriptedJudge
from gateway.lab.cacheeval.lookups import look_up, lookups
from gateway.lab.cacheeval.pairs import Data, Kind, Pair
from gateway.lab.cacheeval.policies import Cosine
from gateway.lab.cacheeval.scoring import Candidate, candidates, score
from gateway.lab.cacheeval.vectors import BATCH, Vectors
from gateway.lab.cacheeval.wilson import Share, wilson


def data(*pairs, kind=Kind.PAIRS):
    return Data("data", kind, (), tuple(pairs))


def vectors(model=None):
    it = opened(model)
    return Vectors(it.model, it.covers)


@pytest.mark.parametrize(
    ("hits", "of", "low", "high"),
    [
        (0, 10, 0.0, 0.2775),  # published tables of the score interval without continuity correction
        (1, 10, 0.0179, 0.4042),
        (5, 10, 0.2366, 0.7634),
        (10, 10, 0.7225, 1.0),
        (81, 263, 0.2553, 0.3662),  # R. G. Newcombe, Statistics in Medicine 17 (1998), table I
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
        (0, 0, 0.0, 1.0),
    ],
)
def test_wilson_against_known_values(hits, of, low, high):
    """To four digits, the ends exact where nothing or everything was hit."""
    assert wilson(hits, of) == pytest.approx((low, high), abs=5e-5)


@pytest.mark.parametrize(("hits", "of"), [(-1, 3), (4, 3)])
def test_an_impossible_share_is_refused(hits, of):
    """More hits than trials are a mistake in the caller, not a share."""
    with pytest.raises(ValueError, match="is no share"):
        wilson(hits, of)


@given(st.integers(0, 500), st.integers(0, 500))
def test_an_interval_holds_its_point(hits, more):
    """And lies in 0..1, and is the mirror image of that of the misses."""
    low, high = wilson(hits, hits + more)
    point = Share(hits, hits + more).point
    assert 0 <= low <= (point if point is not None else 0.5) <= high <= 1
    assert wilson(more, hits + more) == pytest.approx((1 - high, 1 - low), abs=1e-9)


CANDIDATES = st.lists(
    st.builds(
        lambda cosine, same, number, category: Candidate(Pair(f"a{number}", f"b{number}", same, category), cosine, "history"),
        st.one_of(st.none(), st.integers(0, 20).map(lambda steps: steps / 20)),
        st.booleans(),
        st.integers(0, 30),
        st.sampled_from(["", "x", "y"]),
    ),
    max_size=60,
)


@given(CANDIDATES, st.integers(0, 20), st.integers(0, 20))
def test_sums_add_up(seen, serve, grey):
    """Every pair is counted once: wanted or trap, served or refused for a reason, in its category and in the whole."""
    for judge in (None, ScriptedJudge(0.5, 0.5)):
        found = score(Cut(serve / 20, grey / 20), seen, judge)
        total = found.total
        assert total.wanted + total.traps == len(seen)
        assert total.served + found.refused.total() == total.wanted
        assert total.wrong + found.stopped.total() == total.traps
        for name in ("wanted", "served", "traps", "wrong"):
            assert sum(getattr(part, name) for part in found.categories.values()) == getattr(total, name)
        assert found.asked == (
            0 if judge is None else sum(1 for it in seen if it.cosine is not None and grey <= it.cosine * 20 < serve)
        )


@given(CANDIDATES)
def test_a_curve_is_what_each_cut_does(seen):
    """Each point counts what a policy with that cut serves, and no cut that holds a bound would serve more than the widest."""
    scored = [(it.cosine, it.pair.same) for it in seen]
    found = curve("all", scored)
    assert [point.cut for point in found.points] == sorted({it.cosine for it in seen if it.cosine is not None}, reverse=True)
    for point in found.points:
        total = score(Cosine(point.cut), seen).total
        assert (total.served, total.wrong) == (point.served, point.wrong)
        widest = found.widest(point.error)
        assert widest.error <= point.error
        assert widest.served >= point.served


def test_a_long_curve_is_thinned():
    """For the JSON and the picture, its last point kept."""
    found = curve("long", [(place / 1000, place % 3 > 0) for place in range(1000)])
    thin = found.thinned()
    assert len(thin) <= MAX_POINTS + 1
    assert (thin[0], thin[-1]) == (found.points[0], found.points[-1])
    assert found.widest(0.0) is None or found.widest(0.0).error == 0.0


def test_pairs_by_hand():
    """Four pairs whose cosines are 1, 1/2, 1/2 and barred by their history."""
    seen = candidates(
        data(
            Pair("red fox", "fox red", same=True),
            Pair("red fox", "red dog", same=True, category="half"),
            Pair("blue cat", "blue dog", same=False, category="half"),
            Pair("yes", "yes", same=False, barred="history"),
        ),
        vectors(),
    )
    assert [it.cosine for it in seen] == [pytest.approx(1.0), pytest.approx(0.5), pytest.approx(0.5), None]
    found = score(Cosine(0.4), seen)
    assert (found.total.served, found.total.wanted, found.total.wrong, found.total.traps) == (2, 2, 1, 2)
    assert found.stopped == {"history": 1}
    assert found.examples == [{"stored": "blue cat", "asked": "blue dog", "cosine": pytest.approx(0.5), "category": "half"}]


def test_texts_without_a_vector_are_not_served():
    """Too long for the embedder, or in a script that it does not read: those are not even embedded."""
    model = WordModel()
    seen = candidates(data(Pair("a long text", "a long text", same=True), Pair("现在", "现在", same=True)), vectors(model))
    assert score(Cosine(-1.0), seen).refused == {"no vector": 2}
    assert model.embedded == ["a long text"]


def test_a_text_is_embedded_once():
    """In batches, and each step is told."""
    model, told = WordModel(), []
    texts = [f"word{number}" for number in range(BATCH + 1)]
    it = vectors(model)
    it.learn(texts * 2, lambda done, of: told.append((done, of)))
    it.learn(texts)
    it.of("word1")
    assert sorted(model.embedded) == sorted(texts)
    assert told == [(BATCH, BATCH + 1), (BATCH + 1, BATCH + 1)]


def test_the_judge_errs_as_often_as_it_says():
    """With its seed the same for the same pair, whatever came before; another seed errs elsewhere."""
    judge = ScriptedJudge.parse("0.9/0.2", seed=1)
    rights = [judge.approves(str(number), "x", same=True) for number in range(2000)]
    wrongs = [judge.approves(str(number), "x", same=False) for number in range(2000)]
    assert sum(rights) == pytest.approx(1800, abs=60)
    assert sum(wrongs) == pytest.approx(400, abs=60)
    assert rights == [judge.approves(str(number), "x", same=True) for number in range(2000)]
    assert rights != [ScriptedJudge(0.9, 0.2, seed=2).approves(str(number), "x", same=True) for number in range(2000)]


@pytest.mark.parametrize("text", ["0.9", "0.9/0.1/0.1", "a/b", "1.1/0", "nan/0", ""])
def test_what_is_no_judge(text):
    """Two shares with a slash between them, or a line that says so."""
    with pytest.raises(ValueError, match="is no judge"):
        ScriptedJudge.parse(text)


def test_lookups_by_hand():
    """The nearest is served where the policy takes it, else the next; an origin stored twice is one answer."""
    table = data(
        Pair("red fox", "the red fox", same=True),
        Pair("red fox", "red fox now", same=True),
        Pair("never ever", "never red fox", same=True),
        Pair("blue cat", "green bird", same=True),
        Pair("blue", "blue cat", same=True),
        kind=Kind.LOOKUPS,
    )
    found = look_up(Cut(0.4, refused="never"), lookups(table, vectors()))
    assert (found.asked, found.right, found.wrong) == (5, 3, 1)
    assert found.missed == {"similarity": 1}
    assert found.examples == [{"stored": "blue cat", "asked": "blue cat", "wanted": "blue", "cosine": pytest.approx(1.0)}]


def test_a_judge_is_asked_about_the_best_open_one():
    """Once a lookup, and what it rejects is missed."""
    table = data(Pair("red fox", "red dog", same=True), Pair("blue cat", "blue bat", same=True), kind=Kind.LOOKUPS)
    asks = lookups(table, vectors())
    approving = look_up(Cut(0.9, grey=0.4), asks, ScriptedJudge(1.0, 0.0))
    assert (approving.right, approving.verified) == (2, 2)
    rejecting = look_up(Cut(0.9, grey=0.4), asks, ScriptedJudge(0.0, 0.0))
    assert (rejecting.right, rejecting.verified, rejecting.missed.total()) == (0, 2, 2)


def test_clusters():
    """Right pairs join, traps inside a cluster are conflicts, and what has no equivalent is left out."""
    found = clusters_of(
        [
            Pair("c", "d", same=True),
            Pair("a", "b", same=True),
            Pair("d", "e", same=True),
            Pair("c", "e", same=False),
            Pair("a", "c", same=False),
            Pair("a", "x", same=False),
        ]
    )
    assert [set(group) for group in found.members] == [{"c", "d", "e"}, {"a", "b"}]
    assert (found.conflicts, found.alone) == (1, 1)
    assert found.apart == {(0, 1)}


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12), st.booleans()), max_size=40))
def test_clusters_are_what_right_pairs_connect(edges):
    """Held against a search through the graph."""
    pairs = [Pair(str(a), str(b), same=same) for a, b, same in edges]
    near = {str(number): {str(number)} for number in range(13)}
    for _ in range(13):
        for pair in pairs:
            if pair.same:
                near[pair.a] |= near[pair.b]
                near[pair.b] |= near[pair.a]
    texts = {text for pair in pairs for text in (pair.a, pair.b)}
    groups = {frozenset(near[text]) for text in texts}
    found = clusters_of(pairs)
    assert {frozenset(group) for group in found.members} == {group for group in groups if len(group) > 1}
    assert found.alone == sum(len(group) == 1 for group in groups)
    assert found.conflicts == sum(not pair.same and pair.b in near[pair.a] for pair in pairs)


@given(CANDIDATES, st.integers(0, 5))
def test_halves_share_no_text(seen, seed):
    """Selection and test are apart, nothing is lost, and the same seed gives the same halves."""
    one, other = halves(seen, seed)
    assert sorted(map(repr, one + other)) == sorted(map(repr, seen))
    assert not {it.pair.a for it in one} & {it.pair.a for it in other}
    assert halves(seen, seed) == (one, other)


def test_how_much_evidence_a_bound_takes():
    """So many served without an error, and one fewer is too few."""
    for bound, count in ((0.02, 189), (0.005, 765), (0.5, 4)):
        assert needed(bound) == count
        assert wilson(0, count)[1] <= bound < wilson(0, count - 1)[1]


def test_calibration_by_hand():
    """The lowest cut whose upper bound is held on one half, told on the other."""
    chosen = [(0.9, True)] * 200 + [(0.8, False)] * 10 + [(None, True)]
    told = [(0.95, True)] * 6 + [(0.9, False)] * 2 + [(0.89, True)] * 2
    found = calibrate(curve("chosen", chosen), chosen, told, 0.02)
    assert found.cut == 0.9
    assert (found.chosen.served, found.chosen.wanted, found.chosen.wrong, found.chosen.traps) == (200, 201, 0, 10)
    assert (found.told.served, found.told.wanted, found.told.wrong, found.told.traps) == (6, 8, 2, 2)


def test_too_little_evidence_chooses_nothing():
    """Better no cut than one that nobody can vouch for."""
    chosen = [(0.9, True)] * 188
    assert calibrate(curve("chosen", chosen), chosen, [], 0.02).cut is None


def test_the_lines_for_a_config():
    """A preset whose own cut holds needs no other, where the embedder has one; else the cut that serves most is named."""
    scored = [(0.9, True)] * 200 + [(0.4, True)] * 100
    halves_of = {"strict": scored[:200], "balanced": scored}
    found = {name: calibrate(curve(name, part), part, [], 0.02) for name, part in halves_of.items()}
    own = {name: at(0.5, scored) for name in found}
    assert [line for line in lines(found, own, 0.02, measured=True) if "cut:" in line] == []
    assert lines(found, own, 0.02, measured=False)[2:4] == [
        "    preset: balanced",
        "    cut: 0.4000  # of this embedder alone: holds the bound on these data",
    ]
    bad = {name: at(0.5, [(0.9, False)] * 200) for name in found}
    assert lines(found, bad, 0.02, measured=True)[3].startswith("    cut: 0.4000")


@given(CANDIDATES, st.sampled_from([0.05, 0.2, 0.5]))
def test_a_chosen_cut_holds_its_bound(seen, bound):
    """Whatever the data, and no lower cut does."""
    scored = [(it.cosine, it.pair.same) for it in seen]
    found = curve("all", scored)
    point = lowest(found, bound)
    for other in found.points:
        held = wilson(other.wrong, other.served + other.wrong)[1] <= bound
        assert not held or (point is not None and point.cut <= other.cut)
    if point is not None:
        count = at(point.cut, scored)
        assert wilson(count.wrong, count.served + count.wrong)[1] <= bound
        assert math.isclose(count.served, point.served)
