"""Single flight: who hears of a producer's failure, and who may try again."""

import asyncio
import contextlib
import gc
import traceback
import weakref

import pytest
from cache_sinks import Collect, Producer, settle
from hypothesis import given
from hypothesis import strategies as st

from caches.errors import FlightCancelled, Orphaned
from caches.flight import Flights


class Down(Exception):
    """The fleet's fault."""


class Limit(Exception):
    """The leader's own limit."""


async def ask(flights, start, *, stream=True, key=b"k"):
    """One subscriber as a caller would write it: it joins again while it is orphaned."""
    sink, spent = Collect(), False
    while True:
        try:
            async with flights.join(key, stream=stream, start=start, spent=spent) as seat:
                if seat.same_wire:
                    await seat.follow(sink)
                    return sink.text
                return b"".join((await seat.whole())[1])
        except Orphaned as orphan:
            spent = orphan.spent


async def ask_all(flights, start, count=5, streams=(True,)):
    return await asyncio.gather(
        *(ask(flights, start, stream=streams[n % len(streams)]) for n in range(count)), return_exceptions=True
    )


def script(*failures):
    """A producer whose first flights fail so, before they begin; the next ones answer."""
    left, started = list(failures), []

    async def start(flight):
        started.append(flight)
        await asyncio.sleep(0)
        if left:
            raise left.pop(0)
        flight.begin("head")
        flight.write(b"answer")

    start.started = started
    return start


async def test_the_leaders_bad_luck_is_not_theirs():
    """A failure before the beginning is heard by the leader; the followers are served by a second flight."""
    flights, start = Flights(), script(Down("one"))
    results = await ask_all(flights, start)
    assert repr(results[0]) == "Down('one')"
    assert results[1:] == [b"answer"] * 4
    assert len(start.started) == 2


async def test_the_second_failure_is_heard_by_all():
    """Nobody is given a third chance: two flights, and everybody has heard one of the failures."""
    flights, start = Flights(), script(Down("one"), Down("two"), Down("three"))
    results = await ask_all(flights, start)
    assert list(map(repr, results)) == ["Down('one')", *["Down('two')"] * 4]
    assert len(start.started) == 2


async def test_personal_failures_are_handed_over():
    """A failure that is the leader's alone is never heard by a follower, however many leaders have it."""
    flights, start = Flights(personal=(Limit,)), script(*map(Limit, "abc"))
    results = await ask_all(flights, start)
    assert list(map(repr, results[:3])) == ["Limit('a')", "Limit('b')", "Limit('c')"]
    assert results[3:] == [b"answer"] * 2
    assert len(start.started) == 4


async def test_a_personal_failure_does_not_spend_the_second_chance():
    """After a handover, a follower still has its one chance against the fleet's bad luck, and no more than that."""
    flights, start = Flights(personal=(Limit,)), script(Limit("a"), Down("b"), Limit("c"), Down("d"))
    results = await ask_all(flights, start)
    assert list(map(repr, results)) == ["Limit('a')", "Down('b')", "Limit('c')", "Down('d')", "Down('d')"]


async def test_followers_of_a_leader_who_left_are_orphaned():
    """Where the leader is gone, nobody is blamed at the first failure."""
    flights, producer = Flights(), Producer(fail_before=Down("one"))
    tasks = [asyncio.create_task(ask(flights, producer)) for _ in range(3)]
    await settle()
    tasks.pop(0).cancel()
    await settle()
    producer.go.set()
    assert await asyncio.gather(*tasks) == [b"onetwo"] * 2
    assert producer.started == 2


async def test_after_the_beginning_a_stream_hears_the_failure():
    """Who was given the head cannot start again; who waits for the whole, or came and was given nothing yet, can."""
    flights, producer = Flights(), Producer(fail_after=Down("half way"))
    streams = [asyncio.create_task(ask(flights, producer)) for _ in range(3)]
    await settle()
    waiting = asyncio.create_task(ask(flights, producer, stream=False))
    await settle()
    producer.go.set()
    results = await asyncio.gather(*streams, return_exceptions=True)
    assert list(map(repr, results)) == ["Down('half way')"] * 3
    assert await waiting == b"onetwo"
    assert producer.started == 2


async def test_a_laggard_hears_the_failure_after_its_pieces():
    """A slow stream gets what came before the failure, and then the failure."""
    flights, producer, slow = Flights(), Producer(fail_after=Down("x")), Collect(room=0)

    async def lag():
        async with flights.join(b"k", stream=True, start=producer) as seat:
            slow.seat = seat
            await seat.follow(slow)

    task = asyncio.create_task(lag())
    await settle()
    producer.go.set()
    await settle()
    assert (slow.pieces, task.done(), producer.held) == ([], False, 0)
    slow.room = 9
    slow.seat.catch_up()
    with pytest.raises(Down):
        await task
    assert slow.pieces == [b"one"]


async def test_a_seat_that_asks_after_the_failure():
    """Who had joined but not asked yet hears when asking: nothing hangs."""
    flights, producer = Flights(), Producer(fail_before=Down("x"))
    async with (
        flights.join(b"k", stream=True, start=producer) as leader,
        flights.join(b"k", stream=True, start=producer) as other,
    ):
        producer.go.set()
        await settle()
        with pytest.raises(Down):
            await leader.follow(Collect())
        with pytest.raises(Orphaned) as caught:
            await other.whole()
        assert caught.value.spent
    assert (len(flights), flights.tasks) == (0, 0)


