"""Whatever bytes a backend streams, however they are cut, are the bytes that every client gets."""

import asyncio
import itertools
import json
import logging

import pytest
from byte_upstream import ByteUpstream
from gateway_talk import GREEDY, ask, chat, config_of, said, wire
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pair import Pair
from sse_texts import choice, chunk, streams, texts

from backends.sse import MAX_EVENT
from gateway.config import parse
from gateway.lab.fake import FakeVLLM, Options

SIZES = st.lists(st.integers(1, 9) | st.sampled_from([40, 1000, 70_000]), min_size=1, max_size=4)
PER_STACK = settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
TOLD = {"stream": True, "stream_options": {"include_usage": True}}


@pytest.fixture
async def wired(start):
    """A gateway whose small model is a `ByteUpstream`."""
    async with ByteUpstream() as upstream:
        small = {"replicas": {0: {"url": upstream.url}}, "endpoints": ["chat", "responses", "messages"]}
        stack = await start({"models": {0: small}, "breaker": {"failures": 1000}})
        stack.extra["upstream"] = upstream
        yield stack


def fresh(stack):
    """A prompt that nobody has asked before."""
    stack.extra["asked"] = stack.extra.get("asked", 0) + 1
    return f"number {stack.extra['asked']}"


@PER_STACK
@given(written=streams(), chunks=SIZES, writes=SIZES, framed=st.booleans())
async def test_a_stream_comes_out_byte_for_byte(wired, caplog, written, chunks, writes, framed):
    """Any stream of events that ends as one does, cut anywhere, is the same on the other side, and what it told is known."""
    upstream = wired.extra["upstream"]
    writes = [max(size, len(written.stream) // 400) for size in writes]
    upstream.play(written.stream, chunks=chunks, writes=writes, framed=framed)
    answer = await ask(wired, chat(fresh(wired), **TOLD))
    assert (answer.status_code, answer.content) == (200, written.stream)
    wired.log.lines.clear()
    answer = await ask(wired, chat(fresh(wired), stream=True))
    assert (answer.status_code, answer.content) == (200, written.hidden)
    line = await wired.line()
    assert (line["outcome"], line["ttft_ms"] is not None) == ("ok", True)
    if written.usage is not None:
        assert (line["prompt_tokens"], line["completion_tokens"]) == written.usage
        assert line["charged_tokens"] == sum(written.usage)
    else:
        assert line["charged_tokens"] > 0
    assert not caplog.records


FORMS = [  # what a reader by the book has to cope with, each byte in a write of its own
    "data: {e}\n\n{end}",
    "data: {e}\r\n\r\n{end}",
    "data: {e}\r\r{end}",
    "data: {e}\n\r\n{end}",
    "\ufeffdata:{e}\r\n\r\n: a comment \u2028\u0085\r\n\r\nid: 1\r\n{end}",
    "event: x\ndata: {e}\nretry: 10\n\n{end}",
]
SAID = json.dumps(chunk([choice("a\u2028b\u0085c 你👋🏽")]), ensure_ascii=False)
LAST = json.dumps(chunk([choice(None, "stop")]))


ENDINGS = ["data: [DONE]\n\n", "data: [DONE]", "data: [DONE]\n\nand more\n\n", f"data: {LAST}"]


async def test_single_bytes_are_a_stream(wired):
    """Cut into single bytes, inside characters and line ends, with or without `[DONE]`, a last blank line or more after it."""
    for form, end in itertools.product(FORMS, ENDINGS):
        stream = form.replace("{e}", SAID).replace("{end}", end).encode()
        wired.extra["upstream"].play(stream, chunks=[7], writes=[1])
        wired.log.lines.clear()
        answer = await ask(wired, chat(**TOLD))
        assert (answer.status_code, answer.content) == (200, stream)
        assert (await wired.line())["outcome"] == "ok"


def named(*events):
    """A stream of named events."""
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n" for event in events)


USED = {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}
NAMED = {
    "/v1/responses": named(
        {"type": "response.created", "response": {"id": "r", "status": "in_progress", "output": []}},
        {"type": "response.output_text.delta", "delta": "a\u2028b 你👋🏽", "output_index": 0},
        {"type": "response.completed", "response": {"id": "r", "status": "completed", "output": [], "usage": USED}},
    ),
    "/v1/messages": named(
        {"type": "message_start", "message": {"id": "m", "role": "assistant", "content": [], "usage": {"input_tokens": 3}}},
        {"type": "ping"},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "a\u0085b 你👋🏽"}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 4}},
        {"type": "message_stop"},
    ),
}


