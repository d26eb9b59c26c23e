"""When a process counts as one that stands still: by a fake clock, and with real forks who is killed then, and who comes."""

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.node.pulse import Vigil

BOUND = 2.5


class World:
    """A process that beats while `runs`, and a supervisor that looks when a look is due, `late` or not."""

    def __init__(self, pid=0):
        self.now, self.beats, self.pid = 1000.0, 7, pid
        self.vigil = Vigil(lambda: self.beats, BOUND, lambda: self.now)
        assert not self.look(runs=True)

    def look(self, *, runs, late=0.0):
        self.now = max(self.now, self.vigil.due) + late
        self.beats += runs
        return self.vigil.look(self.pid)


def test_one_that_stands_still_is_found_within_the_bound():
    """At the tenth look without a beat, and not before; looks come often enough for that."""
    world = World()
    assert not any(world.look(runs=True) for _ in range(50))
    began = world.now
    assert [world.look(runs=False) for _ in range(10)] == [False] * 9 + [True]
    assert world.now - began == pytest.approx(BOUND)


def test_looking_too_early_is_not_looking():
    """Whatever else wakes the supervisor, however often, a look is one when it is due."""
    world = World()
    assert not any(world.vigil.look(world.pid) for _ in range(1000))
    assert [world.look(runs=False) for _ in range(10)] == [False] * 9 + [True]


@given(st.lists(st.floats(0.3, 1e6), min_size=1, max_size=20), st.integers(0, 9))
def test_a_supervisor_that_did_not_run_blames_nobody(pauses, before):
    """However often it was suspended, and for however long: it begins to count anew each time."""
    world = World()
    for pause in pauses:
        assert not any(world.look(runs=False) for _ in range(before))
        assert not world.look(runs=False, late=pause)
    assert [world.look(runs=False) for _ in range(10)] == [False] * 9 + [True]


@given(st.lists(st.integers(0, 9)))
def test_one_beat_in_time_is_enough(gaps):
    """A process that is slow, but turns now and then, is left alone."""
    world = World()
    for gap in gaps:
        assert not any(world.look(runs=False) for _ in range(gap))
        assert not world.look(runs=True)


def test_a_new_process_has_the_whole_time():
    """What its predecessor had not done is not held against it."""
    world = World()
    assert not any(world.look(runs=False) for _ in range(9))
    world.pid += 1
    assert not world.vigil.look(world.pid)
    assert [world.look(runs=False) for _ in range(10)] == [False] * 9 + [True]


@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="there is no /proc that tells of debuggers")
def test_a_process_that_is_debugged_is_left_alone():
    """It may stand still as long as somebody looks at it."""
    code = "import ctypes, sys; print(ctypes.CDLL(None).ptrace(0, 0, 0, 0), flush=True); sys.stdin.read()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            if process.stdout.readline() != b"0\n":
                pytest.skip("nobody may debug here")
            traced, other = World(process.pid), World(os.getpid())
            assert not any(traced.look(runs=False) for _ in range(100))
            assert any(other.look(runs=False) for _ in range(10))
        finally:
            process.kill()


@pytest.mark.parametrize("name", ["dispatcher", "worker 2"])
def test_one_that_stands_still_is_killed_and_replaced(node, name):
    """The next one starts when it is gone, and without a pause; the others stay, and SIGCONT would find nobody."""
    one = node(still=0.5)
    one.listening()
    before = {who: pid for who, pid, what in one.events if what == "ready"}
    killed = before[name]
    os.kill(killed, signal.SIGSTOP)
    after = one.come("ready", name, 2)[-1]
    one.until(lambda: one.log.count(f"{name} is ready") == 2)
    told = [f"stands still: it is killed (pid {killed})", f"ended by SIGKILL (pid {killed})", f"is ready (pid {after})"]
    assert sorted(told, key=one.log.index) == told
    assert "started again in" not in one.log
    assert {child.pid for child in one.children()} == {*before.values(), after} - {killed}
    assert [pid for who, pid, _ in one.events if who == "restarts"] == [one.process.pid]


def test_a_worker_that_took_over_is_watched_as_well(node):
    """After a reload, too, one that stands still is replaced."""
    one = node(still=0.5)
    one.listening()
    one.send(signal.SIGHUP)
    one.until(lambda: "INFO tiergate.node: reloaded" in one.log)
    os.kill(one.pids("ready", "worker 1")[-1], signal.SIGSTOP)
    one.come("ready", "worker 1", 3)


def test_one_that_stands_still_amid_a_drain_is_replaced(node):
    """Workers that drain need it no less."""
    one = node(still=0.5)
    one.listening()
    hold = one.file("hold")
    one.send()
    one.come("end", count=2)
    os.kill(one.pids("ready", "dispatcher")[0], signal.SIGSTOP)
    one.come("ready", "dispatcher", 2)
    hold.unlink()
    assert one.ended() == 0


def test_one_that_is_not_ready_yet_is_waited_for(node):
    """However long it takes to start: that has a bound of its own."""
    one = node(still=0.1, files={"hang-dispatcher": ""})
    pid = one.until(lambda: [pid for who, pid, _ in one.events if who == "dispatcher"])[0]
    stand_still(0.5, pid)
    (one.folder / "hang-dispatcher").unlink()
    one.listening()
    assert one.pids("ready", "dispatcher") == [pid]
    assert "stands still" not in one.log


def test_a_group_that_is_stopped_and_goes_on_loses_nobody(node):
    """Ctrl-Z and `fg`: all stand still, the supervisor too."""
    one = node(still=0.5)
    one.listening()
    pids = [one.process.pid, *(child.pid for child in one.children())]
    stand_still(1.5, *pids)
    one.send()
    assert one.ended() == 0
    assert len(one.pids("ready")) == 3
    assert "stands still" not in one.log


def stand_still(seconds, *pids):
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    stopped = [psutil.Process(pid) for pid in pids]
    end = time.monotonic() + 20
    while any(process.status() != psutil.STATUS_STOPPED for process in stopped):
        assert time.monotonic() < end
        time.sleep(0.005)
    time.sleep(seconds)
    for pid in pids:
        os.kill(pid, signal.SIGCONT)
