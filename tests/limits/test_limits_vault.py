"""The vault on its own: what a successor finds, whatever happened to the writer or to the bytes."""

import logging
import mmap
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limits.cells import CELL
from limits.vault import Spent, Vault, scope_key

ROOT = Path(__file__).resolve().parents[2]
KEYS = [scope_key(name) for name in "abcde"]


def empty(scopes=8) -> bytearray:
    return bytearray(Vault.size_for(scopes))


def spent(number: int) -> Spent:
    """Something that is not idle at moment 0 and says which writing it was."""
    return Spent(1000 + number, 7 * number, number << 60, None if number % 3 else 60, 1 + number)


def state(vault: Vault) -> tuple[dict[bytes, Spent], int, int]:
    return vault.past, vault.mark(b"tells"), vault.now


def test_an_empty_buffer_is_laid_out_without_a_word(caplog):
    """A new vault knows nothing and complains of nothing."""
    vault = Vault.open(empty())
    assert state(vault) == ({}, 0, 0)
    assert not caplog.records


def test_what_was_committed_is_found_and_what_was_not_is_unknown():
    """A batch counts from its commit on, as a whole: balances, marks and the moment."""
    buffer = empty()
    vault = Vault.open(buffer)
    vault.put(KEYS[0], *spent(1))
    vault.set_mark(b"tells", 3)
    vault.commit(500)
    vault.put(KEYS[0], *spent(2))
    vault.put(KEYS[1], *spent(3))
    vault.set_mark(b"tells", 4)
    again = Vault.open(buffer)
    assert state(again) == ({KEYS[0]: spent(1)}, 3, 500)


def test_a_batch_that_was_never_published_does_not_come_back_with_the_next():
    """The successor's first batch has the number of the one that was cut off, and does not publish its remains."""
    buffer = empty()
    Vault.open(buffer).put(KEYS[0], *spent(1))
    vault = Vault.open(buffer)
    vault.put(KEYS[1], *spent(2))
    vault.commit(0)
    assert Vault.open(buffer).past == {KEYS[1]: spent(2)}


def test_the_later_of_two_writings_in_one_batch_counts():
    """A balance may be written again before the commit."""
    buffer = empty()
    vault = Vault.open(buffer)
    for number in (1, 2, 3):
        vault.put(KEYS[0], *spent(number))
        vault.put(KEYS[0], *spent(number + 10))
        vault.commit(0)
    assert Vault.open(buffer).past == {KEYS[0]: spent(13)}


def test_what_is_back_at_nothing_spent_is_not_handed_out():
    """A balance that was refilled before the last commit is as good as none."""
    buffer = empty()
    vault = Vault.open(buffer)
    vault.put(KEYS[0], 1000, 600, 0, 60, None)  # refilled at 1010
    vault.commit(1009)
    assert KEYS[0] in Vault.open(buffer).past
    vault.commit(1010)
    assert not Vault.open(buffer).past


@pytest.mark.parametrize("tokens", [(1 << 40) * 60_000_000 * 1000, (1 << 128) - 1])
def test_wide_numbers_come_back_as_they_were(tokens):
    """Token debts beyond 64 bits are kept exactly."""
    buffer = empty()
    vault = Vault.open(buffer)
    vault.put(KEYS[0], 1000, (1 << 64) - 1, tokens, (1 << 64) - 2, 1)
    vault.commit(0)
    assert Vault.open(buffer).past[KEYS[0]] == Spent(1000, (1 << 64) - 1, tokens, (1 << 64) - 2, 1)


def test_what_does_not_fit_is_cut_to_the_most_that_does():
    """A number beyond its width stays large: it does not wrap around to a small one."""
    buffer = empty()
    vault = Vault.open(buffer)
    vault.put(KEYS[0], 1000, 1 << 64, 1 << 128, 1 << 64, 5)
    vault.commit(0)
    assert Vault.open(buffer).past[KEYS[0]] == Spent(1000, (1 << 64) - 1, (1 << 128) - 1, None, 5)


