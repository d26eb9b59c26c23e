"""The exact cache through the whole gateway: what is kept, for whom, how it comes back, and how it is taken out."""

import asyncio
import base64
import json
import struct

import pytest
from gateway_talk import (
    ADMIN_KEY,
    GREEDY,
    KEY,
    OTHER_KEY,
    ask,
    chat,
    cli,
    digest,
    lines,
    payloads,
    posts,
    said,
    shift_cache,
    tenant,
    usage,
    wire,
)

from gateway.lab.fake import Options, Script

ADMIN = {"authorization": f"Bearer {ADMIN_KEY}"}
KINDS = {
    "content": ("[[say: Grüße, 你好 👋🏽 and good bye]]", {}),
    "tools": ('[[tool: look {"a": [1, {"b": "ü"}]}]] [[tool: find {"q": "x"}]]', {}),
    "content and tools": ('[[say: let me look]] [[tool: look {"a": 1}]]', {}),
    "reasoning": ("[[reason: they greet me]] [[say: hello]]", {}),
    "logprobs": ("[[say: one two three]]", {"logprobs": True, "top_logprobs": 2}),
    "refusal": ("[[refuse: I cannot say]]", {}),
    "several choices": ("[[say: hello there]]", {"temperature": None, "seed": 7, "n": 3}),
}
STREAMED = {"stream": True, "stream_options": {"include_usage": True}}


def modes(name):
    return pytest.mark.parametrize(name, [{}, STREAMED], ids=["json", "sse"])


@modes("fill")
@modes("read")
@pytest.mark.parametrize("kind", KINDS)
async def test_a_hit_says_what_the_answer_said(stack, kind, fill, read):
    """Filled and read in either wire format, a hit has the same content, reasoning, tool calls, logprobs, finish and usage."""
    content, fields = KINDS[kind]
    body = {**GREEDY, **fields}
    first = await stack.chat(content, **body, **fill)
    second = await stack.chat(content, **body, **read)
    assert (first.status_code, second.status_code) == (200, 200)
    assert first.headers["x-tiergate-cache"] == "miss"
    assert second.headers["x-tiergate-cache"] == "exact"
    assert second.headers["content-type"].startswith("text/event-stream" if read else "application/json")
    assert said(second) == said(first)
    assert usage(second) == usage(first)
    assert len(posts(stack.small)) == 1


@modes("fill")
async def test_a_replayed_stream_is_proper_sse(stack, fill):
    """A replay has the role first, content in several pieces, one id, the usage chunk with no choices, then [DONE]."""
    content = "[[say: a text of more than a few words, so that it comes in pieces]]"
    await stack.chat(content, **GREEDY, **fill)
    chunks = payloads((await stack.chat(content, **GREEDY, **STREAMED)).text)
    assert chunks.pop() == "[DONE]"
    assert chunks[-1]["choices"] == []
    assert chunks[-1]["usage"]["total_tokens"] > 0
    assert chunks[0]["choices"][0]["delta"]["role"] == "assistant"
    assert len([c for c in chunks[:-1] if c["choices"][0]["delta"].get("content")]) > 1
    assert len({c["id"] for c in chunks}) == 1
    assert {c["object"] for c in chunks} == {"chat.completion.chunk"}


@modes("fill")
async def test_the_usage_chunk_of_a_replay_comes_only_when_asked_for(stack, fill):
    """A streamed hit without include_usage has no usage chunk, whatever the filler had asked for."""
    await stack.chat("[[say: hi]]", **GREEDY, **fill)
    hit = await stack.chat("[[say: hi]]", **GREEDY, stream=True)
    assert hit.headers["x-tiergate-cache"] == "exact"
    assert usage(hit) is None
    assert payloads(hit.text)[-1] == "[DONE]"


@modes("fill")
@modes("read")
async def test_completions_are_kept_as_well(stack, fill, read):
    """/v1/completions hits in either wire format, with text, logprobs and usage equal, and is no chat answer's twin."""
    body = {"model": "small-model", "prompt": "[[say: one two]]", "max_tokens": 50, "logprobs": 1, **GREEDY}
    first = await ask(stack, {**body, **fill}, path="/v1/completions")
    second = await ask(stack, {**body, **read}, path="/v1/completions")
    assert second.headers["x-tiergate-cache"] == "exact"
    assert said(second) == said(first)
    assert usage(second) == usage(first)
    assert len(posts(stack.small)) == 1


