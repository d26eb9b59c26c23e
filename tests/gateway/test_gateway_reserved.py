"""A reserved share through the whole gateway: who is served first, what is shown of it, and what a new dispatcher knows of it."""

import asyncio

from gateway_talk import ACME, ADMIN_KEY, OTHER_KEY, ask, chat, posts, scrape, tenant, total
from test_gateway_queue import as_class, waiting

from gateway.build import build
from gateway.config import parse
from gateway.logs import NullLog

TWO_SLOTS = {"models": {0: {"concurrency": {"max": 2}}}}


def owner(**share):
    return {**TWO_SLOTS, "tenants": [ACME, tenant("globex", OTHER_KEY, reserved={"small-model": share})]}


async def status(stack):
    answer = await stack.client.get("/admin/status", headers={"authorization": f"Bearer {ADMIN_KEY}"})
    return answer.json()["models"][0]["reserved"]


async def test_an_owner_has_the_next_slot_however_many_wait(start):
    """Both slots are another's, and more of it wait, in a more urgent class: the owner's is the next that the engine sees."""
    line = await waiting(start, owner(slots=1))
    first = asyncio.create_task(ask(line.stack, chat("also", max_tokens=4)))
    await line.stack.until(lambda: len(posts(line.stack.small)) == 2)
    line.tasks.append(first)
    for number in range(4):
        await line.add(f"a{number}", **as_class("realtime"))
    await line.add("own", key=OTHER_KEY, headers={"x-tiergate-priority": "batch"})
    assert (await line.order())[1] == "own"


async def test_a_share_is_shown_in_use_and_after(start):
    """/admin/status and the metrics tell what is promised, used and left, and how many requests were on it or beyond."""
    line = await waiting(start, owner(slots=1, tpm=6000))
    assert await status(line.stack) == [
        {"tenant": "globex", "slots": 1, "used": 0, "tokens_left": 6000, "requests": {"reserved": 0, "borrowed": 0}}
    ]
    task = asyncio.create_task(ask(line.stack, chat("own", max_tokens=4), key=OTHER_KEY))
    await line.stack.until(lambda: len(posts(line.stack.small)) == 2)
    line.tasks.append(task)
    await line.add("more", key=OTHER_KEY)
    found = await scrape(line.stack)
    assert total(found, "tiergate_reserved_slots", model="small-model", tenant="globex") == 1
    assert total(found, "tiergate_reserved_slots_used", tenant="globex") == 1
    assert total(found, "tiergate_reserved_tokens_left", tenant="globex") < 6000
    assert len(await line.order()) == 2
    (share,) = await status(line.stack)
    assert (share["used"], share["requests"]["reserved"] + share["requests"]["borrowed"]) == (0, 2)
    found = await scrape(line.stack)
    assert total(found, "tiergate_reserved_requests_total", tenant="globex", kind="reserved") >= 1


async def test_what_was_used_is_taken_of_the_tokens(start):
    """Prompt and answer, as the engine counted them; cached prompt tokens are free."""
    stack = await start({**owner(tpm=60_000)})
    answer = await ask(stack, chat("own", max_tokens=50), key=OTHER_KEY)
    used = answer.json()["usage"]["total_tokens"]
    await stack.until(lambda: stack.gateway.parts.lanes["small-model"].scheduler.inflight == 0)
    (share,) = await status(stack)
    assert 60_000 - used <= share["tokens_left"] <= 60_000


async def test_a_pool_without_shares_shows_none(stack):
    """No share, no sample, and the families are there."""
    assert await status(stack) == []
    assert total(await scrape(stack), "tiergate_reserved_slots") == 0


def test_each_tenant_of_a_plan_has_the_plans_share():
    """And a tenant's own words come before the plan's; a pool that nothing is reserved of has the plain line."""
    text = """
models:
  - {name: m, concurrency: {max: 100}, replicas: [{name: r, url: "http://127.0.0.1:1/v1"}]}
  - {name: n, replicas: [{name: r, url: "http://127.0.0.1:1/v1"}]}
plans: {gold: {reserved: {m: {slots: 4, tpm: 1000}}}}
tenants: [{name: a, plan: gold}, {name: b, plan: gold, reserved: {m: {slots: 7}}}, {name: c}]
"""
    lanes = build(parse(text, "config.yaml", {}), NullLog()).lanes
    shares = [owner.share for owner in lanes["m"].scheduler.queue._owners.values()]
    assert [(share.tenant, share.slots, share.tpm) for share in shares] == [("a", 4, 1000), ("b", 7, None)]
    assert type(lanes["n"].scheduler.queue).__name__ == "Queue"
