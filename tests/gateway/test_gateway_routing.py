"""Which model answers, and the reason, through the whole gateway: the headers and the log line say both."""

import pytest
from gateway_talk import ACME, KEY, ask, chat, lines, posts, tenant

from gateway.lab.fake import Options

HARD = (
    "Prove by induction that the algorithm terminates, derive its worst-case complexity step by step, compare it with two "
    "alternatives, and refactor the following function so that it must never allocate:\n```python\ndef f(x):\n    return x\n```"
)
EASY = "hello, thanks!"
HARD_ZH = "请逐步证明这个定理，并分析该算法的时间复杂度，设计一个更优的分布式系统架构，比较各种方案的优缺点，然后重构代码。"
EASY_ZH = "你好，谢谢！"
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
PIXEL = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

PICTURE = {"type": "image_url", "image_url": {"url": PIXEL}}


def auto(content=EASY, **fields):
    return chat(content, **{"model": "auto", **fields})


async def routed(stack, body, **headers):
    """(tier, route) of an answer, which the log line has as well."""
    answer = await ask(stack, body, headers={name.replace("_", "-"): value for name, value in headers.items()})
    assert answer.status_code == 200, answer.text
    line = stack.log.lines[-1]
    told = answer.headers["x-tiergate-tier"], answer.headers["x-tiergate-route"]
    assert (line["tier"], line["route"]) == told
    assert answer.headers["x-tiergate-model"] == line["model"] == f"{told[0]}-model"
    assert len(posts(stack.small if told[0] == "small" else stack.large)) >= 1
    return told


@pytest.mark.parametrize(
    ("content", "tier"),
    [(EASY, "small"), (HARD, "large"), (EASY_ZH, "small"), (HARD_ZH, "large")],
    ids=["easy", "hard", "易", "难"],
)
async def test_auto_chooses_by_the_score(stack, content, tier):
    """An easy ask goes small and a hard one large, in English and in Chinese, with the score and its terms told."""
    answer = await ask(stack, auto(content))
    assert (answer.headers["x-tiergate-tier"], answer.headers["x-tiergate-route"]) == (tier, "score")
    score = float(answer.headers["x-tiergate-score"])
    assert (score >= 0.5) is (tier == "large")
    line = (await lines(stack, 1))[0]
    assert line["score"] == pytest.approx(score, abs=0.001)
    assert 1 <= len(line["terms"]) <= 5
    assert (line["requested"], line["model"]) == ("auto", f"{tier}-model")


async def test_what_cannot_be_rated_goes_to_the_default_tier(stack):
    """A text that says nothing of its difficulty goes to the dearest tier as `default`, without a score."""
    answer = await ask(stack, auto("xyzzy"))
    assert (answer.headers["x-tiergate-tier"], answer.headers["x-tiergate-route"]) == ("large", "default")
    assert "x-tiergate-score" not in answer.headers


async def test_the_default_tier_and_the_threshold_are_the_operators(start):
    """routing.classifier sets where the unknown goes and from which score a request goes up."""
    stack = await start({"routing": {"classifier": {"default_tier": "small", "threshold": 1.0}}})
    assert await routed(stack, auto("xyzzy")) == ("small", "default")
    assert await routed(stack, auto(HARD)) == ("small", "score")


@pytest.mark.parametrize("tier", ["small", "large"])
async def test_the_fixed_classifier_never_looks(start, tier):
    """kind: fixed sends every open request to its tier, as `default` and without a score."""
    stack = await start({"routing": {"classifier": {"kind": "fixed", "tier": tier}}})
    for content in (EASY, HARD):
        assert await routed(stack, auto(content)) == (tier, "default")
    assert stack.log.lines[-1]["score"] is None


async def test_the_override_header_obeys(stack):
    """x-tiergate-tier wins over the score under auto, and is not passed on."""
    assert await routed(stack, auto(HARD), x_tiergate_tier="small") == ("small", "override")
    assert await routed(stack, auto(EASY), x_tiergate_tier="large") == ("large", "override")
    assert not [name for call in posts(stack.large) for name in call.headers if name.startswith("x-tiergate")]


@pytest.mark.parametrize("tier", ["huge", "Small", "small,large", "x" * 300])
async def test_an_unknown_tier_is_a_400(stack, tier):
    """A tier that does not exist is refused by name."""
    answer = await ask(stack, auto(), headers={"x-tiergate-tier": tier})
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "unknown_tier"
    assert answer.json()["error"]["param"] == "x-tiergate-tier"
    assert len(answer.text) < 1000


