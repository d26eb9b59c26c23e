import json

import httpx
from fake_talk import events, talk

from gateway.lab.fake import FakeVLLM, Options


async def test_a_whole_answer_has_vllms_fields_in_vllms_order(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """A whole answer carries exactly the keys that vLLM 0.32 writes, in its order, nulls included."""
    answer = await client.post(f"{fake.url}/chat/completions", json=talk())
    body = answer.json()
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["server"] == "uvicorn"
    assert answer.headers["date"]
    assert list(body) == [
        "id", "object", "created", "model", "choices", "service_tier", "system_fingerprint", "usage", "prompt_logprobs",
        "prompt_token_ids", "prompt_text", "kv_transfer_params", "ec_transfer_params", "metrics",
    ]  # fmt: skip
    choice = body["choices"][0]
    assert list(choice) == ["index", "message", "logprobs", "finish_reason", "stop_reason", "token_ids", "routed_experts"]
    assert list(choice["message"]) == ["role", "content", "refusal", "annotations", "audio", "function_call", "reasoning"]
    assert body["object"] == "chat.completion"
    assert body["system_fingerprint"].startswith("vllm-0.32.0-")
    assert body["service_tier"] is None
    assert choice["finish_reason"] == "stop"


async def test_usage_counts_the_reply_and_its_end(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """A reply of the default length is that many completion tokens, the silent last one included."""
    body = (await client.post(f"{fake.url}/chat/completions", json=talk())).json()
    usage = body["usage"]
    assert usage["completion_tokens"] == 16
    assert len(body["choices"][0]["message"]["content"]) == 15 * 4
    assert usage["total_tokens"] == usage["prompt_tokens"] + 16
    assert usage["prompt_tokens_details"]["cached_tokens"] == 0


async def test_usage_details_only_with_the_flag(client: httpx.AsyncClient) -> None:
    """Without `--enable-prompt-tokens-details` the details are null, as in vLLM."""
    async with FakeVLLM() as fake:
        body = (await client.post(f"{fake.url}/chat/completions", json=talk())).json()
    assert body["usage"]["prompt_tokens_details"] is None


async def test_a_stream_has_vllms_chunks(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """A stream is the role, the deltas, the finish with its stop reason, and `[DONE]`, with vLLM's keys in each."""
    answer = await client.post(f"{fake.url}/chat/completions", json=talk(stream=True, max_tokens=3))
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.headers["transfer-encoding"] == "chunked"
    first, one, two, last, done = events(answer.text)
    assert list(first) == ["id", "object", "created", "model", "choices", "prompt_token_ids", "prompt_text"]
    assert first["choices"] == [
        {"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}
    ]
    assert list(one) == ["id", "object", "created", "model", "choices"]
    assert list(one["choices"][0]) == ["index", "delta", "logprobs", "finish_reason", "token_ids"]
    assert list(two["choices"][0]["delta"]) == ["content"]
    assert list(last["choices"][0]) == ["index", "delta", "logprobs", "finish_reason", "stop_reason", "token_ids"]
    assert last["choices"][0]["finish_reason"] == "length"
    assert last["choices"][0]["delta"]["content"]
    assert last["system_fingerprint"]
    assert done == "[DONE]"


async def test_a_natural_end_is_an_empty_delta(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """When the model stops by itself the finish chunk carries an empty content."""
    chunks = events((await client.post(f"{fake.url}/chat/completions", json=talk("[[say: hi]]", stream=True))).text)
    assert [chunk["choices"][0]["delta"] for chunk in chunks[:-1]] == [
        {"role": "assistant", "content": ""},
        {"content": "hi"},
        {"content": ""},
    ]


async def test_include_usage_adds_a_chunk_without_choices(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """With include_usage the last chunk before `[DONE]` has no choices, the usage, and the fingerprint; no other has usage."""
    asked = talk(stream=True, stream_options={"include_usage": True})
    *chunks, usage, done = events((await client.post(f"{fake.url}/chat/completions", json=asked)).text)
    assert usage["choices"] == []
    assert usage["usage"]["completion_tokens"] == 16
    assert usage["usage"]["prompt_tokens_details"] == {"cached_tokens": 0, "created_cache_tokens": 16}
    assert usage["system_fingerprint"]
    assert done == "[DONE]"
    assert not any("usage" in chunk or "system_fingerprint" in chunk for chunk in chunks)


async def test_continuous_usage_counts_up(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """With continuous_usage_stats every chunk tells the tokens so far."""
    options = {"include_usage": True, "continuous_usage_stats": True}
    *chunks, _ = events(
        (await client.post(f"{fake.url}/chat/completions", json=talk(stream=True, max_tokens=3, stream_options=options))).text
    )
    assert [chunk["usage"]["completion_tokens"] for chunk in chunks] == [0, 1, 2, 3, 3]


async def test_stream_and_whole_answer_say_the_same(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """A greedy request gives the same text whole and streamed, and again, and another prompt another one."""

    async def whole(text: str) -> str:
        body = (await client.post(f"{fake.url}/chat/completions", json=talk(text, temperature=0))).json()
        return str(body["choices"][0]["message"]["content"])

    streamed = events((await client.post(f"{fake.url}/chat/completions", json=talk("a", temperature=0, stream=True))).text)
    text = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in streamed[:-1])
    assert text == await whole("a") == await whole("a")
    assert text != await whole("another prompt")


async def test_sampled_texts_vary_and_seeds_fix_them(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """Without a seed texts differ; with one they are the same, and another seed gives another text."""

    async def text(**fields: int) -> str:
        body = (await client.post(f"{fake.url}/chat/completions", json=talk(**fields))).json()
        return str(body["choices"][0]["message"]["content"])

    assert len({await text() for _ in range(4)}) > 1
    assert await text(seed=7) == await text(seed=7) != await text(seed=8)


async def test_x_request_id_names_the_completion(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """The client's X-Request-Id becomes the completion's id; without it the body's request_id does."""
    answer = await client.post(f"{fake.url}/chat/completions", json=talk(), headers={"X-Request-Id": "abc"})
    assert answer.json()["id"] == "chatcmpl-abc"
    answer = await client.post(f"{fake.url}/chat/completions", json=talk(request_id="def"))
    assert answer.json()["id"] == "chatcmpl-def"


async def test_several_choices_come_interleaved(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """n = 2 gives two choices; in a stream each has its role, its deltas and its finish."""
    body = (await client.post(f"{fake.url}/chat/completions", json=talk(n=2, max_tokens=2))).json()
    assert [choice["index"] for choice in body["choices"]] == [0, 1]
    assert body["usage"]["completion_tokens"] == 4
    chunks = events((await client.post(f"{fake.url}/chat/completions", json=talk(n=2, max_tokens=2, stream=True))).text)
    assert [chunk["choices"][0]["index"] for chunk in chunks[:-1]] == [0, 1, 0, 1, 0, 1]
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks[-3:-1]] == ["length", "length"]


async def test_max_tokens_of_either_name_cuts(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """max_tokens and max_completion_tokens cut the reply, the latter wins, and the reason is `length`."""
    for fields in ({"max_tokens": 5}, {"max_completion_tokens": 5}, {"max_tokens": 9, "max_completion_tokens": 5}):
        body = (await client.post(f"{fake.url}/chat/completions", json=talk(**fields))).json()
        assert body["usage"]["completion_tokens"] == 5
        assert body["choices"][0]["finish_reason"] == "length"


async def test_ignore_eos_and_min_tokens(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """ignore_eos runs to max_tokens; min_tokens makes a reply longer than it would be."""
    body = (await client.post(f"{fake.url}/chat/completions", json=talk(ignore_eos=True, max_tokens=40))).json()
    assert (body["usage"]["completion_tokens"], body["choices"][0]["finish_reason"]) == (40, "length")
    body = (await client.post(f"{fake.url}/chat/completions", json=talk(min_tokens=30, max_tokens=90))).json()
    assert body["usage"]["completion_tokens"] >= 30


async def test_a_stop_string_ends_the_text_before_it(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """The text ends before the stop string, which is told as the stop reason; the tokens made are all counted."""
    said = talk("[[say: one two three four]]", stop=["three"])
    body = (await client.post(f"{fake.url}/chat/completions", json=said)).json()
    choice = body["choices"][0]
    assert choice["message"]["content"] == "one two "
    assert (choice["finish_reason"], choice["stop_reason"]) == ("stop", "three")
    assert body["usage"]["completion_tokens"] == 4
    body = (await client.post(f"{fake.url}/chat/completions", json=said | {"include_stop_str_in_output": True})).json()
    assert body["choices"][0]["message"]["content"] == "one two three"
    streamed = events((await client.post(f"{fake.url}/chat/completions", json=said | {"stream": True})).text)
    assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in streamed[:-1]) == "one two "
    assert streamed[-2]["choices"][0]["stop_reason"] == "three"


async def test_logprobs_for_each_token(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """logprobs lists every token made; top_logprobs lists as many alternatives as asked, none when not asked."""
    body = (await client.post(f"{fake.url}/chat/completions", json=talk(logprobs=True, top_logprobs=2, max_tokens=3))).json()
    listed = body["choices"][0]["logprobs"]["content"]
    assert [len(entry["top_logprobs"]) for entry in listed] == [2, 2, 2]
    assert "".join(entry["token"] for entry in listed) == body["choices"][0]["message"]["content"]
    assert listed[0]["bytes"] == list(listed[0]["token"].encode())
    chunks = events((await client.post(f"{fake.url}/chat/completions", json=talk(logprobs=True, max_tokens=3, stream=True))).text)
    assert [chunk["choices"][0]["logprobs"]["content"][0]["top_logprobs"] for chunk in chunks[1:-1]] == [[], [], []]


async def test_token_ids_when_asked(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """return_token_ids gives the ids of prompt and reply, which turn back into their text."""
    body = (await client.post(f"{fake.url}/chat/completions", json=talk(return_token_ids=True, max_tokens=3))).json()
    ids = body["choices"][0]["token_ids"]
    assert len(ids) == 3
    assert len(body["prompt_token_ids"]) == body["usage"]["prompt_tokens"]
    text = (await client.post(f"{fake.root}/detokenize", json={"tokens": ids})).json()["prompt"]
    assert text == body["choices"][0]["message"]["content"]


async def test_an_alias_is_signed_by_the_first_name(client: httpx.AsyncClient) -> None:
    """Under another served name the answer carries the first one; an adapter answers in its own name."""
    async with FakeVLLM(Options(models=("first", "second"), lora_modules=("adapter",))) as fake:
        for asked, told in (("second", "first"), ("adapter", "adapter"), (None, "first")):
            body = (await client.post(f"{fake.url}/chat/completions", json=talk() | {"model": asked})).json()
            assert body["model"] == told
        cards = (await client.get(f"{fake.url}/models")).json()["data"]
    assert [(card["id"], card["parent"], card["max_model_len"]) for card in cards] == [
        ("first", None, 32768),
        ("second", None, 32768),
        ("adapter", "first", None),
    ]
    assert cards[0]["owned_by"] == "vllm"
    assert cards[0]["permission"][0]["object"] == "model_permission"


async def test_unicode_text_comes_whole(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """Text outside ASCII is said exactly, whole and in pieces, unescaped as vLLM sends it."""
    text = 'naïve 你好 👋🏽 «quoted \\" text»'
    body = await client.post(f"{fake.url}/chat/completions", json=talk(f"[[say: {text}]]"))
    assert body.json()["choices"][0]["message"]["content"] == text
    assert "你好" in body.text
    chunks = events((await client.post(f"{fake.url}/chat/completions", json=talk(f"[[say: {text}]]", stream=True))).text)
    assert "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks[:-1]) == text


async def test_content_parts_and_history_are_one_prompt(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """Parts of a message count as their text; an image costs a fixed number of tokens; null content is nothing."""
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    messages = [
        {"role": "system", "content": "Be brief."},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "1", "content": ""},
        {"role": "user", "content": [{"type": "text", "text": "[[say: yes]]"}, image]},
    ]
    body = (await client.post(f"{fake.url}/chat/completions", json={"model": "fake", "messages": messages})).json()
    assert body["choices"][0]["message"]["content"] == "yes"
    assert body["usage"]["prompt_tokens"] > 64


async def test_unknown_fields_pass(fake: FakeVLLM, client: httpx.AsyncClient) -> None:
    """Fields that nobody knows are accepted, and logged as they came."""
    answer = await client.post(f"{fake.url}/chat/completions", json=talk(whatever={"a": [1]}, guided_json={"type": "object"}))
    assert answer.status_code == 200
    assert fake.calls[-1].body["whatever"] == {"a": [1]}
    assert json.loads(fake.calls[-1].text)["model"] == "fake"


async def test_a_tool_call_parser_shows_in_the_deltas(client: httpx.AsyncClient) -> None:
    """With one, the end of a stream is an empty delta, and beside a tool call stands that there is no content."""
    async with FakeVLLM(Options(tool_call_parser="hermes")) as fake:
        said = events((await client.post(f"{fake.url}/chat/completions", json=talk("[[say: hi]]", stream=True))).text)
        called = events((await client.post(f"{fake.url}/chat/completions", json=talk("[[tool: f {}]]", stream=True))).text)
    assert said[-2]["choices"][0]["delta"] == {}
    assert [list(chunk["choices"][0]["delta"]) for chunk in called[1:-2]] == [["content", "tool_calls"]] * 2
    assert called[1]["choices"][0]["delta"]["content"] is None
