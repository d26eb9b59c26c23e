"""Rate limits through the whole gateway: every scope, the honesty of the figures, and what each ending is charged."""

import asyncio
import math

import pytest
from gateway_talk import (
    ACME,
    GREEDY,
    KEY,
    OTHER_KEY,
    ask,
    chat,
    digest,
    encoded,
    estimate_of,
    freeze_limits,
    hold,
    lines,
    posts,
    queued,
    remaining,
    scrape,
    tenant,
    total,
    usage,
    wire,
)

from gateway.lab.fake import Options
from gateway.prompt import TEMPLATE_BYTES
from gateway.wire import parse

PLENTY = 1_000_000


def limited(scope, **limits):
    """A config in which one scope of acme's has these limits."""
    if scope == "key":
        return {"tenants": [tenant("acme", KEY, key=limits)]}
    if scope == "tenant":
        return {"tenants": [tenant("acme", KEY, **limits)]}
    if scope == "plan":
        return {"plans": {"pro": {"priority": "realtime", **limits}}, "tenants": [ACME]}
    return {"plans": {"pro": {"priority": "realtime", "models": {"small-model": limits}}}, "tenants": [ACME]}


SCOPES = pytest.mark.parametrize("scope", ["key", "tenant", "plan", "model"])


def wait_of(answer):
    """The seconds that a refusal names, in the exact header."""
    return int(answer.headers["retry-after-ms"]) / 1000


@SCOPES
async def test_requests_a_minute(start, scope):
    """After rpm requests the next is a 429 that names limit and wait; after that wait it gets in, a moment sooner it does not."""
    stack = await start(limited(scope, rpm=3))
    clock = freeze_limits(stack)
    for left in (2, 1, 0):
        answer = await ask(stack, chat())
        assert answer.status_code == 200
        if scope != "model":
            assert answer.headers["x-ratelimit-limit-requests"] == "3"
            assert answer.headers["x-ratelimit-remaining-requests"] == str(left)
    refused = await ask(stack, chat())
    assert refused.status_code == 429
    error = refused.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["code"], error["type"]) == ("rate_limit_exceeded", "requests")
    assert "limit 3 requests per minute" in error["message"]
    assert "try again in 20.001s" in error["message"]
    assert wait_of(refused) == pytest.approx(20, abs=0.01)
    assert refused.headers["retry-after"] == str(math.ceil(wait_of(refused)))
    assert "x-should-retry" not in refused.headers
    clock.advance(wait_of(refused) - 0.1)
    assert (await ask(stack, chat())).status_code == 429
    clock.advance(0.1)
    assert (await ask(stack, chat())).status_code == 200
    assert (await ask(stack, chat())).status_code == 429
    kind = "model_requests" if scope == "model" else f"{scope}_requests"
    assert total(await scrape(stack), "tiergate_rate_limited_total", tenant="acme", limit=kind) == 3
    assert {line["outcome"] for line in stack.log.lines} == {"ok", "limited"}


@SCOPES
async def test_tokens_a_minute(start, scope):
    """When a reservation does not fit the answer is a 429 for tokens, and the wait that it names is enough."""
    stack = await start(limited(scope, tpm=100))
    clock = freeze_limits(stack)
    body = chat("[[tokens: 20]]", max_tokens=20)
    assert (await ask(stack, body)).status_code == 200
    refused = await ask(stack, {**body, "max_tokens": 60})
    assert refused.status_code == 429
    assert refused.json()["error"]["type"] == "tokens"
    assert "limit 100 tokens per minute" in refused.json()["error"]["message"]
    assert 0 < wait_of(refused) < 60
    clock.advance(wait_of(refused))
    assert (await ask(stack, {**body, "max_tokens": 60})).status_code == 200


@SCOPES
async def test_requests_at_once(start, scope):
    """With max_parallel in use the next is a 429 of its own code, and the end of one lets another in."""
    stack = await start(limited(scope, max_parallel=2))
    wake = hold(stack.small)
    tasks = [asyncio.create_task(ask(stack, chat())) for _ in range(2)]
    await stack.until(lambda: len(posts(stack.small)) == 2)
    refused = await ask(stack, chat())
    assert refused.status_code == 429
    assert refused.json()["error"]["code"] == "concurrency_limit_exceeded"
    assert "limit 2 parallel requests" in refused.json()["error"]["message"]
    assert int(refused.headers["retry-after"]) >= 1
    wake()
    assert {answer.status_code for answer in await asyncio.gather(*tasks)} == {200}
    assert (await ask(stack, chat())).status_code == 200
    await stack.at_rest()


