"""The short way of a token says of every read what the long way says, and passes on the same bytes."""

import json

from hypothesis import example, given, settings
from hypothesis import strategies as st
from sse_texts import TEXTS, choice, chunk

from backends.chunks import frame
from backends.sse import EventSplitter, Tally
from caches.producer import Flight
from caches.reader import Reader, RecordBounds
from gateway.exchange import Work
from gateway.lane import Texts
from gateway.relay import Tee

SPACES = [(",", ":"), (", ", ": ")]
ENDS = ["\n\n", "\r\n\r\n"]


class Client:
    """A sink that takes chunks as they are, and its line."""

    def __init__(self):
        self.got = b""
        self.straight = 0
        self.room = 10**6
        self.line = self
        self.writable = True

    def begin(self, head):
        self.outside = _Line(self)
        self.line = self.outside

    def write(self, data, usage_only):
        assert self.writable, "a sink that takes no more is given no more"
        self._take(data)

    def _take(self, data):
        self.got += data
        self.room -= 1
        self.writable = self.room > 0


class _Line:
    def __init__(self, client):
        self._client = client

    @property
    def writable(self):
        return self._client.writable

    def write(self, read):
        self._client.straight += 1
        pieces = b""
        while read:
            head, _, rest = read.partition(b"\r\n")
            size = int(head, 16)
            assert rest[size : size + 2] == b"\r\n"
            pieces, read = pieces + rest[:size], rest[size + 2 :]
        self._client._take(pieces)


def flying(client):
    """A flight that this client follows, and the tee that feeds it."""
    flight = Flight(None, RecordBounds(max_ahead=10**6), stream=True, priority=0)
    reader = Reader()
    flight.readers[reader] = None
    flight.follow(reader, client)
    reader.live = True
    flight.begin(None)
    return flight, reader, Tee(flight, Work(), Texts())


def feed(tee, read, piece):
    """As a connection does. Whether it went the short way."""
    short = tee.lane.take(read)
    if not short:
        tee.take(piece)
    return short


def dumped(payload, spaces=(",", ":"), end="\n\n"):
    return f"data: {json.dumps(payload, ensure_ascii=False, separators=spaces)}{end}".encode("utf-8", "replace")


EVENTS = st.one_of(
    st.builds(lambda text: dumped(chunk([choice(text)])), TEXTS),
    st.builds(lambda raw: dumped(chunk([choice("<>")])).replace(b"<>", raw), st.binary(max_size=6)),
    st.builds(lambda text: dumped(chunk([choice(text)]), SPACES[1], ENDS[1]), TEXTS),
    st.builds(lambda text: dumped(chunk([choice(text)], usage={"prompt_tokens": 3, "completion_tokens": 1})), TEXTS),
    st.sampled_from(
        [
            dumped(chunk([choice("a", "stop")])),
            dumped(chunk([choice("a"), choice("b")])),
            dumped(chunk([choice("", role="assistant")])),
            dumped({"content": "a", **chunk([choice("a")])}),
            dumped({**chunk([choice("a")]), "error": {"message": "no"}}),
            dumped(chunk([], usage={"prompt_tokens": 3, "completion_tokens": 4})),
            b"data: [DONE]\n\n",
            b": comment\n\n",
            dumped(chunk([choice("<>")])).replace(b"<>", b'"},"x":{"content":"y'),
            dumped(chunk([choice("<>")])).replace(b"<>", b'x"}}]}\n\ndata: [DONE]\n\n'),
            dumped(chunk([choice("half")]))[:-20],
        ]
    ),
)


