"""The gateway as a process of its own: how it starts, says so, drains on a signal, and ends."""

import asyncio
import contextlib
import os
import re
import signal
import socket
import sys

import httpx
import pytest
from gateway_talk import CHAT, ROOT, chat, cli, payloads, posts, wire, write_config

from gateway.lab.fake import FakeVLLM, Options
from gateway.serving import AGAIN

SLOW = Options(itl=0.02)
SHARED = 'tiergate_cache_lookups_total{cache="exact",result="shared"} 1.0'


class Served:
    """`tiergate serve` as a subprocess: its port, its signals, what it said."""

    def __init__(self, process, port, err, scope):
        self.process = process
        self.port = port
        self.err = err
        self._scope = scope

    async def dial(self):
        """A connection for the rest of the test."""
        return await self._scope.enter_async_context(wire(self.port))

    async def get(self, path):
        """One GET on a connection of its own."""
        async with wire(self.port) as one:
            one.send(b"", key=None, method="GET", path=path)
            return await one.answer()

    async def ended(self):
        """Exit code and everything that it wrote: stdout and stderr."""
        async with asyncio.timeout(60):
            out, err = await self.process.communicate()
        return self.process.returncode, out.decode(), self.err + err.decode()


async def _end(process):
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    await process.communicate()


@pytest.fixture
async def serve(tmp_path):
    """`await serve(config changes)` → a process that listens and whose replicas are up."""
    async with contextlib.AsyncExitStack() as scope:
        fakes = {name: await scope.enter_async_context(FakeVLLM(SLOW)) for name in ("s1", "l1")}

        async def run(**server):
            path = write_config(tmp_path / "config.yaml", fakes, {"server": {"port": 0, "drain_timeout": "30s", **server}})
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "gateway.cli", "serve", "--config", str(path), cwd=ROOT, env={**os.environ},
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            )  # fmt: skip
            scope.push_async_callback(_end, process)
            said = ""
            async with asyncio.timeout(30):
                while not (found := re.search(r"^tiergate: listening on http://127\.0\.0\.1:(\d+)$", said, re.MULTILINE)):
                    line = await process.stderr.readline()
                    assert line, said
                    said += line.decode()
            served = Served(process, int(found[1]), said, scope)
            async with asyncio.timeout(30):
                while (await served.get("/ready")).json()["ready_replicas"] != {"small-model": 1, "large-model": 1}:
                    await asyncio.sleep(0.02)
            return served, fakes["s1"]

        yield run


async def streaming(served, tokens):
    """A stream that has begun."""
    one = await served.dial()
    one.send(chat(f"[[tokens: {tokens}]]", stream=True))
    assert await one.head() == 200, await one.reader.read(1000)
    await one.piece()
    return one


async def rest(one):
    return b"".join(await one.pieces()).decode()


async def test_a_drain_lets_what_runs_finish_and_refuses_the_rest(serve):
    """SIGTERM: /ready is 503, new work a 503 with retry-after, the running stream ends with [DONE], and the exit code is 0."""
    served, fake = await serve()
    one = await streaming(served, 60)
    served.process.send_signal(signal.SIGTERM)
    async with asyncio.timeout(10):
        while (ready := await served.get("/ready")).status_code == 200:
            await asyncio.sleep(0.01)
    assert ready.json()["draining"] is True
    assert (await served.get("/health")).status_code == 200
    async with wire(served.port) as late:
        late.send(chat("late"))
        refused = await late.answer()
    assert refused.status_code == 503
    assert refused.json()["error"]["code"] == "draining"
    assert "retry-after" in refused.headers
    assert refused.headers["connection"] == "close"
    assert payloads(await rest(one))[-1] == "[DONE]"
    code, out, _ = await served.ended()
    assert code == 0
    assert [line for line in out.splitlines() if '"outcome":"ok"' in line and '"stream":true' in line]
    assert len(posts(fake)) == 1


