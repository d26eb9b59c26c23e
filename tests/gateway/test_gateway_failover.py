import inspect

import pytest
from gateway_talk import posts

from backends.client import Client
from gateway.lab.fake import FakeVLLM, Options

TWO = {"s1": Options(), "s2": Options(), "l1": Options()}


def calls(stack):
    return {name: len([c for c in fake.calls if c.method == "POST"]) for name, fake in stack.fakes.items()}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "fault", [{"status": s} for s in (429, 500, 502, 503, 504)] + [{"close_before_headers": True}, {"cut_after_tokens": 0}]
)
async def test_a_failure_before_the_first_byte_goes_to_another_replica(start, fault, stream):
    """A retryable status or a broken connection is not seen by the client while another replica is ready."""
    stack = await start({"models": {0: {"balance": {"kind": "round_robin"}}}}, fakes=dict(TWO))
    stack.fakes["s1"].faults.add(**fault)
    for _ in range(4):
        answer = await stack.chat("hi", stream=stream)
        assert answer.status_code == 200
        assert answer.headers["x-tiergate-replica"] == "s2"
    assert calls(stack)["s1"] >= 1
    assert calls(stack)["l1"] == 0
    await stack.at_rest()


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("status", [400, 413, 422])
async def test_a_backends_own_client_error_passes_as_it_is(stack, status, stream):
    """What the backend says of the request reaches the client byte for byte, and is not retried."""
    body = {"error": {"message": "no such thing", "type": "BadRequestError", "param": None, "code": status}}
    stack.small.faults.add(status=status, body=body)
    answer = await stack.chat("hi", stream=stream)
    assert answer.status_code == status
    assert answer.json() == body
    assert calls(stack) == {"s1": 1, "l1": 0}
    await stack.at_rest()


@pytest.mark.parametrize("status", [307, 401, 402, 403, 404, 405, 418, 451])
async def test_a_refusal_of_the_gateway_itself_is_the_operators_fault(stack, status):
    """A backend that refuses the gateway's key or path is a 502 that says so, never a 401 to the client."""
    stack.small.faults.add(status=status)
    answer = await stack.chat("hi")
    assert answer.status_code == 502
    assert answer.json()["error"]["code"] == "backend_misconfigured"


async def test_auto_falls_back_to_the_other_tier(stack):
    """When every replica of a tier fails, `auto` is answered by the fallback tier, and the header says so."""
    stack.small.faults.add(status=500)
    answer = await stack.chat("hi", model="auto", headers={"x-tiergate-tier": "small"})
    assert answer.status_code == 200
    assert answer.headers["x-tiergate-route"] == "fallback"
    assert answer.headers["x-tiergate-tier"] == "large"
    await stack.at_rest()


async def test_the_last_429_is_kept(stack):
    """When everything fails and a backend said 429, the client gets that answer with its retry-after."""
    stack.small.faults.add(status=429, headers={"retry-after": "7"}, body={"error": {"message": "busy"}})
    stack.large.faults.add(status=500)
    answer = await stack.chat("hi", model="auto", headers={"x-tiergate-tier": "small"})
    assert answer.status_code == 429
    assert answer.headers["retry-after"] == "7"
    assert answer.json() == {"error": {"message": "busy"}}


async def test_three_attempts_in_all(start):
    """A status that moves on is tried on three replicas and no more."""
    stack = await start(fakes={f"s{i}": Options() for i in range(1, 6)} | {"l1": Options()})
    for fake in stack.fakes.values():
        fake.faults.add(status=503)
    answer = await stack.chat("hi")
    assert answer.status_code == 502
    assert sum(calls(stack).values()) == 3
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}


async def test_two_attempts_once_a_sent_body_was_lost(start):
    """A connection that broke after the body was sent may have cost work: one more try, not two."""
    stack = await start(fakes={f"s{i}": Options() for i in range(1, 6)} | {"l1": Options()})
    for fake in stack.fakes.values():
        fake.faults.add(close_before_headers=True)
    answer = await stack.chat("hi")
    assert answer.status_code == 502
    assert len({c.headers["x-request-id"] for fake in stack.fakes.values() for c in fake.calls if c.method == "POST"}) == 1
    assert len([name for name, n in calls(stack).items() if n]) == 2


MANY = {f"s{i}": Options() for i in range(1, 6)} | {"l1": Options()}


