"""/metrics: every family from the first scrape, counts that move as they should, labels that stay bounded."""

import asyncio
import re

import httpx
from gateway_talk import (
    GREEDY,
    KEY,
    OTHER_KEY,
    ask,
    chat,
    freeze_limits,
    hold,
    lines,
    posts,
    samples,
    scrape,
    tenant,
    total,
    wire,
)

from gateway.lab.fake import Options
from gateway.outcomes import OUTCOMES

FAMILIES = {
    "requests_total": "counter",
    "request_duration_seconds": "histogram",
    "overhead_seconds": "histogram",
    "time_to_first_token_seconds": "histogram",
    "time_per_output_token_seconds": "histogram",
    "tokens_total": "counter",
    "cache_lookups_total": "counter",
    "cache_tokens_saved_total": "counter",
    "rate_limited_total": "counter",
    "queue_depth": "gauge",
    "queue_wait_seconds": "histogram",
    "inflight_requests": "gauge",
    "replica_up": "gauge",
    "route_decisions_total": "counter",
    "prefix_tokens_total": "counter",
}


async def test_every_family_is_there_before_the_first_request(stack):
    """HELP and TYPE of each family of the contract are in the first scrape, in the text format 0.0.4."""
    answer = await stack.client.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    for name, kind in FAMILIES.items():
        assert re.search(rf"^# HELP tiergate_{name} \S", answer.text, re.MULTILINE), name
        assert f"# TYPE tiergate_{name} {kind}\n" in answer.text
    found = samples(answer.text)
    assert total(found, "tiergate_replica_up") == 2
    assert total(found, "tiergate_requests_total") == 0
    assert total(found, "process_resident_memory_bytes") > 0


async def test_a_request_moves_what_it_should(start):
    """One streamed request: one count, one duration, one TTFT, the backend's own tokens, one decision, one lookup."""
    stack = await start(fakes={"s1": Options(enable_prompt_tokens_details=True), "l1": Options()})
    await ask(stack, chat("[[tokens: 9]]", stream=True, **GREEDY))
    call, found = posts(stack.small)[0], await scrape(stack)
    where = {"model": "small-model", "tier": "small"}
    assert total(found, "tiergate_requests_total", tenant="acme", outcome="ok", **where) == 1
    for name in ("request_duration_seconds", "time_to_first_token_seconds", "time_per_output_token_seconds"):
        assert total(found, f"tiergate_{name}_count", **where) == 1
    assert total(found, "tiergate_overhead_seconds_count") == 1
    assert total(found, "tiergate_queue_wait_seconds_count", model="small-model") == 1
    assert total(found, "tiergate_tokens_total", direction="prompt") == call.prompt_tokens
    assert total(found, "tiergate_tokens_total", direction="completion") == call.tokens
    assert total(found, "tiergate_route_decisions_total", tier="small", reason="pinned") == 1
    assert total(found, "tiergate_cache_lookups_total", cache="exact", result="miss") == 1
    assert total(found, "tiergate_prefix_tokens_total", model="small-model") == call.prompt_tokens
    assert total(found, "tiergate_inflight_requests") == 0


async def test_prefix_tokens_tell_what_the_engine_had(start):
    """cached_tokens of the usage are counted as hits, the rest of the prompt as misses."""
    stack = await start(fakes={"s1": Options(enable_prompt_tokens_details=True), "l1": Options()})
    for _ in range(2):
        await ask(stack, chat("a long prompt that fills several blocks " * 20))
    cached = sum(call.cached_tokens for call in posts(stack.small))
    assert cached > 0
    found = await scrape(stack)
    assert total(found, "tiergate_prefix_tokens_total", result="hit") == cached
    assert total(found, "tiergate_prefix_tokens_total") == sum(call.prompt_tokens for call in posts(stack.small))


async def test_a_hit_saves_tokens_and_makes_none(stack):
    """A cache hit counts one lookup, its completion tokens as saved, a request, and no tokens of a backend."""
    for _ in range(3):
        await ask(stack, chat("[[tokens: 9]]", **GREEDY))
    call, found = posts(stack.small)[0], await scrape(stack)
    assert total(found, "tiergate_cache_lookups_total", result="hit") == 2
    assert total(found, "tiergate_cache_tokens_saved_total") == 2 * call.tokens
    assert total(found, "tiergate_tokens_total", direction="completion") == call.tokens
    assert total(found, "tiergate_requests_total", outcome="ok", model="small-model") == 3
    assert total(found, "tiergate_overhead_seconds_count") == 3


