"""A child process as a scope: entering starts it, leaving ends it, and its whole process group with it.

What it prints goes to a log file; the parent keeps the only writing end of its standard input (see `child`).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

LAST_BYTES = 8192


def python(*arguments: str) -> tuple[str, ...]:
    """A command line for a module of ours, tied to this process. `-P`: no package in the user's folder may come first."""
    return (sys.executable, "-P", "-m", "gateway.lab.up.child", *arguments)


class Child:
    def __init__(
        self, name: str, argv: Sequence[str], log: Path, *, env: Mapping[str, str] | None = None, grace: float = 10.0
    ) -> None:
        self.name = name
        self.log = log
        self._argv = argv
        self._env = {**os.environ, "PYTHONUNBUFFERED": "1", **(env or {})}
        self._grace = grace
        self._process: asyncio.subprocess.Process | None = None

    @property
    def returncode(self) -> int | None:
        """None while it runs."""
        return None if self._process is None else self._process.returncode

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def __aenter__(self) -> Self:
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._argv, stdin=asyncio.subprocess.PIPE, stdout=log, stderr=log, env=self._env, start_new_session=True
            )
        return self

    async def ended(self) -> int:
        assert self._process is not None
        return await self._process.wait()

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Asks it to end and waits; out of patience, its own or a second Ctrl-C, ends it."""
        self._signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(self._grace):
                await self.ended()
        except TimeoutError:
            pass
        finally:
            self._signal(signal.SIGKILL)  # also what it left behind in its group
            await self.ended()

    def _signal(self, number: signal.Signals) -> None:
        # macOS says "not permitted" for a group of which only the dead are left.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def last_lines(self, count: int = 12) -> list[str]:
        """The end of its log, for the one who has to find out why it died."""
        with self.log.open("rb") as log:
            log.seek(max(0, self.log.stat().st_size - LAST_BYTES))
            return log.read().decode(errors="replace").splitlines()[-count:]
