"""The heartbeat: comments in silent streams, never inside an event, never kept, never before a stream is certain."""

import asyncio
import itertools
import json

import pytest
from byte_upstream import ByteUpstream
from gateway_talk import GREEDY, ask, chat, hold, lines, queued, said, wire
from hypothesis import given, settings
from hypothesis import strategies as st
from sse_texts import choice, chunk, payloads, streams

from backends.sse import MAX_EVENT, EventSplitter
from gateway.heartbeat import BEAT, BeatingResponse

EVERY = 0.02
STREAM = f"data: {json.dumps(chunk([choice('hi')]))}\n\ndata: {json.dumps(chunk([choice(None, 'stop')]))}\n\n".encode()
TOLD = {"stream": True, "stream_options": {"include_usage": True}}


@pytest.fixture
async def beating(start):
    """`await beating(early)` → a gateway whose small model is a `ByteUpstream` that waits to be told to go on."""
    async with ByteUpstream() as upstream:

        async def make(*, early=False, heartbeat=True, replicas=1):
            beat = {"heartbeat": {"every": f"{EVERY * 1000:.0f}ms", "early": early}} if heartbeat else {}
            small = {"replicas": [{"name": f"s{number}", "url": upstream.url} for number in range(replicas)]}
            stack = await start({"server": {"port": 0, "drain_timeout": "5s", **beat}, "models": {0: small}})
            stack.extra["upstream"] = upstream
            upstream.play(STREAM + b"data: [DONE]\n\n")
            upstream.going_on.clear()
            return stack

        yield make
        upstream.going_on.set()


async def beats(one, count):
    """Read beats, as many as are wanted; none of it may be anything else."""
    seen = b""
    while seen.count(BEAT) < count:
        seen += await one.piece()
    assert seen == BEAT * seen.count(BEAT)


async def test_a_silent_stream_has_comments(beating):
    """Between the replica's status and its first event the client gets comments, then every byte; TTFT is that of the event."""
    stack = await beating()
    async with wire(stack.gateway.port) as one:
        one.send(chat(**TOLD))
        assert await one.head() == 200
        assert one.headers["content-type"].startswith("text/event-stream")
        assert one.headers["x-tiergate-model"] == "small-model"
        await beats(one, 3)
        stack.extra["upstream"].going_on.set()
        rest = b"".join(await one.pieces())
    assert rest.replace(BEAT, b"") == STREAM + b"data: [DONE]\n\n"
    line = await stack.line()
    assert (line["outcome"], line["status"]) == ("ok", 200)
    assert line["ttft_ms"] >= 2 * EVERY * 1000
    await stack.at_rest()


async def test_it_is_off_unless_asked_for(beating):
    """Without it in the config a silent stream is silent."""
    stack = await beating(heartbeat=False)
    asked = asyncio.create_task(ask(stack, chat(**TOLD)))
    await asyncio.sleep(5 * EVERY)
    stack.extra["upstream"].going_on.set()
    assert (await asked).content == STREAM + b"data: [DONE]\n\n"


async def test_there_is_none_before_the_status_is_known(beating):
    """A replica that has not answered yet may still refuse: its 400 is one, however long it took."""
    stack = await beating()
    upstream = stack.extra["upstream"]
    upstream.held_from = 0
    asked = asyncio.create_task(ask(stack, chat(**TOLD)))
    await stack.until(lambda: upstream.calls)
    await asyncio.sleep(5 * EVERY)
    upstream.play(b'data: {"error":{"message":"no","code":400}}\n\n')
    upstream.going_on.set()
    answer = await asked
    assert (answer.status_code, answer.json()["error"]["message"]) == (400, "no")


@pytest.mark.parametrize(
    ("body", "content_type"),
    [(b'data: {"error":{"message":"no","code":400}}\n\n', "text/event-stream"), (b'{"id":"x","choices":[]}', "application/json")],
    ids=["error", "json"],
)
async def test_early_ones_come_before_the_status(beating, body, content_type):
    """Where that is configured they come at once; what goes wrong then is the stream's last event, in its own words."""
    stack = await beating(early=True)
    upstream = stack.extra["upstream"]
    upstream.held_from = 0
    async with wire(stack.gateway.port) as one:
        one.send(chat(**TOLD))
        assert await one.head() == 200
        await beats(one, 2)
        upstream.play(body, content_type=content_type)
        upstream.going_on.set()
        told = b"".join(await one.pieces())
    error = json.loads(payloads(told)[-1])["error"]
    assert (error["message"] == "no") is (content_type == "text/event-stream")
    assert b"[DONE]" not in told
    assert (await stack.line())["outcome"] == "broken_stream"
    await stack.at_rest()


