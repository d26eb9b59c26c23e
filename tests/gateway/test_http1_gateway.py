"""The wire through the whole gateway: what real clients send, what broken ones send, and that nothing stays behind."""

import asyncio
import json
import re
import socket

import pytest
from raw_client import Wire

from gateway.lab.fake import Options

KEY = b"authorization: Bearer tg-test-key-of-acme\r\n"


def chat(text="[[say: hello there]]", *, more=b"", version=b"1.1", path=b"/v1/chat/completions", **fields):
    body = json.dumps({"model": "small-model", "messages": [{"role": "user", "content": text}], **fields}).encode()
    head = b"POST %b HTTP/%b\r\nhost: gw\r\n%b%bcontent-length: %d\r\n\r\n" % (path, version, KEY, more, len(body))
    return head + body


@pytest.fixture
async def wire(stack):
    """One connection to the gateway; when it is closed nothing of it is left there."""
    async with Wire(stack.gateway.port) as wire:
        yield wire
    await stack.client.aclose()
    await stack.until(lambda: not stack.gateway._server.connections)
    await stack.until(stack.idle)


def content(answer):
    return json.loads(answer.body)["choices"][0]["message"]["content"]


MALFORMED = {
    "TLS": bytes.fromhex("16030100c8010000c40303") + bytes(190),
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a space in a name": b"GET /health HTTP/1.1\r\na b: c\r\n\r\n",
    "two lengths": b"POST /v1/chat/completions HTTP/1.1\r\n" + KEY + b"content-length: 1\r\ncontent-length: 2\r\n\r\n{}",
    "length and chunks": b"POST /x HTTP/1.1\r\ntransfer-encoding: chunked\r\ncontent-length: 2\r\n\r\n0\r\n\r\n",
    "a bad chunk": b"POST /v1/chat/completions HTTP/1.1\r\n" + KEY + b"transfer-encoding: chunked\r\n\r\nxyz\r\n",
    "a NUL": b"GET /health HTTP/1.1\r\na: \x00\r\n\r\n",
}


@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED)
async def test_what_is_no_http_is_answered_counted_and_logged(stack, wire, data):
    """A 400 of the usual shape with a request id, a line in the log under that id, a count, and the end."""
    wire.send(data)
    answer = await wire.answer()
    assert (answer.status, answer.error["code"], answer.headers["content-type"]) == (400, "bad_http", "application/json")
    assert await wire.ended() == b""
    line = stack.log.lines[-1]
    assert (line["request_id"], line["status"], line["outcome"]) == (answer.headers["x-request-id"], 400, "client_error")
    metrics = (await stack.client.get("/metrics")).text
    assert re.search(r'tiergate_requests_total\{model="",outcome="client_error",tenant="(acme)?",tier=""\} 1\.0', metrics)


@pytest.mark.parametrize("path", ["/health", "/ready", "/v1/models", "/metrics"])
async def test_head_requests(stack, wire, path):
    """HEAD gives the headers of GET and no body, and the connection goes on."""
    for method in (b"HEAD", b"GET"):
        wire.send(b"%b %b HTTP/1.1\r\n%b\r\n" % (method, path.encode(), KEY))
        answer = await wire.answer(head=method == b"HEAD")
        assert answer.status == 200
        assert int(answer.headers["content-length"]) > 2
        assert answer.headers["x-request-id"]
    assert answer.body


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE", "PROPFIND", "QUERY"])
async def test_other_methods_are_refused(stack, wire, method):
    """A model call is a POST: anything else is told so, and the connection goes on."""
    wire.send(chat().replace(b"POST", method.encode(), 1) + chat())
    answer = await wire.answer()
    assert (answer.status, answer.error["code"], answer.headers["allow"]) == (405, "method_not_allowed", "POST")
    assert content(await wire.answer()) == "hello there"


async def test_javas_first_request(stack, wire):
    """java.net.http offers h2c with every first request on plain text: it is answered as HTTP/1.1, and the next one too."""
    offer = b"connection: Upgrade, HTTP2-Settings\r\nhttp2-settings: AAEAAEAAAAIAAAAAAAMAAAAA\r\nupgrade: h2c\r\n"
    for more in (offer, b""):
        wire.send(chat(more=more))
        assert content(await wire.answer()) == "hello there"
    wire.send(chat(more=offer, stream=True))
    assert (await wire.answer()).body.endswith(b"data: [DONE]\n\n")


async def test_a_client_that_waits_for_100_continue(stack, wire):
    """curl sends large bodies only when asked: it is, but only once its key is known to be good."""
    request = chat(more=b"expect: 100-continue\r\n")
    head, body = request.split(b"\r\n\r\n", 1)
    wire.send(head + b"\r\n\r\n")
    assert await wire.head() == (100, {})
    wire.send(body)
    assert content(await wire.answer()) == "hello there"
    wire.send(head.replace(b"acme", b"evil") + b"\r\n\r\n")
    assert (await wire.answer()).status == 401


async def test_chunked_requests(stack, wire):
    """A body in chunks reaches the backend whole, with a length."""
    body = chat().split(b"\r\n\r\n", 1)[1]
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(body[i : i + 7]), body[i : i + 7]) for i in range(0, len(body), 7)) + b"0\r\n\r\n"
    wire.send(b"POST /v1/chat/completions HTTP/1.1\r\n" + KEY + b"transfer-encoding: chunked\r\n\r\n" + chunks)
    assert content(await wire.answer()) == "hello there"
    call = stack.small.calls[-1]
    assert call.body["messages"][0]["content"] == "[[say: hello there]]"
    assert "transfer-encoding" not in call.headers
    assert int(call.headers["content-length"]) > 0


