"""The server that all gateways stand before: as little as keeps them busy, so that it does not decide the result.

    python -m bench.upstream [--listen N]

It listens on N ports of 127.0.0.1 (the replicas of one model), prints them on one line and serves until it is stopped. A request
whose text has a `Paced` in it gets its stream at that pace, any other one the usual.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
import time
import zlib
from collections import deque
from dataclasses import dataclass
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
_PACED = re.compile(rb"paced-(\d+)-(\d+)-(\d+)")


@dataclass(frozen=True, slots=True)
class Paced:
    """How a stream comes: `writes` of them, one each `ms` milliseconds, and so many events in each."""

    ms: int = round(PACE * 1e3)
    events: int = 1
    writes: int = TOKENS

    @property
    def tokens(self) -> int:
        return self.events * self.writes

    @property
    def seconds(self) -> float:
        return self.ms * self.writes / 1e3

    def told(self) -> str:
        """Part of a prompt, which every gateway passes on, for `found`."""
        return f"paced-{self.ms}-{self.events}-{self.writes}"


USUAL = Paced()


def found(body: bytes) -> Paced:
    told = _PACED.search(body)
    return Paced(*map(int, told.groups())) if told else USUAL


def _piece(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


_END = _piece(LAST + b"data: [DONE]\n\n") + b"0\r\n\r\n"


def rendered(body: bytes) -> bytes:
    """What vLLM answers when asked for a prompt's tokens, as vllm-router asks before each request: here about one for 4 bytes.

    The first tells one prompt from another, so that no prefix tree takes them all for the same.
    """
    return b'{"request_id":"render-1","token_ids":[%d%b]}' % (zlib.crc32(body), b",1000" * (len(body) // 4))


class Pacer:
    """Writes the streams of one pace, which are due in the order in which they were written last, so nothing is sorted."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._due: deque[tuple[float, int, bytes, asyncio.Transport]] = deque()
        self._task: asyncio.Task[None] | None = None

    def begin(self, transport: asyncio.Transport, paced: Paced) -> None:
        transport.write(_STREAM_HEAD)
        self._due.append((time.perf_counter() + self._seconds, paced.writes, _piece(CHUNK * paced.events), transport))
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._write())

    async def _write(self) -> None:
        """Each at its own time, whenever the one before was written: a late write makes none of the others late."""
        due = self._due
        while due:
            await asyncio.sleep(max(0.0, due[0][0] - time.perf_counter()))
            now = time.perf_counter()
            while due and due[0][0] <= now:
                at, left, data, transport = due.popleft()
                if transport.is_closing():
                    continue
                transport.write(data if left > 1 else data + _END)
                if left > 1:
                    due.append((at + self._seconds, left - 1, data, transport))


class Upstream(asyncio.Protocol):
    """One connection. The same answer to every chat request, whole or as a stream."""

    def __init__(self, pacers: dict[int, Pacer]) -> None:
        self.pacers = pacers

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is one without inheriting from it
        self.parser = httptools.HttpRequestParser(self)
        self.url = b""
        self.pieces: list[bytes] = []

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
                self.stream(found(body))
                return
            answer = ANSWER
        else:
            answer = rendered(body) if self.url == b"/v1/chat/completions/render" else _OTHERS.get(self.url, b"")
        self.transport.write(
            b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
            % (b"200 OK" if answer else b"404 Not Found", len(answer), answer)
        )

    def stream(self, paced: Paced) -> None:
        if paced.ms not in self.pacers:
            self.pacers[paced.ms] = Pacer(paced.ms / 1e3)
        self.pacers[paced.ms].begin(self.transport, paced)


async def serve(count: int) -> None:
    loop, pacers = asyncio.get_running_loop(), dict[int, Pacer]()
    servers = [await loop.create_server(lambda: Upstream(pacers), "127.0.0.1", 0, backlog=1024) for _ in range(count)]
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
