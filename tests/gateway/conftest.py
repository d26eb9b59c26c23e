"""A whole gateway in front of fake vLLM servers, in the test's own loop, on ports of their own."""

import asyncio
import gc
import hashlib
import os
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import uvloop
import yaml
from apart import Apart

from gateway.app import Gateway
from gateway.config import parse
from gateway.lab.fake import FakeVLLM, Options

WORKERS = int(os.environ.get("TIERGATE_TEST_WORKERS", "0"))
"""0: one process. 1: every test of this folder runs with a dispatcher apart, and must come to the same."""

BOTH = {
    f"test_gateway_{name}.py"
    for name in (
        "adaptive",
        "admin",
        "bad_one",
        "between",
        "budgets",
        "cache",
        "caching",
        "cascade",
        "classify",
        "crash_matrix",
        "explain",
        "failover",
        "fidelity",
        "flight",
        "heartbeat",
        "hits",
        "hostile",
        "isolation",
        "limits",
        "loads",
        "log",
        "metrics",
        "other_apis",
        "outcomes",
        "patience",
        "placing",
        "precise",
        "preempt",
        "prewarm",
        "queue",
        "random",
        "scheduling",
        "scopes",
        "semantic",
        "semantic_crossencoder",
        "semantic_delete",
        "semantic_verify",
        "shared_limits",
        "standing",
        "stream",
        "talks",
        "targets",
        "told",
        "twins",
    )
}
"""Those that touch what a dispatcher decides run in both forms without being asked to."""

KEY = "tg-test-key-of-acme"
OTHER_KEY = "tg-test-key-of-globex"
ADMIN_KEY = "tg-admin-key"


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> Mapping[str, Callable[[], Any]]:
    """As everywhere, but TLS, which each event loop does in its own way, is tested on both."""
    loops: dict[str, Callable[[], Any]] = {"uvloop": uvloop.new_event_loop}
    return loops | {"asyncio": asyncio.SelectorEventLoop} if item.path.name == "test_tls.py" else loops


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if not WORKERS and "how_many_workers" in metafunc.fixturenames and metafunc.definition.path.name in BOTH:
        metafunc.parametrize("how_many_workers", [0, 1], ids=["one process", "dispatcher apart"])


@pytest.fixture
def redis():
    """A real one of its own, that the test may stop and kill."""
    pytest.importorskip("redis", reason="the extra `redis` is not installed")
    from redis_server import RedisServer, find_server
    from store_world import know_for_long

    program = find_server()
    if program is None:
        pytest.skip("neither valkey-server nor redis-server on PATH, and no package that carries one")
    with tempfile.TemporaryDirectory(prefix="tg-") as folder:  # a Unix socket's path must be short
        server = RedisServer(program, Path(folder))
        server.start()
        know_for_long(server)
        yield server
        server.kill()


@pytest.fixture
def how_many_workers() -> int:
    """0: one process."""
    return WORKERS


GATEWAYS = count(1)
"""Of this process's tests."""


