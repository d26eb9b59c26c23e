"""Starting `tiergate up` and little programs for its tests, and making sure that none of them stays."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parents[2]

# The command as the console script runs it, whether or not the rest of the command line is there.
UP = """
import argparse, signal, sys
from gateway.lab.up import command
signal.signal(signal.SIGINT, signal.default_int_handler)  # a suite that runs in the background has it ignored
parser = argparse.ArgumentParser()
command.add_arguments(parser)
sys.exit(command.run(parser.parse_args()))
"""


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), **more}


def up(*flags: str, **env: str) -> subprocess.CompletedProcess[str]:
    """A trial that is expected to end by itself; on any port, unless it names one."""
    flags = flags if "--port" in flags else (*flags, "--port", "0")
    return subprocess.run(
        [sys.executable, "-c", UP, *flags], check=False, env=environment(**env), capture_output=True, text=True, timeout=60
    )


def survivors(processes: list[psutil.Process], seconds: float = 20.0) -> list[psutil.Process]:
    """Those that still run after a generous while; returns as soon as all are gone. A zombie is gone: it only waits for init."""

    def runs(process: psutil.Process) -> bool:
        try:
            return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    end = time.monotonic() + seconds
    while (left := [process for process in processes if runs(process)]) and time.monotonic() < end:
        time.sleep(0.02)
    return left


class Running:
    """A trial that came up: its process, those below it, and what it said."""

    def __init__(self, process: subprocess.Popen[str], said: dict[str, Any]) -> None:
        self.process = process
        self.said = said
        self.below = psutil.Process(process.pid).children(recursive=True)

    def child(self, word: str) -> psutil.Process:
        return next(child for child in self.below if word in child.cmdline())

    def end(self, number: signal.Signals) -> tuple[int, str]:
        """Its exit code and the rest of what it wrote to stderr."""
        self.process.send_signal(number)
        return self.rest()

    def rest(self) -> tuple[int, str]:
        _, stderr = self.process.communicate(timeout=60)
        return self.process.returncode, stderr

    def survivors(self) -> list[psutil.Process]:
        return survivors(self.below)


@contextlib.contextmanager
def running(*flags: str, **env: str) -> Iterator[Running]:
    command = [sys.executable, "-c", UP, "--json", "--port", "0", *flags]
    process = subprocess.Popen(command, env=environment(**env), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline() if process.stdout else ""
        if not line:
            raise AssertionError(process.communicate(timeout=60)[1])
        yield Running(process, json.loads(line))
    finally:
        if process.poll() is None:
            process.terminate()
        process.communicate(timeout=60)