@pytest.mark.parametrize("path", NAMED)
async def test_streams_of_named_events_too(wired, path):
    """The streams of the other two APIs, with each kind of line end and in single bytes, and their usage."""
    body = {"model": "small-model", "stream": True, "input": "hi", "max_tokens": 9, "messages": chat()["messages"]}
    for end, writes in itertools.product(["\n", "\r\n", "\r"], [[1], [2, 3], [65_536]]):
        stream = NAMED[path].replace("\n", end).encode()
        wired.extra["upstream"].play(stream, chunks=[11], writes=writes)
        wired.log.lines.clear()
        answer = await ask(wired, body, path=path)
        assert (answer.status_code, answer.content) == (200, stream)
        line = await wired.line()
        assert (line["outcome"], line["prompt_tokens"], line["completion_tokens"]) == ("ok", 3, 4)


@pytest.mark.parametrize("size", [MAX_EVENT - 200, 2 * MAX_EVENT])
async def test_an_event_of_a_megabyte_passes(wired, size):
    """Kept whole or passed on in pieces, an event that large is not changed, and what comes after it is understood."""
    usage = chunk([], usage={"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7})
    events = [chunk([choice("é" * (size // 2))]), chunk([choice(None, "stop")]), usage]
    stream = "".join(f"data: {json.dumps(event, ensure_ascii=False)}\n\n" for event in events).encode() + b"data: [DONE]\n\n"
    for chunks in ([997_531], [65_537, 3]):
        wired.extra["upstream"].play(stream, chunks=chunks, writes=[50_003])
        wired.log.lines.clear()
        answer = await ask(wired, chat(**TOLD))
        assert (answer.status_code, answer.content) == (200, stream)
        line = await wired.line()
        assert (line["outcome"], line["prompt_tokens"], line["completion_tokens"]) == ("ok", 3, 4)


WHOLE = {"id": "c1", "object": "chat.completion", "created": 1, "model": "fake",
         "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
         "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}}  # fmt: skip


@pytest.mark.parametrize("space", ["", "\ufeff", " \r\n "], ids=["plain", "mark", "blank"])
@pytest.mark.parametrize("indent", [None, 2])
async def test_json_under_the_name_of_a_stream_is_an_answer(wired, space, indent):
    """A body that is no stream but an answer in one piece passes as it is, is told to be JSON, counted and kept."""
    body = (space + json.dumps(WHOLE, indent=indent)).encode()
    wired.extra["upstream"].play(body, chunks=[5, 60], writes=[11])
    answer = await ask(wired, chat(**TOLD, **GREEDY))
    assert (answer.status_code, answer.headers["content-type"], answer.content) == (200, "application/json", body)
    line = await wired.line()
    assert line["outcome"] == "ok"
    again = await ask(wired, chat(**TOLD, **GREEDY))
    if space != "\ufeff":  # which only a lenient reader takes for JSON
        assert (line["prompt_tokens"], line["completion_tokens"]) == (3, 4)
        assert again.headers["x-tiergate-cache"] == "exact"
        assert said(again)[0]["content"] == "hi"


@pytest.mark.parametrize(("code", "status"), [(400, 400), (500, 502)])
async def test_an_error_under_the_name_of_a_stream_is_an_error(wired, code, status):
    """JSON that holds an error is one with a status, and no event in a stream that would have begun with 200."""
    wired.extra["upstream"].play(json.dumps({"error": {"message": "no", "code": code}}).encode(), writes=[3])
    answer = await ask(wired, chat(**TOLD))
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/json")
    await wired.at_rest()


OURS = ("stream_broken", "stream_timeout")
ANYTHING = st.binary(max_size=80) | st.lists(
    st.sampled_from([b"data: ", b"data:", b"[DONE]", b"\n", b"\r", b"\r\n", b"\n\n", b": x", b"event: error", b"{", b"}", b"null",
                     b"\xef\xbb\xbf", "\u2028é".encode(), b"\xff", SAID.encode(), LAST.encode(), b'{"error":{"code":400}}',
                     b'{"usage":{"prompt_tokens":1e9}}', b"[" * 200]), max_size=10).map(b"".join)  # fmt: skip


@PER_STACK
@given(stream=ANYTHING, chunks=SIZES, writes=SIZES, framed=st.booleans())
@example(b"data: " + SAID.encode() + b"\n\ndata: {", [4096], [4096], True)
async def test_bytes_without_sense_do_no_harm(wired, caplog, stream, chunks, writes, framed):
    """What is no good stream is passed on as it is, or ended by an error event of ours behind whole events, or is an error."""
    wired.extra["upstream"].play(stream, chunks=chunks, writes=writes, framed=framed)
    answer = await ask(wired, chat(fresh(wired), **TOLD))
    if answer.status_code != 200:
        assert answer.status_code in (400, 502)
        assert set(answer.json()) >= {"error"}
    elif answer.content != stream:
        passed, _, error = answer.content.rpartition(b"data: ")
        assert json.loads(error)["error"]["code"] in OURS
        assert stream.startswith((passed, passed.removesuffix(b"\n\n")))
        assert passed[-1:] in (b"", b"\n", b"\r")
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
    await wired.at_rest()


async def together(stack, bodies, where=None):
    """The answers to requests that are under way at once: the first one begins before the others come."""
    upstream, where = stack.extra["upstream"], where or [stack.gateway.port] * len(bodies)
    upstream.going_on.clear()
    first, asked = upstream.calls, []
    for number, (body, port) in enumerate(zip(bodies, where, strict=True)):
        asked.append(asyncio.create_task(ask_at(port, body)))
        await stack.until(lambda: upstream.calls > first)
        await stack.until(lambda count=number + 1: stack.extra["aboard"]() >= count)
    upstream.going_on.set()
    return await asyncio.gather(*asked)


async def ask_at(port, body):
    async with wire(port) as one:
        one.send(body)
        return await one.answer()


@PER_STACK
@given(written=streams(), writes=SIZES)
async def test_who_shares_an_answer_gets_its_bytes(wired, caplog, written, writes):
    """With the cache listening and others aboard: the same bytes for each, and what is kept says what the stream said."""
    upstream = wired.extra["upstream"]
    upstream.play(written.stream, writes=[max(size, len(written.stream) // 100) for size in writes])
    flights = wired.gateway.parts.flights
    wired.extra["aboard"] = lambda: sum(len(flight.readers) for flight in flights._flights.values())
    body = chat(fresh(wired), **GREEDY)
    calls = upstream.calls
    shown, hidden, *other = await together(wired, [body | TOLD, body | {"stream": True}, *([body] if written.plain else [])])
    assert (shown.content, hidden.content) == (written.stream, written.hidden)
    assert (shown.headers["x-tiergate-cache"], hidden.headers["x-tiergate-cache"]) == ("miss", "shared")
    for answer in other:
        assert said(answer)[0]["content"] == written.said
    assert upstream.calls == calls + 1
    again = await ask(wired, body | TOLD)
    if again.headers["x-tiergate-cache"] == "exact":
        assert texts(again.content) == texts(written.stream) == written.said
    else:
        assert again.content == written.stream
    assert not caplog.records
    await wired.at_rest()


@pytest.fixture
async def pair(tmp_path):
    """Two workers, each on a port of its own, whose small model is a `ByteUpstream`."""
    async with ByteUpstream() as upstream, FakeVLLM(Options()) as fake:
        changes = {"keys": {"path": str(tmp_path / "keys.json")}, "models": {0: {"replicas": {0: {"url": upstream.url}}}}}
        pair = Pair(parse(config_of({"s1": fake, "l1": fake}, changes), tmp_path / "config.yaml"))
        await pair.start()
        pair.extra = {"upstream": upstream}
        pair.until = pair.a.until
        try:
            yield pair
        finally:
            await pair.stop()


@PER_STACK
@given(written=streams(), writes=SIZES)
async def test_who_shares_it_through_another_worker_gets_its_bytes(pair, caplog, written, writes):
    """The bytes that one worker's client gets are those that another worker's gets, who waited for the same answer."""
    upstream = pair.extra["upstream"]
    upstream.play(written.stream, writes=[max(size, len(written.stream) // 100) for size in writes])
    flights = pair.a.process.parts.own.flights
    pair.extra["aboard"] = lambda: sum(len(flight.readers) for flight in flights._flights.values())
    body = chat(fresh(pair), **GREEDY)
    shown, hidden = await together(pair, [body | TOLD, body | {"stream": True}], [pair.a.gateway.port, pair.b.gateway.port])
    assert (shown.content, hidden.content) == (written.stream, written.hidden)
    assert [answer.headers["x-tiergate-cache"] for answer in (shown, hidden)] == ["miss", "shared"]
    assert not caplog.records
    await pair.until(pair.idle)
