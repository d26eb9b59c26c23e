"""Handing texts in and fetching vectors, with work that ends when the test says so."""

import asyncio
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from caches.breaker import Breaker, BreakerRules
from caches.embed.desk import Desk, DeskRules
from caches.embed.types import EmbedderAway, TooLong

LATE = 0.01  # a deadline that is waited for
NEVER = 60.0


def vector(text):
    return np.array([float(len(text)), 1.0], np.float32)


class Hands:
    """Whoever makes the vectors. `texts` are the calls so far; each waits for `finish` or `fail`."""

    def __init__(self):
        self.texts = []
        self._ends = []

    async def work(self, texts):
        self.texts.append(list(texts))
        self._ends.append(asyncio.get_running_loop().create_future())
        return await self._ends[-1]

    async def begun(self, calls):
        while len(self.texts) < calls:
            await asyncio.sleep(0)

    def finish(self, call=-1):
        self._ends[call].set_result([vector(text) for text in self.texts[call]])

    def tell(self, outcome, call=-1):
        self._ends[call].set_result(outcome)

    def fail(self, call=-1):
        self._ends[call].set_exception(OSError("gone"))


class World:
    def __init__(self, failures=2, **rules):
        self.now = 0.0
        self.hands = Hands()
        self.breaker = Breaker(lambda: self.now, random.Random(1), BreakerRules(failures=failures, open_seconds=1.0))
        self.desk = Desk(self.hands.work, self.breaker, lambda: self.now, DeskRules(**{"deadline": NEVER, **rules}))
        self.desk.open()

    def ask(self, text, **how):
        return asyncio.create_task(self.desk.ask(text, **how))

    async def opened(self):
        while not self.breaker.is_open:
            await asyncio.sleep(0)

    async def fails(self):
        asked = self.ask(f"text {len(self.hands.texts)}")
        await self.hands.begun(len(self.hands.texts) + 1)
        self.hands.fail()
        return await away(asked)


async def away(asked):
    with pytest.raises(EmbedderAway) as caught:
        await asked
    return caught.value.reason


@pytest.fixture
async def make():
    made = []

    def build(**rules):
        made.append(World(**rules))
        return made[-1]

    yield build
    for world in made:
        await world.desk.close()


async def test_a_vector_is_made_once_and_remembered(make):
    """What was asked a moment ago is not made again."""
    world = make()
    asked = world.ask("a lamp")
    await world.hands.begun(1)
    world.hands.finish()
    assert (await asked).tolist() == vector("a lamp").tolist()
    assert await world.desk.ask("a lamp") is await asked
    assert world.hands.texts == [["a lamp"]]


async def test_only_so_many_are_remembered(make):
    """The vector that was used longest ago is forgotten first."""
    world = make(remembered=2)
    for number, text in enumerate(["one", "two", "one", "three", "two"]):
        asked = world.ask(text)
        await asyncio.sleep(0)
        if number != 2:
            await world.hands.begun(len([t for t in range(number + 1) if t != 2]))
            world.hands.finish()
        await asked
    assert world.hands.texts == [["one"], ["two"], ["three"], ["two"]]


async def test_equal_texts_in_flight_share_the_work(make):
    """Fifty who ask the same at once cost one forward."""
    world = make()
    asked = [world.ask("a lamp") for _ in range(50)]
    await world.hands.begun(1)
    world.hands.finish()
    assert len({id(made) for made in await asyncio.gather(*asked)}) == 1
    assert world.hands.texts == [["a lamp"]]


async def test_nothing_is_shared_between_scopes(make):
    """What one tenant asked makes the same text of another no faster: neither in flight nor remembered."""
    world = make()
    for calls, scope in enumerate(("one", "other"), start=1):
        asked = world.ask("a lamp", scope=scope)
        await world.hands.begun(calls)
        world.hands.finish()
        await asked
    assert world.hands.texts == [["a lamp"], ["a lamp"]]


