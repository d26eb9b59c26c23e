"""The provider backend without the library: what it is asked, what becomes of what it gives, and every way out."""

import asyncio
import gc
import json

import pytest
from provider_talk import MESSAGES, SECRET, Stream, answering, client_of, deadlines, delta, request, streamed

from backends.errors import BadResponse, ConnectFailed, ConnectionBroken, UpstreamTimeout
from backends.litellm.client import LiteLLMClient
from backends.litellm.library import Library, Loaded

DONE = b"data: [DONE]\n\n"


def events(data):
    return [json.loads(event[6:]) for event in data.split(b"\n\n") if event and event != DONE.strip()]


async def everything(answer):
    pieces = [await answer.first()]
    await answer.relay(pieces.append)
    return b"".join(pieces)


async def test_a_whole_answer():
    """A dict becomes the JSON body of a 200; the operator's arguments are given beside the request's own."""
    seen = []

    async def complete(operation, arguments):
        seen.append((operation, arguments))
        return {"object": "chat.completion", "choices": []}

    async with request(client_of(complete, params={"api_version": "v9"})) as answer:
        assert (answer.status, answer.complete, dict(answer.headers)) == (200, True, {b"content-type": b"application/json"})
        assert json.loads(await answer.read(1000)) == {"object": "chat.completion", "choices": []}
    assert seen == [
        ("chat", {"messages": MESSAGES, "model": "openai/gpt-x", "api_key": SECRET, "drop_params": True, "api_version": "v9",
                  "connect": 3.0, "total": 290.0})
    ]  # fmt: skip


async def test_a_stream():
    """Chunks become events in order, each with a finish_reason, and a stream with a reason to finish ends with `[DONE]`."""
    stream = Stream(delta("a"), delta("b"), delta(finish="stop"))
    async with request(client_of(answering(stream)), streamed()) as answer:
        assert (answer.status, dict(answer.headers)[b"content-type"][:17]) == (200, b"text/event-stream")
        data = await everything(answer)
        assert answer.complete
    assert data.endswith(DONE)
    assert [event["choices"][0]["finish_reason"] for event in events(data)] == [None, None, "stop"]
    assert stream.closed


async def test_usage_travels_alone():
    """Usage that rides on a chunk with content, or with an empty choice, becomes a chunk without choices."""
    usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    stream = Stream(delta("a"), delta(finish="stop", usage=usage), delta(usage=usage))
    async with request(client_of(answering(stream)), streamed()) as answer:
        found = events(await everything(answer))
    assert [(len(event["choices"]), event.get("usage")) for event in found] == [(1, None), (1, None), (0, usage), (0, usage)]


async def test_a_stream_that_merely_ends_has_no_done():
    """Without a reason to finish nothing says that the answer is whole, so nothing is made up."""
    async with request(client_of(answering(Stream(delta("a")))), streamed()) as answer:
        assert DONE not in await everything(answer)


async def test_an_empty_stream():
    """No chunk at all is an empty body, which the caller knows as a failure."""
    async with request(client_of(answering(Stream())), streamed()) as answer:
        assert await answer.first() == b""
        assert answer.complete


@pytest.mark.parametrize("steps", [(), (delta("a"),)])
async def test_a_failure_of_a_stream(steps):
    """Before the first chunk it is an answer with a status or a failed request, after it a broken connection."""
    stream = Stream(*steps, RuntimeError(f"with {SECRET}"))
    async with request(client_of(answering(stream)), streamed()) as answer:
        if not steps:
            assert answer.status == 501
            assert SECRET.encode() not in await answer.read(1000)
        else:
            assert await answer.first()
            with pytest.raises(ConnectionBroken) as caught:
                await answer.relay(lambda piece: None)
            assert SECRET not in str(caught.value)
            assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    assert stream.closed


