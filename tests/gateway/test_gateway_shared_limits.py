"""Two gateways on one server: limits are those of one gateway, whichever is asked, and outages cost no more than said."""

import asyncio
import tempfile
from pathlib import Path

import pytest
from gateway_talk import ADMIN_KEY, hold


@pytest.fixture
def server():
    """A real Redis or Valkey that a test may stop and kill."""
    pytest.importorskip("redis", reason="the extra `redis` is not installed")
    from redis_server import RedisServer, find_server

    program = find_server()
    if program is None:
        pytest.skip("neither valkey-server nor redis-server on PATH, and no package that carries one")
    with tempfile.TemporaryDirectory(prefix="tg-") as folder:  # a Unix socket's path must be short
        made = RedisServer(program, Path(folder))
        made.start()
        yield made
        made.kill()


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """The pauses of an outage, shorter."""
    pytest.importorskip("redis", reason="the extra `redis` is not installed")
    for name, seconds in (("line._RETURN", 0.05), ("line._PAUSES", (0.02, 0.2)), ("held.BEAT", 0.1)):
        monkeypatch.setattr(f"limits.redis.{name}", seconds)


def shared(server, *, tenant=None, plan=None, **limits):
    """The config of a gateway whose limits are there."""
    return {
        "redis": {"url": server.url},
        "limits": {"store": "redis", "timeout": "500ms", **limits},
        "cache": {"secret": "s", "exact": {"enabled": False}},
        "plans": {"pro": {"priority": "realtime", **(plan or {})}},
        "tenants": {0: tenant or {}},
    }


def limiter_of(stack):
    return stack.gateway.parts.limiter


async def statuses(stacks, count, **body):
    """Of so many requests, at one gateway after the other."""
    return [(await stacks[number % len(stacks)].chat(**body)).status_code for number in range(count)]


async def heard(stack):
    """The server has done all that was said to it."""
    await stack.until(stack.idle)
    await limiter_of(stack).held.beat()


async def test_requests_a_minute_are_those_of_one_gateway(start, server):
    """Six at two gateways in turn on a limit of five: the sixth is refused, and headers count for both."""
    one, two = [await start(shared(server, tenant={"rpm": 5})) for _ in range(2)]
    assert await statuses([one, two], 4) == [200] * 4
    last = await one.chat()
    assert (last.status_code, last.headers["x-ratelimit-remaining-requests"]) == (200, "0")
    refused = await two.chat()
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limit_exceeded")
    assert refused.headers["x-ratelimit-limit-requests"] == "5"
    assert 0 < int(refused.headers["retry-after-ms"]) <= 12_000
    for stack in (one, two):
        await heard(stack)
        assert limiter_of(stack).decided_alone == 0


async def test_tokens_are_settled_for_both(start, server):
    """What one request did not use is there for the next, at the other gateway."""
    one, two = [await start(shared(server, tenant={"tpm": 1000})) for _ in range(2)]
    for stack in (one, two, one, two):
        assert (await stack.chat(max_tokens=700)).status_code == 200
        await heard(stack)
    refused = await one.chat(max_tokens=2000)
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "request_too_large")


async def test_a_budget_is_that_of_one_gateway(start, server):
    """What one gateway has used of a day the other has not left; either shows it, and sets it back for both."""
    one, two = [await start(shared(server, tenant={"budget": {"day": 1000}})) for _ in range(2)]
    used = 0
    for stack in (one, two, one, two):
        answer = await stack.chat(max_tokens=700)
        used += answer.json()["usage"]["total_tokens"]
        await heard(stack)
    refused = await one.chat(max_tokens=1000 - used)
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "insufficient_quota")
    assert f"used {used}," in refused.json()["error"]["message"]
    owner = {"authorization": f"Bearer {ADMIN_KEY}"}
    for stack in (one, two):
        told = (await stack.client.get("/admin/tenants", headers=owner)).json()["tenants"][0]
        assert [budget["used"] for budget in told["budgets"]] == [used]
    assert (await two.client.post("/admin/tenants/acme/budgets/reset", headers=owner)).status_code == 200
    assert (await one.chat(max_tokens=1000 - used)).status_code == 200


async def test_parallel_slots_are_those_of_one_gateway(start, server):
    """A stream at one gateway takes the only slot of the other; when it ends, it is free there at once."""
    one, two = [await start(shared(server, tenant={"max_parallel": 1})) for _ in range(2)]
    wake = hold(one.small)
    running = asyncio.create_task(one.chat())
    await one.until(lambda: limiter_of(one).held.items() != [])
    refused = await two.chat()
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "concurrency_limit_exceeded")
    wake()
    assert (await running).status_code == 200
    await heard(one)
    assert (await two.chat()).status_code == 200


