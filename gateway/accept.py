"""Several workers wait on the same listening sockets: who takes a new connection?

Connections live long here, so whoever takes one also takes all the requests that it will bring. Left to the event loop,
the worker that wakes up first takes what it finds: libuv accepts until nothing is left, the kernel wakes all who wait, and a
pool of 64 connections that a client opens at once ends up in the hands of one worker. So a worker takes one connection a
wake-up, and when it has clearly more than an even share, it first leaves those that come to the others for 2 ms. What
each has is on a page of memory that they share.

Measured with forked servers (uvloop 0.23, 2 cores, 200 µs of CPU a request): how many of N connections each worker got, the
most uneven of three runs.

                      2 workers                                4 workers
                      64 at once  1,000 at once  64 in 1 s     64 at once   1,000 at once    64 in 1 s
    create_server     45/19       653/347        37/27         1/63/0/0     455/203/82/260   28/4/11/21
    this one          27/37       424/576        35/29         15/24/5/20   259/265/243/233  17/24/16/7

One a wake-up alone is no better than create_server (62/1/0/1 of 64 at once, 305/311/175/209 of 1,000). The price is 27 µs of
CPU a connection, so a process that is alone stays with create_server. A client that opens a connection for each request
is held back too little to be told from noise (1,500-2,100 a second, either way).
"""

from __future__ import annotations

import asyncio
import errno
import logging
import mmap
import socket
import ssl
import struct
from collections.abc import Callable, Sequence

_SLACK = 1.0  # connections above an even share, and a sixteenth of one's own, that nobody is held back for
_SLACK_SHARE = 1 / 16
_HOLD_SECONDS = 0.002  # long for a worker that is idle, short for a client; all may be busy, then it is ours after all
_AFTER_HOLD = 4  # taken at once when nobody else came for them: a worker that hangs must not make the others crawl
_PAUSE_SECONDS = 1.0  # without descriptors or memory for more connections
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

_log = logging.getLogger("tiergate.http")


class Shares:
    """How many connections each of `workers` has, on a page that processes forked later share. They are numbered from 1."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._layout = struct.Struct(f"={workers}I")
        self._page = mmap.mmap(-1, self._layout.size)

    def put(self, number: int, count: int) -> None:
        struct.pack_into("=I", self._page, 4 * (number - 1), count)

    def excess(self, number: int) -> bool:
        """Whether this worker has clearly more than its share."""
        counts: tuple[int, ...] = self._layout.unpack_from(self._page)
        own = counts[number - 1]
        return own > sum(counts) / self._workers + _SLACK + own * _SLACK_SHARE


class Share:
    """One worker's line in `shares`."""

    def __init__(self, shares: Shares, number: int) -> None:
        self._shares = shares
        self._number = number

    def full(self, count: int) -> bool:
        """With `count` connections, should the others have the next one?"""
        self._shares.put(self._number, count)
        return self._shares.excess(self._number)

    def tell(self, count: int) -> None:
        self._shares.put(self._number, count)


class Acceptor:
    """Takes connections from listening sockets, which are its own from now on, and gives each to a protocol of `factory`.

    `count` tells how many connections there are. With `tls`, a handshake that fails or lasts longer than
    `handshake_timeout` ends its connection, and nobody hears of it.
    """

    def __init__(
        self,
        sockets: Sequence[socket.socket],
        factory: Callable[[], asyncio.Protocol],
        count: Callable[[], int],
        share: Share,
        tls: ssl.SSLContext | None = None,
        handshake_timeout: float | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._sockets = list(sockets)
        for sock in self._sockets:
            sock.setblocking(False)
        self._factory = factory
        self._count = count
        self._share = share
        self._tls = tls
        self._handshake_timeout = None if tls is None else handshake_timeout
        self._arriving: set[asyncio.Task[object]] = set()
        self._later: asyncio.TimerHandle | None = None
        self._held = False

    def start(self) -> None:
        self._later = None
        for sock in self._sockets:
            self._loop.add_reader(sock, self._readable, sock)
        self.tell()

    def tell(self) -> None:
        """Put on the page how many there are: called now and then, as connections end without a word here."""
        if self._sockets:
            self._share.tell(self._count() + self.arriving)

    @property
    def arriving(self) -> int:
        """How many were taken and are not a protocol's yet: amid their handshake, say."""
        return len(self._arriving)

    def take_all(self) -> None:
        """Take whoever waits, whatever the others have: before the last of them closes the sockets, which would reset it."""
        for sock in self._sockets:
            while self._take(sock):
                pass

    def close(self) -> None:
        """Take no more; what has been taken is served. Others that have the sockets go on. Safe to call twice."""
        if self._later is not None:
            self._later.cancel()
        else:
            self._ignore()
        for sock in self._sockets:
            sock.close()
        self._sockets = []

    def _readable(self, sock: socket.socket) -> None:
        full = self._share.full(self._count() + self.arriving)
        if full and not self._held:
            self._held = True
            self._pause(_HOLD_SECONDS)
            return
        for _ in range(_AFTER_HOLD if self._held else 1):
            if not self._take(sock):
                break
        self._held = False

    def _take(self, sock: socket.socket) -> bool:
        try:
            taken, _ = sock.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):  # another worker was faster, or it has left again
            return False
        except OSError as error:
            if error.errno not in _EXHAUSTED:
                _log.warning("a connection could not be accepted: %s", error)
                return False
            _log.error("no connection can be accepted for a second: %s", error.strerror)
            self._pause(_PAUSE_SECONDS)
            return False
        taken.setblocking(False)
        task = self._loop.create_task(self._adopt(taken), name="arrival")
        self._arriving.add(task)
        task.add_done_callback(self._arriving.discard)
        return True

    async def _adopt(self, taken: socket.socket) -> object:
        try:
            return await self._loop.connect_accepted_socket(
                self._factory, taken, ssl=self._tls, ssl_handshake_timeout=self._handshake_timeout
            )
        except OSError:  # no handshake, or gone amid it: ssl.SSLError, ConnectionError and TimeoutError are such, too
            return None

    def _pause(self, seconds: float) -> None:
        self._ignore()
        self._later = self._loop.call_later(seconds, self.start)

    def _ignore(self) -> None:
        for sock in self._sockets:
            self._loop.remove_reader(sock)
