"""What can be made to go wrong, and that it goes wrong in just that way."""

import asyncio
import json

import httpx
import pytest
from fake_talk import Wire, events, talk, texts

from gateway.lab.fake import FakeVLLM, Options

USAGE = {"stream_options": {"include_usage": True}}


async def test_status_with_body_and_headers(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """A status fault answers at once with its body and its headers, and heals after its times."""
    fake.faults.add(status=429, body={"error": "slow down"}, headers={"Retry-After": "7"}, times=1)
    answer = await client.post(f"{fake.url}/chat/completions", json=talk())
    assert (answer.status_code, answer.json(), answer.headers["retry-after"]) == (429, {"error": "slow down"}, "7")
    assert (await client.post(f"{fake.url}/chat/completions", json=talk())).status_code == 200
    fake.faults.add(status=500)
    answer = await client.post(f"{fake.url}/completions", json={"model": "fake", "prompt": "x"})
    assert answer.json()["error"]["code"] == 500
    assert (await client.get(f"{fake.url}/models")).status_code == 200


async def test_a_text_body_goes_out_as_it_is(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """A string body is sent as it is, with the content type that the fault names."""
    fake.faults.add(status=502, body="<html>bad gateway</html>", headers={"content-type": "text/html"})
    answer = await client.post(f"{fake.url}/chat/completions", json=talk())
    assert answer.text == "<html>bad gateway</html>"
    assert answer.headers["content-type"] == "text/html"


async def test_a_path_aims_a_fault(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """With `path` a fault is for those paths alone, whatever the method."""
    fake.faults.add(status=500, path="/v1/models")
    assert (await client.get(f"{fake.url}/models")).status_code == 500
    assert (await client.post(f"{fake.url}/chat/completions", json=talk())).status_code == 200


async def test_unhealthy_is_for_health_alone(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """`unhealthy` makes /health a 503 and leaves the rest well."""
    fake.faults.add(unhealthy=True, times=2)
    assert [(await client.get(f"{fake.root}/health")).status_code for _ in range(3)] == [503, 503, 200]
    fake.faults.add(unhealthy=True)
    assert (await client.post(f"{fake.url}/chat/completions", json=talk())).status_code == 200


@pytest.mark.parametrize("reset", [False, True])
async def test_close_before_headers(fake: FakeVLLM, reset: bool) -> None:
    """The request is read and the connection closed without a byte, as an end of file or as a reset."""
    fake.faults.add(close_before_headers=True, reset=reset, times=1)
    async with Wire(fake) as wire:
        wire.post(talk())
        if reset:
            with pytest.raises(ConnectionResetError):
                await wire.rest()
        else:
            assert await wire.rest() == b""
    assert fake.calls[0].status is None
    assert not fake.calls[0].aborted


async def test_hang_before_headers(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """`true` hangs until the client leaves; a number is seconds."""
    fake.faults.add(hang_before_headers=True, times=1)
    with pytest.raises(httpx.ReadTimeout):
        await client.post(f"{fake.url}/chat/completions", json=talk(stream=True), timeout=0.05)
    await fake.until(lambda: fake.calls[0].aborted)
    assert fake.calls[0].status is None
    fake.faults.add(hang_before_headers=0.01, times=1)
    assert (await client.post(f"{fake.url}/chat/completions", json=talk())).status_code == 200


async def test_hang_before_first_token(fake: FakeVLLM) -> None:
    """The head of the stream comes, and nothing after it."""
    fake.faults.add(hang_before_first_token=True)
    async with Wire(fake) as wire:
        wire.post(talk(stream=True))
        assert "200 OK" in await wire.head()
        assert fake.engine.running == 1
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(wire.chunk(), 0.05)
    await fake.until(lambda: fake.engine.running == 0)
    assert fake.calls[0].tokens == 0


@pytest.mark.parametrize("reset", [False, True])
async def test_cut_in_a_stream(fake: FakeVLLM, reset: bool) -> None:
    """After N tokens the connection ends: no last chunk, no `[DONE]`, and the place is given back."""
    fake.faults.add(cut_after_tokens=3, reset=reset)
    async with Wire(fake) as wire:
        wire.post(talk(stream=True))
        await wire.head()
        chunks = [await wire.chunk() for _ in range(4)]
        assert all(chunk.endswith(b"}\n\n") for chunk in chunks)
        if reset:
            with pytest.raises(ConnectionResetError):
                assert await wire.rest() == b"x"
        else:
            assert await wire.rest() == b""
    assert fake.calls[0].tokens == 3
    assert fake.engine.running == 0


async def test_cut_before_the_first_token(fake: FakeVLLM) -> None:
    """A cut after no token leaves the head alone."""
    fake.faults.add(cut_after_tokens=0)
    async with Wire(fake) as wire:
        wire.post(talk(stream=True))
        await wire.head()
        assert await wire.rest() == b""


async def test_cut_in_a_json_answer(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """A whole answer is cut in the middle of the body that its length promised."""
    fake.faults.add(cut_after_tokens=1)
    with pytest.raises(httpx.RemoteProtocolError):
        await client.post(f"{fake.url}/chat/completions", json=talk())
    async with Wire(fake) as wire:
        wire.post(talk())
        length = int((await wire.head()).partition("content-length: ")[2].split()[0])
        assert 0 < len(await wire.rest()) < length


async def test_error_in_a_stream(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """The error event stands first, or after N tokens, and vLLM's `[DONE]` behind it."""
    fake.faults.add(error_in_stream=True, times=1)
    error, done = events((await client.post(f"{fake.url}/chat/completions", json=talk(stream=True))).text)
    assert error == {"error": {"message": "Internal server error", "type": "InternalServerError", "param": None, "code": 500}}
    assert done == "[DONE]"
    fake.faults.add(error_in_stream={"after": 2, "error": {"message": "no", "type": "Oops", "code": 503}}, drop_done=True)
    *chunks, error = events((await client.post(f"{fake.url}/chat/completions", json=talk(stream=True))).text)
    assert len(chunks) == 3
    assert error["error"] == {"message": "no", "type": "Oops", "param": None, "code": 503}
    answer = await client.post(f"{fake.url}/chat/completions", json=talk())
    assert (answer.status_code, answer.json()["error"]["message"]) == (503, "no")
    assert fake.metrics.success["error"] == 3


async def test_a_malformed_chunk_in_a_good_stream(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """One event is no JSON; everything else is there."""
    fake.faults.add(malformed_chunk=2)
    text = (await client.post(f"{fake.url}/chat/completions", json=talk("[[say: one two three]]", stream=True))).text
    parts = text.split("\n\n")[:-1]
    assert parts[-1] == "data: [DONE]"
    good = []
    broken = []
    for part in parts[:-1]:
        try:
            good.append(json.loads(part[6:]))
        except ValueError:
            broken.append(part)
    assert len(broken) == 1
    assert texts(good) == "one two three"


async def test_drop_done_and_usage_missing(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """`[DONE]` and the usage can each be left out, the usage of whole answers too."""
    fake.faults.add(drop_done=True, usage_missing=True, times=2)
    chunks = events((await client.post(f"{fake.url}/chat/completions", json=talk(stream=True, **USAGE))).text)
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
    assert "usage" not in (await client.post(f"{fake.url}/chat/completions", json=talk())).json()
    fake.faults.add(usage_missing=True)
    assert "usage" not in (await client.post(f"{fake.url}/embeddings", json={"model": "fake", "input": "x"})).json()


async def test_usage_on_the_last_content_chunk(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """The usage rides on the chunk with the finish reason, and no chunk is without choices."""
    fake.faults.add(usage_on_content_chunk=True)
    for path, body in (("chat/completions", talk()), ("completions", {"model": "fake", "prompt": "x"})):
        *chunks, last, _ = events((await client.post(f"{fake.url}/{path}", json=body | {"stream": True} | USAGE)).text)
        assert last["choices"][0]["finish_reason"] in ("stop", "length")
        assert last["usage"]["completion_tokens"] == 16
        assert not any("usage" in chunk for chunk in chunks)


async def test_split_cuts_the_body_into_pieces(fake: FakeVLLM) -> None:
    """Events come in chunks of N bytes; put together they are the same."""
    fake.faults.add(split=7)
    async with Wire(fake) as wire:
        wire.post(talk("[[say: 你好 there]]", stream=True))
        await wire.head()
        chunks = []
        while chunk := await wire.chunk():
            chunks.append(chunk)
    assert max(map(len, chunks)) == 7
    assert texts(events(b"".join(chunks).decode())) == "你好 there"


async def test_slow_paces_an_instant_server(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """`slow` spreads the tokens of a server that is instant otherwise."""
    fake.faults.add(slow=0.01)
    await client.post(f"{fake.url}/chat/completions", json=talk(stream=True, max_tokens=3))
    await client.post(f"{fake.url}/chat/completions", json=talk(max_tokens=3))
    for entry in fake.calls:
        assert entry.tokens == 3
        assert entry.ended_at is not None
        assert entry.ended_at - entry.time >= 0.02


async def test_faults_over_http(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """POST adds one or many, GET shows them, DELETE clears them; an unknown one adds nothing and says so."""
    where = f"{fake.root}/fake/faults"
    assert (await client.post(where, json={"status": 500, "times": 2})).json() == [{"status": 500, "times": 2}]
    assert (await client.post(where, json=[{"drop_done": True}, {"slow": 0.5}])).status_code == 200
    await client.post(f"{fake.url}/chat/completions", json=talk())
    assert (await client.get(where)).json() == [{"status": 500, "times": 1}, {"drop_done": True}, {"slow": 0.5}]
    for wrong in ({"explode": True}, [{"slow": 1}, 7], "text"):
        answer = await client.post(where, json=wrong)
        assert answer.status_code == 400
        assert "unknown fault" in answer.json()["error"]
    assert (await client.post(where, content=b"{")).status_code == 400
    assert len((await client.get(where)).json()) == 3
    assert (await client.delete(where)).json() == []
    assert (await client.post(f"{fake.url}/chat/completions", json=talk())).status_code == 200
    assert len(fake.log) == 2  # the fake's own endpoints are not in the log


async def test_faults_outlive_a_restart(client: httpx.AsyncClient) -> None:
    """Rules and log go on when the server is stopped and started again."""
    async with FakeVLLM(Options()) as fake:
        fake.faults.add(status=500)
        await client.post(f"{fake.url}/chat/completions", json=talk())
        await fake.stop()
        await fake.start()
        assert (await client.post(f"{fake.url}/chat/completions", json=talk())).status_code == 500
        assert len(fake.calls) == 2
