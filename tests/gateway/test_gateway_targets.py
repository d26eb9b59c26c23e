"""Named routes and what they aim at, through the whole gateway: what is cut, what counts, what is told."""

import asyncio
import json
import logging

import msgspec
import pytest
from gateway_talk import ACME, ADMIN_KEY, GLOBEX, KEY, OTHER_KEY, ask, chat, hold, lines, posts, scrape, tenant, total

from gateway.choosing import draw
from gateway.commands.explain_text import text
from gateway.explanation import Explanation

EASY, UNKNOWN = "Translate this word into French:", "xyzzy"
HARD = "Prove by induction that the theorem holds, derive the complexity step by step."
OWNER = {"authorization": f"Bearer {ADMIN_KEY}"}
NEVER, ALWAYS = {"target": {"large": 0.0}}, {"target": {"large": 1.0}}
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
HALF = {"routing": {"routes": {"auto": {"target": {"large": 0.5}}}}}


def to(route, content, **fields):
    return chat(content, **{"model": route, **fields})


async def tier_of(stack, body, key=KEY, **headers):
    answer = await ask(stack, body, key=key, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.headers["x-tiergate-tier"], answer.headers["x-tiergate-route"]


async def choices(stack, **labels):
    return total(await scrape(stack), "tiergate_route_choices_total", **labels)


async def test_each_route_keeps_to_its_own_target(start):
    """The same ask goes where the target of its route sends it; `auto` itself stays as it was."""
    routes = {"never": NEVER, "always": ALWAYS, "high": {"target": {"threshold": 1.0}}}
    stack = await start({"routing": {"routes": routes, "aliases": {"gpt-4o-mini": "never"}}})
    assert await tier_of(stack, to("auto", HARD)) == ("large", "score")
    assert await tier_of(stack, to("auto", EASY)) == ("small", "score")
    assert await tier_of(stack, to("never", HARD)) == ("small", "score")
    assert await tier_of(stack, to("gpt-4o-mini", HARD)) == ("small", "score")
    assert await tier_of(stack, to("always", EASY)) == ("large", "score")
    assert await tier_of(stack, to("high", HARD)) == ("small", "score")
    line = (await lines(stack, 6))[-1]
    assert (line["requested"], line["cut"]) == ("high", 1.0)


async def test_what_nobody_can_rate_needs_room_in_the_budget_too(start):
    """A request without a score goes to the default tier as far as the target has room, else down, with a reason of its own."""
    stack = await start({"routing": {"routes": {"never": NEVER, "high": {"target": {"threshold": 1.0}}}}})
    assert await tier_of(stack, to("never", UNKNOWN)) == ("small", "budget")
    assert await tier_of(stack, to("high", UNKNOWN)) == ("large", "default")
    assert await tier_of(stack, to("auto", UNKNOWN)) == ("large", "default")


async def test_a_tenants_target_is_before_its_plans_and_that_before_the_routes(start):
    """The most specific one holds, under every route."""
    stack = await start(
        {
            "routing": {"routes": {"auto": ALWAYS, "never": NEVER}},
            "plans": {"pro": {**NEVER}},
            "tenants": [{**ACME, **ALWAYS}, GLOBEX, tenant("initech", "tg-initech", plan=None)],
        }
    )
    assert await tier_of(stack, to("never", EASY)) == ("large", "score")
    assert await tier_of(stack, to("auto", HARD), OTHER_KEY) == ("small", "score")
    assert await tier_of(stack, to("auto", EASY), "tg-initech") == ("large", "score")
    assert await tier_of(stack, to("never", HARD), "tg-initech") == ("small", "score")


async def test_routes_are_listed_and_choose_from_their_own_models(start):
    """/v1/models has a route as a name of its own; a route over one model gives that one, and its context."""
    stack = await start({"routing": {"routes": {"team/thrifty": {"models": ["small-model"]}}}})
    answer = await stack.client.get("/v1/models/team/thrifty", headers={"authorization": f"Bearer {KEY}"})
    assert (answer.json()["id"], answer.json()["max_model_len"], answer.json()["tier"]) == ("team/thrifty", 4096, None)
    assert await tier_of(stack, to("team/thrifty", HARD)) == ("small", "default")


async def test_routes_do_not_share_answers_with_auto(start):
    """What one route chose is not another's answer; within a route, and under its aliases, it is."""
    stack = await start({"routing": {"routes": {"never": NEVER}, "aliases": {"thrifty": "never"}}})
    cached = [
        (await ask(stack, to(model, HARD, temperature=0))).headers["x-tiergate-cache"]
        for model in ("auto", "never", "thrifty", "auto")
    ]
    assert cached == ["miss", "miss", "exact", "exact"]


async def test_a_share_is_kept_and_counted_once_for_each_request_that_a_model_got(start):
    """Of asks that are all hard half go up; the metric has each of them once, and the cut they met."""
    stack = await start(HALF)
    for place in range(60):
        await ask(stack, to("auto", f"{HARD} {place}"))
    up, down = await choices(stack, route="auto", to="dearer"), await choices(stack, route="auto", to="cheapest")
    assert up + down == 60
    assert (up, down) == (len(posts(stack.large)), len(posts(stack.small)))
    assert abs(up - 30) <= 8
    found = await scrape(stack)
    assert total(found, "tiergate_route_cut_count", route="auto") == 60
    assert total(found, "tiergate_route_target", route="auto", target="large", tenant="") == 0.5


async def test_several_workers_keep_the_share_in_sum(start):
    """Each has its own account; the metrics speak for all, and so does what explain tells of all that was sent."""
    stack = await start(HALF, workers=3)
    for place in range(60):
        await ask(stack, to("auto", f"{HARD} {place}"))
    up = len(posts(stack.large))
    assert (await choices(stack, to="dearer"), await choices(stack, to="cheapest")) == (up, 60 - up)
    assert abs(up - 30) <= 20
    told = await stack.client.post("/admin/explain", json={"tenant": "acme", "body": to("auto", HARD)}, headers=OWNER)
    target = told.json()["route"]["target"]
    assert (target["sent"], target["overall"]) == (60, up / 60)
    assert 0 < target["seen"] < 60, "the worker that was asked has seen its part"


async def test_of_several_workers_the_one_that_hears_the_question_says_what_it_would_do(start):
    """Its cut, not one that nobody goes by; whatever else stands in the question is refused as always."""
    stack = await start({"routing": {"routes": {"auto": {"target": {"large": 0.1}}}}}, workers=1)
    for place in range(80):
        await ask(stack, to("auto", f"{HARD} {place}"))
    body = to("auto", HARD)
    told = (await stack.client.post("/admin/explain", json={"tenant": "acme", "body": body}, headers=OWNER)).json()["route"]
    here = stack.gateway.workers[0].parts.own.pipeline.sight("acme").lines[""]
    assert (told["target"]["seen"], told["target"]["cut"]) == (80, min(here.standing.cut, 1.0))
    assert told["threshold"] == min(here.cut(lambda: draw(json.dumps(body, separators=(",", ":")).encode())).threshold, 1.0)
    for question, status in (({"tenant": "nobody", "body": body}, 400), ({"tenant": 7, "body": body}, 400), ([], 400)):
        told = await stack.client.post("/admin/explain", json=question, headers=OWNER)
        assert told.status_code == status
    told = await stack.client.post("/admin/explain", content=b"[" * 5000, headers=OWNER)
    assert told.status_code == 400


async def test_hits_followers_and_questions_count_as_nothing(start):
    """Twenty at once who ask the same, a cached answer, explanations: as many choices as the models were asked for them."""
    stack = await start(HALF)
    body = to("auto", HARD, temperature=0)
    await asyncio.gather(*(ask(stack, body) for _ in range(20)))
    await ask(stack, body)
    for _ in range(5):
        told = await stack.client.post("/admin/explain", json={"tenant": "acme", "body": body}, headers=OWNER)
        assert told.status_code == 200
    asked = len(posts(stack.small)) + len(posts(stack.large))
    await ask(stack, chat(HARD))
    assert await choices(stack) == asked < 5


async def test_requests_that_wait_for_a_slot_are_in_the_account(start):
    """Sixty hard ones at once, all decided before the first is answered: half of them wait for the large model, not all."""
    one = {"concurrency": {"max": 1}}
    stack = await start({**HALF, "models": {0: one, 1: one}})
    answers = await asyncio.gather(*(ask(stack, to("auto", f"{HARD} {place}")) for place in range(60)))
    tiers = [answer.headers["x-tiergate-tier"] for answer in answers]
    assert abs(tiers.count("large") - 30) <= 10


async def test_who_joins_anothers_work_leaves_the_account_alone(start):
    """After sixty who asked at once the same that must go up, what is new is cut as if it had been asked once."""
    stack = await start({**HALF, "models": {0: {"capabilities": []}}})
    release = hold(stack.small), hold(stack.large)
    joined = asyncio.gather(*(ask(stack, to("auto", HARD, temperature=0, tools=[TOOL])) for _ in range(60)))
    await stack.until(lambda: stack.gateway.parts.edge.running == 60)
    await asyncio.sleep(0.1)  # the last of them are on their way to the dispatcher
    for let in release:
        let()
    assert [answer.headers["x-tiergate-cache"] for answer in await joined].count("shared") > 30
    before = len(posts(stack.large))
    for place in range(30):
        await ask(stack, to("auto", f"{HARD} fresh {place}"))
    assert abs(len(posts(stack.large)) - before - 15) <= 7


async def test_an_override_is_no_choice_and_what_is_forced_is_a_sending(start):
    """x-tiergate-tier is the client's own word, as a model's name is; tools that only the large tier has take from the share."""
    stack = await start({**HALF, "models": {0: {"capabilities": []}, 1: {"capabilities": ["tools"]}}})
    assert await tier_of(stack, to("auto", EASY), **{"x-tiergate-tier": "large"}) == ("large", "override")
    assert await choices(stack) == 0
    for place in range(20):
        assert await tier_of(stack, to("auto", f"{EASY} {place}", tools=[TOOL])) == ("large", "capability")
    assert await choices(stack, to="dearer") == 20
    assert await tier_of(stack, to("auto", HARD)) == ("small", "score")


async def test_who_stuffs_keywords_takes_nothing_from_another_tenant(start):
    """With a target for each tenant of a plan, one that only sends what scores high gets its half, the other its own."""
    stack = await start({"plans": {"pro": {"target": {"large": 0.5}}}})
    for place in range(60):
        await ask(stack, to("auto", f"{HARD} {place}"))
    large = len(posts(stack.large))
    assert large <= 30 + 2 * 8
    for place in range(20):
        await ask(stack, to("auto", f"{HARD} {place}"), key=OTHER_KEY)
        await ask(stack, to("auto", f"{EASY} {place}"), key=OTHER_KEY)
    assert await choices(stack, tenant="globex", to="dearer") == pytest.approx(20, abs=8)
    assert await choices(stack, tenant="acme") == 60
    assert total(await scrape(stack), "tiergate_route_target", tenant="globex", target="large") == 0.5


async def test_the_limits_of_a_model_hold_whatever_the_score_is(start):
    """A tenant with two requests a minute of the large model gets two, however hard its asks look; others are answered below."""
    plans = {"pro": {"priority": "realtime", "models": {"large-model": {"rpm": 2}}}}
    stack = await start({"plans": plans, "routing": {"routes": {"auto": ALWAYS}}})
    tiers = [(await tier_of(stack, to("auto", f"{HARD} {place}")))[0] for place in range(6)]
    assert tiers == ["large", "large", "small", "small", "small", "small"]


async def test_explain_tells_the_target_the_cut_and_where_it_stands(start):
    """With the share that went up so far in the process that tells, and without changing it."""
    stack = await start({**HALF}, workers=0)
    for place in range(20):
        await ask(stack, to("auto", f"{HARD if place % 2 else EASY} {place}"))
    told = [
        (await stack.client.post("/admin/explain", json={"tenant": "acme", "body": to("auto", HARD)}, headers=OWNER)).json()
        for _ in range(3)
    ]
    assert told[0]["route"] == told[1]["route"] == told[2]["route"]
    route, target = told[0]["route"], told[0]["route"]["target"]
    assert (target["route"], target["tenant"], target["kind"], target["value"], target["seen"]) == ("auto", "", "large", 0.5, 20)
    assert target["share"] == len(posts(stack.large)) / 20
    assert (target["overall"], target["sent"]) == (target["share"], 20)
    assert (route["score"] >= route["threshold"]) == (route["tier"] == "large")
    words = text(msgspec.convert(told[0], Explanation))
    assert f"target    of auto: at most 50.0% above the cheapest tier; the cut is at {target['cut']:.4f} now" in words
    assert f"{target['share']:.1%} of its last 20 requests were to go up; {target['share']:.1%} of all 20 since" in words
    pinned = await stack.client.post("/admin/explain", json={"tenant": "acme", "body": chat()}, headers=OWNER)
    assert pinned.json()["route"]["target"] is None


async def test_a_router_that_does_not_choose_is_told_once(start, monkeypatch, caplog):
    """Of 30 open requests in a row all to one model: one line in the log, one more when that ends, and a count for each block."""
    monkeypatch.setattr("routing.onesided.BLOCK", 30)
    caplog.set_level(logging.WARNING, "tiergate.routing")
    stack = await start()

    def told():
        return [record.getMessage() for record in caplog.records if record.name == "tiergate.routing"]

    for place in range(60):
        await ask(stack, to("auto", f"{HARD} {place}"))
    assert len(told()) == 1
    assert "auto" in told()[0]
    assert "large-model" in told()[0]
    assert total(await scrape(stack), "tiergate_route_one_sided_total", route="auto") == 2
    for place in range(30):
        await ask(stack, to("auto", f"{EASY if place % 2 else HARD} {place}"))
    assert len(told()) == 2
    assert total(await scrape(stack), "tiergate_route_one_sided_total", route="auto") == 2


async def test_who_wants_one_model_is_not_told_that_it_has_one(start, monkeypatch, caplog):
    """Neither kind fixed nor a target of nothing is a router that does not choose."""
    monkeypatch.setattr("routing.onesided.BLOCK", 20)
    stack = await start({"routing": {"routes": {"never": NEVER}}})
    for place in range(25):
        await ask(stack, to("never", f"{HARD} {place}"))
    assert not [record for record in caplog.records if record.name == "tiergate.routing"]
