"""TLS to a replica: verified by name, with the context that was given."""

import shutil
import ssl
import subprocess

import pytest
from wire_peer import END, STREAM, Server, always, ask, chunk, client_at, ok, pieces_of

from backends.errors import ConnectFailed

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="a certificate is made with openssl")


@pytest.fixture(scope="session")
def certificate(tmp_path_factory):
    directory = tmp_path_factory.mktemp("tls")
    key, certificate = directory / "key.pem", directory / "cert.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    subprocess.run([*command, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    return certificate, key


@pytest.fixture
def server_side(certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    return context


@pytest.fixture
def trusting(certificate):
    return ssl.create_default_context(cafile=certificate[0])


async def test_https_with_a_trusted_certificate(server_side, trusting):
    """Requests, large ones too, and streams go over one TLS connection that is used again."""
    async with Server(always(ok(b"hello")), tls=server_side) as server:
        client = client_at(server.port, scheme="https", host="localhost", ssl_context=trusting)
        for body in (b"small", b"x" * 1_000_000):
            assert await ask(client, body) == (200, b"hello")
            assert server.peers[0].sent[-1].endswith(body)
        assert len(server.peers) == 1
        await client.close()
    async with Server(always(STREAM + chunk(b"one") + chunk(b"two") + END), tls=server_side) as server:
        client = client_at(server.port, scheme="https", host="localhost", ssl_context=trusting)
        assert b"".join(await pieces_of(client)) == b"onetwo"
        await client.close()


async def test_a_certificate_that_nobody_vouches_for(server_side):
    """An unknown certificate is ConnectFailed, and nothing of the request is sent."""
    async with Server(always(ok(b"hello")), tls=server_side) as server:
        client = client_at(server.port, scheme="https", host="localhost")
        with pytest.raises(ConnectFailed) as caught:
            await ask(client)
        assert not caught.value.sent
        assert not any(peer.sent for peer in server.peers)
        await client.close()


async def test_a_certificate_for_another_name(server_side, trusting):
    """A certificate is checked against the name in the URL, not the address that it led to."""
    async with Server(always(ok(b"hello")), tls=server_side) as server:
        client = client_at(server.port, scheme="https", host="127.0.0.1", ssl_context=trusting)
        with pytest.raises(ConnectFailed):
            await ask(client)
        await client.close()


async def test_a_server_that_speaks_no_tls():
    """Plain HTTP where TLS was promised is ConnectFailed."""
    async with Server(always(b"HTTP/1.1 400 Bad Request\r\n\r\n")) as server:
        client = client_at(server.port, scheme="https", host="localhost")
        server._script = _speak
        with pytest.raises(ConnectFailed):
            await ask(client)
        await client.close()


async def _speak(peer) -> None:
    await peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    await peer.left()