async def test_a_producer_without_an_answer():
    """A producer that returns before it began has failed, and says so."""

    async def start(flight):
        await asyncio.sleep(0)

    with pytest.raises(RuntimeError, match="without an answer"):
        await ask(Flights(), start)


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (lambda flight: flight.write(b"x"), "between"),
        (lambda flight: [flight.begin(1), flight.begin(2)], "once"),
        (lambda flight: [flight.begin(1), flight.end(), flight.begin(2)], "once"),
        (lambda flight: [flight.begin(1), flight.end(), flight.write(b"x")], "between"),
        (lambda flight: flight.end(), "has begun"),
    ],
)
async def test_steps_out_of_order_raise_in_the_producer(steps, message):
    """Begin, pieces, end, in this order: anything else is the producer's mistake, told there."""
    seen = []

    async def start(flight):
        try:
            steps(flight)
        except RuntimeError as error:
            seen.append(str(error))
            raise Down from error
        flight.end()

    await asyncio.gather(ask(Flights(), start), return_exceptions=True)
    await settle()
    assert len(seen) == 1
    assert message in seen[0]


async def test_a_cancelled_producer_is_a_failure():
    """If something else cancels the producer, the leader hears that; it is not mistaken for its own cancellation."""
    flights, producer = Flights(), Producer()
    task = asyncio.create_task(ask(flights, producer))
    await settle()
    producer.flight.task.cancel()
    with pytest.raises(FlightCancelled):
        await task


@pytest.mark.parametrize("broken", ["begin", "write"])
@pytest.mark.parametrize("late", [False, True])
async def test_a_sink_that_raises_loses_its_own_seat_only(broken, late):
    """An exception of one client's sink, live or catching up, is that subscriber's; it is given no more, the others all."""

    class Broken(Collect):
        failed = written = 0

        def write(self, *_):
            self.written += 1

    def fail(self, *_):
        self.failed += 1
        raise OSError("sink")

    setattr(Broken, broken, fail)
    flights, started, over, sink = Flights(), [], asyncio.Event(), Broken()

    async def start(flight):
        started.append(flight)
        await over.wait()

    async def break_down():
        async with flights.join(b"k", stream=True, start=start) as seat:
            await seat.follow(sink)

    def write_one():
        started[0].begin("head")
        started[0].write(b"one")

    good = [asyncio.create_task(ask(flights, start)) for _ in range(2)]
    await settle()
    if late:
        write_one()
    bad = asyncio.create_task(break_down())
    await settle()
    if not late:
        write_one()
    started[0].write(b"two")
    over.set()
    with pytest.raises(OSError, match="sink"):
        await bad
    assert await asyncio.gather(*good) == [b"onetwo"] * 2
    assert (sink.failed, sink.written) == (1, 0)


async def test_a_shared_failure_keeps_its_own_traceback():
    """However many subscribers raise one failure, its traceback shows the producer, not all of them."""
    flights, producer = Flights(), Producer(fail_after=Down("x"))
    tasks = [asyncio.create_task(ask(flights, producer)) for _ in range(30)]
    await settle()
    producer.go.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert len({id(result) for result in results}) == 1
    frames = traceback.extract_tb(results[0].__traceback__)
    assert len(frames) < 10
    assert "produce" in [frame.name for frame in frames]


@pytest.mark.parametrize("where", ["fail_before", "fail_after"])
async def test_a_failed_flight_is_no_garbage(where):
    """A flight that failed is freed when its subscribers are gone, without waiting for the garbage collector."""
    flights, gone = Flights(), []

    async def start(flight):
        gone.append(weakref.ref(flight.task))
        big = Big()
        gone.append(weakref.ref(big))
        if where == "fail_after":
            flight.begin("head")
            flight.write(b"x")
        raise Down("x")

    async def try_it():
        with contextlib.suppress(Down):
            await ask(flights, start)

    gc.collect()
    gc.disable()
    try:
        await try_it()
        await settle()
        assert [ref() for ref in gone] == [None, None]
    finally:
        gc.enable()


class Big:
    """Something that a producer's frame holds."""


@given(st.lists(st.sampled_from([Down, Limit]), max_size=6), st.integers(1, 8), st.booleans())
def test_chances_are_counted(failures, count, mixed):
    """For any series of failures: everybody ends with an answer or a failure, fleet failures cost two flights at most a head,
    and a follower never hears a personal failure but its own.
    """

    async def run():
        flights, start = Flights(personal=(Limit,)), script(*(kind(str(n)) for n, kind in enumerate(failures)))
        results = await ask_all(flights, start, count, streams=(True, False) if mixed else (True,))
        await settle()
        assert (len(flights), flights.tasks) == (0, 0)
        limits = [repr(result) for result in results if isinstance(result, Limit)]
        assert len(limits) == len(set(limits))
        assert all(result == b"answer" or isinstance(result, (Down, Limit)) for result in results)
        assert len(start.started) <= count
        if sum(kind is Down for kind in failures[: len(start.started)]) == 0:
            assert sum(result == b"answer" for result in results) == max(0, count - len(failures))

    asyncio.run(run())
