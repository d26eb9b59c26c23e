import mmap
import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routing.table import RECORD, WAYS, Record, Table

WORDS = frozenset({"small", "large", "small-model", "large-model"})
BUCKET = RECORD * WAYS


def record(tier="large", at=1.0, easy=0, tokens=100):
    return Record(b"ask-0001", tier, f"{tier}-model", easy, tokens, at)


def name(number):
    return number.to_bytes(16, "little")


def test_what_is_put_is_found():
    """All of it, under its name alone; the next turn takes its place."""
    table = Table(bytearray(64 * BUCKET), WORDS)
    assert table.get(name(1)) is None
    table.put(name(1), "acme", record(easy=2))
    assert table.get(name(1)) == record(easy=2)
    assert table.get(name(65)) is None  # of the same bucket
    table.put(name(1), "acme", record("small", at=2.0))
    assert table.get(name(1)) == record("small", at=2.0)


def test_a_full_bucket_gives_up_its_oldest():
    """There is never more than the memory holds."""
    table = Table(bytearray(BUCKET), WORDS)
    for number in range(1, WAYS + 2):
        table.put(name(number), f"tenant {number}", record(at=float(number)))
    assert table.get(name(1)) is None
    assert all(table.get(name(number)) for number in range(2, WAYS + 2))


def test_who_makes_up_conversations_without_end_forgets_his_own():
    """At least half of each bucket stays with the others."""
    table = Table(bytearray(4 * BUCKET), WORDS)
    for number in range(1, 4 * WAYS // 2 + 1):
        table.put(name(number), f"tenant {number}", record(at=1.0))
    kept = [number for number in range(1, 4 * WAYS // 2 + 1) if table.get(name(number))]
    for number in range(1000, 6000):
        table.put(name(number), "flood", record(at=float(number)))
    assert [number for number in kept if table.get(name(number))] == kept
    table.put(name(7), "acme", record(at=9000.0))
    assert table.get(name(7)) == record(at=9000.0)


def test_a_tier_that_is_not_known_any_more_is_nothing():
    """A model that is not is left out: its tier still counts."""
    memory = bytearray(BUCKET)
    Table(memory, WORDS).put(name(1), "acme", record())
    assert Table(memory, frozenset({"small", "large-model"})).get(name(1)) is None
    assert Table(memory, frozenset({"large"})).get(name(1)) == record()._replace(model="")


@given(st.integers(0, 10_000), st.integers(-5, 1 << 40), st.floats(0, 1e9), st.text(max_size=20))
@settings(max_examples=60)
def test_numbers_of_any_size_fit(easy, tokens, at, tenant):
    """They are cut to what a record holds."""
    table = Table(bytearray(BUCKET), WORDS)
    table.put(name(3), tenant, record(easy=easy, tokens=tokens, at=at))
    found = table.get(name(3))
    assert (found.easy, found.tokens, found.at) == (min(easy, 255), min(max(tokens, 0), 0xFFFFFFFF), at)


@given(st.binary(min_size=1, max_size=RECORD), st.integers(0, BUCKET - 1))
@settings(max_examples=200)
def test_half_a_record_is_none(junk, place):
    """Whatever is written over the memory, what is found is what was put, or nothing; and there is room for a new one."""
    memory = bytearray(BUCKET)
    table = Table(memory, WORDS)
    for number in range(1, WAYS + 1):
        table.put(name(number), "acme", record(at=float(number)))
    end = min(place + len(junk), BUCKET)
    memory[place:end] = junk[: end - place]
    for number in range(1, WAYS + 1):
        assert table.get(name(number)) in (None, record(at=float(number)))
    table.put(name(99), "acme", record(at=99.0))
    assert table.get(name(99)) == record(at=99.0)


def test_processes_share_it():
    """What a child put is there when it has been killed."""
    memory = mmap.mmap(-1, 64 * BUCKET)
    table = Table(memory, WORDS)
    child = os.fork()
    if not child:
        Table(memory, WORDS).put(name(5), "acme", record())
        os._exit(0)
    os.waitpid(child, 0)
    assert table.get(name(5)) == record()


def test_no_room_is_an_error():
    """A table has one bucket at least."""
    with pytest.raises(ValueError, match="no room"):
        Table(bytearray(BUCKET - 1), WORDS)