@pytest.mark.parametrize("error", [ConnectFailed("no"), UpstreamTimeout("connect", sent=False)])
async def test_a_failed_connection_is_raised(error):
    """What says that no answer came reaches the caller as it is."""
    with pytest.raises(type(error)):
        async with request(client_of(answering(error))):
            pass


@pytest.mark.parametrize("stream", [False, True])
async def test_the_deadline_before_an_answer(stream):
    """A library that is silent is left when the first token is due, or in all; what it began is ended."""
    never, chunks = asyncio.Event(), Stream(asyncio.Event())

    async def complete(operation, arguments):
        if not stream:
            await never.wait()
        return chunks

    client = client_of(complete)
    await client.library.loaded()
    within = deadlines(first_token=0.01) if stream else deadlines(total=0.01)
    with pytest.raises(UpstreamTimeout) as caught:
        async with request(client, streamed() if stream else None, within=within):
            pass
    assert (caught.value.phase, caught.value.sent) == ("first_token" if stream else "total", True)
    assert chunks.closed is stream


@pytest.mark.parametrize("phase", ["between_tokens", "total"])
async def test_the_deadlines_of_a_stream(phase):
    """A stream that falls silent, or goes on too long, is ended with the deadline's name."""
    stream = Stream(delta("a"), asyncio.Event())
    within = deadlines(between_tokens=0.01 if phase == "between_tokens" else 30.0)
    async with request(client_of(answering(stream)), streamed(), within=within) as answer:
        await answer.first()
        if phase == "total":
            within.total_at = asyncio.get_running_loop().time()
        with pytest.raises(UpstreamTimeout) as caught:
            await answer.first()
    assert caught.value.phase == phase
    assert stream.closed


async def test_a_paused_answer_takes_nothing():
    """While it is paused the library is not asked for more; then it goes on where it stopped."""
    stream = Stream(*[delta(str(number)) for number in range(5)], delta(finish="stop"))
    pieces, paused = [], asyncio.Event()

    def sink(piece):
        pieces.append(piece)
        if len(pieces) == 2:
            answer.pause()
            paused.set()

    async with request(client_of(answering(stream)), streamed()) as answer:
        relay = asyncio.create_task(answer.relay(sink))
        await paused.wait()
        for _ in range(5):
            await asyncio.sleep(0)
        assert (len(pieces), stream.taken) == (2, 2)
        answer.resume()
        await relay
    assert pieces[-1] == DONE


async def test_a_paused_answer_is_not_kept_for_ever():
    """Only the deadline in all runs while it is paused, and that ends it."""
    within = deadlines(between_tokens=1e-9)
    async with request(client_of(answering(Stream(delta("a"), delta("b")))), streamed(), within=within) as answer:
        await answer.first()
        answer.pause()
        within.total_at = asyncio.get_running_loop().time() + 0.02
        with pytest.raises(UpstreamTimeout) as caught:
            await answer.first()
    assert caught.value.phase == "total"


@pytest.mark.parametrize("where", ["before", "within"])
async def test_leaving_closes_the_stream(where):
    """A caller that is cancelled, before the first chunk or after it, leaves no stream open."""
    waiting = asyncio.Event()
    stream = Stream(waiting) if where == "before" else Stream(delta("a"), waiting)

    async def call():
        async with request(client_of(answering(stream)), streamed()) as answer:
            await answer.relay(lambda piece: None)

    task = asyncio.create_task(call())
    while stream.taken < len(stream.steps):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert stream.closed


async def test_a_stream_that_will_not_close_is_left():
    """What goes wrong while it is closed changes nothing for the caller."""

    class Bad(Stream):
        async def aclose(self):
            raise RuntimeError

    async with request(client_of(answering(Bad(delta("a"), delta("b")))), streamed()) as answer:
        assert await answer.first()


async def test_a_body_over_the_limit():
    """It is a bad response, whole or streamed."""
    for result, body in (({"choices": ["x" * 100]}, None), (Stream(*[delta("x" * 20)] * 5), streamed())):
        async with request(client_of(answering(result)), body) as answer:
            with pytest.raises(BadResponse):
                await answer.read(50)


