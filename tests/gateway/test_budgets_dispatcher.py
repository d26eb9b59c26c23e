"""Budgets of two workers whose dispatcher dies while requests run, at midnight too."""

import asyncio
import signal
import struct
import sys
from contextlib import AsyncExitStack

import pytest
from gateway_talk import ADMIN_KEY, KEY, ROOT, ask, chat, config_of, hold, posts, tenant, usage, write_config
from pair import Pair

from gateway.config import parse
from gateway.lab.fake import FakeVLLM, Options

DAY = 86_400
KEYED = {"authorization": f"Bearer {KEY}"}
BUDGETS = {"tenants": [tenant("acme", KEY, budget={"day": 100_000, "month": 1_000_000})]}


@pytest.fixture
async def pair(tmp_path):
    async with AsyncExitStack() as scope:
        small, large = [await scope.enter_async_context(FakeVLLM(Options())) for _ in range(2)]
        keys = {"keys": {"path": str(tmp_path / "keys.json")}}
        pair = Pair(parse(config_of({"s1": small, "l1": large}, {**keys, **BUDGETS}), tmp_path / "config.yaml"))
        pair.small = small
        await pair.start()
        scope.push_async_callback(pair.stop)
        yield pair


def turn(pair, day):
    pair.dispatcher.parts.owner.limiter.spending.wall = lambda: day * DAY + 3600.0


def used(pair):
    parts = pair.dispatcher.parts
    ((_, _, scopes),) = parts.own.pipeline.authenticator.tenants()
    return [(one.day_used, one.month_used) for one in parts.owner.limiter.budgets(scopes)]


@pytest.mark.parametrize("later", [0, 1], ids=["the same day", "the next day"])
async def test_a_successor_charges_what_runs(pair, later):
    """What runs while the dispatcher is replaced is charged once, on whichever worker, and to the day on which it began."""
    turn(pair, 20_545)
    wake = hold(pair.small)
    running = [asyncio.create_task(ask(worker, chat(name, max_tokens=50))) for worker, name in ((pair.a, "a"), (pair.b, "b"))]
    await pair.a.until(lambda: len(posts(pair.small)) == 2)
    await pair.dispatcher.stop()
    await pair.a.until(lambda: pair.a.link.away and pair.b.link.away)
    await pair.start_dispatcher()
    turn(pair, 20_545 + later)
    wake()
    answers = await asyncio.gather(*running)
    await pair.a.until(pair.idle)
    counted = sum(usage(answer)["total_tokens"] for answer in answers)
    assert used(pair) == [(0 if later else counted, counted)]


@pytest.mark.parametrize("last", ["the dispatcher", "the worker"])
async def test_a_worker_that_dies_leaves_no_reservation(pair, last):
    """What ran on it is charged to no budget, whoever dies with it; what ran on the other one is charged as ever."""
    turn(pair, 20_545)
    wake = hold(pair.small)
    running = [asyncio.create_task(ask(worker, chat(name, max_tokens=20_000))) for worker, name in ((pair.a, "a"), (pair.b, "b"))]
    await pair.a.until(lambda: len(posts(pair.small)) == 2)
    assert used(pair)[0][0] > 40_000
    pair.a.die()
    if last == "the dispatcher":
        await pair.dispatcher.stop()
        await pair.a.until(lambda: pair.b.link.away)
        await pair.a.process.stop()
        await pair.start_dispatcher()
        turn(pair, 20_545)
    await pair.b.until(lambda: 20_000 <= used(pair)[0][0] < 40_000)
    wake()
    _, answer = await asyncio.gather(*running, return_exceptions=True)
    counted = usage(answer)["total_tokens"]
    await pair.b.until(lambda: used(pair) == [(counted, counted)])


async def test_a_connection_that_ends_and_is_made_again(pair):
    """The worker lives and tells of what it has: that is charged once, as it was used."""
    turn(pair, 20_545)
    wake = hold(pair.small)
    running = asyncio.create_task(ask(pair.a, chat("a", max_tokens=20_000)))
    await pair.a.until(lambda: len(posts(pair.small)) == 1)
    (session,) = [session for session in pair.node.sessions if session.number == 1]
    session.channel.abort()
    await pair.a.until(lambda: any(one.number == 1 and one.cases for one in pair.node.sessions - {session}))
    await pair.a.until(lambda: 20_000 <= used(pair)[0][0] < 21_000)
    wake()
    counted = usage(await running)["total_tokens"]
    await pair.a.until(lambda: used(pair) == [(counted, counted)])


def written(file):
    """The last word of today, in the file."""
    return struct.unpack_from("<q", file.read_bytes()[-48:], 24)[0] if file.exists() else None


async def test_a_gateway_that_is_killed(stack, tmp_path):
    """After SIGKILL of everything, the next gateway on the same folder goes on from what was used, without what ran."""
    path = write_config(tmp_path / "killed.yaml", stack.fakes, BUDGETS)
    file = tmp_path / "data" / "budgets" / "used"
    before = None
    for _ in range(2):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "gateway.cli", "serve", "--config", str(path), "--port", "0", cwd=ROOT,
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        try:
            async with asyncio.timeout(30):
                while b"listening on " not in (line := await process.stderr.readline()):
                    pass
            url = line.split()[3].decode()
            while (await stack.client.get(f"{url}/ready")).status_code != 200:
                await asyncio.sleep(0.02)
            answer = await stack.client.get(f"{url}/admin/tenants", headers={"authorization": f"Bearer {ADMIN_KEY}"})
            (day, _) = answer.json()["tenants"][0]["budgets"]
            assert before in (None, day["used"])
            body = {"model": "small-model", "messages": [{"role": "user", "content": "hello"}]}
            told = await stack.client.post(f"{url}/v1/chat/completions", json=body, headers=KEYED)
            before = day["used"] + told.json()["usage"]["total_tokens"]
            await stack.until(lambda before=before: written(file) == before)
            stack.small.faults.add(hang_before_headers=True, times=1)
            asked, long = len(posts(stack.small)), {**body, "max_tokens": 20_000, "user": str(before)}
            running = asyncio.create_task(stack.client.post(f"{url}/v1/chat/completions", json=long, headers=KEYED))
            await stack.until(lambda asked=asked: len(posts(stack.small)) > asked)
        finally:
            process.send_signal(signal.SIGKILL)
            await process.wait()
        await asyncio.gather(running, return_exceptions=True)
