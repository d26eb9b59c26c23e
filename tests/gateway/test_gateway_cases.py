"""Public bug reports on peers, as cases: where each is tested. Those without another place are in this file.

T1 T2 T4 T6 T11 T13 T14 T16 T18 T20   test_gateway_cache
T22                                   test_gateway_flight
T23 T26 T27 T29 T31 T34 T35 T37 T38   test_gateway_limits; T23 test_gateway_admission, T38 test_gateway_standing as well
T25 T32                               test_gateway_admission: workers and gateways; test_gateway_shared_limits
T40                                   here: an idle gateway has no task of a limiter
T42                                   test_gateway_stream by window; here by route; test_gateway_audio
T43 T44                               test_gateway_failover, test_gateway_stream
T46 T48 T52                           here
T49                                   test_gateway_stream; byte for byte: test_gateway_fidelity
T51                                   test_gateway_stepwise, test_gateway_stream
T53 T56 T57                           test_gateway_queue; T56 with strict classes: test_gateway_scheduling
T54                                   test_gateway_queue: classes are a closed set; here: a priority of any type in the body
T60 T64                               test_gateway_routing, test_gateway_failover
T62 T63 T70                           tests/backends/pools
T66                                   test_gateway_random: the drill
T68                                   here: a large prompt is accepted; test_gateway_large: what it costs others
T75                                   tests/project
T76                                   test_gateway_drain
W1 W2 W4 W5                           test_gateway_stream; W1 W5 here as well; W2, any chunk: test_gateway_fidelity
W7                                    test_gateway_heartbeat
W8 W11 W13 W15 W16 W18 W19 W21 W22    here
W9                                    test_gateway_stream
W24 W26 W29 W30 W32 W33 W37           here; W26 to 16 MiB: test_gateway_large
W25                                   test_gateway_cache
W28                                   here: errors of ours are nested; a backend's own bytes pass as they are
W35                                   test_gateway_cors
W38                                   test_gateway_routing, test_gateway_models
W40 W41 W43                           test_gateway_stream, here, test_gateway_failover
W44                                   here
W46 W48 W49                           test_gateway_cache
T7 T8 T19                             test_gateway_semantic, tests/guards, tests/caches
T59                                   tests/routeeval
T71                                   tests/node
T72                                   tests/limits: outages of Redis; test_gateway_outages
"""

import asyncio
import json

import pytest
from gateway_talk import GREEDY, KEY, OTHER_KEY, ask, chat, lines, payloads, posts, said, station, tenant, usage, wire

from gateway.lab.fake import Options, Script

TWO = {"s1": Options(), "s2": Options(), "l1": Options()}


async def test_an_idle_gateway_does_nothing(stack):
    """T40: limits need no task: what runs in an idle gateway is health and keys, and the sweep of the listeners."""
    await ask(stack, chat())
    await stack.until(stack.idle)
    names = {task.get_coro().__qualname__ for task in asyncio.all_tasks()}
    assert not [name for name in names if "imit" in name or "ucket" in name or "chedul" in name]


ROUTES = {
    "/v1/chat/completions": chat("[[tokens: 300]]"),
    "/v1/completions": {"model": "small-model", "prompt": "[[tokens: 300]]", "max_tokens": 400},
    "/v1/embeddings": {"model": "small-model", "input": "x"},
    "/v1/responses": {"model": "small-model", "input": "[[tokens: 300]]", "max_output_tokens": 400},
    "/v1/messages": chat("[[tokens: 300]]", max_tokens=400),
    "/v1/messages/count_tokens": chat(),
    "/v1/rerank": {"model": "small-model", "query": "x", "documents": ["y"]},
    "/v1/score": {"model": "small-model", "text_1": "x", "text_2": ["y"]},
    "/tokenize": {"model": "small-model", "prompt": "x"},
    "/detokenize": {"model": "small-model", "tokens": [1]},
}
NO_STREAM = ("/v1/embeddings", "/v1/messages/count_tokens", "/v1/rerank", "/v1/score", "/tokenize", "/detokenize")


