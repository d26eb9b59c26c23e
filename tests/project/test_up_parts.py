"""The parts of the local trial: children that end with their parent, probes, ports, the config, and what is said."""

import asyncio
import io
import os
import random
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest
from trials import environment, survivors

from gateway.config import load
from gateway.lab.up import ports, settings
from gateway.lab.up.engines import Backend, Fleet
from gateway.lab.up.probe import status
from gateway.lab.up.processes import Child, python
from gateway.lab.up.report import EASY, HARD, OTHER_WORDS, Progress, Ready
from gateway.lab.up.settings import Keys
from gateway.lab.up.trial import Plan

BACKENDS = (Backend("small", "m-small", 20_001, (), 4, 2048), Backend("large", "m-large", 20_002, (), 4))

# A parent with one child, whose command line follows; it tells the process ids below it once the child has spoken.
PARENT = """
import asyncio, pathlib, psutil, sys, time
from gateway.lab.up.processes import Child, python
async def main():
    log = pathlib.Path(sys.argv[1])
    async with Child("it", python(*sys.argv[2:]), log):
        while b"up" not in log.read_bytes():
            await asyncio.sleep(0.01)
        print(*(child.pid for child in psutil.Process().children(recursive=True)), flush=True)
        await asyncio.sleep(1000)
asyncio.run(main())
"""
PLAIN = "import time; print('up', flush=True); time.sleep(1000)"
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(1000)"
WITH_A_WORKER = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"


@pytest.mark.parametrize(
    "command",
    [["-c", PLAIN], ["-c", STUBBORN], ["-c", WITH_A_WORKER, PLAIN], ["-c", WITH_A_WORKER, STUBBORN]],
    ids=["plain", "stubborn", "worker", "stubborn-worker"],
)
def test_a_child_ends_with_its_killed_parent(command: list[str], tmp_path: Path) -> None:
    """SIGKILL of the parent ends the program below the child too, its workers, and those that ignore SIGTERM."""
    argv = [sys.executable, "-c", PARENT, str(tmp_path / "log"), "--", sys.executable, *command]
    with subprocess.Popen(argv, env=environment(), stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        below = [psutil.Process(int(pid)) for pid in parent.stdout.readline().split()]
        parent.kill()
    assert len(below) >= 2
    assert survivors(below) == []


def test_a_module_ends_with_its_killed_parent(tmp_path: Path) -> None:
    """A module that runs in the child's own process ends too, without any code of its own for it."""
    (tmp_path / "sleeper.py").write_text(PLAIN)
    argv = [sys.executable, "-c", PARENT, str(tmp_path / "log"), "sleeper"]
    env = environment()
    env["PYTHONPATH"] += os.pathsep + str(tmp_path)
    with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        below = [psutil.Process(int(pid)) for pid in parent.stdout.readline().split()]
        parent.kill()
    assert len(below) == 1
    assert survivors(below) == []


async def spoken(child: Child) -> None:
    while not child.last_lines():
        await asyncio.sleep(0.01)


@pytest.fixture
def child_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", environment()["PYTHONPATH"])


@pytest.mark.usefixtures("child_environment")
async def test_leaving_the_scope_ends_the_child(tmp_path: Path) -> None:
    """On leaving, the child was asked to end and is reaped; what it printed is in its log."""
    async with Child("it", python("--", sys.executable, "-c", PLAIN), tmp_path / "log") as child:
        await spoken(child)
        assert child.returncode is None
    assert child.returncode == 128 + signal.SIGTERM
    assert child.last_lines() == ["up"]


@pytest.mark.usefixtures("child_environment")
async def test_a_child_that_does_not_want_to_end_is_ended(tmp_path: Path) -> None:
    """Past its grace the whole group is killed."""
    async with Child("it", python("--", sys.executable, "-c", STUBBORN), tmp_path / "log", grace=0.0) as child:
        await spoken(child)
        below = psutil.Process(child.pid).children(recursive=True)
    assert child.returncode == -signal.SIGKILL
    assert below
    assert survivors(below) == []


@pytest.mark.usefixtures("child_environment")
async def test_the_exit_code_of_a_command_is_passed_on(tmp_path: Path) -> None:
    """A program that fails below the child looks as if the child had failed in the same way."""
    async with Child("it", python("--", sys.executable, "-c", "raise SystemExit(7)"), tmp_path / "log") as child:
        assert await child.ended() == 7


@asynccontextmanager
async def answering(data: bytes, *, then_close: bool = True) -> AsyncIterator[int]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(data)
            if not then_close:
                await reader.read()  # until the other side has had enough
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\nhello", 200),
        (b"HTTP/1.0 503 Service Unavailable\r\n\r\n", 503),
        (b"HTTP/1.1 abc\r\n\r\n", None),
        (b"220 smtp ready\r\n", None),
        (b"", None),
    ],
)
async def test_a_probe_tells_the_status(data: bytes, told: int | None) -> None:
    """The status of a complete answer, and None for what is not HTTP."""
    async with answering(data) as port:
        assert await status(port, "/health") == told


