"""Single flight: one producer, many subscribers, and who ends what."""

import asyncio
import logging

import pytest
from cache_sinks import Collect, Producer, settle

from caches.flight import FlightCancelled, Flights
from caches.key import exact_key
from caches.scope import Scope


async def follow(flights, start, *, sink=None, key=b"k", stream=True, **more):
    """One stream subscriber from joining to the end."""
    sink = sink or Collect()
    async with flights.join(key, stream=stream, start=start, **more) as seat:
        await seat.follow(sink)
    return sink.text


async def whole(flights, start, *, key=b"k", stream=False):
    """One subscriber that waits for the end."""
    async with flights.join(key, stream=stream, start=start) as seat:
        head, pieces = await seat.whole()
    return head, pieces


def assert_empty(flights, producer):
    assert (len(flights), flights.tasks, producer.held) == (0, 0, 0)


async def test_fifty_requests_one_start():
    """Fifty identical requests start one producer, and each gets the whole answer."""
    flights, producer = Flights(), Producer()
    tasks = [asyncio.create_task(follow(flights, producer)) for _ in range(50)]
    await settle()
    assert (producer.started, len(flights), len(producer.flight.readers)) == (1, 1, 50)
    producer.go.set()
    assert await asyncio.gather(*tasks) == [b"onetwo"] * 50
    assert_empty(flights, producer)


async def test_nothing_starts_until_the_seat_is_entered():
    """A seat that is never entered holds and starts nothing."""
    flights, producer = Flights(), Producer()
    flights.join(b"k", stream=True, start=producer)
    await settle()
    assert producer.started == 0
    assert_empty(flights, producer)


async def test_one_leads():
    """The first seat leads, later ones follow, and all see the same flight."""
    flights, producer = Flights(), Producer()
    async with flights.join(b"k", stream=True, start=producer) as one, flights.join(b"k", stream=True, start=producer) as two:
        assert (one.leader, two.leader) == (True, False)
        assert one.flight is two.flight
    assert_empty(flights, producer)


async def test_a_late_joiner_gets_what_was_missed():
    """Who joins in the middle is given the head and every piece so far at once, then the rest as it comes."""
    flights, producer, late = Flights(), Producer(), Collect()
    first = asyncio.create_task(follow(flights, producer))
    await settle()
    second = asyncio.create_task(follow(flights, producer, sink=late))
    await settle()
    assert (late.head, late.pieces) == ("head", [b"one"])
    producer.go.set()
    assert await first == await second == b"onetwo"


async def test_pieces_are_pushed_without_a_task_switch():
    """A piece is in every live sink when `write` returns."""
    flights, producer, sinks = Flights(), Producer(), [Collect() for _ in range(3)]
    tasks = [asyncio.create_task(follow(flights, producer, sink=sink)) for sink in sinks]
    await settle()
    producer.flight.write(b"now")
    assert [sink.pieces[-1] for sink in sinks] == [b"now"] * 3
    producer.go.set()
    await asyncio.gather(*tasks)


async def test_streams_and_json_share():
    """Of a stream's flight, those who want JSON wait for the whole, the usage chunk included; and the other way round."""
    for stream in (True, False):
        flights, producer = Flights(), Producer()
        one = asyncio.create_task(follow(flights, producer, stream=stream))
        await settle()
        rest = [asyncio.create_task(whole(flights, producer, stream=kind)) for kind in (True, False)]
        await settle()
        producer.flight.write(b"usage", usage_only=True)
        producer.go.set()
        assert await one == b"oneusagetwo"
        assert await asyncio.gather(*rest) == [("head", [b"one", b"usage", b"two"])] * 2
        assert producer.started == 1
        assert_empty(flights, producer)


async def test_the_wrong_wire_cannot_be_followed():
    """A seat knows whether the flight speaks its wire format, and refuses to mix the two."""
    flights, producer = Flights(), Producer()
    async with flights.join(b"k", stream=True, start=producer) as one, flights.join(b"k", stream=False, start=producer) as two:
        assert (one.same_wire, two.same_wire) == (True, False)
        with pytest.raises(RuntimeError, match="wire"):
            await two.follow(Collect())


