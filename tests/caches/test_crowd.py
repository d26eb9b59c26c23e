"""How many prompts began alike of late."""

import random
from bisect import bisect_left
from itertools import takewhile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from caches.chain import Chain, chain, chain_key
from caches.crowd import NO_CROWD, Crowd

KEY = chain_key("m")


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def crowd(clock):
    return Crowd(clock, 20.0)


def prompt(*parts, size=1024):
    """A part is a letter, `size` bytes of it."""
    return Chain.unpack(chain(KEY, [part.encode() * size for part in parts]))


def at(stretches, token):
    """Prompts that had this token."""
    place = bisect_left([end for end, _ in stretches], token)
    return stretches[place][1] if place < len(stretches) else 0.0


def test_a_beginning_that_many_share_is_counted_as_far_as_they_share_it(crowd):
    """Each stretch has those who came so far, up to where fewer than two did."""
    for number in range(8):
        crowd.came(prompt("s", "t", str(number)))
    for number in range(4):
        crowd.came(prompt("s", "u", str(number)))
    assert crowd.along(prompt("s", "t", "9"), 3000) == [(1000, 12.0), (2000, 8.0)]
    assert crowd.along(prompt("s", "u", "9"), 3000) == [(1000, 12.0), (2000, 4.0)]
    assert crowd.along(prompt("s", "t"), 2000) == [(1000, 12.0), (2000, 8.0)]


def test_one_is_no_crowd(crowd):
    """What a single prompt had before, such as the last turn of a conversation, is nobody's but its own."""
    crowd.came(prompt("a", "b"))
    assert not crowd.along(prompt("a", "b", "c"), 3000)
    assert not crowd.along(prompt("z"), 1000)
    assert not crowd.along(prompt("z", size=5), 3)


def test_what_came_leaves_the_window_little_by_little(crowd, clock):
    """All of it counts in its own span, then the part that the window covers, then nothing, however long nobody asked."""
    for _ in range(10):
        crowd.came(prompt("a"))
    seen = []
    for moment in (19.0, 20.0, 25.0, 35.0, 39.0, 41.0):
        clock.now = 1000.0 + moment
        seen.append(at(crowd.along(prompt("a"), 1000), 1000))
    assert seen == [10.0, 10.0, 7.5, 2.5, 0.0, 0.0]
    for _ in range(10):
        crowd.came(prompt("a"))
    clock.now += 1e6
    assert not crowd.along(prompt("a"), 1000)


def test_nothing_grows(crowd):
    """A hundred thousand blocks that nobody has seen before are counted in the same tables; a private prompt stays private."""
    rng, sizes = random.Random(1), {len(crowd._counts)}
    for _ in range(400):
        crowd.came(Chain([rng.getrandbits(64) for _ in range(250)], 250 * 256))
        sizes.add(len(crowd._counts))
    assert len(sizes) == 1
    fresh = [crowd.along(Chain([rng.getrandbits(64) for _ in range(250)], 64_000), 16_000) for _ in range(50)]
    assert max(stretches[-1][0] for stretches in fresh if stretches) < 16_000 / 4


def test_nobody_wants_to_know():
    """Where no balance reads it nothing is counted."""
    NO_CROWD.came(prompt("a"))
    assert not NO_CROWD.along(prompt("a"), 1000)


@settings(deadline=None)
@given(st.lists(st.text("ab", min_size=1, max_size=6), max_size=30), st.text("ab", min_size=1, max_size=6))
def test_it_is_the_number_of_prompts_with_that_beginning(prompts, asked):
    """Whatever came: at each depth as many as had all of it, never fewer; further into a prompt never more."""
    crowd = Crowd(lambda: 0.0)
    for text in prompts:
        crowd.came(prompt(*text, size=256))
    stretches = crowd.along(prompt(*asked, size=256), 100 * len(asked))
    counts = [sum(text[:depth] == asked[:depth] for text in prompts) for depth in range(1, len(asked) + 1)]
    found = [at(stretches, 100 * depth) for depth in range(1, len(asked) + 1)]
    known = list(takewhile(lambda count: count > 1, counts))
    assert found == [*known, *[0.0] * (len(asked) - len(known))]
    assert [end for end, _ in stretches] == sorted({end for end, _ in stretches})
