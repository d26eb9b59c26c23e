"""Single flight: slow subscribers, the bounded record, and the brake."""

import asyncio

import pytest
from cache_sinks import Brake, Collect, settle

from caches.errors import FlightLagged, Orphaned
from caches.flight import Flights
from caches.reader import RecordBounds

PIECE = b"x" * 10
SMALL = RecordBounds(max_record=100, max_ahead=40)


class Scene:
    """A flight whose pieces the test writes itself, and its subscribers."""

    def __init__(self, bounds=SMALL, stream=True, brake=True):
        self.flights = Flights(bounds=bounds)
        self.stream = stream
        self.brake = Brake() if brake else None
        self.over = asyncio.Event()
        self.flight = None
        self.tasks = []

    async def start(self, flight):
        self.flight = flight
        flight.flow = self.brake
        flight.begin("head")
        await self.over.wait()

    async def join(self, sink=None, *, key=b"k"):
        """A stream subscriber with a sink, else one that waits for the whole as JSON."""

        async def run():
            async with self.flights.join(key, stream=sink is not None if self.stream else False, start=self.start) as seat:
                if sink is None:
                    return b"".join((await seat.whole())[1])
                sink.seat = seat
                await seat.follow(sink)
                return sink.text

        self.tasks.append(asyncio.create_task(run()))
        await settle()
        return self.tasks[-1]

    def write(self, count=1):
        for _ in range(count):
            self.flight.write(PIECE)

    async def end(self):
        self.over.set()
        return await asyncio.gather(*self.tasks, return_exceptions=True)


def drain(sink, room):
    sink.room = room
    sink.seat.catch_up()


async def test_a_laggard_catches_up():
    """A full sink is given nothing more until it has room, then what it missed, in order, then live pieces again."""
    scene, slow, fast = Scene(RecordBounds()), Collect(room=1), Collect()
    await scene.join(fast)
    await scene.join(slow)
    for n in range(4):
        scene.flight.write(b"%d" % n)
    assert (slow.text, fast.text) == (b"0", b"0123")
    drain(slow, 2)
    assert slow.text == b"012"
    drain(slow, 9)
    scene.flight.write(b"4")
    assert slow.text == b"01234"
    assert await scene.end() == [b"01234"] * 2


async def test_a_laggard_is_waited_for_by_its_seat_only():
    """When the flight ends, who had everything goes; the laggard's `follow` returns when the rest is written."""
    scene, slow, fast = Scene(RecordBounds()), Collect(room=1), Collect()
    quick, lazy = await scene.join(fast), await scene.join(slow)
    scene.write(3)
    scene.over.set()
    await settle()
    assert (quick.done(), lazy.done(), len(scene.flights), scene.flights.tasks) == (True, False, 0, 0)
    drain(slow, 2)
    await settle()
    assert lazy.result() == PIECE * 3


async def test_a_late_joiner_may_be_slow():
    """A joiner that takes only part of what was missed lags like any other."""
    scene, late = Scene(RecordBounds()), Collect(room=2)
    await scene.join(Collect())
    scene.write(5)
    await scene.join(late)
    assert late.pieces == [PIECE] * 2
    drain(late, 99)
    scene.write()
    assert await scene.end() == [PIECE * 6] * 2


async def test_a_sink_that_is_full_from_the_beginning():
    """A sink may be full before the head: the head is given, the pieces wait."""
    scene, full = Scene(RecordBounds()), Collect(room=0)
    await scene.join(full)
    scene.write(2)
    assert (full.head, full.pieces) == ("head", [])
    drain(full, 9)
    assert await scene.end() == [PIECE * 2]


async def test_catching_up_from_inside_a_write():
    """A sink that finds room again while it is being written to may say so at once: nothing comes twice or out of order."""
    scene = Scene(RecordBounds())

    class Eager(Collect):
        def write(self, data, usage_only):
            super().write(data, usage_only)
            self.seat.catch_up()

    eager = Eager(room=2)
    await scene.join(Collect())
    await scene.join(eager)
    for n in range(9):
        scene.flight.write(b"%d" % n)
    assert eager.text == b"01"
    drain(eager, 3)
    assert eager.text == b"01234"
    drain(eager, 99)
    assert await scene.end() == [b"012345678"] * 2