async def test_a_hit_tells_its_id_and_age(stack):
    """A hit carries x-tiergate-cache-id and age, names the model that answered, and no replica."""
    await stack.chat("[[say: hi]]", **GREEDY)
    shift_cache(stack, 42)
    hit = await stack.chat("[[say: hi]]", **GREEDY)
    assert hit.headers["x-tiergate-cache"] == "exact"
    assert hit.headers["x-tiergate-cache-id"].startswith("ce-")
    assert int(hit.headers["age"]) in (42, 43)
    assert hit.headers["x-tiergate-model"] == "small-model"
    assert hit.headers["x-tiergate-tier"] == "small"
    assert "x-tiergate-replica" not in hit.headers
    line = (await lines(stack, 2))[-1]
    assert (line["cache"], line["charged_tokens"], line["attempts"], line["outcome"]) == ("exact", 0, 0, "ok")


CHANGES = [
    ("reasoning_effort", "low", "high"),
    ("thinking", {"type": "enabled"}, {"type": "disabled"}),
    ("max_tokens", 20, 21),
    ("max_completion_tokens", 20, 21),
    ("logit_bias", {"5": 1}, {"5": 2}),
    ("seed", 1, 2),
    ("num_ctx", 1024, 2048),
    ("top_k", 5, 6),
    ("top_p", 0.5, 0.6),
    ("min_p", 0.1, 0.2),
    ("repetition_penalty", 1.1, 1.2),
    ("chat_template_kwargs", {"enable_thinking": True}, {"enable_thinking": False}),
    ("structured_outputs", {"choice": ["a"]}, {"choice": ["b"]}),
    ("guided_json", {"type": "object"}, {"type": "array"}),
    ("response_format", {"type": "text"}, {"type": "json_object"}),
    ("stop", ["x"], ["y"]),
    ("n", 1, 2),
    ("logprobs", False, True),
    ("parallel_tool_calls", True, False),
    ("a_field_of_next_year", 1, 2),
]


@pytest.mark.parametrize(("name", "one", "other"), CHANGES, ids=[change[0] for change in CHANGES])
async def test_a_field_that_changes_the_answer_is_part_of_the_key(stack, name, one, other):
    """Requests that differ in one parameter are two requests: the upstream is asked for both."""
    for value in (one, other):
        answer = await ask(stack, {**chat("hi", seed=1), name: value})
        assert answer.status_code == 200, answer.text
        assert answer.headers["x-tiergate-cache"] == "miss"
    assert len(posts(stack.small)) == 2


def tool(name):
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}}


HI = {"role": "user", "content": "hi"}


def with_result(call_id, name="look"):
    call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": "{}"}}
    return [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call_id, "content": "42"},
    ]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"tools": [tool("look")]}, {"tools": [tool("find")]}),
        ({"tools": [tool("look"), tool("find")]}, {"tools": [tool("find"), tool("look")]}),
        ({"tools": [tool("look")], "tool_choice": "none"}, {"tools": [tool("look")], "tool_choice": "auto"}),
        ({"messages": with_result("call-1")}, {"messages": with_result("call-2")}),
        ({"messages": with_result("call-1", "look")}, {"messages": with_result("call-1", "find")}),
        ({"messages": [{**HI, "name": "ann"}]}, {"messages": [{**HI, "name": "bob"}]}),
        ({"messages": [HI]}, {"messages": [{**HI, "content": "hi "}]}),
    ],
    ids=["tools", "order of tools", "tool_choice", "tool_call_id", "tool name", "author", "a space"],
)  # fmt: skip
async def test_the_same_text_with_other_tools_or_ids_is_another_request(stack, one, other):
    """Different tools, tool_call_id or name with the same text miss: the upstream is asked twice."""
    for fields in (one, other):
        answer = await ask(stack, {**chat("hi", **GREEDY), **fields})
        assert answer.status_code == 200, answer.text
        assert answer.headers["x-tiergate-cache"] == "miss"
    assert len(posts(stack.small)) == 2


