"""HTTPS on the listener and towards the replicas, on both event loops, with certificates made here."""

import asyncio
import contextlib
import logging
import os
import ssl
import warnings

import httpx
import pytest
from gateway_talk import KEY, chat
from raw_client import Wire

from gateway.accept import Share, Shares
from gateway.config import ConfigError, load
from gateway.config.certificates import TlsError
from gateway.config.tls import ServerTls
from gateway.http1 import Bounds, Server
from gateway.lab.fake import FakeVLLM, Options
from gateway.node.sockets import listen
from gateway.tls import Certificate


@pytest.fixture(scope="module")
def ca():
    return pytest.importorskip("trustme", reason="trustme makes the certificates of these tests").CA()


@pytest.fixture(scope="module")
def other_ca(ca):
    return type(ca)()


def write(path, cert):
    """A pair of PEM files, each renamed into place."""
    for name, blobs in (("cert", cert.cert_chain_pems), ("key", [cert.private_key_pem])):
        fresh = path / "fresh"
        fresh.write_bytes(b"".join(blob.bytes() for blob in blobs))
        os.replace(fresh, path / f"{name}.pem")


@pytest.fixture
def files(tmp_path, ca):
    """cert.pem, key.pem and ca.pem, and the config's `tls` that names the first two."""
    write(tmp_path, ca.issue_cert("localhost", "127.0.0.1"))
    ca.cert_pem.write_to_path(tmp_path / "ca.pem")
    return {"cert": "./cert.pem", "key": "./key.pem"}


def trusting(ca, cert=None):
    context = ssl.create_default_context()
    ca.configure_trust(context)
    if cert is not None:
        cert.configure_cert(context)
    return context


@pytest.fixture(params=["alone", "shared"])
async def secure(request, tmp_path, files):
    """A server over TLS whose handler answers with the path; its certificate can be renewed. Alone, or as one of several."""
    async with contextlib.AsyncExitStack() as scope:

        async def make(*, client_ca=None, handler=None, **bounds):
            async def echo(request, response):
                response.send(200, b"content-type: text/plain\r\n", request.url)

            tls = ServerTls(cert=tmp_path / "cert.pem", key=tmp_path / "key.pem", client_ca=client_ca)
            certificate = Certificate(tls)
            server = Server(handler or echo, Bounds(**bounds), lambda error, peer: b"content-type: application/json\r\n")
            if request.param == "alone":
                await server.start("127.0.0.1", 0, certificate.context)
            else:
                server.start_on(listen("127.0.0.1", 0), Share(Shares(2), 1), certificate.context)
            scope.push_async_callback(server.stop)
            return server, certificate

        yield make


@contextlib.asynccontextmanager
async def dial(server, context, name="localhost"):
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port, ssl=context, server_hostname=name)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            await writer.wait_closed()


async def ask(reader, writer, path=b"/x"):
    writer.write(b"GET " + path + b" HTTP/1.1\r\nhost: h\r\n\r\n")
    head = await reader.readuntil(b"\r\n\r\n")
    return head.split()[1], await reader.readexactly(len(path))


async def test_requests_over_one_connection(secure, ca):
    """Several on one connection, ALPN http/1.1, TLS 1.2 at least."""
    server, _ = await secure()
    context = trusting(ca)
    context.set_alpn_protocols(["h2", "http/1.1"])
    async with dial(server, context) as (reader, writer):
        assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"
        assert await ask(reader, writer, b"/one") == (b"200", b"/one")
        assert await ask(reader, writer, b"/two") == (b"200", b"/two")


async def test_old_protocols_are_refused(secure, ca):
    """TLS 1.1 has no handshake here."""
    server, _ = await secure()
    context = trusting(ca)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that TLS 1.1 is old is the point
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError)):
        async with dial(server, context):
            pass


