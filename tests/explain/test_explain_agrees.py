"""What `explain` tells is what the gateway then does: the same requests to both, answer headers and upstream bodies compared."""

import json
import random
import re

import pytest

from gateway.build import build
from gateway.endpoints import ENDPOINTS
from gateway.explain import Node, explain
from gateway.lab.fake import Options
from gateway.logs import NullLog
from gateway.prompt import TEMPLATE_BYTES

KEYS = {"acme": "tg-test-key-of-acme", "globex": "tg-test-key-of-globex"}
ENDPOINT = {endpoint.name: endpoint for endpoint in ENDPOINTS}
PROMPTS = [
    "hello",
    "Prove that there are infinitely many primes, step by step.",
    "What is the capital of France?",
    "Translate this to German: good morning",
    "请分析这段代码的时间复杂度并给出证明",
    "17 * 23",
    "lorem ipsum dolor sit amet " * 900,  # does not fit the small model's context
    "Debug this:\n```python\ndef f(x):\n    return f(x-1)\n```\nWhy does it never end?",
    "",
]
MODELS = ["auto", "auto", "auto", "gpt-4o-mini", "small-model", "large-model", "support", "nobody", "large-alias"]
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
FIELDS = [
    ("temperature", [0, 0.7]), ("seed", [7]), ("stream", [True, False]), ("max_tokens", [1, 8, 50_000, "many", None]),
    ("max_completion_tokens", [4]), ("n", [1, 2, 500]), ("tools", [[TOOL]]), ("priority", [-5]), ("cache_salt", ["mine"]),
    ("stream_options", [{"include_usage": True}]), ("user", ["u"]), ("metadata", [{"a": "b"}]),
]  # fmt: skip
HEADERS = [
    ("x-tiergate-tier", ["small", "large", "huge"]), ("x-tiergate-cache", ["no-cache", "no-store", "only-if-cached"]),
    ("x-tiergate-priority", ["realtime", "batch", "urgent"]), ("x-tiergate-session", ["s1", "s2", "s3"]),
    ("cache-control", ["no-store"]),
]  # fmt: skip
SALT = re.compile(r'("cache_salt": ?)"[0-9a-f]{32}"')
CHANGES = {
    "models": {
        0: {"capabilities": ["json_schema"], "balance": {"kind": "consistent_hash"}, "scheduling_policy": "priority",
            "adapters": [{"name": "support", "served_name": "support-lora"}]},
        1: {"capabilities": ["json_schema", "tools"]},
    },
    "routing": {"aliases": {"gpt-4o-mini": "auto", "large-alias": "large-model"}},
    "cache": {"prefix": {"isolate": "tenant"}},
    "tenants": {1: {"models": ["large*"]}},
}  # fmt: skip


def request_of(rng):
    """An endpoint, a body in one of several layouts, headers, a tenant."""
    endpoint = rng.choice(["chat"] * 6 + ["completions", "embeddings"])
    prompt = rng.choice(PROMPTS)
    given = {"chat": {"messages": [{"role": "user", "content": prompt}]}, "completions": {"prompt": prompt}}
    body = {"model": rng.choice(MODELS), **given.get(endpoint, {"input": prompt})}
    body |= {name: rng.choice(values) for name, values in FIELDS if rng.random() < (0.5 if name == "temperature" else 0.16)}
    items = list(body.items())
    rng.shuffle(items)
    layout = rng.choice([{}, {"separators": (",", ":")}, {"indent": 2}])
    headers = {name: rng.choice(values) for name, values in HEADERS if rng.random() < 0.15}
    return endpoint, json.dumps(dict(items), **layout).encode(), headers, rng.choice(["acme", "acme", "globex"])


def masked(raw):
    return SALT.sub(r'\1"***"', raw.decode("utf-8", "replace"))


async def send(stack, endpoint, body, headers, tenant):
    """The answer, and the bodies that replicas got for it."""
    for one in stack.fakes.values():
        one.app.log.clear()
    answer = await stack.client.post(
        f"/v1{ENDPOINT[endpoint].path.decode()}",
        content=body,
        headers={"authorization": f"Bearer {KEYS[tenant]}", "content-type": "application/json", **headers},
    )
    return answer, [entry.raw for one in stack.fakes.values() for entry in one.calls]