async def test_an_old_clients_stream_ends_with_the_connection(stack, wire):
    """HTTP/1.0 knows no chunks: the events come plain, and the end is the end."""
    wire.send(chat(version=b"1.0", stream=True))
    _, headers = await wire.head()
    assert "transfer-encoding" not in headers
    assert (await wire.ended()).endswith(b"data: [DONE]\n\n")


async def test_requests_in_a_row_and_at_once(stack, wire):
    """Sixteen requests in one write, streams between whole answers, come back in order on one connection."""
    wire.send(b"".join(chat(f"[[say: {i}]]", stream=bool(i % 2), seed=i) for i in range(16)))
    for i in range(16):
        answer = await wire.answer()
        assert answer.status == 200
        assert (f'"{i}"'.encode() in answer.body) if i % 2 else content(answer) == str(i)


@pytest.mark.parametrize("announced", [True, False])
async def test_a_body_over_the_limit(start, announced):
    """413 with the gateway's own limit in it, read by a client that wrote all before it read; no backend is asked."""
    stack = await start({"server": {"port": 0, "max_body": "64KiB"}})
    async with Wire(stack.gateway.port) as wire:
        body = b"x" * 5_000_000
        framing = (
            b"content-length: %d\r\n\r\n" % len(body) if announced else b"transfer-encoding: chunked\r\n\r\n%x\r\n" % len(body)
        )
        await wire.deliver(b"POST /v1/chat/completions HTTP/1.1\r\n" + KEY + framing + body)
        answer = await wire.answer()
        assert (answer.status, answer.error["code"]) == (413, "body_too_large")
        assert "65536" in answer.error["message"]
        assert answer.headers["x-request-id"].startswith("req-")
        assert await wire.ended() == b""
    assert not [call for call in stack.small.calls if call.method == "POST"]
    await stack.until(lambda: not stack.gateway._server.connections)


async def test_a_bad_key_is_refused_before_the_body_comes(stack, wire):
    """401 with the head alone: nobody without a key makes the gateway take a body in."""
    wire.send(b"POST /v1/chat/completions HTTP/1.1\r\nauthorization: Bearer no\r\ncontent-length: 9999999\r\n\r\n")
    answer = await wire.answer()
    assert (answer.status, answer.headers["connection"]) == (401, "close")
    assert await wire.ended() == b""


async def test_half_closed_clients(stack, wire):
    """A probe that ends its side with its request still gets /health; a model call of one that has left is not paid for."""
    wire.send(b"GET /health HTTP/1.0\r\n\r\n")
    wire.writer.write_eof()
    assert (await wire.answer()).body == b'{"status":"ok"}'
    async with Wire(stack.gateway.port) as leaving:
        leaving.send(chat("[[tokens: 400]]", stream=True))
        leaving.writer.write_eof()
        await stack.until(lambda: any(line["outcome"] == "client_gone" for line in stack.log.lines))


async def test_a_slow_reader_holds_its_own_backend_only(start):
    """A client that stops reading a long stream stops the backend that feeds it, and nobody else; when it reads, all is there."""
    event = b'data: {"choices":[{"index":0,"delta":{"content":"' + b"x" * 60_000 + b'"},"finish_reason":null}]}\n\n'
    count, sent = 1000, 0

    async def endless(reader, writer):
        nonlocal sent
        head = await reader.readuntil(b"\r\n\r\n")
        if head.startswith(b"GET /health"):
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            writer.close()
            return
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
        for _ in range(count):
            writer.write(event)
            await writer.drain()
            sent += 1
        writer.write(b"data: [DONE]\n\n")
        writer.close()

    backend = await asyncio.start_server(endless, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{backend.sockets[0].getsockname()[1]}/v1"
    stack = await start(
        {"models": {0: {"replicas": [{"name": "endless", "url": url}]}}}, fakes={"s1": Options(), "l1": Options()}
    )
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
    sock.connect(("127.0.0.1", stack.gateway.port))
    sock.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(sock, chat(stream=True))
    last = -1
    while sent != last or not sent:
        last = sent
        await asyncio.sleep(0.1)
    assert sent < count
    held = [c for c in stack.gateway._server.connections if not c.writable]
    assert len(held) == 1
    assert held[0]._transport.get_write_buffer_size() < 1_000_000
    assert (await stack.chat("[[say: others go on]]", model="large-model")).status_code == 200
    data = bytearray()
    while not data.endswith(b"\r\n0\r\n\r\n"):
        piece = await loop.sock_recv(sock, 2**20)
        assert piece
        data += piece
    assert data.count(b"data: {") == count
    assert b"data: [DONE]" in data
    sock.close()
    backend.close()
    await stack.until(stack.idle)


async def test_a_storm_of_bad_clients_leaves_nothing(stack):
    """Two hundred clients that send nonsense, half requests, whole ones, and leave as they please: all connections are gone."""
    unread = b"POST /v1/chat/completions HTTP/1.1\r\n" + KEY + b"content-length: 99999999\r\n\r\n"
    plain, stream, long = chat(), chat(stream=True), chat("[[tokens: 200]]", stream=True)
    bad = [b"", b"GE", b"\x16\x03\x01", b"GET / HTTP/1.1\r\n", plain[:-10], plain, stream, long, plain * 20, unread, b"\r\n" * 50]

    async def visit(number):
        async with Wire(stack.gateway.port) as wire:
            wire.send(bad[number % len(bad)])
            if number % 3:
                await asyncio.sleep(number % 5 / 100)
            if number % 7 == 0:
                wire.writer.transport.abort()

    await asyncio.gather(*map(visit, range(220)))
    await stack.client.aclose()
    await stack.until(lambda: not stack.gateway._server.connections)
    await stack.until(stack.idle)
    assert not [line for line in stack.log.lines if line["status"] >= 500]