@pytest.mark.parametrize("fault", ["stopped", "killed"])
async def test_a_server_that_is_away_costs_no_request(start, server, fault):
    """Each gateway goes on with its part, says so in /ready and the metrics, and then both share again."""
    one, two = [await start(shared(server, tenant={"rpm": 8, "tpm": 100_000})) for _ in range(2)]
    for stack in (one, two):
        await heard(stack)
    assert await statuses([one, two], 2) == [200] * 2
    server.stop() if fault == "stopped" else server.kill()
    found = [await statuses([stack], 5) for stack in (one, two)]
    assert [each.count(200) for each in found] == [3, 3]
    told = (await one.client.get("/ready")).json()["limits"]
    assert told in {"redis away: timeout; local", "redis away: connection; local"}
    page = (await one.client.get("/metrics")).text
    assert 'tiergate_limits_store_state{state="ok"} 0' in page
    alone = float(next(line for line in page.splitlines() if line.startswith("tiergate_limits_decided_alone_total ")).split()[1])
    assert alone >= 8
    if fault == "stopped":
        server.resume()
    else:
        server.start()
    for stack in (one, two):
        await stack.until(lambda stack=stack: limiter_of(stack).line.up)
    assert (await one.client.get("/ready")).json()["limits"] == "redis ok"


async def test_closed_refuses_while_the_server_is_away(start, server):
    """With a 503 that says when to come back; a request of a tenant without limits is nobody's to refuse."""
    stack = await start(shared(server, tenant={"rpm": 100}, on_outage="closed"))
    assert (await stack.chat()).status_code == 200
    server.kill()
    await stack.until(lambda: not limiter_of(stack).line.up)
    refused = await stack.chat()
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "limits_away")
    assert refused.headers["retry-after"] == "1"
    await stack.until(lambda: len(stack.log.lines) == 2)
    assert stack.log.lines[-1]["outcome"] == "rejected"
    await stack.until(stack.idle)


async def test_what_a_client_left_is_given_up_on_the_server(start, server):
    """A client that goes while its request runs: its slot is free for the other gateway."""
    one, two = [await start(shared(server, tenant={"max_parallel": 1, "tpm": 100_000})) for _ in range(2)]
    wake = hold(one.small)
    running = asyncio.create_task(one.chat())
    await one.until(lambda: limiter_of(one).held.items() != [])
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await heard(one)
    wake()
    assert (await two.chat()).status_code == 200


async def test_a_killed_dispatcher_neither_frees_nor_doubles_what_is_held(start, server, how_many_workers):
    """A stream runs on; its slot is held once on the server under the next one, and at its end it has paid what it used."""
    limits = {"tpm": 4000, "max_parallel": 2}
    one, two = [await start(shared(server, tenant=limits), workers=1 + how_many_workers) for _ in range(2)]
    wake = hold(one.small)
    running = asyncio.create_task(one.chat(stream=True, max_tokens=3000))
    await one.until(lambda: limiter_of(one).held.items() != [])
    await one.until(lambda: bool(one.small.calls))
    dead = one.gateway.dispatcher.parts.owner.limiter
    for task in (dead._beating, dead.line._running, dead.line._serving):
        task.cancel()  # as if killed: nothing that it would still say is heard
    await one.gateway.replace_dispatcher()
    await one.until(lambda: limiter_of(one).held.items() != [])
    await limiter_of(one).held.beat()
    other = await two.chat(max_tokens=5)
    assert other.status_code == 200
    assert int(other.headers["x-ratelimit-remaining-tokens"]) < 1500
    wake()
    assert (await running).text.rstrip().endswith("data: [DONE]")
    await heard(one)
    answer = await two.chat(max_tokens=5)
    assert int(answer.headers["x-ratelimit-remaining-tokens"]) > 3500
    await heard(two)
    assert server.command(b"KEYS", b"*:slots") == b"*0\r\n"


async def test_a_wrong_password_is_told_and_costs_no_request(start, server):
    """In /ready, and in the log without any of it."""
    server.command(b"CONFIG", b"SET", b"requirepass", b"open-sesame")
    stack = await start(shared(server, tenant={"rpm": 100}))
    assert (await stack.chat()).status_code == 200
    assert (await stack.client.get("/ready")).json()["limits"] == "redis away: password; local"
    right = shared(server, tenant={"rpm": 100})
    right["redis"]["url"] = server.url.replace("unix://", "unix://:open-sesame@")
    stack = await start(right)
    assert (await stack.client.get("/ready")).json()["limits"] == "redis ok"
