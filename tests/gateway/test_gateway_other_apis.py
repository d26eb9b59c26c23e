"""Limits, budgets and the cache's own words on /v1/responses and /v1/messages, as on chat."""

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest
from gateway_talk import KEY, OTHER_KEY, ask, freeze_limits, hold, lines, posts, remaining, scrape, tenant, total

from gateway.lab.fake import Options

PLENTY = 1_000_000


@dataclass(frozen=True)
class Api:
    path: str
    bound: str  # the field that says how much may be made
    error: str  # the type of a 429

    def body(self, text="[[say: hello]]", most=64, **fields) -> dict[str, Any]:
        asked = {"input": text} if "responses" in self.path else {"messages": [{"role": "user", "content": text}]}
        return {"model": "small-model", self.bound: most, **asked, **fields}


RESPONSES = Api("/v1/responses", "max_output_tokens", "tokens")
MESSAGES = Api("/v1/messages", "max_tokens", "rate_limit_error")
APIS = pytest.mark.parametrize("api", [RESPONSES, MESSAGES], ids=["responses", "messages"])
FORMS = pytest.mark.parametrize("stream", [False, True], ids=["json", "sse"])


@pytest.fixture
def limited(start):
    """A stack whose small model serves both, and whose first tenant has these limits."""

    async def made(others=(), **limits):
        models = {0: {"endpoints": ["chat", "responses", "messages"]}}
        tenants = [tenant("acme", KEY, **limits), *others]
        return await start({"models": models, "tenants": tenants}, fakes={"s1": Options(), "l1": Options()})

    return made


def told(answer):
    """The error, in whichever of the two shapes."""
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return error


@APIS
@FORMS
async def test_requests_a_minute(limited, api, stream):
    """The request above the limit is a 429 that says how long to wait, in its API's shape though a stream was asked for."""
    stack = await limited(rpm=2)
    clock = freeze_limits(stack)
    for left in (1, 0):
        answer = await ask(stack, api.body(stream=stream), path=api.path)
        assert (answer.status_code, answer.headers["x-ratelimit-remaining-requests"]) == (200, str(left))
    refused = await ask(stack, api.body(stream=stream), path=api.path)
    assert (refused.status_code, told(refused)["code"]) == (429, "rate_limit_exceeded")
    assert refused.headers["content-type"].startswith("application/json")
    assert len(posts(stack.small)) == 2
    clock.advance(int(refused.headers["retry-after-ms"]) / 1000)
    assert (await ask(stack, api.body(stream=stream), path=api.path)).status_code == 200


@APIS
async def test_tokens_a_minute(limited, api):
    """What the field of this API bounds is reserved: too much now is a 429, and the wait that it names is enough."""
    stack = await limited(tpm=200)
    clock = freeze_limits(stack)
    assert (await ask(stack, api.body("[[tokens: 60]]", 60), path=api.path)).status_code == 200
    refused = await ask(stack, api.body(most=150), path=api.path)
    assert refused.status_code == 429
    assert told(refused)["type"] == api.error
    assert "limit 200 tokens per minute" in told(refused)["message"]
    clock.advance(int(refused.headers["retry-after-ms"]) / 1000)
    assert (await ask(stack, api.body(most=150), path=api.path)).status_code == 200


@APIS
@FORMS
async def test_a_reservation_is_settled_by_what_was_used(limited, api, stream):
    """After the answer, streamed or not, the key has lost what the engine counted and no more; the log says the same."""
    stack = await limited(tpm=PLENTY)
    freeze_limits(stack)
    assert (await ask(stack, api.body("[[tokens: 20]]", 5000, stream=stream), path=api.path)).status_code == 200
    await stack.at_rest()
    call = posts(stack.small)[0]
    assert PLENTY - await remaining(stack) == call.prompt_tokens + call.tokens
    assert (await lines(stack, 1))[0]["charged_tokens"] == call.prompt_tokens + call.tokens


