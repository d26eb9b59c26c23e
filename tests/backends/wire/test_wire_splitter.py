"""Cutting a stream into events: no byte is lost, moved or kept back."""

import itertools
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from backends.sse import EventSplitter

LINE_ENDS = [b"\n", b"\r\n", b"\r"]
TEXTS = [
    b"data: x",
    b"data:",
    b": heartbeat",
    b"event: e",
    b"id",
    "data: \u2028\u0085\u4f60".encode(),
    b"\xff\xfe",
    b"\xef\xbb\xbfdata: b",
]

streams = st.lists(st.sampled_from([*LINE_ENDS, *TEXTS]), max_size=30).map(b"".join) | st.binary(max_size=60)
cuts = st.lists(st.integers(0, 400), max_size=12)


def cut(stream: bytes, at: list[int]) -> list[bytes]:
    points = sorted({0, len(stream), *(point for point in at if point < len(stream))})
    return [stream[a:b] for a, b in itertools.pairwise(points)]


def blocks(stream: bytes) -> list[bytes]:
    """What a reader by the book sees: blocks of lines that an empty line ended, each line ended by \\n, nothing empty."""
    lines = re.split(rb"\r\n|\n|\r", stream)
    found: list[bytes] = []
    block: list[bytes] = []
    for line in lines[:-1]:
        if line:
            block.append(line)
        elif block:
            found.append(b"\n".join(block))
            block = []
    return found


def normal(event: bytes) -> bytes:
    return b"\n".join(line for line in re.split(rb"\r\n|\n|\r", event) if line)


@given(streams, cuts)
@example(b"data: x\r\n\r\ndata: y\r\n\r\n", [8, 9, 10])
@example(b"data: x\n\r\ndata: y\r\r\n", [9, 19])
def test_however_a_stream_is_cut(stream, at):
    """The pieces and the rest are the stream, and the events in them are those of a reader by the book."""
    splitter = EventSplitter()
    events = [event for part in cut(stream, at) for event in splitter.feed(part)]
    assert b"".join(events) + splitter.rest == stream
    assert [normal(event) for event in events if normal(event)] == blocks(stream) or splitter.rest.endswith(b"\r\n\r")


@given(streams)
def test_byte_by_byte(stream):
    """The finest cut gives the same events as none."""
    whole, fine = EventSplitter(), EventSplitter()
    together = whole.feed(stream)
    apart = [event for at in range(len(stream)) for event in fine.feed(stream[at : at + 1])]
    assert [normal(event) for event in together if normal(event)] == [normal(event) for event in apart if normal(event)]
    assert b"".join(apart) + fine.rest == stream


@given(st.lists(st.sampled_from(TEXTS[:6]), min_size=1, max_size=5), st.lists(st.sampled_from(LINE_ENDS), min_size=6, max_size=6))
def test_every_mixture_of_line_ends(lines, ends):
    """An event is seen whole, whichever line ends it uses."""
    event = b"".join(line + ends[number] for number, line in enumerate(lines))
    last = b"\n" if ends[len(lines) - 1] != b"\r" else b"\r"  # \r and \n side by side would be one line end
    splitter = EventSplitter()
    assert splitter.feed(event + last) == [event + last]
    assert splitter.rest == b""


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n", b"\r\r", b"\r\n\n", b"\n\r"])
def test_an_event_is_there_with_its_last_byte(end):
    """No event waits for the beginning of the next."""
    splitter = EventSplitter()
    for _ in range(3):
        assert splitter.feed(b"data: x" + end[:-1]) == []
        assert splitter.feed(end[-1:]) == [b"data: x" + end]


def test_a_line_end_cut_in_two_is_one():
    """\\r\\n that arrives in two reads ends one line, not two."""
    splitter = EventSplitter()
    assert splitter.feed(b"data: x\r") == []
    assert splitter.feed(b"\ndata: y\r\n\r") == []
    assert splitter.feed(b"\n") == [b"data: x\r\ndata: y\r\n\r\n"]


def test_bare_line_ends_are_passed_on():
    """A heartbeat of nothing but a line end is not kept back."""
    splitter = EventSplitter()
    for beat in (b"\n", b"\r\n", b"\n"):
        assert splitter.feed(beat) == [beat]
    assert splitter.feed(b"data: x\n\n\n") == [b"data: x\n\n", b"\n"]


def test_line_separators_of_unicode_are_text():
    """U+2028, U+2029, U+0085 and form feeds end no line."""
    event = "data: a\u2028\u2028b\u2029\u0085\u0085\f\f\v\vc\n\n".encode()
    splitter = EventSplitter()
    assert splitter.feed(event) == [event]


def test_many_events_in_one_read():
    """All complete events of a read come at once, and the incomplete one waits."""
    event = b'data: {"a":1}\n\n'
    splitter = EventSplitter()
    assert splitter.feed(event * 1_000 + b"data: ") == [event] * 1_000
    assert splitter.rest == b"data: "
    assert splitter.feed(b"y\n\n") == [b"data: y\n\n"]


def test_json_where_a_stream_was_promised():
    """A body that is no stream stays in the rest, for whoever passes it on."""
    splitter = EventSplitter()
    assert splitter.feed(b'{"error": {"message":') == []
    assert splitter.feed(b' "no"}}\n') == []
    assert splitter.rest == b'{"error": {"message": "no"}}\n'


@given(st.binary(max_size=200), cuts)
@example(b"x" * 200, [])
@example(b"x" * 50 + b"\n\n" + b"y" * 50 + b"\n", [10, 30, 51, 60, 101])
def test_an_event_that_is_too_long_is_passed_on(stream, at):
    """No more than the bound is ever kept, and no byte is lost for it."""
    splitter = EventSplitter(max_event=16)
    got: list[bytes] = []
    for part in cut(stream, at):
        got += splitter.feed(part)
        assert len(splitter.rest) <= 16
    assert b"".join(got) + splitter.rest == stream


@given(st.integers(17, 40), st.sampled_from([b"\n\n", b"\r\n\r\n", b"\r\r"]), cuts)
@example(30, b"\n\n", [36])
def test_an_event_passed_on_in_pieces_ends_where_it_ends(length, end, at):
    """One line end inside a long event is not its end, wherever the reads are cut; its empty line is."""
    splitter = EventSplitter(max_event=16)
    stream = b"data: " + b"y" * length + end[: len(end) // 2] + b"data: more"
    for part in cut(stream, at):
        splitter.feed(part)
    assert splitter.inside_event
    got = splitter.feed(end)
    assert not splitter.inside_event
    assert got[-1].endswith(end)


def test_a_long_event_byte_by_byte_is_linear():
    """An event of 200 kB in single bytes is no feat."""
    splitter = EventSplitter()
    for _ in range(200_000):
        assert splitter.feed(b"x") == []
    assert splitter.feed(b"\n\n") == [b"x" * 200_000 + b"\n\n"]