@pytest.mark.parametrize(("after", "most"), [(0.4, 2), (0.0, 3)], ids=["later", "at once"])
@pytest.mark.parametrize("large", [False, True])
async def test_a_body_that_replicas_die_of_is_sent_to_few(start, after, most, large):
    """Over kept connections too: two attempts, and a third time only where the first may have come to one that was closed."""
    stack = await start({"models": {0: {"balance": {"kind": "round_robin"}}}}, fakes=dict(MANY))
    for number in range(10):
        assert (await stack.chat(f"warm {number}")).status_code == 200
    before = calls(stack)
    for fake in stack.fakes.values():
        fake.faults.add(
            hang_before_headers=after or False, cut_after_tokens=None if not after else 0, close_before_headers=not after
        )
    answer = await stack.chat("die", user="u" * (300_000 if large else 1))
    assert answer.status_code == 502
    sent = {name: n - before[name] for name, n in calls(stack).items() if n > before[name]}
    assert (len(sent), sum(sent.values()) <= most) == (2, True), sent
    assert (await stack.line())["attempts"] == 2
    await stack.at_rest()


async def breakers(stack):
    return [stats.breaker for stats in stack.gateway.parts.lanes["small-model"].pool.stats()]


SLOW = [(False, {"hang_before_headers": True}), (True, {"hang_before_headers": True}), (True, {"hang_before_first_token": True})]


