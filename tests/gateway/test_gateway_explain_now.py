"""What a running gateway tells of a request before it is sent is what that request is then told: a limit, a budget, the queue."""

import asyncio

import pytest
from gateway_talk import ADMIN_KEY, KEY, ask, chat, freeze_limits, hold, posts, station, tenant

ONE_SLOT = {"models": {0: {"concurrency": {"max": 1}}}}


async def told(stack, body):
    """Of the same request, as the operator asks."""
    question = {"tenant": "acme", "endpoint": "chat", "body": body, "headers": {}}
    answer = await stack.client.post(
        f"{stack.url}/admin/explain", json=question, headers={"authorization": f"Bearer {ADMIN_KEY}"}
    )
    assert answer.status_code == 200, answer.text
    return answer.json()


async def agree(stack, body, *, now=True):
    """The refusal that is told, and got; None: it is served. `now`: it would be another time."""
    said = (await told(stack, body))["refusal"]
    answer = await ask(stack, body)
    if answer.status_code == 200:
        assert said is None
        return None
    error = answer.json()["error"]
    assert (said["status"], said["code"], said["message"]) == (answer.status_code, error["code"], error["message"])
    assert said["now"] is now
    wait = answer.headers.get("retry-after-ms")
    assert said["wait"] == (None if wait is None else int(wait) / 1000)
    return said["code"]


@pytest.mark.parametrize(
    ("limits", "plan", "expected"),
    [
        ({"rpm": 1}, {}, "rate_limit_exceeded"),
        ({"tpm": 160}, {}, "rate_limit_exceeded"),
        ({"budget": {"day": 160}}, {}, "insufficient_quota"),
        ({}, {"models": {"small-model": {"rpm": 1}}}, "rate_limit_exceeded"),
        ({"tpm": 90}, {}, "request_too_large"),
        ({"budget": {"month": 0}}, {}, "insufficient_quota"),
        ({}, {}, None),
    ],
)
async def test_limits(start, limits, plan, expected):
    """The second request meets what the first has left."""
    stack = await start({"tenants": [tenant("acme", KEY, **limits)], "plans": {"pro": plan}})
    freeze_limits(stack)
    never = limits in ({"tpm": 90}, {"budget": {"month": 0}})
    found = []
    for number in range(2):
        found.append(await agree(stack, chat(f"[[tokens: 80]] {number}", max_tokens=80), now=not never))
        await stack.until(stack.idle)
    assert found == [expected if never else None, expected]


async def test_who_names_no_maximum(start):
    """What is cut down to what is left is let in, and told so."""
    stack = await start({"tenants": [tenant("acme", KEY, budget={"day": 300})]})
    assert await agree(stack, chat("[[tokens: 80]] a", max_tokens=80)) is None
    assert await agree(stack, chat("[[tokens: 300]] b")) is None
    assert await agree(stack, chat("c")) == "insufficient_quota"


async def test_parallel_slots_and_the_queue(start):
    """All slots of a tenant in use; a queue that is full; and where nothing runs any more."""
    stack = await start(
        {**ONE_SLOT, "queue": {"max_requests": 1}, "tenants": [tenant("acme", KEY, max_parallel=2)], "plans": {"pro": {}}}
    )
    wake = hold(stack.small)
    running = [asyncio.create_task(ask(stack, chat("blocker")))]
    await stack.until(lambda: posts(stack.small))
    running.append(asyncio.create_task(ask(stack, chat("waits"))))
    await stack.until(lambda: station(stack).scheduler.queue.load.requests == 1)
    assert await agree(stack, chat("third")) == "concurrency_limit_exceeded"
    wake()
    await asyncio.gather(*running)
    await stack.until(stack.idle)
    stack.gateway.parts.fleet.drain("small-model", "s1")
    assert await agree(stack, chat("nobody")) == "no_replica_ready"


async def test_a_queue_that_is_full(start):
    """Who would not be let wait is told what it would be told."""
    stack = await start({**ONE_SLOT, "queue": {"max_requests": 1}})
    wake = hold(stack.small)
    running = [asyncio.create_task(ask(stack, chat("blocker")))]
    await stack.until(lambda: posts(stack.small))
    running.append(asyncio.create_task(ask(stack, chat("waits"))))
    await stack.until(lambda: station(stack).scheduler.queue.load.requests == 1)
    said = (await told(stack, chat("third")))["refusal"]
    assert (said["status"], said["code"], said["now"]) == (503, "queue_full", True)
    assert said["wait"] > 0
    assert (await ask(stack, chat("third"))).json()["error"]["code"] == "queue_full"
    wake()
    await asyncio.gather(*running)


async def test_telling_spends_nothing(start):
    """However often it is asked."""
    stack = await start({"tenants": [tenant("acme", KEY, rpm=1, tpm=200, max_parallel=1, budget={"day": 200})]})
    for _ in range(3):
        assert (await told(stack, chat("a", max_tokens=100)))["refusal"] is None
    assert await agree(stack, chat("a", max_tokens=100)) is None
