"""What full, idle and lost pools make of a route, in one process and from the page that a dispatcher writes."""

import asyncio

import pytest
from gateway_talk import ADMIN_KEY, KEY, OTHER_KEY, ask, chat, hold, posts, scrape, station, total

from gateway.loads import AGE, SIZE, Page, PageLoads, whose
from limits.waiting import Priority

HARD = "Prove by induction that the algorithm terminates, and derive its worst-case complexity step by step."
EASY = "What is the capital of France?"
ONE_SLOT = {0: {"concurrency": {"max": 1}}, 1: {"concurrency": {"max": 1}}}
NEAR = "Design a cache."
UNRATED = "zxqv blorp wug fnord glim trx qwl"
QUICK = {"load": {"wait": "1ms", "idle": 0.0}}


def seen(stack, model):
    """The pool as whoever decides here knows it."""
    return stack.gateway.parts.pipeline.loads.at(Priority.REALTIME)(model)


async def crowd(stack, model, fake, count=4):
    """Requests for the model that run or wait until what is returned is called, and the wait is known."""
    for number in range(3):
        assert (await ask(stack, chat(f"warm {number}", model=model))).status_code == 200
    wake = hold(fake)
    tasks = [asyncio.create_task(ask(stack, chat(f"crowd {number}", model=model))) for number in range(count)]
    await stack.until(lambda: station(stack, model).scheduler.queue.load.requests == count - 1)
    await stack.until(lambda: (pool := seen(stack, model)) is not None and not pool.free and (pool.wait or 0) > 0.003)

    async def disperse():
        wake()
        assert {answer.status_code for answer in await asyncio.gather(*tasks)} == {200}

    return disperse


async def auto(stack, text, **how):
    answer = await ask(stack, chat(text, model="auto"), **how)
    assert answer.status_code == 200, answer.text
    return answer.headers["x-tiergate-tier"], answer.headers["x-tiergate-route"]


async def explained(stack, text):
    question = {"tenant": "acme", "endpoint": "chat", "body": chat(text, model="auto"), "headers": {}}
    answer = await stack.client.post(
        f"{stack.url}/admin/explain", json=question, headers={"authorization": f"Bearer {ADMIN_KEY}"}
    )
    return answer.json()["route"]


async def seen_before(stack, *, key=KEY):
    """What lately was to go up: eight near the cut, eight hard ones."""
    for number in range(8):
        for text in (f"Design a cache {number}.", f"{HARD} {number}"):
            assert (await auto(stack, text, key=key))[0] == "large"


async def test_work_near_the_cut_spills_while_the_large_pool_is_late(start):
    """As `load`, counted, explained, and for as long as the wait is too long; hard work waits."""
    stack = await start({"models": ONE_SLOT, "routing": QUICK})
    await seen_before(stack)
    disperse = await crowd(stack, "large-model", stack.large)
    route = await explained(stack, NEAR)
    assert (route["tier"], route["reason"], route["move"]) == ("small", "load", "spilled")
    pools = {pool["model"]: pool for pool in route["loads"]}
    assert (pools["large-model"]["free"], pools["large-model"]["slots"], pools["large-model"]["meant"]) == (0, 1, 0.001)
    assert pools["large-model"]["wait"] > 0.003
    assert await auto(stack, NEAR) == ("small", "load")
    waits = asyncio.create_task(auto(stack, HARD))
    await stack.until(lambda: station(stack, "large-model").scheduler.queue.load.requests == 4)
    await disperse()
    assert await waits == ("large", "score")
    await stack.until(lambda: seen(stack, "large-model").free == 1)
    assert await auto(stack, f"{NEAR} Again.") == ("large", "score")
    found = await scrape(stack)
    assert (
        total(found, "tiergate_load_moves_total") == total(found, "tiergate_load_moves_total", tier="small", move="spilled") == 1
    )
    assert total(found, "tiergate_route_decisions_total", tier="small", reason="load") == 1


async def test_a_share_that_is_aimed_at_does_not_swing_with_the_load(start):
    """What spilled counts as work that was to go up: nothing else goes up in its place. The metrics tell where it went."""
    stack = await start({"models": ONE_SLOT, "routing": {**QUICK, "routes": {"auto": {"target": {"large": 0.5}}}}})
    for number in range(8):
        for text in (f"Design a cache {number}.", f"{HARD} {number}"):
            await auto(stack, text)
    scope = stack.gateway.parts.pipeline.choosing._cuts.scope("", "acme")
    disperse = await crowd(stack, "large-model", stack.large)
    before, cheap = scope.standing(), total(await scrape(stack), "tiergate_route_choices_total", to="cheapest")
    assert await auto(stack, NEAR) in {("small", "load"), ("small", "score")}
    went = stack.log.lines[-1]["route"]
    after = scope.standing()
    assert round(after.share * after.seen - before.share * before.seen) == (went == "load")
    assert total(await scrape(stack), "tiergate_route_choices_total", to="cheapest") == cheap + 1
    await disperse()


async def test_one_tenant_does_not_make_the_work_of_another_look_easy(start):
    """What is near the cut is told from the tenant's own work: of who has sent too little nothing spills."""
    stack = await start({"models": ONE_SLOT, "routing": QUICK})
    await seen_before(stack)
    disperse = await crowd(stack, "large-model", stack.large)
    waits = asyncio.create_task(auto(stack, NEAR, key=OTHER_KEY))
    await stack.until(lambda: station(stack, "large-model").scheduler.queue.load.requests == 4)
    await disperse()
    assert await waits == ("large", "score")