async def test_a_drain_without_work_ends_at_once(serve):
    """Nothing runs: SIGTERM ends the process with code 0, idle connections included."""
    served, _ = await serve()
    async with httpx.AsyncClient(trust_env=False) as client:
        assert (await client.get(f"http://127.0.0.1:{served.port}/health")).status_code == 200
        served.process.send_signal(signal.SIGTERM)
        assert (await served.ended())[0] == 0


async def test_a_reload_of_one_process_changes_nothing(serve):
    """SIGHUP, which replaces the workers of several, is told in the log of one that is alone, and it serves on."""
    served, _ = await serve()
    one = await streaming(served, 20)
    served.process.send_signal(signal.SIGHUP)
    assert payloads(await rest(one))[-1] == "[DONE]"
    served.process.send_signal(signal.SIGTERM)
    code, _, err = await served.ended()
    assert code == 0
    assert "nothing is reloaded" in err


async def test_ctrl_c_drains_as_well(serve):
    """SIGINT is as good as SIGTERM, and leaves no traceback."""
    served, _ = await serve()
    served.process.send_signal(signal.SIGINT)
    code, _, err = await served.ended()
    assert code == 0
    assert "Traceback" not in err


@pytest.mark.parametrize("stream", [True, False], ids=["sse", "json"])
async def test_past_the_drain_timeout_the_rest_is_told(serve, stream):
    """A stream that is not over by then ends with an error event, an unstreamed request with a 503; exit code 0."""
    served, fake = await serve(drain_timeout="300ms")
    if stream:
        one = await streaming(served, 2000)
    else:
        one = await served.dial()
        one.send(chat("[[tokens: 2000]]"))
        async with asyncio.timeout(10):
            while not posts(fake):
                await asyncio.sleep(0.01)
    served.process.send_signal(signal.SIGTERM)
    if stream:
        last = payloads(await rest(one))[-1]
        assert last != "[DONE]"
        assert last["error"]["code"] == "shutting_down"
    else:
        answer = await one.answer()
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "shutting_down")
    code, out, _ = await served.ended()
    assert code == 0
    assert '"error":"shutting_down"' in out
    async with asyncio.timeout(10):
        while not posts(fake)[0].aborted:
            await asyncio.sleep(0.01)


async def test_those_who_share_an_answer_are_told_as_well(serve):
    """The leader and the follower of one request in flight each get the 503, not a dropped connection."""
    served, fake = await serve(drain_timeout="300ms")
    await streaming(served, 2000)
    two = await served.dial()
    two.send(chat("[[tokens: 2000]]", temperature=0))
    async with asyncio.timeout(10):
        while len(posts(fake)) < 2:
            await asyncio.sleep(0.01)
    shared = await served.dial()
    shared.send(chat("[[tokens: 2000]]", temperature=0))
    async with asyncio.timeout(10):
        while SHARED not in (await served.get("/metrics")).text:
            await asyncio.sleep(0.01)
    served.process.send_signal(signal.SIGTERM)
    for other in (two, shared):
        answer = await other.answer()
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "shutting_down")
    assert (await served.ended())[0] == 0


async def test_a_second_signal_ends_at_once(serve):
    """The second SIGTERM ends the process without waiting for the drain; a running stream is told so."""
    served, fake = await serve(drain_timeout="10m")
    one = await streaming(served, 20_000)
    served.process.send_signal(signal.SIGTERM)
    async with asyncio.timeout(10):
        while (await served.get("/ready")).status_code == 200:
            await asyncio.sleep(0.01)
    await asyncio.sleep(2 * AGAIN)
    served.process.send_signal(signal.SIGTERM)
    assert payloads(await rest(one))[-1]["error"]["code"] == "shutting_down"
    code, _, err = await served.ended()
    assert code == 0
    assert "Traceback" not in err
    async with asyncio.timeout(10):
        while not posts(fake)[0].aborted:
            await asyncio.sleep(0.01)