async def test_a_laggard_is_dropped_when_the_record_is_full():
    """A subscriber that falls behind by more than the record holds is dropped while somebody is live; the others go on."""
    scene, slow, fast = Scene(), Collect(room=1), Collect()
    quick, lazy = await scene.join(fast), await scene.join(slow)
    scene.write(10)
    await settle()
    assert not lazy.done()
    scene.write()
    await settle()
    assert isinstance(lazy.exception(), FlightLagged)
    assert slow.pieces == [PIECE]
    scene.write(1000)
    scene.over.set()
    assert await quick == PIECE * 1011
    assert scene.brake.calls == []


async def test_a_slight_laggard_stays():
    """When the record is full, pieces that everybody had are let go first, and who is but a little behind is not dropped."""
    scene, slow = Scene(), Collect(room=1)
    await scene.join(Collect())
    await scene.join(slow)
    for _ in range(100):
        scene.write(3)
        drain(slow, 3)
    assert await scene.end() == [PIECE * 300] * 2


async def test_the_furthest_behind_is_dropped_first():
    """When the record is full, a laggard that has most of it still to come goes; one that has less than half of it stays."""
    scene, far, near = Scene(), Collect(room=1), Collect(room=1)
    await scene.join(Collect())
    dropped = await scene.join(far)
    await scene.join(near)
    scene.write(7)
    drain(near, 6)
    scene.write(4)
    await settle()
    assert isinstance(dropped.exception(), FlightLagged)
    drain(near, 99)
    scene.tasks.remove(dropped)
    assert await scene.end() == [PIECE * 11] * 2


async def test_who_waits_for_the_whole_drops_nobody():
    """When a record is full, who waits for the whole goes first, and no slow stream is dropped for its sake."""
    scene, slow = Scene(), Collect(room=0)
    await scene.join(slow)
    waiting = await scene.join()
    scene.write(11)
    await settle()
    assert isinstance(waiting.exception(), Orphaned)
    scene.write()
    assert scene.brake.calls == ["pause"]
    drain(slow, 99)
    scene.tasks.remove(waiting)
    assert await scene.end() == [PIECE * 12]


async def test_an_outgrown_flight_is_not_joined():
    """Past the bound of its record a flight takes no more subscribers: the next one starts another."""
    scene = Scene()
    await scene.join(Collect())
    first = scene.flight
    scene.write(11)
    await scene.join(Collect())
    assert scene.flight is not first
    assert scene.flights.tasks == 2
    scene.write(2)
    assert await scene.end() == [PIECE * 11, PIECE * 2]
    assert (len(scene.flights), scene.flights.tasks) == (0, 0)


async def test_the_record_says_when_it_is_cut():
    """The record can be stored while it is whole; once something was let go there is none."""
    scene = Scene()
    await scene.join(Collect())
    scene.write(10)
    assert scene.flight.pieces == [PIECE] * 10
    scene.write()
    assert scene.flight.pieces is None
    await scene.end()


async def test_who_waits_for_the_whole_of_an_outgrown_stream_asks_alone():
    """The record cannot hold the whole any more, so who waits for it is orphaned, with the second chance untouched."""
    scene = Scene()
    await scene.join(Collect())
    waiting = await scene.join()
    scene.write(11)
    await settle()
    assert isinstance(waiting.exception(), Orphaned)
    assert not waiting.exception().spent
    await scene.end()


async def test_a_leader_that_waits_for_the_whole_of_its_own_stream():
    """It cannot be told to ask again, for it would go round for ever: it lagged."""
    flights = Flights(bounds=SMALL)

    async def start(flight):
        flight.begin("head")
        for _ in range(11):
            flight.write(PIECE)

    async with flights.join(b"k", stream=True, start=start) as seat:
        with pytest.raises(FlightLagged):
            await seat.whole()


async def test_an_answer_that_is_no_stream_is_never_cut():
    """A JSON answer larger than the record, bounded by its producer, still reaches all who joined, but nobody joins late."""
    scene = Scene(stream=False)
    first, second = await scene.join(), await scene.join()
    scene.flight.write(b"y" * 1000)
    third = await scene.join()
    scene.flight.write(b"z")
    assert await scene.end() == [b"y" * 1000] * 2 + [b"z"]
    assert first.done()
    assert second.done()
    assert third.done()


