"""The supervisor with real forks: who is started when, what is replaced, and how a node ends."""

import os
import resource
import signal
import socket
import sys

import psutil
import pytest

from gateway.node.backoff import Backoff
from gateway.node.signals import how


def order(node, *marks):
    """The events in their order, for those that are one of `marks` (a name or an event)."""
    return [(name, what) for name, _, what in node.events if name in marks or what in marks]


def test_the_dispatcher_is_ready_before_a_worker_starts(node):
    """Dispatcher, then the workers, then one word that all are ready; a drain ends with code 0, nobody left."""
    one = node(workers=2)
    one.listening()
    told = [(name, what.split()[0]) for name, _, what in one.events]
    assert told[:2] == [("dispatcher", "started"), ("dispatcher", "ready")]
    assert sorted(told[2:6]) == [(f"worker {number}", what) for number in (1, 2) for what in ("ready", "started")]
    assert told[6:] == [("supervisor", "listening")]
    one.send()
    assert one.ended() == 0
    assert all(one.gone(pid) for _, pid, _ in one.events)
    assert one.log.count("buffered when the children are forked") == 1
    assert one.log.count("a last word") == 3


def test_a_node_that_cannot_start_says_so_with_its_code(node):
    """Exit code 2 before anyone was ready ends the node with 2, and those that did start."""
    one = node(files={"exit-worker-2": "2"})
    assert one.ended() == 2
    assert "worker 2 cannot start" in one.log
    assert one.come("ended", "dispatcher")
    assert not one.pids("listening")


def test_an_early_death_is_tried_again_later_and_later(node):
    """A process that dies before it is ready is started again after pauses that double, until it gets ready."""
    one = node(files={"exit-dispatcher": "3"})
    one.until(lambda: "dispatcher is started again in 0.4 s" in one.log)
    pauses = [line.rpartition("again in ")[2] for line in one.log.splitlines() if "started again in" in line]
    assert pauses[:3] == ["0.1 s", "0.2 s", "0.4 s"]
    assert not [name for name, _, _ in one.events if name not in ("dispatcher", "restarts")]
    (one.folder / "exit-dispatcher").unlink()
    one.listening()


def test_an_exception_ends_the_child_alone(node):
    """Its traceback is printed once, its exit code is 1, and nothing of the supervisor's runs on in the child."""
    one = node(files={"exit-dispatcher": "a word"})
    one.until(lambda: "dispatcher is started again in 0.1 s" in one.log)
    one.send()
    assert one.ended() == 0
    started = [pid for _, pid, what in one.events if what.startswith("started")]
    assert one.log.count("ValueError: invalid literal for int() with base 10: 'a word'") == len(started) == len(set(started))
    assert one.log.count("Traceback") == len(started)
    assert f"dispatcher ended with exit code 1 (pid {started[0]})" in one.log


def test_a_start_can_be_interrupted(node):
    """SIGTERM while nothing gets ready: everything ends, code 0."""
    one = node(files={"hang-worker-1": ""})
    one.until(lambda: any(who == "worker 1" for who, _, _ in one.events))
    one.send()
    assert one.ended() == 0
    assert all(one.gone(pid) for _, pid, _ in one.events)


def test_one_that_does_not_get_ready_is_killed_and_tried_again(node):
    """After ready_timeout comes SIGKILL, and another start."""
    one = node(files={"hang-worker-1": ""}, ready_timeout=0.3)
    one.until(lambda: "worker 1 did not get ready in time" in one.log)
    (one.folder / "hang-worker-1").unlink()
    one.listening()
    assert "worker 1 ended by SIGKILL" in one.log


@pytest.mark.parametrize("name", ["dispatcher", "worker 1"])
def test_what_dies_is_replaced_at_once(node, name):
    """A SIGKILL: the log tells who, how and which pid, the next one starts without a pause, the others stay."""
    one = node()
    one.listening()
    before = {who: pid for who, pid, what in one.events if what == "ready"}
    os.kill(before[name], signal.SIGKILL)
    after = one.come("ready", name, 2)[-1]
    one.until(lambda: one.log.count(f"{name} is ready") == 2)
    assert f"{name} ended by SIGKILL (pid {before[name]})" in one.log
    assert "started again in" not in one.log
    assert {child.pid for child in one.children()} == {*before.values(), after} - {before[name]}
    assert all(child.status() != psutil.STATUS_ZOMBIE for child in one.children())


