"""CPU per request and per streamed token: tiergate with everything on, beside `smg` (a Rust router), on one upstream.

    .venv/bin/python bench/quick.py --smg PATH/TO/smg [--rounds 5] [--json]

The peers take turns within each round, and what counts is the ratio: the machine's mood is the same for both. CPU is that
of the process tree, user and system. tiergate authenticates, limits, looks up its exact cache (and misses: every prompt is
new), classifies, queues, logs and counts; smg does cache-aware routing and nothing of these. Absolute figures belong to one
machine and one day.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import platform
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import httptools
import psutil

CONNECTIONS = 32
REQUESTS = 6_000
TOKENS = 64
PACE = 0.01
KEY = "tg-bench-key"
MODEL = "bench-model"
_CHUNK = (
    b'data: {"id":"chatcmpl-0123456789abcdef","object":"chat.completion.chunk","created":1700000000,"model":"bench-model",'
    b'"choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}]}\n\n'
)
_SENT = re.compile(rb'"id":"sent-(\d+)"')
_LAST = _CHUNK.replace(b'"delta":{"content":" word"}', b'"delta":{}').replace(b'"finish_reason":null', b'"finish_reason":"stop"')
_ANSWER = json.dumps(
    {
        "id": "chatcmpl-0123456789abcdef", "object": "chat.completion", "created": 1700000000, "model": MODEL,
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "w" * 360}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 90, "completion_tokens": 64, "total_tokens": 154},
    }
).encode()  # fmt: skip


class Upstream(asyncio.Protocol):
    """As little of a server as keeps both peers busy."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.parser = httptools.HttpRequestParser(self)
        self.url, self.pieces = b"", []

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self.url, self.pieces = url, []

    def on_body(self, body: bytes) -> None:
        self.pieces.append(body)

    def on_message_complete(self) -> None:
        body = b"".join(self.pieces)
        if self.url.startswith(b"/v1/chat"):
            if b'"stream":true' in body.replace(b" ", b""):
                asyncio.get_running_loop().create_task(self.stream())
                return
            answer = _ANSWER
        elif self.url.startswith(b"/v1/models"):
            answer = json.dumps(
                {"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": "vllm", "max_model_len": 32768}]}
            ).encode()
        else:
            answer = b"{}"
        self.transport.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(answer) + answer
        )

    async def stream(self) -> None:
        self.transport.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
        )
        await asyncio.sleep(PACE)
        first = _CHUNK.replace(b"chatcmpl-0123456789abcdef", b"sent-%d" % time.monotonic_ns())  # one clock for all processes
        self.transport.write(b"%x\r\n%b\r\n" % (len(first), first))
        for _ in range(TOKENS - 1):
            self.transport.write(b"%x\r\n%b\r\n" % (len(_CHUNK), _CHUNK))
            await asyncio.sleep(PACE)
        tail = _LAST + b"data: [DONE]\n\n"
        self.transport.write(b"%x\r\n%b\r\n0\r\n\r\n" % (len(tail), tail))


