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

from bench import environments, nginx, stages
from bench.environments import NotInstalledError
from bench.load import KEY, Bodies, Load, Same, Target, Turns, drive
from bench.peers import PEERS, Peer, Place, serve_tiergate
from bench.processes import Running, upstream
from bench.records import DIRECT, OURS
from bench.rounds import Plan
from bench.stages import Field, Scale, base, crowds, replicas, tenants
from bench.upstream import MODEL, TOKENS, USUAL, Paced, found
from routing.rules import Rules

ROOT = Path(__file__).resolve().parents[2]
TINY = Plan(rounds=1, seconds=0.01, most=32, idle=0.05)
SMALL = Scale(streams=(2, 4), writes=3, tenants=(1, 3), replicas=(3,))


def here() -> Peer:
    return replace(PEERS[OURS], command=lambda place: serve_tiergate(sys.executable, place), env={"PYTHONPATH": str(ROOT)})


def children() -> set[int]:
    return {child.pid for child in psutil.Process(os.getpid()).children(recursive=True)}


def alone() -> Field:
    return Field({OURS: here()}, {OURS: ROOT})


def test_our_own_cells() -> None:
    """Every figure of a round is there for tiergate, the direct way has its own, and no process is left behind."""
    before = children()
    records = base(alone(), TINY, {"1 KB": 1_000})
    record = records[OURS]
    assert record.failure is None
    assert record.errors == []
    (one,) = record.rounds
    assert None not in (one.request_us, one.token_us, one.coalesced_us, one.one, one.many, one.ttft)
    assert list(one.sizes) == ["1 KB"]
    assert set(one.kinds) == {"auto", "named", "exact hit"}
    assert record.ready_s is not None
    assert record.rss_after_mib is not None
    direct = records[DIRECT].rounds[0]
    assert direct.request_us is None
    assert direct.ttft is not None
    assert direct.kinds == {}, "it chooses nothing"
    assert children() <= before


def test_streams_at_once_are_listened_to() -> None:
    """Of each crowd the cost of a token, its lateness and the memory; the direct way has the lateness alone."""
    records = crowds(alone(), TINY, SMALL)
    assert (records[OURS].failure, records[OURS].errors) == (None, [])
    ours, direct = records[OURS].rounds[0].crowds, records[DIRECT].rounds[0].crowds
    assert list(ours) == list(direct) == ["2", "4"]
    for crowd in ours.values():
        assert crowd.token_us is not None
        assert crowd.token_us > 0
        assert crowd.late_worst >= crowd.late_p99
        assert crowd.rss_mib is not None
        assert crowd.rss_mib > 20
    assert all(crowd.token_us is None and crowd.rss_mib is None for crowd in direct.values())


def test_tenants_and_replicas_are_as_many_as_wanted() -> None:
    """A process for each number, whose cost is told, and what it does when nobody asks; each tenant's key is taken."""
    for found_, counts in (
        (tenants(alone(), TINY, SMALL), ["1", "3"]),
        (replicas(alone(), TINY, SMALL), ["3"]),
    ):
        (sizes,) = found_.values()
        assert list(sizes) == counts
        for record in sizes.values():
            assert (record.failure, record.errors) == (None, [])
            assert record.rounds[0].request_us is not None
            assert record.idle_ms is not None


def test_a_peer_that_does_not_start_costs_the_others_nothing(tmp_path: Path) -> None:
    """Its last words are the reason; one that was not installed keeps its own; the direct way is measured all the same."""
    broken = replace(here(), command=lambda _: [sys.executable, "-c", "raise SystemExit('no such licence')"])
    missing = replace(here(), command=lambda _: [str(tmp_path / "nothing")])
    peers = {OURS: broken, "smg": here(), "portkey": missing, "nginx": here()}
    failures = {"smg": "not installed: ERROR", "nginx": "there is none"}
    records = base(Field(peers, dict.fromkeys(peers, ROOT), failures, frozenset({"nginx"})), TINY, {})
    assert records[OURS].failure == "not started: ended with status 1, its last words: no such licence"
    assert (records["smg"].failure, records["smg"].absent) == ("not installed: ERROR", False)
    assert (records["nginx"].failure, records["nginx"].absent) == ("there is none", True)
    assert "No such file" in (records["portkey"].failure or "")
    assert len(records[DIRECT].rounds) == 1


