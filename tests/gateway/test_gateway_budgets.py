"""Budgets through the whole gateway: the refusal that nobody retries, what counts, restarts, and what operators see and do."""

import asyncio
import json
from datetime import UTC, datetime

import pytest
from gateway_talk import (
    ADMIN_KEY,
    KEY,
    OTHER_KEY,
    ask,
    chat,
    digest,
    estimate_of,
    freeze_limits,
    posts,
    scrape,
    tenant,
    total,
    usage,
)

from gateway.config import ConfigError, parse
from gateway.lab.fake import Options

OWNER = {"authorization": f"Bearer {ADMIN_KEY}"}
NOON = datetime(2026, 3, 30, 12, 0, tzinfo=UTC).timestamp()


def limited(scope="tenant", **budget):
    """A config in which acme has a budget, or each tenant of its plan."""
    if scope == "plan":
        return {"plans": {"pro": {"priority": "realtime", "budget": budget}}, "tenants": [tenant("acme", KEY)]}
    return {"tenants": [tenant("acme", KEY, budget=budget), tenant("globex", OTHER_KEY)]}


class Wall:
    def __init__(self, now):
        self.now = now

    def __call__(self):
        return self.now


def turn(stack, now=NOON):
    """For budgets it is that moment."""
    wall = Wall(now)
    stack.gateway.parts.limiter.spending.wall = wall
    return wall


async def used(stack):
    """Of acme's budgets by kind and period."""
    await stack.at_rest()
    tenants = (await stack.client.get("/admin/tenants", headers=OWNER)).json()["tenants"]
    return {(one["kind"], one["period"]): one["used"] for one in tenants[0]["budgets"]}


@pytest.mark.parametrize("scope", ["tenant", "plan"])
async def test_a_budget_that_is_used_up(start, scope):
    """OpenAI's own answer for it, until midnight in UTC: told not to retry, and not told to wait for hours."""
    stack = await start(limited(scope, day=5000))
    wall = turn(stack)
    counted = 0
    for _ in range(2):
        answer = await ask(stack, chat(max_tokens=2000))
        assert answer.status_code == 200
        counted += usage(answer)["total_tokens"]
    assert (await used(stack))[scope, "day"] == counted
    refused = await ask(stack, chat(max_tokens=5000 - counted + 1))
    assert refused.status_code == 429
    error = refused.json()["error"]
    assert (error["type"], error["code"]) == ("insufficient_quota", "insufficient_quota")
    for part in (f"daily budget of {scope}", "limit 5000 tokens", f"used {counted},", "2026-03-31T00:00:00Z"):
        assert part in error["message"]
    assert refused.headers["x-should-retry"] == "false"
    assert "retry-after" not in refused.headers
    assert "retry-after-ms" not in refused.headers
    assert len(posts(stack.small)) == 2
    assert (await stack.line())["outcome"] == "limited"
    assert (await used(stack))[scope, "day"] == counted
    found = await scrape(stack)
    assert total(found, "tiergate_rate_limited_total", tenant="acme", limit=f"{scope}_daily_budget") == 1
    assert total(found, "tiergate_budget_tokens", tenant="acme", period="day") == counted
    assert total(found, "tiergate_budget_limit_tokens", tenant="acme", period="day") == 5000
    assert total(found, "tiergate_budgets_kept") == 1
    wall.now += 12 * 3600
    assert (await ask(stack, chat(max_tokens=4500))).status_code == 200


async def test_in_its_last_minute_waiting_is_told(start):
    """When the period ends within a minute, the answer says when; still nobody is to retry by itself."""
    stack = await start(limited(day=200))
    turn(stack, NOON + 12 * 3600 - 30)
    assert (await ask(stack, chat(max_tokens=20))).status_code == 200
    await used(stack)
    refused = await ask(stack, chat(max_tokens=175))
    assert (refused.status_code, refused.headers["retry-after"], refused.headers["x-should-retry"]) == (429, "30", "false")


async def test_openais_own_client_does_not_retry(start):
    """The real SDK, with its retries on, asks once and raises the error by its code."""
    openai = pytest.importorskip("openai", reason="the SDK is not installed")
    stack = await start(limited(month=0))
    client = openai.AsyncOpenAI(base_url=f"{stack.url}/v1", api_key=KEY, max_retries=3)
    with pytest.raises(openai.RateLimitError) as found:
        await client.chat.completions.create(model="small-model", messages=[{"role": "user", "content": "hello"}])
    await client.close()
    assert found.value.code == "insufficient_quota"
    assert "This budget allows nothing" in found.value.message
    await stack.at_rest()
    assert len(stack.log.lines) == 1


async def test_who_names_no_maximum_is_served_what_is_left(start):
    """With less left than the default reservation a request runs; with less than its prompt it does not."""
    stack = await start(limited(day=600))
    turn(stack)
    first = await ask(stack, chat())
    assert first.status_code == 200
    left = 600 - usage(first)["total_tokens"]
    body = chat("word " * 4 * left)
    assert estimate_of(body) > left
    assert (await ask(stack, body)).json()["error"]["code"] == "insufficient_quota"
    assert (await ask(stack, chat())).status_code == 200


