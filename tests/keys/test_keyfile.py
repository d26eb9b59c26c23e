"""The key file: what is written, and that no change is lost."""

import hashlib
import json
import multiprocessing
import os
import re
from datetime import UTC, datetime

import pytest

from gateway import filelock
from gateway.keyfile import DeadKeyError, KeyFile, KeyFileError, Terms, UnknownKeyError

DAY = 86400.0


class Clock:
    def __init__(self, now=1_800_000_000.0):
        self.now = now

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def file(tmp_path, clock):
    return KeyFile(tmp_path / "data" / "keys.json", clock)


def moment(epoch):
    return datetime.fromtimestamp(epoch, UTC)


def test_a_new_key_is_random_and_only_its_hash_is_kept(file, tmp_path):
    """256 bits behind `tg-`; the file has the hash, the first characters and nothing more of it."""
    record, secret = file.create("acme", Terms(name="ci", rpm=5))
    text = (tmp_path / "data" / "keys.json").read_text()
    assert re.fullmatch(r"tg-[A-Za-z0-9_-]{43}", secret)
    assert secret not in text
    assert secret[9:] not in text
    assert record.prefix == secret[:9]
    assert record.sha256 == hashlib.sha256(secret.encode()).hexdigest()
    assert file.create("acme", Terms())[1] != secret


def test_the_file_is_readable_by_people_and_programs(file, tmp_path):
    """A version and a list of keys with the documented fields, times in UTC."""
    record, _ = file.create("acme", Terms(expires_at=moment(1_800_086_400), models=("a",)))
    document = json.loads((tmp_path / "data" / "keys.json").read_text())
    assert document["version"] == 1
    assert document["keys"] == [
        {
            "id": record.id,
            "tenant": "acme",
            "prefix": record.prefix,
            "sha256": record.sha256,
            "created_at": "2027-01-15T08:00:00Z",
            "expires_at": "2027-01-16T08:00:00Z",
            "revoked_at": None,
            "rpm": None,
            "tpm": None,
            "max_parallel": None,
            "burst": 60.0,
            "models": ["a"],
            "name": "",
        }
    ]


def test_only_the_owner_may_read_the_files(file, tmp_path):
    """The key file and its lock are 0600, whatever the umask is, and no scrap is left beside them."""
    old = os.umask(0)
    try:
        file.create("acme", Terms())
    finally:
        os.umask(old)
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "data").iterdir()}
    assert modes == {"keys.json": 0o600, "keys.json.lock": 0o600}


def test_no_file_is_no_keys(file):
    """Before the first key there is nothing to read."""
    assert file.records() == []


def test_a_revoked_key_stays_in_the_file(file, clock):
    """Its entry is what refuses it; revoking again changes nothing."""
    record, _ = file.create("acme", Terms())
    first = file.revoke(record.id)
    clock.now += DAY
    assert file.revoke(record.id).revoked_at == first.revoked_at == moment(1_800_000_000)
    assert [one.status(clock()) for one in file.records()] == ["revoked"]


def test_rotation_leaves_two_live_keys_for_the_overlap(file, clock):
    """The new key has the same tenant, limits and name; the old one ends when the overlap does."""
    record, secret = file.create("acme", Terms(rpm=7, models=("a*",), name="ci"))
    old, new, other = file.rotate(record.id, DAY)
    assert (new.tenant, new.rpm, new.models, new.name) == ("acme", 7, ("a*",), "ci")
    assert other != secret
    assert old.expires_at == moment(1_800_000_000 + DAY)
    assert new.expires_at is None
    assert [one.status(clock()) for one in file.records()] == ["active", "active"]
    assert [one.status(clock() + DAY) for one in file.records()] == ["expired", "active"]


def test_rotation_keeps_the_lifetime_and_never_prolongs_the_old_key(file, clock):
    """A key made for two days is followed by one of two days; the old end stands if it comes first."""
    record, _ = file.create("acme", Terms(expires_at=moment(clock() + 2 * DAY)))
    clock.now += 1.5 * DAY
    old, new, _ = file.rotate(record.id, DAY)
    assert old.expires_at == record.expires_at
    assert new.expires_at == moment(clock() + 2 * DAY)


def test_no_overlap_ends_the_old_key_at_once(file, clock):
    """For a key that has leaked."""
    record, _ = file.create("acme", Terms())
    assert file.rotate(record.id, 0)[0].status(clock()) == "expired"


def test_a_dead_key_is_not_rotated(file, clock):
    """Neither a revoked nor an expired one comes back to life."""
    record, _ = file.create("acme", Terms(expires_at=moment(clock() + DAY)))
    clock.now += DAY
    with pytest.raises(DeadKeyError, match="expired"):
        file.rotate(record.id, DAY)
    file.revoke(record.id)
    with pytest.raises(DeadKeyError, match="revoked"):
        file.rotate(record.id, DAY)


