"""An engine that serves vectors, as an embedder."""

import asyncio
import math
import random
import time

import numpy as np
import pytest

from caches.breaker import BreakerRules
from caches.embed.description import Description
from caches.embed.desk import DeskRules
from caches.embed.pool import PoolEmbedder
from caches.embed.types import EmbedderAway, TooLong

ABOUT = Description(name="e5", dimension=2, max_tokens=100, prefix="query: ")


@pytest.fixture
async def make():
    made = []

    async def build(ask, **rules):
        made.append(
            PoolEmbedder(
                ABOUT,
                ask,
                clock=time.monotonic,
                rng=random.Random(1),
                rules=DeskRules(**{"deadline": 60.0, "batch": 8, **rules}),
                breaker=BreakerRules(failures=100),
            )
        )
        await made[-1].open()
        return made[-1]

    yield build
    for embedder in made:
        await embedder.close()


async def reason(embedding):
    with pytest.raises(EmbedderAway) as caught:
        await embedding
    return caught.value.reason


async def test_vectors_are_made_unit_vectors(make):
    """The engine gets the text with the model's prefix; what it answers becomes of length one."""
    asked = []

    async def ask(texts):
        asked.append(list(texts))
        return [[3.0, 4.0]]

    embedder = await make(ask)
    vector = await embedder.embed("a lamp")
    assert np.allclose(vector, [0.6, 0.8])
    assert asked == [["query: a lamp"]]


async def test_what_waits_goes_in_one_call(make):
    """While the engine answers, further texts gather, and each gets its own vector."""
    asked = []
    first = asyncio.Event()

    async def ask(texts):
        asked.append(list(texts))
        await first.wait()
        return [[float(text[-1]), 1.0] for text in texts]

    embedder = await make(ask)
    waiting = [asyncio.create_task(embedder.embed("text 0"))]
    while not asked:
        await asyncio.sleep(0)
    waiting += [asyncio.create_task(embedder.embed(f"text {n}")) for n in range(1, 6)]
    await asyncio.sleep(0)
    first.set()
    vectors = await asyncio.gather(*waiting)
    assert [round(float(vector[0] / vector[1])) for vector in vectors] == list(range(6))
    assert [len(call) for call in asked] == [1, 5]


@pytest.mark.parametrize(
    "answer",
    [
        [],
        [[1.0, 0.0], [1.0, 0.0]],
        [[1.0]],
        [[1.0, 0.0, 0.0]],
        [[0.0, 0.0]],
        [[math.nan, 1.0]],
        [[math.inf, 1.0]],
        [["x", "y"]],
        None,
    ],
)
async def test_a_wrong_answer_is_no_vector(make, answer):
    """Too few, too many, of another dimension, without direction or no numbers at all: `failed`, never a wrong vector."""

    async def ask(texts):
        return answer

    assert await reason((await make(ask)).embed("a lamp")) == "failed"


@pytest.mark.parametrize(
    ("error", "told"), [(OSError("refused"), "failed"), (TimeoutError(), "timeout"), (KeyError("data"), "failed")]
)
async def test_whatever_the_call_raises_is_told_as_one_thing(make, error, told):
    """Whatever goes wrong in the call is EmbedderAway to whoever asks."""

    async def ask(texts):
        raise error

    assert await reason((await make(ask)).embed("a lamp")) == told


async def test_a_slow_engine_is_left(make):
    """The call itself ends at the deadline, so a lane is free again."""
    ended = asyncio.Event()

    async def ask(texts):
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    embedder = await make(ask, deadline=0.01)
    assert await reason(embedder.embed("a lamp", within=60.0)) == "timeout"
    await ended.wait()


async def test_one_text_that_is_too_long_costs_the_others_nothing(make):
    """Where the engine refuses a call for one of its texts, the others are asked for alone."""
    calls = []

    async def ask(texts):
        calls.append(len(texts))
        if any("long" in text for text in texts):
            raise TooLong
        return [[1.0, 0.0]] * len(texts)

    embedder = await make(ask)
    waiting = [embedder.embed(text) for text in ("one", "a long one", "two")]
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert [isinstance(outcome, TooLong) for outcome in outcomes] == [False, True, False]
    assert calls == [3, 1, 1, 1]


async def test_a_text_beyond_all_bounds_is_not_sent(make):
    """What is too long by its characters is told without a call."""

    async def ask(texts):
        raise AssertionError

    with pytest.raises(TooLong):
        await (await make(ask)).embed("x" * 10_000)