@SCOPES
async def test_a_burst_is_spent_at_once_and_refills_at_the_limits_pace(start, scope):
    """Ten seconds of 12 a minute are two requests; the headers keep the limit a minute, and a third comes after five seconds."""
    stack = await start(limited(scope, rpm=12, burst="10s"))
    clock = freeze_limits(stack)
    for left in (1, 0):
        answer = await ask(stack, chat())
        assert answer.status_code == 200
        if scope != "model":
            assert answer.headers["x-ratelimit-limit-requests"] == "12"
            assert answer.headers["x-ratelimit-remaining-requests"] == str(left)
    refused = await ask(stack, chat())
    assert refused.status_code == 429
    assert "limit 12 requests per minute and 2 at once, used 2, requested 1" in refused.json()["error"]["message"]
    if scope != "model":
        assert refused.headers["x-ratelimit-reset-requests"] == "10s"
    assert wait_of(refused) == pytest.approx(5, abs=0.01)
    clock.advance(wait_of(refused))
    assert (await ask(stack, chat())).status_code == 200


@pytest.mark.parametrize(("burst", "at_once"), [("1s", 100), ("30s", 3000), ("10m", 60_000)])
async def test_tokens_at_once_are_the_bursts(start, burst, at_once):
    """What remains is what can be spent now; more than that can never pass, and what names no maximum is cut down to it."""
    stack = await start(limited("tenant", tpm=6000, burst=burst), fakes={"s1": Options(tokens=10), "l1": Options()})
    freeze_limits(stack)
    never = await ask(stack, chat(max_tokens=at_once))
    assert (never.status_code, never.json()["error"]["code"]) == (400, "request_too_large")
    assert never.headers["x-should-retry"] == "false"
    assert never.headers["x-ratelimit-remaining-tokens"] == str(at_once)
    answer = await ask(stack, chat())
    assert answer.status_code == 200
    assert answer.headers["x-ratelimit-limit-tokens"] == "6000"
    assert answer.headers["x-ratelimit-remaining-tokens"] == str(at_once - usage(answer)["total_tokens"])


async def test_a_models_limit_leaves_the_other_models_alone(start):
    """The plan's limit of one model refuses that model only."""
    stack = await start(limited("model", rpm=1))
    freeze_limits(stack)
    statuses = [(await ask(stack, chat(model=name))).status_code for name in ("small-model", "small-model", "large-model")]
    assert statuses == [200, 429, 200]


async def test_tenants_have_limits_of_their_own(start):
    """One tenant's use of a plan costs another tenant of the same plan nothing."""
    stack = await start({"plans": {"pro": {"rpm": 1}}})
    freeze_limits(stack)
    statuses = [(await ask(stack, chat(), key=key)).status_code for key in (KEY, KEY, OTHER_KEY, OTHER_KEY)]
    assert statuses == [200, 429, 200, 429]


async def test_the_keys_of_a_tenant_share_its_limit(start):
    """The tenant's limit counts all its keys, a key's own limit only itself."""
    acme = tenant("acme", KEY, rpm=2, key={"rpm": 1})
    acme["keys"].append({"id": "k2", "sha256": digest("second")})
    stack = await start({"tenants": [acme]})
    freeze_limits(stack)
    statuses = [(await ask(stack, chat(), key=key)).status_code for key in (KEY, KEY, "second", "second")]
    assert statuses == [200, 429, 200, 429]


async def test_a_refusal_by_one_scope_costs_the_others_nothing(start):
    """All or nothing: what the key's limit refuses is not counted on the tenant."""
    acme = tenant("acme", KEY, rpm=10, key={"rpm": 1})
    acme["keys"].append({"id": "k2", "sha256": digest("second")})
    stack = await start({"tenants": [acme]})
    freeze_limits(stack)
    for _ in range(5):
        await ask(stack, chat())
    answer = await ask(stack, chat(), key="second")
    assert answer.headers["x-ratelimit-remaining-requests"] == "8"