async def test_each_sink_is_told_of_the_usage_chunk():
    """Live and late sinks alike learn which piece is the usage chunk."""
    flights, producer, live, late = Flights(), Producer(), Collect(), Collect()
    one = asyncio.create_task(follow(flights, producer, sink=live))
    await settle()
    producer.flight.write(b"usage", usage_only=True)
    two = asyncio.create_task(follow(flights, producer, sink=late))
    await settle()
    producer.go.set()
    await asyncio.gather(one, two)
    assert live.usage_flags == late.usage_flags == [False, True, False]


@pytest.mark.parametrize("leaver", [0, 1, 2])
@pytest.mark.parametrize("when", ["before begin", "between"])
async def test_who_leaves_does_not_matter_to_the_rest(leaver, when):
    """The leader or a follower may leave at any time: the producer goes on, and the others get everything."""
    flights, producer = Flights(), Producer()
    tasks = [asyncio.create_task(follow(flights, producer)) for _ in range(3)]
    await asyncio.sleep(0)
    if when == "between":
        await settle()
    tasks.pop(leaver).cancel()
    await settle()
    assert (producer.cancelled, len(producer.flight.readers)) == (0, 2)
    producer.go.set()
    assert await asyncio.gather(*tasks) == [b"onetwo"] * 2
    assert_empty(flights, producer)


async def test_the_last_to_leave_ends_the_producer():
    """When the last seat's exit returns, the producer was cancelled and has left its scopes."""
    flights, producer = Flights(), Producer()
    async with flights.join(b"k", stream=True, start=producer):
        async with flights.join(b"k", stream=True, start=producer):
            await settle()
        assert (producer.held, producer.cancelled) == (1, 0)
    assert producer.cancelled == 1
    assert_empty(flights, producer)


async def test_a_producer_cancelled_before_its_first_step():
    """A seat that is left at once takes the producer with it, even one that never ran."""
    flights, producer = Flights(), Producer()
    async with flights.join(b"k", stream=True, start=producer):
        pass
    assert producer.started == 0
    assert_empty(flights, producer)


async def test_a_joiner_after_the_last_left_starts_anew():
    """While an abandoned producer is still ending, an identical request gets a producer of its own."""
    flights, producer, release = Flights(), Producer(), asyncio.Event()

    async def slow_to_end(flight):
        try:
            await asyncio.Event().wait()
        finally:
            await release.wait()

    async def visit():
        async with flights.join(b"k", stream=True, start=slow_to_end):
            await settle()

    visitor = asyncio.create_task(visit())
    await settle()
    await settle()
    assert not visitor.done()
    second = asyncio.create_task(follow(flights, producer))
    producer.go.set()
    assert await second == b"onetwo"
    release.set()
    await visitor
    assert_empty(flights, producer)


async def test_waiting_for_the_producer_is_bounded(caplog):
    """A producer that does not end when cancelled holds its last subscriber for `grace` seconds, and is reported."""
    flights, release = Flights(grace=0.01), asyncio.Event()

    async def stubborn(flight):
        try:
            await asyncio.Event().wait()
        finally:
            await release.wait()

    with caplog.at_level(logging.WARNING, "tiergate.caches"):
        async with flights.join(b"k", stream=True, start=stubborn):
            await settle()
    assert "still runs" in caplog.text
    assert (len(flights), flights.tasks) == (0, 1)
    release.set()
    await settle()
    assert flights.tasks == 0


async def test_a_second_cancellation_ends_the_wait():
    """Who is cancelled again while waiting for the producer goes at once; the producer ends by itself."""
    flights, release = Flights(), asyncio.Event()

    async def stubborn(flight):
        try:
            await asyncio.Event().wait()
        finally:
            await release.wait()

    task = asyncio.create_task(follow(flights, stubborn))
    await settle()
    task.cancel()
    await settle()
    assert not task.done()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    release.set()
    await settle()
    assert (len(flights), flights.tasks) == (0, 0)


async def test_end_lets_subscribers_go_before_the_producer():
    """After `end`, nobody waits for what the producer still does, and the last one's leaving does not stop it."""
    flights, store, stored = Flights(), asyncio.Event(), []

    async def start(flight):
        flight.begin("head")
        flight.write(b"all")
        flight.end()
        await store.wait()
        stored.append(flight.pieces)

    assert await follow(flights, start) == b"all"
    assert (len(flights), flights.tasks) == (1, 1)
    assert await follow(flights, start) == b"all", "still to be joined until the answer is stored"
    assert await whole(flights, start) == ("head", [b"all"])
    store.set()
    await settle()
    assert stored == [[b"all"]]
    assert (len(flights), flights.tasks) == (0, 0)


