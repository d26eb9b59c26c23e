"""Where a chunk begins, and what a read that is one chunk is told by."""

from hypothesis import given
from hypothesis import strategies as st

from backends.chunks import HEADS, LONGEST, TAIL, frame, length_of
from backends.response import Response

HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
HEADERS = st.sampled_from([b"%x\r\n", b"%X\r\n", b"00%x\r\n", b"%x;a=b\r\n", b'%x;a="b c"\r\n'])


@given(
    chunks=st.lists(
        st.tuples(HEADERS, st.binary(min_size=1, max_size=40) | st.sampled_from([b"\n", b"a\r\n", b"5\r\n"])), max_size=6
    ),
    trailer=st.sampled_from([b"", b"x: y\r\n"]),
    cuts=st.lists(st.integers(1, 30), min_size=1, max_size=5),
)
def test_where_a_chunk_begins_is_known_however_the_answer_is_cut(chunks, trailer, cuts):
    """After each read, and only where that ended between two chunks; once a body has begun, and before the answer is over."""
    wire, begins = HEAD, set()
    for header, piece in chunks:
        wire += header % len(piece) + piece + TAIL
        begins.add(len(wire))
    wire += b"0\r\n" + trailer + b"\r\n"
    response = Response()
    response.begin(bodiless=False)
    at = turn = 0
    while at < len(wire):
        read = wire[at : at + cuts[turn % len(cuts)]]
        at, turn = at + len(read), turn + 1
        assert response.feed(read) is None
        assert response.between_chunks(read) == (at in begins)
    assert response.complete
    assert b"".join(response.pieces) == b"".join(piece for _, piece in chunks)


def test_a_frame_is_told_by_its_length():
    """Of each length there is one head, that of the chunk which makes a frame so long; of some there is none."""
    for size in range(1, LONGEST):
        whole = frame(bytes(size))
        if len(whole) < LONGEST:
            assert whole.startswith(HEADS[len(whole)])
            assert whole == HEADS[len(whole)] + bytes(size) + TAIL
    for length, head in enumerate(HEADS):
        assert head == b"-" or head == b"%x\r\n" % (length - len(head) - len(TAIL))


@given(st.binary(min_size=1, max_size=5000))
def test_a_head_tells_the_length_of_its_chunk(piece):
    """As it is usually written, and in no other way."""
    head, _, _ = frame(piece).partition(TAIL)
    assert length_of(head + TAIL) == len(piece)
    for other in (head, b"0" + head + TAIL, b"+" + head + TAIL, b" " + head + TAIL, head + b";a=b" + TAIL, TAIL, b""):
        assert length_of(other) == 0
