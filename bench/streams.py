"""Many paced streams through one gateway process: what it adds to the gaps between tokens, and what memory a stream takes.

    .venv/bin/python bench/streams.py [--streams 16,256,1024] [--pace 0.05] [--tokens 200] [--json]

Each number of streams is asked for at the upstream directly and through the gateway. The clients note when each token came: a
gap beyond the pace is a stall, and what the gateway's own stalls are is told by those of the direct way. On Linux the
gateway has the first core to itself; clients and upstream share the last.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import cast

import httptools
import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from bench.load import Bodies, Target
from bench.paced import Pacer, pinned
from bench.peers import MODEL, Place, serve_tiergate
from bench.processes import Running, free_port

ROOT = Path(__file__).resolve().parent.parent
_WHOLE = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b"
_ANSWER = json.dumps(
    {"id": "c", "object": "chat.completion", "created": 1, "model": MODEL,
     "choices": [{"index": 0, "message": {"role": "assistant", "content": "ready"}, "finish_reason": "stop"}],
     "usage": {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10}}
).encode()  # fmt: skip
_MODELS = json.dumps({"object": "list", "data": [{"id": MODEL, "object": "model", "max_model_len": 1_000_000}]}).encode()


@dataclass(frozen=True, slots=True)
class Seen:
    """Of one number of streams, one way. Milliseconds; a stall is what a gap has beyond the pace."""

    streams: int
    events: int
    ttft_p50: float
    ttft_p99: float
    stall_p50: float
    stall_p99: float
    stall_max: float
    rss_mib: float = 0.0
    kib_a_stream: float = 0.0


class Upstream(asyncio.Protocol):
    """Streams at the pace; whatever is no stream is answered at once."""

    def __init__(self, pacer: Pacer) -> None:
        self._pacer = pacer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._parser = httptools.HttpRequestParser(self)
        self._body = b""

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_begin(self) -> None:
        self._body = b""

    def on_body(self, piece: bytes) -> None:
        self._body += piece

    def on_message_complete(self) -> None:
        if b'"stream":true' in self._body.replace(b" ", b""):
            self._pacer.begin(self._transport)
        else:
            answer = _ANSWER if self._body else _MODELS
            self._transport.write(_WHOLE % (len(answer), answer))


class Client(asyncio.Protocol):
    """Asks for one stream and notes when its reads came."""

    def __init__(self, request: bytes, done: asyncio.Future[None]) -> None:
        self.request, self.done = request, done
        self.times: list[float] = []
        self.events = 0
        self.ended = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport, self.parser = cast("asyncio.Transport", transport), httptools.HttpResponseParser(self)
        self.asked = time.perf_counter()
        self.transport.write(self.request)

    def data_received(self, data: bytes) -> None:
        events = self.events
        self.parser.feed_data(data)
        if self.events > events:
            self.times.append(time.perf_counter())

    def on_body(self, piece: bytes) -> None:
        self.events += piece.count(b"data:")

    def on_message_complete(self) -> None:
        self.ended = self.parser.get_status_code() == 200
        self.transport.close()

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - the count of events tells
        if not self.done.done():
            self.done.set_result(None)


def percentile(ordered: Sequence[float], share: float) -> float:
    return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1e3, 3) if ordered else 0.0


async def streamed(target: Target, count: int, pace: float, running: Running | None) -> Seen:
    """So many streams at once, begun over one second."""
    loop, bodies, clients = asyncio.get_running_loop(), Bodies(), list[Client]()
    before = running.rss() if running is not None else 0.0
    most = before
    for number in range(count):
        body = bodies.next(target.model, stream=True)
        request = target.head() + b"content-length: %d\r\n\r\n%b" % (len(body), body)
        client = Client(request, loop.create_future())
        clients.append(client)
        await loop.create_connection(lambda client=client: client, "127.0.0.1", target.port)  # type: ignore[misc]
        await asyncio.sleep(1 / count)
        if running is not None and number % 64 == 0:
            most = max(most, running.rss())
    waiting = asyncio.gather(*(client.done for client in clients))
    while not waiting.done():
        await asyncio.sleep(0.5)
        if running is not None:
            most = max(most, running.rss())
    if not all(client.ended for client in clients):
        raise RuntimeError(f"{sum(not client.ended for client in clients)} of {count} streams did not come to their end")
    stalls = sorted(b - a - pace for client in clients for a, b in zip(client.times[1:], client.times[2:], strict=False))
    first = sorted(client.times[0] - client.asked - pace for client in clients)
    events = sum(client.events for client in clients)
    points = [percentile(first, share) for share in (0.5, 0.99)] + [percentile(stalls, share) for share in (0.5, 0.99, 1.0)]
    return Seen(count, events, *points, round(most, 1), round((most - before) * 1024 / count, 1))


async def serve(port: int, pace: float, tokens: int) -> None:
    loop, pacer = asyncio.get_running_loop(), Pacer(pace, tokens)
    await loop.create_server(lambda: Upstream(pacer), "127.0.0.1", port, backlog=4096)
    await pacer.run()


async def measured(args: argparse.Namespace) -> dict[str, list[Seen]]:
    upstream = free_port()
    command = [*pinned((os.cpu_count() or 1) - 1), sys.executable, __file__, "--serve", str(upstream)]
    behind = await asyncio.create_subprocess_exec(*command, "--pace", str(args.pace), "--tokens", str(args.tokens))
    with tempfile.TemporaryDirectory() as folder:
        place = Place(ROOT, Path(folder), free_port(), [upstream])
        target = Target(place.port, f"{MODEL}-small")
        gateway = [*pinned(0), *serve_tiergate(sys.executable, place)]
        config = Path(folder) / "tiergate.yaml"
        config.write_text(config.read_text().replace("context: ", "concurrency: {max: 4096}, context: "))
        running = Running(gateway, target, Path(folder) / "log", {"PYTHONPATH": str(ROOT)})
        try:
            running.wait()
            found: dict[str, list[Seen]] = {"direct": [], "gateway": []}
            for count in args.streams:
                found["direct"].append(await streamed(Target(upstream, MODEL), count, args.pace, None))
                found["gateway"].append(await streamed(target, count, args.pace, running))
            return found
        finally:
            running.stop()
            behind.kill()
            await behind.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=lambda text: [int(word) for word in text.split(",")], default=[16, 256, 1024])
    parser.add_argument("--pace", type=float, default=0.05)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        uvloop.run(serve(args.serve, args.pace, args.tokens))
        return 0
    if sys.platform == "linux":
        os.sched_setaffinity(0, {(os.cpu_count() or 1) - 1})
    found = uvloop.run(measured(args))
    if args.json:
        print(json.dumps({way: [asdict(seen) for seen in rows] for way, rows in found.items()}))
        return 0
    for way, rows in found.items():
        for row in rows:
            print(f"{way:8}", " ".join(f"{name} {value}" for name, value in asdict(row).items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
