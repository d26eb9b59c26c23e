"""Who would wait too long is told at once, through the whole gateway; SDKs' own timeouts; and what operators see of it."""

import asyncio
import json
import math

import openai
import pytest
from gateway_talk import ADMIN_KEY, GREEDY, KEY, OTHER_KEY, ask, chat, hold, lines, posts, queued, scrape, station, total, wire
from held import held

from gateway.cli import main
from gateway.job import patience_of

SDK_WAIT = "x-stainless-read-timeout"


async def test_a_wait_that_would_be_too_long_is_refused_at_once(start):
    """503 wait_too_long with a time to come back, nothing upstream, the request given back; counted and logged as rejected."""
    line = await held(start, {"plans": {"pro": {"priority": "realtime", "rpm": 4}}})
    await line.add("first in line")
    refused = await ask(line.stack, chat("too late", max_tokens=100))
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "wait_too_long")
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert 1 <= int(refused.headers["retry-after-ms"]) <= 60_000
    assert "x-should-retry" not in refused.headers
    assert refused.headers["x-ratelimit-remaining-requests"] == "2"
    assert (await lines(line.stack, 1))[0]["outcome"] == "rejected"
    assert await line.over() == [200, 200]
    assert [call.body["messages"][0]["content"] for call in posts(line.stack.small)] == ["blocker", "first in line"]
    found = await scrape(line.stack)
    where = {"model": "small-model", "class": "realtime", "reason": "wait_too_long"}
    assert total(found, "tiergate_queue_refusals_total", **where) == 1


async def test_a_tenants_own_flood_is_a_429(start):
    """Who has most of what waits is told that it is its own; another tenant gets in."""
    line = await held(start, {"queue": {"max_wait": {"realtime": "50s"}}})
    for number in range(2):
        await line.add(f"a{number}")
    await line.add("g0", key=OTHER_KEY)
    refused = await ask(line.stack, chat("too many", max_tokens=100))
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "wait_too_long")
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert await line.over() == [200] * 4


@pytest.mark.parametrize("fields", [{}, GREEDY], ids=["alone", "cacheable"])
async def test_a_clients_deadline_counts_too(start, fields):
    """Who would get a slot in some twenty seconds is refused when its client gives it ten, whether or not others may join it."""
    line = await held(start, {"queue": {"max_wait": {"realtime": "1h"}}})
    await line.add("first in line")
    await line.add("second in line", headers={"x-tiergate-deadline-ms": "29000"})
    body = chat("hurried", max_tokens=100, **fields)
    for headers in ({"x-tiergate-deadline-ms": "10000"}, {SDK_WAIT: "10.0"}):
        refused = await ask(line.stack, body, headers=headers)
        assert refused.json()["error"]["code"] == "wait_too_long"
        told = await admin(line.stack, "POST", "/admin/explain", json={"tenant": "acme", "body": body, "headers": headers})
        assert (told["attempts"][0]["queue"]["refused"], told["attempts"][0]["queue"]["max_wait"] <= 10.0) == (True, True)
    assert queued(line.stack) == 2
    assert await line.over() == [200] * 3


async def test_it_can_be_turned_off(start):
    """With `refuse_early: false` whoever finds room waits."""
    line = await held(start, {"queue": {"max_wait": {"realtime": "20s"}, "refuse_early": False}})
    for number in range(4):
        await line.add(f"a{number}")
    assert await line.over() == [200] * 5


@pytest.mark.parametrize("name", [SDK_WAIT, "x-stainless-timeout"])
async def test_an_sdks_own_timeout_ends_the_wait_before_its_client_goes(start, name):
    """A queued request is answered before the SDK gives up, and is never sent to a replica."""
    line = await held(start)
    async with asyncio.timeout(0.95):
        late = await ask(line.stack, chat("late"), headers={name: "1"})
    assert (late.status_code, late.json()["error"]["code"]) == (503, "queue_timeout")
    assert 1 <= int(late.headers["retry-after"]) <= 60
    assert await line.over() == [200]


async def test_an_sdks_own_timeout_does_not_cut_an_answer(start):
    """Once it has a slot the header does nothing; nor does it go upstream."""
    stack = await start()
    wake = hold(stack.small)
    asked = asyncio.create_task(ask(stack, chat(), headers={SDK_WAIT: "0.25"}))
    await stack.until(lambda: posts(stack.small))
    await asyncio.sleep(0.4)
    wake()
    assert (await asked).status_code == 200
    assert not [name for name in posts(stack.small)[0].headers if "stainless" in name.lower()]


async def test_what_is_no_timeout_says_nothing(start):
    """A header that the SDK would not have sent is no mistake of the client's, and no limit."""
    line = await held(start)
    async with wire(line.stack.gateway.port) as one:
        one.send(chat("patient", max_tokens=1), headers={SDK_WAIT: "0.0", "x-stainless-timeout": "nan"})
        await line.stack.until(lambda: queued(line.stack) == 1)
        line.wake()
        assert (await one.answer()).status_code == 200
    assert await line.over() == [200]


NO_TIMEOUTS = [
    b"",
    b".",
    b"nan",
    b"inf",
    b"-1",
    b"0",
    b"1e-9",
    b"1_0",
    b"+1",
    b"0x1",
    b"soon",
    b"1.2.3",
    b"9" * 400,
    b"\xb2",
    b" 1",
]


@pytest.mark.parametrize("value", NO_TIMEOUTS)
def test_what_is_no_number_of_seconds_is_no_timeout(value):
    """Whatever it is, nothing is raised and nothing bounded."""
    assert patience_of(value) == math.inf


