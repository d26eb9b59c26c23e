"""`tiergate serve --workers 2` as it is run: a supervisor, a dispatcher, two workers, found by what they log; or one process.

A connection's worker is known by the first part of the request ids that it gives out, which every process draws for itself.
"""

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
from gateway_talk import ADMIN_KEY, ROOT, Answer, Wire, dial, samples, write_config

from gateway.serving import AGAIN

CEILING = 30.0  # seconds that anything may take; what is slower hangs
_READY = re.compile(r"(dispatcher|worker \d+) is ready \(pid (\d+)\)")
_ENDED = re.compile(r"(dispatcher|worker \d+) ended .* \(pid (\d+)\)")


class Node:
    """`fakes` by name: s… serve `small-model`, l… `large-model`."""

    def __init__(self, folder: Path, fakes: dict[str, Any], changes: dict[str, Any], workers: int = 2) -> None:
        self.folder = folder
        self.workers = workers
        self.fakes = fakes
        patient = {"connect": "1s", "first_token": "60s", "between_tokens": "60s", "total": "120s"}
        self.config = write_config(folder / "config.yaml", fakes, {"timeouts": patient, **changes})
        self.process: subprocess.Popen[bytes]
        self.port = 0
        self._wires: list[Wire] = []

    async def start(self) -> None:
        with (self.folder / "lines").open("ab") as lines, (self.folder / "said").open("ab") as said:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "gateway.cli", "serve", "--config", str(self.config), "--workers", str(self.workers)],
                cwd=ROOT, stdin=subprocess.DEVNULL, stdout=lines, stderr=said, start_new_session=True,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )  # fmt: skip
        found = await self.until(lambda: re.search(r"listening on \S+:(\d+)\b", self.said) or self.process.poll() is not None)
        assert isinstance(found, re.Match), self.said
        self.port = int(found[1])
        await self.all_up()

    async def close(self) -> None:
        """Told to end at once; whatever is left of it then is killed."""
        for wire in self._wires:
            wire.leave()
        for number in (signal.SIGTERM, signal.SIGTERM):
            self.process.send_signal(number)
            await asyncio.sleep(1.2 * AGAIN)
        with contextlib.suppress(subprocess.TimeoutExpired):
            await asyncio.to_thread(self.process.wait, 5)
        for pid in {self.process.pid, *self.everybody()}:
            with contextlib.suppress(ProcessLookupError):
                if os.getsid(pid) == self.process.pid:
                    os.kill(pid, signal.SIGKILL)
        await asyncio.to_thread(self.process.wait)

    # -- its processes

    @property
    def said(self) -> str:
        return (self.folder / "said").read_text()

    def everybody(self) -> list[int]:
        """The pids of all that ever were ready."""
        return [int(pid) for _, pid in _READY.findall(self.said)]

    def pid(self, name: str) -> int:
        """Who has this post, or had it last."""
        return [int(pid) for who, pid in _READY.findall(self.said) if who == name][-1]

    def pids(self) -> dict[str, int]:
        return {name: self.pid(name) for name in ("dispatcher", "worker 1", "worker 2")}

    def kill(self, name: str, number: signal.Signals = signal.SIGKILL) -> int:
        """Returns the pid that it went to."""
        pid = self.pid(name)
        os.kill(pid, number)
        return pid

    async def replaced(self, name: str, pid: int) -> int:
        """The pid of who came after it."""
        await self.until(lambda: self.pid(name) != pid)
        return self.pid(name)

    def signal(self, number: signal.Signals) -> None:
        """To the supervisor."""
        self.process.send_signal(number)

    async def ended(self) -> int:
        """The exit code."""
        await self.until(lambda: self.process.poll() is not None)
        return self.process.returncode

    def alive(self) -> list[int]:
        return [pid for pid in {self.process.pid, *self.everybody()} if not gone(pid)]

    async def until(self, condition: Any, seconds: float = CEILING) -> Any:
        """What `condition` gives, once it is true."""
        end = time.monotonic() + seconds
        while not (value := condition()):
            assert time.monotonic() < end, self.said[-4000:]
            await asyncio.sleep(0.01)
        return value

    # -- what it says

    async def dial(self) -> Wire:
        """A connection that lives as long as the node."""
        self._wires.append(await dial(self.port))
        return self._wires[-1]

    def lines(self) -> list[dict[str, Any]]:
        """The request log, whole lines of it."""
        text = (self.folder / "lines").read_text()
        return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]

    async def get(self, path: str, *, method: str = "GET", body: Any = b"", key: str | None = ADMIN_KEY) -> Answer:
        """One call on a connection of its own, whichever worker takes it. A worker that dies with it is asked no more."""
        end = time.monotonic() + CEILING
        while True:
            one = await dial(self.port)
            try:
                async with asyncio.timeout(CEILING):
                    one.send(body, key=key, method=method, path=path, headers={"content-type": "application/json"})
                    return await one.answer()
            except (asyncio.IncompleteReadError, ConnectionError):
                assert time.monotonic() < end
            finally:
                one.leave()

    async def status(self, wire: Wire | None = None) -> dict[str, Any]:
        """`/admin/status`, by model."""
        answer = await self.get("/admin/status") if wire is None else await ask(wire, "/admin/status")
        assert answer.status_code == 200, answer.text
        return {model["name"]: model for model in answer.json()["models"]}

    async def reached(self, condition: Any) -> dict[str, Any]:
        """The status, once it meets this."""
        end = time.monotonic() + CEILING
        while not condition(found := await self.status()):
            assert time.monotonic() < end, (found, self.said[-4000:])
            await asyncio.sleep(0.01)
        return found

    async def metrics(self) -> dict[Any, float]:
        answer = await self.get("/metrics", key=None)
        assert answer.status_code == 200, answer.text
        return samples(answer.text)

    async def tenants(self) -> dict[str, dict[str, Any]]:
        """The first limit of each: its own."""
        answer = await self.get("/admin/tenants")
        return {one["name"]: one["limits"][0] for one in answer.json()["tenants"] if one["limits"]}

    async def all_up(self) -> None:
        await self.reached(lambda found: all(replica["up"] for model in found.values() for replica in model["replicas"]))

    async def idle(self) -> dict[str, Any]:
        """The status, once nobody holds or waits for anything."""
        return await self.reached(lambda found: not busy(found))

    async def dial_both(self, each: int = 1) -> tuple[list[Wire], list[Wire]]:
        """Connections that are kept, `each` at worker 1 and worker 2."""
        found: tuple[list[Wire], list[Wire]] = ([], [])
        names: dict[str, int] = {}
        while min(map(len, found)) < each:
            one = await self.dial()
            answer = await ask(one, "/admin/tenants")
            request_id = answer.headers["x-request-id"]
            maker = request_id.rpartition("-")[0]
            if maker not in names:
                [line] = await self.until(lambda: [line for line in self.lines() if line["request_id"] == request_id])  # noqa: B023
                names[maker] = line["worker"]
            mine = found[names[maker] - 1]
            if len(mine) < each:
                mine.append(one)
            else:
                one.leave()
        return found


def busy(status: dict[str, Any]) -> bool:
    return any(
        model["slots"]["inflight"]
        or any(model["queue"]["depth"].values())
        or any(replica["inflight"] for replica in model["replicas"])
        for model in status.values()
    )


def gone(pid: int) -> bool:
    """Ended: one that only its parent has not waited for yet counts."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


async def ask(wire: Wire, path: str, body: Any = b"", *, key: str | None = ADMIN_KEY, method: str = "GET") -> Answer:
    """On a connection that is kept."""
    wire.send(body, key=key, method=method, path=path, headers={"content-type": "application/json"})
    return await wire.answer()


def bare(content: bytes) -> str:
    """A stream or an answer without what differs between two of the same: its id and the time."""
    return re.sub(r'"(id|created)":\s*("[^"]*"|\d+)', r'"\1":0', content.decode())