@pytest.mark.parametrize("whole", [False, True])
async def test_asking_too_late_for_an_outgrown_stream(whole):
    """A seat that joined in time but asks when the beginning is gone was given nothing, so it can ask again."""
    scene = Scene()
    await scene.join(Collect())
    async with scene.flights.join(b"k", stream=True, start=scene.start) as seat:
        scene.write(30)
        with pytest.raises(Orphaned):
            await (seat.whole() if whole else seat.follow(Collect()))
    await scene.end()


async def test_everybody_slow_pauses_the_producer():
    """When nobody is live and the fastest is too far behind, the producer is paused; with room again it is resumed."""
    scene, one, two = Scene(), Collect(room=0), Collect(room=1)
    await scene.join(one)
    await scene.join(two)
    scene.write(5)
    assert scene.brake.calls == []
    scene.write()
    assert scene.brake.calls == ["pause"]
    scene.write(2)
    assert scene.brake.calls == ["pause"]
    drain(one, 1)
    assert scene.brake.calls == ["pause"]
    drain(two, 5)
    assert scene.brake.calls == ["pause", "resume"]
    drain(two, 99)
    drain(one, 99)
    assert await scene.end() == [PIECE * 8] * 2


@pytest.mark.parametrize("sink", [Collect, lambda: None])
async def test_a_new_subscriber_resumes_the_producer(sink):
    """Somebody who is not slow joins a paused flight: it goes on for them."""
    scene = Scene()
    await scene.join(Collect(room=0))
    scene.write(6)
    assert scene.brake.calls == ["pause"]
    await scene.join(sink())
    assert scene.brake.calls == ["pause", "resume"]
    scene.tasks.pop(0).cancel()
    assert await scene.end() == [PIECE * 6]


async def test_a_slow_client_alone_lets_a_short_answer_end():
    """Within `max_ahead` the producer runs to its end, gives its slot back, and the client reads on from the record."""
    scene, slow = Scene(), Collect(room=0)
    lazy = await scene.join(slow)
    scene.write(4)
    scene.over.set()
    await settle()
    assert (scene.brake.calls, scene.flights.tasks, lazy.done()) == ([], 0, False)
    drain(slow, 4)
    assert await lazy == PIECE * 4


async def test_a_paused_client_holds_a_bounded_record():
    """Slow clients that keep just ahead of being dropped never make the record grow beyond its bound and what was on its way."""
    scene, slow = Scene(), Collect(room=0)
    await scene.join(slow)
    written = 0
    for _ in range(500):
        while not scene.brake.paused:
            scene.write()
            written += 1
        assert sum(len(data) for data, _ in scene.flight._record) <= SMALL.max_record + len(PIECE)
        drain(slow, 3)
    drain(slow, 10**6)
    assert await scene.end() == [PIECE * written]


async def test_without_a_brake_a_slow_client_is_dropped():
    """A producer that cannot be paused fills the record twice, then everybody who is behind is dropped."""
    scene = Scene(brake=False)
    lazy = await scene.join(Collect(room=0))
    scene.write(20)
    await settle()
    assert not lazy.done()
    scene.write()
    await settle()
    assert isinstance(lazy.exception(), FlightLagged)
    await settle()
    assert (len(scene.flights), scene.flights.tasks) == (0, 0)


async def test_a_new_brake_is_running():
    """When the producer changes to another source, the new one is paused as soon as it must be."""
    scene = Scene()
    await scene.join(Collect(room=0))
    scene.write(6)
    scene.flight.flow = other = Brake()
    scene.write()
    assert (scene.brake.calls, other.calls) == (["pause"], ["pause"])
    scene.tasks[0].cancel()
    await scene.end()


async def test_a_seat_that_left_is_given_nothing():
    """A sink whose seat is gone is not written to, even if it says that it has room."""
    scene, gone, stays = Scene(), Collect(room=0), Collect()
    task = await scene.join(gone)
    await scene.join(stays)
    scene.write()
    task.cancel()
    await settle()
    scene.write()
    drain(gone, 99)
    assert gone.pieces == []
    scene.tasks.remove(task)
    assert await scene.end() == [PIECE * 2]