def fill(vault: Vault, *balances: Spent) -> None:
    for number, balance in enumerate(balances):
        vault.put(scope_key(f"filler {number}"), *balance)
    vault.commit(0)


def test_a_full_table_gives_up_what_is_idle_first(caplog):
    """The place of a balance that is back at nothing spent goes to the new one, and nobody is told of it."""
    buffer = empty(3)
    vault = Vault.open(buffer)
    fill(vault, Spent(100, 60_000, 0, 60, None), Spent(100, 60, 0, 60, None), Spent(100, 600_000, 0, 60, None))
    vault.put(KEYS[0], 200, 60_000, 0, 60, None)
    vault.commit(0)
    assert set(Vault.open(buffer).past) == {scope_key("filler 0"), scope_key("filler 2"), KEYS[0]}
    assert not caplog.records


def test_a_full_table_of_spent_balances_gives_up_what_is_nearest_to_rest_and_says_so_once(caplog):
    """The log has one line, however many had to go; one whose limit is 0 never rests and stays."""
    buffer = empty(3)
    vault = Vault.open(buffer)
    fill(vault, Spent(100, 1, 0, 0, None), Spent(100, 60_000, 0, 60, None), Spent(100, 600_000, 0, 60, None))
    for number in (0, 1):
        vault.put(KEYS[number], 200, 6_000_000, 0, 60, None)
    vault.commit(0)
    assert set(Vault.open(buffer).past) == {scope_key("filler 0"), KEYS[0], KEYS[1]}
    assert [record.message for record in caplog.records] == [
        "the vault is full: a restart of the dispatcher will forget some balances"
    ]


def test_a_balance_that_was_spent_from_meanwhile_keeps_its_place():
    """The order in which balances would go is of a while ago; who has spent since is passed over."""
    buffer = empty(3)
    vault = Vault.open(buffer)
    fill(vault, *(Spent(100, 6000 * number, 0, 60, None) for number in (1, 2, 3)))
    vault.put(KEYS[0], 200, 60_000, 0, 60, None)  # fillers 1 and 2 are next
    vault.put(scope_key("filler 1"), 200, 60_000, 0, 60, None)
    vault.put(KEYS[1], 200, 60_000, 0, 60, None)
    vault.commit(0)
    assert set(Vault.open(buffer).past) == {scope_key("filler 1"), KEYS[0], KEYS[1]}


@pytest.mark.parametrize("place", [0, 1])
def test_of_two_places_of_one_key_the_later_counts(place):
    """Damage that brings back what a place held before does not bring back the old balance of a key that has moved on."""
    buffer, old, new = empty(2), Spent(100, 6000, 0, 60, None), spent(1)
    vault = Vault.open(buffer)
    for key, balance in [(KEYS[0], old), (KEYS[1], spent(2))][:: -1 if place else 1]:
        vault.put(key, *balance)
    vault.commit(0)
    vault.put(KEYS[2], *spent(3))  # where KEYS[0] was
    vault.commit(0)
    vault.put(KEYS[0], *new)  # where KEYS[1] was
    vault.commit(0)
    assert Vault.open(buffer).past == {KEYS[0]: new, KEYS[2]: spent(3)}
    buffer[buffer.index(KEYS[2])] ^= 1
    assert Vault.open(buffer).past == {KEYS[0]: new}


def test_a_place_taken_in_a_batch_that_was_cut_off_is_given_back():
    """Who was evicted by an unpublished batch is still there for the successor."""
    buffer = empty(1)
    vault = Vault.open(buffer)
    fill(vault, spent(1))
    vault.put(KEYS[0], *spent(2))
    assert Vault.open(buffer).past == {scope_key("filler 0"): spent(1)}


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 50)), max_size=60), st.integers(1, 4))
def test_a_small_table_never_holds_more_than_it_has_room_for(writes, room):
    """However many keys come and go, what is found is the last writing of at most as many as there are cells."""
    buffer = empty(room)
    vault, last = Vault.open(buffer), {}
    for name, number in writes:
        last[scope_key(str(name))] = spent(number)
        vault.put(scope_key(str(name)), *spent(number))
        vault.commit(0)
    past = Vault.open(buffer).past
    assert len(past) == min(room, len(last))
    assert past.items() <= last.items()