@pytest.mark.parametrize(("stream", "fault"), SLOW, ids=["whole", "head", "first token"])
@pytest.mark.parametrize(("whose", "found"), [("client", "closed"), ("operator", "open")])
async def test_a_clients_own_deadline_says_nothing_of_a_replica(start, stream, fault, whose, found):
    """However many requests end by a time that their clients set, no breaker opens; by the operator's own they do."""
    own = whose == "client"
    stack = await start({"timeouts": {"total": "20s" if own else "100ms"}, "breaker": {"failures": 3}}, fakes=dict(TWO))
    for name in ("s1", "s2"):
        stack.fakes[name].faults.add(**fault)
    headers = {"x-tiergate-deadline-ms": "100"} if own else {}
    for number in range(8):
        answer = await stack.chat(f"hi {number}", stream=stream, temperature=1, headers=headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (504, "upstream_timeout")
    assert set(await breakers(stack)) == {found}
    await stack.at_rest()


async def test_a_hanging_backend_is_a_timeout_and_does_not_hold_others(start):
    """A replica that never answers costs its own request a 504 in time; the other model goes on."""
    stack = await start({"timeouts": {"first_token": "300ms", "total": "1s"}})
    stack.small.faults.add(hang_before_headers=True)
    for stream in (True, False):
        answer = await stack.chat("hi", stream=stream)
        assert answer.status_code == 504
        assert answer.json()["error"]["code"] == "upstream_timeout"
    assert (await stack.chat("hi", model="large-model")).status_code == 200
    await stack.at_rest()


async def test_no_replica_ready_is_a_503_that_invites_a_retry(stack):
    """With every replica of a pinned model down the answer is 503 with retry-after, at once."""
    await stack.small.stop()
    await stack.until(lambda: not stack.gateway.parts.lanes["small-model"].pool.ready())
    answer = await stack.chat("hi")
    assert answer.status_code == 503
    assert answer.json()["error"]["code"] == "no_replica_ready"
    assert "retry-after" in answer.headers


async def test_a_prompt_too_long_for_the_small_model_moves_up_once(start):
    """Under `auto` the backend's context-length 400 sends the request to the larger model instead of to the client."""
    stack = await start({"models": {0: {"context": None}}}, fakes={"s1": Options(max_model_len=64), "l1": Options()})
    answer = await stack.chat("word " * 200, model="auto", headers={"x-tiergate-tier": "small"})
    assert answer.status_code == 200
    assert answer.headers["x-tiergate-route"] == "context"
    pinned = await stack.chat("word " * 200)
    assert pinned.status_code == 400
    assert "maximum context length" in pinned.text


async def test_a_model_limit_sends_auto_to_the_other_tier(start):
    """Under `auto` a tenant that has used up the dear model's own limit is answered by the other tier; pinned it is a 429."""
    stack = await start({"plans": {"pro": {"priority": "realtime", "models": {"large-model": {"rpm": 1}}}}})
    headers = {"x-tiergate-tier": "large"}
    first = await stack.chat("hi", model="auto", headers=headers)
    second = await stack.chat("hi", model="auto", headers=headers)
    assert (first.headers["x-tiergate-tier"], second.headers["x-tiergate-tier"]) == ("large", "small")
    assert second.headers["x-tiergate-route"] == "fallback"
    pinned = await stack.chat("hi", model="large-model")
    assert pinned.status_code == 429
    assert "large-model" in pinned.json()["error"]["message"]


@pytest.mark.parametrize("status", [400, 413, 422, 429])
async def test_what_a_backend_says_of_requests_never_opens_its_breaker(stack, status):
    """However many requests a backend refuses, it stays in service."""
    stack.small.faults.add(status=status)
    for _ in range(30):
        await stack.chat("hi")
    stack.small.faults.clear()
    (replica,) = stack.gateway.parts.lanes["small-model"].pool.stats()
    assert (replica.ready, replica.breaker) == (True, "closed")
    assert (await stack.chat("hi")).headers["x-tiergate-replica"] == "s1"


def test_idle_sockets_are_dropped_before_the_backend_closes_them():
    """vLLM closes an idle connection after 5 s; the gateway's own patience is shorter."""
    assert 0 < inspect.signature(Client).parameters["idle_seconds"].default < 5


NO_ANSWERS = {
    "a proxy's page": {"body": "<html>It works!</html>", "headers": {"content-type": "text/html"}},
    "nothing": {"body": ""},
    "a list": {"body": [1, 2]},
    "half": {"body": '{"id":"x","choices":[{"index":0,"mess'},
    "packed": {"body": "\x1f\x8b\x08\x00\x00"},
}


@pytest.mark.parametrize("case", NO_ANSWERS)
async def test_a_success_without_an_answer_moves_on(start, case):
    """A 200 that carries no JSON object is a failure of its replica: another one answers, and it is charged once."""
    stack = await start({"models": {0: {"balance": {"kind": "round_robin"}}}}, fakes=dict(TWO))
    stack.fakes["s1"].faults.add(status=200, **NO_ANSWERS[case])
    for _ in range(3):
        answer = await stack.chat("hi")
        assert (answer.status_code, answer.headers["x-tiergate-replica"]) == (200, "s2")
    stack.fakes["s2"].faults.add(status=200, **NO_ANSWERS[case])
    refused = await stack.chat("hi")
    assert refused.status_code == 502
    assert refused.json()["error"]["code"] == "upstream_error"
    assert (await stack.line())["charged_tokens"] == 0
    await stack.at_rest()


async def test_retries_keep_to_the_pools_budget(start):
    """Once the budget of retries is spent, a failed attempt is the last: no second replica is asked."""
    stack = await start({"breaker": {"failures": 1000}, "models": {0: {"balance": {"kind": "round_robin"}}}}, fakes=dict(TWO))
    pool = stack.gateway.parts.lanes["small-model"].pool
    while pool.may_retry():
        pass
    stack.fakes["s1"].faults.add(status=500)
    stack.fakes["s2"].faults.add(status=500)
    before = sum(calls(stack).values())
    assert (await stack.chat("hi")).status_code == 502
    assert sum(calls(stack).values()) == before + 1


async def test_a_prompt_moves_up_one_tier_and_no_further(start):
    """When the dearer model finds the prompt too long as well, its 400 is the answer: the third tier is not asked."""
    tiers = ["small", "large", "huge"]
    async with (
        FakeVLLM(Options(max_model_len=64)) as one,
        FakeVLLM(Options(max_model_len=64)) as two,
        FakeVLLM(Options()) as three,
    ):
        fakes = (one, two, three)
        models = [
            {"name": f"{tier}-model", "tier": tier, "served_name": "fake", "replicas": [{"name": "r1", "url": fake.url}]}
            for tier, fake in zip(tiers, fakes, strict=True)
        ]
        stack = await start({"models": models, "routing": {"tiers": tiers, "fallback": {}}})
        answer = await stack.chat("word " * 100, model="auto", max_tokens=1, headers={"x-tiergate-tier": "small"})
        assert answer.status_code == 400
        assert "maximum context length" in answer.text
        assert [len(posts(fake)) for fake in fakes] == [1, 1, 0]
