"""What a running gateway knows of the key file, and what it makes of changes."""

import json
import logging
import os

import pytest

from gateway.keyfile import KeyFile, KeyFileError, Terms
from gateway.keys import KeyRing


@pytest.fixture
def path(tmp_path):
    return tmp_path / "keys.json"


@pytest.fixture
def file(path):
    return KeyFile(path)


@pytest.fixture
def ring(path):
    return KeyRing(path, ["acme", "beta"])


@pytest.fixture
def lines(caplog):
    caplog.set_level(logging.INFO, logger="tiergate.keys")
    return lambda: [record.message for record in caplog.records]


def test_a_ring_is_empty_where_there_is_no_file(ring, lines):
    """Which is no fault, and not worth a line: no key was made yet."""
    ring.load()
    assert not ring.refresh()
    assert (ring.keys, lines()) == ((), [])


def test_a_new_key_is_seen_at_the_next_look(ring, file):
    """Without a restart; a look at an unchanged file is no swap."""
    ring.load()
    record, _ = file.create("acme", Terms())
    assert ring.refresh()
    assert ring.keys == (record,)
    assert not ring.refresh()


def test_listeners_are_told_after_the_swap(ring, file):
    """Once per change, with the new keys in place."""
    seen = []
    ring.on_change(lambda: seen.append(len(ring.keys)))
    ring.load()
    file.create("acme", Terms())
    ring.refresh()
    ring.refresh()
    assert seen == [0, 1]


def test_a_revocation_is_seen(ring, file):
    """As a change of the entry."""
    record, _ = file.create("acme", Terms())
    ring.load()
    file.revoke(record.id)
    ring.refresh()
    assert ring.keys[0].revoked_at is not None


def test_a_broken_file_keeps_the_old_ring(ring, file, path, lines):
    """It is reported once for each change of the file, and the next good file is taken."""
    record, _ = file.create("acme", Terms())
    ring.load()
    good = path.read_text()
    for text in ("{", "{}", "{}"):
        path.write_text(text)
        os.utime(path, ns=(0, len(lines())))
        assert not ring.refresh()
        assert not ring.refresh()
        assert ring.keys == (record,)
    assert len(lines()) == 3
    assert all("the keys of before still hold" in line for line in lines())
    path.write_text(good)
    assert ring.refresh()
    assert ring.keys == (record,)


def test_a_broken_file_at_start_is_an_error(ring, path):
    """There is no older ring to stay with, and an empty one would lock its owners out silently."""
    path.write_text("{")
    with pytest.raises(KeyFileError):
        ring.load()


def test_a_file_that_vanishes_keeps_the_old_ring(ring, file, path, lines):
    """With its revocations; said once."""
    revoked, _ = file.create("acme", Terms())
    file.create("acme", Terms())
    file.revoke(revoked.id)
    ring.load()
    before = ring.keys
    path.unlink()
    assert not ring.refresh()
    assert not ring.refresh()
    assert ring.keys == before
    assert [line for line in lines() if "is gone" in line] == lines()
    assert len(lines()) == 1


def test_a_file_that_comes_back_is_taken(ring, file, path):
    """Whatever it holds now."""
    file.create("acme", Terms())
    ring.load()
    path.unlink()
    ring.refresh()
    record, _ = file.create("beta", Terms())
    assert ring.refresh()
    assert ring.keys == (record,)


def test_a_file_of_no_keys_empties_the_ring(ring, file, path):
    """That is a statement, not an accident."""
    file.create("acme", Terms())
    ring.load()
    path.write_text(json.dumps({"version": 1, "keys": []}))
    assert ring.refresh()
    assert ring.keys == ()


def test_keys_of_an_unknown_tenant_are_inert(ring, file, lines):
    """They are left out, and reported once per tenant."""
    file.create("gone", Terms())
    file.create("gone", Terms())
    record, _ = file.create("acme", Terms())
    ring.load()
    file.create("beta", Terms())
    ring.refresh()
    assert ring.keys[0] == record
    assert len(ring.keys) == 2
    assert len(lines()) == 1
    assert "'gone'" in lines()[0]


def test_a_directory_in_its_place_is_reported_once(ring, path, lines):
    """What cannot be read is tried again, quietly."""
    path.mkdir()
    assert not ring.refresh()
    assert not ring.refresh()
    assert len(lines()) == 1


def test_a_huge_file_is_not_read_whole(ring, path, lines):
    """It is refused by its size."""
    with path.open("wb") as out:
        out.truncate(2**30)
    assert not ring.refresh()
    assert "larger than 16 MiB" in lines()[0]
