"""Single flight under thousands of joins, departures and failures in random order."""

import asyncio
import random

import pytest
from cache_sinks import Collect

from caches.errors import FlightCancelled, FlightLagged, Orphaned
from caches.flight import Flights
from caches.reader import RecordBounds


class Down(Exception):
    """The fleet's fault."""


class Limit(Exception):
    """The leader's own limit."""


class Crowd:
    """Clients and producers that pause, fail and leave as a seeded generator says; everything held is counted."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.flights = Flights(
            personal=(Limit,), bounds=RecordBounds(max_record=300, max_ahead=60), max_subscribers=20, max_flights=6
        )
        self.held = 0
        self.started = 0
        self.answered = 0
        self.orphaned = 0
        self.restarted_late = 0  # after the head was given, or with more chances than before

    async def dawdle(self, most=4):
        for _ in range(self.random.randrange(most)):
            await asyncio.sleep(0)

    async def produce(self, flight):
        self.started += 1
        self.held += 1
        chance = self.random.random()
        try:
            await self.dawdle()
            if chance < 0.1:
                raise Down
            if chance < 0.2:
                raise Limit
            if chance < 0.23:
                asyncio.current_task().cancel()
                await asyncio.sleep(0)
            if chance < 0.25:
                return
            flight.begin(flight.key)
            for n in range(self.random.randrange(60)):
                flight.write(b"%09d;" % n)
                if n % 3 == 0:
                    await asyncio.sleep(0)
                if chance > 0.98:
                    raise Down
            if chance > 0.6:
                flight.end()
                await self.dawdle()
        finally:
            try:
                await self.dawdle()
            finally:
                self.held -= 1

    async def client(self, key):
        stream, sink, spent = self.random.random() < 0.7, Collect(self.random.choice([None, None, 1, 5])), False
        await self.dawdle(60)
        while True:
            try:
                async with self.flights.join(key, stream=stream, start=self.produce, spent=spent) as seat:
                    await self.dawdle(3)
                    if stream and seat.same_wire:
                        drainer = asyncio.create_task(self.drain(seat, sink)) if sink.room is not None else None
                        try:
                            await seat.follow(sink)
                        finally:
                            if drainer is not None:
                                drainer.cancel()
                        pieces = sink.pieces
                        assert sink.head == key
                    else:
                        head, pieces = await seat.whole()
                        assert head == key
                    assert pieces == [b"%09d;" % n for n in range(len(pieces))]
                    self.answered += 1
                    return
            except Orphaned as orphan:
                self.orphaned += 1
                self.restarted_late += sink.head is not None or orphan.spent < spent
                spent = orphan.spent

    async def drain(self, seat, sink):
        while True:
            await self.dawdle(6)
            await asyncio.sleep(0)
            sink.room = self.random.randrange(6)
            seat.catch_up()

    async def run(self, count):
        clients = [asyncio.create_task(self.client(b"%d" % self.random.randrange(9))) for _ in range(count)]
        for client in self.random.sample(clients, count // 3):
            await self.dawdle(2)
            client.cancel()
            if self.random.random() < 0.2:
                await asyncio.sleep(0)
                client.cancel()
        return await asyncio.gather(*clients, return_exceptions=True)


@pytest.mark.parametrize("seed", range(20))
async def test_nothing_is_left_behind(seed):
    """After hundreds of random joins, cancellations, failures and slow readers there are no flights, producers or leases left."""
    crowd = Crowd(seed)
    results = await crowd.run(300)
    for _ in range(50):
        await asyncio.sleep(0)
    assert (len(crowd.flights), crowd.flights.tasks, crowd.held) == (0, 0, 0)
    expected = (type(None), Down, Limit, FlightLagged, FlightCancelled, RuntimeError, asyncio.CancelledError)
    assert all(isinstance(result, expected) for result in results)
    assert len(asyncio.all_tasks()) == 1
    assert crowd.answered > 20
    assert crowd.orphaned > 0
    assert crowd.restarted_late == 0
    assert crowd.started < 300