async def test_a_signal_that_comes_twice_is_one(serve):
    """SIGTERM to the process, and within the same moment to its group, as `timeout` sends it: a drain."""
    served, _ = await serve()
    one = await streaming(served, 60)
    for _ in range(3):
        served.process.send_signal(signal.SIGTERM)
        await asyncio.sleep(0.02)
    assert payloads(await rest(one))[-1] == "[DONE]"
    assert (await served.ended())[0] == 0


async def test_a_taken_port_is_one_line_and_2(tmp_path):
    """`serve` on a port that is taken says so in one line, exit code 2."""
    async with FakeVLLM(Options()) as fake:
        fakes = {"s1": fake, "l1": fake}
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            path = write_config(tmp_path / "config.yaml", fakes, {"server": {"port": port}})
            code, _, err = await cli("serve", "--config", str(path))
    assert code == 2
    assert len(err.strip().splitlines()) == 1
    assert f"tiergate serve: cannot listen on 127.0.0.1:{port}: " in err


async def test_a_taken_metrics_port_is_named(tmp_path):
    """When it is the metrics listener whose port is taken, that address is the one in the line."""
    async with FakeVLLM(Options()) as fake:
        fakes = {"s1": fake, "l1": fake}
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            path = write_config(tmp_path / "config.yaml", fakes, {"server": {"port": 0, "metrics": f"127.0.0.1:{port}"}})
            code, _, err = await cli("serve", "--config", str(path))
    assert code == 2
    assert f"127.0.0.1:{port}" in err
    assert len(err.strip().splitlines()) == 1


BROKEN = """\
servr: {port: 8000}
models:
  - name: a
    replicas: [{name: r, url: "not a url"}]
    endpoints: [chatt]
tenants:
  - {name: acme, plan: nope}
"""


async def test_a_broken_config_tells_all_its_errors(tmp_path):
    """`serve` with a broken config prints every error with its line, starts nothing, exit code 2, no traceback."""
    (tmp_path / "config.yaml").write_text(BROKEN)
    code, out, err = await cli("serve", "--config", str(tmp_path / "config.yaml"))
    assert (code, out) == (2, "")
    assert "Traceback" not in err
    for number, word in [(1, "servr"), (4, "url"), (5, "chatt"), (7, "nope")]:
        assert [line for line in err.splitlines() if f":{number}:" in line and word in line], err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--config", "there/is/none.yaml"), "none.yaml"),
        (("--workers", "0"), "--workers"),
        (("--port", "70000"), "--port"),
    ],
)
async def test_a_mistake_at_start_is_one_line_and_2(words, says):
    """A missing file, no workers at all, a port that cannot be: one line that names it, exit code 2."""
    code, out, err = await cli("serve", *words)
    assert (code, out) == (2, "")
    assert says in err
    assert len(err.strip().splitlines()) == 1


async def test_a_damaged_key_file_stops_the_start(tmp_path):
    """`serve` does not start over a key file that it cannot read: it would lock everybody out without a word."""
    async with FakeVLLM(Options()) as fake:
        path = write_config(tmp_path / "config.yaml", {"s1": fake, "l1": fake})
        (tmp_path / "keys.json").write_text("{")
        code, _, err = await cli("serve", "--config", str(path))
    assert code == 2
    assert "keys.json" in err
    assert "Traceback" not in err


async def test_stdout_is_the_request_log_and_nothing_else(serve):
    """The log goes to stdout as JSON lines, everything else to stderr."""
    served, _ = await serve()
    async with wire(served.port) as one:
        one.send(chat("hi"))
        assert (await one.answer()).status_code == 200
    served.process.send_signal(signal.SIGTERM)
    code, out, _ = await served.ended()
    assert code == 0
    lines = out.splitlines()
    assert lines
    assert all(line.startswith("{") and line.endswith("}") for line in lines)
    assert CHAT not in served.err
