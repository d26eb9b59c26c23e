"""The two ends of a feed without a socket between them: what is under way, in which parts, and who is found."""

import asyncio
from collections import deque

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from caches.errors import Orphaned
from caches.flight import Flights
from gateway.dispatch import messages as m
from gateway.dispatch.feeds import GONE, WINDOW
from gateway.dispatch.incoming import Incoming
from gateway.dispatch.outgoing import Outgoing
from gateway.errors import ApiError
from gateway.exchange import Work
from gateway.reply import Head

HEAD = Head(200, b"text/event-stream", stream=True)


class Client:
    """A sink that takes everything, or `room` pieces until it is told otherwise."""

    def __init__(self, room=None):
        self.head, self.pieces, self.room = None, [], room

    line = None

    @property
    def writable(self):
        return self.room is None or self.room > 0

    def begin(self, head):
        self.head = head

    def write(self, data, usage_only):
        self.pieces.append((data, usage_only))
        if self.room is not None:
            self.room -= 1


class Line:
    """Two workers, a dispatcher between them, and what each has said; it arrives when told. To the maker it takes two steps:
    the dispatcher knows of a feed, and passes on what the maker says of it, before the maker has heard who asks.
    """

    def __init__(self, boarding=lambda _: False):
        self.maker, self.taker = Flights(), Flights()
        self.there, self.onward, self.here = deque(), deque(), deque()  # to the dispatcher, to the maker, to the taker
        self.known = self.offered = False  # to the dispatcher: who wants it, and that there is a rest of it
        self.outgoing = Outgoing(self.maker, self.from_maker, boarding)
        self.incoming = Incoming(self.there.append)

    def to_maker(self, count=None):
        """All of it all the way, or what the dispatcher has had so far, and `count` messages as far as to the dispatcher."""
        self.from_dispatcher()
        for _ in range(len(self.there) if count is None else min(count, len(self.there))):
            self.to_dispatcher(self.there.popleft())
        if count is None:
            self.from_dispatcher()

    def to_dispatcher(self, message):
        if isinstance(message, m.Subscribe) and not self.known:
            self.known = message.had is None or self.offered
            if not self.known:
                self.here.append(m.FeedEnd(message.feed, b"", GONE))
        if self.known:
            self.onward.append(message)

    def from_dispatcher(self):
        while self.onward:
            self.outgoing.said(self.onward.popleft())

    def to_taker(self, count=None):
        for _ in range(len(self.here) if count is None else min(count, len(self.here))):
            self.incoming.said(self.here.popleft())

    async def settle(self):
        for _ in range(400):
            self.to_maker()
            self.to_taker()
            await asyncio.sleep(0)

    def from_maker(self, message):
        if isinstance(message, m.Offer):
            self.offered = True
        elif self.known:
            self.here.append(message)
            if isinstance(message, m.FeedEnd):
                self.known = False
                self.onward.append(m.Unsubscribe(message.feed))

    def lose(self):
        """The dispatcher ends, with all that it had to pass on, and there is another one."""
        self.known = self.offered = False
        for way in (self.there, self.onward, self.here):
            way.clear()
        self.outgoing.lost()
        self.incoming.lost()
        self.outgoing.welcomed()
        self.incoming.welcomed()

    def follow(self, client, *, stream=True):
        intake = self.incoming.intake(b"k", stream=stream)
        return asyncio.create_task(self._follow(intake, client))

    async def _follow(self, intake, client):
        async with self.taker.join(b"k", stream=intake.stream, start=intake.feed, fed=intake.stream) as seat:
            client.seat = seat
            assert not seat.leader
            await seat.follow(client)


class Maker:
    """Leads a flight of the key at the maker, whose pieces the test says."""

    def __init__(self, line, *, stream=True):
        self.line, self.stream, self.over = line, stream, asyncio.Event()
        self.client, self.failure = Client(), None
        self.task = asyncio.create_task(self._lead())

    async def _lead(self):
        async with self.line.maker.join(b"k", stream=self.stream, start=self._produce) as seat:
            seat.flight.note = self.work = Work()
            self.flight = seat.flight
            await seat.follow(self.client)

    async def _produce(self, flight):
        await self.over.wait()
        if self.failure is not None:
            raise self.failure
        flight.end()


pieces = st.lists(st.tuples(st.integers(0, 3 * WINDOW), st.booleans()), max_size=12)


