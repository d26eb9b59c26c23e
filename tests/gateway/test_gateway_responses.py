"""/v1/responses through the gateway: forwarded untouched, settled by its own usage, broken in its own framing."""

import asyncio
import json

import openai
import pytest

from gateway.lab.fake import Options

KEY = "tg-test-key-of-acme"
PATH = "/v1/responses"
ALL = ["chat", "responses"]


@pytest.fixture
async def gateway(start):
    """The small model serves responses, the large one does not."""
    changes = {"models": {0: {"endpoints": ALL}}, "tenants": {0: {"tpm": 1_000_000}}}
    return await start(changes, fakes={"s1": Options(enable_prompt_tokens_details=True), "l1": Options()})


@pytest.fixture
async def sdk(gateway):
    async with openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key=KEY, max_retries=0) as sdk:
        yield sdk


async def ask(gateway, path=PATH, **fields):
    body = {"model": "small-model", "input": "[[say: hello]]", **fields}
    return await gateway.client.post(path, json=body, headers={"authorization": f"Bearer {KEY}"})


def events(text):
    """(event name, payload) of each event."""
    parts = [part.split("\n") for part in text.split("\n\n") if part]
    assert all(len(part) == 2 for part in parts)
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in parts]


@pytest.mark.parametrize(
    "path", [PATH, "/responses", "/v1/responses/", "/openai/v1/responses", "/openai/responses?api-version=1"]
)
async def test_an_answer_is_settled_by_its_usage(gateway, path):
    """input_tokens and output_tokens are what the tenant pays and the log tells, cached ones apart."""
    answer = await ask(gateway, path)
    assert answer.status_code == 200
    usage = answer.json()["usage"]
    line = await gateway.line()
    assert (line["endpoint"], line["outcome"], line["stream"]) == ("responses", "ok", False)
    assert (line["prompt_tokens"], line["completion_tokens"]) == (usage["input_tokens"], usage["output_tokens"])
    assert line["charged_tokens"] == usage["total_tokens"]
    assert line["cached_tokens"] == usage["input_tokens_details"]["cached_tokens"]
    assert answer.headers["x-tiergate-cache"] == "bypass; reason=not-deterministic"
    assert int(answer.headers["x-ratelimit-remaining-tokens"]) > 0
    await gateway.at_rest()


async def test_a_stream_passes_untouched_and_is_settled(gateway):
    """Every byte of the named events comes back, there is no [DONE], and the usage of response.completed is charged."""
    answer = await ask(gateway, stream=True)
    told = events(answer.text)
    assert told[0][0] == "response.created"
    assert told[-1][0] == "response.completed"
    assert [payload["sequence_number"] for _, payload in told] == list(range(len(told)))
    line = await gateway.line()
    assert line["charged_tokens"] == told[-1][1]["response"]["usage"]["total_tokens"]
    assert line["ttft_ms"] is not None
    assert (line["outcome"], line["stream"]) == ("ok", True)
    sent = gateway.small.calls[-1].body
    assert "stream_options" not in sent
    assert sent["model"] == "fake"


async def test_privileged_fields_are_deleted_and_ours_are_set(start):
    """A tenant's own engine fields go, the gateway's salt and priority come: vLLM reads both here."""
    changes = {"models": {0: {"endpoints": ALL, "scheduling_policy": "priority"}}, "cache": {"prefix": {"isolate": "tenant"}}}
    gateway = await start(changes)
    answer = await ask(gateway, priority=-9, request_id="mine", kv_transfer_params={"a": 1}, cache_salt="theirs")
    assert answer.status_code == 200
    sent = gateway.small.calls[-1].body
    assert "request_id" not in sent
    assert "kv_transfer_params" not in sent
    assert sent["priority"] == 0
    assert len(sent["cache_salt"]) == 32


async def test_a_model_that_does_not_serve_it(gateway):
    """A clear 404 of ours, and nothing is sent to the backend."""
    answer = await ask(gateway, model="large-model")
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "endpoint_not_served"
    assert not gateway.large.calls


async def test_auto_chooses_among_those_that_serve_it(gateway):
    """`auto` never sends it to a model that does not list it."""
    answer = await ask(gateway, model="auto", input="Prove the Riemann hypothesis step by step, rigorously.")
    assert answer.headers["x-tiergate-model"] == "small-model"


