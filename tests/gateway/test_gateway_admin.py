"""/admin: off without a key, closed to everybody else, and what it tells."""

import asyncio

import pytest
from gateway_talk import ADMIN_KEY, KEY, ask, chat, hold, posts

CALLS = [("GET", "/admin/status"), ("GET", "/admin/cache"), ("POST", "/admin/cache/flush"), ("DELETE", "/admin/cache/ce-0")]


async def admin(stack, path, method="GET", key=ADMIN_KEY, body=b""):
    return await ask(stack, body, method=method, path=path, key=key)


@pytest.mark.parametrize(("method", "path"), CALLS)
@pytest.mark.parametrize("key", [None, "", ADMIN_KEY, KEY])
async def test_without_a_key_in_the_config_there_is_no_admin(start, method, path, key):
    """No admin key configured: 404 to everyone, the empty key included."""
    stack = await start({"admin": {"key": ""}})
    assert (await admin(stack, path, method, key)).status_code == 404


@pytest.mark.parametrize(("method", "path"), CALLS)
@pytest.mark.parametrize("key", [None, "", "wrong", KEY, ADMIN_KEY + "x"])
async def test_a_wrong_admin_key_is_a_401(stack, method, path, key):
    """Anybody but the operator gets a 401 of the usual shape, tenants included."""
    answer = await admin(stack, path, method, key)
    assert answer.status_code == 401
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/admin", 404),
        ("GET", "/admin/nothing", 404),
        ("GET", "/admin/cache/ce-0/more", 404),
        ("POST", "/admin/status", 405),
        ("GET", "/admin/cache/flush", 405),
        ("DELETE", "/admin/cache/ce-0", 404),
        ("DELETE", "/admin/cache/..%2f..%2fx", 404),
    ],
)
async def test_an_odd_call_is_refused(stack, method, path, status):
    """Unknown calls are 404, wrong methods 405."""
    assert (await admin(stack, path, method)).status_code == status


async def test_a_path_that_only_begins_like_admin_is_nothing(stack):
    """/administrator is no admin call: 404 without asking for a key."""
    assert (await admin(stack, "/administrator", key=None)).status_code == 404


async def test_the_status_shows_pools_queues_and_replicas(start):
    """/admin/status has every model with its slots, its queue by class and each replica's state, and they move."""
    stack = await start({"models": {0: {"concurrency": {"max": 1}}}})
    wake = hold(stack.small)
    tasks = [asyncio.create_task(ask(stack, chat("a")))]
    await stack.until(lambda: posts(stack.small))
    tasks.append(asyncio.create_task(ask(stack, chat("b"), headers={"x-tiergate-priority": "batch"})))
    await stack.until(lambda: stack.gateway.parts.edge.running == 2)
    answer = await admin(stack, "/admin/status")
    assert answer.status_code == 200
    small, large = answer.json()["models"]
    assert (small["name"], large["name"]) == ("small-model", "large-model")
    assert small["slots"] == {"capacity": 1, "inflight": 1}
    assert small["queue"]["depth"] == {"realtime": 0, "standard": 0, "batch": 1}
    assert small["queue"]["bytes"] > 0
    assert small["queue"]["tokens"] > 0
    assert [(r["name"], r["up"], r["ready"], r["inflight"], r["breaker"]) for r in small["replicas"]] == [
        ("s1", True, True, 1, "closed")
    ]
    assert large["slots"]["inflight"] == 0
    assert "http://" not in answer.text
    wake()
    await asyncio.gather(*tasks)
    after = (await admin(stack, "/admin/status")).json()["models"][0]
    assert (after["slots"]["inflight"], after["queue"]["depth"]["batch"]) == (0, 0)


async def test_the_status_follows_a_replica_that_goes_down(stack):
    """A stopped replica is shown as not up and not ready, and takes its slots along."""
    await stack.small.stop()
    await stack.until(lambda: not stack.gateway.parts.lanes["small-model"].pool.ready())
    small = (await admin(stack, "/admin/status")).json()["models"][0]
    assert (small["replicas"][0]["up"], small["replicas"][0]["ready"], small["slots"]["capacity"]) == (False, False, 0)
    ready = await stack.client.get("/ready")
    assert ready.status_code == 200
    assert ready.json()["ready_replicas"] == {"small-model": 0, "large-model": 1}


async def test_ready_needs_one_ready_replica_and_health_none(stack):
    """With every replica down /ready is a 503 and /health still 200; both come back by themselves."""
    assert (await stack.client.get("/ready")).json()["ready"] is True
    for fake in stack.fakes.values():
        await fake.stop()
    stations = stack.gateway.parts.lanes.values()
    await stack.until(lambda: not any(station.pool.ready() for station in stations))
    down = await stack.client.get("/ready")
    assert (down.status_code, down.json()["ready"]) == (503, False)
    assert (await stack.client.get("/health")).status_code == 200
    await stack.small.start()
    await stack.until(lambda: any(station.pool.ready() for station in stations))
    assert (await stack.client.get("/ready")).status_code == 200
