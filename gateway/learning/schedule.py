"""`tiergate calibrate`, every so often: in a process of its own, at low priority, with an end.

Rules of this file
- The owner starts it, so there is one on a node. When it was last begun is a file's time, so a restart begins no other one early.
- It ends by itself after SECONDS, also when the gateway that began it was killed, and is killed some time after that.
- What it reports is one line in the log. Nothing waits for it, and what fails is tried again when the time comes again.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

SECONDS = 900
_GRACE = 30.0
_SOON = 60.0  # after a start, where one is due
_LONGEST = 3600.0  # one sleep
_MOST = 4096  # characters of a report
_log = logging.getLogger("tiergate.learning")


class Schedule:
    """`folder`: of the journal's `log` and the policies' `policies`. `base`: where to begin, if not with what ships."""

    def __init__(
        self, folder: Path, every: float, base: Path | None = None, *, soon: float = _SOON, command: Sequence[str] = ()
    ) -> None:
        self._folder = folder
        self._stamp = folder / "calibrated"
        self._every = every
        self._soon = soon
        self._command = list(command) or [
            sys.executable, "-m", "gateway.cli", "calibrate", str(folder / "log"), "--policies", str(folder / "policies"),
            "--seconds", str(SECONDS), "--nice", "15", "--brief", *(() if base is None else ("--base", str(base))),
        ]  # fmt: skip

    async def run(self) -> None:
        """For ever."""
        await asyncio.sleep(self._soon)
        while True:
            if self._left() <= 0:
                await self.once()
            await asyncio.sleep(min(max(self._left(), self._soon), _LONGEST))

    def _left(self) -> float:
        """Seconds until it is due."""
        try:
            began = self._stamp.stat().st_mtime
        except OSError:
            return 0.0
        return min(began, time.time()) + self._every - time.time()

    async def once(self) -> None:
        """One calibration; returns when it is over. A cancellation ends it. Without a log there is none."""
        if not (self._folder / "log").is_dir():
            return
        with suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._stamp.touch(mode=0o600)
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        try:
            child = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            _log.warning("the routing policy cannot be calibrated: %s", error.strerror or error)
            return
        try:
            async with asyncio.timeout(SECONDS + _GRACE):
                said, _ = await child.communicate()
        except TimeoutError:
            _log.warning("calibrating the routing policy took too long, and was ended")
            return
        finally:
            if child.returncode is None:
                with suppress(ProcessLookupError):
                    child.kill()
                await child.wait()
        report = " ".join(said.decode("utf-8", "replace").split())[:_MOST]
        level = logging.INFO if child.returncode in (0, 3) else logging.WARNING
        _log.log(level, "calibrated the routing policy (%s): %s", child.returncode, report)