async def test_what_is_not_the_scores_to_decide_waits(start):
    """However long: what only the large model can do, and what asks for it."""
    stack = await start({"models": {**ONE_SLOT, 0: {**ONE_SLOT[0], "capabilities": ["tools"]}}, "routing": QUICK})
    await seen_before(stack)
    disperse = await crowd(stack, "large-model", stack.large)
    waits = [asyncio.create_task(ask(stack, chat(NEAR, model="auto", reasoning_effort="high"))),
             asyncio.create_task(ask(stack, chat(NEAR, model="auto"), headers={"x-tiergate-tier": "large"}))]  # fmt: skip
    await stack.until(lambda: station(stack, "large-model").scheduler.queue.load.requests == 5)
    await disperse()
    assert {(await one).headers["x-tiergate-tier"] for one in waits} == {"large"}


async def test_easy_work_borrows_idle_slots(start):
    """When the small pool is full and late; the conversation does not move up for it."""
    stack = await start({"models": ONE_SLOT, "routing": QUICK})
    disperse = await crowd(stack, "small-model", stack.small)
    assert await auto(stack, EASY, headers={"x-tiergate-session": "s"}) == ("large", "load")
    await disperse()
    await stack.until(lambda: seen(stack, "small-model").free == 1)
    assert await auto(stack, f"{EASY} 2", headers={"x-tiergate-session": "s"}) == ("small", "score")
    found = await scrape(stack)
    assert total(found, "tiergate_load_moves_total", tier="large", move="borrowed") == 1


async def test_what_nobody_can_rate_borrows_where_a_budget_sent_it_down(start):
    """It is not refused, nor does it wait, by a full small pool while the large one is idle; the target counts it as small."""
    stack = await start({"models": ONE_SLOT, "routing": {**QUICK, "routes": {"auto": {"target": {"large": 0.05}}}}})
    assert await auto(stack, UNRATED) == ("small", "budget")
    disperse = await crowd(stack, "small-model", stack.small)
    assert (await explained(stack, f"{UNRATED} 2"))["move"] == "borrowed"
    assert await auto(stack, f"{UNRATED} 2") == ("large", "load")
    scope = stack.gateway.parts.pipeline.choosing._cuts.scope("", "acme")
    assert scope.standing().share == 0.0
    await disperse()
    assert total(await scrape(stack), "tiergate_load_moves_total", tier="large", move="borrowed") == 1


async def test_nothing_is_borrowed_from_those_who_have_little_left(start):
    """`idle` of the slots stay for hard work."""
    stack = await start({"models": ONE_SLOT, "routing": {"load": {"wait": "1ms", "idle": 1}}})
    disperse = await crowd(stack, "small-model", stack.small)
    waiting = asyncio.create_task(auto(stack, EASY))
    await stack.until(lambda: station(stack, "small-model").scheduler.queue.load.requests == 4)
    await disperse()
    assert await waiting == ("small", "score")


async def test_a_pool_without_a_replica_is_passed_over_when_it_is_decided(start):
    """As `fallback`, without trying it; a pinned model is tried all the same, and with nobody there the refusal is its own."""
    stack = await start()
    await stack.large.stop()
    await stack.until(lambda: not seen(stack, "large-model").ready)
    assert await auto(stack, HARD) == ("small", "fallback")
    assert (await explained(stack, HARD))["reason"] == "fallback"
    assert (await ask(stack, chat(HARD, model="large-model"))).status_code == 503
    found = await scrape(stack)
    assert total(found, "tiergate_route_decisions_total", tier="small", reason="fallback") == 1
    await stack.small.stop()
    await stack.until(lambda: not seen(stack, "small-model").ready)
    assert (await ask(stack, chat(HARD, model="auto"))).status_code == 503
    await stack.large.start()
    await stack.until(lambda: seen(stack, "large-model").ready)
    assert await auto(stack, EASY) == ("large", "fallback")
    assert len(posts(stack.large)) == 1


async def test_of_a_page_that_nobody_writes_nothing_is_believed(start, how_many_workers):
    """Without a dispatcher workers decide by the text alone, and by the load again when there is one."""
    if not how_many_workers:
        pytest.skip("a process that is alone has no page")
    stack = await start()
    assert seen(stack, "large-model").ready
    loads = stack.gateway.parts.pipeline.loads
    clock = loads._clock
    loads._clock = lambda: clock() + AGE + 1
    assert seen(stack, "large-model") is None
    assert await auto(stack, EASY) == ("small", "score")
    loads._clock = clock
    await stack.until(lambda: seen(stack, "large-model") is not None)
    await stack.gateway.replace_dispatcher()
    await stack.until(lambda: (pool := seen(stack, "large-model")) is not None and pool.ready)


async def test_a_page_is_of_its_models_and_whole(start, how_many_workers):
    """One that is half written, damaged, of other models or of the future says nothing."""
    if how_many_workers:
        pytest.skip("the page alone")
    stack = await start()
    lanes, memory, now = stack.gateway.parts.lanes, bytearray(SIZE), [100.0]
    names = list(lanes)
    reader = PageLoads(memory, names, lambda: now[0])
    assert reader.at(Priority.BATCH)("small-model") is None
    page = Page(memory, lanes, lambda: now[0])
    page.write()
    pool = reader.at(Priority.BATCH)("small-model")
    assert (pool.ready, pool.free, pool.slots, pool.wait) == (True, 256, 256, 0.0)
    assert reader.at(Priority.BATCH)("no-such") is None
    assert PageLoads(memory, names[::-1], lambda: now[0]).at(Priority.BATCH)("small-model") is None
    assert whose(names) != whose(names[::-1])
    for place in (0, 9, 17, 33):
        memory[place] ^= 1
        assert PageLoads(memory, names, lambda: now[0]).at(Priority.BATCH)("small-model") is None
        memory[place] ^= 1
    for later in (-1.0, AGE + 0.1):
        now[0] = 100.0 + later
        assert reader.at(Priority.BATCH)("small-model") is None