async def test_five_at_once_admit_what_the_reservation_rule_admits(start):
    """A hundred tokens a minute and five requests at once: no more get in than have their reservations covered."""
    stack = await start(limited("tenant", tpm=100))
    freeze_limits(stack)
    body = chat("hello", max_tokens=10)
    need = estimate_of(body) + 10
    wake = hold(stack.small)
    tasks = [asyncio.create_task(ask(stack, body)) for _ in range(5)]
    await stack.until(lambda: sum(task.done() for task in tasks) + len(posts(stack.small)) == 5)
    wake()
    statuses = [answer.status_code for answer in await asyncio.gather(*tasks)]
    admitted = statuses.count(200)
    assert admitted == 100 // need
    assert statuses.count(429) == 5 - admitted
    spent = sum(call.prompt_tokens + call.tokens for call in posts(stack.small))
    assert spent <= 100


async def test_a_request_without_max_tokens_fits_a_small_limit(start):
    """The default reservation is clamped to the burst: the first request passes although 1,024 is more than the limit."""
    stack = await start(limited("tenant", tpm=100), fakes={"s1": Options(tokens=10), "l1": Options()})
    freeze_limits(stack)
    answer = await ask(stack, chat())
    assert answer.status_code == 200
    assert answer.headers["x-ratelimit-limit-tokens"] == "100"
    assert answer.headers["x-ratelimit-remaining-tokens"] == str(100 - usage(answer)["total_tokens"])


@pytest.mark.parametrize(
    "fields",
    [
        {"max_tokens": 1000},
        {"max_completion_tokens": 1000},
        {"max_tokens": 1, "max_completion_tokens": 738},
        {"max_tokens": 10, "n": 20},
    ],
    ids=str,
)
async def test_what_can_never_fit_is_a_400(start, fields):
    """More than the whole burst is not a 429: no waiting helps, and the client is told not to retry."""
    stack = await start(limited("tenant", tpm=60 + 40))
    answer = await ask(stack, chat(**fields))
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "request_too_large"
    assert answer.headers["x-should-retry"] == "false"
    assert "retry-after" not in answer.headers
    assert posts(stack.small) == []
    assert answer.headers["x-ratelimit-remaining-tokens"] == "100"


@pytest.mark.parametrize(
    ("fields", "choices", "most"),
    [
        ({"max_tokens": 100}, 1, 100),
        ({"max_tokens": 1, "max_completion_tokens": 300}, 1, 300),
        ({"max_tokens": 100, "n": 3}, 3, 100),
        ({}, 1, 1024),
        ({"n": 2}, 2, 1024),
        ({"max_tokens": 100, "best_of": 4}, 4, 100),
        ({"max_tokens": 100, "n": 2, "best_of": 3}, 3, 100),
    ],
    ids=str,
)
async def test_the_reservation_is_the_prompt_and_the_most_that_may_come(start, fields, choices, most):
    """While a request runs its tenant is down by the prompt's estimate and n × the larger of its two maxima, or 1,024."""
    stack = await start(limited("tenant", tpm=PLENTY))
    freeze_limits(stack)
    wake = hold(stack.small)
    body = chat("hello", **fields)
    task = asyncio.create_task(ask(stack, body))
    await stack.until(lambda: posts(stack.small))
    held = PLENTY - await remaining(stack)
    wake()
    await task
    assert held == estimate_of(body) + choices * most


def test_a_negative_maximum_is_none():
    """To some engines -1 is endless: it bounds nothing. 0 is a value."""
    assert parse(b'{"model": "m", "max_tokens": -1}').maximum("max_tokens") is None
    assert parse(b'{"model": "m", "max_tokens": 0}').maximum("max_tokens") == 0


@pytest.mark.parametrize("fields", [{"max_completion_tokens": 0}, {"max_completion_tokens": 900_000}, {}], ids=str)
async def test_a_bound_that_no_engine_heeds_bounds_nothing(start, fields):
    """On /v1/completions `max_completion_tokens` is no field of the engines': the default is reserved."""
    stack = await start(limited("tenant", tpm=PLENTY))
    freeze_limits(stack)
    wake = hold(stack.small)
    body = {"model": "small-model", "prompt": "hello", **fields}
    task = asyncio.create_task(ask(stack, body, path="/v1/completions"))
    await stack.until(lambda: posts(stack.small))
    held = PLENTY - await remaining(stack)
    wake()
    await task
    assert held == estimate_of(body) + 1024


