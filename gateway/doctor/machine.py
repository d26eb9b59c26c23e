"""The interpreter that runs, its libraries and its limits."""

from __future__ import annotations

import contextlib
import importlib.metadata
import math
import os
import resource
import sysconfig
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gateway.config import Config
from gateway.doctor import interpreter
from gateway.doctor.findings import Finding, fail, ok, warn

_LIBRARIES = ("uvloop", "httptools", "msgspec")
_OTHERS = 64  # descriptors that are neither a client's nor a replica's
_MOST = 1_048_576  # what `serve` raises the soft limit to, where it may
_QUOTA = Path("/sys/fs/cgroup/cpu.max")
_LONGEST = 74  # bytes of a temporary directory's name: a socket's path may have 103 on some systems, and 29 are ours


@dataclass(frozen=True, slots=True)
class Machine:
    """`descriptors`: how many files and sockets a process may have once `serve` has raised its soft limit.

    `cores`: those that this process may use. `temporary`: where several workers put their socket; empty if there is no place.
    """

    python: str
    optimised: bool
    debug: bool
    libraries: Mapping[str, str]
    descriptors: int
    cores: int
    temporary: str


def this_machine() -> Machine:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return Machine(
        python=interpreter.name(),
        optimised=interpreter.optimised(),
        debug=bool(sysconfig.get_config_var("Py_DEBUG")),
        libraries={name: _installed(name) for name in _LIBRARIES},
        descriptors=_MOST if hard == resource.RLIM_INFINITY else min(hard, _MOST),
        cores=cores(_QUOTA),
        temporary=_temporary(),
    )


def cores(quota: Path) -> int:
    """As the kernel schedules us, and as a container's quota (its `cpu.max`) lets us."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with contextlib.suppress(OSError, ValueError):
        most, period = quota.read_text(encoding="ascii").split()
        return max(1, min(allowed, math.ceil(int(most) / int(period))))
    return allowed


def _temporary() -> str:
    try:
        return tempfile.gettempdir()
    except OSError:
        return ""


def _installed(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def built(machine: Machine) -> list[Finding]:
    """How it was built, for that is the cheapest speed there is."""
    if machine.debug:
        return [warn((), f"{machine.python} is a debug build, several times as slow", "Use a release build of CPython.")]
    if not machine.optimised:
        what = f"{machine.python} was built {interpreter.WITHOUT}"
        return [warn((), what, "Use a distribution's CPython, uv's, or the official image's.")]
    return [ok((), machine.python)]


def libraries(machine: Machine) -> list[Finding]:
    missing = [name for name, version in machine.libraries.items() if not version]
    if missing:
        return [warn((), f"not installed: {', '.join(missing)}", "Install tiergate with its dependencies.")]
    return [ok((), ", ".join(f"{name} {version}" for name, version in machine.libraries.items()))]


def descriptors(machine: Machine, config: Config) -> list[Finding]:
    """Enough for every slot (a client's socket and a replica's) and for all who may wait.

    The server lets clients have three quarters of the descriptors, so that a quarter is left for the way to the replicas.
    """
    slots = sum(len(model.replicas) * model.concurrency.max for model in config.models)
    clients = slots + config.queue.max_requests * len(config.models)
    need = math.ceil(max(clients * 4 / 3, slots * 4)) + _OTHERS
    if machine.descriptors >= need:
        return [ok((), f"{machine.descriptors} descriptors, {need} could be needed")]
    what = f"a process may have {machine.descriptors} descriptors, and full slots and queues need {need}"
    return [warn((), what, f"Raise the hard limit (ulimit -Hn, LimitNOFILE=) to {need}, or lower concurrency.max.")]


def workers(machine: Machine, config: Config) -> list[Finding]:
    """Of several workers: is there a core for each, and a place for the dispatcher's socket?"""
    where, number = ("server", "workers"), config.server.workers
    if number == 1:
        return []
    if not machine.temporary:
        return [fail(where, "there is no temporary directory for the dispatcher's socket", "Set TMPDIR to one that is writable.")]
    if len(os.fsencode(machine.temporary)) > _LONGEST:
        what = f"the temporary directory's name is too long for a socket in it: {machine.temporary}"
        return [fail(where, what, "Set TMPDIR to one with a shorter name.")]
    if number > machine.cores:
        what = f"{number} workers on {machine.cores} cores only take turns, and the dispatcher waits with them"
        return [warn(where, what, f"Write {machine.cores} at most; docs/architecture.md tells how many to choose.")]
    return [ok(where, f"{number} workers and a dispatcher on {machine.cores} cores")]
