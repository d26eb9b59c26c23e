"""Connections, departures, the log, stopping and starting: the server as its peers see it."""

import asyncio
import hashlib
import json
import signal

import httpx
import pytest
from fake_talk import Wire, events, talk

from gateway.lab.fake import FakeVLLM, Options
from gateway.lab.fake.log import KEPT, Log


async def test_a_connection_is_used_again(fake: FakeVLLM) -> None:
    """Keep-alive: one connection serves whole answers and streams, one after the other and pipelined."""
    async with Wire(fake) as wire:
        for _ in range(2):
            wire.post(talk())
            length = int((await wire.head()).partition("content-length: ")[2].split()[0])
            json.loads(await wire.reader.readexactly(length))
        wire.post(talk(stream=True))
        wire.post(talk())
        await wire.head()
        while await wire.chunk():
            pass
        assert "content-length" in await wire.head()
        assert fake.app.connections() == 1


async def test_an_idle_connection_is_closed_after_five_seconds(fake: FakeVLLM) -> None:
    """The keep-alive timer is armed after an answer, at vLLM's five seconds."""
    async with Wire(fake) as wire:
        wire.post(talk())
        await wire.head()
        await wire.reader.readuntil(b"}")
        (connection,) = fake.app.state.connections
        timer = connection.timeout_keep_alive_task  # type: ignore[union-attr]
        assert timer is not None
        assert 4.0 < timer.when() - asyncio.get_running_loop().time() <= 5.01


async def test_http_1_0_and_connection_close(fake: FakeVLLM) -> None:
    """A peer that wants no keep-alive is told so and the connection ends."""
    async with Wire(fake) as wire:
        wire.writer.write(b"GET /version HTTP/1.0\r\n\r\n")
        answer = await wire.rest()
        assert b"connection: close" in answer
        assert answer.endswith(b'{"version":"0.32.0"}')


async def test_what_is_no_http_is_refused(fake: FakeVLLM) -> None:
    """Noise is answered with uvicorn's 400 and a close."""
    async with Wire(fake) as wire:
        wire.writer.write(b"\x16\x03\x01 noise\r\n\r\n")
        assert (await wire.rest()).startswith(b"HTTP/1.1 400 ")


async def test_headers_are_vllms(client: httpx.AsyncClient) -> None:
    """Every answer varies by origin but that to a wrong key; `allow` comes first; a slash too many leads to the right place."""
    async with FakeVLLM(Options(api_key="k")) as fake:
        key = {"authorization": "Bearer k"}
        listed = await client.get(f"{fake.url}/models", headers=key)
        assert list(listed.headers)[-3:] == ["content-length", "content-type", "vary"]
        assert "vary" not in (await client.get(f"{fake.url}/models")).headers
        wrong = await client.get(f"{fake.url}/chat/completions", headers=key)
        assert list(wrong.headers)[-4:] == ["allow", "content-length", "content-type", "vary"]
        moved = await client.get(f"{fake.url}/models/?a=b", headers=key)
        assert (moved.status_code, moved.content) == (307, b"")
        assert moved.headers["location"] == f"{fake.url}/models?a=b"


async def test_a_departure_aborts_a_stream() -> None:
    """When the client leaves a stream, generation stops: aborted in the log, some tokens counted, the place free."""
    async with FakeVLLM(Options(itl=0.002, tokens=5000)) as fake:
        async with Wire(fake) as wire:
            wire.post(talk(stream=True))
            await wire.head()
            for _ in range(3):
                await wire.chunk()
        await fake.until(lambda: fake.engine.running == 0)
        (entry,) = fake.calls
        assert entry.aborted
        assert 2 <= entry.tokens < 5000
        assert entry.first_token_at is not None
        assert entry.ended_at is not None
        assert not any(fake.metrics.success.values()), "vLLM does not count whose client has left"
        assert fake.metrics.generation_tokens == entry.tokens


async def test_a_departure_aborts_a_whole_answer() -> None:
    """Leaving an answer that is not streamed stops it as well; the tokens made by then are counted."""
    async with FakeVLLM(Options(itl=0.001, tokens=60_000, max_model_len=200_000)) as fake:
        async with Wire(fake) as wire:
            wire.post(talk())
            await fake.until(lambda: fake.engine.running == 1)
        await fake.until(lambda: fake.engine.running == 0)
        (entry,) = fake.calls
        assert (entry.aborted, entry.status) == (True, None)
        assert 0 < entry.tokens < 60_000


