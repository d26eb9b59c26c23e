"""The file of what was used of budgets: kills, torn and damaged files, a disk that is full, and two who want it."""

import logging
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limits.budget import Used
from limits.journal import Journal, JournalInUse

A, B, C = b"a" * 16, b"b" * 16, b"c" * 16
RECORD = 48


@contextmanager
def opened(folder, **more):
    journal = Journal(folder, **{"gather": 0.0, "patience": 0.0} | more)
    journal.open()
    try:
        yield journal
    finally:
        journal.close()


def found(folder, *keys):
    with opened(folder) as journal:
        used = [journal.find(key) for key in keys]
    return [None if one is None else (one.day, one.today, one.month) for one in used]


def write(folder, *notes):
    """Each in a batch of its own."""
    with opened(folder) as journal:
        for key, *state in notes:
            journal.note(Used(*state, key))
            until(lambda: not journal._woken)
            until(lambda: not journal._changed)


def until(condition, seconds=20.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.001)


def test_the_last_word_counts(tmp_path):
    """Of each key what was noted last is found again, and a key that was never noted is not."""
    write(tmp_path / "deep" / "er", (A, 5, 10, 100), (B, 5, 1, 2), (A, 5, 20, 110), (A, 6, 0, 110))
    assert found(tmp_path / "deep" / "er", A, B, C) == [(6, 0, 110), (5, 1, 2), None]


def test_closing_without_opening_and_twice(tmp_path):
    """Neither is an error, and nothing is made."""
    journal = Journal(tmp_path / "x")
    journal.close()
    journal.close()
    assert not (tmp_path / "x").exists()


def test_one_at_a_time(tmp_path):
    """Who finds another there is told which process it is, and leaves its count alone."""
    with opened(tmp_path) as first:
        with pytest.raises(JournalInUse, match=f"process {os.getpid()} counts budgets"):
            Journal(tmp_path, patience=0.0).open()
        first.note(Used(1, 2, 3, A))
    assert found(tmp_path, A) == [(1, 2, 3)]


@settings(max_examples=30, deadline=None)
@given(cut=st.integers(0, 6 * RECORD))
def test_a_torn_end(cut):
    """Whatever is left of the last records, those before are found, and no file is set aside for that."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, *((A, 5, number, number) for number in range(1, 6)))
        path = folder / "used"
        data = path.read_bytes()
        assert len(data) == 6 * RECORD
        path.write_bytes(data[:cut])
        whole = cut // RECORD - 1
        assert found(folder, A) == [(5, whole, whole) if whole > 0 else None]
        assert not list(folder.glob("used.damaged*")) or 0 < cut < RECORD


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_damaged_file(data):
    """Bytes that are changed anywhere stop nobody: what is found was once noted, and what can be written is written."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        states = {A: {(5, 1, 1), (5, 2, 2)}, B: {(6, 7, 8)}}
        write(folder, (A, 5, 1, 1), (B, 6, 7, 8), (A, 5, 2, 2))
        path = folder / "used"
        content = bytearray(path.read_bytes())
        for at in data.draw(st.lists(st.integers(0, len(content) - 1), min_size=1, max_size=4)):
            content[at] ^= data.draw(st.integers(1, 255))
        path.write_bytes(content)
        with opened(folder) as journal:
            for key, known in states.items():
                one = journal.find(key)
                assert one is None or (one.day, one.today, one.month) in known
            journal.note(Used(9, 9, 9, C))
        assert found(folder, C) == [(9, 9, 9)]


def test_what_is_left_of_a_damaged_file_is_written_at_once(tmp_path):
    """Who is killed before anything more is used has not lost it."""
    folder, copy = tmp_path / "here", tmp_path / "copy"
    write(folder, (A, 5, 1, 1), (B, 6, 7, 8), (C, 9, 9, 9))
    content = bytearray((folder / "used").read_bytes())
    content[RECORD + 5] ^= 1
    (folder / "used").write_bytes(content)
    with opened(folder) as journal:
        assert [journal.find(key) is None for key in (A, B, C)] == [True, False, False]
        until((folder / "used").exists)
        shutil.copytree(folder, copy)
    assert found(copy, A, B, C) == [None, (6, 7, 8), (9, 9, 9)]


@pytest.mark.parametrize("content", [b"", b"\0" * 1000, b"tiergate", os.urandom(5000), b"tiergate spent 2\n".ljust(480, b"x")])
def test_a_file_that_is_not_ours(tmp_path, content, caplog):
    """It is set aside with one line, and counting begins anew."""
    (tmp_path / "used").write_bytes(content)
    assert found(tmp_path, A) == [None]
    assert len(caplog.records) == bool(content)
    assert [path.read_bytes() for path in tmp_path.glob("used.damaged-*")] == ([content] if content else [])
    write(tmp_path, (A, 1, 2, 3))
    assert found(tmp_path, A) == [(1, 2, 3)]


def test_what_cannot_be_read(tmp_path, caplog):
    """A folder in the place of the file, or a link that leads elsewhere, is set aside; what it leads to is not touched."""
    secret = tmp_path / "secret"
    secret.write_bytes(b"something of somebody's")
    for make in (Path.mkdir, lambda path: path.symlink_to(secret)):
        make(tmp_path / "used")
        write(tmp_path, (A, 1, 2, 3))
        assert found(tmp_path, A) == [(1, 2, 3)]
        (tmp_path / "used").unlink()
    assert secret.read_bytes() == b"something of somebody's"
    assert len(caplog.records) == 2