@pytest.mark.parametrize("path", ROUTES)
@pytest.mark.parametrize("stream", [False, True], ids=["json", "sse"])
@pytest.mark.parametrize("shared", [False, True], ids=["alone", "cacheable"])
async def test_a_departure_ends_the_work_on_every_route(start, path, stream, shared):
    """T42, W40: on each route, streamed or not, cached or not, the client's leaving closes the upstream and frees the slot."""
    served = ["chat", "completions", "embeddings", "responses", "messages", "rerank", "score", "tokenize"]
    stack = await start({"models": {0: {"endpoints": served}}}, fakes={"s1": Options(itl=0.01), "l1": Options()})
    if path in NO_STREAM:
        stack.small.faults.add(hang_before_headers=True, times=1)
    async with wire(stack.gateway.port) as one:
        one.send({**ROUTES[path], "stream": stream, **(GREEDY if shared else {})}, path=path)
        await stack.until(lambda: asked(stack.small))
    await stack.until(lambda: asked(stack.small)[0].aborted)
    await stack.until(stack.idle)
    assert (await lines(stack, 1))[0]["outcome"] == "client_gone"


def asked(fake):
    """Calls of any path, those at the engine's root included."""
    return [entry for entry in fake.log if entry.method == "POST"]


async def test_an_error_in_mid_stream_ends_it_and_keeps_its_words(stack):
    """T46, T52: a 429 as an event after some tokens passes with type, code and message, is not retried, and the stream ends."""
    error = {"message": "the engine is full", "type": "TooManyRequests", "param": None, "code": 429}
    stack.small.faults.add(error_in_stream={"after": 2, "error": error}, times=1)
    answer = await ask(stack, chat("[[tokens: 9]]", stream=True))
    found = [event["error"] for event in payloads(answer.text) if event != "[DONE]" and "error" in event]
    assert found == [error]
    assert answer.clean
    assert len(posts(stack.small)) == 1
    assert posts(stack.large) == []
    await stack.at_rest()


@pytest.mark.parametrize("stream", [False, True], ids=["json", "sse"])
async def test_an_idle_connection_that_the_backend_closed_is_no_failure(stack, stream):
    """T48: vLLM closes idle connections; the next request gets a fresh one, and it is no attempt of its own."""
    for number in range(4):
        assert (await ask(stack, chat(str(number), stream=stream))).status_code == 200
        for connection in list(stack.small.app.state.connections):
            connection.transport.close()
    assert {line["attempts"] for line in await lines(stack, 4)} == {1}
    assert len(posts(stack.small)) == 4


@pytest.mark.parametrize("priority", [1, 1.5, "high", None, [1], {"a": 1}, True], ids=str)
async def test_a_priority_of_any_type_does_no_harm(stack, priority):
    """T54: a tenant's `priority` in the body, whatever it is, orders nothing and is not passed on."""
    answers = await asyncio.gather(*(ask(stack, chat(str(n)) | {"priority": priority}) for n in range(3)))
    assert {answer.status_code for answer in answers} == {200}
    assert not [call for call in posts(stack.small) if "priority" in call.body]


async def test_a_large_prompt_is_served_and_others_beside_it(start):
    """T68, W26: a megabyte of prompt with an image is accepted and others are answered; over max_body it is a 413 as JSON."""
    roomy = Options(max_model_len=2**20, kv_blocks=2**17)
    stack = await start({"models": {1: {"context": None}}}, fakes={"s1": Options(), "l1": roomy})
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 1_200_000}}
    parts = [{"type": "text", "text": "word " * 20_000}, image]
    large = chat(model="large-model", messages=[{"role": "user", "content": parts}])
    answers = await asyncio.gather(ask(stack, large), *(ask(stack, chat(str(number))) for number in range(5)))
    assert {answer.status_code for answer in answers} == {200}
    assert posts(stack.large)[0].size > 1_200_000
    small = await start({"server": {"port": 0, "max_body": "1MiB"}})
    refused = await ask(small, large)
    assert (refused.status_code, refused.json()["error"]["code"]) == (413, "body_too_large")
    assert (await ask(small, chat())).status_code == 200


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions"])
async def test_the_usage_chunk_is_the_backends_own(stack, path):
    """W1, W5: asked for, the usage chunk has exactly `choices: []` and stands right before [DONE]."""
    body = {"model": "small-model", "prompt": "[[say: a b]]", "messages": chat("[[say: a b]]")["messages"], "stream": True}
    body.pop("messages" if path == "/v1/completions" else "prompt")
    answer = await ask(stack, {**body, "stream_options": {"include_usage": True}}, path=path)
    *rest, last, done = payloads(answer.text)
    assert done == "[DONE]"
    assert (last["choices"], last["usage"]["completion_tokens"]) == ([], posts(stack.small)[0].tokens)
    assert all(chunk["choices"] for chunk in rest)


