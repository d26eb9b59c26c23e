"""The doctor and where engines are to publish what they cache."""

import asyncio
import socket
from contextlib import asynccontextmanager

import pytest
from doctor_talk import config
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.doctor.events import ask

zmq = pytest.importorskip("zmq", reason="the extra `precise` is not installed")
GREETING = b"\xff" + bytes(8) + b"\x7f\x03\x01" + b"NULL".ljust(20, b"\0") + bytes(32)


@pytest.fixture
def sockets():
    """`sockets("PUB")` → the port of a real ZeroMQ socket."""
    context, kept = zmq.Context(), []

    def bound(kind):
        kept.append(context.socket(getattr(zmq, kind)))
        return kept[-1].bind_to_random_port("tcp://127.0.0.1")

    yield bound
    context.destroy(linger=0)


@asynccontextmanager
async def saying(data):
    """A server that says that to everybody, and ends the connection."""

    async def answer(_reader, writer):
        writer.write(data)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


def heard(url, events, replay):
    """A config with one replica whose engine is heard at these ports."""
    tree = config(url, url.replace("127.0.0.1", "localhost"), model={"balance": {"precise": {}}})
    tree["models"][0]["replicas"].pop()
    tree["models"][0]["replicas"][0] |= {"events": f"tcp://127.0.0.1:{events}", "replay": f"tcp://localhost:{replay}"}
    return tree


async def test_sockets_that_are_as_they_should_be(doctor, fake, sockets):
    """An engine that publishes and replays is no finding, and the replica's own line stays."""
    url = (await fake()).url
    lines = await doctor(heard(url, sockets("PUB"), sockets("ROUTER")))
    assert doctor.bad == []
    assert any(line.key == "models[0].replicas[0].url" for line in lines)
    await doctor(heard(url, sockets("XPUB"), sockets("ROUTER")))
    assert doctor.bad == []


async def test_sockets_that_are_exchanged(doctor, fake, sockets):
    """Both are told of, each with what listens there."""
    await doctor(heard((await fake()).url, sockets("ROUTER"), sockets("PUB")))
    told = [(line.key, line.what) for line in doctor.bad]
    assert told == [
        ("models[0].replicas[0].events", "what listens there is a ROUTER socket: a PUB socket is expected"),
        ("models[0].replicas[0].replay", "what listens there is a PUB socket: a ROUTER socket is expected"),
    ]


async def test_nobody_there(doctor, fake, sockets):
    """A closed port, and one that takes connections and says nothing, within the question's own time."""
    with socket.create_server(("127.0.0.1", 0)) as silent, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        await doctor(heard((await fake()).url, closed.getsockname()[1], silent.getsockname()[1]), timeout=1.0)
    events, replay = doctor.bad
    assert events.key.endswith("events")
    assert "replica r0: no connection: " in events.what
    assert "--kv-events-config" in events.mend
    assert replay.what == "replica r0: no ZeroMQ handshake within 1 s"


@pytest.mark.parametrize(
    ("data", "trouble"),
    [
        (b"", "the connection ended before a ZeroMQ handshake"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "what listens there speaks no ZeroMQ (ZMTP 3)"),
        (GREETING.replace(b"NULL\0", b"CURVE"), "it wants the security CURVE, which the gateway has not"),
        (GREETING, "the connection ended before a ZeroMQ handshake"),
        (GREETING + b"\x04\x05\x04NOPE", "it does not say what kind of ZeroMQ socket it is"),
    ],
)
async def test_what_is_no_zeromq(data, trouble):
    """Each has its own words."""
    async with saying(data) as port:
        assert (await ask(f"tcp://127.0.0.1:{port}", 5.0)).trouble == trouble


@settings(max_examples=30, deadline=None)
@given(st.binary(max_size=120), st.booleans())
async def test_whatever_is_said(data, greets):
    """Any bytes are a kind of socket or a trouble of one line."""
    async with saying(GREETING + data if greets else data) as port:
        facts = await ask(f"tcp://127.0.0.1:{port}", 5.0)
    assert bool(facts.kind) != bool(facts.trouble)
    assert (facts.kind + facts.trouble).isprintable()


async def test_an_address_of_a_file(tmp_path):
    """`ipc` is asked in the same way; where there is no such file it says so."""
    assert "no connection" in (await ask(f"ipc://{tmp_path}/none", 5.0)).trouble
    context = zmq.Context()
    publisher = context.socket(zmq.PUB)
    publisher.bind(f"ipc://{tmp_path}/s")
    assert (await ask(f"ipc://{tmp_path}/s", 5.0)).kind == "PUB"
    context.destroy(linger=0)
