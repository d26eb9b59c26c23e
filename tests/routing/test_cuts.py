"""Whose aim holds for a request, and that nobody's requests move another's cut."""

import math
import random
import statistics

import pytest

from routing.aims import Aim, Cut, Told
from routing.cuts import CROWD, PRIOR, Begin, Cuts, thinned

ROUTES = {"": Aim("threshold", 0.5), "thrifty": Aim("large", 0.1)}
TENANTS = {"acme": Aim("large", 0.3), "globex": Aim("large", 0.3), "raw": Aim("threshold", 0.8)}
BEGIN = Begin(0.499)


def serve(cuts, route, tenant, score, drawn=0.5):
    cut = cuts.scope(route, tenant).cut(lambda: drawn)
    up = cut.lets_up() if score is None else score >= cut.threshold
    cuts.tell(route, tenant, Told(up, True, score))
    return up


def test_the_most_specific_aim_holds():
    """A tenant's own aim, on every route; else the route's."""
    cuts = Cuts(ROUTES, TENANTS, BEGIN)

    def aim(route, tenant):
        return cuts.scope(route, tenant).standing().aim

    assert aim("", "acme") == aim("thrifty", "acme") == TENANTS["acme"]
    assert aim("", "raw") == TENANTS["raw"]
    assert aim("", "somebody") == ROUTES[""]
    assert aim("thrifty", "somebody") == ROUTES["thrifty"]
    assert (cuts.owner("acme"), cuts.owner("somebody")) == ("acme", "")


def test_a_raw_threshold_is_that():
    """Nothing moves it, and it lets the unrated go where they go."""
    cuts = Cuts(ROUTES, {}, BEGIN)
    for _ in range(300):
        assert cuts.scope("", "acme").cut(lambda: 0.0) == Cut(0.5)
        serve(cuts, "", "acme", 0.9)
    standing = cuts.scope("", "acme").standing()
    assert (standing.cut, standing.share, standing.seen) == (0.5, 1.0, 300)


def test_who_stuffs_keywords_stays_within_its_own_share_and_moves_nobody_elses():
    """A tenant whose requests all score the most gets its 30 %, and the other is cut exactly as if it were alone."""
    dice = random.Random(1)
    honest = [dice.betavariate(2, 4) for _ in range(2000)]
    alone, together = Cuts(ROUTES, TENANTS, BEGIN), Cuts(ROUTES, TENANTS, BEGIN)
    expected = [serve(alone, "", "acme", score) for score in honest]
    got, stuffed = [], []
    for place, score in enumerate(honest):
        got.append(serve(together, "", "acme", score))
        if place == CROWD:  # until then both are new
            stuffed = [serve(together, "", "globex", 0.999, dice.random()) for _ in range(CROWD)]
        elif place > CROWD:
            stuffed += [serve(together, "", "globex", 0.999, dice.random()) for _ in range(5)]
    assert got == expected
    assert statistics.mean(stuffed) == pytest.approx(0.3, abs=0.01)


def test_routes_of_one_tenant_keep_their_own_accounts():
    """What a tenant sends under one route moves nothing under another; each keeps the share."""
    cuts, dice = Cuts(ROUTES, TENANTS, BEGIN), random.Random(2)
    low = [serve(cuts, "", "acme", dice.betavariate(2, 8), dice.random()) for _ in range(1500)]
    high = [serve(cuts, "thrifty", "acme", dice.betavariate(8, 2), dice.random()) for _ in range(1500)]
    assert statistics.mean(low) == pytest.approx(0.3, abs=0.02)
    assert statistics.mean(high) == pytest.approx(0.3, abs=0.02)


@pytest.mark.parametrize("flying", [0, 8])
@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.8])
def test_what_a_tenant_was_sent_while_it_was_new_is_in_its_account(share, flying):
    """Among new ones with easier asks a tenant is sent up more than its share; from its first request on that is never more than
    its 16 first requests and what is on its way make, or the bound of a share, whichever is more; and it is paid back.
    """
    tenants = {f"t{number}": Aim("large", share) for number in range(400)}
    cuts, dice = Cuts({"": Aim("threshold", 0.5)}, tenants, BEGIN), random.Random(5)
    worst, ups, way = 0.0, [], []
    for turn in range(400):
        for _ in range(3):
            serve(cuts, "", f"t{turn}", dice.uniform(0.0, 0.2), dice.random())
        score = dice.uniform(0.8, 1.0)
        up = score >= cuts.scope("", "t0").cut(dice.random).threshold
        told = Told(up, True, score)
        way.append((told, cuts.expect("", "t0", told)))
        if len(way) > flying:
            cuts.tell("", "t0", *way.pop(0))
        ups.append(up)
        worst = max(worst, sum(ups) - share * len(ups))
    assert worst <= max(9.0, (1 - share) * CROWD) + flying
    assert sum(ups) - share * len(ups) <= 9.0


