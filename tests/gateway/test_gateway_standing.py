"""What a caller is told of its limits: where it stands, in every answer, and how long to wait, which is true."""

import asyncio
import random

import pytest
from gateway_talk import GREEDY, KEY, ask, chat, freeze_limits, hold, posts, tenant


def told_wait(answer):
    """Seconds; and what is true of every refusal that names some."""
    milliseconds = int(answer.headers["retry-after-ms"])
    assert int(answer.headers["retry-after"]) == max(1, -(-milliseconds // 1000))
    assert (milliseconds > 60_000) == (answer.headers.get("x-should-retry") == "false")
    return milliseconds / 1000


@pytest.mark.parametrize("burst", ["1s", "10s", "60s", "10m"])
@pytest.mark.parametrize("seed", range(2))
async def test_who_waits_as_told_alone_gets_in(start, burst, seed):
    """Whatever was spent before, after the wait that a refusal names the same request passes; what fits no burst is told so."""
    rng = random.Random(seed)
    limits = {"rpm": rng.choice([7, 60, 301]), "tpm": rng.choice([1200, 6000, 20_000]), "burst": burst}
    stack = await start({"tenants": [tenant("acme", KEY, **limits)], "plans": {"pro": {"models": {"small-model": {"rpm": 20}}}}})
    clock = freeze_limits(stack)
    waited = 0
    for number in range(40):
        size = rng.choice([1, 20, 400, None])
        body = chat(f"[[tokens: {rng.choice([1, 30, 300])}]] {number}", max_tokens=size)
        answer = await ask(stack, body)
        for _ in range(2):  # step 1 may ask for a wait of its own before step 2 asks for another
            if answer.status_code != 429:
                break
            clock.advance(told_wait(answer))
            waited += 1
            answer = await ask(stack, body)
        if answer.status_code == 400:
            assert answer.json()["error"]["code"] == "request_too_large"
            assert answer.headers["x-should-retry"] == "false"
            assert size is not None
            assert "retry-after" not in answer.headers
        else:
            assert answer.status_code == 200, answer.text
    assert waited > 3


ERRORS = {
    "no JSON": (400, 1, b"{", {}),
    "no messages": (400, 1, {"model": "small-model"}, {}),
    "a large body that is no JSON": (400, 1, b"{" + b" " * 100_000, {}),
    "a bad header": (400, 0, chat(), {"headers": {"x-tiergate-priority": "urgent"}}),
    "too large for ever": (400, 0, chat(max_tokens=10**6), {}),
    "a model not allowed": (403, 1, chat(model="large-model"), {}),
    "no such model": (404, 1, chat(model="no-such-model"), {}),
    "an endpoint not served": (404, 1, {"model": "small-model", "query": "a", "documents": ["b"]}, {"path": "/v1/rerank"}),
    "a body too large": (413, 0, b" " * 200_001, {}),
    "an encoding not read": (415, 0, chat(), {"headers": {"content-encoding": "br"}}),
    "a backend that refuses": (422, 1, chat("[refuse]"), {}),
    "a limit": (429, 0, chat(max_tokens=5960), {}),
    "a backend that fails": (502, 1, chat("[fail]"), {}),
    "no replica": (503, 0, chat(), {}),
    "not in the cache": (504, 0, chat(), {"headers": {"x-tiergate-cache": "only-if-cached"}}),
}
"""Status, and the requests that it costs."""


async def test_every_answer_to_a_known_caller_tells_where_it_stands(start):
    """Whole, streamed, kept or refused, by us or by the backend: the six headers are there, and they are true."""
    acme = tenant("acme", KEY, rpm=600, tpm=6000, models=["small-model"])
    stack = await start({"tenants": [acme], "server": {"port": 0, "max_body": 200_000}, "breaker": {"failures": 1000}})
    freeze_limits(stack)
    left = 600
    for body in (chat(**GREEDY), chat(**GREEDY), chat(**GREEDY, stream=True), chat("b", stream=True)):
        left -= 1
        check(await ask(stack, body), 200, left)
        await stack.until(stack.idle)
    for name, (status, cost, body, how) in ERRORS.items():
        stack.small.faults.clear()
        if name.startswith("a backend"):
            stack.small.faults.add(status=422 if status == 422 else 500, body={"error": {"message": "no"}})
        if name == "no replica":
            stack.gateway.parts.fleet.drain("small-model", "s1")
        left -= cost
        check(await ask(stack, body, **how), status, left)
        await stack.until(stack.idle)


OTHERS = {
    "the models": ("GET", "/v1/models", 200),
    "a model": ("GET", "/v1/models/small-model", 200),
    "a model that is not there": ("GET", "/v1/models/none", 404),
    "a path that is not there": ("GET", "/v1/nothing", 404),
    "a method that is not served": ("GET", "/v1/chat/completions", 405),
    "another one": ("DELETE", "/v1/models", 405),
    "feedback for nothing": ("POST", "/v1/feedback", 400),
    "an answer that is not kept": ("DELETE", "/v1/cache/none", 404),
}


@pytest.mark.parametrize("workers", [0, 2])
async def test_what_takes_no_request_tells_where_its_caller_stands(start, workers):
    """The models, and what is no request at all: the six headers are there with a key that is known, and only with one."""
    stack = await start({"tenants": [tenant("acme", KEY, rpm=600, tpm=6000, models=["small-model"])]}, workers=workers)
    for method, path, status in OTHERS.values():
        for key, known in ((KEY, True), ("wrong", False), (None, False)):
            headers = {} if key is None else {"authorization": f"Bearer {key}"}
            answer = await stack.client.request(method, path, headers=headers, json={} if method == "POST" else None)
            assert answer.status_code == (status if known or status == 405 or path == "/v1/nothing" else 401), (path, key)
            told = [name for name in NAMES if f"x-ratelimit-{name}" in answer.headers]
            assert told == (NAMES if known else []), (path, key)
            if known:
                check(answer, status, 600)


def check(answer, status, left):
    """It says everything, and says it as it is: so many requests remain."""
    assert answer.status_code == status, answer.text
    told = {name: answer.headers[f"x-ratelimit-{name}"] for name in NAMES}
    assert (told["limit-requests"], told["limit-tokens"]) == ("600", "6000")
    assert told["remaining-requests"] == str(left)
    assert seconds_of(told["reset-requests"]) == pytest.approx((600 - left) / 10, abs=0.011)
    assert seconds_of(told["reset-tokens"]) == pytest.approx((6000 - int(told["remaining-tokens"])) / 100, abs=0.011)


NAMES = [f"{what}-{of}" for what in ("limit", "remaining", "reset") for of in ("requests", "tokens")]


def seconds_of(text):
    """Of a time in OpenAI's form."""
    if text.endswith("ms"):
        return int(text[:-2]) / 1000
    minutes, _, seconds = text.rpartition("m")
    return 60 * int(minutes or 0) + float(seconds[:-1])


async def test_a_long_answer_tells_of_its_end(start):
    """What refilled while the model worked is told, with what the request did not use: as a question after it would find."""
    stack = await start({"tenants": [tenant("acme", KEY, rpm=60, tpm=1200, burst="10s")]})
    clock = freeze_limits(stack)
    for number in range(2):
        wake = hold(stack.small)
        asking = asyncio.create_task(ask(stack, chat(f"hello {number}", max_tokens=100)))
        await stack.until(lambda count=number + 1: len(posts(stack.small)) == count)
        clock.advance(2.5)
        wake()
        told = (await asking).headers
        await stack.until(stack.idle)
        left = await ask(stack, chat(model="no-such-model"))
        assert int(told["x-ratelimit-remaining-requests"]) == 10
        assert told["x-ratelimit-reset-requests"] == "0s"
        assert told["x-ratelimit-remaining-tokens"] == left.headers["x-ratelimit-remaining-tokens"]
        assert told["x-ratelimit-reset-tokens"] == left.headers["x-ratelimit-reset-tokens"]


@pytest.mark.parametrize("model", [{"rpm": 30, "burst": "6s"}, {"tpm": 300}])
async def test_a_refusal_tells_of_the_models_own_limits(start, model):
    """As the answer before it does, of requests and of tokens, whichever of the limits refused."""
    stack = await start(
        {"tenants": [tenant("acme", KEY)], "plans": {"pro": {"rpm": 600, "tpm": 600, "models": {"small-model": model}}}}
    )
    freeze_limits(stack)
    served = await ask(stack, chat("[[tokens: 100]] one", max_tokens=200))
    await stack.until(stack.idle)
    refused = await ask(stack, chat("two", max_tokens=250 if "tpm" in model else 495))
    assert (served.status_code, refused.status_code) == (200, 429)
    for name in ("limit-requests", "limit-tokens", "remaining-requests"):
        assert refused.headers[f"x-ratelimit-{name}"] == served.headers[f"x-ratelimit-{name}"]
