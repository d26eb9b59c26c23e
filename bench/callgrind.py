"""Instructions in user space of a program that runs under valgrind's callgrind, between two moments: the same on a busy machine.

Callgrind counts all threads of the process and none of its children. It is told by `vgdb`, which comes with it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_NEEDED = ("valgrind", "vgdb")
_OUT = "callgrind.out"
_TOTALS = re.compile(r"^totals: (\d+)$", re.MULTILINE)
_PATIENCE = 120.0  # seconds; the program has to come to the end of what it does first


class AbsentError(RuntimeError):
    """There is no callgrind here; the message says what to install."""


class CountError(RuntimeError):
    """It did not do what it was told; the message is its own."""


@dataclass(frozen=True, slots=True)
class Counted:
    instructions: int
    seconds: float

    @property
    def a_second(self) -> float:
        return self.instructions / self.seconds

    def each(self, units: int, idle: float) -> float:
        """Thousand instructions for each of `units`, without what timers take: `idle` a second, in instructions."""
        return (self.instructions - idle * self.seconds) / units / 1e3


def command(program: Sequence[str], folder: Path) -> list[str]:
    """The program under callgrind, which counts nothing yet and writes to `folder`. Raises AbsentError."""
    if missing := [name for name in _NEEDED if shutil.which(name) is None]:
        raise AbsentError(f"{missing[0]} is not on PATH; callgrind is part of valgrind (Debian, Ubuntu: apt install valgrind)")
    options = ["--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={folder / _OUT}"]
    return ["valgrind", *options, *program]


class Counter:
    """Of the process `pid`, which was started by `command(…, folder)`. Between `on` and `off` it runs some fifty times slower."""

    def __init__(self, pid: int, folder: Path) -> None:
        self._pid, self._folder = pid, folder

    def on(self) -> None:
        self._tell("instrumentation on")

    def off(self) -> None:
        self._tell("instrumentation off")

    def zero(self) -> None:
        self._tell("zero")
        self._began = time.perf_counter()

    def count(self) -> Counted:
        """Since `zero`."""
        before = set(self._dumps())
        self._tell("dump")
        seconds = time.perf_counter() - self._began
        written = [self._folder / name for name in self._dumps() if name not in before]
        return Counted(sum(totals(dump.read_text(encoding="utf-8", errors="replace")) for dump in written), seconds)

    def _dumps(self) -> list[str]:
        return [path.name for path in self._folder.glob(f"{_OUT}.*")]

    def _tell(self, words: str) -> None:
        try:
            done = subprocess.run(
                ["vgdb", f"--pid={self._pid}", *words.split()], capture_output=True, text=True, check=False, timeout=_PATIENCE
            )
        except subprocess.TimeoutExpired:
            raise CountError(f"callgrind did not {words} within {_PATIENCE:.0f} s") from None
        if done.returncode:
            raise CountError(f"callgrind could not {words}: {done.stderr.strip()[-200:]}")


def totals(dump: str) -> int:
    """Instructions that one dump tells. Raises CountError where it does not, as one that is not written to its end."""
    found = _TOTALS.search(dump)
    if found is None:
        raise CountError("a dump of callgrind has no line of totals")
    return int(found[1])