async def test_auto_reads_the_ask_from_input(start):
    """Under `auto` the score and the needs come from `input`: a hard ask goes up, a picture goes to the model that sees."""
    both = {0: {"endpoints": ALL, "capabilities": []}, 1: {"endpoints": ALL, "capabilities": ["vision", "tools"]}}
    gateway = await start({"models": both})
    easy = await ask(gateway, model="auto", input="hi")
    part = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}
    seen = await ask(gateway, model="auto", input=[{"role": "user", "content": [{"type": "input_text", "text": "hi"}, part]}])
    assert (easy.headers["x-tiergate-model"], easy.headers["x-tiergate-route"]) == ("small-model", "score")
    assert (seen.headers["x-tiergate-model"], seen.headers["x-tiergate-route"]) == ("large-model", "capability")


@pytest.mark.parametrize("field", [{"previous_response_id": "resp_1"}, {"background": True}, {"conversation": "conv_1"}])
async def test_what_needs_a_kept_answer_is_refused(gateway, field):
    """State of one replica is no state of the fleet: a 400 that names the field, null being no use of it."""
    answer = await ask(gateway, **field)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "unsupported_field"
    assert answer.json()["error"]["param"] == next(iter(field))
    assert (await ask(gateway, **dict.fromkeys(field))).status_code == 200


@pytest.mark.parametrize(("method", "rest"), [("GET", "/resp_1"), ("DELETE", "/resp_1"), ("POST", "/resp_1/cancel")])
async def test_stored_responses_are_not_served(gateway, method, rest):
    """Retrieving, deleting and cancelling are 404s that say why."""
    answer = await gateway.client.request(method, PATH + rest, headers={"authorization": f"Bearer {KEY}"})
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "response_not_stored"


async def test_max_output_tokens_is_what_is_reserved(start):
    """A request for more output than the tenant's minute holds can never fit: 400 before anything is sent."""
    gateway = await start({"models": {0: {"endpoints": ALL}}, "tenants": {0: {"tpm": 2000}}})
    answer = await ask(gateway, max_output_tokens=5000)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "request_too_large")
    assert (await ask(gateway, max_output_tokens=500)).status_code == 200


@pytest.mark.parametrize("fault", [{"cut_after_tokens": 3}, {"drop_done": True}])
async def test_a_stream_without_its_end_is_broken(gateway, fault):
    """Cut off, or ended without response.completed: an error event in the API's own framing closes it, and it is logged so."""
    gateway.small.faults.add(**fault, times=1)
    answer = await ask(gateway, stream=True, input="[[tokens: 9]]")
    name, payload = events(answer.text)[-1]
    assert name == payload["type"] == "error"
    assert set(payload["error"]) == {"message", "type", "param", "code"}
    assert payload["code"] == payload["error"]["code"] == "stream_broken"
    line = await gateway.line()
    assert line["outcome"] == "broken_stream"
    assert line["charged_tokens"] > 0
    await gateway.at_rest()


async def test_an_error_event_of_the_backend_is_not_followed_by_ours(gateway):
    """What the backend said went wrong is the last word, and the request is logged as broken."""
    gateway.small.faults.add(error_in_stream=2, times=1)
    told = events((await ask(gateway, stream=True, input="[[tokens: 9]]")).text)
    assert [name for name, _ in told].count("error") == 1
    assert (await gateway.line())["outcome"] == "broken_stream"


async def test_an_error_as_the_first_event_moves_on(start):
    """Before anything was sent to the client another replica may answer."""
    gateway = await start({"models": {0: {"endpoints": ALL}}}, fakes={"s1": Options(), "s2": Options(), "l1": Options()})
    body = 'event: error\ndata: {"type":"error","code":"server_error","message":"no"}\n\n'
    for fake in ("s1", "s2"):
        gateway.fakes[fake].faults.add(status=200, body=body, headers={"content-type": "text/event-stream"}, times=1)
    answer = await ask(gateway, stream=True)
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "upstream_error")
    assert (await gateway.line())["attempts"] == 2


async def test_the_sdk(gateway, sdk):
    """The OpenAI SDK reads whole answers, streams and their helper, function calls, and errors in the middle of a stream."""
    answer = await sdk.responses.create(model="small-model", input="[[say: hello there]]")
    assert answer.output_text == "hello there"
    async with sdk.responses.stream(model="small-model", input="[[say: hello there]]") as stream:
        final = await stream.get_final_response()
    assert final.output_text == "hello there"
    assert final.usage.output_tokens > 0
    tool = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}}
    called = await sdk.responses.create(model="small-model", input="x", tools=[tool], tool_choice="required")
    assert called.output[0].name == "look"
    gateway.small.faults.add(cut_after_tokens=3, times=1)
    broken = await sdk.responses.create(model="small-model", input="[[tokens: 20]]", stream=True)
    with pytest.raises(openai.APIError, match="broke"):
        assert not [event async for event in broken if event.type == "response.completed"]
    with pytest.raises(openai.BadRequestError) as caught:
        await sdk.responses.create(model="small-model", input="x", previous_response_id="resp_1")
    assert caught.value.code == "unsupported_field"