@given(pieces, st.lists(st.integers(0, 3), min_size=1, max_size=30), st.sets(st.integers(0, 12)))
def test_what_is_said_is_what_arrives(sizes, pace, losses):
    """Every piece arrives whole, once, in order, marked as it was, at whatever pace and through whatever losses; never more is
    under way than the credit."""

    async def run():
        line = Line()
        maker, client = Maker(line), Client()
        await asyncio.sleep(0)
        task = line.follow(client)
        await line.settle()
        maker.flight.begin(HEAD)
        said = [(bytes([65 + n]) * size, usage) for n, (size, usage) in enumerate(sizes)]
        for n, (data, usage) in enumerate(said):
            maker.flight.write(data, usage)
            for way in (line.to_taker, line.to_maker):
                way(pace[n % len(pace)])
            if n in losses:
                line.lose()
            assert sum(len(one.data) for one in line.here if isinstance(one, m.Piece)) <= WINDOW
        maker.over.set()
        if 12 in losses:
            for _ in range(5):
                await asyncio.sleep(0)
            line.lose()
        await line.settle()
        await asyncio.gather(task, maker.task)
        assert client.pieces == maker.client.pieces == said
        assert (client.head, len(line.outgoing), len(line.incoming)) == (HEAD, 0, 0)

    asyncio.run(run())


async def test_a_client_that_does_not_read_stops_its_own_feed_alone():
    """It leaves the maker's own client at its pace; what waits here and on the way is bounded; all comes once it reads."""
    line = Line()
    maker, client = Maker(line), Client(room=0)
    await asyncio.sleep(0)
    task = line.follow(client)
    await line.settle()
    maker.flight.begin(HEAD)
    piece = b"x" * 16 * 1024
    for _ in range(200):  # 3.2 MiB: less than what a record keeps, more than what a flight runs ahead
        maker.flight.write(piece)
        line.to_taker()
        line.to_maker()
    assert len(maker.client.pieces) == 200
    assert client.seat.flight.size <= 1024 * 1024 + 2 * WINDOW
    maker.over.set()
    await maker.task
    client.room = None
    client.seat.catch_up()
    await line.settle()
    await task
    assert len(client.pieces) == 200


async def test_a_flight_that_is_about_to_be_is_waited_for():
    """A word that comes before the leader has taken its seat finds it some ticks later."""
    boarding = True
    line = Line(lambda n: boarding)
    client = Client()
    task = line.follow(client)
    await asyncio.sleep(0)
    line.to_maker()
    for _ in range(5):
        await asyncio.sleep(0)
    assert not line.here
    maker = Maker(line)
    await asyncio.sleep(0)
    boarding = False
    maker.over.set()
    maker.flight.begin(HEAD)
    await line.settle()
    await task
    assert client.head == HEAD
    await maker.task


@pytest.mark.parametrize("boarding", [False, True], ids=["no such request", "one that never takes its seat"])
async def test_what_is_not_there_is_gone(boarding):
    """Who asks for an answer that nobody makes is told to ask again, and soon."""
    line = Line(lambda n: boarding)
    task = line.follow(Client())
    await line.settle()
    with pytest.raises(Orphaned) as orphaned:
        await task
    assert not orphaned.value.spent


async def test_an_answer_in_another_format_than_told_is_gone():
    """Clients who took their seats for a stream are not given what is none."""
    line = Line()
    maker = Maker(line, stream=False)
    await asyncio.sleep(0)
    task = line.follow(Client(), stream=True)
    await line.settle()
    with pytest.raises(Orphaned):
        await task
    maker.flight.begin(Head(200, b"application/json", stream=False))
    maker.over.set()
    await maker.task


async def test_what_is_only_passed_on_is_not_passed_on_again():
    """A worker gives others what it makes, not what it has from others."""
    line = Line()
    maker, client = Maker(line), Client()
    await asyncio.sleep(0)
    task = line.follow(client)
    await line.settle()
    assert line.maker.flying(b"k") is maker.flight
    assert line.taker.flying(b"k") is None
    with pytest.raises(Orphaned):
        async with line.taker.attend(b"k"):
            pass
    maker.flight.begin(HEAD)
    maker.over.set()
    await line.settle()
    await asyncio.gather(task, maker.task)


async def test_who_leaves_at_once_is_told_the_end_all_the_same():
    """A word and its withdrawal that come together end in the last word that every feed has."""
    line = Line()
    maker = Maker(line)
    await asyncio.sleep(0)
    task = line.follow(Client())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    for _ in range(5):
        await asyncio.sleep(0)
    assert [type(one) for one in line.there] == [m.Subscribe, m.Unsubscribe]
    await line.settle()
    assert task.cancelled()
    assert (len(line.outgoing), len(line.incoming)) == (0, 0)
    maker.flight.begin(HEAD)
    maker.over.set()
    await maker.task


