"""The ring: what a running gateway knows of the key file.

Rules:
- A changed file is read and validated first, then swapped in at once.
- A file that cannot be read or is not valid changes nothing, and is reported once per change.
- A file that vanishes changes nothing either: revocations are entries of the file, so the last good ring still has
  them, while an empty one would lock every tenant out. To withdraw all keys, revoke them.
- A key of a tenant that the config does not know is inert, and reported once per tenant.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from pathlib import Path

from gateway.keyfile import KeyFile, KeyFileError, KeyRecord, decode, read

_log = logging.getLogger("tiergate.keys")


class KeyRing:
    """The keys of the file as of the last good look at it. Empty until `load` or `refresh`."""

    def __init__(self, path: Path, tenants: Collection[str]) -> None:
        self.keys: tuple[KeyRecord, ...] = ()
        self._path = path
        self._tenants = frozenset(tenants)
        self._listeners: list[Callable[[], None]] = []
        self._seen: tuple[int, ...] | None = None
        self._reported = ""
        self._unknown: set[str] = set()

    def on_change(self, listener: Callable[[], None]) -> None:
        """Called after each swap, in the thread that refreshes."""
        self._listeners.append(listener)

    def load(self) -> None:
        """The first look, at start: a bad file is a KeyFileError, since there is no older ring to stay with."""
        self._seen = self._fingerprint()
        self._swap(KeyFile(self._path).records())

    def refresh(self) -> bool:
        """Looks whether the file has changed, which is one stat(); True when the ring was swapped."""
        seen = self._fingerprint()
        if seen == self._seen and seen is not None:
            return False
        try:
            data = read(self._path)
            self._seen = seen  # what was read is judged once; what could not be read is tried again
            records = decode(data, self._path)
        except FileNotFoundError:
            if self._seen is not None:
                self._report(f"{self._path}: the key file is gone")
            return False
        except OSError as error:
            self._report(f"{self._path}: cannot be read: {error.strerror or error}")
            return False
        except KeyFileError as error:
            self._seen = seen
            self._reported = ""
            self._report(str(error))
            return False
        self._swap(records)
        return True

    def _swap(self, records: list[KeyRecord]) -> None:
        for tenant in sorted({record.tenant for record in records} - self._tenants - self._unknown):
            self._unknown.add(tenant)
            _log.warning("%s: the config has no tenant %r: its keys are of no use", self._path, tenant)
        self.keys = tuple(record for record in records if record.tenant in self._tenants)
        self._reported = ""
        for listener in self._listeners:
            listener()

    def _fingerprint(self) -> tuple[int, ...] | None:
        """Changes with the content, the inode (a rename) and the permissions; None: nothing to look at."""
        try:
            stat = self._path.stat()
        except OSError:
            return None
        return (stat.st_mtime_ns, stat.st_size, stat.st_ino, stat.st_ctime_ns)

    def _report(self, message: str) -> None:
        if message != self._reported:
            self._reported = message
            _log.warning("%s; the keys of before still hold", message)
