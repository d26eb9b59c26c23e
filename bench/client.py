#!/usr/bin/env python3
"""What a request upstream costs in CPU, for this client and for others that are installed.

    python bench/client.py [--json] [--rounds N] [--requests N]

All clients talk to the same keep-alive server, which runs in a process of its own, from the same event loop (uvloop), one
after another in each of several rounds, so that a noisy machine disturbs all of them alike. Counted is the CPU time of
this process only, all its threads included; of the rounds the median is told, and the lowest beside it.

- unstreamed: a body of 0.5 KB up, 0.6 KB of JSON back, 32 requests at once.
- streamed: 32 streams at once, each of 64 server-sent events 10 ms apart; the cost of a stream is divided by its pieces.
- bare: a socket of the same event loop that parses nothing and knows how long the answer will be; what remains is the
  price of the event loop and of the system calls.
- first piece at once: does a piece reach the caller before the server sends the next one?
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import importlib
import importlib.metadata
import json
import multiprocessing
import statistics
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from backends.client import Client, Deadlines, Origin

PARALLEL = 32
PIECES = 64
GAP = 0.010
PAUSE = 0.300  # between the two pieces of the buffering test
BODY = json.dumps({"model": "small", "messages": [{"role": "user", "content": "x" * 430}], "max_tokens": 64}).encode()
REPLY = json.dumps({"id": "chatcmpl-1", "object": "chat.completion", "choices": [{"message": {"content": "y" * 500}}]}).encode()
EVENT = b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":" word"}}]}\n\n'


# ---- the server


def json_answer() -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(REPLY), REPLY)


class Replica(asyncio.Protocol):
    """Answers by path: `/json`, `/stream`, `/two`."""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        self.buffer = b""

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self.buffer[:end].lower()
        length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
        if len(self.buffer) < end + 4 + length:
            return
        path = self.buffer.split(b" ", 2)[1]
        self.buffer = self.buffer[end + 4 + length :]
        if path == b"/json":
            self.transport.write(json_answer())
        else:
            self.transport.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
            self.more(PIECES if path == b"/stream" else 2, GAP if path == b"/stream" else PAUSE)

    def more(self, left: int, gap: float) -> None:
        if not left:
            self.transport.write(b"0\r\n\r\n")
            return
        self.transport.write(b"%x\r\n%b\r\n" % (len(EVENT), EVENT))
        asyncio.get_running_loop().call_later(gap if left > 1 else 0, self.more, left - 1, gap)


def serve(port: Any) -> None:
    async def run() -> None:
        server = await asyncio.get_running_loop().create_server(Replica, "127.0.0.1", 0)
        port.put(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    uvloop.run(run())


# ---- the clients


class Contender(Protocol):
    async def whole(self, path: str) -> bytes: ...
    def pieces(self, path: str, sink: Callable[[bytes], None]) -> Awaitable[None]: ...
    async def close(self) -> None: ...


class Ours:
    def __init__(self, port: int) -> None:
        self.client = Client(Origin.parse(f"http://127.0.0.1:{port}"))
        self.heads = {
            path: f"POST {path} HTTP/1.1\r\nhost: replica\r\ncontent-length: {len(BODY)}\r\n\r\n".encode()
            for path in ("/json", "/stream", "/two")
        }

    async def whole(self, path: str) -> bytes:
        deadlines = Deadlines(5.0, None, None, asyncio.get_running_loop().time() + 600.0)
        async with self.client.request(self.heads[path], BODY, deadlines) as answer:
            return await answer.read(1 << 20)

    async def pieces(self, path: str, sink: Callable[[bytes], None]) -> None:
        deadlines = Deadlines(5.0, 60.0, 30.0, asyncio.get_running_loop().time() + 600.0)
        async with self.client.request(self.heads[path], BODY, deadlines) as answer:
            sink(await answer.first())
            await answer.relay(sink)

    async def close(self) -> None:
        await self.client.close()


class Bare:
    """No client: the least that the event loop and the kernel cost."""

    class Socket(asyncio.Protocol):
        def connection_made(self, transport: Any) -> None:
            self.transport = transport
            self.size = 0
            self.want = 0
            self.sink: Callable[[bytes], None] = print  # set by each request
            self.done: asyncio.Future[None] | None = None

        def data_received(self, data: bytes) -> None:
            self.size += len(data)
            self.sink(data)
            if self.done is not None and (self.size >= self.want if self.want else data.endswith(b"0\r\n\r\n")):
                self.done.set_result(None)
                self.done = None

    def __init__(self, port: int) -> None:
        self.port = port
        self.idle: list[Bare.Socket] = []
        self.heads = Ours(port).heads
        self.length = len(json_answer())

    async def _exchange(self, path: str, want: int, sink: Callable[[bytes], None]) -> None:
        loop = asyncio.get_running_loop()
        socket = self.idle.pop() if self.idle else (await loop.create_connection(Bare.Socket, "127.0.0.1", self.port))[1]
        socket.size, socket.want, socket.sink, socket.done = 0, want, sink, loop.create_future()
        socket.transport.write(self.heads[path] + BODY)
        await socket.done
        self.idle.append(socket)

    async def whole(self, path: str) -> bytes:
        got: list[bytes] = []
        await self._exchange(path, self.length, got.append)
        return b"".join(got)[-len(REPLY) :]

    async def pieces(self, path: str, sink: Callable[[bytes], None]) -> None:
        """Hands on the payload of each read, which it finds by its fixed size."""
        await self._exchange(path, 0, lambda data: sink(EVENT * data.count(EVENT)))

    async def close(self) -> None:
        for socket in self.idle:
            socket.transport.abort()


class Aiohttp:
    def __init__(self, port: int) -> None:
        aiohttp = importlib.import_module("aiohttp")
        self.url = f"http://127.0.0.1:{port}"
        self.session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), auto_decompress=False)
        self.headers = {"content-type": "application/json"}

    async def whole(self, path: str) -> bytes:
        async with self.session.post(self.url + path, data=BODY, headers=self.headers) as response:
            body: bytes = await response.read()
            return body

    async def pieces(self, path: str, sink: Callable[[bytes], None]) -> None:
        async with self.session.post(self.url + path, data=BODY, headers=self.headers) as response:
            async for piece in response.content.iter_any():
                sink(piece)

    async def close(self) -> None:
        await self.session.close()


class Httpx:
    def __init__(self, port: int) -> None:
        httpx = importlib.import_module("httpx")
        self.client = httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{port}", limits=httpx.Limits(max_connections=None), timeout=600
        )
        self.headers = {"content-type": "application/json"}

    async def whole(self, path: str) -> bytes:
        response = await self.client.post(path, content=BODY, headers=self.headers)
        body: bytes = response.content
        return body

    async def pieces(self, path: str, sink: Callable[[bytes], None]) -> None:
        async with self.client.stream("POST", path, content=BODY, headers=self.headers) as response:
            async for piece in response.aiter_raw():
                sink(piece)

    async def close(self) -> None:
        await self.client.aclose()


class Pyreqwest:
    def __init__(self, port: int) -> None:
        builder = importlib.import_module("pyreqwest.client").ClientBuilder
        self.url = f"http://127.0.0.1:{port}"
        self.client = builder().http1_only().no_proxy().build()
        self.held = 0  # by its own default it collects 64 KB before it hands on the first piece

    def _post(self, path: str) -> Any:
        return self.client.post(self.url + path).header("content-type", "application/json").body_bytes(BODY)

    async def whole(self, path: str) -> bytes:
        response = await self._post(path).build().send()
        return bytes(await response.bytes())

    async def pieces(self, path: str, sink: Callable[[bytes], None]) -> None:
        async with self._post(path).streamed_read_buffer_limit(self.held).build_streamed() as response:
            while (piece := await response.body_reader.read_chunk()) is not None:
                sink(bytes(piece))

    async def close(self) -> None:
        await self.client.close()


CONTENDERS: dict[str, tuple[type[Any], str | None]] = {
    "bare": (Bare, None),
    "tiergate": (Ours, None),
    "aiohttp": (Aiohttp, "aiohttp"),
    "pyreqwest": (Pyreqwest, "pyreqwest"),
    "httpx": (Httpx, "httpx"),
}


# ---- the measurement


@dataclass
class Figures:
    version: str
    request_us: list[float] = field(default_factory=list)
    piece_us: list[float] = field(default_factory=list)
    at_once: bool = False

    def row(self) -> dict[str, Any]:
        return {
            "version": self.version,
            "request_us": round(statistics.median(self.request_us), 1),
            "request_us_min": round(min(self.request_us), 1),
            "piece_us": round(statistics.median(self.piece_us), 2),
            "piece_us_min": round(min(self.piece_us), 2),
            "first_piece_at_once": self.at_once,
        }


async def spent(work: Callable[[], Awaitable[None]]) -> float:
    """CPU seconds of this process while `work` runs, without the collector's moods."""
    gc.collect()
    gc.disable()
    try:
        began = time.process_time()
        await work()
        return time.process_time() - began
    finally:
        gc.enable()