async def test_a_failure_after_the_end_is_reported(caplog):
    """Subscribers had their answer, so a producer's late failure is no longer theirs, but it is not lost."""

    async def start(flight):
        flight.begin("head")
        flight.end()
        raise OSError("the store is gone")

    flights = Flights()
    with caplog.at_level(logging.ERROR, "tiergate.caches"):
        assert await follow(flights, start) == b""
        await settle()
    assert "the store is gone" in caplog.text


async def test_a_more_urgent_joiner_raises_the_flight():
    """The hook hears of each higher class once; a lower one changes nothing, and leaving takes nothing back."""
    flights, producer, heard = Flights(), Producer(), []

    def join(priority):
        return flights.join(b"k", stream=True, start=producer, priority=priority, on_raise=heard.append)

    async with join(2) as leader, join(2), join(1):
        async with join(0):
            pass
        async with join(1):
            assert leader.flight.priority == 0
        leader.flight.on_raise = None
        assert heard == [1, 0]


async def test_the_producer_can_set_the_hook_late():
    """A producer that comes to its queue later reads the priority reached so far, and hears of what is raised after."""
    flights, producer, heard = Flights(), Producer(), []
    async with flights.join(b"k", stream=True, start=producer, priority=2) as leader:
        async with flights.join(b"k", stream=True, start=producer, priority=1):
            assert leader.flight.priority == 1
        leader.flight.on_raise = heard.append
        async with flights.join(b"k", stream=True, start=producer, priority=0):
            assert heard == [0]


async def test_a_full_flight_is_not_joined():
    """Beyond `max_subscribers` a request runs alone, and the flight stays what it was."""
    flights, producer = Flights(max_subscribers=2), Producer()
    tasks = [asyncio.create_task(follow(flights, producer)) for _ in range(5)]
    await settle()
    assert (producer.started, len(flights), flights.tasks) == (4, 1, 4)
    producer.go.set()
    assert await asyncio.gather(*tasks) == [b"onetwo"] * 5
    assert_empty(flights, producer)


async def test_flights_are_bounded():
    """Beyond `max_flights` a request is served by a flight that nobody can join."""
    flights, producer = Flights(max_flights=1), Producer()
    tasks = [asyncio.create_task(follow(flights, producer, key=key)) for key in (b"a", b"b", b"b", b"a")]
    await settle()
    assert (producer.started, len(flights)) == (3, 1)
    producer.go.set()
    assert await asyncio.gather(*tasks) == [b"onetwo"] * 4
    assert_empty(flights, producer)


async def test_no_key_shares_with_nobody():
    """Requests without a key each have a producer of their own."""
    flights, producer = Flights(), Producer()
    tasks = [asyncio.create_task(follow(flights, producer, key=None)) for _ in range(3)]
    await settle()
    assert (producer.started, len(flights)) == (3, 0)
    producer.go.set()
    await asyncio.gather(*tasks)
    assert_empty(flights, producer)


async def test_tenants_never_share_a_flight():
    """The same request of two tenants has two keys, and so two producers."""
    flights, producer = Flights(), Producer()

    def key(tenant):
        body = {"messages": [{"role": "user", "content": "hi"}], "temperature": 0}
        return exact_key(secret=b"s", scope=Scope(tenant), endpoint="chat", models=[("m", "1")], body=body, tier=None)

    tasks = [asyncio.create_task(follow(flights, producer, key=key(t))) for t in ("alice", "bob", "alice", "bob")]
    await settle()
    assert producer.started == 2
    producer.go.set()
    await asyncio.gather(*tasks)


async def test_a_start_that_raises_leaves_nothing():
    """If the producer cannot even be made, the seat is not entered and nothing is held."""

    def start(flight):
        raise ValueError("no")

    flights = Flights()
    with pytest.raises(ValueError, match="no"):
        await follow(flights, start)
    assert (len(flights), flights.tasks) == (0, 0)


async def test_close_ends_everything():
    """At the end of the process every producer is cancelled and waited for, nobody is orphaned, and nothing new starts."""
    flights, producer = Flights(), Producer(fail_before=OSError())
    tasks = [asyncio.create_task(follow(flights, producer, key=key)) for key in (b"a", b"b", b"b", b"b")]
    await settle()
    await flights.close()
    assert_empty(flights, producer)
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(result) for result in results] == [FlightCancelled] * 4
    with pytest.raises(FlightCancelled):
        await follow(flights, producer)
