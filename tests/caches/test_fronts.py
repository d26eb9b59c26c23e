"""Fronts of prompts, and which of them are hot."""

import json

from hypothesis import given
from hypothesis import strategies as st

from caches.fronts import LEAST_BYTES, MOST_BYTES, Hottest, front_of, read_front

LONG = "x" * LEAST_BYTES


def test_a_front_is_what_stands_before_the_user():
    """Leading system messages and tools as they came; nothing of what users say."""
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"b": 1, "a": 2}}}]
    leading = [{"role": "system", "content": LONG}, {"role": "developer", "content": "be brief"}]
    fields = {
        "model": "m",
        "tools": tools,
        "messages": [*leading, {"role": "user", "content": "secret"}, leading[0]],
        "user": "u",
    }
    front = front_of(fields)
    assert json.loads(front) == {"tools": tools, "messages": leading}
    assert list(read_front(front)["tools"][0]["function"]["parameters"]) == ["b", "a"]


def test_small_and_huge_fronts_are_none():
    """Neither are worth it."""
    for content in ("x", "x" * MOST_BYTES):
        assert front_of({"messages": [{"role": "system", "content": content}]}) is None
    assert front_of({"messages": [{"role": "user", "content": LONG}]}) is None


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=5),
        lambda v: st.lists(v) | st.dictionaries(st.text(max_size=8), v),
    )
)
def test_hostile_bodies_have_none(value):
    """Whatever stands where messages and tools should."""
    for fields in ({"messages": value}, {"messages": [value, {"role": "system", "content": LONG}]}, {"tools": value}):
        front = front_of(fields)
        assert front is None or len(front) <= MOST_BYTES


def marks(*numbers):
    return [bytes([number]) * 16 for number in numbers]


def test_what_recurs_is_wanted_and_the_hottest_stay():
    """Once is not enough; of more than there is room for the coldest goes."""
    hottest: Hottest[str] = Hottest(2)
    a, b, c = marks(1, 2, 3)
    assert hottest.count([(a, 1)], 0) == []
    assert hottest.count([(a, 4), (b, 3), (c, 2)], 0) == [a, b]
    for mark, name in ((c, "c"), (b, "b"), (a, "a")):
        hottest.keep(mark, name, 0)
    assert [value for _, value in hottest.kept(0)] == ["a", "b"]


def test_heat_fades():
    """Half of it in ten minutes; what went cold is not replayed, and what is hot takes its place."""
    hottest: Hottest[str] = Hottest(1)
    a, b = marks(1, 2)
    hottest.count([(a, 8)], 0)
    hottest.keep(a, "a", 0)
    assert abs(hottest.heat(a, 600) - 4) < 1e-9
    assert hottest.count([(b, 3)], 1800) == [b]
    hottest.keep(b, "b", 1800)
    assert [value for _, value in hottest.kept(1800)] == ["b"]
    assert hottest.kept(1e6) == []


@given(st.lists(st.tuples(st.integers(0, 3000), st.integers(-5, 5), st.booleans()), max_size=200), st.integers(0, 8))
def test_it_is_bounded(steps, most):
    """Whatever is counted and kept, there are no more than `most` kept, and the wanted ones are not kept yet."""
    hottest: Hottest[int] = Hottest(most)
    for now, (number, times, keep) in enumerate(steps):
        mark = number.to_bytes(16, "big")
        wanted = hottest.count([(mark, times)], now)
        assert len(wanted) <= most
        if keep:
            hottest.keep(mark, number, now)
        assert len(hottest) <= most
    heats = [hottest.heat(mark, len(steps)) for mark, _ in hottest.kept(len(steps))]
    assert heats == sorted(heats, reverse=True)


def test_marks_are_bounded():
    """A client that never repeats itself fills nothing up."""
    hottest: Hottest[int] = Hottest(4)
    for now in range(5000):
        hottest.count([(now.to_bytes(16, "big"), 1)], 0)
    assert len(hottest._heat) <= 1024