STEERING = {
    "metadata": {f"k{number}": "v" * 500 for number in range(16)},
    "logit_bias": {str(token): 1 for token in range(1000)},
    "response_format": {
        "type": "json_schema",
        "json_schema": {"name": "x", "schema": {"type": "object", "description": "d" * 5000}},
    },
}


@pytest.mark.parametrize("field", STEERING)
async def test_what_the_model_does_not_read_is_not_reserved(start, field):
    """Legal labels, biases and schemas of many kilobytes beside a short prompt fit a limit that the prompt and its answer fit."""
    stack = await start(limited("tenant", tpm=estimate_of(chat("hi")) + 5))
    freeze_limits(stack)
    assert (await ask(stack, chat("hi", max_tokens=5, **{field: STEERING[field]}))).status_code == 200


async def test_what_the_model_does_not_read_teaches_nothing(start):
    """Traffic with long schemas and labels leaves the ratio where the prompts alone put it: here, too short, nowhere."""
    stack = await start(limited("tenant", tpm=PLENTY))
    freeze_limits(stack)
    await asyncio.gather(*(ask(stack, chat("hi", max_tokens=1, **STEERING)) for _ in range(40)))
    assert total(await scrape(stack), "tiergate_prompt_evidence_total") == 0
    held, _ = await held_by(stack, chat("the quick fox " * 300, max_tokens=1))
    assert held == estimate_of(chat("the quick fox " * 300)) + 1


async def held_by(stack, body):
    """What a request reserves, and what its backend then counts in its prompt."""
    before, wake, fake = await remaining(stack), hold(stack.small), stack.small
    known = len(posts(fake))
    task = asyncio.create_task(ask(stack, body))
    await stack.until(lambda: len(posts(fake)) > known)
    held = before - await remaining(stack)
    wake()
    assert (await task).status_code == 200
    await stack.until(stack.idle)
    return held, posts(fake)[-1].prompt_tokens


async def test_bytes_per_token_are_learned_from_what_the_backend_counts(start):
    """Text that takes eight bytes of JSON a token reserves twice too much at first, and nearly what it is after some requests."""
    stack = await start(limited("tenant", tpm=PLENTY))
    freeze_limits(stack)
    body = chat("\u4f60" * 1200, max_tokens=1)
    held, counted = await held_by(stack, body)
    assert held > 2 * counted
    for _ in range(20):
        await asyncio.gather(*(ask(stack, body) for _ in range(8)))
    held, counted = await held_by(stack, body)
    assert counted < held < 1.25 * counted
    found = await scrape(stack)
    assert total(found, "tiergate_bytes_per_token", model="small-model") == pytest.approx(
        min(8, (len(encoded(body["messages"])) + TEMPLATE_BYTES) / counted)
    )
    assert total(found, "tiergate_bytes_per_token", model="large-model") == 0


@pytest.mark.parametrize(
    ("body", "path"),
    [
        (
            chat(
                [{"type": "text", "text": "x" * 999}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]
            ),
            None,
        ),
        ({"model": "small-model", "prompt": list(range(999)), "max_tokens": 1}, "/v1/completions"),
        (chat("hi"), None),
    ],
    ids=["an image", "token ids", "tiny"],
)
async def test_what_is_not_text_teaches_nothing(start, body, path):
    """Images, ready token ids and tiny prompts leave the ratio as it was."""
    stack = await start()
    assert (await ask(stack, body, **({"path": path} if path else {}))).status_code == 200
    assert total(await scrape(stack), "tiergate_prompt_evidence_total") == 0


async def test_a_request_refused_for_slots_burns_no_request(start):
    """rpm 2 and one slot: A runs, B is refused, A ends, C is admitted."""
    stack = await start(limited("tenant", rpm=2, max_parallel=1))
    freeze_limits(stack)
    wake = hold(stack.small)
    running = asyncio.create_task(ask(stack, chat("a")))
    await stack.until(lambda: posts(stack.small))
    assert (await ask(stack, chat("b"))).status_code == 429
    wake()
    assert (await running).status_code == 200
    assert (await ask(stack, chat("c"))).status_code == 200
    refused = await ask(stack, chat("d"))
    assert refused.json()["error"]["type"] == "requests"