async def test_every_way_to_end_has_its_outcome(start):
    """Each of the eight outcomes is reached, once, and the log lines say the same."""
    changes = {
        "tenants": [tenant("acme", KEY), tenant("globex", OTHER_KEY, rpm=1)],
        "models": {0: {"concurrency": {"max": 1}}},
        "queue": {"max_requests": 1},
    }
    stack = await start(changes, fakes={"s1": Options(), "l1": Options()})
    freeze_limits(stack)
    await ask(stack, chat(), key=OTHER_KEY)  # ok
    await ask(stack, chat(), key=OTHER_KEY)  # limited
    await ask(stack, b"{")  # client_error
    stack.small.faults.add(status=500, times=1)
    await ask(stack, chat())  # upstream_error
    stack.small.faults.add(cut_after_tokens=2, times=1)
    await ask(stack, chat("[[tokens: 9]]", stream=True))  # broken_stream
    stack.small.faults.add(hang_before_headers=True, times=2)
    await ask(stack, chat(), headers={"x-tiergate-deadline-ms": "50"})  # timeout
    async with wire(stack.gateway.port) as one, wire(stack.gateway.port) as two:
        one.send(chat())
        await stack.until(lambda: len(posts(stack.small)) == 5)
        two.send(chat())
        await stack.until(lambda: stack.gateway.parts.lanes["small-model"].scheduler.queue.load.requests == 1)
        await ask(stack, chat())  # rejected
        two.leave()
        await lines(stack, 8)  # client_gone
        one.leave()
    await lines(stack, 9)
    await stack.until(stack.idle)
    found = await scrape(stack)
    counts = {outcome: total(found, "tiergate_requests_total", outcome=outcome) for outcome in OUTCOMES}
    assert counts == dict.fromkeys(OUTCOMES, 1) | {"client_gone": 2}
    for outcome in OUTCOMES:
        assert counts[outcome] == len([line for line in stack.log.lines if line["outcome"] == outcome])


async def test_gauges_rise_and_fall_with_the_work(start):
    """queue_depth by class and inflight by replica are those of the moment of the scrape."""
    stack = await start({"models": {0: {"concurrency": {"max": 2}}}})
    wake = hold(stack.small)
    tasks = [asyncio.create_task(ask(stack, chat(str(i)), headers={"x-tiergate-priority": "batch"})) for i in range(5)]
    await stack.until(lambda: stack.gateway.parts.lanes["small-model"].scheduler.queue.load.requests == 3)
    found = await scrape(stack)
    assert total(found, "tiergate_inflight_requests", model="small-model", replica="s1") == 2
    assert total(found, "tiergate_queue_depth", **{"model": "small-model", "class": "batch"}) == 3
    assert total(found, "tiergate_queue_depth") == 3
    wake()
    await asyncio.gather(*tasks)
    found = await scrape(stack)
    assert total(found, "tiergate_inflight_requests") == total(found, "tiergate_queue_depth") == 0
    assert total(found, "tiergate_queue_wait_seconds_count", **{"class": "batch"}) == 5


async def test_replica_up_follows_health(stack):
    """A stopped replica is 0, a running one 1."""
    await stack.small.stop()
    await stack.until(lambda: not stack.gateway.parts.lanes["small-model"].pool.ready())
    found = await scrape(stack)
    assert total(found, "tiergate_replica_up", replica="s1") == 0
    assert total(found, "tiergate_replica_up", replica="l1") == 1


async def test_tenants_are_bounded_to_200_and_the_rest(start):
    """The first two hundred tenants keep their names, later ones are `other`, and the first stay themselves."""
    many = [tenant(f"t{number}", f"key-{number}") for number in range(205)]
    stack = await start({"tenants": many})
    for number in (*range(205), 0, 204):
        assert (await ask(stack, b"{", key=f"key-{number}")).status_code == 400
    found = await scrape(stack)
    labels = {dict(with_)["tenant"] for name, with_ in found if name == "tiergate_requests_total"}
    assert len(labels) == 201
    assert total(found, "tiergate_requests_total", tenant="other") == 6
    assert total(found, "tiergate_requests_total", tenant="t0") == 2


