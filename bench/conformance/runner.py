"""One suite's program against one target: what it told, case by case."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec

from bench.conformance.records import BROKE_OFF, Case
from bench.conformance.targets import Target
from bench.processes import environment

_PATIENCE = 900.0  # seconds for one suite through one target


def cases(command: Sequence[str], target: Target, log: Path) -> list[Case]:
    """That the program broke off is a failed case of its own. What it prints goes to `log`, and its home is a new folder."""
    with tempfile.TemporaryDirectory(prefix="tiergate-suite-") as folder:
        told = Path(folder) / "results.jsonl"
        told.touch()
        env = {
            **environment(), **target.environment(), "CONFORMANCE_RESULTS": str(told), "HOME": folder, "NO_PROXY": "127.0.0.1",
            "PATH": os.environ.get("PATH", ""),
        }  # fmt: skip
        with log.open("wb") as out:
            end = _end_of(command, out, env, folder)
        found = [msgspec.json.decode(line, type=Case) for line in told.read_bytes().splitlines()]
    return [*found, Case(BROKE_OFF, "failed", end)] if end or not found else found


def _end_of(command: Sequence[str], out: BinaryIO, env: Mapping[str, str], folder: str) -> str:
    """Why the program did not end well; nothing if it did."""
    try:
        done = subprocess.run(
            command, check=False, stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=folder, env=env, timeout=_PATIENCE
        )
    except subprocess.TimeoutExpired:
        return f"not done within {_PATIENCE:.0f} s"
    return f"ended with status {done.returncode}" if done.returncode else ""
