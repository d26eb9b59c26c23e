import httpx
from fake_talk import events

from gateway.lab.fake import FakeVLLM


async def test_a_completion_has_vllms_fields(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """A completion has vLLM's keys, 16 tokens unless told otherwise, and its own prefix of the id."""
    body = (
        await client.post(f"{fake.url}/completions", json={"model": "fake", "prompt": "Once"}, headers={"x-request-id": "r"})
    ).json()
    assert body["id"] == "cmpl-r"
    assert body["object"] == "text_completion"
    assert list(body["choices"][0]) == [
        "index", "text", "logprobs", "finish_reason", "stop_reason", "token_ids", "prompt_logprobs", "prompt_token_ids",
        "routed_experts",
    ]  # fmt: skip
    assert body["usage"]["completion_tokens"] == 16
    assert body["usage"]["prompt_tokens"] == 1


async def test_a_completion_stream(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """A completion stream has no role chunk, stop_reason in every choice, and the usage chunk when asked."""
    asked = {"model": "fake", "prompt": "Once", "max_tokens": 3, "stream": True, "stream_options": {"include_usage": True}}
    one, two, last, usage, done = events((await client.post(f"{fake.url}/completions", json=asked)).text)
    keys = ["index", "text", "logprobs", "finish_reason", "stop_reason", "prompt_token_ids", "token_ids"]
    assert [list(chunk["choices"][0]) for chunk in (one, two, last)] == [keys] * 3
    assert last["choices"][0]["finish_reason"] == "length"
    assert usage["choices"] == []
    assert usage["usage"]["completion_tokens"] == 3
    assert done == "[DONE]"


async def test_prompts_of_every_form(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """Lists of texts and of token ids are prompts; n choices for each, numbered through."""
    ids = (await client.post(f"{fake.root}/tokenize", json={"prompt": "[[say: hey]]"})).json()["tokens"]
    for prompt, count in (("a", 1), (["a", "b"], 2), (ids, 1), ([ids, ids], 2)):
        body = (await client.post(f"{fake.url}/completions", json={"model": "fake", "prompt": prompt, "n": 2})).json()
        assert [choice["index"] for choice in body["choices"]] == list(range(2 * count))
    body = (await client.post(f"{fake.url}/completions", json={"model": "fake", "prompt": ids})).json()
    assert body["choices"][0]["text"] == "hey"


async def test_echo_gives_the_prompt_back(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """echo puts the prompt before the text; with max_tokens 0 nothing but the prompt is told."""
    asked = {"model": "fake", "prompt": "Once [[say: upon]]", "echo": True}
    assert (await client.post(f"{fake.url}/completions", json=asked)).json()["choices"][0]["text"] == "Once [[say: upon]]upon"
    assert (await client.post(f"{fake.url}/completions", json=asked | {"max_tokens": 0})).json()["choices"][0]["text"] == asked[
        "prompt"
    ]
    chunks = events((await client.post(f"{fake.url}/completions", json=asked | {"stream": True})).text)
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks[:-1]) == "Once [[say: upon]]upon"


async def test_logprobs_of_the_older_form(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """logprobs = 2 lists tokens, offsets, values and the top ones by token."""
    asked = {"model": "fake", "prompt": "Once", "logprobs": 2, "max_tokens": 3}
    told = (await client.post(f"{fake.url}/completions", json=asked)).json()["choices"][0]["logprobs"]
    assert list(told) == ["text_offset", "token_logprobs", "tokens", "top_logprobs"]
    assert told["text_offset"] == [0, 4, 8]
    assert all(token in top for token, top in zip(told["tokens"], told["top_logprobs"], strict=True))
    chunks = events((await client.post(f"{fake.url}/completions", json=asked | {"stream": True})).text)
    assert [chunk["choices"][0]["logprobs"]["text_offset"] for chunk in chunks[:-1]] == [[0], [4], [8]]


async def test_continuous_usage_and_token_ids(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """Running usage and token ids come with each chunk, the prompt's ids with the first."""
    options = {"include_usage": True, "continuous_usage_stats": True}
    asked = {
        "model": "fake",
        "prompt": "Once",
        "max_tokens": 2,
        "stream": True,
        "return_token_ids": True,
        "stream_options": options,
    }
    *chunks, _, _ = events((await client.post(f"{fake.url}/completions", json=asked)).text)
    assert [chunk["usage"]["completion_tokens"] for chunk in chunks] == [1, 2]
    assert [len(chunk["choices"][0]["token_ids"]) for chunk in chunks] == [1, 1]
    assert len(chunks[0]["choices"][0]["prompt_token_ids"]) == 1
    assert chunks[1]["choices"][0]["prompt_token_ids"] is None