def test_one_that_keeps_dying_is_replaced_ever_more_slowly(node):
    """Ready, dead, ready, dead: the first time at once, then after a pause."""
    one = node()
    one.listening()
    for count in range(1, 4):
        one.until(lambda count=count: one.log.count("worker 2 is ready") == count)
        os.kill(one.pids("ready", "worker 2")[-1], signal.SIGKILL)
    one.come("ready", "worker 2", 4)
    pauses = [line.rpartition("again in ")[2] for line in one.log.splitlines() if "started again in" in line]
    assert pauses == ["0.1 s", "0.2 s"]


def test_code_2_does_not_end_a_node_that_serves(node):
    """A replacement that cannot start is tried again; the others go on."""
    one = node()
    port = one.listening()
    one.file("exit-worker-1", "2")
    os.kill(one.pids("ready", "worker 1")[0], signal.SIGKILL)
    one.until(lambda: "worker 1 ended with exit code 2" in one.log)
    assert one.ask(port) == one.pids("ready", "worker 2")[0]
    (one.folder / "exit-worker-1").unlink()
    one.come("ready", "worker 1", 2)


def test_a_drain_ends_the_dispatcher_last(node):
    """SIGTERM goes to the workers; the dispatcher gets its own when the last of them has ended; none is replaced."""
    one = node()
    one.listening()
    hold = one.file("hold")
    one.send(signal.SIGINT)
    first = one.come("end", count=2)[0]
    assert not one.pids("end", "dispatcher")
    os.kill(first, signal.SIGKILL)
    one.until(lambda: one.gone(first))
    hold.unlink()
    assert one.ended() == 0
    told = order(one, "end", "ended")
    assert told[-2:] == [("dispatcher", "end"), ("dispatcher", "ended")]
    assert len(one.pids("end")) == 3
    assert len(one.pids("ready")) == 3


def test_a_dispatcher_that_dies_amid_a_drain_is_replaced(node):
    """Workers that still drain get another one, and it ends after them."""
    one = node()
    one.listening()
    hold = one.file("hold")
    one.send()
    one.come("end", count=2)
    os.kill(one.pids("ready", "dispatcher")[0], signal.SIGKILL)
    one.come("ready", "dispatcher", 2)
    hold.unlink()
    assert one.ended() == 0
    assert order(one, "end")[-1] == ("dispatcher", "end")


def test_the_backlog_closes_with_the_last_worker(node):
    """While a worker drains, connections are taken; when none is left, they are refused, though the dispatcher still ends."""
    one = node(workers=1)
    port = one.listening()
    one.file("hold")
    one.send()
    pid = one.come("end")[0]
    assert one.ask(port) == pid
    os.kill(pid, signal.SIGKILL)
    one.come("end", "dispatcher")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)
    assert one.process.poll() is None


def test_a_second_signal_ends_at_once(node):
    """Every worker is told a second time, by SIGTERM; what they wait for does not matter any more."""
    one = node()
    one.listening()
    hold = one.file("hold")
    one.send(signal.SIGINT)
    one.come("end", count=2)
    one.send(signal.SIGINT)
    one.come("ended", "worker 1")
    one.come("ended", "worker 2")
    hold.unlink()
    assert one.ended() == 0
    assert len(one.pids("end", "worker 1")) == 2


