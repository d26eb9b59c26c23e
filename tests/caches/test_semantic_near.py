"""Vectors at hand: what is compared without the store is judged as if the store had been asked."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from semantic_world import World, ask

from caches.semantic.near import Vectors

PAIR = ("how do I reset my password", "my password how do I reset")
WORDS = ("reset", "my", "account", "password", "email", "for", "the", "shop")
TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)


@given(st.lists(st.integers(0, 9), max_size=8), st.lists(st.integers(0, 9), max_size=8, unique=True))
def test_all_or_nothing_is_compared(kept: list[int], wanted: list[int]) -> None:
    """One cosine each if all that is wanted is at hand, else none."""
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(10, 16)).astype(np.float32) * 3
    vectors = Vectors(16)
    for each in kept:
        vectors.put(str(each), rows[each])
    asked = rows[0] / np.linalg.norm(rows[0])
    cosines = vectors.cosines([str(each) for each in wanted], asked)
    if wanted and set(wanted) <= set(kept):
        assert cosines == pytest.approx([float(rows[each] @ asked / np.linalg.norm(rows[each])) for each in wanted], abs=1e-5)
    else:
        assert cosines == []


def test_the_least_lately_used_go_first() -> None:
    """It never holds more than its bound in bytes, and keeps what is asked for."""
    vectors = Vectors(4, most=3 * 16)
    for each in "abc":
        vectors.put(each, np.eye(4, dtype=np.float32)[0])
    assert vectors.cosines(["a"], np.eye(4, dtype=np.float32)[0]) == [1.0]
    vectors.put("d", np.eye(4, dtype=np.float32)[1])
    assert len(vectors) == 3
    assert vectors.cosines(["b"], np.eye(4, dtype=np.float32)[0]) == []
    assert vectors.cosines(["a", "d"], np.eye(4, dtype=np.float32)[0]) == [1.0, 0.0]


def test_a_vector_without_a_direction_is_not_kept() -> None:
    """Nothing can be said of its cosine."""
    vectors = Vectors(4)
    vectors.put("a", np.zeros(4, dtype=np.float32))
    assert len(vectors) == 0


async def test_what_was_met_lately_is_not_searched_for() -> None:
    """The store is searched by a process that has not met the kept question yet, and then no more."""
    world = await World().open()
    await world.fill(ask(PAIR[0]))
    assert (await world.cache.look(ask(PAIR[1]))).entry is not None
    assert world.store.searches == 0
    world.again()
    await world.open()
    assert (await world.cache.look(ask(PAIR[1]))).entry is not None
    assert (await world.cache.look(ask(PAIR[0] + " please"))).entry is not None
    assert world.store.searches == 1


async def test_what_somebody_else_has_deleted_is_not_served() -> None:
    """Another node's deletion is seen although the vector is still at hand here."""
    world = await World().open()
    await world.fill(ask(PAIR[0]))
    world.store.points.clear()
    assert (await world.cache.look(ask(PAIR[1]))).entry is None


async def test_what_is_too_old_for_the_client_is_not_served() -> None:
    """`max_age` is measured at the kept answer itself."""
    world = await World().open()
    await world.fill(ask(PAIR[0]))
    world.clock.now += 50
    assert (await world.cache.look(ask(PAIR[1], max_age=49.0))).entry is None
    assert (await world.cache.look(ask(PAIR[1], max_age=51.0))).entry is not None


@given(
    st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join), min_size=1, max_size=6, unique=True),
    st.data(),
)
async def test_the_verdict_is_that_of_a_search(kept: list[str], data: st.DataObject) -> None:
    """Whatever is served from the vectors at hand is served by a process that has none of them."""
    world = await World().open()
    for number, text in enumerate(kept):
        await world.fill(ask(text), f"answer {number}")
    question = data.draw(st.permutations(kept[0].split()).map(" ".join))
    here = await world.cache.look(ask(question))
    assert world.store.searches == 0
    world.again()
    await world.open()
    there = await world.cache.look(ask(question))
    assert (here.entry and here.entry.body) == (there.entry and there.entry.body)


async def test_the_very_text_is_served_before_one_that_is_as_near() -> None:
    """Where two kept questions are equally near and alike, the one that was asked letter for letter answers."""
    world = await World().open()
    for number, text in enumerate(("my my", "my")):
        await world.fill(ask(text), f"answer {number}")
    for text, number in (("my", 1), ("my my", 0)):
        found = await world.cache.look(ask(text))
        assert found.entry is not None
        assert f"answer {number}".encode() in found.entry.body