@pytest.mark.parametrize("broken", [{"choices": [object()]}, {"choices": {1j: 1}}])
async def test_what_is_no_json_is_no_answer(broken):
    """A value that cannot be written is the library's fault, told as such."""
    async with request(client_of(answering(broken))) as answer:
        assert answer.status == 501


async def test_another_endpoint_is_not_found():
    """What the library is not used for is a 404, which says that the configuration is wrong."""
    async with request(client_of(answering({})), path="/rerank") as answer:
        assert answer.status == 404


async def test_a_bad_request_does_not_reach_the_library():
    """It is a 400 of ours that names the field."""
    async with request(client_of(answering(AssertionError())), {"messages": "hi"}) as answer:
        error = json.loads(await answer.read(1000))["error"]
    assert (answer.status, error["param"], error["code"]) == (400, "messages", "invalid_value")


async def test_health_costs_nothing():
    """It is asked of the library alone: is it there, and does it know the provider?"""
    for knows, status in ((True, 200), (False, 503)):
        client = client_of(answering(AssertionError("a request was made")), knows=lambda model, knows=knows: knows)
        async with request(client, path="/health", method="GET") as answer:
            assert answer.status == status
        async with request(client, path="/metrics", method="GET") as answer:
            assert answer.status == 404
        await client.resolve()


async def test_an_unknown_provider_is_told_once(caplog):
    """The operator reads what to mend, not at every check."""
    client = client_of(answering({}), knows=lambda model: False)
    for _ in range(3):
        async with request(client, path="/health", method="GET"):
            pass
    (record,) = [record for record in caplog.records if record.name == "tiergate.litellm"]
    assert "'openai/gpt-x'" in record.getMessage()


async def test_the_library_is_loaded_once_for_all():
    """Clients that share one wait for the same loading; whoever leaves does not end it; closing closes it."""
    loads, closed = [], []

    async def close():
        closed.append(True)

    def load():
        loads.append(1)
        return Loaded(answering({"choices": []}), close=close)

    library = Library(load)
    clients = [LiteLLMClient(client_of(None).deployment, library) for _ in range(3)]
    await clients[0].close()  # before it was loaded there is nothing to close
    impatient = asyncio.create_task(library.loaded())
    await asyncio.sleep(0)
    impatient.cancel()
    for client in clients:
        async with request(client) as answer:
            assert answer.status == 200
    await clients[0].close()
    assert (len(loads), closed) == (1, [True])


async def test_a_library_that_cannot_be_loaded(caplog):
    """It is told once, by its kind; requests fail as unreachable and health is bad, but nothing else ends."""

    def load():
        raise ImportError(f"no {SECRET}")

    client = LiteLLMClient(client_of(None).deployment, Library(load))
    for _ in range(2):
        with pytest.raises(ConnectFailed):
            async with request(client):
                pass
    async with request(client, path="/health", method="GET") as answer:
        assert answer.status == 503
    await client.close()
    (record,) = [record for record in caplog.records if record.name == "tiergate.litellm"]
    assert "ImportError" in record.getMessage()
    assert SECRET not in caplog.text


async def test_a_deployment_does_not_show_its_secrets():
    """Its repr holds neither the key nor the further arguments."""
    deployment = client_of(None, params={"aws_secret_access_key": "very-secret"}).deployment
    assert SECRET not in repr(deployment)
    assert "very-secret" not in repr(deployment)


async def test_a_failure_keeps_nothing_alive():
    """The exception of the library, whose frames hold the key, is gone when the attempt is over."""

    class Failure(Exception):
        alive = 0

        def __init__(self):
            Failure.alive += 1

        def __del__(self):
            Failure.alive -= 1

    async def complete(operation, arguments):
        raise Failure

    async with request(client_of(complete)) as answer:
        assert answer.status == 501
    gc.collect()
    assert Failure.alive == 0
