"""A model in a thread, as an embedder: a small model that does what the test says, and the real one."""

import asyncio
import importlib.util
import logging
import random
import threading
import time
from functools import partial

import numpy as np
import pytest

from caches.embed.description import Description
from caches.embed.desk import DeskRules
from caches.embed.running import LoadRules
from caches.embed.threaded import ThreadedEmbedder
from caches.embed.types import EmbedderAway, TooLong

ABOUT = Description(name="tiny", dimension=2, max_tokens=8, scripts=("latin",))
PATIENT = DeskRules(deadline=60.0)


class Tiny:
    """Holds every call while `gate` is closed; knows in which threads it was asked."""

    fingerprint, dimension, max_tokens = ABOUT.fingerprint, ABOUT.dimension, ABOUT.max_tokens

    def __init__(self):
        self.gate = threading.Event()
        self.gate.set()
        self.threads = set()
        self.asked = []
        self.broken = False

    def embed(self, texts):
        self.threads.add(threading.get_ident())
        self.asked += texts
        self.gate.wait()
        if self.broken:
            raise RuntimeError("out of memory")
        return [None if "long" in text else np.array([1.0, 0.0], np.float32) for text in texts]


@pytest.fixture
async def make():
    made = []

    def build(load, rules=PATIENT, about=ABOUT):
        made.append(
            ThreadedEmbedder(
                about,
                load,
                clock=time.monotonic,
                rng=random.Random(1),
                rules=rules,
                loading=LoadRules(first=0.001, longest=0.002),
            )
        )
        return made[-1]

    yield build
    for embedder in made:
        await embedder.close()


async def reason(embedding):
    with pytest.raises(EmbedderAway) as caught:
        await embedding
    return caught.value.reason


async def test_the_event_loop_goes_on_while_the_model_works(make):
    """Loading and embedding happen in one other thread, and what the loop has to do meanwhile is done."""
    model = Tiny()
    where = set()
    embedder = make(lambda: where.add(threading.get_ident()) or model)
    await embedder.open()
    model.gate.clear()
    asked = asyncio.create_task(embedder.embed("a lamp"))
    while not model.asked:
        await asyncio.sleep(0)
    model.gate.set()
    assert (await asked).tolist() == [1.0, 0.0]
    assert where == model.threads != {threading.get_ident()}


async def test_while_it_loads_nobody_waits(make):
    """A text that comes before the model is there starts the loading, and is told `loading` at once."""
    loads = threading.Event()
    embedder = make(lambda: loads.wait() and Tiny())
    assert await reason(embedder.embed("a lamp")) == "loading"
    assert await reason(embedder.embed("a lamp")) == "loading"
    loads.set()
    await embedder.open()
    assert (await embedder.embed("a lamp")).tolist() == [1.0, 0.0]


async def test_a_model_that_does_not_load_is_tried_until_it_does(make, caplog):
    """`open` says `failed`, one line says why, and when the trouble is over the embedder is there without a restart."""
    trouble = True

    def load():
        if trouble:
            raise OSError("no such file")
        return Tiny()

    embedder = make(load)
    with caplog.at_level(logging.WARNING):
        assert await reason(embedder.open()) == "failed"
        assert await reason(embedder.embed("a lamp")) == "failed"
        trouble = False
        while True:
            try:
                await embedder.embed("a lamp")
                break
            except EmbedderAway:
                await asyncio.sleep(0)
    assert [record.getMessage() for record in caplog.records] == [
        "the embedder tiny did not load, and is tried again by and by: OSError: no such file"
    ]


async def test_another_model_than_was_described_is_none(make):
    """Vectors of other weights never go under a fingerprint that is not theirs."""
    embedder = make(Tiny, about=Description(name="other", dimension=2, max_tokens=8))
    assert await reason(embedder.open()) == "failed"


async def test_a_model_that_breaks_is_left_alone(make, caplog):
    """Failures are told as such, then the breaker spares the model; it says so once."""
    model = Tiny()
    embedder = make(lambda: model)
    await embedder.open()
    model.broken = True
    with caplog.at_level(logging.WARNING):
        reasons = [await reason(embedder.embed(f"text {n}")) for n in range(5)]
    assert reasons == ["failed"] * 3 + ["breaker"] * 2
    assert [record.getMessage() for record in caplog.records] == [
        "the embedder tiny is left alone for a while: RuntimeError: out of memory"
    ]


async def test_a_model_that_hangs_keeps_nobody(make):
    """Those who wait are told so at their deadline, there is one call in the thread, and closing does not wait for it."""
    model = Tiny()
    embedder = make(lambda: model, DeskRules(deadline=0.01))
    await embedder.open()
    model.gate.clear()
    stuck = asyncio.create_task(embedder.embed("stuck", within=60.0))
    while not model.asked:
        await asyncio.sleep(0)
    assert await reason(embedder.embed("behind")) == "timeout"
    assert model.asked == ["stuck"]
    await embedder.close()
    assert await reason(stuck) == "failed"
    assert await reason(embedder.embed("closed")) == "failed"
    model.gate.set()


async def test_texts_that_cannot_be_read_whole(make):
    """Too many characters are told without a call of the model; too many tokens by the model."""
    model = Tiny()
    embedder = make(lambda: model)
    await embedder.open()
    with pytest.raises(TooLong):
        await embedder.embed("x" * 1000)
    assert model.asked == []
    with pytest.raises(TooLong):
        await embedder.embed("a long text")


async def test_it_covers_what_its_description_says(make):
    """Which scripts are read is known before the model is."""
    embedder = make(Tiny)
    assert embedder.covers("a lamp")
    assert not embedder.covers("一盏灯")


async def test_several_threads_work_at_once(make):
    """With two lanes a second text does not wait for the first one's forward."""
    model = Tiny()
    embedder = make(lambda: model, DeskRules(deadline=60.0, lanes=2))
    await embedder.open()
    model.gate.clear()
    asked = [asyncio.create_task(embedder.embed(text)) for text in ("one", "two")]
    while len(model.asked) < 2:
        await asyncio.sleep(0)
    model.gate.set()
    await asyncio.gather(*asked)
    assert len(model.threads) == 2


@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("onnxruntime", "tokenizers")),
    reason="the extra `semantic` is missing",
)
async def test_the_real_model_runs_in_it(make):
    """The model that comes along, as the gateway runs it, makes the vector that it makes alone."""
    from caches.embed import minilm
    from caches.embed.onnx import OnnxModel

    folder = minilm.folder()
    embedder = make(partial(OnnxModel, folder), about=folder.about)
    await embedder.open()
    (alone,) = minilm.load().embed(["How do I reset my password?"])
    assert (await embedder.embed("How do I reset my password?")).tobytes() == alone.tobytes()
    with pytest.raises(TooLong):
        await embedder.embed("What does 猫 mean?")