class Caller(asyncio.Protocol):
    """One client connection: sends a request when told, says when the answer has ended."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.done: asyncio.Future[int] | None = None

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the protocol's
        if self.done is not None and not self.done.done():
            self.done.set_exception(ConnectionError("the peer closed the connection"))

    def on_body(self, piece: bytes) -> None:
        if self.lag is None and (sent := _SENT.search(piece)):
            self.lag = (time.monotonic_ns() - int(sent[1])) / 1e6

    def on_message_complete(self) -> None:
        self.done.set_result(self.parser.get_status_code())

    async def call(self, body: bytes) -> float | None:
        """Send and wait for the end; how many ms the first event of a stream was under way."""
        self.lag: float | None = None
        self.parser = httptools.HttpResponseParser(self)
        self.done = asyncio.get_running_loop().create_future()
        self.transport.write(
            b"POST /v1/chat/completions HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\n"
            b"authorization: Bearer %b\r\ncontent-length: %d\r\n\r\n%b" % (KEY.encode(), len(body), body)
        )
        status = await self.done
        if status != 200:
            raise RuntimeError(f"the peer answered {status}")
        return self.lag


class Bodies:
    """Prompts that have never been sent before, of about half a kilobyte."""

    def __init__(self) -> None:
        self.number = 0
        self.salt = os.urandom(4).hex()

    def next(self, model: str, *, stream: bool) -> bytes:
        self.number += 1
        text = (
            f"{self.salt}-{self.number} Summarise what follows for a colleague in two sentences. "
            + "Lorem ipsum dolor sit amet. " * 9
        )
        message = {
            "model": model,
            "temperature": 0,
            "messages": [{"role": "system", "content": "You are a helpful assistant."}, {"role": "user", "content": text}],
        }
        return json.dumps(message | {"stream": True} if stream else message, separators=(",", ":")).encode()


async def drive(
    port: int,
    model: str,
    bodies: Bodies,
    requests: int,
    *,
    stream: bool,
    connections: int = CONNECTIONS,
    spread_over: float = 0.0,
) -> list[float]:
    """Send so many requests over the connections, the first ones spread over some seconds; lags of first events in ms."""
    loop = asyncio.get_running_loop()
    callers = [(await loop.create_connection(Caller, "127.0.0.1", port))[1] for _ in range(connections)]
    left = requests
    lags: list[float] = []

    async def work(number: int, caller: Caller) -> None:
        nonlocal left
        await asyncio.sleep(number * spread_over / connections)
        while left > 0:
            left -= 1
            lag = await caller.call(bodies.next(model, stream=stream))
            if lag is not None:
                lags.append(lag)

    await asyncio.gather(*(work(*pair) for pair in enumerate(callers)))
    for caller in callers:
        caller.transport.close()
    return lags


class Peer:
    """A gateway under test: its process tree, its port, the model name that it is asked for."""

    def __init__(self, name: str, command: list[str], port: int, model: str, probe: str) -> None:
        self.name, self.port, self.model = name, port, model
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        self.probe = f"http://127.0.0.1:{port}{probe}"
        # A program may rename or re-execute itself; what listens on the port is what is measured.
        self.tree: list[psutil.Process] = []

    def wait(self) -> float:
        started = time.perf_counter()
        while time.perf_counter() - started < 60:
            try:
                with urllib.request.urlopen(self.probe, timeout=1) as answer:
                    if answer.status == 200:
                        break
            except OSError:
                time.sleep(0.02)
        else:
            raise RuntimeError(f"{self.name} did not start")
        took = time.perf_counter() - started
        root = psutil.Process(self.process.pid)
        self.tree = [root, *root.children(recursive=True)]
        return took

    def cpu(self) -> float:
        times = [process.cpu_times() for process in self.tree if process.is_running()]
        return sum(t.user + t.system for t in times)

    def rss(self) -> float:
        return sum(process.memory_info().rss for process in self.tree if process.is_running()) / 2**20

    def stop(self) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def config(port: int, upstream: int) -> str:
    digest = hashlib.sha256(KEY.encode()).hexdigest()
    models = "".join(
        f"  - {{name: {MODEL}-{tier}, tier: {tier}, served_name: {MODEL}, context: 32768, "
        f'replicas: [{{name: {tier}1, url: "http://127.0.0.1:{upstream}/v1"}}]}}\n'
        for tier in ("small", "large")
    )
    return (
        f"server: {{port: {port}}}\nmodels:\n{models}"
        "plans: {bench: {rpm: 100_000_000, tpm: 100_000_000_000, priority: realtime, max_parallel: 100_000}}\n"
        f'tenants: [{{name: bench, plan: bench, keys: [{{id: k1, sha256: "{digest}"}}]}}]\n'
    )


def run(args: argparse.Namespace) -> dict[str, object]:
    upstream_port = free_port()
    upstream = subprocess.Popen([sys.executable, __file__, "--upstream", str(upstream_port)])
    directory = Path(tempfile.mkdtemp(prefix="tiergate-bench-"))
    peers: list[Peer] = []
    try:
        port = free_port()
        (directory / "config.yaml").write_text(config(port, upstream_port))
        command = [sys.executable, "-m", "gateway.cli", "serve", "--config", str(directory / "config.yaml")]
        peers.append(Peer("tiergate", command, port, "auto", "/ready"))
        if args.smg:
            port = free_port()
            command = [args.smg, "launch", "--host", "127.0.0.1", "--port", str(port), "--worker-urls", f"http://127.0.0.1:{upstream_port}",
                       "--policy", "cache_aware", "--log-level", "warn", "--prometheus-port", str(free_port())]  # fmt: skip
            peers.append(Peer("smg", command, port, MODEL, "/readiness"))
        starts = {peer.name: peer.wait() for peer in peers}
        return {"starts": starts, **asyncio.run(rounds(peers, args.rounds))}
    finally:
        for peer in peers:
            peer.stop()
        upstream.kill()


async def rounds(peers: list[Peer], count: int) -> dict[str, object]:
    bodies = Bodies()
    requests: dict[str, list[float]] = {peer.name: [] for peer in peers}
    tokens: dict[str, list[float]] = {peer.name: [] for peer in peers}
    for peer in peers:  # warm both
        await drive(peer.port, peer.model, bodies, 500, stream=False)
    for _ in range(count):
        for peer in peers:
            before = peer.cpu()
            await drive(peer.port, peer.model, bodies, REQUESTS, stream=False)
            requests[peer.name].append((peer.cpu() - before) / REQUESTS * 1e6)
        for peer in peers:
            streams = CONNECTIONS * 4
            before = peer.cpu()
            await drive(peer.port, peer.model, bodies, streams, stream=True)
            tokens[peer.name].append((peer.cpu() - before) / (streams * TOKENS) * 1e6)
    rss = {peer.name: peer.rss() for peer in peers}
    lags = {}
    for peer in peers:
        found = sorted(await drive(peer.port, peer.model, bodies, 64 * 4, stream=True, connections=64, spread_over=TOKENS * PACE))
        lags[peer.name] = {"p50": found[len(found) // 2], "p99": found[int(len(found) * 0.99)], "max": found[-1]}
    return {"request_us": requests, "token_us": tokens, "rss_mib": rss, "first_event_ms": lags}


def spread(figures: list[float], digits: int) -> str:
    return f"{statistics.median(figures):.{digits}f} ({min(figures):.{digits}f}-{max(figures):.{digits}f})"


def table(result: dict[str, object]) -> str:
    requests, tokens, rss, starts = (result[name] for name in ("request_us", "token_us", "rss_mib", "starts"))
    rows = ["| gateway | µs a request | µs a streamed token | RSS MiB | ready after s |", "|---|---|---|---|---|"]
    rows += [
        f"| {name} | {spread(requests[name], 0)} | {spread(tokens[name], 1)} | {rss[name]:.0f} | {starts[name]:.1f} |"
        for name in requests
    ]
    if "smg" in requests:
        for label, figures in (("request", requests), ("streamed token", tokens)):
            ratios = [ours / theirs for ours, theirs in zip(figures["tiergate"], figures["smg"], strict=True)]
            rows.append(f"\nratio to smg, per {label}: {spread(ratios, 2)}")
    for name, lag in result["first_event_ms"].items():
        rows.append(
            f"\n{name}: first event at 64 paced streams, sent to received: "
            + ", ".join(f"{k} {v:.1f} ms" for k, v in lag.items())
        )
    machine = platform.processor() or platform.machine()
    rows.append(f"\n{machine}, {os.cpu_count()} cores, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}")
    return "\n".join(rows)


async def serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Upstream, "127.0.0.1", port)
    await server.serve_forever()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smg", help="the smg command of an environment of its own (pip install smg==1.13.0)")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--upstream", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.upstream:
        import uvloop  # noqa: PLC0415

        uvloop.run(serve(args.upstream))
        return 0
    result = run(args)
    print(json.dumps(result) if args.json else table(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
