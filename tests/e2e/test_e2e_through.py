"""What comes through the gateway is what vLLM says: asked the same directly, through it, and of what it keeps, in either mode."""

import json

import pytest
import through
from e2e_fleet import KEYS
from e2e_programs import BACKEND_KEY

CASES = list(through.cases())


def direct(fleet, case):
    return through.ask(fleet.small.port, case, "e2e-small", BACKEND_KEY)


def passed(fleet, case, **headers):
    return through.ask(fleet.gateway.port, case, "auto", KEYS["acme"], **headers)


@pytest.fixture(scope="module")
def kept(fleet):
    """Nothing else asks meanwhile, so that the engine's sums come out the same."""
    fleet.settle()


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CASES])
def test_an_answer_under_auto_is_the_engines(fleet, kept, case):
    """Status, framing, order of keys, types, nulls, every word and count: those of vLLM, with and without a stream."""
    theirs, ours = direct(fleet, case), passed(fleet, case, **{"x-tiergate-cache": "no-cache"})
    assert ours.headers["x-tiergate-model"] == "small"
    assert through.differences(theirs, ours, fingerprint=case.told_at_the_end) == []


@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CASES if case.keeps and not case.stream])
def test_a_kept_answer_is_the_engines_in_either_mode(fleet, kept, case):
    """What a stream left is the whole answer, and what a whole answer left is a stream; one that was cut short is not kept."""
    for turned in (case, case.other_mode()):
        fresh = turned.with_words(f"{turned.name} {turned.stream}")
        made = passed(fleet, fresh)
        assert made.headers["x-tiergate-cache"].startswith("miss"), made.headers
        assert through.differences(direct(fleet, fresh), made, fingerprint=fresh.told_at_the_end) == []
        fleet.settle()
        for again in (fresh, fresh.other_mode()):
            hit = passed(fleet, again)
            assert hit.headers["x-tiergate-cache"] == ("miss" if through.was_cut(made) else "exact"), made.text
            assert through.differences(direct(fleet, again), hit, kept=True) == [], json.dumps(again.body)