async def test_a_departure_within_the_body_is_no_request(fake: FakeVLLM) -> None:
    """A client that leaves before its body is complete never was."""
    async with Wire(fake) as wire:
        wire.writer.write(b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: 1000\r\n\r\n{")
        await fake.until(lambda: fake.app.connections() == 1)
    await fake.until(lambda: fake.app.connections() == 0)
    assert fake.calls == []


async def test_tokens_come_at_their_pace() -> None:
    """With a ttft and an itl the events come one by one, not earlier than they are due."""
    async with FakeVLLM(Options(ttft=0.02, itl=0.01, prefill=0.0001)) as fake, Wire(fake) as wire:
        loop = asyncio.get_running_loop()
        began = loop.time()
        wire.post(talk(stream=True, max_tokens=3))
        await wire.head()
        times = []
        while await wire.chunk():
            times.append(loop.time() - began)
        assert times[1] >= 0.02
        assert times[2] >= 0.03
        assert times[3] >= 0.04


async def test_the_log_keeps_what_came(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """Headers, body, status, tokens and times of each request, in Python and over HTTP; DELETE clears."""
    await client.post(f"{fake.url}/chat/completions", json=talk(max_tokens=3), headers={"X-Tenant": "acme"})
    await client.post(f"{fake.url}/chat/completions", content=b"{", headers={"content-type": "application/json"})
    await client.get(f"{fake.root}/health")
    good, bad, health = fake.log
    assert (good.status, good.tokens, good.aborted, good.headers["x-tenant"]) == (200, 3, False, "acme")
    assert good.time <= (good.first_token_at or 0) <= (good.ended_at or 0)
    assert good.prompt_tokens > 0
    assert (good.request_id or "").startswith("chatcmpl-")
    assert (bad.status, bad.body, bad.text) == (400, None, "{")
    assert (health.path, health.status) == ("/health", 200)
    assert [entry.id for entry in fake.calls] == [1, 2]
    shown = (await client.get(f"{fake.root}/fake/log?path=chat")).json()
    assert [entry["status"] for entry in shown] == [200, 400]
    assert shown[0]["body"] == talk(max_tokens=3)
    assert ["x-tenant", "acme"] in shown[0]["headers"]
    assert (await client.delete(f"{fake.root}/fake/log")).json() == []
    assert fake.log == []


def test_the_log_is_bounded() -> None:
    """Only the last entries are kept, in number and in bytes, and long bodies as their start, size and hash."""
    log = Log()
    for _ in range(KEPT + 5):
        log.add(0.0, "POST", "/v1/x", [], b"{}")
    assert len(log) == KEPT
    assert next(iter(log)).id == 6
    big = b"x" * 200_000
    entry = log.add(0.0, "POST", "/v1/x", [], big)
    assert (len(entry.raw), entry.size, entry.sha256) == (65536, 200_000, hashlib.sha256(big).hexdigest())
    for _ in range(2000):
        log.add(0.0, "POST", "/v1/x", [], big)
    assert len(log) == 1024


async def test_stop_is_abrupt_and_the_port_is_kept(client: httpx.AsyncClient) -> None:
    """Stopping drops every connection and refuses new ones; started again it answers on the same port, with nothing running."""
    fake = FakeVLLM(Options(itl=0.01, tokens=1000))
    await fake.start()
    port = fake.port
    async with Wire(fake) as wire:
        wire.post(talk(stream=True))
        await wire.head()
        await wire.chunk()
        await fake.stop()
        try:
            rest = await wire.rest()
        except ConnectionError:
            rest = b""
        assert not rest.endswith(b"0\r\n\r\n")
        with pytest.raises(httpx.ConnectError):
            await client.get(f"{fake.root}/health")
        await fake.stop()
        await fake.start()
        assert fake.port == port
        assert (await client.get(f"{fake.root}/health")).status_code == 200
        assert fake.engine.running == 0
        assert fake.calls[0].aborted
        await fake.stop()


async def test_signals_are_left_alone() -> None:
    """A fake in a process does not touch its signal handlers."""
    before = [signal.getsignal(name) for name in (signal.SIGINT, signal.SIGTERM)]
    async with FakeVLLM():
        assert [signal.getsignal(name) for name in (signal.SIGINT, signal.SIGTERM)] == before


async def test_many_fakes_at_once(client: httpx.AsyncClient) -> None:
    """Several fakes live in one loop, each on its port, none knowing of the others."""
    async with FakeVLLM(Options(models=("a",))) as one, FakeVLLM(Options(models=("b",))) as two:
        assert one.port != two.port
        assert (await client.post(f"{one.url}/chat/completions", json=talk() | {"model": "b"})).status_code == 404
        assert (await client.post(f"{two.url}/chat/completions", json=talk() | {"model": "b"})).status_code == 200
        assert (len(one.calls), len(two.calls)) == (1, 1)


async def test_a_slow_reader_holds_up_its_own_stream_only(client: httpx.AsyncClient) -> None:
    """A stream that nobody reads stops at the socket's buffers; others go on."""
    async with FakeVLLM(Options(max_model_len=1_000_000, kv_blocks=100_000, tokens=200_000)) as fake, Wire(fake) as wire:
        wire.writer.transport.pause_reading()  # type: ignore[attr-defined]
        wire.post(talk(stream=True))
        await fake.until(lambda: fake.engine.running == 1)
        answer = await client.post(f"{fake.url}/chat/completions", json=talk(max_tokens=2))
        assert answer.status_code == 200
        assert fake.engine.running == 1
        assert fake.app.connections() == 2


async def test_state(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """/fake/state tells what runs, what waits, and what was made."""
    await client.post(f"{fake.url}/chat/completions", json=talk(max_tokens=3))
    state = (await client.get(f"{fake.root}/fake/state")).json()
    assert (state["running"], state["waiting"], state["generation_tokens"], state["connections"]) == (0, 0, 3, 1)


async def test_until_gives_up(fake: FakeVLLM) -> None:
    """A condition that never holds ends in a TimeoutError."""
    with pytest.raises(TimeoutError):
        await fake.until(lambda: False, 0.01)


async def test_a_hundred_streams_at_once(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """Many streams at once each say what they were asked to."""

    async def one(at: int) -> str:
        answer = await client.post(f"{fake.url}/chat/completions", json=talk(f"[[say: number {at}]]", stream=True))
        return "".join(chunk["choices"][0]["delta"]["content"] for chunk in events(answer.text)[:-1])

    assert await asyncio.gather(*map(one, range(100))) == [f"number {at}" for at in range(100)]
