"""docs/benchmarks.md, made of a recorded run: one peer that ran, one that broke on the way, one that was not installed."""

from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from bench import compare
from bench.aims import aims
from bench.figures import Spread
from bench.machine import Mood
from bench.peers import PEERS
from bench.records import Result
from bench.report import brief, compared, report

SAMPLE = Path(__file__).parent / "sample.json"


@pytest.fixture
def result() -> Result:
    return msgspec.json.decode(SAMPLE.read_bytes(), type=Result)


def rows(page: str, name: str) -> list[list[str]]:
    return [
        [cell.strip() for cell in line.strip("| ").split(" | ")] for line in page.splitlines() if line.startswith(f"| {name} ")
    ]


def test_the_first_line_says_which_command_makes_it(result: Result) -> None:
    """And nothing else, after a run on a quiet machine."""
    assert report(result).splitlines()[0] == "Made by `make bench`, which overwrites all of it."


def test_a_forced_run_says_so_first(result: Result) -> None:
    """What spoke against it is in the first line, so that nobody quotes the figures unwarned."""
    first = report(replace(result, forced=["the load average is 9.0"])).splitlines()[0]
    assert "FORCED on a busy machine (the load average is 9.0): do not quote" in first


def test_figures_stand_with_their_range_and_ratio(result: Result) -> None:
    """A peer's row has the median of the rounds, their range, and the ratio to tiergate taken in each."""
    page = report(result)
    assert rows(page, "tiergate")[0][1:3] == ["200 (100 to 300)", "1.00 (1.00 to 1.00)"]
    assert rows(page, "smg")[0][1:3] == ["100 (50 to 240)", "0.50 (0.50 to 0.80)"]
    assert rows(page, "smg")[1][1] == "0.20 (0.10 to 0.30)", "added over the direct way of the same round"


def test_no_peer_is_dropped_in_silence(result: Result) -> None:
    """One without figures is in every table, and the reason is told; so is when another one broke."""
    page = report(replace(result, crowds={}, tenants={}, replicas={}))
    assert len(rows(page, "portkey")) == len(rows(page, "smg")) == 5
    assert "**portkey** has no figures: not installed: npm: not found" in page
    assert "**litellm** was left out from some point on: round 2, streams: it ended: Killed" in page


def test_it_says_when_a_peer_does_less(result: Result) -> None:
    """The last table has a yes or a no for each thing that tiergate does for a request."""
    does = {name: rows(report(result), name)[-1][2:-1] for name in ("tiergate", "smg")}
    assert does["tiergate"] == ["yes"] * 7
    assert does["smg"] == ["no"] * 6 + ["yes"]


@pytest.mark.parametrize(
    ("ratio", "said"),
    [
        (Spread(2.0, 1.5, 3.0), "takes 2.00 times (1.50 to 3.00) tiergate's CPU for"),
        (Spread(0.5, 0.4, 0.9), "takes only 0.50 times (0.40 to 0.90) tiergate's CPU for"),
        (Spread(0.9, 0.7, 1.2), "cannot be told from tiergate (0.70 to 1.20) by the CPU for"),
    ],
)
def test_a_difference_is_claimed_only_if_all_rounds_agree(ratio: Spread, said: str) -> None:
    """A range of ratios on both sides of 1 allows no verdict."""
    assert compared(ratio) == said


def test_a_terminal_gets_the_tables_without_the_rest(result: Result) -> None:
    """bench/quick.py prints cost, latency and memory."""
    assert [line for line in brief(result.peers).splitlines() if line.startswith("#")] == [
        "## CPU", "## Added latency, ms", "## Memory and start",
    ]  # fmt: skip


def test_a_busy_machine_is_refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """One line, exit code 3, and nothing is installed or started."""
    monkeypatch.setattr(compare.machine, "mood", lambda **_: Mood(2, 80.0, 0.0, 5.0))
    monkeypatch.setattr(compare, "installed", lambda _: pytest.fail("it went on"))
    assert compare.main([]) == 3
    told = capsys.readouterr().err
    assert told.startswith("the machine is busy: 80.0 % of the CPU is in use")
    assert told.count("\n") == 1


def test_peers_are_chosen_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    """Tiergate is always among them, since the others are compared with it; an unknown name is told, with those there are."""
    assert compare.arguments(["--peers", "smg"]).peers == ["tiergate", "smg"]
    assert compare.arguments([]).peers == list(PEERS)
    with pytest.raises(SystemExit) as ended:
        compare.arguments(["--peers", "smug"])
    assert ended.value.code == 2
    assert "no peer is called smug; there are tiergate, nginx" in capsys.readouterr().err


def test_versions_are_pinned_and_none_is_a_withdrawn_one() -> None:
    """Each package of a peer has one version; LiteLLM's is none of those that were taken back."""
    versions = {
        package: version
        for peer in PEERS.values()
        if peer.installer in ("pip", "npm")
        for package, version in peer.packages.items()
    }
    assert all(version.count(".") == 2 for version in versions.values())
    assert versions["litellm[proxy]"] not in {"1.82.7", "1.82.8", "1.107.0"}


def test_the_commit_is_named(result: Result) -> None:
    """Beside the command that makes the page again."""
    assert "commit 0123456789, `make bench" in report(result)


def test_what_is_aimed_at_is_computed(result: Result) -> None:
    """Reached in every round, in the median of them, or not; what was not measured is not reached."""
    found = {aim.what: (Spread.of(aim.figures), aim.reached()) for aim in aims(result)}
    assert found["CPU of a request, to smg's"] == (Spread(2.0, 1.25, 2.0), "**no**")
    assert found["CPU of a streamed token, eight in a read, to smg's"] == (None, "not measured")
    late = "The latest token of 1,024 streams, one each 50 ms, on one core, over the direct way"
    assert found[late] == (Spread(40.0, 20.0, 60.0), "in the median")
    assert found["RSS with 1,024 streams"] == (Spread(130.0, 120.0, 140.0), "yes")
    assert found["CPU of a request, from 1 to 10,000 tenants, the dearest to the first"][1] == "in the median"
    assert found["CPU of a request, from 2 to 256 replicas, the dearest to the first"] == (Spread(1.5, 1.5, 1.5), "**no**")


def test_aims_are_told_of_a_run_of_nothing(result: Result) -> None:
    """A run of some of the setups has the others' aims as not measured, and no tables of them."""
    page = report(replace(result, peers={}, crowds={}, tenants={}, replicas={}))
    assert page.count("| not measured |") == 13
    assert [line for line in page.splitlines() if line.startswith("## ")] == ["## What is aimed at"]


def test_what_grows_has_its_tables(result: Result) -> None:
    """Crowds over the direct way, numbers beside the first, and what is missing with its reason, an absent peer as absent."""
    page = report(result)
    assert [row[1] for row in rows(page, "(direct, absolute)")][1:] == ["7.5 (5.0 to 10.0)", "3.8 (2.5 to 5.0)"]
    assert "- portkey, one cell without a figure: probe, 1024 streams: not asked for 1024 streams" in page
    assert "- **nginx** is absent: there is no nginx on this machine" in page
    assert "- **smg, 256** has no figures: not started" in page
    tenants = page.partition("## With tenants")[2]
    assert [row[1:] for row in rows(tenants, "tiergate")][:3] == [
        ["150 (100 to 200)", "168 (105 to 230)"],
        ["1.00 (1.00 to 1.00)", "1.10 (1.05 to 1.15)"],
        ["0.5, 60, 4.0", "3.5, 90, 4.5"],
    ]