@pytest.mark.parametrize(
    ("value", "seconds"),
    [(b"600", 600.0), (b"0.5", 0.5), (b"600.0", 600.0), (b".5", 0.5), (b"86400", 86400.0)],
)
def test_timeouts_of_sdks_are_read(value, seconds):
    """As openai-python and openai-node write them."""
    assert patience_of(value) == seconds


async def test_the_openai_sdk_hears_why(start):
    """With the SDK's own timeout it gets our 503 and its code rather than its own timeout error."""
    line = await held(start)
    async with openai.AsyncOpenAI(base_url=f"{line.stack.url}/v1", api_key=KEY, max_retries=0, timeout=1.5) as sdk:
        with pytest.raises(openai.InternalServerError) as late:
            await sdk.chat.completions.create(model="small-model", messages=[{"role": "user", "content": "late"}])
    assert (late.value.status_code, late.value.code) == (503, "queue_timeout")
    assert await line.over() == [200]


async def test_refused_clients_are_not_told_the_same_time(start):
    """Each of a refused crowd is told a time of its own."""
    line = await held(start)
    await line.add("first in line")
    refused = await asyncio.gather(*(ask(line.stack, chat("too late", max_tokens=100)) for _ in range(30)))
    assert {answer.status_code for answer in refused} == {503}
    assert len({answer.headers["retry-after-ms"] for answer in refused}) > 20
    assert len({answer.headers["retry-after"] for answer in refused}) >= 3
    assert await line.over() == [200] * 2


async def admin(stack, method, path, **how):
    answer = await stack.client.request(method, path, headers={"authorization": f"Bearer {ADMIN_KEY}"}, **how)
    assert answer.status_code == 200
    return answer.json()


async def test_operators_see_queues_and_waits(start):
    """`/admin/queues` and the gauge tell who waits where, what each was served, and how long it takes."""
    line = await held(start, {"queue": {"max_wait": {"realtime": "1h"}}})
    await line.add("a0")
    await line.add("a1")
    await line.add("g0", key=OTHER_KEY)
    queue = (await admin(line.stack, "GET", "/admin/queues"))["models"][0]
    assert (queue["name"], queue["slots"]) == ("small-model", {"capacity": 1, "inflight": 1})
    waiting = queue["classes"]["realtime"]
    assert waiting["waiting"] == 3
    assert {one["tenant"]: (one["waiting"], one["running"]) for one in waiting["tenants"]} == {"acme": (2, 1), "globex": (1, 0)}
    assert waiting["expected_wait"] > 10
    assert queue["classes"]["batch"] == {"waiting": 0, "expected_wait": 0.0, "tenants": []}
    found = await scrape(line.stack)
    shown = total(found, "tiergate_expected_wait_seconds", **{"model": "small-model", "class": "realtime"})
    assert shown == pytest.approx(waiting["expected_wait"], rel=0.2)
    assert await line.over() == [200] * 4


async def test_a_live_explanation_shows_balances_class_counter_and_wait(start):
    """What is left of every limit, what runs, the slots, the tenant's place, and whether it would be refused."""
    plan = {"priority": "realtime", "rpm": 4, "tpm": 100_000, "max_parallel": 8, "weight": 2, "budget": {"day": 5000}}
    line = await held(start, {"plans": {"pro": plan}})
    await line.add("first in line")
    told = await admin(line.stack, "POST", "/admin/explain", json={"tenant": "acme", "body": chat("hi", max_tokens=100)})
    first = told["attempts"][0]
    (limit,) = first["limits"]
    assert limit["balance"]["requests_remaining"] == 2
    assert limit["balance"]["tokens_remaining"] < 100_000
    assert limit["balance"]["tokens_reset"] > 0
    assert limit["balance"]["parallel"] == 2
    assert told["limits_store"] == "memory"
    assert [(one["period"], one["limit"]) for one in told["budgets"]] == [("day", 5000)]
    assert told["budgets"][0]["used"] > 0
    queue = first["queue"]
    assert (told["priority"], told["weight"]) == ("realtime", 2)
    assert (queue["capacity"], queue["inflight"], queue["waiting"], queue["running"]) == (1, 1, 1, 1)
    assert queue["depth"] == {"realtime": 1, "standard": 0, "batch": 0}
    assert queue["expected_wait"] > 10
    assert queue["max_wait"] == 20.0
    assert queue["refused"]
    assert queue["served"] >= 0
    before = station(line.stack).scheduler.queue.load.requests
    assert before == 1
    assert await line.over() == [200] * 2


@pytest.mark.parametrize("as_json", [False, True])
async def test_the_command_line_asks_the_running_gateway(start, monkeypatch, capsys, tmp_path, as_json):
    """`tiergate explain --url` shows balances, counter and expected wait; without it it says plainly that it knows none."""
    line = await held(start, {"plans": {"pro": {"priority": "realtime", "rpm": 4}}})
    config = tmp_path / "small.yaml"
    config.write_text("models: [{name: small-model, tier: small, replicas: [{name: s1, url: 'http://127.0.0.1:1/v1'}]}]\n"
                      "tenants: [{name: acme}]\n")  # fmt: skip
    monkeypatch.setenv("TIERGATE_ADMIN_KEY", ADMIN_KEY)
    words = ["explain", "hi", "--model", "small-model", "--config", str(config), *(["--json"] if as_json else [])]
    assert await asyncio.to_thread(main, [*words, "--url", line.stack.url]) == 0
    told = capsys.readouterr().out
    if as_json:
        assert json.loads(told)["attempts"][0]["queue"]["expected_wait"] == 0.0
    else:
        assert "now: 3 requests" in told
        assert "slots: 1 of 1 in use" in told
        assert "expected wait about 0.0 s, at most 20.0 s" in told
        assert await asyncio.to_thread(main, words) == 0
        assert "not known: this asks no running gateway" in capsys.readouterr().out
    assert await line.over() == [200]
