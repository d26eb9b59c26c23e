"""The TLS contexts that a config asks for, and what is wrong with the files that it names.

Rules: TLS 1.2 at least; a message names neither a path's content nor a password; a key that needs a password and has none
is an error, never a question on the terminal.
"""

from __future__ import annotations

import ssl
from pathlib import Path

from gateway.config.tls import BackendTls, ServerTls

_LONGEST = 1024 * 1024  # of a key file that is looked into


class TlsError(Exception):
    """A file cannot be used. `key` is the key that names it."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


def server_context(tls: ServerTls) -> ssl.SSLContext:
    """For the listener. Raises TlsError."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    load_pair(context, tls.cert, tls.key, tls.key_password.reveal())
    if tls.client_ca is not None:
        _load_authorities(context, tls.client_ca, "client_ca")
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def client_context(tls: BackendTls) -> ssl.SSLContext:
    """For the way to a replica. Raises TlsError."""
    context = ssl.create_default_context() if tls.ca is None else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if tls.ca is not None:
        _load_authorities(context, tls.ca, "ca")
    if not tls.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if tls.cert is not None:
        load_pair(context, tls.cert, tls.key, tls.key_password.reveal())
    return context


def load_pair(context: ssl.SSLContext, cert: Path, key: Path | None, password: str) -> None:
    """Give `context` a certificate and its key. Raises TlsError, and the context may then have neither."""
    _readable(cert, "cert")
    if key is not None:
        _readable(key, "key")
    try:
        context.load_cert_chain(cert, key, password=password)  # also "": without one, OpenSSL would ask the terminal
    except ssl.SSLError as error:
        raise _pair_error(error, key or cert) from None
    except (OSError, ValueError):  # ValueError: a password that is too long
        raise TlsError("key", "cannot be used: unreadable, or its password is wrong") from None


def _pair_error(error: ssl.SSLError, key: Path) -> TlsError:
    """OpenSSL does not tell a wrong password from rubbish, but a locked key says that it is locked."""
    reason = error.reason or ""
    if reason == "KEY_VALUES_MISMATCH":
        return TlsError("key", "the key is not the certificate's")
    if reason in ("EE_KEY_TOO_SMALL", "CA_MD_TOO_WEAK"):
        return TlsError("cert", "the certificate is too weak for TLS today")
    with key.open("rb") as file:
        locked = b"ENCRYPTED" in file.read(_LONGEST)
    if locked:
        return TlsError("key_password", "the key's password is missing or wrong")
    return TlsError("cert", "no certificate with a private key in PEM form (check cert and key)")


def _load_authorities(context: ssl.SSLContext, path: Path, key: str) -> None:
    _readable(path, key)
    try:
        context.load_verify_locations(path)
    except (OSError, ValueError):  # SSLError is an OSError
        raise TlsError(key, "holds no CA certificate in PEM form") from None


def _readable(path: Path, key: str) -> None:
    """A certificate is a file of some kilobytes; what is no regular file could make us wait for ever."""
    try:
        if not path.is_file():
            raise TlsError(key, f"no such file: {path}")
        with path.open("rb") as file:
            file.read(1)
    except OSError as error:
        raise TlsError(key, f"cannot be read: {error.strerror}") from None
