"""A running gateway takes the policy that is in force: the manifest is looked at once a second, as the key file is.

Rules of this file
- A policy is read and checked in a thread, then swapped in at once. One judgement uses one policy.
- A manifest or a policy that cannot be read, is damaged or is gone changes nothing, and is told once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from gateway.learning.versions import BadVersions, Versions
from routing.learned.file import BadPolicy, read_policy
from routing.learned.policy import Policy

_SECONDS = 1.0
_log = logging.getLogger("tiergate.learning")


class Judges(Protocol):
    """The classifier."""

    policy: Policy


class Following:
    """`shipped`: what is in force where no other policy is."""

    def __init__(self, folder: Path, judges: Judges, shipped: Policy) -> None:
        self._versions = Versions(folder)
        self._judges = judges
        self._shipped = shipped
        self._seen: tuple[int, ...] | None = None
        self._told = ""
        self._listeners: list[Callable[[Policy], None]] = []

    def on_change(self, listener: Callable[[Policy], None]) -> None:
        self._listeners.append(listener)

    def load(self) -> None:
        """The first look, at start. What is wrong leaves the one that ships in force."""
        self._seen = self._fingerprint()
        if self._seen is not None:
            self._take(self._read())

    async def run(self) -> None:
        """For ever."""
        while True:
            await asyncio.sleep(_SECONDS)
            await self.look()

    async def look(self) -> None:
        """Take what is in force, where that is another one by now."""
        seen = self._fingerprint()
        if seen is not None and seen != self._seen:
            self._seen = seen
            self._take(await asyncio.to_thread(self._read))

    def _read(self) -> Policy | str:
        """The policy, or why there is none."""
        try:
            manifest = self._versions.manifest()
            made = manifest.find(manifest.current)
            return self._shipped if made is None else read_policy(self._versions.data(made))
        except (BadVersions, BadPolicy) as error:
            return str(error)

    def _take(self, found: Policy | str) -> None:
        if isinstance(found, str):
            if found != self._told:
                self._told = found
                _log.warning("%s; the policy of before still holds", found)
            return
        self._told = ""
        if found.version != self._judges.policy.version:
            _log.info("the routing policy %s is in force, after %s", found.version, self._judges.policy.version)
            self._judges.policy = found
            for listener in self._listeners:
                listener(found)

    def _fingerprint(self) -> tuple[int, ...] | None:
        try:
            stat = self._versions.manifest_path.stat()
        except OSError:
            return None
        return (stat.st_mtime_ns, stat.st_size, stat.st_ino)