class MemoryLog:
    """A request log that tests can read."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def write(self, facts: object) -> None:
        self.lines.append(msgspec.json.decode(msgspec.json.encode(facts)))

    def close(self) -> None:
        pass


@dataclass
class Stack:
    """`small` and `large` are the fakes of the two tiers; more replicas of them are in `fakes` by name."""

    gateway: Any  # Gateway, or Apart
    fakes: dict[str, FakeVLLM]
    log: MemoryLog
    client: httpx.AsyncClient
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.gateway.port}"

    @property
    def small(self) -> FakeVLLM:
        return self.fakes["s1"]

    @property
    def large(self) -> FakeVLLM:
        return self.fakes["l1"]

    async def chat(
        self, content: str = "hello", *, key: str = KEY, headers: dict[str, str] | None = None, **body: Any
    ) -> httpx.Response:
        """One chat request; extra keywords are fields of the body."""
        message = {"model": "small-model", "messages": [{"role": "user", "content": content}], **body}
        return await self.client.post(
            "/v1/chat/completions", json=message, headers={"authorization": f"Bearer {key}", **(headers or {})}
        )

    async def line(self) -> dict[str, Any]:
        """The log line of the last request, once nothing runs any more."""
        await self.until(lambda: not self.gateway.parts.edge.running and bool(self.log.lines))
        return self.log.lines[-1]

    async def until(self, condition: Callable[[], bool], seconds: float = 10.0) -> None:
        """Wait for something that must come; the ceiling is generous on purpose."""
        async with asyncio.timeout(seconds):
            while not condition():
                await asyncio.sleep(0.005)

    async def at_rest(self) -> None:
        """Every counter of the gateway is back at zero: in one process now, else once the dispatcher has heard of the ends."""
        if isinstance(self.gateway, Apart):
            await self.until(self.idle)
        assert self.idle()

    def idle(self) -> bool:
        """Every counter of the gateway is back at zero."""
        parts = self.gateway.parts
        stations = parts.lanes.values()
        return (
            (not isinstance(self.gateway, Apart) or self.gateway.idle())
            and all(not replica.inflight and not replica.pending for station in stations for replica in station.pool.replicas)
            and all(not s.scheduler.inflight and not s.scheduler.queue.load.requests for s in stations)
            and not len(parts.flights)
            and not parts.flights.tasks
            and not parts.edge.running
        )


def config_of(fakes: dict[str, FakeVLLM], changes: dict[str, Any]) -> str:
    """The YAML of a two-tier config over the fakes; `changes` are merged in."""
    small = [{"name": name, "url": fake.url} for name, fake in fakes.items() if name.startswith("s")]
    large = [{"name": name, "url": fake.url} for name, fake in fakes.items() if name.startswith("l")]
    tree: dict[str, Any] = {
        "server": {"port": 0, "drain_timeout": "5s"},
        "admin": {"key": ADMIN_KEY},
        "timeouts": {"connect": "1s", "first_token": "10s", "between_tokens": "10s", "total": "30s"},
        "models": [
            {"name": "small-model", "tier": "small", "served_name": "fake", "context": 4096, "replicas": small,
             "endpoints": ["chat", "completions", "embeddings"]},
            {"name": "large-model", "tier": "large", "served_name": "fake", "context": 32768, "replicas": large},
        ],
        "routing": {"fallback": {"small": "large", "large": "small"}},
        "cache": {"secret": "test-secret"},
        "health": {"interval": "200ms"},
        "plans": {"pro": {"priority": "realtime"}},
        "tenants": [
            {"name": "acme", "plan": "pro", "keys": [{"id": "k1", "sha256": hashlib.sha256(KEY.encode()).hexdigest()}]},
            {"name": "globex", "plan": "pro", "keys": [{"id": "k1", "sha256": hashlib.sha256(OTHER_KEY.encode()).hexdigest()}]},
        ],
    }  # fmt: skip
    return yaml.safe_dump(_merged(tree, changes))


def _merged(tree: Any, changes: Any) -> Any:
    """Mappings merge, `{index: change}` merges into a list, anything else replaces."""
    if isinstance(tree, dict) and isinstance(changes, dict):
        return tree | {key: _merged(tree.get(key), value) for key, value in changes.items()}
    if isinstance(tree, list) and isinstance(changes, dict):
        return [_merged(item, changes[i]) if i in changes else item for i, item in enumerate(tree)]
    return changes


Start = Callable[..., Awaitable[Stack]]


@pytest.fixture(scope="session")
def sentences() -> Any:
    """The embedder that comes along, loaded once: every gateway of these tests shares it. Skips where it is not installed."""
    for name in ("numpy", "onnxruntime", "tokenizers", "qdrant_edge"):
        pytest.importorskip(name, reason=f"{name} is not installed (the extra `semantic`)")
    from caches.embed import minilm

    return minilm.load()


@pytest.fixture
def one_model(sentences: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading takes a moment each time; the model keeps nothing of what it is asked."""
    monkeypatch.setattr("caches.embed.onnx.OnnxModel", lambda _folder: sentences)


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dispatcher that is replaced within a test's own loop, on a busy machine, takes a second or two to come back."""
    for module in ("ticket", "link"):
        monkeypatch.setattr(f"gateway.dispatch.{module}.PATIENCE", 30.0)


@pytest.fixture
async def start(tmp_path: Any, how_many_workers: int) -> AsyncIterator[Start]:
    """`await start(config changes, fakes={name: Options})` → a running Stack whose replicas are all up.

    `workers`: with a dispatcher of its own and so many workers, all in this loop.
    """
    async with AsyncExitStack() as scope:

        async def make(
            changes: dict[str, Any] | None = None, *, fakes: dict[str, Options] | None = None, workers: int = how_many_workers
        ) -> Stack:
            running = {name: await scope.enter_async_context(FakeVLLM(options)) for name, options in
                       (fakes or {"s1": Options(), "l1": Options()}).items()}  # fmt: skip
            log = MemoryLog()
            config = parse(
                config_of(running, {"keys": {"path": str(tmp_path / "keys.json")}, **(changes or {})}), tmp_path / "config.yaml"
            )
            gateway: Any = Apart(config, log, workers) if workers else Gateway(config, log)
            await gateway.start()
            scope.push_async_callback(gateway.stop)
            client = await scope.enter_async_context(
                httpx.AsyncClient(base_url=f"http://127.0.0.1:{gateway.port}", timeout=30, trust_env=False)
            )
            stack = Stack(gateway, running, log, client)
            await stack.until(lambda: all(r.up for s in gateway.parts.lanes.values() for r in s.pool.replicas))
            return stack

        yield make
    if next(GATEWAYS) % 20 == 0:  # a gateway is a cycle: left to the collector's own pace a gigabyte of them lies about
        gc.collect()


@pytest.fixture
async def stack(start: Start) -> Stack:
    """The plain two tiers, one replica each."""
    return await start()