async def test_a_refusal_costs_nothing_and_neither_does_a_hit(start):
    """The refused request is given back, and an answer from the cache takes nothing of a budget, also of one that is used up."""
    changes = {"tenants": [tenant("acme", KEY, rpm=100, tpm=1_000_000, budget={"day": 200})]}
    stack = await start(changes)
    turn(stack)
    freeze_limits(stack)
    body = chat(max_tokens=20, temperature=0)
    assert (await ask(stack, body)).status_code == 200
    before = await used(stack)
    refused = await ask(stack, chat(max_tokens=500))
    assert refused.status_code == 429
    assert refused.headers["x-ratelimit-remaining-requests"] == "99"
    hit = await ask(stack, body)
    assert hit.headers["x-tiergate-cache"] == "exact"
    assert await used(stack) == before


async def test_it_survives_a_restart(start, tmp_path):
    """What was used is used after the gateway was started again; the folder and its files are its owner's alone."""
    changes = {**limited(day=100_000, month=1_000_000), "limits": {"budgets": {"path": "./spent"}}}
    stack = await start(changes)
    turn(stack)
    await ask(stack, chat())
    before = await used(stack)
    assert before["tenant", "day"] > 0
    await stack.gateway.stop()
    again = await start(changes)
    turn(again)
    assert await used(again) == before
    assert (await again.client.get("/ready")).json()["budgets"] == "ok"
    folder = tmp_path / "spent"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert {path.name: path.stat().st_mode & 0o777 for path in folder.iterdir()} == {"used": 0o600, "lock": 0o600}
    assert b"acme" not in (folder / "used").read_bytes()


async def test_without_a_budget_there_is_no_file(start, tmp_path):
    """Nothing is written, shown or measured where nobody has a budget."""
    stack = await start({"limits": {"budgets": {"path": "./spent"}}})
    await ask(stack, chat())
    assert await used(stack) == {}
    await stack.gateway.stop()
    assert not (tmp_path / "spent").exists()


async def test_the_operator_sets_back(start, caplog):
    """A tenant's budgets, its plan's included, are whole again; the log says what was used; an unknown tenant is a 404."""
    changes = {**limited("plan", day=300), "tenants": [tenant("acme", KEY, budget={"month": 300})]}
    stack = await start(changes)
    turn(stack)
    await ask(stack, chat(max_tokens=100))
    before = await used(stack)
    assert before["tenant", "month"] == before["plan", "day"] > 0
    caplog.set_level("INFO", logger="tiergate")
    answer = await stack.client.post("/admin/tenants/acme/budgets/reset", headers=OWNER)
    assert answer.status_code == 200
    assert {(one["kind"], one["used"], one["remaining"]) for one in answer.json()["budgets"]} == {
        ("tenant", 0, 300),
        ("plan", 0, 300),
    }
    assert f"plan day {before['plan', 'day']} of 300" in caplog.text
    assert await used(stack) == {("tenant", "month"): 0, ("plan", "day"): 0}
    unknown = await stack.client.post("/admin/tenants/nobody/budgets/reset", headers=OWNER)
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "tenant_not_found")


async def test_five_at_once_never_pass_it(start):
    """Requests at the same moment take of the budget what it holds, and no more than one is cut down to the rest."""
    stack = await start(limited(day=1_200), fakes={"s1": Options(ttft=0.05), "l1": Options()})
    turn(stack)
    answers = await asyncio.gather(*(ask(stack, chat(str(number), max_tokens=300)) for number in range(8)))
    passed = [answer for answer in answers if answer.status_code == 200]
    assert 0 < len(passed) < 4
    assert {answer.status_code for answer in answers} == {200, 429}


@pytest.mark.parametrize(
    ("budget", "said"), [({"day": -1}, "budget.day"), ({"week": 5}, "week"), ({"month": "lots"}, "budget.month")]
)
def test_what_is_no_budget(budget, said, tmp_path):
    """A negative amount, another period, and what is no number are told with their place."""
    text = json.dumps(
        {
            "models": [{"name": "m", "tier": "t", "replicas": [{"name": "r", "url": "http://127.0.0.1:1"}]}],
            "tenants": [{"name": "a", "budget": budget, "keys": [{"id": "k", "sha256": digest(KEY)}]}],
        }
    )
    with pytest.raises(ConfigError) as found:
        parse(text, tmp_path / "config.yaml")
    assert said in str(found.value.errors[0])


async def test_explain_says_what_can_never_be(start):
    """A request that is larger than a whole budget is told so without being sent, and what is left does not matter to it."""
    stack = await start(limited(day=1000))
    question = {"tenant": "acme", "body": chat(max_tokens=900)}
    told = (await stack.client.post("/admin/explain", json=question, headers=OWNER)).json()
    assert told["refusal"] is None
    question["body"]["max_tokens"] = 1000
    told = (await stack.client.post("/admin/explain", json=question, headers=OWNER)).json()
    assert told["refusal"]["code"] == "insufficient_quota"