async def test_an_override_cannot_ask_for_what_a_model_lacks(start):
    """The override yields to a capability that its tier is known to lack, and the reason says so."""
    stack = await start({"models": {0: {"capabilities": ["json_schema"]}}})
    assert await routed(stack, auto(tools=[TOOL]), x_tiergate_tier="small") == ("large", "capability")


@pytest.mark.parametrize(
    ("need", "fields"),
    [
        ("tools", {"tools": [TOOL]}),
        ("vision", {"messages": [{"role": "user", "content": [{"type": "text", "text": EASY}, PICTURE]}]}),
        ("json_schema", {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}}),
        ("reasoning", {"reasoning_effort": "high"}),
    ],
)  # fmt: skip
async def test_auto_keeps_away_from_models_that_lack_a_capability(start, need, fields):
    """A request that needs something goes to the tier that has it; known to lack is avoided, unknown is not."""
    rest = sorted({"tools", "vision", "json_schema", "reasoning"} - {need})
    stack = await start({"models": {0: {"capabilities": rest}}})
    assert await routed(stack, {**auto(EASY), **fields}) == ("large", "capability")
    assert await routed(stack, auto(EASY)) == ("small", "score")
    pinned = await ask(stack, {**chat(EASY), **fields})
    assert (pinned.status_code, pinned.headers["x-tiergate-model"]) == (200, "small-model")


async def test_auto_sends_a_long_prompt_where_it_fits(stack):
    """A prompt with its output past the small context goes to the large model before anything is sent."""
    assert await routed(stack, auto("word " * 5000)) == ("large", "context")
    assert await routed(stack, auto(EASY, max_tokens=4090)) == ("large", "context")
    assert posts(stack.small) == []


async def test_a_pinned_model_is_taken_as_it_is(stack):
    """A named model answers whatever the request looks like, as `pinned`, with no score and the tier header ignored."""
    assert await routed(stack, chat(HARD)) == ("small", "pinned")
    assert await routed(stack, chat(HARD), x_tiergate_tier="large") == ("small", "pinned")
    assert stack.log.lines[-1]["score"] is None


async def test_aliases_stand_for_auto_and_for_models(start):
    """An alias is resolved before anything is decided; the log keeps what was asked for."""
    stack = await start({"routing": {"aliases": {"gpt-4o-mini": "auto", "gpt-4o": "large-model"}}})
    assert await routed(stack, auto(EASY, model="gpt-4o-mini")) == ("small", "score")
    assert await routed(stack, auto(EASY, model="gpt-4o")) == ("large", "pinned")
    assert [line["requested"] for line in stack.log.lines] == ["gpt-4o-mini", "gpt-4o"]
    assert [call.body["model"] for call in (*posts(stack.small), *posts(stack.large))] == ["fake", "fake"]


async def test_an_adapter_is_a_model_of_its_pool(start):
    """A LoRA adapter is called by its own name, goes upstream by its served name, and answers as itself."""
    adapters = [{"name": "support/v1", "served_name": "support"}]
    fakes = {"s1": Options(lora_modules=("support",)), "l1": Options()}
    stack = await start({"models": {0: {"adapters": adapters}}}, fakes=fakes)
    answer = await ask(stack, chat(model="support/v1"))
    assert answer.status_code == 200
    assert answer.headers["x-tiergate-model"] == "support/v1"
    assert posts(stack.small)[0].body["model"] == "support"
    listed = await ask(stack, b"", method="GET", path="/v1/models/support%2Fv1")
    assert (listed.json()["id"], listed.json()["parent"]) == ("support/v1", "small-model")


async def test_the_newest_human_ask_is_what_is_judged(stack):
    """Blocks that a harness put in, the system prompt and tool schemas do not drive the tier."""
    block = f"<system-reminder>\n{HARD}\n</system-reminder>\n{EASY}"
    assert await routed(stack, auto(block)) == ("small", "score")
    messages = [{"role": "system", "content": HARD}, {"role": "user", "content": EASY}]
    assert await routed(stack, {**auto(), "messages": messages}) == ("small", "score")


async def test_a_yes_is_as_hard_as_what_it_agrees_to(stack):
    """Approval of a complex plan is judged by the plan, not by its three letters."""
    messages = [
        {"role": "user", "content": HARD},
        {"role": "assistant", "content": "1. Prove termination.\n2. Derive the complexity.\n3. Refactor. Shall I go on?"},
        {"role": "user", "content": "yes"},
    ]
    assert (await routed(stack, {**auto(), "messages": messages}))[0] == "large"


