"""What the gateway asks of the engine itself: priority, salted prefixes, counted tokens; and what the engine refuses."""

import asyncio
import itertools
import time
import uuid

import httpx
from e2e_fleet import headers_of
from e2e_programs import until


def asked(text, **more):
    return {"model": "small", "messages": [{"role": "user", "content": text}], "max_tokens": 4, "ignore_eos": True, **more}


async def first_token(client, name, tenant, order, body):
    async with client.stream("POST", "/v1/chat/completions", json={**body, "stream": True}, headers=headers_of(tenant)) as answer:
        assert answer.status_code == 200
        async for _ in answer.aiter_lines():
            if name is not None and name not in order:
                order.append(name)


async def test_a_higher_class_overtakes_in_the_engine(fleet):
    """With every place of the engine taken, realtime requests that came last are begun before batch requests that came first."""
    fleet.settle()
    order = []
    async with (
        httpx.AsyncClient(base_url=fleet.gateway.root, timeout=600, trust_env=False) as client,
        asyncio.TaskGroup() as tasks,
    ):

        async def send(name, tenant, tokens, running, waiting):
            body = asked(f"Count {name}.", max_tokens=tokens)
            tasks.create_task(first_token(client, name, tenant, order, body))
            await asyncio.to_thread(
                until, lambda: (fleet.small.running, fleet.small.waiting) == (running, waiting), f"{name} is in"
            )

        for at in range(8):  # of different lengths, so that one place gets free at a time
            await send(None, "bulk", 600 + 40 * at, at + 1, 0)
        for at in range(3):
            await send(f"batch {at}", "bulk", 4, 8, at + 1)
        for at in range(3):
            await send(f"realtime {at}", "acme", 4, 8, at + 4)
        assert fleet.gauge("tiergate_queue_depth") == 0, "they wait in the engine, not in the gateway"
    assert order == [f"{kind} {at}" for kind in ("realtime", "batch") for at in range(3)]
    fleet.settle()


def test_prefixes_are_shared_within_a_tenant_only(fleet, figures):
    """The engine's prefix cache serves a tenant's own prefixes, never another's; and log and metrics say how much it served."""
    text = f"{uuid.uuid4()} " + "The quick brown fox jumps over the lazy dog. " * 30
    cached, told = {}, {}
    for tenant, turn in itertools.product(("acme", "globex"), (1, 2)):
        before = {result: fleet.gauge("tiergate_prefix_tokens_total", model="small", result=result) for result in ("hit", "miss")}
        answer = fleet.post(asked(text), tenant=tenant)
        usage = answer.json()["usage"]
        cached[tenant, turn] = usage["prompt_tokens_details"]["cached_tokens"]
        line = fleet.line(answer.headers["x-request-id"])
        assert line["cached_tokens"] == cached[tenant, turn]
        assert (line["prompt_tokens"], line["completion_tokens"]) == (usage["prompt_tokens"], usage["completion_tokens"])
        told[tenant, turn] = {
            result: fleet.gauge("tiergate_prefix_tokens_total", model="small", result=result) - count
            for result, count in before.items()
        }
        assert told[tenant, turn]["hit"] == cached[tenant, turn]
        assert sum(told[tenant, turn].values()) == usage["prompt_tokens"]
    figures["cached tokens: tenant's first, again; another's first, again"] = ", ".join(map(str, cached.values()))
    assert cached["acme", 1] == cached["globex", 1] == 0
    assert cached["acme", 2] == cached["globex", 2] > 200
    assert cached["acme", 2] % 32 == 0, "whole blocks"


def test_a_streams_cached_tokens_reach_the_log(fleet):
    """Of a stream, too, although the client did not ask for its usage."""
    text = f"{uuid.uuid4()} " + "The quick brown fox jumps over the lazy dog. " * 30
    lines = []
    for _ in range(2):
        answer = fleet.post(asked(text, stream=True))
        assert '"usage"' not in answer.text
        lines.append(fleet.line(answer.headers["x-request-id"]))
    assert [line["cached_tokens"] > 200 for line in lines] == [False, True]
    assert [line["completion_tokens"] for line in lines] == [4, 4]