def agree(told, answer, sent):
    """One request: every claim of the explanation against what came back and what went out."""
    headers = answer.headers
    held = told.cache.exact.held if told.cache is not None else None
    if held is not None:
        assert (held.state in ("fresh", "stale")) is (headers.get("x-tiergate-cache") == "exact")
    if headers.get("x-tiergate-cache") == "exact":
        assert told.cache.lookup
        assert headers["x-tiergate-cache-id"] == told.cache.id
        assert told.live is (told.cache.verdict == "exact")
        assert held is None or int(headers["age"]) - 1 <= held.age <= int(headers["age"])
        return "exact"
    if answer.status_code >= 400 and "x-tiergate-replica" not in headers:
        error = answer.json()["error"]
        assert (told.refusal.status, told.refusal.code, told.refusal.message) == (
            answer.status_code,
            error["code"],
            error["message"],
        )
        return "not_cached" if error["code"] == "not_cached" else "refused"
    assert told.refusal is None
    reason = f"; reason={told.cache.reason.replace(' ', '-')}" if told.cache.reason else ""
    assert headers["x-tiergate-cache"] == told.cache.verdict + reason
    assert headers["x-tiergate-model"] == told.route.model == told.attempts[0].model
    assert (headers["x-tiergate-tier"], headers["x-tiergate-route"]) == (told.route.tier, told.route.reason)
    assert headers.get("x-tiergate-score") == (None if told.route.score is None else f"{told.route.score:.3f}")
    first = told.attempts[0]
    names = [replica.name for replica in first.replicas]
    assert headers["x-tiergate-replica"] == names[0] if first.ordered else headers["x-tiergate-replica"] in names
    assert [masked(raw) for raw in sent] == [told.upstream.body]
    return told.route.reason


@pytest.mark.parametrize("seed", range(3))
async def test_what_is_told_is_what_happens(start, seed):
    """Tier, route, score, cache verdict and id, replica of a session, upstream body and refusals, over many mixed requests."""
    lora = Options(lora_modules=("support-lora",), scheduling_policy="priority")
    stack = await start(CHANGES, fakes={"s1": lora, "s2": lora, "s3": lora, "l1": Options()})
    offline = build(stack.gateway.config, NullLog())
    rng = random.Random(seed)
    seen, earlier = set(), []
    for _ in range(220):
        again = earlier and rng.random() < 0.3
        endpoint, body, headers, tenant = rng.choice(earlier) if again else request_of(rng)
        earlier.append((endpoint, body, headers, tenant))
        raw_headers = [(name.encode(), value.encode()) for name, value in headers.items()]
        tellings = []
        for parts, live in ((offline, False), (stack.gateway.parts, True)):
            principal = parts.pipeline.authenticator.of_tenant(tenant)
            tellings.append(await told_by(parts, ENDPOINT[endpoint], body, principal, raw_headers, live=live))
        answer, sent = await send(stack, endpoint, body, headers, tenant)
        route = tellings[1].route
        held = route is not None and route.session is not None  # what a conversation holds only the running gateway knows
        seen |= {agree(told, answer, sent) for told in tellings[held:]}
    assert seen >= {"pinned", "score", "context", "capability", "override", "default", "refused", "exact", "not_cached"}


async def told_by(parts, *request, live=False):
    return await explain(
        Node(parts.pipeline, parts.lanes, parts.exact, parts.semantic, parts.limiter, live=live, stable=True), *request
    )


async def test_who_runs_nothing_knows_no_health(start):
    """A pool that nobody has looked at is not passed over, also beside one that needs no looking at, as a provider's."""
    stack = await start()
    offline = build(stack.gateway.config, NullLog())
    for replica in offline.lanes["small-model"].pool.replicas:
        replica.up = True
    body = b'{"model": "auto", "messages": [{"role": "user", "content": "Prove that there are infinitely many primes."}]}'
    told = await told_by(offline, ENDPOINT["chat"], body, offline.pipeline.authenticator.of_tenant("acme"))
    assert (told.route.tier, told.route.reason, told.route.loads) == ("large", "score", ())


def counters(stack):
    return [line for line in stack.gateway.parts.metrics.exposition().splitlines() if line.startswith(b"tiergate_")]