async def test_clients_cannot_make_labels(stack):
    """Unknown models, tiers, priorities and paths add no label value of their own."""
    for number in range(20):
        await ask(stack, chat(model=f"made-up-{number}"))
        await ask(stack, chat(model="auto"), headers={"x-tiergate-tier": f"made-up-{number}"})
        await ask(stack, chat(), headers={"x-tiergate-priority": f"made-up-{number}"})
        await ask(stack, chat(), path=f"/v1/made-up-{number}")
        await ask(stack, chat(), key=f"made-up-{number}")
    text = (await stack.client.get("/metrics")).text
    assert "made-up" not in text
    assert len([key for key in samples(text) if key[0] == "tiergate_requests_total"]) <= 3


async def test_a_histogram_adds_up(stack):
    """Buckets are cumulative and the last one equals the count."""
    for _ in range(5):
        await ask(stack, chat())
    found = await scrape(stack)
    buckets = [
        value
        for (name, labels), value in found.items()
        if name == "tiergate_request_duration_seconds_bucket" and ("model", "small-model") in labels
    ]
    assert buckets == sorted(buckets)
    assert buckets[-1] == total(found, "tiergate_request_duration_seconds_count") == 5


async def test_metrics_may_have_a_listener_of_their_own(start, free_port):
    """server.metrics serves /metrics and /health on another port, and none of the model API."""
    stack = await start({"server": {"port": 0, "metrics": f"127.0.0.1:{free_port}"}})
    base = f"http://127.0.0.1:{free_port}"
    assert "tiergate_requests_total" in (await stack.client.get(f"{base}/metrics")).text
    assert (await stack.client.get(f"{base}/health")).status_code == 200
    answer = await stack.client.post(f"{base}/v1/chat/completions", json=chat(), headers={"authorization": f"Bearer {KEY}"})
    assert answer.status_code == 404


async def test_scrapes_and_probes_are_no_requests(stack):
    """/metrics, /health and /ready leave no line in the log and count as nothing."""
    for path in ("/metrics", "/health", "/ready"):
        assert (await stack.client.get(path)).status_code == 200
    assert stack.log.lines == []
    assert total(await scrape(stack), "tiergate_requests_total") == 0


async def test_retries_are_counted_by_their_reason(start):
    """An attempt that was made good by another replica shows in upstream_retries_total."""
    fakes = {"s1": Options(), "s2": Options(), "l1": Options()}
    stack = await start({"models": {0: {"balance": {"kind": "round_robin"}}}}, fakes=fakes)
    stack.fakes["s1"].faults.add(status=503, times=1)
    for _ in range(3):
        assert (await ask(stack, chat())).status_code == 200
    assert total(await scrape(stack), "tiergate_upstream_retries_total", model="small-model", reason="503") == 1


async def test_an_attempt_that_was_the_last_is_no_retry(start):
    """Of three attempts that fail two were retries; a model that takes over is one more."""
    stack = await start({"routing": {"fallback": {"small": "large"}}}, fakes={"s1": Options(), "s2": Options(), "l1": Options()})
    for name in ("s1", "s2"):
        stack.fakes[name].faults.add(status=503)
    assert (await stack.chat(model="small-model")).status_code == 502
    assert total(await scrape(stack), "tiergate_upstream_retries_total") == 1
    assert (await stack.chat(model="auto")).status_code == 200
    assert total(await scrape(stack), "tiergate_upstream_retries_total") == 3


async def test_waiting_in_vain_is_waiting(start):
    """A request that leaves the queue without a slot has queued so long, and has cost the gateway nothing."""
    stack = await start({"models": {0: {"concurrency": {"max": 1}}}, "queue": {"max_wait": {"realtime": "300ms"}}})
    stack.small.faults.add(hang_before_headers=True)
    blocker = asyncio.create_task(stack.chat("blocker"))
    await stack.until(lambda: len(stack.small.calls) == 1)
    answer = await stack.chat("waits")
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "queue_timeout")
    line = stack.log.lines[-1]
    assert line["queue_ms"] > line["overhead_ms"]
    assert line["queue_ms"] >= 250
    blocker.cancel()
    await asyncio.gather(blocker, return_exceptions=True)


async def test_metrics_with_a_listener_of_their_own_are_nowhere_else(start, free_port):
    """`server: {metrics: …}` takes /metrics away from the clients' listener."""
    stack = await start({"server": {"port": 0, "metrics": f"127.0.0.1:{free_port}"}})
    async with httpx.AsyncClient(trust_env=False) as client:
        assert "tiergate_requests_total" in (await client.get(f"http://127.0.0.1:{free_port}/metrics")).text
    assert (await stack.client.get("/metrics")).status_code == 404
