"""How a stream's bytes come apart."""

from hypothesis import given
from hypothesis import strategies as st

from caches.events import split

PARTS = st.lists(st.sampled_from([b"\n", b"\n\n", b"data: a", b"data: b\n\n", b"", b"\n\n\n", b": c\n"]), max_size=12)


@given(PARTS)
def test_events_come_apart_at_empty_lines(parts):
    """One way or the other, what is between two line feeds in a row is the same."""
    stream = b"".join(parts)
    assert split(stream) == stream.split(b"\n\n")
