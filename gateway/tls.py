"""The listener's certificate, and its renewal without a restart.

The files are looked at every ten seconds. When they have changed, and then stood still for one look (a certificate and its
key are two files, written one after the other), they are loaded into a context of no use first: only a pair that fits
goes into the one that serves. Handshakes from then on use it; connections that are open keep theirs. A pair that does not
fit is logged once, and the old one stays. The CAs of clients are read at the start only: OpenSSL adds, and cannot take away.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from pathlib import Path

from gateway.config.certificates import TlsError, load_pair, server_context
from gateway.config.tls import ServerTls

SECONDS = 10.0

_log = logging.getLogger("tiergate.tls")
_Signature = tuple[tuple[int, int, int, int], ...] | None


class Certificate:
    """`context` is the listener's, for as long as it lives. Raises TlsError when the files cannot be used."""

    def __init__(self, tls: ServerTls) -> None:
        self._tls = tls
        self._loaded = self._seen = self._signature()
        self.context = server_context(tls)

    async def watch(self) -> None:
        """For ever."""
        while True:
            await asyncio.sleep(SECONDS)
            self.refresh()

    def refresh(self) -> None:
        """Look at the files once."""
        now, before = self._signature(), self._seen
        self._seen = now
        if now in (self._loaded, None) or now != before:
            return
        tls = self._tls
        try:
            for context in (ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), self.context):
                load_pair(context, tls.cert, tls.key, tls.key_password.reveal())
        except TlsError as error:
            _log.warning("the renewed certificate is not used: server.tls.%s: %s", error.key, error)
        else:
            _log.info("the certificate was renewed")
        self._loaded = now  # or found wanting: another look at the same files would say the same

    def _signature(self) -> _Signature:
        """None while one of the files is not there."""
        try:
            return _of(self._tls.cert), _of(self._tls.key)
        except OSError:
            return None


def _of(path: Path) -> tuple[int, int, int, int]:
    status = path.stat()
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size