async def test_a_large_body_goes_both_ways(secure, ca):
    """Megabytes in and out, with the connection used again."""

    async def echo(request, response):
        response.send(200, b"", await request.body())

    server, _ = await secure(handler=echo)
    body = os.urandom(3_000_000)
    async with dial(server, trusting(ca)) as (reader, writer):
        for _ in range(2):
            writer.write(b"POST / HTTP/1.1\r\nhost: h\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
            await reader.readuntil(b"\r\n\r\n")
            assert await reader.readexactly(len(body)) == body


async def test_plain_http_and_rubbish_end_their_own_connection_only(secure, ca, caplog):
    """What is no handshake is closed without a word, and an open connection goes on."""
    caplog.set_level(logging.DEBUG)
    server, _ = await secure()
    async with dial(server, trusting(ca)) as (reader, writer):
        for data in (b"GET / HTTP/1.1\r\nhost: h\r\n\r\n", os.urandom(500), b"\x16\x03\x01\xff\xff" + b"\0" * 100):
            async with Wire(server.port) as wire:
                wire.send(data)
                with contextlib.suppress(ConnectionError):
                    assert b"HTTP/1.1 200" not in await wire.ended()
        assert await ask(reader, writer) == (b"200", b"/x")
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_a_slow_handshake_is_cut(secure, ca, caplog):
    """Who connects and says nothing is dropped after the time for a request's head."""
    server, _ = await secure(header_timeout=1.0)
    async with Wire(server.port) as wire:
        with contextlib.suppress(ConnectionError):
            assert await wire.ended() == b""
    async with dial(server, trusting(ca)) as (reader, writer):
        assert await ask(reader, writer) == (b"200", b"/x")
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_a_client_that_leaves_ends_its_handler(secure, ca, caplog):
    """Closing the connection cancels the handler that works for it, without a warning of the loop's."""
    began, ended = asyncio.Event(), asyncio.Event()

    async def slow(request, response):
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    server, _ = await secure(handler=slow)
    async with dial(server, trusting(ca)) as (_, writer):
        writer.write(b"GET / HTTP/1.1\r\nhost: h\r\n\r\n")
        await asyncio.wait_for(began.wait(), 10)
    await asyncio.wait_for(ended.wait(), 10)
    async with asyncio.timeout(10):
        while server.connections:
            await asyncio.sleep(0.002)
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_a_stream_is_written_as_it_comes(secure, ca):
    """Chunks reach the client before the answer is over."""
    more = asyncio.Event()

    async def stream(request, response):
        response.start(200, b"content-type: text/event-stream\r\n")
        response.write(b"data: 1\n\n")
        await more.wait()
        response.write(b"data: 2\n\n")
        response.end()

    server, _ = await secure(handler=stream)
    async with dial(server, trusting(ca)) as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\nhost: h\r\n\r\n")
        await asyncio.wait_for(reader.readuntil(b"data: 1\n\n"), 10)
        more.set()
        await asyncio.wait_for(reader.readuntil(b"0\r\n\r\n"), 10)


async def test_bad_http_over_tls_is_answered(secure, ca):
    """A refusal reaches the client, though it cannot be told first that we are done."""
    server, _ = await secure()
    async with dial(server, trusting(ca)) as (reader, writer):
        writer.write(b"\x00\x01 rubbish\r\n\r\n")
        assert (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)).startswith(b"HTTP/1.1 400 ")


async def test_clients_need_their_certificate_where_the_config_says_so(secure, ca, other_ca, tmp_path):
    """With `client_ca` a client without a certificate, or with a stranger's, gets no answer."""
    server, _ = await secure(client_ca=tmp_path / "ca.pem")
    async with dial(server, trusting(ca, ca.issue_cert("client"))) as (reader, writer):
        assert await ask(reader, writer) == (b"200", b"/x")
    for cert in (None, other_ca.issue_cert("client")):
        with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
            async with dial(server, trusting(ca, cert)) as (reader, writer):
                await ask(reader, writer)


async def serial(server, ca):
    async with dial(server, trusting(ca)) as (_, writer):
        return writer.get_extra_info("peercert")["serialNumber"]


async def test_a_renewed_certificate_serves_new_connections(secure, ca, tmp_path, caplog):
    """After a renewal new handshakes see the new one, and an open connection goes on with the old."""
    caplog.set_level("INFO", logger="tiergate.tls")
    server, certificate = await secure()
    old = await serial(server, ca)
    async with dial(server, trusting(ca)) as (reader, writer):
        write(tmp_path, ca.issue_cert("localhost"))
        certificate.refresh()
        assert await serial(server, ca) == old, "it must stand still for a look"
        certificate.refresh()
        assert await serial(server, ca) != old
        assert await ask(reader, writer) == (b"200", b"/x")
    certificate.refresh()
    assert [record.message for record in caplog.records] == ["the certificate was renewed"]


