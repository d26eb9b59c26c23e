"""What is said of replicas that had not cached what they were thought to have."""

import pytest

from backends.kept import Kept, read_kept
from gateway.dispatch.mismatch import NOTHING, OFF, OTHER_WORDS, OTHERS, RESET, ROOM, UNTOLD, Calibration

PLAIN = Kept(started=1.0, counted=0.0, tokens=100_000, queries=1000.0, hits=10.0)


def after(**facts):
    return Kept(started=1.0, **({"counted": 50_000.0, "tokens": 100_000, "queries": 60_000.0, "hits": 600.0} | facts))


@pytest.mark.parametrize(
    ("kept", "used", "cause"),
    [
        (after(hits=0.0), 1000, NOTHING),
        (after(counted=900_000.0), 1000, OTHERS),
        (after(), 90_000, ROOM),
        (after(), 1000, RESET),
        (Kept(), 1000, RESET),
    ],
)
def test_the_likely_cause_is_told_once(kept, used, cause):
    """By the surest sign that there is; the second time nothing is said, of whichever replica."""
    calibration = Calibration()
    calibration.scraped("a", PLAIN)
    calibration.sent("a", 50_000)
    calibration.scraped("a", kept)
    told = calibration.forgot("a", 1000, 12, used)
    assert told.endswith(cause)
    assert "1000" in told
    assert "12" in told
    assert calibration.forgot("b", 1000, 12, used) == ""


def test_less_than_was_expected_over_many_answers_is_told():
    """Not after one bad answer, and not while most of it is there."""
    good, bad = Calibration(), Calibration()
    said = [good.compare("a", 5000, 4000, 100) for _ in range(200)]
    assert not any(said)
    said = [bad.compare("a", 5000, 2000, 100) for _ in range(200)]
    assert sum(map(bool, said)) == 1
    assert not any(said[:19])
    assert said[19].endswith(OTHER_WORDS)


def test_old_faults_fade():
    """A replica that was wrong for a while and is right for long is not complained of for that."""
    calibration = Calibration()
    for _ in range(5):
        assert not any(calibration.compare("a", 5000, 0, 100) for _ in range(5))
        assert not any(calibration.compare("a", 5000, 5000, 100) for _ in range(40))


def test_an_engine_that_never_tells_is_told_of():
    """Which of both it is, its own counters of the cache show."""
    silent, barren = Calibration(), Calibration()
    silent.scraped("a", PLAIN)
    barren.scraped("a", after(hits=0.0))
    for calibration, cause in ((silent, UNTOLD), (barren, NOTHING)):
        said = [calibration.untold("a", 4000) for _ in range(20)]
        assert [text for text in said if text] == [cause]
        assert not any(said[:4])


def test_an_engine_that_keeps_no_prefixes_is_told_of():
    """Its metrics say so; it is said once."""
    calibration = Calibration()
    assert [calibration.scraped("a", Kept(tokens=0)) for _ in range(3)] == [OFF, "", ""]


def test_each_engine_of_the_wrong_command_line_is_told_of():
    """The second one of a pool as well, once; one that left and is back again."""
    calibration = Calibration()
    said = [(name, calibration.untold(name, 30_000), calibration.scraped(name, Kept(tokens=0))) for name in "abab"]
    assert said == [("a", UNTOLD, OFF), ("b", UNTOLD, OFF), ("a", "", ""), ("b", "", "")]
    calibration.left("a")
    assert calibration.untold("a", 30_000) == UNTOLD
    assert calibration.untold("b", 30_000) == ""


@pytest.mark.parametrize("suffix", [b"", b"_total"])
def test_counters_of_the_cache_are_read(suffix):
    """By either of their names; an engine without them has said nothing."""
    page = b'vllm:prefix_cache_queries%b{engine="0"} 10.0\nvllm:prefix_cache_hits%b{engine="0"} 4.0\n' % (suffix, suffix)
    assert (read_kept(page).queries, read_kept(page).hits) == (10.0, 4.0)
    assert read_kept(b"").queries is None
