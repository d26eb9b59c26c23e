"""When asking the small tier first pays: the switch on streams whose rate is known, and on public answers."""

import math
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.cascade import EVERY, LENGTHS, RECORD, Switch, Worth

ANSWERS = Path(__file__).parents[3] / "shared/data/routing/cascade_answers.jsonl.gz"


def run(switch, answered):
    """Which of the requests were tried."""
    tried = []
    for small in answered:
        tried.append(switch.tries())
        if tried[-1]:
            switch.saw(escalated=not small)
    return tried


def stream(rate, length, seed):
    rng = random.Random(seed)
    return [rng.random() < rate for _ in range(length)]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("rate", [0.0, 0.2, 0.35, 0.45])
def test_what_does_not_pay_is_noticed(rate, seed):
    """Off within 64 requests where the small tier answers far too few, and from then on one in 32 is tried."""
    tried = run(Switch(), stream(rate, 3000, seed))
    assert sum(tried[:64]) < 64
    rarely = 1000 // EVERY + 1
    assert sum(tried[2000:]) <= rarely + (LENGTHS[2] if rate > 0.4 else 0)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("rate", [0.75, 0.8, 0.9, 1.0])
def test_what_pays_stays_on(rate, seed):
    """Never off where the small tier answers three of four and more."""
    assert all(run(Switch(), stream(rate, 3000, seed)))


def test_it_comes_back():
    """Traffic that has become easy is noticed by the rare tries, after some 20 of them."""
    switch = Switch()
    run(switch, [False] * 100)
    assert not switch.on
    tried = run(switch, stream(0.95, 40 * EVERY, 1))
    assert switch.on
    assert all(tried[-100:])


@pytest.mark.parametrize("rate", [0.2, 0.9])
def test_who_shares_memory_learns_as_one(rate):
    """Four that take turns try what one would that sees all of it, go off and on at once, and so does who comes later."""
    memory, alone = bytearray(RECORD), Switch(route="auto")
    together = [Switch(route="auto", memory=memory) for _ in range(4)]
    for place, small in enumerate([*stream(rate, 400, 3), *stream(0.95, 40 * EVERY, 1)]):
        one = together[place % 4]
        tried = one.tries()
        assert tried == alone.tries()
        if tried:
            assert one.saw(escalated=not small) == alone.saw(escalated=not small)
        assert {other.on for other in (*together, Switch(route="auto", memory=memory))} == {alone.on}


@given(st.binary(min_size=RECORD, max_size=RECORD), st.booleans())
def test_memory_that_says_nothing_is_not_believed(rubbish, torn):
    """Torn, or of another route or price: what was known here before counts, and the next try mends it."""
    memory = bytearray(RECORD)
    switch = Switch(route="auto", memory=memory)
    run(switch, [False] * 40)
    assert not switch.on
    if torn:
        memory[20:] = rubbish[20:]
    else:
        run(Switch(Worth(price=0.2), route="auto", memory=memory), [True] * 3)
    assert not switch.on
    switch.passed()
    assert not Switch(route="auto", memory=memory).on


@given(st.lists(st.booleans(), max_size=600))
def test_it_is_bounded_and_deterministic(answered):
    """The same stream makes the same tries; off, at least one request in 32 is tried, and a change needs sixteen tries."""
    one, other = Switch(), Switch()
    tried = run(one, answered)
    assert tried == run(other, answered)
    gap = longest = 0
    for it in tried:
        gap = 0 if it else gap + 1
        longest = max(longest, gap)
    assert longest < EVERY
    assert all(tried[: LENGTHS[0]])


@given(st.floats(0.001, 1.0), st.integers(1, 3), st.floats(0, 1))
def test_what_is_enough(price, calls, floor):
    """It saves more than the tries cost, and answers at least what two draws of a tier that is good enough agree on."""
    enough = Worth(price, calls, floor).enough
    assert enough == 1.0 or enough > calls * price
    assert floor * floor <= enough + 1e-12


@pytest.mark.parametrize("seed", range(3))
def test_public_answers(seed):
    """Two small models before a large one keep GSM8K's accuracy at .45 of the cost; on MMLU-Pro the switch goes off."""
    if not ANSWERS.exists():
        pytest.skip(f"no {ANSWERS}")
    from gateway.lab.routing.answers import load_answers
    from gateway.lab.routing.replay import Trio, having, replayed
    from routing.agreement import agree

    questions = load_answers(ANSWERS)
    for dataset, trio in (
        ("gsm", Trio("llama-3.1-8b-instruct", "gemma-2-9b-it", "llama-3.1-70b-instruct")),
        ("gsm", Trio("llama-3-8b-instruct", "llama-3.1-8b-instruct", "llama-3.1-70b-instruct")),
        ("mmlu_pro", Trio("llama-3.1-8b-instruct", "qwen1.5-7b-chat", "llama-3.1-70b-instruct")),
    ):
        found = having([it for it in questions if it.dataset == dataset], trio)
        told = replayed(found, trio, lambda one, other: agree(one, other) is True, Switch(), 20, seed)["switched"]
        if dataset == "gsm":
            assert told["tried"] == 1.0
            assert told["accuracy"] >= 0.9345
            assert told["cost_by_call"] <= 0.4505
        else:
            assert told["tried"] < 0.05
            assert math.isclose(told["cost_by_call"], 1.0, abs_tol=0.01)
            assert told["over_large"]["value"] > -0.005
