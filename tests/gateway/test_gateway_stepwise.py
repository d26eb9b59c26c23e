"""A token is passed on when it is made: the backend writes an event only when every reader has had the one before it."""

import asyncio
import json

import pytest
from byte_upstream import ByteUpstream
from gateway_talk import GREEDY, chat, config_of, wire
from pair import Pair
from sse_texts import choice, chunk, usage_of

from gateway.config import parse
from gateway.lab.fake import FakeVLLM, Options

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
MANY = 40
MESSAGE = {"id": "m", "type": "message", "role": "assistant", "content": [], "usage": {"input_tokens": 3, "output_tokens": 0}}


def data(payload):
    return f"data: {json.dumps(payload)}\n\n".encode()


def named(payload):
    return f"event: {payload['type']}\ndata: {json.dumps(payload)}\n\n".encode()


def text(word, finish=None):
    return {"index": 0, "text": word, "logprobs": None, "finish_reason": finish}


USAGE = data(chunk([], usage=usage_of(3, MANY)))
USED = {"input_tokens": 3, "output_tokens": MANY, "total_tokens": 3 + MANY}
STREAMS = {
    "/v1/chat/completions": [
        data(chunk([choice("", role="assistant")])),
        *(data(chunk([choice(f" word{n}")])) for n in range(MANY)),
        data(chunk([choice(None, "stop")])),
        USAGE,
        b"data: [DONE]\n\n",
    ],
    "/v1/completions": [
        *(data(chunk([text(f" word{n}")])) for n in range(MANY)),
        data(chunk([text("", "stop")])),
        USAGE,
        b"data: [DONE]\n\n",
    ],
    "/v1/responses": [
        named({"type": "response.created", "response": {"id": "r", "status": "in_progress", "output": []}}),
        *(named({"type": "response.output_text.delta", "delta": f" word{n}", "output_index": 0}) for n in range(MANY)),
        named({"type": "response.completed", "response": {"id": "r", "status": "completed", "output": [], "usage": USED}}),
    ],
    "/v1/messages": [
        named({"type": "message_start", "message": MESSAGE}),
        named({"type": "ping"}),
        *(
            named({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": f" word{n}"}})
            for n in range(MANY)
        ),
        named({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": MANY}}),
        named({"type": "message_stop"}),
    ],
}


class Dictated(ByteUpstream):
    """Writes what a test puts into `said`, when it does."""

    def __init__(self):
        super().__init__()
        self.said = asyncio.Queue()

    async def _answer(self, writer):
        self.calls += 1
        while piece := await self.said.get():
            writer.write(piece)

    def says(self, event):
        self.said.put_nowait(b"%x\r\n%b\r\n" % (len(event), event))

    def ends(self):
        self.said.put_nowait(b"0\r\n\r\n")
        self.said.put_nowait(b"")


@pytest.fixture
async def dictated():
    async with Dictated() as upstream:
        yield upstream


def small(upstream):
    return {"replicas": {0: {"url": upstream.url}}, "endpoints": ["chat", "completions", "responses", "messages"]}


def body(**fields):
    told = {"prompt": "hi", "input": "hi", "max_tokens": 99, "stream": True, "stream_options": {"include_usage": True}}
    return {**chat(), **told, **fields}


async def passes(upstream, events, readers):
    """Each event is with every reader, whole and alone, before there is another."""
    for event in events:
        upstream.says(event)
        async with asyncio.timeout(10):
            assert [await one.piece() for one in readers] == [event] * len(readers)
    upstream.ends()
    assert [await one.piece() for one in readers] == [b""] * len(readers)


@pytest.mark.parametrize("path", STREAMS)
@pytest.mark.parametrize("fields", [{}, GREEDY], ids=["alone", "cacheable"])
async def test_every_event_passes_before_the_next_is_made(start, dictated, path, fields):
    """T51: from the first one to the last, in each API, also while the cache listens."""
    stack = await start({"models": {0: small(dictated)}})
    async with wire(stack.gateway.port) as one:
        one.send(body(**fields), path=path)
        dictated.said.put_nowait(HEAD)
        dictated.says(STREAMS[path][0])
        assert await one.head() == 200
        assert await one.piece() == STREAMS[path][0]
        await passes(dictated, STREAMS[path][1:], [one])
    assert (await stack.line())["outcome"] == "ok"


async def test_who_shares_the_answer_has_each_event_as_well(tmp_path, dictated):
    """T51: in the process that asked, and in another one that waits for the same answer."""
    path, first, *rest = "/v1/chat/completions", *STREAMS["/v1/chat/completions"]
    async with FakeVLLM(Options()) as fake:
        changes = {"keys": {"path": str(tmp_path / "keys.json")}, "models": {0: small(dictated)}}
        pair = Pair(parse(config_of({"s1": fake, "l1": fake}, changes), tmp_path / "config.yaml"))
        await pair.start()
        try:
            async with (
                wire(pair.a.gateway.port) as leader,
                wire(pair.a.gateway.port) as near,
                wire(pair.b.gateway.port) as far,
            ):
                leader.send(body(**GREEDY), path=path)
                dictated.said.put_nowait(HEAD)
                dictated.says(first)
                assert (await leader.head(), await leader.piece()) == (200, first)
                for one in (near, far):
                    one.send(body(**GREEDY), path=path)
                    assert (await one.head(), await one.piece()) == (200, first)
                    assert one.headers["x-tiergate-cache"] == "shared"
                await passes(dictated, rest, [leader, near, far])
            assert dictated.calls == 1
            await pair.a.until(pair.idle)
        finally:
            await pair.stop()
