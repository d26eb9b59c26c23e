"""The answer to one exchange: its forms, and the headers that say why it is as it is."""

import pytest
from raw_client import staged

from gateway.errors import ApiError, BackendAnswer
from gateway.exchange import Exchange
from gateway.reply import Head, Reply

JSON = Head(200, b"application/json", stream=False)
SSE = Head(200, b"text/event-stream; charset=utf-8", stream=True)
GET = b"GET / HTTP/1.1\r\n\r\n"


async def answered(script, *, facts=None):
    """The answer that `script(reply)` makes, and its exchange."""
    x = Exchange("req-1", 10.0)
    for name, value in (facts or {}).items():
        setattr(x.work if hasattr(x.work, name) else x, name, value)

    async def handler(request, response):
        reply = Reply(x, response, lambda: 10.25)
        assert not reply.begun
        script(reply)
        assert reply.begun
        assert not reply.gone

    async with staged(handler) as stage:
        return await stage.ask(GET), x


def whole(reply):
    reply.begin(JSON)
    reply.write(b'{"a":')
    reply.write(b"1}")
    reply.end()
    reply.end()


def streamed(reply):
    reply.show_usage = False
    reply.begin(SSE)
    reply.write(b"data: 1\n\n")
    reply.write(b"data: usage\n\n", usage_only=True)
    reply.write(b"data: [DONE]\n\n")
    reply.end()


async def test_a_whole_answer():
    """Pieces are sent as one body with its length, under the source's content type."""
    answer, x = await answered(whole)
    assert (answer.status, answer.body, answer.headers["content-length"]) == (200, b'{"a":1}', "7")
    assert answer.headers["content-type"] == "application/json"
    assert x.status == 200


async def test_a_stream_without_the_usage_chunk_that_nobody_asked_for():
    """A stream is chunked, proxies are told not to hold it, and the marked chunk is left out where it is not shown."""
    answer, _ = await answered(streamed)
    assert answer.body == b"data: 1\n\ndata: [DONE]\n\n"
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert (answer.headers["cache-control"], answer.headers["x-accel-buffering"]) == ("no-cache", "no")
    assert "content-length" not in answer.headers


async def test_what_begins_must_be_a_head():
    """Flights hand any object on: what is no head is a fault that is seen at once."""

    def script(reply):
        with pytest.raises(TypeError):
            reply.begin(b"200")
        reply.json(200, b"{}")

    await answered(script)


async def test_the_least_that_every_answer_carries():
    """Request id and time spent, and nothing about a model that had no part in it."""
    answer, _ = await answered(lambda reply: reply.json(200, b"{}"))
    assert answer.headers["x-request-id"] == "req-1"
    assert answer.headers["openai-processing-ms"] == "250"
    assert not [name for name in answer.headers if name.startswith("x-tiergate-")]


async def test_all_that_an_answer_can_carry():
    """Each fact of the exchange has its header, as documented."""
    cached = {"cache": "exact", "cache_id": "ce-1", "cache_age": 12}
    made = {"model": "m", "tier": "small", "reason": "score", "score": 0.12345, "replica": "s1", "queued": 0.0126}
    facts = {**cached, **made, "client_id": "mine-7", "standing": lambda: "x-ratelimit-limit-requests: 5\r\n"}
    answer, _ = await answered(whole, facts=facts)
    assert {name: value for name, value in answer.headers.items() if name.startswith(("x-", "age"))} == {
        "x-request-id": "mine-7",
        "x-ratelimit-limit-requests": "5",
        "x-tiergate-cache": "exact",
        "x-tiergate-cache-id": "ce-1",
        "age": "12",
        "x-tiergate-model": "m",
        "x-tiergate-tier": "small",
        "x-tiergate-route": "score",
        "x-tiergate-queue-ms": "13",
        "x-tiergate-score": "0.123",
        "x-tiergate-replica": "s1",
    }


async def test_a_cache_reason_is_one_token():
    """What was not plain says why, without white space in the value."""
    answer, _ = await answered(whole, facts={"cache": "bypass", "cache_reason": "not deterministic"})
    assert answer.headers["x-tiergate-cache"] == "bypass; reason=not-deterministic"


async def test_names_of_any_alphabet_stay_within_their_header():
    """A configured name outside ASCII is escaped, not sent raw."""
    answer, _ = await answered(whole, facts={"model": "模型", "tier": "groß"})
    assert answer.headers["x-tiergate-model"] == "\\u6a21\\u578b"
    assert answer.headers["x-tiergate-tier"] == "gro\\xdf"


async def test_an_error_before_the_answer_is_an_answer():
    """Status, shape and headers of the error, and its code on the exchange."""
    error = ApiError(429, "rate_limit_exceeded", "wait", headers={"retry-after": "7"})
    answer, x = await answered(lambda reply: reply.error(error))
    assert (answer.status, answer.headers["retry-after"]) == (429, "7")
    assert answer.error == {"message": "wait", "type": "rate_limit_error", "param": None, "code": "rate_limit_exceeded"}
    assert (x.status, x.error) == (429, "rate_limit_exceeded")


async def test_a_backends_error_keeps_its_bytes():
    """What passes on as it is has the backend's own body and content type."""
    error = BackendAnswer(422, b"text/plain", b"no, because", {"retry-after": "1"})
    answer, _ = await answered(lambda reply: reply.error(error))
    assert (answer.status, answer.body, answer.headers["content-type"]) == (422, b"no, because", "text/plain")


async def test_an_error_within_a_stream_is_its_last_event():
    """After the first byte the error is an event, and the body ends properly; after the end it is nothing."""

    def script(reply):
        reply.begin(SSE)
        reply.write(b"data: 1\n\n")
        reply.error(ApiError(502, "stream_broken", "it broke"))
        reply.error(ApiError(500, "internal_error", "again"))

    answer, x = await answered(script)
    first, last, rest = answer.body.split(b"\n\n")
    assert (first, rest) == (b"data: 1", b"")
    assert last.startswith(b'data: {"error":{')
    assert b'"code":"stream_broken"' in last
    assert x.status == 200


async def test_an_error_amid_a_whole_answer_replaces_it():
    """A whole answer is sent at its end: until then an error can still take its place."""

    def script(reply):
        reply.begin(JSON)
        reply.write(b'{"half":')
        reply.error(ApiError(502, "upstream_error", "it broke"))
        reply.end()

    answer, x = await answered(script)
    assert (answer.status, answer.error["code"], x.status) == (502, "upstream_error", 502)


async def test_the_source_is_paused_and_resumed():
    """A client that does not read pauses what feeds the stream; when it has read, the feed is resumed; then it is let go."""
    events = []

    class Flow:
        def pause(self):
            events.append("pause")

        def resume(self):
            events.append("resume")

    async def handler(request, response):
        reply = Reply(Exchange("req-1", 10.0), response, lambda: 10.0)
        reply.begin(SSE)
        flow = reply.flow = Flow()
        assert reply.flow is flow
        while reply.writable:
            assert events == []
            reply.write(b"x" * 100_000)
        await stage.until(lambda: "resume" in events)
        assert reply.writable
        reply.flow = None
        assert response.on_writable is None
        reply.end()

    async with staged(handler) as stage:
        wire = await stage.connect()
        wire.writer.transport.pause_reading()
        wire.send(GET)
        await stage.until(lambda: bool(events))
        assert events == ["pause"]
        wire.writer.transport.resume_reading()
        assert len((await wire.answer()).body) % 100_000 == 0
    assert events == ["pause", "resume"]
