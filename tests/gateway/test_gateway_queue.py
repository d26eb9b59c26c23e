"""The queue in front of each pool through the whole gateway: order, bounds, deadlines, and what the engines are told."""

import asyncio

import pytest
from gateway_talk import ACME, GLOBEX, KEY, OTHER_KEY, ask, chat, hold, lines, posts, queued, scrape, station, tenant, total, wire

from gateway.lab.fake import Options

ONE_SLOT = {"models": {0: {"concurrency": {"max": 1}}}}
TWO = {"s1": Options(), "s2": Options(), "l1": Options()}


def as_class(name):
    return {"headers": {"x-tiergate-priority": name}}


class Waiting:
    """A pool whose one slot is taken, and requests that queue behind it one after the other."""

    def __init__(self, stack):
        self.stack = stack
        self.wake = hold(stack.small)
        self.tasks = []

    async def add(self, content, **how):
        """One more, in the queue when this returns. All are thought to be of the same length."""
        count = queued(self.stack)
        fields = {"max_tokens": 4, **how.pop("fields", {})}
        task = asyncio.create_task(ask(self.stack, chat(content, **fields), **how))
        if self.tasks:
            await self.stack.until(lambda: queued(self.stack) == count + 1)
        else:
            await self.stack.until(lambda: posts(self.stack.small))
        self.tasks.append(task)
        return task

    async def order(self):
        """What the engine saw after the first one, once all have been answered."""
        self.wake()
        answers = await asyncio.gather(*self.tasks)
        assert {answer.status_code for answer in answers} == {200}
        return [call.body["messages"][0]["content"] for call in posts(self.stack.small)][1:]


async def waiting(start, changes=None):
    line = Waiting(await start({**ONE_SLOT, **(changes or {})}))
    await line.add("blocker")
    return line


async def test_the_classes_are_served_in_order(start):
    """One slot: realtime goes before standard before batch, whatever the order of their coming."""
    line = await waiting(start)
    for name in ("batch", "standard", "realtime"):
        await line.add(name, **as_class(name))
    assert await line.order() == ["realtime", "standard", "batch"]


async def test_a_realtime_flood_leaves_room_for_other_classes(start):
    """It fills the queue; standard and batch clients still get in, at the cost of what it borrowed, and are served."""
    line = await waiting(start, {"queue": {"max_requests": 6}})
    flood = [await line.add(f"flood {number}", **as_class("realtime")) for number in range(6)]
    others = [
        asyncio.create_task(ask(line.stack, chat(name, max_tokens=4), key=OTHER_KEY, **as_class(name)))
        for name in ("standard", "batch")
    ]
    for pushed_out in flood[-2:]:
        answer = await pushed_out
        assert (answer.status_code, answer.json()["error"]["code"]) == (429, "queue_share_full")
    line.wake()
    answers = await asyncio.gather(*flood[:4], *others)
    assert {answer.status_code for answer in answers} == {200}


async def test_batch_is_not_starved(start):
    """One batch request among sixty urgent ones is served within its share, not at the end.

    That is 17 of them where all cost what was expected; the urgent ones turn out somewhat cheaper here.
    """
    line = await waiting(start)
    for number in range(30):
        await line.add(f"r{number}", **as_class("realtime"))
    await line.add("bb", **as_class("batch"))
    for number in range(30, 60):
        await line.add(f"r{number}", **as_class("realtime"))
    order = await line.order()
    assert order.index("bb") <= 30
    assert [content for content in order if content != "bb"] == [f"r{number}" for number in range(60)]


async def test_tenants_of_a_class_take_turns(start):
    """A tenant with many requests waiting does not make another wait for all of them."""
    line = await waiting(start)
    for number in range(6):
        await line.add(f"a{number}")
    for number in range(2):
        await line.add(f"g{number}", key=OTHER_KEY)
    order = await line.order()
    assert order.index("g0") <= 2
    assert order.index("g1") <= 4


