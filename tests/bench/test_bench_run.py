"""`make bench` end to end with tiny numbers: this checkout before the bench's own upstream, no peers."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
import uvloop

from bench import compare, environments
from bench.environments import NotInstalledError
from bench.load import Bodies, Load, Target, drive
from bench.peers import PEERS, Peer, serve_tiergate
from bench.processes import Running, upstream
from bench.records import DIRECT, OURS
from bench.rounds import Plan
from bench.upstream import MODEL, TOKENS
from routing.rules import Rules

ROOT = Path(__file__).resolve().parents[2]
TINY = Plan(rounds=1, seconds=0.01, most=32, sizes={"1 KB": 1_000})


def here() -> Peer:
    return replace(PEERS[OURS], command=lambda place: serve_tiergate(sys.executable, place), env={"PYTHONPATH": str(ROOT)})


def children() -> set[int]:
    return {child.pid for child in psutil.Process(os.getpid()).children(recursive=True)}


def test_our_own_cell() -> None:
    """Every figure of a round is there for tiergate, the direct way has its own, and no process is left behind."""
    before = children()
    entrants = compare.raced({OURS: here()}, {OURS: ROOT}, {}, TINY)
    record = entrants[OURS].record
    assert record.failure is None
    assert record.errors == []
    (one,) = record.rounds
    assert None not in (one.request_us, one.token_us, one.one, one.many, one.ttft)
    assert list(one.sizes) == ["1 KB"]
    assert record.ready_s is not None
    assert record.rss_after_mib is not None
    direct = entrants[DIRECT].record.rounds[0]
    assert direct.request_us is None
    assert direct.ttft is not None
    assert children() <= before


def test_a_peer_that_does_not_start_costs_the_others_nothing(tmp_path: Path) -> None:
    """Its last words are the reason; one that was not installed keeps its own; the direct way is measured all the same."""
    broken = replace(here(), command=lambda _: [sys.executable, "-c", "raise SystemExit('no such licence')"])
    missing = replace(here(), command=lambda _: [str(tmp_path / "nothing")])
    peers = {OURS: broken, "smg": here(), "portkey": missing}
    entrants = compare.raced(peers, dict.fromkeys(peers, ROOT), {"smg": "not installed: ERROR"}, TINY)
    assert entrants[OURS].record.failure == "not started: ended with status 1, its last words: no such licence"
    assert entrants["smg"].record.failure == "not installed: ERROR"
    assert "No such file" in (entrants["portkey"].record.failure or "")
    assert len(entrants[DIRECT].record.rounds) == 1


async def test_an_answer_that_is_none_is_not_a_fast_one() -> None:
    """A gateway that refuses is an error, not a figure."""
    with upstream(ROOT, listen=1) as (port,):
        taken = await drive(Target(port, MODEL), Bodies(), Load(2, 2, stream=True))
        assert len(taken.first) == 2
        assert min(taken.whole) > TOKENS
        with pytest.raises(RuntimeError, match="the peer answered 404"):
            await drive(Elsewhere(port, MODEL), Bodies(), Load(4, 2))
    with pytest.raises(RuntimeError, match=r"Connect|refused"):
        await drive(Target(port, MODEL), Bodies(), Load(4, 2))


class Elsewhere(Target):
    def head(self) -> bytes:
        return super().head().replace(b"/v1/chat/completions", b"/v1/nothing")


def test_bodies_have_the_wanted_size_and_differ() -> None:
    """Valid JSON of so many bytes, none twice, and a stream only where one is asked for."""
    bodies = Bodies()
    made = [bodies.next("m", size=size) for size in (500, 500, 100_000)]
    assert [len(body) for body in made] == [500, 500, 100_000]
    assert made[0] != made[1]
    assert b'"stream":true' in bodies.next("m", stream=True)
    assert b"stream" not in made[0]
    assert Rules().classify(json.loads(made[0]), "chat").score is not None, "a prompt that the rules give up is too cheap for us"


def test_what_a_gateway_started_ends_with_it(tmp_path: Path) -> None:
    """Also a child that has left its process group."""
    script = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], start_new_session=True)\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    running = Running([sys.executable, "-c", script], Target(1, MODEL), tmp_path / "log")
    while not (told := (tmp_path / "log").read_text()).endswith("\n"):
        assert running.alive()
    running.stop()
    assert not running.alive()
    child = int(told)
    assert not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE


def test_an_environment_is_made_once_for_the_same_contents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stamp of other contents has it made anew; one whose making failed is no environment."""
    calls: list[list[str]] = []
    monkeypatch.setattr(environments, "_run", lambda command, _: calls.append(list(command)))
    for version in ("1.0", "1.0", "2.0"):
        environments.npm("portkey", {"gateway": version, "server": "1.2"}, tmp_path)
    assert len(calls) == 2

    def fails(command: list[str], folder: Path) -> None:
        raise NotInstalledError("ERROR: no")

    monkeypatch.setattr(environments, "_run", fails)
    for _ in range(2):
        with pytest.raises(NotInstalledError):
            environments.npm("portkey", {"gateway": "3.0"}, tmp_path)


def test_the_reason_of_an_installer_is_its_error_line() -> None:
    """Warnings before and hints after it are not it."""
    assert (
        environments.reason("WARNING: old\nERROR: No matching distribution\nnote: try this\n")
        == "ERROR: No matching distribution"
    )
    assert environments.reason("npm error code E404\nnpm error 404 Not Found\n") == "npm error 404 Not Found"
    assert environments.reason("") == ""


def test_both_commands_explain_themselves() -> None:
    """`--help` works from the repository's root, by module and by path."""
    for command in (["-m", "bench.compare"], ["bench/quick.py"]):
        done = subprocess.run([sys.executable, *command, "--help"], cwd=ROOT, capture_output=True, text=True, check=True)
        assert "--rounds" in done.stdout


def test_a_signal_to_end_is_an_exception_in_the_main_task() -> None:
    """SIGTERM in the middle of a round unwinds what was started, as Ctrl-C does, and is not lost in a callback of the loop."""
    unwound: list[bool] = []

    async def work() -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.Event().wait()
        finally:
            unwound.append(True)

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner, pytest.raises(KeyboardInterrupt):
        runner.run(compare.until_terminated(work()))
    assert unwound == [True]
