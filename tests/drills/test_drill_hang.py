"""The dispatcher hangs, in every way that a process can: it is replaced within seconds, and no client is refused for it."""

import asyncio
import signal

import psutil
from drill_node import bare, gone
from gateway_talk import CHAT, KEY, chat, hold, posts, tenant, wire
from semantic_talk import semantic

from gateway.lab.fake import Options


async def answer(port, body, *, key=KEY, path=CHAT):
    async with wire(port) as one:
        one.send(body, key=key, path=path)
        async with asyncio.timeout(60):
            return await one.answer()


async def test_a_dispatcher_that_hangs_costs_time_and_nothing_else(node):
    """Streams run on, those that two workers share too; requests that run, are queued or come meanwhile are served."""
    one = await node(
        {
            **semantic(),
            "models": {0: {"concurrency": {"max": 4}}},
            "tenants": [tenant("acme", KEY, max_parallel=40, tpm=600_000)],
        },
        fakes={"s1": Options(), "l1": Options(itl=0.02)},
    )
    await one.until(lambda: "is open" in one.said)
    [first, *_], [second, *_] = await one.dial_both()
    small, before = one.fakes["s1"], one.pids()
    [engine] = psutil.Process(before["dispatcher"]).children()
    wake = hold(small)
    async with asyncio.TaskGroup() as group:
        shared = chat("[[tokens: 250]]", model="large-model", temperature=0, stream=True)
        for each in (first, second):
            each.send(shared)
            await each.head()
        held = [group.create_task(answer(one.port, chat(f"held {number}", stream=True))) for number in range(6)]
        await one.reached(lambda found: found["small-model"]["queue"]["depth"]["realtime"] == 2)
        one.kill("dispatcher", signal.SIGSTOP)
        asked = [group.create_task(answer(one.port, chat(f"at once {number}", model="large-model"))) for number in range(4)]
        await one.until(lambda: "stands still: it is killed" in one.said)
        asked += [group.create_task(answer(one.port, chat(f"later {number}", model="large-model"))) for number in range(4)]
        await one.replaced("dispatcher", before["dispatcher"])
        assert [(await task).status_code for task in asked] == [200] * 8
        status = (await one.status())["small-model"]
        assert (status["slots"]["inflight"], status["queue"]["depth"]["realtime"]) == (4, 2)
        await one.until(lambda: one.said.count("is open") == 2)
        assert gone(engine.pid)
        wake()
    assert {(task.result().status_code, task.result().content[-14:]) for task in held} == {(200, b"data: [DONE]\n\n")}
    whole, same = [bare(b"".join(await each.pieces())) for each in (first, second)]
    assert whole == same
    assert len([call for call in posts(one.fakes["l1"]) if "tokens: 250" in call.text]) == 1
    assert one.pids() | {"dispatcher": 0} == before | {"dispatcher": 0}
    assert one.said.count("stands still") == 1
    await one.idle()


async def test_a_deadline_holds_while_the_dispatcher_hangs(node):
    """A client that has said how long it waits is not kept until the dispatcher is given up; others wait on."""
    one = await node()
    one.signal(signal.SIGSTOP)  # the supervisor
    one.kill("dispatcher", signal.SIGSTOP)
    waiting = asyncio.create_task(answer(one.port, chat()))
    async with wire(one.port) as hasty:
        hasty.send(chat(), headers={"x-tiergate-deadline-ms": "300"})
        refused = await hasty.answer()
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "dispatcher_away")
    assert "its connection is cut" not in one.said
    assert not waiting.done()
    one.kill("dispatcher", signal.SIGCONT)
    one.signal(signal.SIGCONT)
    assert (await waiting).status_code == 200
    await one.idle()


async def test_one_that_hangs_as_soon_as_it_serves_is_replaced(node):
    """And nobody waits any longer because it lived so short a time."""
    one = await node()
    pid = one.kill("dispatcher", signal.SIGSTOP)
    waiting = asyncio.create_task(answer(one.port, chat()))
    await one.replaced("dispatcher", pid)
    assert gone(pid)
    assert (await waiting).status_code == 200
    assert "started again in" not in one.said


async def test_one_that_stands_still_for_a_moment_stays(node):
    """It answers late, and nobody is refused or replaced."""
    one = await node()
    before = one.pids()
    one.kill("dispatcher", signal.SIGSTOP)
    waiting = asyncio.create_task(answer(one.port, chat()))
    await asyncio.sleep(1)
    assert not waiting.done()
    one.kill("dispatcher", signal.SIGCONT)
    assert (await waiting).status_code == 200
    assert one.pids() == before
    assert "stands still" not in one.said
