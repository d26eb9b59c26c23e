"""What a backend does not have: a clear 501 that nobody retries, and that costs neither tokens nor a replica."""

import openai
import pytest
from gateway_talk import KEY, ask, posts, station, tenant

from gateway.lab.fake import Options

OPERATIONS = {
    "/v1/responses": {"input": "hi"},
    "/v1/messages": {"max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]},
    "/v1/messages/count_tokens": {"messages": [{"role": "user", "content": "hi"}]},
    "/v1/embeddings": {"input": "hi"},
    "/v1/rerank": {"query": "a", "documents": ["b"]},
    "/v1/score": {"text_1": "a", "text_2": "b"},
    "/tokenize": {"prompt": "a"},
}
NO_ROUTE = {
    "fastapi": (404, '{"detail":"Not Found"}'),
    "llama.cpp": (404, '{"error":{"code":404,"message":"File Not Found","type":"not_found_error"}}'),
    "method": (405, '{"detail":"Method Not Allowed"}'),
    "plain": (404, "404 page not found"),
    "said so": (501, '{"error":{"message":"not supported","type":"NotImplementedError","param":null,"code":501}}'),
}
ALL = ["chat", "completions", "embeddings", "responses", "messages", "rerank", "score", "tokenize"]
TWO = {"s1": Options(), "s2": Options(), "l1": Options()}


@pytest.mark.parametrize("answer", NO_ROUTE)
async def test_an_operation_that_the_backend_lacks(start, answer):
    """Listed in the config but not there: a 501 with the words of the backend, its API's shape and the advice not to retry."""
    stack = await start({"models": {0: {"endpoints": ALL}}, "tenants": [tenant("acme", KEY, tpm=10**6)]}, fakes=dict(TWO))
    status, body = NO_ROUTE[answer]
    for name in ("s1", "s2"):
        stack.fakes[name].faults.add(status=status, body=body)
    for path, fields in OPERATIONS.items():
        told = await ask(stack, {"model": "small-model", **fields}, path=path)
        assert (told.status_code, told.headers["x-should-retry"]) == (501, "false")
        error = told.json()["error"]
        assert (error["code"], str(status) in error["message"]) == ("not_implemented", True)
        assert ("type" in told.json()) is path.startswith("/v1/messages")
    await stack.at_rest()
    assert sum(line["charged_tokens"] for line in stack.log.lines) == 0
    assert {replica.breaker for replica in station(stack).pool.stats()} == {"closed"}


async def test_another_replica_that_has_it_answers(start):
    """Of a pool that is being renewed, the replica that has the endpoint already answers."""
    stack = await start({"models": {0: {"endpoints": ALL}}}, fakes=dict(TWO))
    stack.small.faults.add(status=404, body='{"detail":"Not Found"}')
    for _ in range(6):
        answer = await ask(stack, {"model": "small-model", "input": "[[say: hi]]"}, path="/v1/responses")
        assert (answer.status_code, answer.headers["x-tiergate-replica"]) == (200, "s2")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", '{"detail":"Not Found"}'),
        (
            "/v1/responses",
            '{"error":{"message":"The model `fake` does not exist.","type":"NotFoundError","param":null,"code":404}}',
        ),
    ],
)
async def test_a_wrong_path_or_name_is_the_operators(start, path, body):
    """Chat is what every backend has, and a model that it does not know is another matter: 502, as before."""
    stack = await start({"models": {0: {"endpoints": ALL}}})
    stack.small.faults.add(status=404, body=body)
    fields = {"input": "hi", "messages": [{"role": "user", "content": "hi"}]}
    answer = await ask(stack, {"model": "small-model", **fields}, path=path)
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "backend_misconfigured")


async def test_the_sdk_asks_once(start):
    """OpenAI's SDK retries what is 500 and above, unless it is told not to."""
    stack = await start({"models": {0: {"endpoints": ALL}}})
    stack.small.faults.add(status=404, body='{"detail":"Not Found"}')
    async with openai.AsyncOpenAI(base_url=f"{stack.url}/v1", api_key=KEY, max_retries=3) as sdk:
        with pytest.raises(openai.InternalServerError) as caught:
            await sdk.responses.create(model="small-model", input="hi")
    assert caught.value.code == "not_implemented"
    assert len(posts(stack.small)) == 1