async def test_a_request_refused_for_tokens_burns_no_request(start):
    """A refusal by the token bucket gives the request back."""
    stack = await start(limited("tenant", rpm=5, tpm=100))
    freeze_limits(stack)
    assert (await ask(stack, chat(max_tokens=30))).status_code == 200
    refusals = [await ask(stack, chat(max_tokens=60)) for _ in range(6)]
    assert {answer.status_code for answer in refusals} == {429}
    assert {answer.json()["error"]["type"] for answer in refusals} == {"tokens"}
    assert {answer.headers["x-ratelimit-remaining-requests"] for answer in refusals} == {"4"}


async def test_a_request_refused_by_the_queue_burns_no_request(start):
    """A full queue gives request and tokens back."""
    stack = await start(
        {**limited("tenant", rpm=10, tpm=PLENTY), "models": {0: {"concurrency": {"max": 1}}}, "queue": {"max_requests": 1}}
    )
    freeze_limits(stack)
    wake = hold(stack.small)
    tasks = [asyncio.create_task(ask(stack, chat("a")))]
    await stack.until(lambda: posts(stack.small))
    tasks.append(asyncio.create_task(ask(stack, chat("b"))))
    await stack.until(lambda: queued(stack) == 1)
    before = await remaining(stack)
    refused = await ask(stack, chat("c"))
    assert refused.status_code == 503
    assert refused.headers["x-ratelimit-remaining-requests"] == "7"  # two that run or wait, and the one that asked what is left
    assert await remaining(stack) == before
    wake()
    await asyncio.gather(*tasks)


@pytest.mark.parametrize("stream", [False, True], ids=["json", "sse"])
async def test_a_client_that_leaves_gives_its_slot_back(start, stream):
    """max_parallel 1: a client aborts, and the next request gets in."""
    stack = await start(limited("tenant", max_parallel=1), fakes={"s1": Options(itl=0.01), "l1": Options()})
    for _ in range(3):
        async with wire(stack.gateway.port) as one:
            one.send(chat("[[tokens: 500]]", stream=stream))
            await stack.until(lambda: posts(stack.small) and posts(stack.small)[-1].ended_at is None)
            if stream:
                await one.head()
                await one.piece()
            assert (await ask(stack, chat())).status_code == 429
        await stack.until(stack.idle)
    assert (await ask(stack, chat("[[tokens: 2]]"))).status_code == 200


@pytest.mark.parametrize("stream", [False, True], ids=["json", "sse"])
async def test_debt_is_carried(start, stream):
    """After ten times the limit in one answer the next request waits until the debt is refilled, and is told how long."""
    stack = await start(limited("tenant", tpm=100), fakes={"s1": Options(tokens=1000), "l1": Options()})
    clock = freeze_limits(stack)
    assert (await ask(stack, chat(stream=stream))).status_code == 200
    call = posts(stack.small)[0]
    debt = call.prompt_tokens + call.tokens - 100
    assert debt > 800
    refused = await ask(stack, chat(max_tokens=5))
    assert refused.status_code == 429
    assert refused.headers["x-ratelimit-remaining-tokens"] == "0"
    assert refused.headers["x-should-retry"] == "false"  # ten minutes are past what a client waits for
    need = estimate_of(chat(max_tokens=5)) + 5
    assert wait_of(refused) == pytest.approx((debt + need) * 0.6, abs=0.01)
    clock.advance(wait_of(refused))
    assert (await ask(stack, chat(max_tokens=5))).status_code == 200


async def test_a_hit_is_never_refused_for_tokens(start):
    """With no tokens left a kept answer is still served; it costs a request and no tokens."""
    stack = await start(limited("tenant", tpm=100, rpm=10), fakes={"s1": Options(tokens=200), "l1": Options()})
    freeze_limits(stack)
    await ask(stack, chat(**GREEDY))
    assert (await ask(stack, chat("other", **GREEDY))).status_code == 429
    hit = await ask(stack, chat(**GREEDY))
    assert (hit.status_code, hit.headers["x-tiergate-cache"]) == (200, "exact")
    assert hit.headers["x-ratelimit-remaining-tokens"] == "0"
    assert hit.headers["x-ratelimit-remaining-requests"] == "8"


