"""Rerank, score, tokenize and detokenize: where they go, what they cost, who may not."""

import pytest

KEY = "tg-test-key-of-acme"
ALL = ["chat", "embeddings", "rerank", "score", "tokenize"]
TEXTS = {"query": "red fish", "documents": ["blue bird", "red fish", "a red house"]}


@pytest.fixture
async def gateway(start):
    """The small model serves all of them, the large one only chat; a minute's tokens are few enough to see what is paid."""
    return await start({"models": {0: {"endpoints": ALL}}, "tenants": {0: {"tpm": 100_000}}})


async def post(gateway, path, **body):
    return await gateway.client.post(path, json={"model": "small-model", **body}, headers={"authorization": f"Bearer {KEY}"})


@pytest.mark.parametrize("path", ["/v1/rerank", "/rerank", "/v2/rerank", "/v1/rerank/", "/openai/deployments/small-model/rerank"])
async def test_rerank(gateway, path):
    """In every form of the path: forwarded below /v1, and settled by the prompt tokens that the answer counts."""
    answer = await post(gateway, path, **TEXTS, top_n=2)
    assert answer.status_code == 200
    assert [result["index"] for result in answer.json()["results"]] == [1, 2]
    line = await gateway.line()
    assert (line["endpoint"], line["outcome"], line["completion_tokens"]) == ("rerank", "ok", 0)
    assert line["charged_tokens"] == line["prompt_tokens"] == answer.json()["usage"]["total_tokens"] > 0
    assert gateway.small.calls[-1].path == "/v1/rerank"
    await gateway.at_rest()


async def test_a_reranker_that_tells_the_total_alone(gateway):
    """Some backends count `total_tokens` and nothing else: that is what is paid."""
    body = {"results": [], "usage": {"total_tokens": 77}}
    gateway.small.faults.add(status=200, body=body, times=1)
    await post(gateway, "/v1/rerank", **TEXTS)
    line = await gateway.line()
    assert (line["prompt_tokens"], line["charged_tokens"]) == (77, 77)


@pytest.mark.parametrize("path", ["/v1/score", "/score"])
async def test_score(gateway, path):
    """One text against many, settled by its usage."""
    answer = await post(gateway, path, text_1="red fish", text_2=["red fish", "blue bird"])
    first, second = [item["score"] for item in answer.json()["data"]]
    assert first > second
    line = await gateway.line()
    assert (line["endpoint"], line["charged_tokens"]) == ("score", answer.json()["usage"]["total_tokens"])
    assert gateway.small.calls[-1].path == "/v1/score"


async def test_engine_fields(start):
    """vLLM's pooling endpoints read `cache_salt` and `priority`; its tokenizer reads neither, and a tenant's own are deleted."""
    models = {0: {"endpoints": ALL, "scheduling_policy": "priority"}}
    gateway = await start({"models": models, "cache": {"prefix": {"isolate": "tenant"}}})
    await post(gateway, "/v1/score", text_1="a", text_2="b", priority=-5, cache_salt="mine")
    sent = gateway.small.log[-1].body
    assert len(sent["cache_salt"]) == 32
    assert sent["priority"] == 0
    await post(gateway, "/tokenize", prompt="a", priority=-5, cache_salt="mine", request_id="x")
    assert gateway.small.log[-1].body == {"model": "fake", "prompt": "a"}


@pytest.mark.parametrize("path", ["/tokenize", "/v1/tokenize", "/tokenize/"])
async def test_tokenize_and_back(gateway, path):
    """At the root of the engine, beside its /v1; costs a request and no tokens; the text comes back."""
    answer = await post(gateway, path, prompt="hello there")
    assert answer.status_code == 200
    assert gateway.small.log[-1].path == "/tokenize"
    line = await gateway.line()
    assert (line["endpoint"], line["charged_tokens"], line["prompt_tokens"]) == ("tokenize", 0, 0)
    back = await post(gateway, path.replace("tokenize", "detokenize"), tokens=answer.json()["tokens"])
    assert back.json() == {"prompt": "hello there"}
    assert gateway.small.log[-1].path == "/detokenize"
    assert (await gateway.line())["endpoint"] == "detokenize"


async def test_tokenizing_is_free_whatever_the_answer_says(gateway):
    """A backend that counts tokens for it changes nothing."""
    gateway.small.faults.add(status=200, body={"tokens": [1], "usage": {"prompt_tokens": 50, "completion_tokens": 0}}, times=1)
    assert (await post(gateway, "/tokenize", prompt="x")).status_code == 200
    assert (await gateway.line())["charged_tokens"] == 0


async def test_tokenizing_more_than_a_minute_holds(start):
    """Counting the tokens of a prompt that is too long is what it is for: no token limit stands in the way, requests count."""
    gateway = await start({"models": {0: {"endpoints": ALL}}, "tenants": {0: {"tpm": 10, "rpm": 2}}})
    for _ in range(2):
        assert (await post(gateway, "/tokenize", prompt="word " * 1000)).status_code == 200
    assert (await post(gateway, "/tokenize", prompt="x")).json()["error"]["code"] == "rate_limit_exceeded"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/rerank", TEXTS),
        ("/score", {"text_1": "a", "text_2": "b"}),
        ("/tokenize", {"prompt": "a"}),
        ("/detokenize", {"tokens": []}),
    ],
)
async def test_who_may_not(gateway, path, body):
    """A model that does not list it: a 404 of ours, unsent. No key: 401. Another method: 405."""
    answer = await post(gateway, path, **body, model="large-model")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "endpoint_not_served")
    assert not [entry for entry in gateway.large.log if entry.method == "POST"]
    assert (await gateway.client.post(path, json=body)).status_code == 401
    assert (await gateway.client.get(path)).status_code == 405
    assert (await post(gateway, path, **body, model="auto")).headers["x-tiergate-model"] == "small-model"


async def test_a_backend_that_is_not_at_v1(start):
    """A replica whose URL has another path keeps it: only a /v1 at its end is left away for the root."""
    gateway = await start({"models": {0: {"endpoints": ALL}}})
    replica = gateway.gateway.parts.lanes["small-model"].pool.replicas[0]
    assert (replica.path, replica.root) == ("/v1", "")


async def test_embeddings_are_kept_by_their_encoding(gateway):
    """base64 and floats of the same text are two answers in the exact cache, each with its own bytes."""
    told = {}
    for form in ("base64", "float"):
        for expected in ("miss", "exact"):
            answer = await post(gateway, "/v1/embeddings", input="text", encoding_format=form)
            assert answer.headers["x-tiergate-cache"] == expected
            told.setdefault(form, answer.content)
            assert answer.content == told[form]
    assert told["base64"] != told["float"]
    assert (await post(gateway, "/v1/embeddings", input="text")).headers["x-tiergate-cache"] == "miss"