def test_a_place_where_nothing_can_be_made(tmp_path, caplog):
    """It counts in memory and says so once; when the place can be used, everything is written, and that is said."""
    caplog.set_level(logging.INFO)
    blocked = tmp_path / "blocked"
    blocked.write_text("no folder")
    with opened(blocked / "spent", sync=0.01) as journal:
        assert journal.trouble == "failed"
        journal.note(Used(1, 2, 3, A))
        time.sleep(0.05)
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        blocked.unlink()
        until(lambda: len(caplog.records) == 2)
        assert not journal.trouble
    assert found(blocked / "spent", A) == [(1, 2, 3)]


def test_a_place_that_comes_back(tmp_path):
    """What was used before is added to what was counted without it, on the disk at once and here with the next use; once."""
    folder, away = tmp_path / "here", tmp_path / "away"
    write(folder, (A, 5, 10, 100), (B, 5, 1, 1))
    folder.rename(away)
    folder.write_text("no folder")
    with opened(folder, sync=0.01) as journal:
        used = Used(5, 7, 7, A)
        journal.note(used)
        until(lambda: journal.trouble)
        folder.unlink()
        away.rename(folder)
        until(lambda: not journal.trouble)
        used.add(1, 5)
        used.settle(1, 5)
        for _ in range(2):
            journal.note(used)
        assert (used.today, used.month) == (18, 108)
        one = journal.find(B)
        assert one is not None
        journal.note(one)
        assert (one.today, one.month) == (1, 1)
    assert found(folder, A, B) == [(5, 18, 108), (5, 1, 1)]


def test_a_full_disk(tmp_path, caplog):
    """A write of which only a part fits stops nothing and damages nothing: it is written when there is room again."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with opened(tmp_path, sync=0.01) as journal:
        journal.note(Used(1, 1, 1, A))
        until(lambda: not journal._changed and journal._file >= 0)
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (3 * RECORD + 7, hard))
            for number in range(2, 5):
                journal.note(Used(1, number, number, B))
                journal.note(Used(1, number, number, C))
                until(lambda: not journal._changed)
            until(lambda: journal.trouble)
            assert journal.trouble == "full"
            journal.note(Used(1, 9, 9, B))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        until(lambda: not journal.trouble)
    assert found(tmp_path, A, B, C) == [(1, 1, 1), (1, 9, 9), (1, 4, 4)]
    assert len(caplog.records) == 2
    assert not list(tmp_path.glob("used.damaged*"))


@pytest.mark.parametrize("what", ["used", "lock", ""])
def test_what_is_taken_away_is_made_anew(tmp_path, what):
    """A file or the whole folder that somebody deletes is there again after the next changes, with all that was used."""
    folder = tmp_path / "spent"
    with opened(folder, sync=0.01) as journal:
        journal.note(Used(1, 1, 1, A))
        until(lambda: not journal._changed and journal._file >= 0)
        path = folder / what
        shutil.rmtree(path) if path == folder else path.unlink()
        if what == "lock":
            (folder / "used").unlink()
        for number in range(2, 1_000_000):
            if (folder / "used").exists() and (folder / "lock").exists():
                break
            journal.note(Used(1, number, number, B))
            until(lambda: not journal._changed)
        with pytest.raises(JournalInUse):
            Journal(folder, patience=0.0).open()
    assert found(folder, A) == [(1, 1, 1)]


def test_it_does_not_grow_for_ever(tmp_path):
    """When most records are past, those in force are written anew, and nothing is lost on the way."""
    with opened(tmp_path, many=8) as journal:
        for number in range(200):
            journal.note(Used(1, number, number, A if number % 2 else B))
            until(lambda: not journal._changed)
            until(lambda: not journal._woken)
        until(lambda: journal._end <= 10 * RECORD)
    assert (tmp_path / "used").stat().st_size <= 11 * RECORD
    assert found(tmp_path, A, B) == [(1, 199, 199), (1, 198, 198)]


CHILD = """
import sys, time
from pathlib import Path
from limits.budget import Used
from limits.journal import Journal
journal = Journal(Path(sys.argv[1]), many=16)
journal.open()
path = Path(sys.argv[1]) / "used"
for number in range(1, 1_000_000):
    journal.note(Used(1, number, number, b"a" * 16))
    while number % 5 == 0 and (journal._changed or journal._woken):
        time.sleep(0.001)
    if number % 5 == 0:
        print(number - 5, flush=True)
"""


def test_a_process_that_is_killed(tmp_path):
    """After SIGKILL at any moment, also while the file is written anew, what was written is there, and the folder is free."""
    for count in (3, 30, 45):
        with subprocess.Popen([sys.executable, "-c", CHILD, str(tmp_path)], stdout=subprocess.PIPE) as child:
            lines = [int(child.stdout.readline()) for _ in range(count)]
            child.send_signal(signal.SIGKILL)
            lines += [int(line) for line in child.stdout.read().split()]
        ((day, today, month),) = found(tmp_path, A)
        assert (day, today) == (1, month)
        assert today >= max(lines)
