"""What the figures were taken on, and whether it was quiet enough for them to mean something."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from bench.records import Machine
from gateway.doctor.interpreter import profiled

CPU_BOUND = 10.0  # percent of all cores
STEAL_BOUND = 2.0
LOAD_BOUND = 0.5  # for each core


@dataclass(frozen=True, slots=True)
class Mood:
    """How busy the machine is with other things than us."""

    cores: int
    cpu_percent: float
    steal_percent: float
    load: float | None = None  # None where we have just made it high ourselves


def objections(mood: Mood) -> list[str]:
    """What speaks against measuring now; nothing on a quiet machine."""
    found = []
    if mood.cpu_percent > CPU_BOUND:
        found.append(f"{mood.cpu_percent:.1f} % of the CPU is in use (bound: {CPU_BOUND:.0f} %)")
    if mood.steal_percent > STEAL_BOUND:
        found.append(f"{mood.steal_percent:.1f} % of the CPU goes to other virtual machines (bound: {STEAL_BOUND:.0f} %)")
    if mood.load is not None and mood.load > LOAD_BOUND * mood.cores:
        found.append(f"the load average is {mood.load:.1f} (bound: {LOAD_BOUND * mood.cores:.1f} on {mood.cores} cores)")
    return found


def mood(*, after_work: bool = False, seconds: float = 2.0) -> Mood:
    """Look for so many seconds. After work of our own the load average tells of that, so it is left out."""
    times = psutil.cpu_times_percent(seconds)
    busy = 100.0 - times.idle - getattr(times, "iowait", 0.0)
    load = None if after_work else os.getloadavg()[0]
    return Mood(os.cpu_count() or 1, busy, getattr(times, "steal", 0.0), load)


class Steal:
    """The share of the CPU that other virtual machines took, from now on."""

    def __init__(self) -> None:
        self.before = psutil.cpu_times()

    def percent(self) -> float:
        now = psutil.cpu_times()
        spent = sum(now[:8]) - sum(self.before[:8])
        return 100.0 * (getattr(now, "steal", 0.0) - getattr(self.before, "steal", 0.0)) / spent if spent else 0.0


def build(config_args: str | None, cflags: str | None, prefix: str = "") -> str:
    """How the interpreter was compiled, as far as it tells: it matters more than any line of ours."""
    if config_args is None:
        return "unknown how it was built"
    made = [name for flag, name in (("--enable-optimizations", "PGO"), ("--with-lto", "LTO")) if flag in config_args]
    if not made and ("-fprofile-use" in (cflags or "") or profiled(config_args, prefix)):
        made.append("PGO")
    return "built with " + " and ".join(made) if made else "built without PGO and LTO"


def describe(packages: Mapping[str, str]) -> Machine:
    return Machine(
        cpu=_cpu_model(),
        cores=os.cpu_count() or 1,
        memory_gib=round(psutil.virtual_memory().total / 2**30, 1),
        kernel=f"{platform.system()} {platform.release()}",
        python=f"{platform.python_implementation()} {platform.python_version()}",
        build=build(sysconfig.get_config_var("CONFIG_ARGS"), sysconfig.get_config_var("PY_CORE_CFLAGS"), sys.base_prefix),
        packages=dict(packages),
    )


def installed(environment: Path, names: tuple[str, ...]) -> dict[str, str]:
    """Versions of packages in a virtual environment, without starting its interpreter."""
    places = [str(path) for path in environment.glob("lib/python*/site-packages")]
    found = {found.name.lower(): found.version for found in importlib.metadata.distributions(path=places)}
    return {name: found[name] for name in names if name in found}


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()
