"""The channel, before servers that misbehave; a real one is in tests/gateway."""

import asyncio
import random
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest

pytest.importorskip("redis", reason="the extra `redis` is not installed")
from caches.redis.bus import Bus
from gateway.between.share import _Company

SUBSCRIBED = b"*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n"


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    for name, seconds in (("_ANSWER", 0.05), ("_SILENCE", 0.2), ("_CONNECT", 0.2), ("_PAUSES", (0.01, 0.02))):
        monkeypatch.setattr(f"caches.redis.bus.{name}", seconds)


@asynccontextmanager
async def server(answers):
    """Says to each command what `answers` has for its name, else OK; counts who subscribed."""
    came = []

    async def serve(reader, writer):
        while data := await reader.read(65536):
            for name in (b"SUBSCRIBE", b"PUBLISH"):
                if name in data:
                    came.append(name)
                    writer.write(answers.get(name, b""))
                    break
            else:
                writer.write(b"+OK\r\n" * data.count(b"*"))
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield listening.sockets[0].getsockname()[1], came
    finally:
        listening.close()
        await listening.wait_closed()


@pytest.mark.parametrize(
    "answers",
    [
        {},
        {b"SUBSCRIBE": SUBSCRIBED},
        {b"SUBSCRIBE": SUBSCRIBED, b"PUBLISH": b"+what\r\n"},
        {b"SUBSCRIBE": SUBSCRIBED, b"PUBLISH": b"-NOPERM no permissions\r\n"},
        {b"SUBSCRIBE": SUBSCRIBED + b"$5\r\nhello\r\n", b"PUBLISH": b":1\r\n"},
        {b"SUBSCRIBE": b"-NOAUTH\r\n"},
        {b"SUBSCRIBE": b"HTTP/1.1 400 Bad Request\r\n\r\n"},
    ],
    ids=["silent", "says nothing to what is said", "nonsense", "forbids", "what is no message", "wants a password", "no Redis"],
)
async def test_what_cannot_be_heard_is_told_once(answers, caplog):
    """Whatever the server does: it is tried again and again, with one line in the log, and speaking raises nothing."""
    heard = []
    async with server(answers) as (port, came):
        bus = Bus(f"redis://127.0.0.1:{port}", "c", heard.append, random.Random(1))
        running = asyncio.ensure_future(bus.run())
        async with asyncio.timeout(20):
            while came.count(b"SUBSCRIBE") < 4:
                await bus.say(b"hello")
                await asyncio.sleep(0.005)
        assert bus.away
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert heard == []
    assert len([record for record in caplog.records if "are not heard" in record.message]) == 1
    assert not [record for record in caplog.records if "heard again" in record.message]


async def test_what_was_placed_waits_for_those_who_listened_before():
    """After each connection anew, however short the cut: until as many listen as did, or have had three seconds for it."""
    company, channel = _Company(), SimpleNamespace(connected=1, listeners=0)
    assert company.there(channel, 0.0)
    channel.listeners = 3
    assert company.there(channel, 1.0)
    channel.connected, channel.listeners = 2, 0
    assert not company.there(channel, 1.02)
    channel.listeners = 2
    assert not company.there(channel, 3.9)
    assert company.there(channel, 4.1)
    channel.connected, channel.listeners = 3, 2
    assert company.there(channel, 5.0)