async def test_a_failure_of_the_work_is_heard_as_it_is_the_second_time():
    """Who is left with nothing may try once more; then it hears the very error."""
    line = Line()
    maker, client = Maker(line), Client()
    await asyncio.sleep(0)
    maker.failure = ApiError(502, "upstream_error", "It broke.", headers={"retry-after": "3"}, outcome="upstream_error")
    intake = line.incoming.intake(b"k", stream=True)
    task = asyncio.create_task(_spent(line, intake, client))
    await line.settle()
    maker.over.set()
    await line.settle()
    with pytest.raises(ApiError) as heard:
        await task
    assert vars(heard.value) == vars(maker.failure)
    with pytest.raises(ApiError):
        await maker.task


async def _spent(line, intake, client):
    async with line.taker.join(b"k", stream=True, start=intake.feed, fed=True, spent=True) as seat:
        await seat.follow(client)


@pytest.mark.parametrize("stays", [True, False], ids=["a client of its own stays", "none does"])
async def test_the_tokens_are_told_once(stays):
    """With the end goes whether its tokens are the subscriber's to tell: only when nobody of the maker's own can."""
    line = Line()
    maker, client = Maker(line), Client()
    await asyncio.sleep(0)
    task = line.follow(client)
    await line.settle()
    maker.flight.begin(HEAD)
    if not stays:
        maker.task.cancel()
        await asyncio.sleep(0)
    maker.work.charged, maker.work.settled = 7, True
    maker.over.set()
    await asyncio.sleep(0)
    note = client.seat.flight.note
    if stays:
        maker.work.reported = True  # as its line does
    await line.settle()
    await task
    assert (note.charged, note.settled, note.reported) == (7, True, stays)
    assert maker.work.reported


async def test_gone_is_said_in_one_word():
    """Where there is no error to tell, the fault is no JSON."""
    line = Line()
    line.there.append(m.Subscribe(1, b"k", 1, True, 0))
    line.to_maker()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert line.here.pop() == m.FeedEnd(1, b"", GONE)


@pytest.mark.parametrize("ended", [False, True])
async def test_a_piece_that_has_no_place_harms_nobody(ended):
    """Without its head, lost with a dispatcher, whoever waits asks anew; behind the end it is not heard at all."""
    incoming, flights = Incoming(lambda _: None), Flights()
    intake = incoming.intake(b"key", stream=True)
    seat = flights.join(b"key", stream=True, start=intake.feed, fed=True)
    async with seat:
        whole = asyncio.ensure_future(seat.whole())
        await asyncio.sleep(0)
        (number,) = incoming._feeds
        if ended:
            incoming.said(m.FeedHead(number, 200, b"text/event-stream", stream=True, work=msgspec.msgpack.encode({})))
            incoming.said(m.FeedEnd(number, b"", b""))
        incoming.said(m.Piece(number, b"data: 1\n\n", usage_only=False, more=False, last=False))
        if ended:
            assert (await whole)[1] == []
        else:
            with pytest.raises(Orphaned):
                await whole


async def test_an_end_that_nobody_passed_on_is_said_again():
    """A dispatcher that hangs takes it and dies with it, long after the answer was over: who listens has all of it yet."""
    line = Line()
    maker, client = Maker(line), Client()
    await asyncio.sleep(0)
    task = line.follow(client)
    await line.settle()
    maker.flight.begin(HEAD)
    maker.flight.write(b"data: 1\n\n")
    maker.over.set()
    await maker.task
    for _ in range(5):
        await asyncio.sleep(0)
    assert [type(one) for one in line.here] == [m.FeedHead, m.Piece, m.FeedEnd]
    assert line.maker.flying(b"k") is None
    line.lose()
    await line.settle()
    await task
    assert client.pieces == [(b"data: 1\n\n", False)]
    assert not len(line.outgoing)


async def test_the_rest_is_asked_for_once_a_loss():
    """Told to ask later, it does not ask a dispatcher that came meanwhile a second time: the rest would come twice."""
    said = []
    incoming, flights = Incoming(said.append), Flights()
    intake = incoming.intake(b"key", stream=True)
    async with flights.join(b"key", stream=True, start=intake.feed, fed=True) as seat:
        following = asyncio.create_task(seat.follow(Client()))
        await asyncio.sleep(0)
        (number,) = incoming._feeds
        incoming.said(m.FeedHead(number, 200, b"text/event-stream", stream=True, work=msgspec.msgpack.encode({})))
        for _ in range(2):
            incoming.lost()
            incoming.welcomed()
            incoming.said(m.FeedEnd(number, b"", GONE))
        said.clear()
        await asyncio.sleep(0.2)
        assert [(type(one), one.had) for one in said] == [(m.Subscribe, 1)]
        incoming.said(m.FeedEnd(number, b"", b""))
        await following
