"""Does `tiergate load` keep its clock under many streams? Paced streams from a server on another core, CPU and lag counted.

    .venv/bin/python bench/paced.py [--streams 2000] [--pace 0.05] [--tokens 200] [--seconds 30] [--json]

The server writes each token of each stream at its own time and notes how late it did: what the generator measures beyond
that is its own error. On Linux the generator is pinned to the first core and the server to the last.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from typing import Any, cast

import httptools

CHUNK = (
    b'data: {"id":"chatcmpl-0123456789abcdef","object":"chat.completion.chunk","created":1700000000,"model":"paced",'
    b'"choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}]}\n\n'
)
LAST = (
    CHUNK.replace(b'"finish_reason":null', b'"finish_reason":"stop"')
    + b'data: {"choices":[],"usage":{"prompt_tokens":100,"completion_tokens":%d,"total_tokens":300}}\n\ndata: [DONE]\n\n'
)
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def chunked(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


class Pacer:
    """All streams have one pace, so the queue of what is due is in order without sorting."""

    def __init__(self, pace: float, tokens: int) -> None:
        self.pace, self.tokens = pace, tokens
        self.queue: deque[tuple[float, int, asyncio.Transport]] = deque()
        self.late: dict[int, int] = {}  # microseconds after the due time: how many
        self.token, self.last = chunked(CHUNK), chunked(LAST % tokens) + b"0\r\n\r\n"

    def begin(self, transport: asyncio.Transport) -> None:
        transport.write(HEAD)
        self.queue.append((time.perf_counter() + self.pace, self.tokens, transport))

    async def run(self) -> None:
        queue, late, pace = self.queue, self.late, self.pace
        while True:
            now = time.perf_counter()
            while queue and queue[0][0] <= now:
                due, left, transport = queue.popleft()
                if transport.is_closing():
                    continue
                transport.write(self.token if left > 1 else self.last)
                error = int((time.perf_counter() - due) * 1e6)
                late[error] = late.get(error, 0) + 1
                if left > 1:
                    queue.append((now + pace, left - 1, transport))
            await asyncio.sleep(0.001)

    def figures(self) -> dict[str, float]:
        total, seen, found = sum(self.late.values()), 0, {}
        for error in sorted(self.late):
            seen += self.late[error]
            for name, share in (("p50", 0.5), ("p99", 0.99), ("p99_9", 0.999), ("max", 1.0)):
                if name not in found and seen >= share * total:
                    found[name] = error / 1e3
        return found


class Upstream(asyncio.Protocol):
    def __init__(self, pacer: Pacer) -> None:
        self.pacer = pacer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.parser = httptools.HttpRequestParser(self)

    def data_received(self, data: bytes) -> None:
        self.parser.feed_data(data)

    def on_message_complete(self) -> None:
        self.pacer.begin(self.transport)


async def serve(port: int, pace: float, tokens: int) -> None:
    loop, pacer, told = asyncio.get_running_loop(), Pacer(pace, tokens), asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, told.set)
    await loop.create_server(lambda: Upstream(pacer), "127.0.0.1", port, backlog=4096)
    work = loop.create_task(pacer.run())
    await told.wait()
    work.cancel()
    times = os.times()
    print(json.dumps({"late_ms": pacer.figures(), "cpu_s": times.user + times.system}))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def pinned(core: int) -> list[str]:
    return ["taskset", "-c", str(core)] if sys.platform == "linux" and (os.cpu_count() or 1) > 1 else []


def run(args: argparse.Namespace) -> dict[str, Any]:
    port, length = free_port(), args.tokens * args.pace
    me = [*pinned((os.cpu_count() or 1) - 1), sys.executable, __file__, "--serve", str(port), "--pace", str(args.pace)]
    server = subprocess.Popen([*me, "--tokens", str(args.tokens)], stdout=subprocess.PIPE, text=True)
    try:
        wait_for(port)
        command = [
            *pinned(0), sys.executable, "-m", "gateway.cli", "load", "--url", f"http://127.0.0.1:{port}/v1", "--no-probe",
            "--json", "--arrivals", "constant", "--rate", f"{args.streams / length:.3f}", "--max-inflight", str(args.streams * 2),
            "--warmup", f"{length:.1f}s", "--duration", f"{args.seconds}s",
        ]  # fmt: skip
        load = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)
        server.send_signal(signal.SIGTERM)
        return {"server": json.loads(server.communicate(timeout=10)[0]), "load": load}
    finally:
        server.kill()


def wait_for(port: int) -> None:
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise RuntimeError("the server did not start")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=2000)
    parser.add_argument("--pace", type=float, default=0.05)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        import uvloop  # noqa: PLC0415

        uvloop.run(serve(args.serve, args.pace, args.tokens))
        return 0
    result = run(args)
    if args.json:
        print(json.dumps(result))
        return 0
    load, server = result["load"], result["server"]
    for name in ("ttft", "tpot", "itl", "lag", "stall"):
        print(f"{name:12}", ", ".join(f"{point} {value}" for point, value in load["latency_ms"][name].items()))
    print("server late ", ", ".join(f"{point} {value}" for point, value in server["late_ms"].items()))
    print("requests    ", load["requests"], "load", load["machine"]["load_average"])
    print("CPU s       ", "generator", load["generator"], "server", round(server["cpu_s"], 1))
    print(*load["warnings"], sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