async def test_spelling_does_not_matter(stack):
    """Key order, white space, 1 against 1.0 and fields that cannot change the answer give the same key."""
    other = b'"metadata":{"a":"b"},"stop":null,"stream":false'
    spellings = [
        b'{"model":"small-model","messages":[{"role":"user","content":"hi"}],"temperature":0,"top_p":1,"user":"a"}',
        b'{ "top_p": 1.0, "temperature": 0.0,\n "messages": [ {"content": "hi", "role": "user"} ], "model": "small-model" }',
        b'{"temperature":-0.0,"top_p":1e0,"model":"small-model","messages":[{"role":"user","content":"\\u0068i"}],%b}' % other,
    ]
    answers = [await ask(stack, body) for body in spellings]
    assert [answer.headers["x-tiergate-cache"] for answer in answers] == ["miss", "exact", "exact"]
    assert len(posts(stack.small)) == 1


@pytest.mark.parametrize(
    "fault",
    [
        {"status": 429, "body": {"error": {"message": "busy"}}},
        {"status": 500},
        {"status": 400, "body": {"error": {"message": "no"}}},
        {"status": 422, "body": {"detail": "no"}},
        {"cut_after_tokens": 2},
        {"error_in_stream": 2},
        {"error_in_stream": True},
        {"close_before_headers": True},
    ],
    ids=str,
)
@pytest.mark.parametrize("stream", [False, True], ids=["json", "sse"])
async def test_a_failure_is_never_kept(stack, fault, stream):
    """After an error status, a cut or an error event the same request is asked anew, and answered in full."""
    stack.small.faults.add(**fault)
    await stack.chat("[[tokens: 9]]", **GREEDY, stream=stream)
    await stack.until(stack.idle)
    stack.small.faults.clear()
    again = await stack.chat("[[tokens: 9]]", **GREEDY)
    assert again.status_code == 200
    assert again.headers["x-tiergate-cache"] == "miss"
    assert said(again)[0]["finish"] == "stop"


@pytest.mark.parametrize("finish", ["length", "content_filter"])
@pytest.mark.parametrize("stream", [False, True], ids=["json", "sse"])
async def test_an_answer_that_was_cut_short_is_never_kept(stack, finish, stream):
    """finish_reason length or content_filter passes on and is asked anew the next time."""
    for _ in range(2):
        answer = await stack.chat(f"[[say: half of]] [[finish: {finish}]]", **GREEDY, stream=stream)
        assert said(answer)[0]["finish"] == finish
        assert answer.headers["x-tiergate-cache"] == "miss"
    assert len(posts(stack.small)) == 2
    assert (await stack.gateway.parts.exact.stats()).entries == 0