def test_a_prompt_too_long_moves_up(fleet):
    """Under `auto` the engine's 400 for a prompt beyond its context moves the request up; a pinned model's 400 passes on."""
    long = "word " * 1200
    moved = fleet.post(asked(long, model="auto"))
    assert moved.status_code == 200, moved.text
    assert (moved.headers["x-tiergate-model"], moved.headers["x-tiergate-route"]) == ("large", "context")
    streamed = fleet.post(asked(long, model="auto", stream=True))
    assert streamed.headers["x-tiergate-model"] == "large"
    assert streamed.text.endswith("data: [DONE]\n\n")
    pinned = fleet.post(asked(long))
    assert pinned.status_code == 400
    assert "maximum context length is 1024 tokens" in pinned.json()["error"]["message"]
    too_many = fleet.post(asked("Hi", model="auto", max_tokens=1500, ignore_eos=False, stop=[" "]))
    assert (too_many.status_code, too_many.headers["x-tiergate-model"]) == (200, "large"), too_many.text


def test_the_request_id_goes_through(fleet):
    """The client's id comes back, ours names the answer in the engine, and the log knows both."""
    answer = fleet.post(asked("Hi"), x_request_id="the-client's")
    assert answer.headers["x-request-id"] == "the-client's"
    line = fleet.line("the-client's")
    assert answer.json()["id"] == f"chatcmpl-{line['request_id']}"
    assert line["replica"] == "s1"


def test_a_wrong_key_is_the_operators_fault(fleet):
    """An engine that refuses the gateway's key makes a 502 that says so, not a 401 that the client would take for its own."""
    answer = fleet.post(asked("Hi", model="wrong-key"))
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "backend_misconfigured")
    assert "another-key" not in answer.text


def test_an_endpoint_that_the_engine_lacks(fleet):
    """Embeddings are a 404 of ours where the pool does not list them, and a 501 that no SDK retries where the engine has none."""
    body = {"model": "small", "input": "x"}
    assert fleet.post(body, path="/v1/embeddings").json()["error"]["code"] == "endpoint_not_served"
    wrong = fleet.post({**body, "model": "wrong-endpoint"}, path="/v1/embeddings")
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (501, "not_implemented")
    assert wrong.headers["x-should-retry"] == "false"


def test_privileged_fields_are_ours(fleet):
    """A tenant's own priority, salt and id neither reach the engine nor do harm."""
    answer = fleet.post(asked("Hi", priority="high", cache_salt="", request_id=5, kv_transfer_params="x"))
    assert answer.status_code == 200, answer.text


def test_tokens_a_second(fleet, figures):
    """Sixteen answers at once, each whole; the figure is this machine's at that moment."""
    fleet.settle()

    async def all_of_them():
        async with httpx.AsyncClient(base_url=fleet.gateway.root, timeout=600, trust_env=False) as client:
            started = time.monotonic()
            body = asked("Count.", model="both", max_tokens=64)
            answers = await asyncio.gather(
                *(client.post("/v1/chat/completions", json=body, headers=headers_of("acme")) for _ in range(16))
            )
            return answers, time.monotonic() - started

    answers, seconds = asyncio.run(all_of_them())
    assert [answer.json()["usage"]["completion_tokens"] for answer in answers] == [64] * 16
    assert {answer.headers["x-tiergate-replica"] for answer in answers} == {"b1", "b2"}
    figures["tokens/s, 16 at once on both servers"] = round(16 * 64 / seconds)


def test_sockets_that_stood_idle_are_no_failure(fleet):
    """vLLM closes them after five seconds: just before, then and just after, each request is one attempt that succeeds."""
    fleet.settle()

    async def in_rounds():
        told = []
        async with httpx.AsyncClient(base_url=fleet.gateway.root, timeout=600, trust_env=False) as client:
            for idle in (0, 3.9, 4.9, 5.0, 5.1):
                await asyncio.sleep(idle)
                bodies = [asked("Hi", max_tokens=1, stream=number % 2 == 0) for number in range(16)]
                sent = [client.post("/v1/chat/completions", json=body, headers=headers_of("acme")) for body in bodies]
                told += await asyncio.gather(*sent)
        return told

    answers = asyncio.run(in_rounds())
    assert {answer.status_code for answer in answers} == {200}
    assert {fleet.line(answer.headers["x-request-id"])["attempts"] for answer in answers} == {1}