async def unstreamed(contender: Contender, requests: int) -> float:
    async def lane() -> None:
        for _ in range(requests // PARALLEL):
            body = await contender.whole("/json")
            assert len(body) == len(REPLY)

    async def work() -> None:
        await asyncio.gather(*(lane() for _ in range(PARALLEL)))

    return await spent(work) / (requests // PARALLEL * PARALLEL) * 1e6


async def streamed(contender: Contender) -> float:
    got: list[int] = []

    async def work() -> None:
        await asyncio.gather(*(contender.pieces("/stream", lambda piece: got.append(len(piece))) for _ in range(PARALLEL)))

    seconds = await spent(work)
    assert sum(got) == PARALLEL * PIECES * len(EVENT)
    return seconds / (PARALLEL * PIECES) * 1e6


async def passes_at_once(contender: Contender) -> bool:
    """Did the first piece come well before the second was sent?"""
    times: list[float] = []
    await contender.pieces("/two", lambda _: times.append(time.perf_counter()))
    return len(times) > 1 and times[-1] - times[0] > PAUSE / 2


async def measure(port: int, rounds: int, requests: int) -> AsyncIterator[tuple[str, Figures]]:
    figures: dict[str, Figures] = {}
    contenders: dict[str, Contender] = {}
    for name, (make, package) in CONTENDERS.items():
        try:
            figures[name] = Figures(importlib.metadata.version(package) if package else "this checkout")
            contenders[name] = make(port)
        except ImportError:
            figures.pop(name, None)
            print(f"{name} is not installed: left out", file=sys.stderr)
    for name, contender in contenders.items():
        figures[name].at_once = await passes_at_once(contender)
        await unstreamed(contender, PARALLEL * 10)  # open the sockets, import what is imported late
    for _ in range(rounds):
        for name, contender in contenders.items():
            figures[name].request_us.append(await unstreamed(contender, requests))
            figures[name].piece_us.append(await streamed(contender))
    for name, contender in contenders.items():
        await contender.close()
        yield name, figures[name]


def table(rows: dict[str, dict[str, Any]]) -> str:
    lines = [
        "| client | version | CPU us a request (lowest) | CPU us a streamed piece (lowest) | first piece at once |",
        "|---|---|---:|---:|---|",
    ]
    for name, row in rows.items():
        lines.append(
            f"| {name} | {row['version']} | {row['request_us']} ({row['request_us_min']}) | "
            f"{row['piece_us']} ({row['piece_us_min']}) | {'yes' if row['first_piece_at_once'] else '**no**'} |"
        )
    return "\n".join(lines)


async def collect(port: int, rounds: int, requests: int) -> dict[str, dict[str, Any]]:
    return {name: figures.row() async for name, figures in measure(port, rounds, requests)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a Markdown table")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=4_000, help="unstreamed requests a round and client")
    arguments = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    port: Any = context.Queue()
    server = context.Process(target=serve, args=(port,), daemon=True)
    server.start()
    try:
        rows = uvloop.run(collect(port.get(), arguments.rounds, max(PARALLEL, arguments.requests)))
    finally:
        server.terminate()
        server.join()
    print(json.dumps(rows, indent=2) if arguments.json else table(rows))


if __name__ == "__main__":
    main()
