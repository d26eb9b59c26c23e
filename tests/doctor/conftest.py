"""Configs as files, engines that are well or not, and a doctor who looks at them with a short patience."""

import asyncio
import hashlib
import json
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.config import examine
from gateway.doctor.diagnosis import Line, Options, diagnose
from gateway.doctor.machine import Machine
from gateway.lab.fake import FakeVLLM
from gateway.lab.fake import Options as FakeOptions

KEY = "tg-test-key-of-acme"
HEALTHY = Machine("cpython 3.12.0", True, False, {"uvloop": "0.22", "httptools": "0.7", "msgspec": "0.20"}, 1_000_000, 4, "/tmp")


@dataclass
class Engine:
    """A small HTTP server that says what it is told to say."""

    answers: dict[str, tuple[int, bytes]]
    date: Callable[[], float] = time.time
    context: ssl.SSLContext | None = None
    port: int = 0
    hang: bool = False
    raw: bytes | None = None  # sent instead of HTTP

    async def serve(self) -> asyncio.Server:
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0, ssl=self.context)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            while self.hang:
                await asyncio.sleep(0.05)
            if self.raw is not None:
                writer.write(self.raw)
            else:
                status, body = self.answers.get(head.split(b" ")[1].decode(), (404, b"nothing here"))
                date = formatdate(self.date(), usegmt=True)
                head_out = f"HTTP/1.1 {status} X\r\ndate: {date}\r\nconnection: close\r\ncontent-length: {len(body)}\r\n\r\n"
                writer.write(head_out.encode() + body)
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError, ssl.SSLError, asyncio.CancelledError):
            pass
        finally:
            writer.close()


def vllm(name: str = "fake", *, length: int | None = 4096, version: str = "0.32.0") -> dict[str, tuple[int, bytes]]:
    """What a vLLM answers."""
    card = {"id": name, "object": "model", "max_model_len": length}
    return {
        "/health": (200, b""),
        "/version": (200, json.dumps({"version": version}).encode()),
        "/v1/models": (200, json.dumps({"object": "list", "data": [card]}).encode()),
    }


Serve = Callable[..., Awaitable[Engine]]
Fake = Callable[..., Awaitable[FakeVLLM]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """`await serve(answers, …)` → a running Engine."""
    async with AsyncExitStack() as scope:

        async def start(answers: dict[str, tuple[int, bytes]] | None = None, **how: Any) -> Engine:
            engine = Engine(vllm() if answers is None else answers, **how)
            server = await engine.serve()

            def stop() -> None:
                engine.hang = False
                server.close()

            scope.callback(stop)
            return engine

        yield start


@pytest.fixture
async def fake() -> AsyncIterator[Fake]:
    """`await fake(option=…)` → a running fake vLLM."""
    async with AsyncExitStack() as scope:

        async def start(**options: Any) -> FakeVLLM:
            return await scope.enter_async_context(FakeVLLM(FakeOptions(**{"max_model_len": 4096, **options})))

        yield start


@dataclass
class Doctor:
    """`await doctor(tree)` → the findings; `bad` are those that are not ok."""

    directory: Path
    lines: list[Line]

    async def __call__(
        self, tree: Any, *, env: dict[str, str] | None = None, machine: Machine = HEALTHY, **options: Any
    ) -> list[Line]:
        path = self.directory / "config.yaml"
        path.write_text(tree if isinstance(tree, str) else yaml.safe_dump(tree, sort_keys=False))
        chosen = Options(**{"timeout": 3.0, "total": 15.0, **options})
        self.lines = await diagnose(examine(path, env or {}), chosen, machine)
        return self.lines

    @property
    def bad(self) -> list[Line]:
        return [line for line in self.lines if line.severity != "ok"]

    def only(self) -> Line:
        """The one finding that there should be."""
        assert len(self.bad) == 1, self.bad
        return self.bad[0]


@pytest.fixture
def doctor(tmp_path: Path) -> Doctor:
    return Doctor(tmp_path, [])


def config(*urls: str, **changes: Any) -> dict[str, Any]:
    """A config in which nothing is wrong, over replicas at `urls`; `changes` replace its sections, `model` the model's keys."""
    replicas = [{"name": f"r{number}", "url": url} for number, url in enumerate(urls)]
    model = {"name": "small", "served_name": "fake", "context": 4096, "replicas": replicas, **changes.pop("model", {})}
    return {
        "server": {"port": 0},
        "admin": {"key": "admin-key"},
        "models": [model],
        "plans": {"pro": {"rpm": 60}},
        "tenants": [{"name": "acme", "plan": "pro", "keys": [{"id": "k1", "sha256": hashlib.sha256(KEY.encode()).hexdigest()}]}],
        "keys": {"path": "keys.json"},
        **changes,
    }
