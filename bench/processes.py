"""Gateways as processes: started, found ready by a real answer, weighed with all their children, and gone at the end."""

from __future__ import annotations

import contextlib
import ctypes
import http.client
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import psutil

from bench.load import Bodies, Target
from bench.tree import spent

_PR_SET_PDEATHSIG = 1
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_NO_CHAT = (OSError, http.client.HTTPException)


class NotReadyError(RuntimeError):
    """It did not come up; the message is the reason."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _die_with_parent() -> None:
    """Runs in the child before its program: it dies with us even if we are killed (Linux only)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


class Running:
    """One gateway under test, in a process group of its own. Its output goes to a file."""

    def __init__(self, command: Sequence[str], target: Target, log: Path, env: Mapping[str, str] | None = None) -> None:
        self.target, self.log = target, log
        self.started = time.perf_counter()
        with log.open("wb") as out:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                cwd=log.parent,
                env={**environment(), **(env or {})},
                start_new_session=True,
                preexec_fn=_die_with_parent,  # noqa: PLW1509 - no other thread runs when gateways are started
            )

    def wait(self, timeout: float = 90.0) -> float:
        """Seconds from the command to the first chat request that is answered: what a user would call ready."""
        bodies = Bodies()
        while time.perf_counter() - self.started < timeout:
            if self.process.poll() is not None:
                raise NotReadyError(self.end())
            if _answers(self.target, bodies.next(self.target.model)):
                return time.perf_counter() - self.started
            time.sleep(0.02)
        raise NotReadyError(f"gave no answer within {timeout:.0f} s: {self.last_words()}")

    def alive(self) -> bool:
        return self.process.poll() is None

    def last_words(self) -> str:
        """The last line of its output that says something, without colours, for the report."""
        lines = _COLOUR.sub("", self.log.read_text(encoding="utf-8", errors="replace")).splitlines()
        said = [line.strip() for line in lines if any(character.isalnum() for character in line)]
        return said[-1][:160] if said else "it said nothing"

    def end(self) -> str:
        return f"ended with status {self.process.returncode}, its last words: {self.last_words()}"

    def tree(self) -> list[psutil.Process]:
        """A program may rename or re-execute itself and start others: all of it counts."""
        try:
            root = psutil.Process(self.process.pid)
            return [root, *root.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def cpu(self) -> float:
        """Seconds of user and system time so far, those of children that have ended included."""
        return spent(self.tree()).whole

    def rss(self) -> float:
        """MiB."""
        total = 0
        for process in self.tree():
            with contextlib.suppress(psutil.NoSuchProcess):
                total += process.memory_info().rss
        return total / 2**20

    def stop(self) -> None:
        """Kill it and what it started, also what left its process group, and collect it."""
        tree = self.tree()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        for process in tree[1:]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        self.process.wait()
        psutil.wait_procs(tree[1:], timeout=5)


def environment() -> dict[str, str]:
    """Ours without what would lead one gateway to another's packages."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}


def _answers(target: Target, body: bytes) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", target.port, timeout=20)
    try:
        connection.request("POST", "/v1/chat/completions", body, target.fields())
        return connection.getresponse().status == 200
    except _NO_CHAT:
        return False
    finally:
        connection.close()


@contextlib.contextmanager
def upstream(root: Path, listen: int = 2) -> Iterator[list[int]]:
    """The server behind all gateways, in a process of its own; its ports."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.upstream", "--listen", str(listen)],
        stdout=subprocess.PIPE,
        cwd=root,
        start_new_session=True,
        preexec_fn=_die_with_parent,  # noqa: PLW1509 - as above
    )
    try:
        assert process.stdout is not None
        ports = [int(word) for word in process.stdout.readline().split()]
        if len(ports) != listen:
            raise NotReadyError("the upstream did not start")
        yield ports
    finally:
        process.kill()
        process.communicate()