CHOICE = {"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}


@pytest.mark.parametrize(
    "body",
    [
        {"object": "chat.completion", "choices": []},
        {"object": "chat.completion", "choices": [{**CHOICE, "message": {"role": "assistant", "content": ""}}]},
        {"object": "chat.completion", "choices": [{**CHOICE, "finish_reason": None}]},
        {"object": "chat.completion", "choices": [CHOICE, {**CHOICE, "index": 1, "finish_reason": "length"}]},
        {"object": "chat.completion", "choices": [CHOICE], "error": {"message": "half"}},
        {"object": "chat.completion"},
        {"choices": "many"},
    ],
    ids=["no choice", "empty", "unfinished", "one cut", "error inside", "no choices", "odd"],
)
async def test_a_200_that_is_no_good_answer_is_not_kept(stack, body):
    """Only a complete 2xx answer that says something is stored; anything else passes as it is and is asked anew."""
    stack.small.faults.add(status=200, body=body)
    for _ in range(2):
        answer = await stack.chat("hi", **GREEDY)
        assert answer.status_code == 200
        assert answer.headers["x-tiergate-cache"] == "miss"
    assert len(posts(stack.small)) == 2
    assert (await stack.gateway.parts.exact.stats()).entries == 0


@pytest.mark.parametrize("data", ['{"message": "boom"}', "boom"])
@pytest.mark.parametrize("last", ["data: [DONE]\n\n", ""], ids=["done", "no end"])
async def test_a_stream_with_an_event_named_error_is_not_kept(stack, data, last):
    """Behind a reason to finish, too, and whatever the event says: the client has it as it came, and asks again."""
    said = {"choices": [{"index": 0, "delta": {"content": "half"}, "finish_reason": "stop"}]}
    body = f"data: {json.dumps(said)}\n\nevent: error\ndata: {data}\n\n{last}"
    stack.small.faults.add(status=200, headers={"content-type": "text/event-stream"}, body=body)
    for _ in range(2):
        answer = await stack.chat("hello", stream=True, **GREEDY)
        assert answer.text == body
        assert (await stack.line())["outcome"] == "broken_stream"
    assert len(posts(stack.small)) == 2


@pytest.mark.parametrize("stream", [False, True], ids=["json", "sse"])
async def test_a_cancelled_answer_is_not_kept(start, stream):
    """A client that left before the end leaves nothing in the cache."""
    stack = await start(fakes={"s1": Options(itl=0.02), "l1": Options()})
    async with wire(stack.gateway.port) as one:
        one.send(chat("[[tokens: 200]]", **GREEDY, stream=stream))
        await stack.until(lambda: posts(stack.small))
        if stream:
            await one.head()
            await one.piece()
    await stack.until(lambda: posts(stack.small)[0].aborted)
    await stack.until(stack.idle)
    assert (await stack.gateway.parts.exact.stats()).entries == 0


async def test_tenants_never_share(stack):
    """The same request by another tenant is a miss, and the id of one tenant's entry tells the other nothing."""
    mine = await stack.chat("[[say: my secret]]", **GREEDY)
    theirs = await stack.chat("[[say: my secret]]", **GREEDY, key=OTHER_KEY)
    assert theirs.headers["x-tiergate-cache"] == "miss"
    assert mine.json()["id"] != theirs.json()["id"]
    hits = [await stack.chat("[[say: my secret]]", **GREEDY, key=key) for key in (KEY, OTHER_KEY)]
    assert [hit.headers["x-tiergate-cache"] for hit in hits] == ["exact", "exact"]
    assert [hit.json()["id"] for hit in hits] == [mine.json()["id"], theirs.json()["id"]]
    assert hits[0].headers["x-tiergate-cache-id"] != hits[1].headers["x-tiergate-cache-id"]


async def test_tenants_never_share_a_request_in_flight(start):
    """Identical requests of two tenants at once are two upstream calls."""
    stack = await start(fakes={"s1": Options(ttft=0.05), "l1": Options()})
    answers = await asyncio.gather(*(stack.chat("hi", **GREEDY, key=key) for key in (KEY, OTHER_KEY)))
    assert [answer.headers["x-tiergate-cache"] for answer in answers] == ["miss", "miss"]
    assert len(posts(stack.small)) == 2


async def test_two_keys_of_a_tenant_share(start):
    """The tenant is what partitions the cache, not the key."""
    both = tenant("acme", KEY)
    both["keys"].append({"id": "k2", "sha256": digest("another-key")})
    stack = await start({"tenants": [both]})
    await stack.chat("hi", **GREEDY)
    assert (await stack.chat("hi", **GREEDY, key="another-key")).headers["x-tiergate-cache"] == "exact"


@pytest.mark.parametrize("fields", [{}, {"temperature": 0.7}, {"temperature": 1}, {"temperature": "0"}, {"seed": None}])
async def test_a_request_that_asks_for_chance_bypasses(stack, fields):
    """Without temperature 0 or a seed nothing is looked up or kept, and the header says why."""
    for _ in range(2):
        answer = await stack.chat("hi", **fields)
        assert answer.headers["x-tiergate-cache"] == "bypass; reason=not-deterministic"
    assert len(posts(stack.small)) == 2
    assert (await lines(stack, 2))[-1]["cache_reason"] == "not deterministic"


async def test_keep_all_keeps_sampled_answers_too(start):
    """Under keep: all the second request of any kind is a hit."""
    stack = await start({"cache": {"secret": "s", "exact": {"keep": "all"}}})
    await stack.chat("hi")
    assert (await stack.chat("hi")).headers["x-tiergate-cache"] == "exact"


async def test_a_cache_that_is_off_says_so(start):
    """With the cache disabled every request goes upstream and the header is off."""
    stack = await start({"cache": {"exact": {"enabled": False}}})
    for _ in range(2):
        assert (await stack.chat("hi", **GREEDY)).headers["x-tiergate-cache"] == "off"
    assert len(posts(stack.small)) == 2


def header(value):
    return pytest.mark.parametrize("headers", [{"x-tiergate-cache": value}, {"cache-control": value}], ids=["ours", "plain"])


@header("no-cache")
async def test_no_cache_asks_anew_and_refreshes(stack, headers):
    """no-cache is not answered from the cache, and its fresh answer replaces the kept one."""
    first = await stack.chat("hi", **GREEDY)
    fresh = await stack.chat("hi", **GREEDY, headers=headers)
    assert fresh.headers["x-tiergate-cache"] == "bypass; reason=no-cache"
    assert fresh.json()["id"] != first.json()["id"]
    hit = await stack.chat("hi", **GREEDY)
    assert hit.headers["x-tiergate-cache"] == "exact"
    assert hit.json()["id"] == fresh.json()["id"]


@header("no-store")
async def test_no_store_keeps_nothing(stack, headers):
    """no-store leaves nothing behind."""
    answer = await stack.chat("hi", **GREEDY, headers=headers)
    assert answer.headers["x-tiergate-cache"] == "miss; reason=no-store"
    assert (await stack.chat("hi", **GREEDY)).headers["x-tiergate-cache"] == "miss"
    assert len(posts(stack.small)) == 2


@header("only-if-cached")
async def test_only_if_cached_never_goes_upstream(stack, headers):
    """only-if-cached is a 504 of ours on a miss, and a hit when there is one."""
    refused = await stack.chat("hi", **GREEDY, headers=headers)
    assert refused.status_code == 504
    assert refused.json()["error"]["code"] == "not_cached"
    assert refused.headers["x-should-retry"] == "false"
    assert posts(stack.small) == []
    await stack.chat("hi", **GREEDY)
    assert (await stack.chat("hi", **GREEDY, headers=headers)).headers["x-tiergate-cache"] == "exact"
    sampled = await stack.chat("hi", headers=headers)
    assert sampled.status_code == 504


async def test_max_age_0_is_no_cache_and_headers_stay_here(stack):
    """`cache-control: max-age=0` asks anew; no cache header of the client's reaches the backend."""
    await stack.chat("hi", **GREEDY)
    answer = await stack.chat("hi", **GREEDY, headers={"cache-control": "max-age=0", "x-tiergate-cache": "no-store"})
    assert answer.headers["x-tiergate-cache"].startswith("bypass")
    sent = posts(stack.small)[-1].headers
    assert not [name for name in sent if name.startswith("x-tiergate") or name == "cache-control"]


@pytest.mark.parametrize(
    "said", ["tag=", "tag=a b", "ttl=5m", "max-age=x", "no-store=1", ",".join(f"tag=t{n}" for n in range(9))]
)
async def test_a_directive_that_makes_no_sense_is_refused(stack, said):
    """Whoever mistypes a tag or a time in our own header learns of it; in `cache-control` it is ignored, as HTTP has it."""
    answer = await stack.chat("hi", **GREEDY, headers={"x-tiergate-cache": said})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_header")
    assert not posts(stack.small)
    assert (await stack.chat("hi", **GREEDY, headers={"cache-control": said})).status_code == 200


async def test_store_keeps_a_sampled_answer(stack):
    """Two clients that both say `store` share an answer that was sampled; one who does not gets one of his own."""
    store = {"x-tiergate-cache": "store"}
    seen = [(await stack.chat("hi", headers=how)).headers["x-tiergate-cache"] for how in (store, store, {})]
    assert seen == ["miss", "exact", "bypass; reason=not-deterministic"]


async def test_an_entry_expires(start):
    """After its ttl an answer is asked anew."""
    stack = await start({"cache": {"secret": "s", "exact": {"ttl": "10m"}}})
    await stack.chat("hi", **GREEDY)
    shift_cache(stack, 599)
    assert (await stack.chat("hi", **GREEDY)).headers["x-tiergate-cache"] == "exact"
    shift_cache(stack, 601)
    assert (await stack.chat("hi", **GREEDY)).headers["x-tiergate-cache"] == "miss"


async def test_the_models_version_is_part_of_the_key(start):
    """Another version in the config means another answer, even to the same store."""
    one = await start({"models": {0: {"version": "1"}}})
    two = await start({"models": {0: {"version": "2"}}})
    apart = getattr(two.gateway, "dispatcher", None)
    owner = two.gateway.parts.pipeline._dispatcher if apart is None else apart.parts.owner.local
    owner.exact = one.gateway.parts.exact
    await one.chat("hi", **GREEDY)
    assert (await one.chat("hi", **GREEDY)).headers["x-tiergate-cache"] == "exact"
    assert (await two.chat("hi", **GREEDY)).headers["x-tiergate-cache"] == "miss"


async def test_auto_is_kept_apart_by_its_tier_override(stack):
    """Under auto the override is part of the key, and a hit says which model had answered."""
    for tier in ("small", "large"):
        answer = await stack.chat("hi", model="auto", **GREEDY, headers={"x-tiergate-tier": tier})
        assert (answer.headers["x-tiergate-cache"], answer.headers["x-tiergate-tier"]) == ("miss", tier)
    for tier in ("small", "large"):
        answer = await stack.chat("hi", model="auto", **GREEDY, headers={"x-tiergate-tier": tier})
        assert (answer.headers["x-tiergate-cache"], answer.headers["x-tiergate-tier"]) == ("exact", tier)


async def test_an_alias_and_its_model_share(start):
    """An alias is the model that it stands for, in the cache as well."""
    stack = await start({"routing": {"aliases": {"gpt-4o": "small-model"}}})
    await stack.chat("hi", **GREEDY)
    assert (await stack.chat("hi", model="gpt-4o", **GREEDY)).headers["x-tiergate-cache"] == "exact"


async def test_embeddings_are_kept_and_floats_apart_from_base64(stack):
    """Embeddings hit without any temperature, each encoding as its own entry and with its own form."""
    body = {"model": "small-model", "input": ["one two", "three"]}
    forms = [{}, {"encoding_format": "base64"}]
    firsts = [await ask(stack, {**body, **form}, path="/v1/embeddings") for form in forms]
    hits = [await ask(stack, {**body, **form}, path="/v1/embeddings") for form in forms]
    assert [answer.headers["x-tiergate-cache"] for answer in (*firsts, *hits)] == ["miss", "miss", "exact", "exact"]
    assert [hit.json() for hit in hits] == [first.json() for first in firsts]
    floats = hits[0].json()["data"][0]["embedding"]
    packed = base64.b64decode(hits[1].json()["data"][0]["embedding"])
    assert struct.unpack(f"<{len(floats)}f", packed) == pytest.approx(floats)


async def test_a_stream_flag_on_embeddings_changes_nothing(stack):
    """`stream` means nothing to embeddings: first answer and hit are the same JSON."""
    body = {"model": "small-model", "input": "one", "stream": True}
    first = await ask(stack, body, path="/v1/embeddings")
    assert first.status_code == 200
    assert first.headers["content-type"] == "application/json"
    hit = await ask(stack, body, path="/v1/embeddings")
    assert hit.headers["x-tiergate-cache"] == "exact"
    assert hit.headers["content-type"] == "application/json"
    assert hit.json() == first.json()


async def test_an_entry_is_deleted_by_its_owner_only(stack):
    """DELETE /v1/cache/{id} works for the tenant that owns the entry; to another one it does not exist."""
    await stack.chat("hi", **GREEDY)
    entry = (await stack.chat("hi", **GREEDY)).headers["x-tiergate-cache-id"]
    url = f"/v1/cache/{entry}"
    statuses = [(await stack.client.delete(url, headers={"authorization": f"Bearer {key}"})).status_code for key in
                (OTHER_KEY, "wrong", KEY, KEY)]  # fmt: skip
    assert statuses == [404, 401, 200, 404]
    assert (await stack.chat("hi", **GREEDY)).headers["x-tiergate-cache"] == "miss"
    assert (await stack.client.get(url, headers={"authorization": f"Bearer {KEY}"})).status_code == 405


async def fill(stack):
    """Two answers of acme's (one of each model), one of globex's."""
    await stack.chat("hi", **GREEDY)
    await stack.chat("hi", **GREEDY, model="large-model")
    await stack.chat("hi", **GREEDY, key=OTHER_KEY)


@pytest.mark.parametrize(
    ("wanted", "flushed"),
    [
        ({"tenant": "acme"}, 2),
        ({"tenant": "nobody"}, 0),
        ({"model": "small-model"}, 2),
        ({"tenant": "acme", "model": "small-model"}, 1),
        ({"older_than": 3600}, 0),
        ({"older_than": 0}, 3),
        ({"all": True}, 3),
    ],
    ids=str,
)
@pytest.mark.parametrize("dry", [False, True], ids=["", "dry"])
async def test_the_operator_flushes_by_condition(stack, wanted, flushed, dry):
    """/admin/cache/flush deletes what fits all conditions, and only counts under dry_run."""
    await fill(stack)
    answer = await stack.client.post("/admin/cache/flush", json={**wanted, "dry_run": dry}, headers=ADMIN)
    assert answer.json() == {"flushed": flushed}
    stats = (await stack.client.get("/admin/cache", headers=ADMIN)).json()["exact"]
    assert stats["entries"] == 3 - (0 if dry else flushed)


@pytest.mark.parametrize("body", [{}, {"dry_run": True}, {"tenat": "acme"}, {"older_than": "1h"}, [], "x"], ids=str)
async def test_a_flush_that_says_nothing_is_refused(stack, body):
    """A flush without a condition, with an unknown one or of a wrong shape deletes nothing."""
    await fill(stack)
    answer = await stack.client.post("/admin/cache/flush", json=body, headers=ADMIN)
    assert answer.status_code == 400
    assert (await stack.gateway.parts.exact.stats()).entries == 3


async def test_the_command_line_looks_at_and_empties_the_cache(stack):
    """`tiergate cache stats|flush|delete` does through /admin what its words say, and reports as JSON."""
    await fill(stack)
    entry = (await stack.chat("hi", **GREEDY)).headers["x-tiergate-cache-id"]
    there, key = ("--url", stack.url, "--json"), {"TIERGATE_ADMIN_KEY": ADMIN_KEY}
    code, out, _ = await cli("cache", "stats", *there, **key)
    assert (code, json.loads(out)["exact"]["entries"]) == (0, 3)
    runs = [
        (("flush", "--tenant", "acme", "--dry-run"), {"flushed": 2}),
        (("flush", "--model", "large-model"), {"flushed": 1}),
        (("flush", "--older-than", "2h"), {"flushed": 0}),
        (("delete", entry), {"deleted": True}),
        (("flush", "--all"), {"flushed": 1}),
    ]
    for words, expected in runs:
        code, out, err = await cli("cache", words[0], *there, *words[1:], **key)
        assert (code, json.loads(out)) == (0, expected), err
    assert (await stack.gateway.parts.exact.stats()).entries == 0


@pytest.mark.parametrize(
    ("words", "key", "says"),
    [
        (("flush",), ADMIN_KEY, "say what to flush"),
        (("stats",), "wrong", "not the admin key"),
        (("delete", "ce-0"), ADMIN_KEY, "No cached answer"),
        (("flush", "--older-than", "soon"), ADMIN_KEY, "soon"),
    ],
)
async def test_a_mistake_on_the_command_line_is_one_line_and_2(stack, words, key, says):
    """`tiergate cache` says what is wrong in one line, exit code 2, and prints nothing else."""
    code, out, err = await cli("cache", words[0], "--url", stack.url, *words[1:], TIERGATE_ADMIN_KEY=key)
    assert (code, out) == (2, "")
    assert says in err
    assert len(err.strip().splitlines()) == 1


async def test_a_large_answer_is_not_kept(start):
    """An answer over max_entry passes and is not stored."""
    stack = await start({"cache": {"secret": "s", "exact": {"max_entry": "1KiB"}}})
    for _ in range(2):
        assert (await stack.chat("[[tokens: 500]]", **GREEDY)).headers["x-tiergate-cache"] == "miss"
    assert (await stack.gateway.parts.exact.stats()).entries == 0


async def test_a_backend_that_scripts_parallel_calls_replays_them_by_index(start):
    """Two tool calls of one answer keep their indices, ids and arguments in a replayed stream."""
    stack = await start()
    stack.small.app.author.script = Script.of(
        [{"tool_calls": [{"name": "search", "arguments": {"q": "a" * 50}}, {"name": "circular", "arguments": {"q": "b" * 50}}]}]
    )
    await stack.chat("hi", **GREEDY)
    replayed = await stack.chat("hi", **GREEDY, stream=True)
    deltas = [c["choices"][0]["delta"].get("tool_calls") for c in payloads(replayed.text)[:-1]]
    assert {call["index"] for calls in deltas if calls for call in calls} == {0, 1}
    assert [call[1] for call in said(replayed)[0]["tools"]] == ["search", "circular"]
    assert [json.loads(call[2]) for call in said(replayed)[0]["tools"]] == [{"q": "a" * 50}, {"q": "b" * 50}]