def test_marks_have_room_of_their_own(caplog):
    """Marks never push out balances; of too many marks the one set longest ago goes, a forgotten one before it."""
    buffer = empty(1)
    vault = Vault.open(buffer)
    fill(vault, spent(1))
    for number in range(256):
        vault.set_mark(b"w%d" % number, number + 1)
        vault.commit(0)
    vault.set_mark(b"w7", 0)
    vault.set_mark(b"new", 1)
    vault.commit(0)
    assert not caplog.records
    vault.set_mark(b"newer", 1)
    vault.commit(0)
    again = Vault.open(buffer)
    assert [again.mark(name) for name in (b"w7", b"w0", b"w1", b"w255", b"new", b"newer")] == [0, 0, 2, 256, 1, 1]
    assert len(caplog.records) == 1
    assert len(again.past) == 1
    with pytest.raises(ValueError):
        vault.mark(b"a name of more than 16")


def test_a_buffer_of_another_layout_is_laid_out_anew(caplog):
    """Another size, another version, or something else altogether: it starts empty, and says so."""
    for before in (empty(8), bytearray(b"something else " * 100_000), bytearray(b"tiergate vault 0") + empty(8)[16:]):
        if not any(before):
            vault = Vault.open(before)
            fill(vault, spent(1), spent(2))
        buffer = before[: Vault.size_for(5)]
        caplog.clear()
        vault = Vault.open(buffer)
        assert [record.levelno for record in caplog.records] == [logging.WARNING]
        assert state(vault) == ({}, 0, 0)
        fill(vault, spent(3))
        assert Vault.open(buffer).past == {scope_key("filler 0"): spent(3)}


def test_a_buffer_too_small_for_anything_is_refused():
    """A size below that of one balance is a mistake of the caller's."""
    with pytest.raises(ValueError, match=str(Vault.size_for(1))):
        Vault.open(bytearray(Vault.size_for(1) - 1))


class Recorded(bytearray):
    """A buffer that remembers every write."""

    writes: list[tuple[int, bytes]]

    def __setitem__(self, place, data):
        self.writes.append((place.start or 0, bytes(data)))
        super().__setitem__(place, data)


BATCHES = st.lists(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 99)), max_size=4), min_size=1, max_size=6)


def play(vault: Vault, batches, publish) -> list[tuple[dict[bytes, Spent], int, int]]:
    """The states after each commit, the first being that of before."""
    past, states = {}, [({}, 0, 0)]
    for number, batch in enumerate(batches, 1):
        for key, value in batch:
            past[KEYS[key]] = spent(value)
            vault.put(KEYS[key], *spent(value))
        vault.set_mark(b"tells", number)
        vault.commit(number)
        publish()
        states.append((dict(past), number, number))
    return states


@settings(deadline=None)
@given(BATCHES, st.data())
def test_a_kill_in_the_middle_of_any_write_leaves_the_former_batch(batches, data):
    """Whichever bytes of whichever write got through, what is found is a committed state, and work goes on from it."""
    buffer = Recorded(empty(5))
    buffer.writes = []
    vault = Vault.open(buffer)
    buffer.writes.clear()
    before, published = bytes(buffer), []
    states = play(vault, batches, lambda: published.append(len(buffer.writes)))
    whole = data.draw(st.integers(0, len(buffer.writes) - 1))
    image = bytearray(before)
    for place, written in buffer.writes[:whole]:
        image[place : place + len(written)] = written
    place, written = buffer.writes[whole]
    cut = data.draw(st.integers(0, len(written)))
    through = data.draw(st.sampled_from([range(cut), range(cut, len(written)), range(0, len(written), 2)]))
    for offset in through:
        image[place + offset] = written[offset]
    done = sum(count <= whole for count in published)
    expected = [states[done]]
    if published[done] == whole + 1:  # the torn write was the word that publishes: it may have got through
        expected.append(states[done + 1])
    found = Vault.open(image)
    assert state(found) in expected
    past, tells, now = state(found)
    found.put(KEYS[0], *spent(77))
    found.commit(0)
    assert state(Vault.open(image)) == ({**past, KEYS[0]: spent(77)}, tells, now)