@pytest.mark.parametrize("signals", [1, 2])
def test_a_worker_that_does_not_end_is_killed(node, signals):
    """When the drain has lasted too long, or some time after the second signal, SIGKILL ends whoever is left."""
    one = node(drain_timeout=0 if signals == 1 else 60, grace=0.2)
    one.listening()
    one.file("deaf")
    one.send()
    one.come("end", count=2)
    if signals == 2:
        assert "killed" not in one.log
        one.send()
    assert one.ended() == 0
    assert one.log.count("did not end in time: it is killed") == 3
    assert one.log.count("ended by SIGKILL") == 3


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_a_terminal_sends_to_all_is_the_supervisors_alone(node, number):
    """A signal to the whole group, and to the supervisor once more as `timeout` does, is one for each worker: a drain, not a hard
    end, with the dispatcher that there was. Nor does SIGHUP end anybody.
    """
    one = node(again=60)
    one.listening()
    hold = one.file("hold")
    for pid in one.pids("ready"):
        os.kill(pid, signal.SIGHUP)
    os.kill(one.process.pid, number)
    os.killpg(one.process.pid, number)
    one.come("end", count=2)
    hold.unlink()
    assert one.ended() == 0
    assert len(one.pids("end")) == 3
    assert len(one.pids("ready")) == 3


def test_children_outlive_a_killed_supervisor_only_to_end(node):
    """SIGKILL to the supervisor: each child sees the end of its lifeline, drains and ends."""
    one = node()
    one.listening()
    os.kill(one.process.pid, signal.SIGKILL)
    one.come("orphaned", count=3)
    assert len(one.come("ended", count=3)) == 3
    one.until(lambda: all(one.gone(pid) for pid in one.pids("ended")))


def test_a_child_has_no_descriptor_of_others(node):
    """Standard streams, lifeline and its own pipe; workers the listening socket: in the first generation and after."""
    one = node(workers=3)
    one.listening()
    os.kill(one.pids("ready", "dispatcher")[0], signal.SIGKILL)
    one.until(lambda: one.log.count("dispatcher is ready") == 2)
    os.kill(one.pids("ready", "worker 2")[0], signal.SIGKILL)
    one.until(lambda: one.log.count("worker 2 is ready") == 2)
    one.send(signal.SIGHUP)
    one.come("ready", "worker 3", 2)
    assert {(name[0], what) for name, _, what in one.events if what.startswith("started")} == {
        ("d", "started 5"),
        ("w", "started 6"),
    }


@pytest.mark.skipif(sys.platform != "linux", reason="another process's limits can be set on Linux only")
def test_a_system_without_room_is_waited_for(node):
    """No descriptor for another process: a replacement is tried again later, a reload ends, the supervisor goes on."""
    one = node()
    one.listening()
    supervisor = psutil.Process(one.process.pid)
    limits = supervisor.rlimit(resource.RLIMIT_NOFILE)
    supervisor.rlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
    one.send(signal.SIGHUP)
    one.until(lambda: "the reload ends here, those that were not replaced go on: worker 1 cannot be started" in one.log)
    os.kill(one.pids("ready", "worker 2")[0], signal.SIGKILL)
    one.until(lambda: "worker 2 cannot be started, again in 0.2 s" in one.log)
    supervisor.rlimit(resource.RLIMIT_NOFILE, limits)
    one.come("ready", "worker 2", 2)
    assert len(one.pids("ready", "worker 1")) == 1


def test_pauses_grow_to_a_bound_and_are_forgotten():
    """At once for what has served, 0.1 s doubling to 5 s for what dies again; ten seconds of service and all is well."""
    pauses = Backoff()
    assert [pauses.after(1, served=True) for _ in range(9)] == [0.0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    assert pauses.after(10, served=True) == 0.0
    pauses = Backoff()
    assert [pauses.after(60, served=False) for _ in range(3)] == [0.1, 0.2, 0.4]
    for _ in range(2000):
        assert pauses.after(0, served=False) <= 5.0


def test_every_end_has_a_name():
    """Exit codes, signals, and those signals that have a number only."""
    assert [how(code) for code in (0, 3, -9)] == ["with exit code 0", "with exit code 3", "by SIGKILL"]
    unnamed = [number for number in signal.valid_signals() if not isinstance(number, signal.Signals)]
    assert [how(-number) for number in unnamed] == [f"by signal {number}" for number in unnamed]