async def test_a_heavier_tenant_gets_more_turns(start):
    """Weights share the turns: three of the heavy tenant's for one of the light one's."""
    heavy, light = tenant("acme", KEY, weight=3), tenant("globex", OTHER_KEY, weight=1)
    line = await waiting(start, {"tenants": [heavy, light]})
    for number in range(6):
        await line.add(f"a{number}")
        await line.add(f"g{number}", key=OTHER_KEY)
    first = (await line.order())[:8]
    assert len([content for content in first if content.startswith("a")]) >= 5


async def test_a_full_queue_is_a_503_that_says_when(start):
    """Past max_requests the answer is 503 queue_full with retry-after, at once, and nothing went upstream."""
    line = await waiting(start, {"queue": {"max_requests": 2}})
    await line.add("a")
    await line.add("b")
    refused = await ask(line.stack, chat("c"))
    assert refused.status_code == 503
    assert refused.json()["error"]["code"] == "queue_full"
    assert int(refused.headers["retry-after"]) >= 1
    assert int(refused.headers["retry-after-ms"]) > 0
    assert (await lines(line.stack, 1))[0]["outcome"] == "rejected"
    assert await line.order() == ["a", "b"]


@pytest.mark.parametrize(
    ("bound", "fields"), [({"max_bytes": "2KiB"}, {}), ({"max_tokens": 2000}, {"max_tokens": 1500})], ids=["bytes", "tokens"]
)
async def test_the_queue_is_bounded_in_bytes_and_tokens(start, bound, fields):
    """A few large requests fill the queue as many small ones do."""
    line = await waiting(start, {"queue": bound})
    await line.add("a" * 1500, fields=fields)
    refused = await ask(line.stack, chat("b" * 1500, **fields))
    assert refused.status_code == 503
    assert refused.json()["error"]["code"] == "queue_full"
    assert len(await line.order()) == 1


async def test_a_tenant_gives_borrowed_room_back(start):
    """One tenant fills the queue; another asks, gets its place, and the first hears 429 for its newest."""
    line = await waiting(start, {"queue": {"max_requests": 4}})
    for number in range(4):
        await line.add(f"a{number}")
    newest = line.tasks.pop()
    line.tasks.append(asyncio.create_task(ask(line.stack, chat("g0"), key=OTHER_KEY)))
    refused = await newest
    assert refused.status_code == 429
    assert refused.json()["error"]["code"] == "queue_share_full"
    assert int(refused.headers["retry-after"]) >= 1
    beyond = await ask(line.stack, chat("a4"))
    assert beyond.status_code == 429
    assert sorted(await line.order()) == ["a0", "a1", "a2", "g0"]


async def test_an_urgent_request_takes_a_batch_ones_place(start):
    """With the queue full of batch work a realtime request still gets in; the newest batch request hears 503."""
    third = tenant("initech", "a-third-key")
    line = await waiting(start, {"queue": {"max_requests": 4}, "tenants": [ACME, GLOBEX, third]})
    for number, key in enumerate((KEY, OTHER_KEY, KEY, OTHER_KEY)):
        await line.add(f"b{number}", **as_class("batch"), key=key)
    newest = line.tasks.pop()
    line.tasks.append(asyncio.create_task(ask(line.stack, chat("r0", max_tokens=4), key="a-third-key")))
    pushed_out = await newest
    assert pushed_out.status_code == 503
    assert "retry-after" in pushed_out.headers
    assert await line.order() == ["r0", "b0", "b1", "b2"]


async def test_a_wait_that_is_too_long_ends_in_a_503(start):
    """After its class's max_wait a queued request is answered 503 queue_timeout, and leaves the queue."""
    line = await waiting(start, {"queue": {"max_wait": {"realtime": "50ms"}}})
    late = await ask(line.stack, chat("late"))
    assert late.status_code == 503
    assert late.json()["error"]["code"] == "queue_timeout"
    assert "retry-after" in late.headers
    assert queued(line.stack) == 0
    assert (await lines(line.stack, 1))[0]["outcome"] == "timeout"
    assert await line.order() == []


@pytest.mark.parametrize("stream", [False, True], ids=["json", "sse"])
async def test_a_deadline_that_passes_in_the_queue_is_a_503(start, stream):
    """x-tiergate-deadline-ms holds while queued, and the request never reaches a replica."""
    line = await waiting(start)
    late = await ask(line.stack, chat("late", stream=stream), headers={"x-tiergate-deadline-ms": "50"})
    assert late.status_code == 503
    assert late.json()["error"]["code"] == "queue_timeout"
    assert await line.order() == []


