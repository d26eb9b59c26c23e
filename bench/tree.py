"""The CPU of a program and of all that it has started, exact to the microsecond, and who of them holds which connections."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

_TICK = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Spent:
    """CPU seconds so far: of each process that runs, in the order of their start, and of those that have ended."""

    running: dict[int, float]
    ended: float

    @property
    def whole(self) -> float:
        return self.ended + sum(self.running.values())


def spent(tree: Sequence[psutil.Process]) -> Spent:
    running, ended = {}, 0.0
    for process in sorted(tree, key=lambda one: (one.create_time(), one.pid)):
        with contextlib.suppress(OSError, psutil.NoSuchProcess):
            times = process.cpu_times()
            ended += times.children_user + times.children_system
            running[process.pid] = _exact(process.pid, times.user + times.system)
    return Spent(running, ended)


def _exact(pid: int, told: float) -> float:
    """The scheduler's own count, of all threads; `told` is in steps of 10 ms, and is taken where there is no better one.

    Threads that have ended are in `told` alone, so where that is more by far, it is right.
    """
    try:
        exact = sum(int((task / "schedstat").read_text().split()[0]) for task in Path(f"/proc/{pid}/task").iterdir()) / 1e9
    except (OSError, ValueError, IndexError):
        return told
    return exact if exact > told - 2 * _TICK else told


def connections(tree: Sequence[psutil.Process], port: int) -> dict[int, int]:
    """How many clients of `port` each process has, of those that have any."""
    found = {}
    for process in tree:
        with contextlib.suppress(psutil.Error):
            ours = [one for one in process.net_connections("tcp") if one.laddr.port == port and one.status == "ESTABLISHED"]
            if ours:
                found[process.pid] = len(ours)
    return found