async def test_what_waits_goes_together(make):
    """Texts that wait while a lane is busy make one call, of so many at most, in their order."""
    world = make(batch=3)
    first = world.ask("first")
    await world.hands.begun(1)
    rest = [world.ask(text) for text in "abcd"]
    await asyncio.sleep(0)
    world.hands.finish()
    await first
    await world.hands.begun(2)
    world.hands.finish()
    await world.hands.begun(3)
    world.hands.finish()
    await asyncio.gather(*rest)
    assert world.hands.texts == [["first"], ["a", "b", "c"], ["d"]]


async def test_lanes_work_at_once(make):
    """With two lanes a second text does not wait for the first."""
    world = make(lanes=2)
    asked = [world.ask("one"), world.ask("two")]
    await world.hands.begun(2)
    world.hands.finish(1)
    world.hands.finish(0)
    await asyncio.gather(*asked)


async def test_more_than_may_wait_are_turned_away(make):
    """A full queue is said at once, and those who wait are served."""
    world = make(waiting=2)
    asked = [world.ask("first")]
    await world.hands.begun(1)
    asked += [world.ask("second"), world.ask("third")]
    await asyncio.sleep(0)
    assert await away(world.ask("fourth")) == "overload"
    for call in range(3):
        await world.hands.begun(call + 1)
        world.hands.finish()
    await asyncio.gather(*asked)


async def test_a_deadline_ends_the_waiting_not_the_work(make):
    """Whoever waits is told `timeout`; the vector that comes later is remembered."""
    world = make()
    patient = world.ask("slow")
    await world.hands.begun(1)
    assert await away(world.ask("slow", within=LATE)) == "timeout"
    patient.cancel()
    world.hands.finish()
    await asyncio.sleep(0)
    assert (await world.desk.ask("slow")).tolist() == vector("slow").tolist()
    assert len(world.hands.texts) == 1


async def test_a_lane_is_busy_until_its_late_work_ends(make):
    """A model that stands still is given nothing more; who has the patience gets the late vector."""
    world = make(failures=2, deadline=LATE)
    stuck, behind = world.ask("stuck", within=NEVER), world.ask("behind it", within=NEVER)
    await world.hands.begun(1)
    assert await away(world.ask("impatient")) == "timeout"
    assert world.hands.texts == [["stuck"]]
    world.hands.finish()
    assert (await stuck).tolist() == vector("stuck").tolist()
    await world.hands.begun(2)
    assert world.hands.texts[1] == ["behind it"]
    behind.cancel()


async def test_behind_a_model_that_hangs_nobody_waits(make):
    """When every lane is long beyond its deadline, whoever comes is told at once, until one is back."""
    world = make(failures=100, deadline=LATE)
    stuck = world.ask("stuck", within=NEVER)
    await world.hands.begun(1)
    while not world.desk._late:
        await asyncio.sleep(0)
    assert await away(world.ask("next", within=NEVER)) == "timeout"
    world.hands.finish()
    await stuck
    asked = world.ask("as ever", within=NEVER)
    await world.hands.begun(2)
    world.hands.finish()
    assert (await asked).tolist() == vector("as ever").tolist()


async def test_late_work_that_fails_is_told(make):
    """Whoever still waits for late work hears of its failure."""
    world = make(deadline=LATE, failures=1)
    slow = world.ask("slow", within=NEVER)
    await world.hands.begun(1)
    await world.opened()
    world.hands.fail()
    assert await away(slow) == "failed"


async def test_what_nobody_waits_for_is_not_begun(make):
    """A text whose askers have all left before its turn costs no forward."""
    world = make()
    first = world.ask("first")
    await world.hands.begun(1)
    left = world.ask("left")
    await asyncio.sleep(0)
    left.cancel()
    last = world.ask("last")
    await asyncio.sleep(0)
    world.hands.finish()
    await first
    await world.hands.begun(2)
    world.hands.finish()
    await last
    assert world.hands.texts == [["first"], ["last"]]