async def test_the_fallback_says_so(start):
    """When a whole tier fails under auto the other one answers as `fallback`; a pinned model falls back only to its own list."""
    stack = await start({"models": {1: {"fallback": ["small-model"]}}})
    stack.small.faults.add(status=500)
    assert await routed(stack, auto(EASY)) == ("large", "fallback")
    assert (await ask(stack, chat(EASY))).status_code == 502
    stack.small.faults.clear()
    stack.large.faults.add(status=500)
    assert await routed(stack, chat(EASY, model="large-model")) == ("small", "fallback")


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (chat(model="no-such"), 404, "model_not_found"),
        (chat(model="x" * 513), 400, "missing_model"),
        (chat(model=""), 400, "missing_model"),
        (chat(model=7), 400, "missing_model"),
        ({"messages": []}, 400, "missing_model"),
    ],
)
async def test_a_model_that_is_none_is_refused(stack, body, status, code):
    """Unknown and malformed names are refused with `param: model`."""
    answer = await ask(stack, body)
    assert (answer.status_code, answer.json()["error"]["code"], answer.json()["error"]["param"]) == (status, code, "model")


async def test_an_endpoint_that_a_model_does_not_serve_is_a_404_of_ours(stack):
    """Endpoints are an allow-list per model: nothing is passed on that the config does not name."""
    answer = await ask(stack, {"model": "large-model", "input": "x"}, path="/v1/embeddings")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "endpoint_not_served")
    for path in ("/v1/responses", "/v1/files", "/v1/chat", "/v2/chat/completions", "/metrics/x"):
        assert (await ask(stack, chat(), path=path)).status_code == 404
    assert posts(stack.large) == posts(stack.small) == []


async def test_auto_serves_embeddings_from_those_that_do(stack):
    """`auto` on /v1/embeddings considers only models that serve it."""
    answer = await ask(stack, {"model": "auto", "input": "x"}, path="/v1/embeddings")
    assert answer.status_code == 200
    assert (answer.headers["x-tiergate-model"], answer.headers["x-tiergate-route"]) == ("small-model", "default")


@pytest.mark.parametrize(
    "path",
    [
        "/chat/completions",
        "/v1/chat/completions/",
        "/v1/chat/completions?api-version=1",
        "/openai/v1/chat/completions",
        "/openai/deployments/small-model/chat/completions?api-version=2024-02-01",
    ],
)
async def test_the_other_forms_of_the_path(stack, path):
    """Without /v1, with a trailing slash, with a query, and Azure's forms are the same call."""
    body = chat() if "deployments" not in path else chat(model=None)
    answer = await ask(stack, body, path=path)
    assert (answer.status_code, answer.headers["x-tiergate-model"]) == (200, "small-model")


async def test_a_session_stays_on_its_replica(start):
    """With consistent_hash one session's requests go to one replica, and the same name of another tenant is another session."""
    fakes = {name: Options() for name in ("s1", "s2", "s3", "s4", "l1")}
    stack = await start({"models": {0: {"balance": {"kind": "consistent_hash"}}}, "tenants": [ACME]}, fakes=fakes)
    seen = set()
    for number in range(8):
        session = {"x-tiergate-session": f"s-{number}"}
        replicas = {(await ask(stack, chat(), headers=session)).headers["x-tiergate-replica"] for _ in range(3)}
        assert len(replicas) == 1
        seen |= replicas
    assert len(seen) > 1
    assert (await ask(stack, chat(), headers={"x-tiergate-session": "x" * 257})).status_code == 400


async def test_v1_models_lists_what_the_key_may_call(start):
    """auto, aliases, models and adapters of the key, as JSON with stable `created` and the context; ids may hold slashes."""
    changes = {
        "routing": {"aliases": {"org/gpt-4o": "large-model"}},
        "tenants": [tenant("acme", KEY, models=["auto", "org/*", "large-model"])],
    }
    stack = await start(changes)
    answer = await ask(stack, b"", method="GET", path="/v1/models")
    assert answer.headers["content-type"] == "application/json"
    listed = {model["id"]: model for model in answer.json()["data"]}
    assert set(listed) == {"auto", "org/gpt-4o", "large-model"}
    assert listed["large-model"]["max_model_len"] == 32768
    again = (await ask(stack, b"", method="GET", path="/models/")).json()["data"]
    assert [model["created"] for model in again] == [model["created"] for model in answer.json()["data"]]
    for path in ("/v1/models/org/gpt-4o", "/v1/models/org%2Fgpt-4o"):
        assert (await ask(stack, b"", method="GET", path=path)).json()["id"] == "org/gpt-4o"
    assert (await ask(stack, b"", method="GET", path="/v1/models/small-model")).status_code == 404