TOOL = {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}}
KINDS = {
    "text": {"input": "[[say: Grüße, 你好 👋🏽 and good bye]]"},
    "calls": {"input": '[[say: let me look]] [[tool: look {"a": "ü"}]]', "tools": [TOOL]},
    "reasoning": {"input": "[[reason: they greet me]] [[say: hello]]"},
}


def whole(answer):
    """The answer, of a body or of a stream's last event, less what the fake tells in only one of the two."""
    body = (
        answer.json() if answer.headers["content-type"].startswith("application/json") else events(answer.text)[-1][1]["response"]
    )
    return body["id"], body["output"], body["usage"]


@pytest.mark.parametrize("fill", [False, True], ids=["json", "sse"])
@pytest.mark.parametrize("read", [False, True], ids=["json", "sse"])
@pytest.mark.parametrize("kind", KINDS)
async def test_a_hit_says_what_the_answer_said(gateway, kind, fill, read):
    """Filled and read in either form, a hit is the same answer: its id, every item, its usage."""
    first = await ask(gateway, **KINDS[kind], temperature=0, stream=fill)
    second = await ask(gateway, **KINDS[kind], temperature=0, stream=read)
    assert [answer.headers["x-tiergate-cache"] for answer in (first, second)] == ["miss", "exact"]
    assert len(gateway.small.calls) == 1
    assert whole(second) == whole(first)
    if read:
        told = events(second.text)
        assert [name for name, _ in told[:3]] == ["response.created", "response.in_progress", "response.output_item.added"]
        assert [(payload["type"], payload["sequence_number"]) for _, payload in told] == [(n, i) for i, (n, _) in enumerate(told)]
        assert told[-1][0] == "response.completed"


async def test_the_sdk_reads_a_replay(gateway, sdk):
    """The SDK's stream helper ends with the answer that was kept from a body, and reads a body kept from a stream."""
    asked = {"model": "small-model", "input": "[[say: hello there, whoever you are]]", "temperature": 0}
    kept = await sdk.responses.create(**asked)
    async with sdk.responses.stream(**asked) as stream:
        pieces = [event.delta async for event in stream if event.type == "response.output_text.delta"]
        final = await stream.get_final_response()
    assert len(pieces) > 2
    assert ("".join(pieces), final.id, final.usage) == (kept.output_text, kept.id, kept.usage)
    assert len(gateway.small.calls) == 1


async def test_identical_requests_at_once_are_one_call(start):
    """Streams follow live, the others get the answer that the stream ends with, and all of them the same."""
    gateway = await start({"models": {0: {"endpoints": ALL}}}, fakes={"s1": Options(ttft=0.05), "l1": Options()})
    answers = await asyncio.gather(*(ask(gateway, temperature=0, stream=bool(number % 2)) for number in range(6)))
    assert sorted(answer.headers["x-tiergate-cache"] for answer in answers) == ["miss"] + ["shared"] * 5
    assert len(gateway.small.calls) == 1
    assert len({whole(answer)[0] for answer in answers}) == 1


async def test_nobody_is_told_of_another_user(gateway):
    """The answer repeats `metadata` and `user`, so requests that differ in them share nothing."""
    for user in ("alice", "bob"):
        answer = await ask(gateway, temperature=0, user=user, metadata={"of": user})
        assert answer.headers["x-tiergate-cache"] == "miss"
        assert (answer.json()["user"], answer.json()["metadata"]) == (user, {"of": user})


async def test_an_answer_that_was_cut_is_not_kept(gateway):
    """An incomplete answer passes on, in either form, and is asked anew."""
    for stream in (False, True, False):
        answer = await ask(gateway, input="[[tokens: 20]]", max_output_tokens=3, temperature=0, stream=stream)
        assert answer.headers["x-tiergate-cache"] == "miss"
    assert len(gateway.small.calls) == 3


async def test_tools_of_the_server_are_not_kept(gateway):
    """What such a tool finds or does is another time's, and the header says why nothing is kept."""
    for _ in range(2):
        answer = await ask(gateway, temperature=0, tools=[{"type": "web_search"}])
        assert answer.headers["x-tiergate-cache"] == "bypass; reason=tools"