def test_fifty_thousand_tenants_of_one_plan_keep_its_share_in_bounded_memory():
    """Tenants that come and go faster than windows are kept are a crowd, and the crowd keeps the share."""
    tenants = {f"t{number}": Aim("large", 0.2) for number in range(50_000)}
    cuts, dice = Cuts({"": Aim("threshold", 0.5)}, tenants, BEGIN, most=100), random.Random(3)
    ups = [serve(cuts, "", f"t{dice.randrange(50_000)}", dice.betavariate(2, 4), dice.random()) for _ in range(20_000)]
    assert statistics.mean(ups[500:]) == pytest.approx(0.2, abs=0.01)
    assert len(cuts._own) <= 100


def test_a_tenant_that_stays_has_its_own_window_among_many_that_do_not():
    """The least recently seen lose theirs: who keeps coming keeps the share by itself."""
    tenants = {f"t{number}": Aim("large", 0.2) for number in range(5000)} | {"acme": Aim("large", 0.2)}
    cuts, dice = Cuts({"": Aim("threshold", 0.5)}, tenants, BEGIN, most=50), random.Random(4)
    own = []
    for _ in range(3000):
        serve(cuts, "", f"t{dice.randrange(5000)}", dice.betavariate(6, 2), dice.random())
        own.append(serve(cuts, "", "acme", dice.betavariate(2, 6), dice.random()))
    assert statistics.mean(own[200:]) == pytest.approx(0.2, abs=0.01)


def test_the_prior_is_thinned_evenly():
    """Of many held-out pairs so many are kept as a window begins with, from all over their order."""
    pairs = [(place / 1000, 1.0) for place in range(1000)]
    kept = thinned(pairs)
    assert len(kept) == PRIOR
    assert statistics.mean(small for small, _ in kept) == pytest.approx(0.5, abs=0.01)
    assert thinned(pairs[:10]) == pairs[:10]


def test_a_share_begins_at_the_quantile_of_what_was_held_out():
    """With pairs of chances the first cut of a share is that quantile of their scores."""
    begin = Begin(0.499, pairs=[(1 - place / 100, place / 100) for place in range(100)])
    cuts = Cuts({"": Aim("large", 0.25), "q": Aim("quality", 0.9)}, {}, begin)
    assert cuts.scope("", "acme").standing().cut == pytest.approx(0.75, abs=0.02)
    assert cuts.scope("q", "acme").standing().aim.kind == "quality"


@pytest.mark.parametrize("wild", [math.nan, math.inf, -1.0, 1.5])
def test_what_is_no_chance_is_not_known(wild):
    """A classifier that says what cannot be poisons no window: such a request is one without a score."""
    for aim in (Aim("large", 0.3), Aim("quality", 0.9)):
        one, other = (Cuts({"": aim}, {}, Begin(0.499, pairs=[(0.3, 0.6)] * 9)) for _ in range(2))
        for up in (True, False, False):
            one.tell("", "acme", Told(up, True, wild, 0.2, wild))
            other.tell("", "acme", Told(up, True))
        assert one.scope("", "acme").standing() == other.scope("", "acme").standing()


def test_looking_changes_nothing():
    """Who asks for a cut again and again finds the same one."""
    cuts = Cuts(ROUTES, TENANTS, BEGIN)
    before = [cuts.scope(route, tenant).standing() for route in ROUTES for tenant in TENANTS]
    for _ in range(100):
        for route in ROUTES:
            for tenant in TENANTS:
                cuts.scope(route, tenant).cut(lambda: 0.3)
    assert [cuts.scope(route, tenant).standing() for route in ROUTES for tenant in TENANTS] == before
