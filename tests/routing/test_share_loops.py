"""Turns of tool loops count in the share, and do not make the choice of the asks blind."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from streams import EVEN

from routing.aims import Aim, Told
from routing.share import LOOPS, REACH, SLACK, Share

UP, DOWN = Told(True, open=False, looped=True), Told(False, open=False, looped=True)
FORCED = Told(True, open=False)


def scope(share=0.3):
    return Share(Aim("large", share), EVEN, 0.499)


def ask(one, score, dice):
    up = score >= one.cut(dice.random).threshold
    one.tell(Told(up, True, score))
    return up


def agents(length, count, asks, seed=1):
    """`count` of them at once, each with loops of such a mean length after each ask: (score, went up) of the asks, and where
    each of all requests went.
    """
    dice, one = random.Random(seed), scope()
    asked, sent, running = [], [], []
    while asks or running:
        while asks and len(running) < count:
            asks -= 1
            score = dice.random()
            up = ask(one, score, dice)
            asked.append((score, up))
            sent.append(up)
            running.append([up, int(dice.expovariate(1 / length))])
        turn = dice.choice(running)
        if turn[1]:
            turn[1] -= 1
            one.tell(UP if turn[0] else DOWN)
            sent.append(turn[0])
        else:
            running.remove(turn)
    return asked, sent


@pytest.mark.parametrize("count", [1, 20], ids=["one agent", "twenty"])
@pytest.mark.parametrize("length", [3, 10, 30])
def test_agents_keep_the_share_and_the_hardest_asks_go_up(length, count):
    """With loops of 3 to 30 turns after each ask 30 % of all requests go up, and they are those of the hardest asks."""
    asked, sent = agents(length, count, 2000)
    assert sum(sent) / len(sent) == pytest.approx(0.3, abs=0.03)
    up = [score for score, went in asked if went]
    best = sorted(score for score, _ in asked)[-len(up) :]
    chance = sum(score for score, _ in asked) / len(asked) * len(up)
    assert (sum(up) - chance) / (sum(best) - chance) > 0.9


@pytest.mark.parametrize("length", [10, 100])
def test_who_makes_loops_up_gets_the_share_of_all_that_he_sends_and_no_more(length):
    """A client that lets each ask that went up be followed by as many turns as may be, and none by those that stay down."""
    dice, one, sent = random.Random(1), scope(), []
    while len(sent) < 40_000:
        up = ask(one, 0.999, dice)
        sent.append(up)
        if up:
            for _ in range(length):
                one.tell(UP)
            sent += [True] * length
    assert sum(sent) / len(sent) == pytest.approx(0.3, abs=0.02)


@given(st.lists(st.tuples(st.sampled_from("anlf"), st.integers(1, 40)), min_size=1, max_size=40), st.floats(0.05, 0.95))
def test_no_loop_starves_what_comes_after_it_for_ever(pieces, share):
    """Whatever was sent before, asks go up again once the share has room for them, and then keep to it."""
    dice, one = random.Random(2), scope(share)
    for kind, count in pieces:
        for _ in range(count):
            if kind == "a":
                ask(one, dice.random(), dice)
            else:
                one.tell({"n": DOWN, "l": UP, "f": FORCED}[kind])
    loops = sum(count for kind, count in pieces if kind == "l")
    for _ in range(int((loops + LOOPS + 2 * REACH + SLACK) / share) + 1):
        ask(one, dice.random(), dice)
    ups = [ask(one, dice.random(), dice) for _ in range(500)]
    assert sum(ups) / 500 == pytest.approx(share, abs=0.05)


def test_a_turn_that_is_forgone_was_none():
    """Of asks and of turns alike: an answer of a cache pays nothing back."""
    dice, one, other = random.Random(3), scope(), scope()
    for each in (one, other):
        for _ in range(300):
            each.tell(UP)
    for _ in range(5000):
        one.forgo(one.expect(Told(False, True, 0.2)))
        one.forgo(one.expect(UP))
    seen = [[ask(each, score, random.Random(4)) for score in (dice.random() for _ in range(200))] for each in (one, other)]
    assert not any(seen[0][:100])
    assert not any(seen[1][:100])


def test_asks_by_themselves_are_kept_as_closely_as_ever():
    """A loop that is paid back leaves the bound of asks that nothing forced as it is."""
    dice, one = random.Random(5), scope()
    for _ in range(100):
        one.tell(UP)
    for _ in range(2000):
        ask(one, dice.random(), dice)
    ups = [ask(one, dice.random(), dice) for _ in range(500)]
    assert sum(ups) == pytest.approx(150, abs=2 + REACH * (math.cbrt(0.3) + math.cbrt(0.7)))