async def test_a_probe_posts_json() -> None:
    """With a body it is a POST with a length, so that the server answers."""
    async with answering(b"HTTP/1.1 200 OK\r\n\r\n") as port:
        assert await status(port, "/v1/chat/completions", body={"model": "m"}) == 200


async def test_a_probe_gives_up() -> None:
    """A server that never finishes, and a port where nobody listens, are both just not ready."""
    async with answering(b"HTTP/1.1 200 OK\r\n\r\n", then_close=False) as port:
        assert await status(port, "/", seconds=0.05) is None
    assert await status(port, "/") is None


def test_free_ports_differ_and_can_be_listened_on() -> None:
    """As many as asked for, each once, each bindable now."""
    found = ports.free(3, random.Random(1))
    assert len(set(found)) == 3
    for port in found:
        ports.check("127.0.0.1", port)


def test_a_port_in_use_is_not_free() -> None:
    """A draw that falls on a taken port goes on to the next."""
    first, second = ports.free(2, random.Random(2))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", first))
        taken.listen()
        assert ports.free(1, random.Random(2)) == [second]


def test_the_config_is_one_that_the_gateway_takes(tmp_path: Path) -> None:
    """The strict loader accepts it; backends and gateway are on loopback, the cache is on, the router decides."""
    keys = settings.new_keys()
    path = settings.write(tmp_path, host="127.0.0.1", port=8000, backends=BACKENDS, keys=keys)
    config = load(path, {settings.ADMIN_KEY_VARIABLE: keys.admin})
    assert [(model.name, model.tier, model.context) for model in config.models] == [
        ("m-small", "small", 2048),
        ("m-large", "large", None),
    ]
    assert {replica.url for model in config.models for replica in model.replicas} == {
        "http://127.0.0.1:20001/v1",
        "http://127.0.0.1:20002/v1",
    }
    assert (config.server.host, config.routing.classifier.kind, config.cache.exact.enabled) == ("127.0.0.1", "rules", True)
    assert config.admin.key.reveal() == keys.admin
    assert keys.client not in path.read_text()
    assert keys.admin not in path.read_text()


def test_keys_are_new_each_time_and_not_shown() -> None:
    """Two trials never share a key, and a key record can be printed without giving them away."""
    first, second = settings.new_keys(), settings.new_keys()
    assert len({first.client, first.admin, second.client, second.admin}) == 4
    assert first.client not in repr(first)


def ready(host: str = "127.0.0.1") -> Ready:
    return Ready(host, 8000, Keys("tg-client", "tg-admin"), BACKENDS, "A note.", Path("/logs"))


def test_the_text_has_all_that_one_needs() -> None:
    """Address, keys, models with their tiers, the folder, what to expect, and a line to copy for each way to ask."""
    text = ready().as_text()
    for word in ("http://127.0.0.1:8000/v1", "tg-client", "tg-admin", "m-small (small)", "m-large (large)", "/logs", "A note."):
        assert word in text
    lines = [line.strip() for line in text.splitlines() if line.startswith("  curl")]
    asked = [EASY, OTHER_WORDS] if settings.semantic() else [EASY]
    assert lines == [*map(ready().curl, asked), ready().curl(HARD, stream=True)]
    assert all(shlex.split(line)[2] == "http://127.0.0.1:8000/v1/chat/completions" for line in lines)


@pytest.mark.parametrize(
    ("host", "url"),
    [("0.0.0.0", "http://127.0.0.1:8000/v1"), ("::", "http://[::1]:8000/v1"), ("gw.example", "http://gw.example:8000/v1")],
)
def test_the_address_told_is_one_that_can_be_called(host: str, url: str) -> None:
    """A gateway that listens everywhere is called on loopback; an IPv6 address stands in brackets."""
    plan = Plan(host, 8000, Fleet(BACKENDS, "", 1.0), json=False)
    assert ready(plan.reachable).base_url == url


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_waiting_is_a_line_now_and_then_in_a_log() -> None:
    """In a file there is no line written over itself, and not one a tick."""
    stream = io.StringIO()
    progress = Progress(stream)
    for step in range(320):
        progress.waiting(step / 10, "it")
    assert stream.getvalue().splitlines() == ["tiergate up: waiting for it, 15 s", "tiergate up: waiting for it, 30 s"]


def test_waiting_is_one_line_on_a_terminal() -> None:
    """It is written over itself once a second, and gone before the next line that stays."""
    stream = Terminal()
    progress = Progress(stream)
    for seconds in (0.0, 0.1, 1.0):
        progress.waiting(seconds, "it")
    progress.line("up")
    clear = "\r\x1b[K"
    assert stream.getvalue() == f"{clear}waiting for it, 0 s{clear}waiting for it, 1 s{clear}tiergate up: up\n"
