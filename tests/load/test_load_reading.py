"""The clock at every piece of a stream, however the stream is cut."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.lab.load.reading import StreamReading, WholeReading


def event(delta, finish=None, end="\n\n", **more):
    return f"data: {json.dumps({'choices': [{'index': 0, 'delta': delta, 'finish_reason': finish}], **more})}{end}".encode()


def stream(words, end="\n\n", usage=True):
    """The role, the words, the finish, the usage and [DONE], an event each."""
    events = [event({"role": "assistant", "content": ""}, end=end), *(event({"content": word}, end=end) for word in words)]
    events.append(event({}, "stop", end))
    if usage:
        events.append(
            f'data: {{"choices": [], "usage": {{"prompt_tokens": 3, "completion_tokens": {len(words) + 1}}}}}{end}'.encode()
        )
    return [*events, f"data: [DONE]{end}".encode()]


def read(pieces, gaps=None):
    """Each piece arrives a second after the one before, the first at 1."""
    now = [0.0]
    reading = StreamReading(lambda: now[0], {} if gaps is None else gaps)
    for piece in pieces:
        now[0] += 1.0
        reading.feed(piece)
    reading.end()
    return reading


@pytest.mark.parametrize("end", ["\n\n", "\r\n\r\n"])
@pytest.mark.parametrize("words", [1, 2, 7, 8, 9, 40])
def test_first_and_last_token(words, end):
    """The first token is the first with text, the last one the finish; usage and [DONE] come later and are no tokens."""
    gaps = {}
    reading = read(stream(["x"] * words, end), gaps)
    assert (reading.first, reading.last) == (2.0, 2.0 + words)
    assert reading.tokens == words + 1
    assert reading.whole
    assert {gap: count for gap, count in gaps.items() if count} == {1_000_000: words}


@pytest.mark.parametrize("words", [1, 5, 9, 30])
def test_without_usage_events_are_counted(words):
    """Those that hold text."""
    assert read(stream(["x"] * words, usage=False)).tokens == words


def test_all_at_once():
    """A cached answer comes in one piece: one arrival, no gap, all tokens."""
    gaps = {}
    reading = read([b"".join(stream(["a", "b", "c"]))], gaps)
    assert (reading.first, reading.last, reading.tokens, reading.whole) == (1.0, 1.0, 4, True)
    assert not any(gaps.values())


@given(st.lists(st.integers(0, 2000), max_size=40), st.integers(1, 20))
def test_any_cut_gives_the_same_tokens(cuts, words):
    """Where the stream is cut into pieces changes when tokens are seen, never how many the server told."""
    data = b"".join(stream(["word"] * words))
    at = sorted({0, *(cut % len(data) for cut in cuts), len(data)})
    pieces = [data[a:b] for a, b in itertools.pairwise(at)]
    gaps = {}
    reading = read(pieces, gaps)
    assert reading.tokens == words + 1
    assert reading.whole
    assert reading.first <= reading.last <= len(pieces)
    assert sum(gaps.values()) <= words + 1
    assert all(count >= 0 for count in gaps.values())


def test_a_cut_between_the_two_ends_of_line_loses_no_event():
    """The empty line that ends an event may arrive in two pieces."""
    events = stream(["x"] * 20, usage=False)
    pieces = [*events[:3], events[3][:-1], b"\n" + events[4], *events[5:]]
    assert read(pieces).tokens == 20


def test_heartbeats_are_no_tokens():
    """A comment between tokens makes no gap."""
    gaps = {}
    events = stream(["x"] * 20)
    reading = read([*events[:5], b": ping\n\n", *events[5:]], gaps)
    assert {gap: count for gap, count in gaps.items() if count} == {1_000_000: 19, 2_000_000: 1}
    assert reading.tokens == 21


def test_an_error_in_the_stream_is_seen():
    """Also after many tokens."""
    reading = read([*stream(["x"] * 30)[:20], b'data: {"error": {"code": "upstream_broken", "message": "m"}}\n\n'])
    assert reading.tally.error == {"code": "upstream_broken", "message": "m"}
    assert not reading.whole


def test_what_is_no_stream_is_kept_to_be_read():
    """An error's body, up to a bound."""
    assert read([b'{"error": ', b'{"code": "x"}}']).text == b'{"error": {"code": "x"}}'
    endless = read([b"x" * 65536] * 100)
    assert len(endless.text) <= (1 << 20) + 65536
    assert endless.first is None


@given(st.lists(st.binary(min_size=1, max_size=30), max_size=30))
def test_no_bytes_make_it_fail(pieces):
    """Whatever a server sends, also after a good beginning."""
    read(pieces)
    read([*stream(["x"])[:2], *pieces])


@pytest.mark.parametrize("indent", [None, 2])
def test_a_whole_answer(indent):
    """Its usage, also from JSON over several lines."""
    reading = WholeReading()
    answer = {"choices": [{"message": {"content": "x"}}], "usage": {"prompt_tokens": 3, "completion_tokens": 4}}
    text = json.dumps(answer, indent=indent).encode()
    reading.feed(text[:10])
    reading.feed(text[10:])
    reading.end()
    assert (reading.tokens, reading.tally.prompt_tokens, reading.whole) == (4, 3, True)


@pytest.mark.parametrize("text", [b"", b"<html>", b"[]", b"3", b'{"a": 1}', b"[" * 9999])
def test_a_whole_answer_that_is_none(text):
    """Is not whole, and no exception."""
    reading = WholeReading()
    reading.feed(text)
    reading.end()
    assert not reading.whole
    assert reading.tokens is None
