"""A cross-encoder in a thread of its own, as a verifier: whatever goes wrong there is no yes."""

import asyncio
import random
import threading
import time

import pytest

from caches.embed.desk import DeskRules
from caches.embed.running import LoadRules
from caches.verify.crossencoder import CrossEncoder
from caches.verify.description import PairDescription
from caches.verify.types import VerifierAway

ABOUT = PairDescription(name="tiny", max_tokens=8, threshold=0.8, scripts=("latin",))
PATIENT = DeskRules(deadline=60.0)


class Scores:
    """Says `score` of all that it reads; holds every call while `gate` is closed."""

    def __init__(self, score=0.9):
        self.gate = threading.Event()
        self.gate.set()
        self.score = score
        self.asked = []
        self.threads = set()

    def scores(self, pairs):
        self.asked += pairs
        self.threads.add(threading.get_ident())
        self.gate.wait()
        if isinstance(self.score, Exception):
            raise self.score
        return [self.score for _ in pairs]


@pytest.fixture
async def make():
    made = []

    def build(load, rules=PATIENT, **how):
        made.append(
            CrossEncoder(
                ABOUT, load, clock=time.monotonic, rng=random.Random(1), rules=rules, loading=LoadRules(0.001, 0.002), **how
            )
        )
        return made[-1]

    yield build
    for verifier in made:
        await verifier.close()


async def opened(make, model, **how):
    verifier = make(lambda: model, **how)
    await verifier.open()
    return verifier


async def reason(verifier, question="how"):
    with pytest.raises(VerifierAway) as caught:
        await verifier.approves(question, "why")
    return caught.value.reason


@pytest.mark.parametrize(
    ("score", "threshold", "expected"),
    [(0.8, None, True), (0.79, None, False), (None, None, False), (0.79, 0.7, True), (0.9, 0.95, False)],
)
async def test_from_its_threshold_on_it_approves(make, score, threshold, expected):
    """The description's, or the operator's; two questions that the model cannot read whole are not approved."""
    verifier = await opened(make, Scores(score), threshold=threshold)
    assert await verifier.approves("how", "why") is expected


async def test_the_kept_question_comes_first_and_the_loop_goes_on(make):
    """The model is asked in a thread that is not the loop's."""
    model = Scores()
    verifier = await opened(make, model)
    model.gate.clear()
    asked = asyncio.create_task(verifier.approves("how", "why"))
    while not model.asked:
        await asyncio.sleep(0)
    model.gate.set()
    assert await asked
    assert model.asked == [("why", "how")]
    assert threading.get_ident() not in model.threads


@pytest.mark.parametrize(("question", "kept"), [("x" * 1000, "why"), ("how", "x" * 1000), ("怎么", "why"), ("how", "为什么")])
async def test_what_it_does_not_read_is_no_yes(make, question, kept):
    """Too long, or in a script that the model was not made for: a no, without a call."""
    model = Scores()
    verifier = await opened(make, model)
    assert not await verifier.approves(question, kept)
    assert model.asked == []


async def test_while_it_loads_nobody_waits(make):
    """A pair that comes before the model is there is told `loading` at once."""
    loads = threading.Event()
    verifier = make(lambda: loads.wait() and Scores())
    assert await reason(verifier) == "loading"
    loads.set()
    await verifier.open()
    assert await verifier.approves("how", "why")


async def test_one_that_does_not_load_is_away(make):
    """`open` says so, and so is everybody told who asks."""

    def load():
        raise ValueError("tiny says 2 numbers, not one logit")

    verifier = make(load)
    with pytest.raises(VerifierAway, match="failed"):
        await verifier.open()
    assert await reason(verifier) == "failed"


async def test_one_that_breaks_is_left_alone(make, caplog):
    """Failures are told as such, then the breaker spares the model; the log says so once, without a question in it."""
    model = Scores(ValueError("no probability"))
    verifier = await opened(make, model)
    assert [await reason(verifier, f"secret {n}") for n in range(5)] == ["failed"] * 3 + ["breaker"] * 2
    assert [record.getMessage() for record in caplog.records] == [
        "the verifier tiny is left alone for a while: ValueError: no probability"
    ]


async def test_one_that_hangs_keeps_nobody(make):
    """Whoever waits is told at the deadline, and closing waits for nothing."""
    model = Scores()
    verifier = await opened(make, model, rules=DeskRules(deadline=0.01))
    model.gate.clear()
    assert await reason(verifier) == "timeout"
    assert await reason(verifier, "another") == "timeout"
    assert model.asked == [("why", "how")]
    await verifier.close()
    assert await reason(verifier) == "failed"
    model.gate.set()


async def test_waiting_is_bounded(make):
    """Beyond so many pairs one is turned away at once."""
    model = Scores()
    verifier = await opened(make, model, rules=DeskRules(deadline=60.0, waiting=1))
    model.gate.clear()
    running = asyncio.create_task(verifier.approves("one", "why"))
    while not model.asked:
        await asyncio.sleep(0)
    waiting = asyncio.create_task(verifier.approves("two", "why"))
    await asyncio.sleep(0)
    assert await reason(verifier, "three") == "overload"
    model.gate.set()
    assert await running
    assert await waiting


async def test_equal_pairs_of_one_tenant_are_scored_once(make):
    """Another tenant's are scored anew: how fast a word comes tells nobody what others asked."""
    model = Scores()
    verifier = await opened(make, model)
    for scope in ("acme", "acme", "globex"):
        assert await verifier.approves("how", "why", scope=scope)
    assert len(model.asked) == 2
