"""The server that all gateways stand before: as little as keeps them busy, so that it does not decide the result.

    python -m bench.upstream [--listen N]

It listens on N ports of 127.0.0.1 (the replicas of one model), prints them on one line and serves until it is stopped.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import zlib
from typing import cast

import httptools

MODEL = "bench-model"
TOKENS = 64
PACE = 0.01
CHUNK = (
    b'data: {"id":"chatcmpl-0123456789abcdef","object":"chat.completion.chunk","created":1700000000,"model":"bench-model",'
    b'"choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}]}\n\n'
)
LAST = CHUNK.replace(b'"delta":{"content":" word"}', b'"delta":{}').replace(b'"finish_reason":null', b'"finish_reason":"stop"')
ANSWER = json.dumps(
    {
        "id": "chatcmpl-0123456789abcdef", "object": "chat.completion", "created": 1700000000, "model": MODEL,
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "w" * 360}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 90, "completion_tokens": 64, "total_tokens": 154},
    }
).encode()  # fmt: skip
MODELS = json.dumps(
    {"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": "vllm", "max_model_len": 1_000_000}]}
).encode()
# What else a gateway may ask of an engine; the rest is not there, as with an engine of another make.
_OTHERS = {b"/health": b"{}", b"/v1/models": MODELS, b"/metrics": b"# none\n"}
_STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"


def _piece(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def rendered(body: bytes) -> bytes:
    """What vLLM answers when asked for a prompt's tokens, as vllm-router asks before each request: here about one for 4 bytes.

    The first tells one prompt from another, so that no prefix tree takes them all for the same.
    """
    return b'{"request_id":"render-1","token_ids":[%d%b]}' % (zlib.crc32(body), b",1000" * (len(body) // 4))


class Upstream(asyncio.Protocol):
    """One connection. The same answer to every chat request, whole or as 64 events 10 ms apart."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is one without inheriting from it
        self.parser = httptools.HttpRequestParser(self)
        self.url = b""
        self.pieces: list[bytes] = []
        self.streaming: asyncio.Task[None] | None = None

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the protocol's
        if self.streaming is not None:
            self.streaming.cancel()

    def data_received(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError:
            self.transport.close()

    def on_url(self, url: bytes) -> None:
        self.url, self.pieces = url, []

    def on_body(self, body: bytes) -> None:
        self.pieces.append(body)

    def on_message_complete(self) -> None:
        body = b"".join(self.pieces)
        if self.url == b"/v1/chat/completions":
            if b'"stream":true' in body.replace(b" ", b""):
                self.streaming = asyncio.get_running_loop().create_task(self.stream())
                return
            answer = ANSWER
        else:
            answer = rendered(body) if self.url == b"/v1/chat/completions/render" else _OTHERS.get(self.url, b"")
        self.transport.write(
            b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
            % (b"200 OK" if answer else b"404 Not Found", len(answer), answer)
        )

    async def stream(self) -> None:
        self.transport.write(_STREAM_HEAD)
        for _ in range(TOKENS):
            await asyncio.sleep(PACE)
            self.transport.write(_piece(CHUNK))
        self.transport.write(_piece(LAST + b"data: [DONE]\n\n") + b"0\r\n\r\n")


async def serve(count: int) -> None:
    loop = asyncio.get_running_loop()
    servers = [await loop.create_server(Upstream, "127.0.0.1", 0, backlog=1024) for _ in range(count)]
    print(*(server.sockets[0].getsockname()[1] for server in servers), flush=True)
    await asyncio.gather(*(server.serve_forever() for server in servers))


def main() -> int:
    import uvloop  # noqa: PLC0415 - the event loop of this command alone

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--listen", type=int, default=2, help="how many ports")
    uvloop.run(serve(parser.parse_args().listen))
    return 0


if __name__ == "__main__":
    sys.exit(main())
