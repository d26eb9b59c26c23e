"""What a node's processes have from before they were forked, and what so outlives each of them."""

from __future__ import annotations

import mmap
import shutil
import socket
import struct
import tempfile
from collections.abc import Sequence
from pathlib import Path

from gateway import loads
from gateway.accept import Shares
from gateway.loads import Memory
from gateway.node.pulse import Pulse
from gateway.tallyfile import TallyFile
from limits.vault import Vault
from routing import cascade, table

_NUMBERS = struct.Struct("=QQ")


class Restarts:
    """How often a process was started again after a death. On a page that all share: the supervisor counts, others tell."""

    def __init__(self) -> None:
        self._page = mmap.mmap(-1, _NUMBERS.size)

    def count(self, *, worker: bool) -> None:
        dispatchers, workers = _NUMBERS.unpack_from(self._page)
        _NUMBERS.pack_into(self._page, 0, dispatchers + (not worker), workers + worker)

    def read(self) -> dict[str, int]:
        dispatchers, workers = _NUMBERS.unpack_from(self._page)
        return {"dispatcher": dispatchers, "worker": workers}


class Inherited:
    """Made by the supervisor. The dispatcher's socket is bound here, so that workers find it while there is no dispatcher.

    `secret` is what cache keys and ids are made with: the same for every process, and for those that come later.
    """

    def __init__(self, workers: int, secret: bytes, sockets: Sequence[socket.socket], metrics: Sequence[socket.socket]) -> None:
        self.secret = secret
        self.sockets = list(sockets)
        self.metrics = list(metrics)
        self.shares, self.metrics_shares = Shares(workers), Shares(workers)
        self.restarts = Restarts()
        self.pulse = Pulse(1 + workers)
        self.tally = TallyFile()
        self.loads: Memory = mmap.mmap(-1, loads.SIZE)
        self.talks: Memory = mmap.mmap(-1, table.SIZE)
        self.switches: Memory = mmap.mmap(-1, cascade.SIZE)
        self.vault = mmap.mmap(-1, Vault.size_for())
        self._folder = Path(tempfile.mkdtemp(prefix="tiergate-"))  # for this user alone, and so is what is in it
        self.path = str(self._folder / "dispatcher")
        self.dispatcher = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.dispatcher.bind(self.path)
        except OSError as error:
            self.close()
            raise OSError(error.errno, f"{error}; TMPDIR names another place for it", self.path) from error
        self.dispatcher.listen(128)
        self.dispatcher.setblocking(False)

    def listening(self) -> socket.socket:
        """For a dispatcher to listen on. Who cleans up temporary folders may have taken the path: then it is made anew."""
        if Path(self.path).exists():
            return self.dispatcher.dup()
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        again = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        again.bind(self.path)
        again.listen(128)
        again.setblocking(False)
        return again

    def close(self) -> None:
        """By the supervisor, when the others have gone."""
        self.dispatcher.close()
        self.tally.close()
        shutil.rmtree(self._folder, ignore_errors=True)