# -- the settlement table


async def charged(start, *, stream=False, fault=None, options=None, body=None, leave=None):
    """One request under a large limit, to its end; (tokens charged, the fake's record, the log line, estimate of the prompt)."""
    stack = await start(limited("tenant", tpm=PLENTY), fakes={"s1": options or Options(), "l1": Options()})
    freeze_limits(stack)
    if fault:
        stack.small.faults.add(**fault)
    body = body or chat("[[tokens: 20]]", stream=stream, max_tokens=30)
    async with wire(stack.gateway.port) as one:
        one.send(body)
        if leave is None:
            await one.answer()
        elif leave == "first":
            await stack.until(lambda: posts(stack.small))
        else:
            await one.head()
            for _ in range(leave):
                await one.piece()
    await stack.until(stack.idle)
    line = (await lines(stack, 1))[0]
    spent = PLENTY - await remaining(stack)
    assert line["charged_tokens"] == spent
    call = posts(stack.small)[0]
    return spent, call, line, estimate_of(body)


BOTH = pytest.mark.parametrize("stream", [False, True], ids=["json", "sse"])


@BOTH
async def test_a_complete_answer_costs_its_usage(start, stream):
    """Complete, with usage: the usage."""
    spent, call, line, _ = await charged(start, stream=stream)
    assert spent == call.prompt_tokens + call.tokens == line["prompt_tokens"] + line["completion_tokens"]


async def test_a_complete_stream_without_usage_costs_the_estimate_and_its_deltas(start):
    """A stream whose usage never came: the prompt's estimate and the deltas that were counted."""
    spent, call, _, estimate = await charged(start, stream=True, fault={"usage_missing": True})
    assert spent == estimate + call.tokens - 1  # the token that ends a reply says nothing, so its delta is none


async def test_a_complete_answer_without_usage_costs_the_reservation(start):
    """An unstreamed answer without usage: what was generated is unknown, so the reservation stays."""
    spent, _, _, estimate = await charged(start, fault={"usage_missing": True})
    assert spent == estimate + 30


@BOTH
@pytest.mark.parametrize(
    "fault",
    [{"status": 500}, {"status": 429}, {"close_before_headers": True}, {"status": 503, "headers": {"retry-after": "1"}}],
    ids=str,
)
async def test_a_failure_before_any_byte_costs_nothing(start, fault, stream):
    """Failed upstream before the first byte: nothing."""
    spent, _, line, _ = await charged(start, stream=stream, fault=fault)
    assert spent == 0
    assert line["outcome"] in ("upstream_error", "limited")


@BOTH
@pytest.mark.parametrize("status", [400, 413, 422])
async def test_an_error_answer_costs_nothing(start, status, stream):
    """The backend's own refusal, however long its text: nothing."""
    spent, _, _, _ = await charged(start, stream=stream, fault={"status": status, "body": {"error": {"message": "x" * 5000}}})
    assert spent == 0


async def test_an_error_before_the_first_token_of_a_stream_costs_nothing(start):
    """HTTP 200 with an error event at once is a failure, and its text is no output."""
    spent, _, _, _ = await charged(start, stream=True, fault={"error_in_stream": 0})
    assert spent == 0


@pytest.mark.parametrize("fault", [{"cut_after_tokens": 5}, {"error_in_stream": 5}], ids=str)
async def test_a_broken_stream_costs_what_was_delivered(start, fault):
    """Cut or ended by an error after five tokens: the prompt's estimate and five."""
    spent, _, line, estimate = await charged(start, stream=True, fault=fault)
    assert spent == estimate + 5
    assert line["outcome"] == "broken_stream"


async def test_leaving_a_stream_costs_what_was_delivered(start):
    """Left in mid-stream: the prompt's estimate and the tokens that had come, not the whole reservation."""
    body = chat("[[tokens: 500]]", stream=True, max_tokens=600)
    spent, call, line, estimate = await charged(start, options=Options(itl=0.01), body=body, leave=5)
    assert call.aborted
    assert estimate + 4 <= spent <= estimate + call.tokens < estimate + 500
    assert line["outcome"] == "client_gone"


