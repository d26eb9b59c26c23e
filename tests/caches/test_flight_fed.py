"""Single flight over processes: flights that pass on what another process makes, and seats of such processes here."""

import asyncio

import pytest
from cache_sinks import Collect, Producer, settle

from caches.errors import Orphaned
from caches.flight import Flights


async def follow(flights, start, sink, **how):
    async with flights.join(b"k", stream=True, start=start, fed=True, **how) as seat:
        assert not seat.leader
        await seat.follow(sink)


async def test_nobody_leads_what_is_only_passed_on():
    """The first of a fed flight is orphaned by its failure as any follower is, and hears it the second time."""
    flights, first, second = Flights(), Producer(fail_before=OSError("down")), Producer(fail_before=OSError("down"))
    first.go.set()
    with pytest.raises(Orphaned) as orphaned:
        await follow(flights, first, Collect())
    assert orphaned.value.spent
    second.go.set()
    with pytest.raises(OSError, match="down"):
        await follow(flights, second, Collect(), spent=True)


async def test_a_producer_may_have_had_nothing_to_pass_on():
    """An Orphaned of the producer's own sends everybody to ask again, and uses up nobody's second chance."""
    for spent in (False, True):
        producer = Producer(fail_before=Orphaned(spent=False))
        producer.go.set()
        with pytest.raises(Orphaned) as orphaned:
            await follow(Flights(), producer, Collect(), spent=spent)
        assert orphaned.value.spent is spent


async def test_a_fed_flight_has_the_format_of_its_source():
    """Who asks for the other format has the whole of it to put together."""
    flights, producer = Flights(), Producer()
    producer.go.set()
    async with flights.join(b"k", stream=True, start=producer, fed=False) as seat:
        assert not seat.same_wire
        assert await seat.whole() == ("head", [b"one", b"two"])


async def test_an_attendant_keeps_the_work_going():
    """A seat without a request of its own follows in whichever format, raises the class, and ends the work by leaving last."""
    flights, producer, raised, sink = Flights(), Producer(), [], Collect()

    async def attend():
        async with flights.attend(b"k", priority=1) as seat:
            await seat.follow(sink)

    async with flights.join(b"k", stream=False, start=producer, priority=2, on_raise=raised.append):
        attendant = asyncio.create_task(attend())
        await settle()
    assert (sink.text, raised, producer.held) == (b"one", [1], 1)
    attendant.cancel()
    await settle()
    assert (producer.cancelled, producer.held, len(flights)) == (1, 0, 0)


async def test_an_attendant_starts_nothing():
    """Where nothing is made under the key, or no more are taken, it is orphaned at once."""
    flights = Flights(max_subscribers=1)
    for _ in range(2):
        with pytest.raises(Orphaned):
            async with flights.attend(b"k"):
                pass
    producer = Producer()
    async with flights.join(b"k", stream=True, start=producer):
        await settle()
        assert flights.flying(b"k") is None
        with pytest.raises(Orphaned):
            async with flights.attend(b"k"):
                pass
    assert (producer.started, producer.held) == (1, 0)
