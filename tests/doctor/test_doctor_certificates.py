"""Certificates of https backends: real handshakes with a CA that the process trusts for the length of a test."""

import ssl
from datetime import UTC, datetime, timedelta

import pytest
from doctor_talk import config

from gateway.doctor import certificates

trustme = pytest.importorskip("trustme", reason="trustme makes the certificates of these tests")

URL = "models[0].replicas[0].url"


@pytest.fixture
def authority(tmp_path, monkeypatch):
    """A CA in which OpenSSL's default store believes."""
    ca = trustme.CA()
    ca.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path / "none"))
    return ca


def context_of(certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    return context


async def look(doctor, serve, certificate, host="localhost"):
    engine = await serve(context=context_of(certificate))
    await doctor(config(f"https://{host}:{engine.port}/v1"))


def days(number):
    return datetime.now(UTC) + timedelta(days=number)


async def test_a_good_certificate_is_no_finding(doctor, serve, authority):
    """A trusted certificate with time left is well, and the engine behind it is asked."""
    await look(doctor, serve, authority.issue_cert("localhost", not_after=days(90)))
    assert doctor.bad == []
    assert any("serves" in line.what for line in doctor.lines)


async def test_an_expired_certificate_is_found(doctor, serve, authority):
    """How long ago it expired is told, though the handshake failed."""
    await look(doctor, serve, authority.issue_cert("localhost", not_before=days(-30), not_after=days(-3)))
    line = doctor.only()
    assert (line.severity, line.key) == ("fail", URL)
    assert "expired 3.0 days ago" in line.what
    assert "Renew" in line.mend


async def test_an_expired_certificate_of_nobody_is_found_twice(doctor, serve):
    """Expired and of an unknown CA: both are told, where OpenSSL tells one."""
    await look(doctor, serve, trustme.CA().issue_cert("localhost", not_before=days(-30), not_after=days(-3)))
    assert ["expired" in line.what for line in doctor.bad] == [True, False]
    assert all(line.severity == "fail" for line in doctor.bad)


async def test_a_certificate_that_expires_soon_is_a_warning(doctor, serve, authority):
    """Under fourteen days are left."""
    await look(doctor, serve, authority.issue_cert("localhost", not_after=days(5.5)))
    line = doctor.only()
    assert line.severity == "warn"
    assert "expires in 5.5 days" in line.what


async def test_a_certificate_of_tomorrow_is_found(doctor, serve, authority):
    """Not valid yet: a clock or a mistake of its maker."""
    await look(doctor, serve, authority.issue_cert("localhost", not_before=days(1), not_after=days(90)))
    assert "not valid yet" in doctor.only().what


async def test_an_unknown_authority_is_found(doctor, serve, authority):
    """The chain leads to a CA that this machine does not have."""
    await look(doctor, serve, trustme.CA().issue_cert("localhost", not_after=days(90)))
    line = doctor.only()
    assert (line.severity, line.key) == ("fail", URL)
    assert "CA" in line.what
    assert "CA" in line.mend


async def test_a_self_signed_certificate_is_found(doctor, serve, authority, tmp_path):
    """A server that shows a CA's own certificate, which has no name of a host either."""
    ca = trustme.CA()
    ca.cert_pem.write_to_path(tmp_path / "self.pem")
    ca.private_key_pem.write_to_path(tmp_path / "self.key")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "self.pem", tmp_path / "self.key")
    engine = await serve(context=context)
    await doctor(config(f"https://localhost:{engine.port}/v1"))
    assert ["self-signed" in line.what for line in doctor.bad] == [True, False]
    assert "no name at all" in doctor.bad[1].what


async def test_a_wrong_host_name_is_found(doctor, serve, authority):
    """The names that it is for are listed."""
    await look(doctor, serve, authority.issue_cert("vllm.example", "gpu-7.example", not_after=days(90)))
    line = doctor.only()
    assert line.what == "the certificate is for vllm.example, gpu-7.example, not for localhost"


async def test_a_wrong_name_is_found_behind_another_fault(doctor, serve, authority):
    """Of an unknown CA and for another name: OpenSSL stops at the first."""
    await look(doctor, serve, trustme.CA().issue_cert("*.example.com", not_after=days(90)))
    assert len(doctor.bad) == 2
    assert doctor.bad[1].what == "the certificate is for *.example.com, not for localhost"


@pytest.mark.parametrize(
    ("host", "fits"), [("a.example.com", True), ("a.b.example.com", False), ("example.com", False), ("10.0.0.1", True)]
)
def test_a_wildcard_is_for_one_label(host, fits):
    """As TLS clients read names."""
    assert certificates._is_for(host, ("*.example.com", "10.0.0.1")) is fits


async def test_plain_http_behind_https_is_found(doctor, fake):
    """The URL says https and the engine speaks http."""
    engine = await fake()
    await doctor(config(engine.url.replace("http:", "https:")))
    line = doctor.only()
    assert "does not speak TLS" in line.what
    assert "http://" in line.mend


async def test_https_behind_plain_http_is_found(doctor, serve, authority):
    """The URL says http and the engine speaks https."""
    engine = await serve(context=context_of(authority.issue_cert("localhost")))
    await doctor(config(f"http://localhost:{engine.port}/v1"))
    assert "https://" in doctor.only().mend