async def test_telling_changes_nothing(stack):
    """Neither a balance, nor a counter, nor the cache, nor a replica notices."""
    parts = stack.gateway.parts
    principal = parts.pipeline.authenticator.of_tenant("acme")
    before = counters(stack)
    body = json.dumps({"model": "auto", "temperature": 0, "messages": [{"role": "user", "content": "Prove it."}]}).encode()
    assert (await told_by(parts, ENDPOINT["chat"], body, principal, live=True)).refusal is None
    assert counters(stack) == before
    assert len(stack.gateway.parts.limiter.ledger) == 0
    assert (await stack.gateway.parts.exact.stats()).entries == 0
    assert stack.idle()
    assert not stack.large.calls


@pytest.mark.parametrize(
    ("plan", "fields", "refused"),
    [
        ({"tpm": 500}, {"max_tokens": 1000}, True),  # more than the burst, and asked for
        ({"tpm": 500}, {}, False),  # clamped: no maximum was named
        ({"tpm": 5000}, {"max_tokens": 1000, "n": 8}, True),
        ({"tpm": 5000, "burst": "10s"}, {"max_tokens": 1000}, True),
        ({"tpm": 500, "burst": "5m"}, {"max_tokens": 1000}, False),
        ({"models": {"large-model": {"tpm": 100}}}, {"max_tokens": 1000}, False),  # `auto` goes on to the small one
        ({"models": {"large-model": {"tpm": 100}}}, {"max_tokens": 1000, "model": "large-model"}, True),
    ],
)
async def test_what_can_never_fit_is_told(start, plan, fields, refused):
    """A request larger than a limit's whole burst, on a plan that has spent nothing; and where `auto` then goes."""
    stack = await start({"plans": {"pro": {"priority": "realtime", **plan}}})
    parts = stack.gateway.parts
    prompt = "Prove that there are infinitely many primes, step by step."
    body = json.dumps({"model": "auto", "messages": [{"role": "user", "content": prompt}], **fields}).encode()
    told = await told_by(parts, ENDPOINT["chat"], body, parts.pipeline.authenticator.of_tenant("acme"))
    answer, _ = await send(stack, "chat", body, {}, "acme")
    assert (told.refusal is not None) is refused
    if told.refusal is not None:
        assert (answer.status_code, answer.json()["error"]["code"]) == (told.refusal.status, told.refusal.code)
        assert answer.json()["error"]["message"] == told.refusal.message
    else:
        assert answer.status_code == 200
        passing = next(attempt for attempt in told.attempts if attempt.never is None)
        assert answer.headers["x-tiergate-model"] == passing.model


async def test_what_was_learned_of_a_models_prompts_is_told(start):
    """A live gateway tells what it would reserve by each model's own ratio; the tier is still chosen by the common one."""
    stack = await start()
    parts = stack.gateway.parts
    body = json.dumps({"model": "auto", "messages": [{"role": "user", "content": "hello " * 50}], "max_tokens": 9}).encode()
    acme = parts.pipeline.authenticator.of_tenant("acme")
    before = await told_by(parts, ENDPOINT["chat"], body, acme, live=True)
    for _ in range(300):
        parts.pipeline.stations["small-model"].density.learn(10_000, 5000)
    told = await told_by(parts, ENDPOINT["chat"], body, acme, live=True)
    small, large = sorted(told.attempts[:2], key=lambda attempt: attempt.model, reverse=True)
    assert (small.model, small.bytes_per_token, large.bytes_per_token) == ("small-model", pytest.approx(2.0, abs=0.1), 3.5)
    assert small.prompt_tokens == pytest.approx((len(json.dumps(json.loads(body)["messages"])) + TEMPLATE_BYTES) / 2, rel=0.05)
    assert small.reserved == small.prompt_tokens + 9
    assert large.reserved == next(attempt.reserved for attempt in before.attempts if attempt.model == large.model)
    assert told.prompt_tokens == before.prompt_tokens


async def test_who_takes_over_is_told(start):
    """When the first choice fails, the live gateway goes where the explanation's second attempt is."""
    stack = await start()
    body = json.dumps({"model": "auto", "messages": [{"role": "user", "content": "hello"}]}).encode()
    parts = stack.gateway.parts
    told = await told_by(parts, ENDPOINT["chat"], body, parts.pipeline.authenticator.of_tenant("acme"), live=True)
    assert [attempt.model for attempt in told.attempts[:2]] == ["small-model", "large-model"]
    stack.small.faults.add(status=503)
    answer, _ = await send(stack, "chat", body, {}, "acme")
    assert answer.headers["x-tiergate-model"] == told.attempts[1].model