@pytest.mark.parametrize("stream", [False, True], ids=["json", "sse"])
async def test_a_deadline_that_passes_in_a_replica_is_a_504(stack, stream):
    """x-tiergate-deadline-ms holds upstream: 504, and the replica is let go."""
    stack.small.faults.add(hang_before_headers=True)
    late = await ask(stack, chat("late", stream=stream), headers={"x-tiergate-deadline-ms": "100"})
    assert late.status_code == 504
    assert late.json()["error"]["code"] == "upstream_timeout"
    await stack.until(lambda: posts(stack.small)[0].aborted)
    assert len(posts(stack.small)) == 1
    await stack.at_rest()


@pytest.mark.parametrize("value", ["0", "-1", "1.5", "soon", "9999999999", "١"])
async def test_a_deadline_that_is_no_number_is_a_400(stack, value):
    """Anything but a positive whole number of milliseconds is refused, not ignored."""
    answer = await ask(stack, chat(), headers={"x-tiergate-deadline-ms": value.encode().decode("latin-1")})
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "invalid_header"


async def test_a_request_is_bound_to_a_replica_when_a_slot_is_free(start):
    """Late binding: what queued while both replicas were full goes to the one that is free first."""
    stack = await start({"models": {0: {"concurrency": {"max": 1}, "balance": {"kind": "round_robin"}}}}, fakes=TWO)
    wakes = {name: hold(stack.fakes[name]) for name in ("s1", "s2")}
    tasks = [asyncio.create_task(ask(stack, chat(content))) for content in ("a", "b")]
    await stack.until(lambda: posts(stack.fakes["s1"]) and posts(stack.fakes["s2"]))
    late = [asyncio.create_task(ask(stack, chat(content))) for content in ("c", "d")]
    await stack.until(lambda: queued(stack) == 2)
    wakes["s2"]()
    answers = await asyncio.gather(*late)
    assert [answer.headers["x-tiergate-replica"] for answer in answers] == ["s2", "s2"]
    assert all(int(answer.headers["x-tiergate-queue-ms"]) >= 0 for answer in answers)
    wakes["s1"]()
    await asyncio.gather(*tasks)
    assert len(posts(stack.fakes["s1"])) == 1


async def test_a_full_pool_does_not_hold_up_another(start):
    """Slots belong to a pool: while the small one queues, the large one answers at once."""
    line = await waiting(start)
    await line.add("a")
    other = await ask(line.stack, chat("b", model="large-model"))
    assert other.status_code == 200
    assert other.headers["x-tiergate-queue-ms"] == "0"
    found = await scrape(line.stack)
    assert total(found, "tiergate_queue_depth", model="small-model") == 1
    assert total(found, "tiergate_queue_depth", model="large-model") == 0
    assert total(found, "tiergate_inflight_requests", model="small-model", replica="s1") == 1
    assert await line.order() == ["a"]


async def test_a_client_that_leaves_the_queue_frees_its_place(start):
    """A departed or timed-out request takes no place: the next one gets in, and the order of the rest stays."""
    line = await waiting(start, {"queue": {"max_requests": 2}})
    await line.add("a")
    async with wire(line.stack.gateway.port) as one:
        one.send(chat("leaves"))
        await line.stack.until(lambda: queued(line.stack) == 2)
    await line.stack.until(lambda: queued(line.stack) == 1)
    await line.add("b")
    assert await line.order() == ["a", "b"]
    await line.stack.at_rest()


