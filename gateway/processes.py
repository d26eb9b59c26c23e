"""The `process_*` families of a node: one set of numbers for all its processes.

CPU time must never fall when a process dies. The kernel sees to that: what a child had used is added to its parent's
`cutime` and `cstime` the moment the parent has waited for it. So the sum of all four times of all living processes,
the supervisor among them, has everything, also after the process that answers scrapes was itself replaced. Only between a
death and that moment may the sum fall short; the last one shown then stands.

Only where there is a /proc, as with prometheus_client's own collector for one process; elsewhere the families are absent.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

# Fields of /proc/PID/stat, counted from the one behind the command's closing bracket: see proc_pid_stat(5).
_TIMES, _START, _VIRTUAL, _RESIDENT = slice(11, 15), 19, 20, 21


@dataclass(frozen=True, slots=True)
class _Process:
    cpu: float
    started: float  # seconds since the machine was started
    virtual: float
    resident: float
    open_fds: float
    max_fds: float


class NodeProcesses(Collector):
    """Sums over the processes that `pids` names; one that is gone by the time it is read is left out."""

    def __init__(self, pids: Callable[[], Iterable[int]], proc: Path = Path("/proc")) -> None:
        self._pids = pids
        self._proc = proc
        self._booted = _boot_time(proc)
        self._cpu = 0.0

    def collect(self) -> Iterator[Metric]:
        """prometheus_client's side."""
        if self._booted is None:
            return
        found = [process for pid in set(self._pids()) if (process := _read(self._proc / str(pid))) is not None]
        if not found:
            return
        self._cpu = max(self._cpu, sum(each.cpu for each in found))
        yield CounterMetricFamily("process_cpu_seconds", "CPU time of all processes, also of those that are gone.", self._cpu)
        started = self._booted + min(each.started for each in found)
        for name, text, value in (
            ("start_time_seconds", "When the oldest process was started, since the epoch.", started),
            ("virtual_memory_bytes", "Virtual memory of all processes.", sum(each.virtual for each in found)),
            ("resident_memory_bytes", "Resident memory, shared pages once a process.", sum(each.resident for each in found)),
            ("open_fds", "File descriptors that the processes have open.", sum(each.open_fds for each in found)),
            ("max_fds", "File descriptors that they may have open, all together.", sum(each.max_fds for each in found)),
        ):
            yield GaugeMetricFamily(f"process_{name}", text, value)


def _boot_time(proc: Path) -> float | None:
    try:
        lines = (proc / "stat").read_bytes().splitlines()
    except OSError:
        return None
    return next((float(line.split()[1]) for line in lines if line.startswith(b"btime ")), None)


def _read(place: Path) -> _Process | None:
    """None when there is no such process, or it is not ours to read."""
    ticks, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
    try:
        parts = (place / "stat").read_bytes().rpartition(b")")[2].split()
        open_fds = float(sum(1 for _ in (place / "fd").iterdir())) if parts[0] != b"Z" else 0.0
        limits = (place / "limits").read_bytes().splitlines()
        most = next((line.split()[3] for line in limits if line.startswith(b"Max open files")), b"0")
        return _Process(
            cpu=sum(map(float, parts[_TIMES])) / ticks,
            started=float(parts[_START]) / ticks,
            virtual=float(parts[_VIRTUAL]),
            resident=float(parts[_RESIDENT]) * page,
            open_fds=open_fds,
            max_fds=float("inf") if most == b"unlimited" else float(most),
        )
    except (OSError, IndexError):
        return None
