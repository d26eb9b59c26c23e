"""One forked process, from both sides: `Child` is what it knows of itself, `Process` what the supervisor knows of it.

Rules of this file
1. A child has no descriptor of the supervisor's but its own end of its own pipe, the lifeline, and what the caller gave it.
2. It has no signal handling of the supervisor's: signals are blocked over the fork, so that none is seen by the wrong one.
   What ends or reloads a node is the supervisor's to hear, though a terminal, `timeout` or an init system may send it to all:
   children ignore it. The supervisor tells them by `END` and `RETIRE`, which nobody else sends.
3. It never returns into the supervisor's code: it ends with `os._exit`, after its exception has been printed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass

HANDLED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)
END, RETIRE = signal.SIGUSR1, signal.SIGUSR2

Run = Callable[["Child"], int]


@dataclass
class Child:
    """What a forked process knows of itself.

    `number` is 0 for the dispatcher, and from 1 on for the workers; a worker's replacement has its number. `lifeline` is a
    descriptor that never has data: when it is readable, the supervisor is gone, and the child is to drain and end by itself.
    """

    name: str
    number: int
    lifeline: int
    _pipe: int

    def ready(self) -> None:
        """Tell the supervisor that this process serves. Safe to call twice."""
        if self._pipe < 0:
            return
        with contextlib.suppress(OSError):  # the supervisor is gone: the lifeline tells it
            os.write(self._pipe, b"!")
        os.close(self._pipe)
        self._pipe = -1


@dataclass(eq=False)
class Process:
    """A child, as the supervisor sees it. `pipe` brings one byte when it is ready; -1 when there is nothing more to read."""

    name: str
    number: int
    pid: int
    pipe: int
    ready: bool = False
    retiring: bool = False  # told to stop accepting, drain and end: another has its place
    started: float = 0.0
    deadline: float = float("inf")  # killed then, for not being ready or not having ended

    def read(self) -> bool:
        """Whether it has become ready now."""
        try:
            came = os.read(self.pipe, 1)
        except BlockingIOError:
            return False
        self.close()
        self.ready = bool(came)
        return self.ready

    def close(self) -> None:
        if self.pipe >= 0:
            os.close(self.pipe)
            self.pipe = -1

    def signal(self, number: signal.Signals) -> None:
        """It is a child that was not waited for yet, so the pid is its own."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)


def fork(name: str, number: int, run: Run, lifeline: int, private: Callable[[], Iterable[int]]) -> Process:
    """Start one. OSError when the system has no descriptor or process left. `private`: what the child must not keep."""
    flush()
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, HANDLED)
    try:
        pid = os.fork()
        if not pid:
            _be(Child(name, number, lifeline, writing), run, lambda: [reading, *private()], blocked)
    except OSError:
        os.close(reading)
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        os.close(writing)
    return Process(name, number, pid, reading)


def _be(child: Child, run: Run, closing: Callable[[], Iterable[int]], blocked: Iterable[int]) -> None:
    """The rest of the child's life. Does not return."""
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        for number in HANDLED:
            signal.signal(number, signal.SIG_DFL if number == signal.SIGCHLD else signal.SIG_IGN)
        for descriptor in closing():
            os.close(descriptor)
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        code = run(child)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:  # noqa: BLE001 - the edge of the process: nothing above may run in the child
        traceback.print_exc()
    finally:
        flush()
        os._exit(code & 0xFF)


def flush() -> None:
    """What is still buffered would be written twice, by either side of a fork, or by nobody at the end."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):  # closed, or never there
            stream.flush()
