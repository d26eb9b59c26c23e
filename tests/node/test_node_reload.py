"""Reloads: the workers replaced one by one, under load, interrupted, failed."""

import os
import signal
import threading

import pytest


class Caller(threading.Thread):
    """Opens one connection after the other, until told to stop."""

    def __init__(self, node, port):
        super().__init__()
        self._node = node
        self._port = port
        self._enough = threading.Event()
        self.answers = []
        self.failures = []

    def run(self):
        while not self._enough.is_set():
            try:
                self.answers.append(self._node.ask(self._port))
            except (OSError, ValueError) as error:
                self.failures.append(error)

    def stop(self):
        self._enough.set()
        self.join()


def until_reloaded(node):
    return node.until(lambda: "INFO tiergate.node: reloaded" in node.log)


def test_a_reload_replaces_workers_one_by_one_and_refuses_nobody(node):
    """The next one starts when the last one is ready, the old one gets SIGHUP then; a client sees no refused connection."""
    one = node(workers=3)
    port = one.listening()
    old = one.pids("ready")[1:]
    caller = Caller(one, port)
    caller.start()
    one.send(signal.SIGHUP)
    until_reloaded(one)
    one.until(lambda: all(one.gone(pid) for pid in old))
    seen = len(caller.answers)
    one.until(lambda: len(caller.answers) > seen + 20)
    caller.stop()
    assert caller.failures == []
    assert not set(caller.answers[seen + 2 :]) & set(old)
    heirs = [(name, what.split()[0]) for name, pid, what in one.events if pid not in old and name.startswith("worker")]
    assert heirs == [(f"worker {number}", what) for number in (1, 2, 3) for what in ("started", "ready")]
    for number in (1, 2, 3):
        told = [what for name, _, what in one.events if name == f"worker {number}" and what in ("ready", "retire")]
        assert told == ["ready", "ready", "retire"]
    assert len(one.children()) == 4
    one.send()
    assert one.ended() == 0


def test_reloads_asked_for_amid_one_are_one_more(node):
    """SIGHUP three times: the workers are replaced twice."""
    one = node()
    one.listening()
    hang = one.file("hang-worker-1")
    for count in (1, 2, 3):
        one.send(signal.SIGHUP)
        one.until(lambda count=count: one.log.count("reloading") == count)
    one.until(lambda: len([who for who, _, what in one.events if who == "worker 1" and what.startswith("started")]) == 2)
    hang.unlink()
    until_reloaded(one)
    one.send()
    assert one.ended() == 0
    assert len(one.pids("ready", "worker 1")) == len(one.pids("ready", "worker 2")) == 3


@pytest.mark.parametrize("how", ["exit", "hang"])
def test_a_replacement_that_fails_ends_the_reload(node, how):
    """It dies or does not get ready in time: that is logged, the old workers serve on, and another reload may do better."""
    one = node(ready_timeout=20 if how == "exit" else 1)
    port = one.listening()
    old = one.pids("ready")
    obstacle = one.file(f"{how}-worker-2", "2")
    one.send(signal.SIGHUP)
    one.until(lambda: "the reload ends here" in one.log)
    assert one.pids("retire", "worker 2") == []
    one.until(lambda: len(one.children()) == 3)
    assert {old[0], *one.pids("ready", "worker 2")} < {child.pid for child in one.children()}
    assert one.ask(port)
    obstacle.unlink()
    one.send(signal.SIGHUP)
    until_reloaded(one)


def test_a_worker_that_dies_before_its_replacement_is_ready_has_one_already(node):
    """Nobody else is started for it."""
    one = node()
    one.listening()
    hang = one.file("hang-worker-1")
    one.send(signal.SIGHUP)
    one.until(lambda: len(one.children()) == 4)
    os.kill(one.pids("ready", "worker 1")[0], signal.SIGKILL)
    one.until(lambda: "worker 1 ended by SIGKILL" in one.log)
    hang.unlink()
    until_reloaded(one)
    assert len(one.pids("ready", "worker 1")) == 2
    assert len([what for who, _, what in one.events if who == "worker 1" and what.startswith("started")]) == 2


