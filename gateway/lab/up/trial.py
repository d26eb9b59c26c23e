"""The order of a trial: backends, a dummy request each, then the gateway, then the report, then wait.

Every process is a scope, so whatever ends the trial ends them all, the gateway first. A first Ctrl-C (or SIGTERM, or a
closed terminal) cancels the trial, which leaves the scopes in order; a second one cuts the waiting short.
"""

from __future__ import annotations

import asyncio
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from gateway.lab.up import settings
from gateway.lab.up.engines import Backend, Fleet
from gateway.lab.up.probe import status
from gateway.lab.up.processes import Child, python
from gateway.lab.up.report import Progress, Ready

STEP = 0.05
GATEWAY_PATIENCE = 30.0
DUMMY = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4}


class TrialError(Exception):
    """A part did not come up, or went away; the message has its last words."""


@dataclass(frozen=True, slots=True)
class Plan:
    host: str
    port: int
    fleet: Fleet
    json: bool

    @property
    def reachable(self) -> str:
        """Where a client on this machine finds a gateway that listens on `host`."""
        return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self.host, self.host)  # noqa: S104 - recognised, not bound


async def run(plan: Plan, progress: Progress) -> int:
    _cancel_on_signals()
    folder = Path(tempfile.mkdtemp(prefix="tiergate-up-"))
    failed = False
    try:
        async with AsyncExitStack() as stack:
            failed = await _until_ended(plan, progress, folder, stack)
    except asyncio.CancelledError:
        progress.line("ended in a hurry")
    if failed:
        progress.line(f"all logs are kept in {folder}")
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if failed else 0


async def _until_ended(plan: Plan, progress: Progress, folder: Path, stack: AsyncExitStack) -> bool:
    """Whether it failed; said here, while the others still run, since ending them takes its time."""
    try:
        await _run(plan, progress, folder, stack)
    except TrialError as error:
        progress.line(str(error))
        return True
    except asyncio.CancelledError:
        progress.line("ending (once more: at once)")
    return False


async def _run(plan: Plan, progress: Progress, folder: Path, stack: AsyncExitStack) -> None:
    backends = plan.fleet.backends
    progress.line(f"starting {len(backends)} backends and the gateway; their logs are in {folder}")
    children = [await stack.enter_async_context(_backend(backend, folder)) for backend in backends]
    warm = [(child, _warm(backend)) for child, backend in zip(children, backends, strict=True)]
    await _until_up(warm, plan.fleet.patience, progress)

    keys = settings.new_keys()
    config = settings.write(folder, host=plan.host, port=plan.port, backends=backends, keys=keys)
    gateway = await stack.enter_async_context(_gateway(config, keys, folder))
    await _until_up([(gateway, lambda: _is_ok("/ready", plan.port, plan.reachable))], GATEWAY_PATIENCE, progress)

    ready = Ready(plan.reachable, plan.port, keys, backends, plan.fleet.note, folder)
    print(ready.as_json() if plan.json else ready.as_text(), flush=True)
    await _until_one_ends([*children, gateway])


def _backend(backend: Backend, folder: Path) -> Child:
    return Child(f"the {backend.tier} tier ({backend.model})", backend.argv, folder / f"{backend.tier}.log")


def _gateway(config: Path, keys: settings.Keys, folder: Path) -> Child:
    command = python("gateway.cli", "serve", "--config", str(config))
    return Child("the gateway", command, folder / "gateway.log", env={settings.ADMIN_KEY_VARIABLE: keys.admin})


async def _until_up(waiting: Sequence[tuple[Child, Callable[[], Awaitable[bool]]]], patience: float, progress: Progress) -> None:
    """Returns when each is up. A child that dies before that, or takes too long, fails the trial."""
    begin = time.monotonic()
    left = list(waiting)
    while left:
        seconds = time.monotonic() - begin
        progress.waiting(seconds, " and ".join(child.name for child, _ in left))
        for child, up in tuple(left):
            if child.returncode is not None:
                raise TrialError(_last_words(child, "died during its start"))
            if await up():
                left.remove((child, up))
                progress.line(f"{child.name} is up after {time.monotonic() - begin:.1f} s")
        if seconds > patience and left:
            raise TrialError(_last_words(left[0][0], f"was not ready after {patience:.0f} s"))
        await asyncio.sleep(STEP if left else 0)


async def _until_one_ends(children: Sequence[Child]) -> None:
    """Runs for as long as all of them do: a trial with a part missing would only confuse."""
    ends = {asyncio.create_task(child.ended()): child for child in children}
    try:
        done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for end in ends:
            end.cancel()
    raise TrialError(_last_words(ends[done.pop()], "ended"))


def _warm(backend: Backend) -> Callable[[], Awaitable[bool]]:
    """Up means: it answered a request, so the first one of the user does not pay for what is done once."""

    async def answered() -> bool:
        if not await _is_ok("/health", backend.port):
            return False
        body = {"model": backend.model, **DUMMY}
        return await status(backend.port, "/v1/chat/completions", body=body, seconds=120.0) == 200

    return answered


async def _is_ok(path: str, port: int, host: str = "127.0.0.1") -> bool:
    return await status(port, path, host=host) == 200


def _last_words(child: Child, what: str) -> str:
    code = "" if child.returncode is None else f" (exit code {child.returncode})"
    return "\n".join([f"{child.name} {what}{code}; the end of {child.log}:", *(f"    {line}" for line in child.last_lines())])


def _cancel_on_signals() -> None:
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # `nohup`, or a script's background job, wants it ignored
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)


def start(plan: Plan) -> int:
    return asyncio.run(run(plan, Progress(sys.stderr)))
