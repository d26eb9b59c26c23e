"""What is asked of the other tier only to learn takes no slot that a client wants, and gives way to whoever comes."""

import asyncio

import pytest
from gateway_talk import hold, posts, station

from gateway.lab.fake import Options

EASY = "What is the capital of France?"
ALL = {
    "routing": {"learning": {"enabled": True, "share": 1.0, "per_minute": 100_000, "path": "own"}},
    "models": {1: {"concurrency": {"kind": "fixed", "max": 8}}},
}
BOTH = pytest.mark.parametrize("workers", [0, 2], ids=["one process", "two workers"])


def running(stack):
    return [call for call in posts(stack.large) if call.ended_at is None and not call.aborted]


def spares(stack):
    return len(station(stack, "large-model").scheduler.spares)


async def shadowed(start, tmp_path, workers):
    """(The stack, what lets the large tier go on): it is slow, and as many shadows hold its slots as may."""
    stack = await start(ALL, fakes={"s1": Options(), "l1": Options()}, workers=workers)
    wake = hold(stack.large)
    for number in range(12):
        answer = await stack.chat(f"{EASY} {number}", model="auto")
        assert answer.headers["x-tiergate-tier"] == "small"
    await stack.until(lambda: len(posts(stack.large)) == 2)
    assert spares(stack) == 2
    return stack, wake


@BOTH
async def test_of_a_slow_pool_most_slots_stay(start, tmp_path, workers):
    """Twelve requests want to be shadowed on eight slots, and two are: the rest of the pool is there for clients."""
    stack, wake = await shadowed(start, tmp_path, workers)
    tasks = [asyncio.create_task(stack.chat(f"real {number}", model="large-model")) for number in range(6)]
    await stack.until(lambda: len(running(stack)) == 8)
    assert spares(stack) == 2
    wake()
    answers = await asyncio.gather(*tasks)
    assert {answer.status_code for answer in answers} == {200}
    assert {answer.headers.get("x-tiergate-queue-ms", "0") for answer in answers} == {"0"}
    await stack.at_rest()


@BOTH
@pytest.mark.parametrize("count", [7, 8, 20])
async def test_who_would_wait_has_a_shadows_slot(start, tmp_path, workers, count):
    """As many requests as there are slots run at once: shadows are broken off for them at their engine, and leave no label."""
    stack, wake = await shadowed(start, tmp_path, workers)
    tasks = [asyncio.create_task(stack.chat(f"real {number}", model="large-model")) for number in range(count)]
    gone = min(2, count - 6)
    await stack.until(lambda: sum(call.aborted for call in posts(stack.large)) == gone and len(running(stack)) == 8)
    assert spares(stack) == 2 - gone
    wake()
    assert {answer.status_code for answer in await asyncio.gather(*tasks)} == {200}
    await stack.until(lambda: not any(worker_tasks(stack)))
    await stack.at_rest()
    labels = sum(len(path.read_bytes().splitlines()) for path in (tmp_path / "own").glob("log/*.jsonl"))
    assert labels <= 2 - gone


def worker_tasks(stack):
    workers = getattr(stack.gateway, "workers", ())
    behinds = [worker.parts.own.behind for worker in workers] or [stack.gateway.parts.behind]
    return [behind._tasks for behind in behinds]


async def test_another_dispatcher_takes_shadows_over(start, tmp_path):
    """What runs when the dispatcher is replaced ends by itself, its slots come back, and new ones are counted anew."""
    stack, wake = await shadowed(start, tmp_path, 1)
    await stack.gateway.replace_dispatcher()
    await stack.until(lambda: station(stack, "large-model").scheduler.inflight == 2)
    wake()
    await stack.until(lambda: not any(worker_tasks(stack)))
    await stack.at_rest()
    assert (await stack.chat(f"{EASY} again", model="auto")).status_code == 200
    await stack.until(lambda: not any(worker_tasks(stack)))
    await stack.at_rest()
