"""The certificate that a server shows, and what is wrong with it.

The gateway trusts it or does not: the first handshake is made with the very context that requests will use. When that
fails, the reason that OpenSSL gives is only the first that it met (a self-signed certificate that has also expired is
called self-signed). So the certificate is fetched without trust, and then read by a third handshake that trusts nothing
but this certificate and does not look at the time: Python shows what is in a certificate only after a good handshake.
Nothing is sent over any of these connections.
"""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass
from typing import Any

from gateway.config.problems import Path
from gateway.doctor.findings import Finding, fail, ok, shown, warn

SOON_DAYS = 14
_DAY = 86_400.0
_NO_CHECK_TIME = 0x200000  # X509_V_FLAG_NO_CHECK_TIME, which the ssl module has no name for
_NOT_YET, _EXPIRED, _SELF_SIGNED = 9, 10, frozenset({18, 19})
_UNKNOWN_CA = frozenset({2, 20, 21, 27})
_WRONG_NAME = frozenset({62, 64})


@dataclass(frozen=True, slots=True)
class Certificate:
    """`code` and `why` are OpenSSL's refusal, 0 where it is trusted. Moments since the epoch, None where unreadable."""

    code: int
    why: str
    not_before: float | None
    not_after: float | None
    names: tuple[str, ...]
    self_issued: bool


async def look(address: str, port: int, name: str, context: ssl.SSLContext) -> Certificate:
    """Raises OSError (an ssl.SSLError among them) when there is no TLS to look at."""
    try:
        shown, _ = await _handshake(address, port, name, context)
        return _certificate(0, "", shown)
    except ssl.SSLCertVerificationError as error:
        code, why = error.verify_code, error.verify_message
    try:
        _, der = await _handshake(address, port, name, _blind())
        shown, _ = await _handshake(address, port, name, _reader(der))
    except (OSError, ValueError):
        shown = {}
    return _certificate(code, why, shown)


async def _handshake(address: str, port: int, name: str, context: ssl.SSLContext) -> tuple[dict[str, Any], bytes]:
    """The certificate, as Python shows it (empty without verification) and as DER."""
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_connection(asyncio.Protocol, address, port, ssl=context, server_hostname=name)
    try:
        tls = transport.get_extra_info("ssl_object")
        return tls.getpeercert() or {}, tls.getpeercert(binary_form=True) or b""
    finally:
        transport.abort()


def _blind() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _reader(der: bytes) -> ssl.SSLContext:
    """Trusts this one certificate, whatever its time and name: to read it, and for nothing else."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(cadata=der)
    context.verify_flags |= ssl.VerifyFlags(ssl.VERIFY_X509_PARTIAL_CHAIN | _NO_CHECK_TIME)
    return context


def _certificate(code: int, why: str, shown: dict[str, Any]) -> Certificate:
    names = tuple(str(name) for _, name in shown.get("subjectAltName", ()))
    self_issued = bool(shown) and shown.get("issuer") == shown.get("subject")
    return Certificate(code, why, _moment(shown.get("notBefore")), _moment(shown.get("notAfter")), names, self_issued)


def _moment(text: str | None) -> float | None:
    return None if text is None else float(ssl.cert_time_to_seconds(text))


def judge(where: Path, host: str, found: Certificate, now: float) -> list[Finding]:
    """What is wrong with it, every reason that can be told; or how long it will last."""
    findings = [*_time(where, found, now), *_trust(where, found), *_name(where, host, found)]
    if found.code and not findings:
        findings.append(fail(where, f"the certificate is not trusted: {found.why}", "Give the server a certificate that is."))
    return findings


def _time(where: Path, found: Certificate, now: float) -> list[Finding]:
    renew = "Renew the certificate, and have its renewal run by itself."
    if found.code == _EXPIRED or (found.not_after is not None and found.not_after <= now):
        ago = f" {(now - found.not_after) / _DAY:.1f} days ago" if found.not_after is not None else ""
        return [fail(where, f"the certificate has expired{ago}", renew)]
    if found.code == _NOT_YET or (found.not_before is not None and found.not_before > now):
        return [
            fail(where, "the certificate is not valid yet", "Set this machine's clock, or wait for the certificate's first day.")
        ]
    if found.not_after is None:
        return []
    days = (found.not_after - now) / _DAY
    if days < SOON_DAYS:
        return [warn(where, f"the certificate expires in {days:.1f} days", renew)]
    return [] if found.code else [ok(where, f"the certificate is trusted and valid for {days:.0f} more days")]


def _trust(where: Path, found: Certificate) -> list[Finding]:
    if found.code in _SELF_SIGNED:
        what = (
            "the certificate is self-signed, so it proves nothing" if found.self_issued else "the chain ends in an unknown root"
        )
        return [fail(where, what, "Use a certificate of a CA that this machine trusts, or add its CA to the system's store.")]
    if found.code in _UNKNOWN_CA:
        mend = "Add the CA to the system's store, or have the server send its whole chain."
        return [fail(where, "the certificate is of a CA that this machine does not know", mend)]
    return []


def _name(where: Path, host: str, found: Certificate) -> list[Finding]:
    """OpenSSL looks at the name last, so where it stopped before that it is looked at here."""
    read = found.not_after is not None
    if found.code not in _WRONG_NAME and (found.code == 0 or not read or _is_for(host.lower(), found.names)):
        return []
    known = ", ".join(shown(name.encode("utf-8", "replace")) for name in found.names[:8]) or "no name at all"
    mend = "Use one of these names in the URL, or have the certificate made anew for this one."
    return [fail(where, f"the certificate is for {known}, not for {host}", mend)]


def _is_for(host: str, names: tuple[str, ...]) -> bool:
    """A name itself, or a wildcard for its first label."""
    above = host.partition(".")[2]
    return any(name.lower() == host or (name.startswith("*.") and name[2:].lower() == above) for name in names)
