"""Batch work that gives its slot to a realtime request, through the whole gateway, before an engine that tells what it saw."""

import asyncio

import pytest
from gateway_talk import ask, chat, hold, lines, posts, queued, scrape, total

BATCH, REALTIME = ({"x-tiergate-priority": name} for name in ("batch", "realtime"))


def one_slot(kind, **changes):
    return {"models": {0: {"concurrency": {"max": 1}}}, "queue": {"preempt": {"kind": kind, "within": "60s"}}, **changes}


def contents(fake):
    return [call.body["messages"][0]["content"] for call in posts(fake)]


class Held:
    """A pool whose one slot a batch request has, before an engine that makes no token."""

    def __init__(self, stack):
        self.stack = stack
        self.wake = hold(stack.small)

    async def batch(self, content="batch", **fields):
        before = len(posts(self.stack.small))
        task = asyncio.create_task(ask(self.stack, chat(content, **fields), headers=BATCH))
        await self.stack.until(lambda: len(posts(self.stack.small)) > before)
        return task

    def urgent(self, content="urgent", **fields):
        return asyncio.create_task(ask(self.stack, chat(content, **fields), headers=REALTIME))


@pytest.fixture
async def held(start):
    async def make(kind, **changes):
        return Held(await start(one_slot(kind, **changes)))

    return make


@pytest.mark.parametrize("stream", [False, True], ids=["json", "sse"])
async def test_a_batch_request_waits_once_more(held, stream):
    """Its attempt is given up, the realtime one is served, then it is served itself: charged once, told in log and metrics."""
    world = await held("requeue")
    stack = world.stack
    batch = await world.batch(stream=stream)
    urgent = world.urgent()
    await stack.until(lambda: contents(stack.small) == ["batch", "urgent"])
    assert posts(stack.small)[0].aborted
    assert queued(stack) == 1
    world.wake()
    answers = [await urgent, await batch]
    assert [answer.status_code for answer in answers] == [200, 200]
    assert contents(stack.small) == ["batch", "urgent", "batch"]
    found = {line["request_id"]: line for line in await lines(stack, 2)}
    line = found[answers[1].headers["x-request-id"]]
    assert (line["outcome"], line["preempted"], line["attempts"]) == ("ok", "requeued", 2)
    assert line["charged_tokens"] == line["prompt_tokens"] + line["completion_tokens"] > 0
    assert "preempted" not in found[answers[0].headers["x-request-id"]]
    await stack.at_rest()
    counted = await scrape(stack)
    assert total(counted, "tiergate_preemptions_total", model="small-model", result="requeued") == 1
    assert total(counted, "tiergate_upstream_retries_total") == 0
    assert total(counted, "tiergate_requests_total", outcome="ok") == 2