async def test_leaving_a_stream_costs_no_more_for_what_the_model_did_not_read(start):
    """Left before the first token: long labels, biases and schemas are no part of what is charged."""
    body = chat("hi", stream=True, max_tokens=30, **STEERING)
    spent, _, _, _ = await charged(start, fault={"hang_before_first_token": True}, body=body, leave="first")
    assert spent == estimate_of(chat("hi"))


async def test_leaving_a_stream_before_its_first_token_costs_the_prompt(start):
    """Left before the first token: the prefill was done, so the prompt's estimate."""
    spent, _, _, estimate = await charged(start, stream=True, fault={"hang_before_first_token": True}, leave="first")
    assert spent == estimate


async def test_leaving_an_unstreamed_request_costs_the_reservation(start):
    """Left unstreamed in a replica: what was generated is unknown, so the reservation."""
    spent, _, _, estimate = await charged(start, fault={"hang_before_first_token": True}, leave="first")
    assert spent == estimate + 30


async def test_leaving_the_queue_costs_nothing(start):
    """Never sent to a replica: nothing."""
    stack = await start({**limited("tenant", tpm=PLENTY), "models": {0: {"concurrency": {"max": 1}}}})
    freeze_limits(stack)
    wake = hold(stack.small)
    running = asyncio.create_task(ask(stack, chat(max_tokens=20)))
    await stack.until(lambda: posts(stack.small))
    before = await remaining(stack)
    async with wire(stack.gateway.port) as one:
        one.send(chat("other", max_tokens=500))
        await stack.until(lambda: queued(stack) == 1)
        assert await remaining(stack) < before
    await stack.until(lambda: queued(stack) == 0)
    assert await remaining(stack) == before
    wake()
    await running


async def test_embeddings_reserve_their_input_and_cost_their_usage(start):
    """An embedding reserves no output, and is settled to the tokens that the backend counted."""
    stack = await start(limited("tenant", tpm=60))
    freeze_limits(stack)
    answer = await ask(stack, {"model": "small-model", "input": "one two three"}, path="/v1/embeddings")
    assert answer.status_code == 200
    assert answer.headers["x-ratelimit-remaining-tokens"] == str(60 - answer.json()["usage"]["total_tokens"])


async def test_many_prompts_reserve_for_each(start):
    """/v1/completions with a list of prompts reserves the output of every one."""
    stack = await start(limited("tenant", tpm=500))
    body = {"model": "small-model", "prompt": ["a", "b", "c"], "max_tokens": 100}
    assert (await ask(stack, body, path="/v1/completions")).status_code == 200
    answer = await ask(stack, {**body, "prompt": ["a"] * 5}, path="/v1/completions")
    assert answer.json()["error"]["code"] == "request_too_large"


async def test_headers_are_there_on_a_refusal_and_on_a_stream(start):
    """The x-ratelimit family is on 200, 429 and streams, with resets in OpenAI's form."""
    stack = await start(limited("tenant", rpm=60, tpm=6000))
    freeze_limits(stack)
    for answer in (await ask(stack, chat()), await ask(stack, chat(stream=True)), await ask(stack, chat(max_tokens=5950))):
        for name in ("requests", "tokens"):
            assert answer.headers[f"x-ratelimit-limit-{name}"] in ("60", "6000")
            assert int(answer.headers[f"x-ratelimit-remaining-{name}"]) >= 0
            assert answer.headers[f"x-ratelimit-reset-{name}"].endswith("s")


async def test_the_tightest_scope_is_told(start):
    """Of several scopes the headers show the one with the least left."""
    stack = await start({"plans": {"pro": {"rpm": 100}}, "tenants": [tenant("acme", KEY, rpm=50, key={"rpm": 7})]})
    freeze_limits(stack)
    answer = await ask(stack, chat())
    assert answer.headers["x-ratelimit-limit-requests"] == "7"
    assert answer.headers["x-ratelimit-remaining-requests"] == "6"


async def test_an_unlimited_tenant_has_no_rate_headers(stack):
    """Where nothing is limited no figure is made up."""
    answer = await ask(stack, chat())
    assert not [name for name in answer.headers if name.startswith("x-ratelimit")]