@settings(deadline=None)
@given(
    BATCHES,
    st.lists(st.tuples(st.integers(0, Vault.size_for(5) - 1), st.binary(min_size=1, max_size=200)), max_size=5),
    st.booleans(),
)
def test_damaged_bytes_are_never_taken_for_a_balance(batches, damage, cut):
    """Bytes overwritten or cut off anywhere: each balance is one that was written for its key, or unknown."""
    buffer = empty(5)
    play(Vault.open(buffer), batches, lambda: None)
    for place, junk in damage:
        end = len(buffer) if cut else min(place + len(junk), len(buffer))
        buffer[place:end] = bytes(end - place) if cut else junk[: end - place]
    found = Vault.open(buffer)
    ever = {(KEYS[key], spent(value)) for batch in batches for key, value in batch}
    assert found.past.items() <= ever
    assert found.mark(b"tells") in range(len(batches) + 1)
    found.put(KEYS[0], *spent(77))
    found.commit(0)
    assert Vault.open(buffer).past[KEYS[0]] == spent(77)


@pytest.mark.parametrize("step", [1, 7])
def test_each_single_damaged_byte_costs_one_record_its_last_value_at_most(step):
    """A flipped byte in any place of the body: one key has its former value, all others the last one."""
    buffer = empty(2)
    vault = Vault.open(buffer)
    for number in (1, 2):
        fill(vault, spent(number), spent(number + 10))
    for place in range(192 + 256 * CELL, len(buffer), step):
        image = bytearray(buffer)
        image[place] ^= 0x5A
        past = Vault.open(image).past
        found = [past[scope_key(f"filler {number}")] for number in (0, 1)]
        assert found in ([spent(2), spent(12)], [spent(1), spent(12)], [spent(2), spent(11)])


def test_without_either_word_the_newest_balances_are_taken(caplog):
    """Damage to both places of the word does not refill balances."""
    buffer = empty()
    vault = Vault.open(buffer)
    for number in (1, 2, 3):
        fill(vault, spent(number))
    buffer[64:192] = bytes(range(128))
    again = Vault.open(buffer)
    assert again.past == {scope_key("filler 0"): spent(3)}
    assert len(caplog.records) == 1
    fill(again, spent(4))
    assert Vault.open(buffer).past == {scope_key("filler 0"): spent(4)}


WRITER = """
import mmap, os, sys
from limits.vault import Vault, scope_key
file = os.open(sys.argv[1], os.O_RDWR)
vault = Vault.open(mmap.mmap(file, 0))
first = number = vault.mark(b"tells")
keys = [scope_key(str(key)) for key in range(7)]
while True:
    number += 1
    for place, key in enumerate(keys):
        if number % (place + 1) == 0:
            vault.put(key, number, number * (place + 1), number << 64, 1, place)
    vault.set_mark(b"tells", number)
    vault.commit(0)
    if number == first + 50:
        os.write(1, b"!")
"""


def test_a_killed_writer_leaves_a_committed_state(tmp_path):
    """SIGKILL at any moment of a process that writes without a pause: every balance is of the batch that the mark names."""
    path = tmp_path / "vault"
    path.write_bytes(empty(7))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = 0
    for _ in range(8):
        command = [sys.executable, "-c", WRITER, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as writer:
            assert writer.stdout.read(1) == b"!"
            writer.send_signal(signal.SIGKILL)
        with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as buffer:
            vault = Vault.open(buffer)
            number = vault.mark(b"tells")
            assert number >= done + 50
            for place in range(7):
                last = number - number % (place + 1)
                assert vault.past[scope_key(str(place))] == Spent(last, last * (place + 1), last << 64, 1, place)
            done = number