async def test_one_who_leaves_takes_nothing_from_the_others(make):
    """The first asker's cancellation leaves the second its vector."""
    world = make()
    one, other = world.ask("a lamp"), world.ask("a lamp")
    await world.hands.begun(1)
    one.cancel()
    await asyncio.sleep(0)
    world.hands.finish()
    assert (await other).tolist() == vector("a lamp").tolist()
    assert one.cancelled()


async def test_failures_open_the_breaker_and_it_heals(make):
    """After two failures nothing is asked; when its time has passed, one success closes it."""
    world = make()
    assert [await world.fails() for _ in range(2)] == ["failed", "failed"]
    assert await away(world.ask("refused")) == "breaker"
    world.now += 1.0
    asked = world.ask("probe")
    await world.hands.begun(3)
    world.hands.finish()
    await asked
    asked = world.ask("as ever")
    await world.hands.begun(4)
    world.hands.finish()
    await asked


async def test_behind_a_probe_that_fails_all_are_turned_away(make):
    """What waited for the probe's outcome is told so, without a try of its own."""
    world = make()
    await world.fails()
    await world.fails()
    world.now += 1.0
    probe, behind = world.ask("probe"), world.ask("behind")
    await world.hands.begun(3)
    world.hands.fail()
    assert [await away(probe), await away(behind)] == ["failed", "breaker"]
    assert len(world.hands.texts) == 3


async def test_work_beyond_the_deadline_counts_as_failure(make):
    """A model that is merely slow opens the breaker as well, and its late success does not close it."""
    world = make(deadline=LATE, failures=1)
    slow = world.ask("slow", within=NEVER)
    await world.opened()
    world.hands.finish()
    await slow
    assert await away(world.ask("next")) == "breaker"


async def test_waiting_for_a_lane_is_no_failure(make):
    """A burst that is too much for the deadline leaves the breaker closed."""
    world = make()
    first = world.ask("first")
    await world.hands.begun(1)
    for _ in range(5):
        assert await away(world.ask("one of many", within=LATE)) == "timeout"
    world.hands.finish()
    await first
    assert not world.breaker.is_open


async def test_a_text_without_a_vector_is_told_apart(make):
    """What the model cannot read whole is TooLong for all who asked, and no failure."""
    world = make()
    for call in range(1, 4):
        asked = world.ask(f"unreadable {call}")
        await world.hands.begun(call)
        world.hands.tell([None])
        with pytest.raises(TooLong):
            await asked
    assert not world.breaker.is_open


async def test_too_few_vectors_are_a_failure(make):
    """A model that answers for fewer texts than it was given is wrong, not short."""
    world = make()
    asked = world.ask("a lamp")
    await world.hands.begun(1)
    world.hands.tell([])
    assert await away(asked) == "failed"


async def test_closing_lets_everybody_go(make):
    """Those whose text is being worked on and those who wait are told at once."""
    world = make()
    asked = [world.ask("one"), world.ask("two")]
    await world.hands.begun(1)
    await world.desk.close()
    assert [await away(one) for one in asked] == ["failed", "failed"]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from(["take", "cancel", "leave"])), max_size=25),
    st.integers(1, 3),
    st.integers(1, 2),
)
async def test_whoever_stays_is_answered(asks, batch, lanes):
    """Whatever is asked, left or cancelled in whatever order: who stays gets the vector of its own text, and nothing is left."""
    world = World(batch=batch, lanes=lanes, remembered=1)
    stays = []
    for text, deed in asks:
        asked = world.ask(text)
        await asyncio.sleep(0)
        if deed == "cancel":
            asked.cancel()
        elif deed == "take" and world.hands.texts and not world.hands._ends[-1].done():
            world.hands.finish()
        if deed != "cancel":
            stays.append((text, asked))
    while not all(asked.done() for _, asked in stays):
        for call, end in enumerate(world.hands._ends):
            if not end.done():
                world.hands.finish(call)
        await asyncio.sleep(0)
    assert all(asked.result().tolist() == vector(text).tolist() for text, asked in stays)
    while world.desk._flights:
        for call, end in enumerate(world.hands._ends):
            if not end.done():
                world.hands.finish(call)
        await asyncio.sleep(0)
    await world.desk.close()
