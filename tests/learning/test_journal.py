"""Lines on disk: written by a thread, kept for so long and so much, whatever happens to the folder."""

import os
import resource
import time
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.learning.journal import Journal
from gateway.learning.line import LONGEST, Line, decode, encode, files, read


@pytest.fixture
def journal(tmp_path):
    made = Journal(tmp_path / "log", max_age=3600.0, max_bytes=64 * 1024, gather=0.001)
    yield made
    made.close()


def until(condition):
    ends = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.001)


def line(text="hello", **other):
    return Line(at=1.0, id="r", tenant="t", answered="small", source="agreement", small=1.0, large=1.0, text=text, **other)


def texts(folder):
    return [found.text for path in files(folder) for found in read(path) if found is not None]


def test_lines_are_written_in_order_and_nobody_else_may_read_them(journal, tmp_path):
    """What is noted is on disk in the order in which it came, in a file of its owner's."""
    for number in range(100):
        journal.note(encode(line(str(number))))
    journal.close()
    [path] = files(tmp_path / "log")
    assert texts(tmp_path / "log") == [str(number) for number in range(100)]
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)


def test_a_torn_line_costs_itself_alone(tmp_path):
    """A last line without an end, one that is too long and one that is none are passed over; the others count."""
    path = tmp_path / "asks-1.jsonl"
    good = encode(line())
    path.write_bytes(good + b"\n" + b"x" * (3 * LONGEST) + b"\n" + b"{}\n" + good + b"\n" + good[:20])
    assert [found is not None for found in read(path)] == [True, False, False, True, False]


def test_the_oldest_go_when_there_is_too_much_and_when_they_are_too_old(tmp_path):
    """All files together stay within the bound, and what is older than the limit is gone with the next file."""
    folder = tmp_path / "log"
    folder.mkdir()
    old = folder / "asks-0000000000001-old.jsonl"
    old.write_bytes(encode(line("old")) + b"\n")
    os.utime(old, (1.0, 1.0))
    journal = Journal(folder, max_age=3600.0, max_bytes=64 * 1024, gather=0.001)
    for number in range(40):
        journal.note(encode(line("x" * 4000, model=str(number))))
        until(lambda: not journal._lines)
    journal.close()
    assert not old.exists()
    assert sum(path.stat().st_size for path in files(folder)) <= 64 * 1024 + 8 * 1024 + 5000
    assert [found.model for path in files(folder) for found in read(path)][-1] == "39"


@contextmanager
def no_room(after=0):
    """No file may grow beyond so many bytes: what a full disk is to who writes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (after, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("after", [0, 100])
def test_a_disk_without_room_fills_no_folder(tmp_path, after):
    """However long nothing can be written: no file of nothing stays behind, and when there is room again lines are kept."""
    folder = tmp_path / "log"
    journal = Journal(folder, max_age=3600.0, max_bytes=64 * 1024, gather=0.001, pause=0.01)
    with no_room(after):
        for number in range(40):
            journal.note(encode(line(str(number))))
            time.sleep(0.005)
        until(lambda: journal.trouble)
        sizes = [path.stat().st_size for path in files(folder)]
    assert all(sizes)
    until(lambda: not journal._lines)
    journal.note(encode(line("at last")))
    until(lambda: "at last" in texts(folder))
    journal.close()
    assert not journal.trouble
    assert all(path.stat().st_size for path in files(folder))


def test_what_cannot_be_written_is_not_tried_at_every_turn(tmp_path):
    """After a failure there is a pause, which grows; what comes meanwhile waits for its end and is not lost."""
    folder = tmp_path / "log"
    journal = Journal(folder, max_age=3600.0, max_bytes=64 * 1024, gather=0.001, pause=30.0)
    with no_room():
        journal.note(encode(line("lost")))
        until(lambda: journal.trouble)
    for number in range(20):
        journal.note(encode(line(str(number))))
        time.sleep(0.002)
    assert not files(folder)
    assert journal.dropped == 1
    journal.close()
    assert texts(folder) == [str(number) for number in range(20)]


def test_empty_files_of_before_go(tmp_path):
    """They are of no use; one that is new may be another gateway's, which is about to write."""
    folder = tmp_path / "log"
    folder.mkdir()
    for number, age in enumerate((7200.0, 7200.0, 0.0)):
        (folder / f"asks-000000000000{number}-x.jsonl").touch()
        os.utime(folder / f"asks-000000000000{number}-x.jsonl", (time.time() - age,) * 2)
    journal = Journal(folder, max_age=1e6, max_bytes=64 * 1024, gather=0.001)
    journal.note(encode(line("x")))
    until(lambda: texts(folder) == ["x"])
    journal.close()
    assert sorted(path.stat().st_size > 0 for path in files(folder)) == [False, True]


def test_a_folder_that_is_taken_away_is_made_anew(journal, tmp_path, caplog):
    """While something is in its place nothing is kept, and both is told once; afterwards lines are written again."""
    folder = tmp_path / "log"
    journal.note(encode(line("one")))
    until(lambda: texts(folder) == ["one"] if folder.is_dir() else False)
    folder.rename(tmp_path / "away")
    folder.write_text("in the way")
    for _ in range(3):
        journal.note(encode(line("lost")))
        until(lambda: not journal._lines)
    until(lambda: journal.dropped == 3)
    folder.unlink()
    journal.note(encode(line("two")))
    until(lambda: folder.is_dir() and texts(folder) == ["two"])
    until(lambda: not journal.trouble)
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]
    assert "lost" not in caplog.records[0].getMessage()


def test_what_finds_no_room_is_dropped(tmp_path):
    """A disk that stands still costs lines and no memory."""
    journal = Journal(tmp_path / "log", max_age=3600.0, max_bytes=1 << 30, gather=3600.0)
    for _ in range(200):
        journal.note(b"x" * 60_000)
    assert journal.dropped > 100
    journal._closing.set()
    journal.close()


@given(st.binary(max_size=200))
def test_no_bytes_raise(data):
    """Whatever is in a file, it is a line or it is none."""
    assert decode(data) is None or data.startswith(b"{")


@given(
    st.floats(0, 1), st.text(max_size=50), st.lists(st.integers(0, 2**32 - 1), max_size=5),
    st.sampled_from(["agreement", "judge", "feedback"]),
)  # fmt: skip
def test_a_line_is_read_as_it_was_written(score, text, grams, source):
    """Nothing is lost between writing and reading, for text and for grams."""
    for kept in ({"text": text}, {"grams": grams, "amounts": [score]}):
        wrote = Line(at=1.5, id="é", tenant="t", answered="large", source=source, large=score, **kept)
        assert decode(encode(wrote)) == wrote


@pytest.mark.parametrize("wrong", [{"small": 2.0}, {"small": None}, {"grams": [1], "amounts": [0.5]}, {"text": None}])
def test_a_line_that_says_what_cannot_be_is_none(wrong):
    """A label beyond 0-1, none at all, text and grams at once, or neither: no line."""
    fields = {"small": 1.0, "text": "x", **wrong}
    assert decode(encode(Line(at=1.0, id="r", tenant="t", answered="small", source="judge", **fields))) is None