@pytest.mark.parametrize(
    ("plan", "header", "served_as"),
    [
        ("realtime", None, "realtime"),
        ("realtime", "batch", "batch"),
        ("realtime", "Standard", "standard"),
        ("batch", "realtime", "batch"),
        ("standard", "realtime", "standard"),
        ("standard", "batch", "batch"),
        (None, None, "standard"),
    ],
)
async def test_the_class_is_the_plans_and_never_above_it(start, plan, header, served_as):
    """The priority header lowers the class; above the plan's it gets the plan's; without both it is standard."""
    plans = {"pro": {"priority": plan}} if plan else {}
    stack = await start({"plans": plans or {"other": {}}, "tenants": [tenant("acme", KEY, plan="pro" if plan else None)]})
    assert (await ask(stack, chat(), headers={"x-tiergate-priority": header} if header else None)).status_code == 200
    found = await scrape(stack)
    assert total(found, "tiergate_queue_wait_seconds_count") == 1
    assert total(found, "tiergate_queue_wait_seconds_count", **{"class": served_as}) == 1


@pytest.mark.parametrize("value", ["urgent", "1", "realtime,batch"])
async def test_a_priority_that_does_not_exist_is_a_400(stack, value):
    """An unknown class is refused with its own words, not taken for the default."""
    answer = await ask(stack, chat(), headers={"x-tiergate-priority": value})
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "invalid_header"
    assert "realtime, standard or batch" in answer.json()["error"]["message"]


async def test_engines_are_told_a_priority_only_where_they_schedule_by_it(start):
    """`priority` goes to the pool with scheduling_policy: priority, by class, and nowhere else; a tenant's own is taken out."""
    stack = await start({"models": {0: {"scheduling_policy": "priority"}}})
    for name in ("realtime", "standard", "batch"):
        await ask(stack, chat(priority=-100), **as_class(name))
    assert [call.body["priority"] for call in posts(stack.small)] == [0, 10, 20]
    await ask(stack, chat(model="large-model", priority=-100))
    assert "priority" not in posts(stack.large)[0].body


async def test_a_raised_request_tells_the_engine_its_new_class(start):
    """A batch request that a realtime one joined is sent to the engine as realtime."""
    line = await waiting(start, {"models": {0: {"concurrency": {"max": 1}, "scheduling_policy": "priority"}}})
    await line.add("wanted", fields={"temperature": 0}, **as_class("batch"))
    line.tasks.append(asyncio.create_task(ask(line.stack, chat("wanted", max_tokens=4, temperature=0))))
    await line.stack.until(lambda: line.stack.gateway.parts.edge.running == 3)
    assert await line.order() == ["wanted"]
    assert posts(line.stack.small)[1].body["priority"] == 0


@pytest.mark.parametrize("isolate", ["tenant", "none"])
async def test_prefix_blocks_are_shared_within_a_tenant_only(start, isolate):
    """Under isolate: tenant each tenant has one cache_salt, not its own wish and not another's; under none there is no salt."""
    stack = await start({"cache": {"secret": "s", "prefix": {"isolate": isolate}}, "tenants": [ACME, GLOBEX]})
    for key in (KEY, KEY, OTHER_KEY):
        await ask(stack, chat(cache_salt="the tenant's own"), key=key)
    salts = [call.body.get("cache_salt") for call in posts(stack.small)]
    if isolate == "none":
        assert salts == [None, None, None]
    else:
        assert salts[0] == salts[1] != salts[2]
        assert all(len(salt) >= 16 and "tenant" not in salt and "acme" not in salt for salt in salts)


async def test_privileged_fields_never_reach_an_engine(stack):
    """request_id and the transfer parameters of a tenant are taken out; every other byte goes as it came."""
    body = (
        b'{ "model" : "small-model", "request_id":"x", "messages":[{"role":"user", "content":"\\u00fc"}],'
        b' "kv_transfer_params":{"a":1},"ec_transfer_params":{},"priority":1 , "extra":[1.0,1e2]}'
    )
    assert (await ask(stack, body)).status_code == 200
    assert posts(stack.small)[0].raw == (
        b'{ "model" : "fake", "messages":[{"role":"user", "content":"\\u00fc"}] , "extra":[1.0,1e2]}'
    )


async def test_capacity_follows_the_replicas(start):
    """The pool's slots are those of its ready replicas: one that goes down takes its slots along."""
    stack = await start({"models": {0: {"concurrency": {"max": 3}}}}, fakes=TWO)
    assert station(stack).scheduler.capacity == 6
    await stack.fakes["s2"].stop()
    await stack.until(lambda: station(stack).scheduler.capacity == 3)