def test_a_node_drains_with_both_generations(node):
    """SIGTERM while old workers drain: the new ones drain, too; those that drain already are not told to end at once."""
    one = node()
    one.listening()
    old = set(one.pids("ready")[1:])
    hold = one.file("hold")
    one.send(signal.SIGHUP)
    until_reloaded(one)
    one.come("retire", count=2)
    one.send()
    assert not old & set(one.come("end", count=2))
    assert len(one.children()) == 5
    hold.unlink()
    assert one.ended() == 0
    assert not old & set(one.pids("end"))
    assert one.events[-1][::2] == ("dispatcher", "ended")
    assert all(one.gone(pid) for _, pid, _ in one.events)


def test_a_second_signal_reaches_the_old_generation_too(node):
    """What still drains after a reload ends at once as well."""
    one = node()
    one.listening()
    hold = one.file("hold")
    one.send(signal.SIGHUP)
    until_reloaded(one)
    one.come("retire", count=2)
    one.send()
    one.come("end", count=2)
    one.send()
    one.come("ended", count=4)
    hold.unlink()
    assert one.ended() == 0


def test_a_drain_ends_a_replacement_that_is_not_ready(node):
    """SIGTERM amid a reload: the old workers, and the one that was about to follow, end."""
    one = node()
    one.listening()
    one.file("hang-worker-1")
    one.send(signal.SIGHUP)
    one.until(lambda: len(one.children()) == 4)
    one.send()
    assert one.ended() == 0
    assert all(one.gone(pid) for _, pid, _ in one.events)
    assert one.pids("retire") == []


def test_old_workers_that_never_end_are_killed(node):
    """The drain after a reload has an end, as every drain."""
    one = node(workers=1, drain_timeout=0.1, grace=0.1)
    one.listening()
    old = one.pids("ready", "worker 1")[0]
    one.file("hold")
    one.send(signal.SIGHUP)
    one.until(lambda: f"worker 1 ended by SIGKILL (pid {old})" in one.log)
    assert len(one.children()) == 2


def test_another_config_replaces_the_dispatcher_first(node):
    """It ends before another one starts, workers that start later know the new config, and nobody counts as having died."""
    one = node()
    one.listening()
    (old,) = one.pids("ready", "dispatcher")
    one.file("config", "new")
    one.send(signal.SIGHUP)
    until_reloaded(one)
    one.come("config new", "dispatcher")
    whats = [what for name, _, what in one.events if name == "dispatcher" and what in ("ready", "end", "ended", "config new")]
    assert whats == ["ready", "end", "ended", "config new", "ready"]
    assert one.gone(old)
    assert {name for name, _, what in one.events if what == "config new"} >= {"worker 2"}
    assert not [what for name, _, what in one.events if name == "restarts"]
    one.send()
    assert one.ended() == 0


def test_the_same_config_leaves_the_dispatcher_alone(node):
    """Then only the workers are replaced."""
    one = node()
    one.listening()
    one.send(signal.SIGHUP)
    until_reloaded(one)
    assert len(one.pids("ready", "dispatcher")) == 1
    one.send()
    assert one.ended() == 0


def test_a_config_that_cannot_be_read_changes_nothing(node):
    """No process is replaced; the next signal looks again."""
    one = node()
    one.listening()
    one.file("config", "unreadable")
    one.send(signal.SIGHUP)
    one.come("looked", "config")
    one.file("config", "new")
    one.send(signal.SIGHUP)
    until_reloaded(one)
    assert len(one.pids("ready", "dispatcher")) == 2
    assert one.log.count("reloading") == 1
    one.send()
    assert one.ended() == 0


def test_a_config_that_no_dispatcher_starts_with_is_undone(node):
    """The dispatcher starts with the config of before, and the old workers go on."""
    one = node()
    one.listening()
    workers = one.pids("ready", "worker 1") + one.pids("ready", "worker 2")
    one.file("config", "bad")
    one.send(signal.SIGHUP)
    one.come("reverted bad", "config")
    one.come("ready", "dispatcher", 2)
    assert not any(one.gone(pid) for pid in workers)
    one.send()
    assert one.ended() == 0
