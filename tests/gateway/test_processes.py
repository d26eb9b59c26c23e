"""`process_*` of a node: sums over its processes, and CPU time that no death takes away."""

import os
import subprocess
import sys
from contextlib import contextmanager

import pytest
from gateway_talk import samples
from prometheus_client import CollectorRegistry, generate_latest

from gateway.metrics import Metrics
from gateway.processes import NodeProcesses

pytestmark = pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="there is no /proc")
BURN = "import sys, time\nwhile time.process_time() < 0.3: pass\nprint('ready', flush=True)\nsys.stdin.read()"
TICKS = 0.05  # the kernel tells hundredths of a second, rounded down, twice


@contextmanager
def child(code):
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"ready\n"
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def read(collector):
    registry = CollectorRegistry()
    registry.register(collector)
    return {name: value for (name, _), value in samples(generate_latest(registry).decode()).items()}


def test_a_node_has_the_families_of_one_process():
    """The names and types are those that a single process shows, and with one process the numbers are near the same."""
    one, node = Metrics(), Metrics(pids=lambda: [os.getpid()])
    found = [samples(each.exposition().decode()) for each in (one, node)]
    assert found[0].keys() == found[1].keys()
    types = [
        {line for line in each.exposition().decode().splitlines() if line.startswith("# TYPE process_")} for each in (one, node)
    ]
    assert types[0] == types[1]
    for name in ("process_start_time_seconds", "process_max_fds"):
        assert found[0][name, ()] == found[1][name, ()]
    assert found[1]["process_resident_memory_bytes", ()] == pytest.approx(found[0]["process_resident_memory_bytes", ()], rel=0.2)


def test_processes_are_summed():
    """Memory and descriptors are sums, the start is that of the oldest, and a process named twice counts once."""
    with child(BURN) as one, child(BURN) as two:
        alone = [read(NodeProcesses(lambda pid=each.pid: [pid])) for each in (one, two)]
        both = read(NodeProcesses(lambda: [one.pid, two.pid, one.pid]))
    for name in ("process_resident_memory_bytes", "process_open_fds", "process_max_fds", "process_cpu_seconds_total"):
        assert both[name] == pytest.approx(alone[0][name] + alone[1][name])
    assert both["process_start_time_seconds"] == min(each["process_start_time_seconds"] for each in alone)


def test_cpu_of_the_dead_stays():
    """A dead child's CPU time is its parent's once it is waited for, and until then what was shown stands."""
    with child(BURN) as process:
        pids = [os.getpid(), process.pid]
        collector = NodeProcesses(lambda: pids)
        before = read(collector)["process_cpu_seconds_total"]
        pids.remove(process.pid)
        assert read(collector)["process_cpu_seconds_total"] >= before
        process.kill()
        process.wait()
        assert read(collector)["process_cpu_seconds_total"] >= before
        anew = read(NodeProcesses(lambda: pids))  # one that has never shown anything
        assert anew["process_cpu_seconds_total"] >= before - TICKS
    assert before >= 0.3 - TICKS


def test_a_process_that_is_gone_is_left_out(tmp_path):
    """Pids that name nothing, or nobody at all, are no error; without a /proc the families are absent."""
    found = read(NodeProcesses(lambda: [os.getpid(), 2**30]))
    assert found["process_open_fds"] > 0
    assert read(NodeProcesses(lambda: [2**30])) == read(NodeProcesses(list)) == {}
    assert read(NodeProcesses(lambda: [os.getpid()], proc=tmp_path)) == {}


def test_a_dead_process_that_nobody_waited_for_counts_its_time():
    """A zombie has no memory and no descriptors, but its CPU time."""
    with child(BURN) as process:
        process.stdin.close()
        process.stdin = None
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        found = read(NodeProcesses(lambda: [process.pid]))
    assert found["process_cpu_seconds_total"] >= 0.3 - TICKS
    assert found["process_resident_memory_bytes"] == 0
