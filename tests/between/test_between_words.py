"""Messages between gateways: sealed, bounded, and nothing else is listened to."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.between.words import LONGEST, MOST_REPLICAS, PLACED, VERSION, Event, News, Seal

SEAL = Seal(b"secret")
NODE = b"12345678"
NEWS = News(VERSION, NODE, 1, [(7, 100, 2)], [Event(PLACED, 7, 90, b"\0" * 32)])


def raw(*fields):
    """Sealed, whatever it is."""
    said = msgspec.msgpack.encode(fields[0] if len(fields) == 1 else fields)
    return SEAL._of(said) + said


def test_what_is_said_is_understood():
    """A message comes back as it was."""
    assert SEAL.open(SEAL.close(NEWS)) == NEWS


def test_another_secret_is_not_heard():
    """Not its messages, not on its channel, and it calls engines by other numbers."""
    other = Seal(b"another")
    assert other.open(SEAL.close(NEWS)) is None
    assert other.channel != SEAL.channel
    assert other.engine("m", "http://a") != SEAL.engine("m", "http://a") != SEAL.engine("n", "http://a")


@given(st.binary(max_size=200), st.integers(0, 150), st.integers(0, 255))
def test_a_changed_message_is_none(noise, place, byte):
    """Neither noise nor a message with a byte that is not its own."""
    message = bytearray(SEAL.close(NEWS))
    place %= len(message)
    assert SEAL.open(noise) is None
    if message[place] != byte:
        message[place] = byte
        assert SEAL.open(bytes(message)) is None


@pytest.mark.parametrize(
    "message",
    [
        raw(VERSION + 1, NODE, 1, [], []),
        raw(VERSION, b"short", 1, [], []),
        raw(VERSION, NODE, 0, [], []),
        raw(VERSION, NODE, 1 << 61, [], []),
        raw(VERSION, NODE, 1, [(7, -1, 2)], []),
        raw(VERSION, NODE, 1, [(7, 1 << 50, 2)], []),
        raw(VERSION, NODE, 1, [(7, 1, 2)] * (MOST_REPLICAS + 1), []),
        raw(VERSION, NODE, 1, [], [(3, 7, 1, b"")]),
        raw(VERSION, NODE, 1, [], [(PLACED, 7, 1, b"x" * 40_000)]),
        raw(VERSION, NODE, 1, [], [(PLACED, 7, 1 << 40, b"")]),
        raw(VERSION, NODE, 1, [], [(PLACED, "r1", 1, b"")]),
        raw(VERSION, NODE, 1, [], [(PLACED, 7, 1, b"x" * 30_000)] * 20),
        raw({"version": 1}),
        raw([]),
        raw(b"x" * LONGEST),
        SEAL._of(b"\xc1") + b"\xc1",
        SEAL._of(b"\x91" * 100_000) + b"\x91" * 100_000,
    ],
)
def test_what_is_out_of_bounds_is_none(message):
    """Also where it is sealed: another version, other types, numbers and lengths beyond what there can be."""
    assert SEAL.open(message) is None