@APIS
@FORMS
async def test_a_broken_stream_or_a_refused_body_leaves_nothing_reserved(limited, api, stream):
    """A backend's 400 costs no tokens, a stream that breaks what was delivered: never the reservation."""
    stack = await limited(tpm=PLENTY, max_parallel=1)
    freeze_limits(stack)
    stack.small.faults.add(**({"cut_after_tokens": 3} if stream else {"status": 400, "body": "{}"}))
    await ask(stack, api.body("[[tokens: 20]]", 5000, stream=stream), path=api.path)
    await stack.at_rest()
    spent = PLENTY - await remaining(stack)
    assert (spent == 0) != stream
    assert spent < 500


@APIS
@FORMS
async def test_requests_at_once(limited, api, stream):
    """With max_parallel in use the next is a 429 of its own code; the end of one lets another in."""
    stack = await limited(max_parallel=1)
    wake = hold(stack.small)
    first = asyncio.create_task(ask(stack, api.body(stream=stream), path=api.path))
    await stack.until(lambda: len(posts(stack.small)) == 1)
    refused = await ask(stack, api.body(stream=stream), path=api.path)
    assert (refused.status_code, told(refused)["code"]) == (429, "concurrency_limit_exceeded")
    wake()
    assert (await first).status_code == 200
    assert (await ask(stack, api.body(stream=stream), path=api.path)).status_code == 200
    await stack.at_rest()


@APIS
async def test_a_budget_that_is_used_up(limited, api):
    """Told not to retry, and counted by kind."""
    stack = await limited(budget={"day": 300})
    assert (await ask(stack, api.body("[[tokens: 100]]", 150), path=api.path)).status_code == 200
    refused = await ask(stack, api.body(most=250), path=api.path)
    assert (refused.status_code, refused.headers["x-should-retry"]) == (429, "false")
    assert told(refused)["code"] == "insufficient_quota"
    assert total(await scrape(stack), "tiergate_rate_limited_total", tenant="acme", limit="tenant_daily_budget") == 1


@APIS
@FORMS
async def test_a_kept_answer_costs_a_request_and_no_tokens(limited, api, stream):
    """Served though no tokens are left, in either form; and it is the tenant's own: another asks the engine."""
    stack = await limited([tenant("globex", OTHER_KEY)], tpm=200, rpm=10)
    freeze_limits(stack)
    body = api.body("[[tokens: 100]]", 150, temperature=0)
    assert (await ask(stack, body, path=api.path)).headers["x-tiergate-cache"] == "miss"
    assert (await ask(stack, api.body("other", 150), path=api.path)).status_code == 429
    hit = await ask(stack, {**body, "stream": stream}, path=api.path)
    assert (hit.status_code, hit.headers["x-tiergate-cache"]) == (200, "exact")
    assert hit.headers["x-ratelimit-remaining-requests"] == "8"
    assert (await ask(stack, body, path=api.path, key=OTHER_KEY)).headers["x-tiergate-cache"] == "miss"
    assert len(posts(stack.small)) == 2


@APIS
async def test_what_the_cache_is_told(limited, api):
    """no-store, no-cache and only-if-cached mean what they mean on chat, and an answer is deleted by its id."""
    stack = await limited()
    body = api.body(temperature=0)

    async def asked(words):
        return await ask(stack, body, path=api.path, headers={"x-tiergate-cache": words})

    assert (await asked("only-if-cached")).status_code == 504
    assert (await asked("no-store")).status_code == 200
    assert (await asked("only-if-cached")).status_code == 504
    assert (await asked("no-cache")).status_code == 200
    kept = await asked("only-if-cached")
    assert (kept.status_code, kept.headers["x-tiergate-cache"]) == (200, "exact")
    own = {"authorization": f"Bearer {KEY}"}
    entry = kept.headers["x-tiergate-cache-id"]
    assert (await stack.client.delete(f"/v1/cache/{entry}", headers=own)).json() == {"deleted": True}
    assert (await asked("only-if-cached")).status_code == 504
    assert len(posts(stack.small)) == 2