@pytest.mark.parametrize("stream", [False, True], ids=["json", "sse"])
async def test_a_prompt_over_the_context_is_a_400_before_any_byte(stack, stream):
    """W8: the backend's 400 reaches a client that streams as JSON with a status, not as an event in a 200."""
    answer = await ask(stack, chat("word " * 40_000, stream=stream))
    assert answer.status_code == 400
    assert answer.headers["content-type"].startswith("application/json")
    assert "maximum context length" in answer.json()["error"]["message"]


@pytest.mark.parametrize("split", [1, 2, 3, 7])
@pytest.mark.parametrize("fields", [{}, GREEDY], ids=["alone", "cacheable"])
async def test_text_survives_however_its_bytes_are_cut(stack, split, fields):
    """W11: characters of several bytes, cut anywhere between reads, arrive as they were, also in what is kept."""
    text = "你好，世界 👋🏽 naïve 🇩🇪"
    stack.small.faults.add(split=split)
    for _ in range(2):
        answer = await ask(stack, chat(f"[[say: {text}]]", stream=True, **fields))
        assert said(answer)[0]["content"] == text
        assert "\ufffd" not in answer.text


async def test_parallel_tool_calls_pass_by_their_index(stack):
    """W13, W15, W16, W19: two calls streamed keep indices, names and arguments; finish_reason is null until the end."""
    calls = [{"name": "search", "arguments": {"q": "x" * 40}}, {"name": "circular", "arguments": {"q": "y" * 40}}]
    stack.small.app.author.script = Script.of([{"tool_calls": calls}])
    answer = await ask(stack, chat("go", stream=True))
    deltas = [call for chunk in payloads(answer.text)[:-1] for call in chunk["choices"][0]["delta"].get("tool_calls") or []]
    assert {call["index"] for call in deltas} == {0, 1}
    assert [(name, json.loads(arguments)) for _, name, arguments in said(answer)[0]["tools"]] == [
        (call["name"], call["arguments"]) for call in calls
    ]
    assert said(answer)[0]["finish"] == "tool_calls"


@pytest.mark.parametrize("content", [None, ""])
async def test_an_assistant_message_without_content_is_forwarded(stack, content):
    """W18: content null or empty beside tool calls goes upstream as it is."""
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": content, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "1"},
    ]
    assert (await ask(stack, {"model": "small-model", "messages": messages})).status_code == 200
    assert posts(stack.small)[0].body["messages"] == messages


async def test_logprobs_pass_as_they_are(stack):
    """W21: logprobs without top_logprobs have an empty list, as the backend sent it."""
    answer = await ask(stack, chat("[[say: a b]]", logprobs=True))
    assert [token["top_logprobs"] for token in answer.json()["choices"][0]["logprobs"]["content"]][:1] == [[]]


async def test_reasoning_is_streamed(stack):
    """W22: deltas of reasoning reach the client as they come, before the content."""
    answer = await ask(stack, chat("[[reason: let me think]] [[say: yes]]", stream=True))
    kinds = [key for c in payloads(answer.text)[:-1] for key in ("reasoning", "content") if c["choices"][0]["delta"].get(key)]
    assert kinds[0] == "reasoning"
    assert (said(answer)[0]["reasoning"], said(answer)[0]["content"]) == ("let me think", "yes")


async def test_the_role_developer_is_forwarded_and_so_is_its_refusal(stack):
    """W24: no role is rewritten; a backend's 400 for one passes byte for byte."""
    messages = [{"role": "developer", "content": "be brief"}, {"role": "user", "content": "hi"}]
    assert (await ask(stack, {"model": "small-model", "messages": messages})).status_code == 200
    assert posts(stack.small)[0].body["messages"] == messages
    flat = '{"object":"error","message":"Unexpected message role.","type":"BadRequestError","code":400}'
    stack.small.faults.add(status=400, body=flat)
    answer = await ask(stack, {"model": "small-model", "messages": messages})
    assert (answer.status_code, answer.text) == (400, flat)