def test_an_unknown_key_is_an_error_and_changes_nothing(file):
    """To revoke as to rotate."""
    file.create("acme", Terms())
    before = file.records()
    for change in (lambda: file.revoke("key-0"), lambda: file.rotate("key-0", 1)):
        with pytest.raises(UnknownKeyError):
            change()
    assert file.records() == before


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not a key file"),
        (b"\x00\xff", "not a key file"),
        (b"[" * 100_000, "not a key file"),
        (b'{"version":2,"keys":[]}', "version 2 is not known"),
        (b'{"version":1,"keys":[{"id":"a"}]}', "missing required field"),
        (b'{"version":1,"keys":[],"more":1}', "unknown field"),
        (b'{"version":1,"keys":[{"id":"a\\n","tenant":"t"}]}', "matching regex"),
    ],
)
def test_a_broken_file_is_an_error_and_is_not_touched(file, tmp_path, data, message):
    """One line that names the file; nothing is written over it."""
    path = tmp_path / "data" / "keys.json"
    path.parent.mkdir()
    path.write_bytes(data)
    with pytest.raises(KeyFileError, match=message) as caught:
        file.create("acme", Terms())
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == data


def test_ids_and_hashes_are_unique(file, tmp_path):
    """A file with the same key twice says nothing certain about it."""
    file.create("acme", Terms())
    path = tmp_path / "data" / "keys.json"
    document = json.loads(path.read_text())
    document["keys"] *= 2
    path.write_text(json.dumps(document))
    with pytest.raises(KeyFileError, match="two keys have the same id"):
        file.records()
    document["keys"] = [document["keys"][0], document["keys"][0] | {"id": "other"}]
    path.write_text(json.dumps(document))
    with pytest.raises(KeyFileError, match="two keys have the same sha256"):
        file.records()


def test_moments_that_no_calendar_can_shift_are_refused(file, tmp_path):
    """Or printing the end of the year 9999 in another zone would fail later."""
    file.create("acme", Terms())
    path = tmp_path / "data" / "keys.json"
    path.write_text(path.read_text().replace("2027-01-15T08:00:00Z", "9999-12-31T23:59:59-05:00"))
    with pytest.raises(KeyFileError, match="not from 1970 to 9998"):
        file.records()


def test_a_failed_change_leaves_no_scrap(tmp_path):
    """What was written aside is removed when it cannot take the place."""
    (tmp_path / "keys.json").mkdir()
    with pytest.raises(OSError):
        filelock.replace(tmp_path / "keys.json", b"{}")
    assert [path.name for path in tmp_path.iterdir()] == ["keys.json"]
    with pytest.raises(KeyFileError, match="cannot be read"):
        KeyFile(tmp_path / "keys.json").records()


def test_terms_that_the_file_cannot_hold_are_refused(file, tmp_path):
    """What could not be read back is not written."""
    with pytest.raises(KeyFileError):
        file.create("no/tenant", Terms())
    assert not (tmp_path / "data" / "keys.json").exists()


def test_a_record_does_not_show_its_hash(file):
    """Neither in its repr nor in what may be printed."""
    record, _ = file.create("acme", Terms())
    assert record.sha256 not in repr(record)
    assert "sha256" not in record.public(0)


def create_many(path, count):
    for _ in range(count):
        KeyFile(path).create("acme", Terms())


def test_two_writers_do_not_lose_each_others_changes(tmp_path):
    """Several processes at once: every key that was made is in the file."""
    path = tmp_path / "keys.json"
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=create_many, args=(path, 10)) for _ in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0] * 4
    assert len(KeyFile(path).records()) == 40


def test_a_lock_that_is_not_given_up_is_an_error(tmp_path):
    """Nobody waits for ever."""
    path = tmp_path / "keys.json"
    with filelock.locked(path), pytest.raises(TimeoutError, match="another command"), filelock.locked(path, patience=0):
        pass


def test_a_lock_file_that_is_a_link_is_refused(tmp_path):
    """Or who may write the directory could have another file opened by root."""
    (tmp_path / "other").touch()
    (tmp_path / "keys.json.lock").symlink_to(tmp_path / "other")
    with pytest.raises(KeyFileError, match="cannot be changed"):
        KeyFile(tmp_path / "keys.json").create("acme", Terms())


def test_a_link_to_the_key_file_stays_a_link(tmp_path):
    """Its target is replaced."""
    (tmp_path / "real").mkdir()
    (tmp_path / "keys.json").symlink_to(tmp_path / "real" / "keys.json")
    KeyFile(tmp_path / "keys.json").create("acme", Terms())
    assert (tmp_path / "keys.json").is_symlink()
    assert len(KeyFile(tmp_path / "real" / "keys.json").records()) == 1


def test_a_directory_that_cannot_be_made_is_one_line(tmp_path):
    """Not a traceback."""
    (tmp_path / "data").write_text("")
    with pytest.raises(KeyFileError, match="cannot be changed"):
        KeyFile(tmp_path / "data" / "keys.json").create("acme", Terms())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_what_root_writes_belongs_to_the_directorys_owner(tmp_path):
    """Or the gateway, which is not root, could not read it."""
    os.chown(tmp_path, 1234, 1234)
    KeyFile(tmp_path / "keys.json").create("acme", Terms())
    assert {path.stat().st_uid for path in tmp_path.iterdir()} == {1234}
