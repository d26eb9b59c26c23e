"""The first code of every child process of the trial: whatever becomes of the parent, the child does not outlive it.

    python -m gateway.lab.up.child MODULE ARGUMENT…      runs a module in this process
    python -m gateway.lab.up.child -- COMMAND ARGUMENT…  runs a program below this process

What ties it to its parent: standard input is a pipe that only the parent can write to, so its end means that the parent
is gone, also after SIGKILL. A thread waits for that; the program itself needs no code for it. For a module on Linux the
kernel sends SIGTERM at the parent's death besides, since an interpreter that is busy in C code runs no thread.

The child was started as the leader of a session of its own, so it speaks for its whole process group: a program's
workers end with it, and a Ctrl-C in the terminal reaches the parent alone, who ends the children in order.
"""

from __future__ import annotations

import ctypes
import os
import runpy
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from types import FrameType

GRACE = 3.0
"""Seconds between asking an orphaned group to end and making it."""

_PR_SET_PDEATHSIG = 1


def main(argv: Sequence[str]) -> int:
    orphaned = threading.Event()
    threading.Thread(target=_end_with_parent, args=(orphaned,), name="parent-watch", daemon=True).start()
    if argv[0] == "--":
        return run_command(argv[1:], orphaned)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    sys.argv = list(argv)
    runpy.run_module(argv[0], run_name="__main__", alter_sys=True)
    return 0


def run_command(argv: Sequence[str], orphaned: threading.Event) -> int:
    """The program in this process group; asked to end, it is asked in turn, and its exit code becomes ours."""
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL)  # noqa: S603 - the command line is the user's own

    def pass_on(signum: int, _frame: FrameType | None) -> None:
        process.send_signal(signum)

    signal.signal(signal.SIGTERM, pass_on)
    code = process.wait()
    if orphaned.is_set():  # nobody else is left to end what the program left behind
        os.killpg(0, signal.SIGKILL)
    return code if code >= 0 else 128 - code


def _end_with_parent(orphaned: threading.Event) -> None:
    while os.read(0, 4096):
        pass  # nothing is ever said on this pipe; only its end counts
    orphaned.set()
    os.killpg(0, signal.SIGTERM)
    time.sleep(GRACE)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