async def test_an_answer_that_is_none_is_not_a_fast_one() -> None:
    """A gateway that refuses is an error, not a figure."""
    with upstream(ROOT, listen=1) as (port,):
        taken = await drive(Target(port, MODEL), Bodies(), Load(2, 2, stream=USUAL))
        assert len(taken.first) == 2
        assert min(taken.whole) > TOKENS
        with pytest.raises(RuntimeError, match="the peer answered 404"):
            await drive(Elsewhere(port, MODEL), Bodies(), Load(4, 2))
    with pytest.raises(RuntimeError, match=r"Connect|refused"):
        await drive(Target(port, MODEL), Bodies(), Load(4, 2))


class Elsewhere(Target):
    def head(self, key: str = KEY) -> bytes:
        return super().head(key).replace(b"/v1/chat/completions", b"/v1/nothing")


async def test_a_stream_comes_as_its_request_says() -> None:
    """So many writes of so many events, at that pace; several events in a write make no more writes."""
    paced = Paced(5, 8, 4)
    with upstream(ROOT, listen=1) as (port,):
        taken = await drive(Target(port, MODEL), Bodies(), Load(2, 1, stream=paced))
        assert min(taken.whole) >= paced.seconds * 1e3 * 0.9
    assert found(Bodies().next(MODEL, stream=paced)) == paced
    assert found(Bodies().next(MODEL, stream=USUAL)) == found(b"{}") == USUAL


def test_keys_and_models_take_turns() -> None:
    """Every key comes with every model, as often as any other."""
    for count in (1, 2, 3, 10):
        keys = [f"key-{number}" for number in range(count)]
        turns = Turns(Target(1, "a", also=("b",), keys=keys))
        seen = [turns.of(number) for number in range(2 * count)]
        assert len(set(seen)) == 2 * count


def test_the_same_request_comes_again() -> None:
    """Byte for byte, of each model, so that an exact cache has its answer."""
    same = Same()
    assert len({same.next("m") for _ in range(3)}) == 1
    assert same.number == 3, "and the turns go on"
    assert same.next("m") != same.next("n")


def test_a_system_without_nginx_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The peer is absent, with the reason; where there is one, it is taken as it is."""
    monkeypatch.setattr(environments.shutil, "which", lambda *_, **__: None)
    monkeypatch.setattr(environments, "_run", lambda *_: (_ for _ in ()).throw(NotInstalledError("no apt-get here")))
    with pytest.raises(environments.AbsentError, match=r"there is no nginx on this machine.*no apt-get here"):
        environments.apt("nginx", tmp_path)
    monkeypatch.setattr(environments.shutil, "which", lambda *_, **__: "/opt/nginx")
    monkeypatch.setattr(environments, "_run", lambda *_: None)
    assert (environments.apt("nginx", tmp_path) / nginx.PROGRAM).readlink() == Path("/opt/nginx")


def test_nginx_knows_all_keys_and_engines(tmp_path: Path) -> None:
    """A line of its configuration for each."""
    told = nginx.config(Place(tmp_path, tmp_path, 1, [8001, 8002, 8003], tenants=2))
    assert told.count("server 127.0.0.1:800") == 3
    assert f'"Bearer {KEY}" k0;' in told
    assert f'"Bearer {KEY}-2" k1;' in told


def test_bodies_have_the_wanted_size_and_differ() -> None:
    """Valid JSON of so many bytes, none twice, and a stream only where one is asked for."""
    bodies = Bodies()
    made = [bodies.next("m", size=size) for size in (500, 500, 100_000)]
    assert [len(body) for body in made] == [500, 500, 100_000]
    assert made[0] != made[1]
    assert b'"stream":true' in bodies.next("m", stream=USUAL)
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
        runner.run(stages.until_terminated(work()))
    assert unwound == [True]