@settings(max_examples=150)
@given(
    events=st.lists(EVENTS, max_size=25),
    rooms=st.sampled_from([None, 1, 3]),
    together=st.sampled_from([1, 2, 5]),
    of=st.sampled_from([1, 2, 4]),
)
@example(
    events=[dumped(chunk([choice("")])), dumped(chunk([], usage={"prompt_tokens": 3})), dumped(chunk([choice("")]))],
    rooms=1,
    together=5,
    of=1,
)
@example(events=[dumped(chunk([choice("a")]))] * 2 + [dumped(chunk([choice("b")]))], rooms=None, together=1, of=1)
@example(events=[dumped(chunk([choice("a")]))] * 9 + [dumped(chunk([choice("")]))] * 2, rooms=None, together=5, of=4)
def test_it_says_what_the_long_way_says(events, rooms, together, of):
    """Of any events, `of` them a chunk, alone or with others in a read: bytes and their order, record and tally are the same."""
    client = Client()
    flight, reader, tee = flying(client)
    other, splitter = Tally(), EventSplitter()
    for at in range(0, len(events), together):
        if rooms is not None:
            client.room = rooms
        come = events[at : at + together]
        event = b"".join(come)
        feed(tee, b"".join(frame(b"".join(come[one : one + of])) for one in range(0, len(come), of)), event)
        for whole in splitter.feed(event):
            other.read(whole)
        client.room, client.writable = 10**6, True
        flight.catch_up(reader)
    passed = b"".join(events)[: len(b"".join(events)) - len(splitter.rest)]
    assert client.got == passed
    assert b"".join(flight.pieces) == passed
    assert flight.size == len(passed)
    told = ("deltas", "done", "error", "finish_reasons", "prompt_tokens", "completion_tokens", "told")
    assert [getattr(tee.tally, name) for name in told] == [getattr(other, name) for name in told]


def test_tokens_go_the_short_way():
    """All but the first of a stream's tokens, also those with escapes; not what ends it."""
    client = Client()
    _, _, tee = flying(client)
    texts = ["One", " two", "\n", ' "three"', " \u4f60", "\u2028"]
    ways = [feed(tee, frame(event), event) for event in (dumped(chunk([choice(text)])) for text in texts)]
    assert ways == [False, True, True, True, True, True]
    together = [dumped(chunk([choice(f"t{n}")])) for n in range(20)]
    assert feed(tee, b"".join(map(frame, together)), b"".join(together))
    assert feed(tee, frame(b"".join(together)), b"".join(together)), "a long chunk of many events"
    assert feed(tee, frame(b"".join(together[:4])) + frame(together[4]), b"".join(together[:5]))
    end = dumped(chunk([choice(None, "stop")]))
    assert not feed(tee, frame(end), end)
    assert not feed(tee, frame(together[0] + end), together[0] + end)
    assert tee.tally.deltas == len(texts) + 20 + 20 + 5 + 1


def test_a_stream_of_long_chunks_goes_the_short_way():
    """Where several events come in each chunk from the first one on, the first is learned from."""
    client = Client()
    _, _, tee = flying(client)
    written = [b"".join(dumped(chunk([choice(f"t{many}{n}")])) for n in range(many)) for many in (8, 8, 1, 300, 3, 3)]
    assert [feed(tee, frame(each), each) for each in written] == [False, True, True, True, False, True]
    assert client.got == b"".join(written)


@given(text=st.sampled_from(["b", "\n"]), cut=st.integers(1, 40), more=st.binary(min_size=1, max_size=8))
def test_what_is_not_whole_chunks_is_left_alone(text, cut, more):
    """Half a frame, more than a frame, or one whose size is not its own: nothing of it is passed on or counted."""
    client = Client()
    _, _, tee = flying(client)
    for event in [dumped(chunk([choice("a")]))] * 2:
        tee.take(event)
    event = dumped(chunk([choice(text)]))
    whole, before = frame(event), client.got
    for read in (
        whole[:-cut],
        whole[cut:],
        whole + more,
        whole * 2 + more,
        whole + whole[cut:],
        b"%x\r\n%b\r\n" % (len(event) - 1, event),
        event,
    ):
        assert not tee.lane.take(read)
    assert client.got == before
    assert tee.tally.deltas == 2


def test_a_second_reader_ends_the_short_way():
    """Who comes later is given all that went past the record, and from then on both are given everything."""
    first, second = Client(), Client()
    flight, _, tee = flying(first)
    events = [dumped(chunk([choice(f"t{n}")])) for n in range(8)]
    for event in events[:5]:
        feed(tee, frame(event), event)
    assert first.straight
    reader = Reader()
    flight.readers[reader] = None
    flight.follow(reader, second)
    assert second.got == b"".join(events[:5])
    for event in events[5:]:
        assert not feed(tee, frame(event), event)
    assert first.got == second.got == b"".join(events)
    flight.leave(reader)
    feed(tee, frame(events[0]), events[0])
    assert feed(tee, frame(events[1]), events[1])
