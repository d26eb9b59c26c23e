"""A policy is swapped in: the scores mean something else from one request to the next, and what is aimed at holds on."""

import math
import random
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st
from streams import worst, worst_of

from routing.aims import Aim, Told
from routing.cuts import Begin, Cuts
from routing.quality import REACH as QUALITY_REACH
from routing.share import REACH

SCORES = st.one_of(st.sampled_from([0.0, 0.2, 0.5, 0.7, 1.0]), st.floats(0, 1))
CHANCES = st.tuples(st.floats(0, 1), st.floats(0, 1))
ROUTES = {"": Aim("threshold", 0.5), "shared": Aim("large", 0.3), "floor": Aim("quality", 0.9)}
TENANTS = {"acme": Aim("large", 0.3), "globex": Aim("large", 0.3)}
DRAWN = 0.618033988749895


def pairs_of(scores):
    """Chances of both tiers that come to such scores."""
    return [(1.0 - score, score) for score in scores]


def ask(cuts, route, tenant, score, place=0):
    """Whether it goes up, and what is told of it."""
    cut = cuts.scope(route, tenant).cut(lambda: place * DRAWN % 1.0)
    up = score >= cut.threshold
    return Told(up, True, score, 1.0 - score, score)


def send(cuts, route, tenant, scores):
    ups = []
    for place, score in enumerate(scores):
        told = ask(cuts, route, tenant, score, place)
        cuts.tell(route, tenant, told)
        ups.append(told.up)
    return ups


@given(st.lists(st.tuples(st.lists(SCORES, min_size=1, max_size=60), st.lists(SCORES, max_size=8)), min_size=1, max_size=12))
def test_whatever_is_swapped_in_and_however_often_the_share_is_kept(swaps):
    """Of any requests in a row, over swaps to policies whose held-out scores promise nothing true, the share goes up, give or
    take the number that is stated for one policy.
    """
    cuts, ups = Cuts(ROUTES, {}, Begin(0.4)), []
    for scores, prior in swaps:
        ups += send(cuts, "shared", "", scores)
        cuts.renew(ROUTES, Begin(0.4, pairs_of(prior)))
    assert worst(ups, 0.3) <= 2 + REACH * (math.cbrt(0.3) + math.cbrt(0.7)) + 1e-6


@given(st.lists(st.tuples(st.lists(CHANCES, min_size=1, max_size=40), CHANCES), min_size=1, max_size=12))
def test_whatever_is_swapped_in_the_floor_is_kept(swaps):
    """No swap makes more answers go missing than one policy may."""
    cuts, missing = Cuts(ROUTES, {}, Begin(0.4, [(0.5, 0.5)])), 0.0
    for chances, prior in swaps:
        for small, large in chances:
            up = (1 + large - small) / 2 >= cuts.scope("floor", "").cut(lambda: 0.5).threshold
            cuts.tell("floor", "", Told(up, True, (1 + large - small) / 2, small, large))
            missing += 0.9 * large - (large if up else small)
            assert missing <= QUALITY_REACH + 1 + 1e-6
        cuts.renew(ROUTES, Begin(0.4, [prior]))


@pytest.mark.parametrize(("route", "tenant"), [("shared", "somebody"), ("", "acme")], ids=["a route", "a tenant"])
def test_the_window_starts_from_the_new_policys_prior(route, tenant):
    """Two policies of other scales take turns over one stream: from the first request after a swap on the share is right, and
    those that go up are the hardest by the policy of the moment, as if nothing had happened.
    """
    dice = random.Random(3)
    scales = [lambda hard: 0.05 + hard / 5, lambda hard: 0.6 + hard / 3]
    held_out = [place / 64 for place in range(64)]
    cuts = Cuts(ROUTES, TENANTS, Begin(0.4, pairs_of(map(scales[0], held_out))))
    ups, hardness = [], []
    for turn in range(8):
        hard = [dice.random() for _ in range(300)]
        hardness += hard
        ups += send(cuts, route, tenant, map(scales[turn % 2], hard))
        begin = Begin(0.4, pairs_of(map(scales[(turn + 1) % 2], held_out)))
        cuts.renew(ROUTES, begin)
    assert worst_of(ups, 0.3, 500) < 0.02
    for swap in range(300, 2400, 300):
        after = range(swap, swap + 60)
        assert sum(ups[at] for at in after) == pytest.approx(0.3 * 60, abs=5)
        above = [hardness[at] for at in after if ups[at]]
        best = sorted(hardness[at] for at in after)[-len(above) :]
        assert sum(above) / sum(best) > 0.95, "what went up was not the hardest"


def test_a_raw_threshold_that_was_nobodys_choice_is_the_new_policys():
    """The usual threshold is another one from the swap on; that of a tenant, who chose it, is not."""
    cuts = Cuts(ROUTES, {"own": Aim("threshold", 0.8)}, Begin(0.4))
    cuts.renew({**ROUTES, "": Aim("threshold", 0.62)}, Begin(0.61))
    standing = cuts.scope("", "somebody").standing()
    assert (standing.aim.value, standing.cut, cuts.scope("", "somebody").cut(lambda: 0.0).threshold) == (0.62, 0.62, 0.62)
    assert cuts.scope("", "own").cut(lambda: 0.0).threshold == 0.8


def test_who_cannot_be_rated_stands_where_the_new_policy_puts_him():
    """Below the new threshold, not the old one."""
    cuts = Cuts(ROUTES, {}, Begin(0.9, pairs_of([0.5] * 64)))
    assert cuts.scope("shared", "").cut(lambda: 0.5).lets_up()
    cuts.renew(ROUTES, Begin(0.2, pairs_of([0.5] * 64)))
    assert not cuts.scope("shared", "").cut(lambda: 0.5).lets_up()


def test_what_the_old_policy_rated_is_no_score_of_the_new_window():
    """Requests that were decided before the swap and sent after it count in the share, and leave the cut where it is."""
    for tenant in ("somebody", "acme"):
        cuts = Cuts(ROUTES, TENANTS, Begin(0.4, pairs_of([0.1, 0.2, 0.3, 0.4])))
        told = [ask(cuts, "shared", tenant, 0.4 * place / 40, place) for place in range(40)]
        waiting = [cuts.expect("shared", tenant, one) for one in told]
        cuts.renew(ROUTES, Begin(0.4, pairs_of([0.7, 0.8, 0.9, 1.0])))
        for one, expected in zip(told, waiting, strict=True):
            cuts.tell("shared", tenant, one, expected)
        standing = cuts.scope("shared", tenant).standing()
        assert standing.cut >= 0.7
        assert standing.seen == 40


def test_what_was_owed_before_a_swap_is_owed_after_it():
    """Requests under way are in the account over a swap, and leave it when they are forgone."""
    cuts = Cuts(ROUTES, {}, Begin(0.4, pairs_of([0.5])))
    waiting = [cuts.expect("shared", "", Told(True, True, 0.5)) for _ in range(12)]
    cuts.renew(ROUTES, Begin(0.4, pairs_of([0.1])))
    assert not any(ask(cuts, "shared", "", 0.99, place).up for place in range(9)), "twelve too many were sent already"
    for one in waiting:
        one.forgo()
    sums = list(accumulate(send(cuts, "shared", "", [0.5] * 100)))
    assert sums[-1] == pytest.approx(30, abs=5)