@pytest.mark.parametrize("broken", ["rubbish", "other key", "gone", "empty"])
async def test_a_broken_renewal_keeps_the_old_one(secure, ca, tmp_path, caplog, broken):
    """It is told once, the old certificate goes on, and a good one later is taken."""
    server, certificate = await secure()
    old = await serial(server, ca)
    key = (tmp_path / "key.pem").read_bytes()
    if broken == "gone":
        (tmp_path / "key.pem").unlink()
    elif broken == "other key":
        write(tmp_path, ca.issue_cert("localhost"))
        (tmp_path / "key.pem").write_bytes(key)
    else:
        (tmp_path / "cert.pem").write_bytes(b"" if broken == "empty" else b"-----BEGIN CERTIFICATE-----\nx\n")
    for _ in range(5):
        certificate.refresh()
    assert await serial(server, ca) == old
    assert len(caplog.records) == (0 if broken == "gone" else 1)
    write(tmp_path, ca.issue_cert("localhost"))
    certificate.refresh()
    certificate.refresh()
    assert await serial(server, ca) != old


async def test_the_whole_gateway_over_tls(start, files, ca):
    """Config to answer, streams too; the log has the client's address."""
    stack = await start({"server": {"port": 0, "tls": files}})
    url = f"https://localhost:{stack.gateway.port}"
    async with httpx.AsyncClient(base_url=url, verify=trusting(ca), trust_env=False) as client:
        headers = {"authorization": f"Bearer {KEY}"}
        answer = await client.post("/v1/chat/completions", json=chat(), headers=headers)
        assert answer.status_code == 200
        answer = await client.post("/v1/chat/completions", json=chat("more", stream=True), headers=headers)
        assert answer.text.endswith("data: [DONE]\n\n")
    assert (await stack.line())["client"] in ("127.0.0.1", "::1")


@pytest.fixture
async def tunnel(ca, tmp_path):
    """A TLS front of a fake vLLM; `mutual` asks for a client certificate of our CA."""
    async with contextlib.AsyncExitStack() as scope:

        async def pump(reader, writer):
            with contextlib.suppress(ConnectionError, ssl.SSLError, asyncio.CancelledError):
                while data := await reader.read(65536):
                    writer.write(data)
            writer.close()

        async def make(name="localhost", *, mutual=False):
            fake = await scope.enter_async_context(FakeVLLM(Options()))
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            ca.issue_cert(name).configure_cert(context)
            if mutual:
                ca.configure_trust(context)
                context.verify_mode = ssl.CERT_REQUIRED

            async def serve(reader, writer):
                inner = await asyncio.open_connection("127.0.0.1", fake.port)
                await asyncio.gather(pump(reader, inner[1]), pump(inner[0], writer))

            server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
            scope.callback(server.close)
            return fake, server.sockets[0].getsockname()[1]

        yield make


def replicas(port, tls=None, host="127.0.0.1"):
    return {"models": {0: {"replicas": [{"name": "s1", "url": f"https://{host}:{port}/v1", **({"tls": tls} if tls else {})}]}}}


async def test_mutual_tls_to_a_replica(start, tunnel, ca, tmp_path):
    """With our CA, a client certificate and the name that the replica's is for, requests go through."""
    _, port = await tunnel("engine.test", mutual=True)
    ca.cert_pem.write_to_path(tmp_path / "ca.pem")
    ca.issue_cert("gateway").private_key_and_cert_chain_pem.write_to_path(tmp_path / "client.pem")
    tls = {"ca": "./ca.pem", "cert": "./client.pem", "server_name": "engine.test"}
    stack = await start(replicas(port, tls))
    assert (await stack.chat()).status_code == 200