@pytest.mark.parametrize(
    ("body", "how", "status"),
    [
        (b'{"stream": true, x}', {}, 400),
        (b"", {}, 400),
        (b"[1]", {}, 400),
        (b"\xff\xfe", {}, 400),
        (b"[" * 5000, {}, 400),
        (b'{"model":"small-model","model":"large-model"}', {}, 400),
        (b'{"model":"small-model","n":1e400}', {}, 400),
        (chat(stream="yes"), {}, 400),
        (chat(n=129), {}, 400),
        (chat(max_tokens="many"), {}, 400),
        (chat(), {"headers": {"content-encoding": "zstd"}}, 415),
        (chat(), {"method": "PUT"}, 405),
        (chat(), {"path": "/v1/nothing"}, 404),
        (chat(), {"key": "wrong"}, 401),
        (chat(model="none"), {}, 404),
    ],
)
async def test_errors_of_ours_have_one_shape(stack, body, how, status):
    """W28, W29, W30: JSON with all four keys, a string code, and never a 500; the next request on the gateway is fine."""
    answer = await ask(stack, body, **how)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/json"
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert isinstance(error["code"], str)
    assert posts(stack.small) == []
    assert (await ask(stack, chat())).status_code == 200


@pytest.mark.parametrize("path", ROUTES)
async def test_a_body_that_is_no_json_is_a_400_on_every_route(stack, path):
    """W30: whatever the route, and though its model would not serve it: JSON with a status, and nothing upstream."""
    answer = await ask(stack, b'{"stream": true, x}', path=path)
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/json")
    assert answer.json()["error"]["code"] == "invalid_json"
    assert asked(stack.small) == asked(stack.large) == []


async def test_a_backends_retry_after_reaches_the_client(stack):
    """W32: the bare header of an upstream 429 that could not be helped."""
    stack.small.faults.add(status=429, headers={"retry-after": "7"})
    answer = await ask(stack, chat())
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "7")


async def test_the_model_list_is_json(stack):
    """W33: GET /v1/models says application/json, also for HEAD."""
    answer = await ask(stack, b"", method="GET", path="/v1/models")
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["object"] == "list"
    head = await stack.client.head("/v1/models", headers={"authorization": f"Bearer {KEY}"})
    assert (head.status_code, head.headers["content-type"], head.content) == (200, "application/json", b"")


async def test_a_long_unstreamed_request_ends_in_a_504_that_advises(start):
    """W37: the total timeout of an unstreamed request is a 504 as JSON that says to stream."""
    stack = await start({"timeouts": {"total": "200ms"}})
    stack.small.faults.add(hang_before_headers=True)
    answer = await ask(stack, chat())
    assert answer.status_code == 504
    assert "stream" in answer.json()["error"]["message"]


async def test_a_broken_replica_heals(start):
    """W44: five failures take a replica out, and once it works again requests go to it without a restart."""
    stack = await start(
        {"models": {0: {"balance": {"kind": "round_robin"}}}, "breaker": {"open": "20ms", "max_open": "50ms"}}, fakes=dict(TWO)
    )
    bad = stack.fakes["s1"]
    bad.faults.add(status=500)
    pool = station(stack).pool
    async with asyncio.timeout(10):
        while next(replica for replica in pool.stats() if replica.name == "s1").breaker == "closed":
            assert (await ask(stack, chat())).headers["x-tiergate-replica"] == "s2"
    bad.faults.clear()
    async with asyncio.timeout(10):
        while (await ask(stack, chat())).headers["x-tiergate-replica"] != "s1":
            pass
    await stack.until(lambda: {replica.breaker for replica in pool.stats()} == {"closed"})
    assert {line["status"] for line in stack.log.lines} == {200}


async def test_streaming_under_a_token_limit_is_counted(start):
    """W41: streams, aborted ones included, use up the tenant's tokens until it is refused."""
    stack = await start({"tenants": [tenant("acme", KEY, tpm=300)]}, fakes={"s1": Options(itl=0.001), "l1": Options()})
    statuses = []
    for _ in range(12):
        async with wire(stack.gateway.port) as one:
            one.send(chat("[[tokens: 400]]", stream=True))
            statuses.append(await one.head())
            if statuses[-1] == 200:
                for _ in range(30):
                    await one.piece()
        await stack.until(stack.idle)
    assert statuses[0] == 200
    assert statuses[-1] == 429


async def test_two_tenants_with_one_request_each_pay_for_their_own(start):
    """W46, from the purse's side: what one tenant asks costs the other nothing, though the words are the same."""
    stack = await start({"tenants": [tenant("acme", KEY, tpm=10**6), tenant("globex", OTHER_KEY, tpm=10**6)]})
    for key in (KEY, OTHER_KEY):
        answer = await ask(stack, chat("[[tokens: 9]]", **GREEDY), key=key)
        assert answer.headers["x-tiergate-cache"] == "miss"
        assert usage(answer)["completion_tokens"] == 9
    log = await lines(stack, 2)
    assert log[0]["charged_tokens"] == log[1]["charged_tokens"] > 0