@pytest.mark.parametrize("early", [False, True])
async def test_while_it_waits_for_a_slot(start, early):
    """In the queue there are comments only where they may be early."""
    heartbeat = {"every": f"{EVERY * 1000:.0f}ms", "early": early}
    stack = await start(
        {"server": {"port": 0, "drain_timeout": "5s", "heartbeat": heartbeat}, "models": {0: {"concurrency": {"max": 1}}}}
    )
    wake = hold(stack.small)
    first = asyncio.create_task(ask(stack, chat("one")))
    await stack.until(lambda: stack.small.calls)
    async with wire(stack.gateway.port) as one:
        one.send(chat("two", **TOLD))
        await stack.until(lambda: queued(stack))
        if early:
            assert await one.head() == 200
            await beats(one, 2)
            assert queued(stack)
            assert "x-tiergate-replica" not in one.headers
            wake()
        else:
            await asyncio.sleep(5 * EVERY)
            wake()
            await one.head()
            assert one.headers["x-tiergate-replica"] == "s1"
        assert b"[DONE]" in b"".join(await one.pieces())
    await first


async def test_nobody_else_gets_them(beating):
    """Neither who shares the answer in one piece nor the cache has them."""
    stack = await beating()
    upstream = stack.extra["upstream"]
    async with wire(stack.gateway.port) as one:
        one.send(chat(**TOLD, **GREEDY))
        await one.head()
        await beats(one, 1)
        other = asyncio.create_task(ask(stack, chat(**GREEDY)))
        await beats(one, 2)
        upstream.going_on.set()
        await one.pieces()
    assert said(await other)[0]["content"] == "hi"
    again = await ask(stack, chat(**TOLD, **GREEDY))
    assert again.headers["x-tiergate-cache"] == "exact"
    assert BEAT not in again.content
    await stack.at_rest()


async def test_a_beat_is_no_answer(beating):
    """A replica that breaks off behind a beat has said nothing: the request goes on elsewhere, in the same stream."""
    stack = await beating(replicas=2)
    upstream = stack.extra["upstream"]
    async with wire(stack.gateway.port) as one:
        one.send(chat(**TOLD))
        await one.head()
        await beats(one, 1)
        upstream.drop()
        upstream.going_on.set()
        rest = b"".join(await one.pieces())
    assert rest.replace(BEAT, b"") == STREAM + b"data: [DONE]\n\n"
    line = await stack.line()
    assert (line["outcome"], line["attempts"]) == ("ok", 2)


async def test_a_client_that_leaves_takes_its_heartbeat_along(beating):
    """No timer of a request outlives it."""
    stack = await beating()
    async with wire(stack.gateway.port) as one:
        one.send(chat(**TOLD))
        await one.head()
        await beats(one, 1)
    assert (await lines(stack, 1))[0]["outcome"] == "client_gone"
    await stack.at_rest()


class Paper:
    """A response that keeps what is written."""

    started = True
    ended = gone = False
    writable = True
    on_writable = None

    def __init__(self):
        self.written = []

    def write(self, piece):
        self.written.append(piece)


@settings(max_examples=40)
@given(written=streams(), at=st.lists(st.integers(0, 20_000), max_size=6), most=st.sampled_from([16, 300, MAX_EVENT]))
async def test_a_beat_is_never_inside_an_event(written, at, most):
    """Whatever is streamed and wherever it is silent: a reader by the book reads the same events with beats as without."""
    paper, splitter = Paper(), EventSplitter(most)
    response = BeatingResponse(paper, None, 60.0, lambda: True)
    cuts = sorted({0, len(written.stream), *(cut for cut in at if cut < len(written.stream))})
    pieces = [event for a, b in itertools.pairwise(cuts) for event in splitter.feed(written.stream[a:b])]
    for piece in [*pieces, splitter.rest]:
        response.write(piece)
        response._last = -60.0
        response._timer.cancel()
        response._due()
    response._timer.cancel()
    assert payloads(b"".join(paper.written)) == payloads(written.stream)
    assert b"".join(one for one in paper.written if one is not BEAT) == written.stream
    if most == MAX_EVENT and len(written.stream) < MAX_EVENT:
        assert paper.written.count(BEAT) >= len(pieces) - 1