@pytest.mark.parametrize(
    ("name", "tls", "reason"),
    [
        ("localhost", {}, "its certificate is not trusted (unable to get local issuer certificate)"),
        ("localhost", {"ca": "./other.pem"}, "its certificate is not trusted (unable to get local issuer certificate)"),
        ("engine.test", {"ca": "./ca.pem"}, "its certificate is not trusted (it is for another name)"),
        (
            "engine.test",
            {"ca": "./ca.pem", "server_name": "other.test"},
            "its certificate is not trusted (it is for another name)",
        ),
    ],
)
async def test_a_replica_that_is_not_trusted_is_down_and_says_why(tunnel, ca, other_ca, tmp_path, caplog, name, tls, reason):
    """The wrong CA or name is a replica that is down, with the reason in the log and without an address or name of hers."""
    from gateway.build import build
    from gateway.config import parse
    from gateway.logs import NullLog

    _, port = await tunnel(name)
    ca.cert_pem.write_to_path(tmp_path / "ca.pem")
    other_ca.cert_pem.write_to_path(tmp_path / "other.pem")
    text = f"models: [{{name: m, tls: {tls or 'null'}, replicas: [{{name: r, url: 'https://localhost:{port}/v1'}}]}}]"
    parts = build(parse(text, tmp_path / "config.yaml"), NullLog())
    await parts.monitor.check_once()
    assert not parts.lanes["m"].pool.replicas[0].up
    (line,) = [record.message for record in caplog.records if record.name == "tiergate.health"]
    assert line == f"m/r is down: no connection: {reason}"
    await parts.fleet.close()


async def test_verification_can_be_switched_off(start, tunnel):
    """`verify: false` trusts whoever answers."""
    _, port = await tunnel("someone.test")
    stack = await start(replicas(port, {"verify": False}))
    assert (await stack.chat()).status_code == 200


def problems(path, tls="", models="[{name: m, replicas: [{name: r, url: 'https://h/v1'}]}]"):
    path.write_text(f"server:\n  tls: {tls or 'null'}\nmodels: {models}\n")
    with pytest.raises(ConfigError) as error:
        load(path, {})
    return [f"{problem.line}:{problem.path}: {problem.message}" for problem in error.value.errors]


def test_mistakes_in_files_are_errors_of_the_config(files, ca, tmp_path):
    """Missing, unreadable and mismatched files are found when the config is loaded, at their line."""
    path = tmp_path / "config.yaml"
    write(tmp_path, ca.issue_cert("localhost"))
    assert problems(path, "{cert: ./no.pem, key: ./key.pem}") == [f"2:server.tls.cert: no such file: {tmp_path}/no.pem"]
    assert problems(path, "{cert: ./cert.pem, key: .}") == [f"2:server.tls.key: no such file: {tmp_path}"]
    (tmp_path / "odd.pem").write_bytes(ca.issue_cert("x").private_key_pem.bytes())
    assert problems(path, "{cert: ./cert.pem, key: ./odd.pem}") == ["2:server.tls.key: the key is not the certificate's"]
    (tmp_path / "odd.pem").write_bytes(b"rubbish")
    (wrong,) = problems(path, "{cert: ./odd.pem, key: ./key.pem}")
    assert wrong.startswith("2:server.tls.cert: no certificate")
    (wrong,) = problems(path, "{cert: ./cert.pem, key: ./key.pem, client_ca: ./odd.pem}")
    assert wrong == "2:server.tls.client_ca: holds no CA certificate in PEM form"
    os.mkfifo(tmp_path / "pipe")
    assert problems(path, "{cert: ./pipe, key: ./key.pem}") == [f"2:server.tls.cert: no such file: {tmp_path}/pipe"]
    models = "[{name: m, replicas: [{name: r, url: 'https://h/v1', tls: {ca: ./no.pem}}]}]"
    assert problems(path, models=models) == [f"3:models[0].replicas[0].tls.ca: no such file: {tmp_path}/no.pem"]


def test_a_locked_key_needs_its_password(files, ca, tmp_path):
    """Nobody is asked on a terminal; the right password opens it."""
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        PrivateFormat,
        load_pem_private_key,
    )

    path, key = tmp_path / "config.yaml", load_pem_private_key((tmp_path / "key.pem").read_bytes(), None)
    (tmp_path / "key.pem").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"sesame")))
    for password in ("", ", key_password: wrong"):
        (wrong,) = problems(path, f"{{cert: ./cert.pem, key: ./key.pem{password}}}")
        assert wrong.startswith("2:server.tls.key_password: the key's password is missing or wrong")
    path.write_text("server: {tls: {cert: ./cert.pem, key: ./key.pem, key_password: sesame}}\n"
                    "models: [{name: m, replicas: [{name: r, url: 'http://h/v1'}]}]")  # fmt: skip
    tls = load(path, {}).server.tls
    assert Certificate(tls).context.minimum_version >= ssl.TLSVersion.TLSv1_2
    with pytest.raises(TlsError):
        Certificate(ServerTls(cert=tmp_path / "no", key=tmp_path / "no"))
