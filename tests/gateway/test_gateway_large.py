"""Large bodies: what they cost others, and that nothing of them is lost."""

import asyncio
import base64
import gc
import hashlib
import json
import random
import time
from types import SimpleNamespace

import msgspec
import pytest
from byte_upstream import ByteUpstream
from gateway_talk import GREEDY, ask, chat
from sse_texts import choice, chunk

from caches.key import exact_key
from gateway.lab.fake import Options

ROOMY = Options(max_model_len=2**22, kv_blocks=2**18)
STREAM = f"data: {json.dumps(chunk([choice('hi', 'stop')]))}\n\ndata: [DONE]\n\n".encode()
WHOLE = json.dumps(
    {"choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}]}
).encode()
STEPS = 5
"""Of what decoding the body once costs: the longest that the loop may be kept at a stretch."""
TEXT_STEPS = 14
"""The same of a text, which is decoded in a third of a millisecond."""


def picture(size, seed=1):
    data = base64.b64encode(random.Random(seed).randbytes(size * 3 // 4)).decode()
    shown = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
    return [{"type": "text", "text": "what is this?"}, shown]


def about(size, seed=1, **fields):
    return chat(messages=[{"role": "user", "content": picture(size, seed)}], **fields)


@pytest.mark.parametrize("size", [100_000, 3 * 2**20])
async def test_a_picture_arrives_as_it_was_sent(start, size):
    """Whole, also where it is worked on in steps; the same one is a hit, one that differs in its last byte is none."""
    async with ByteUpstream() as upstream:
        stack = await start({"models": {0: {"replicas": {0: {"url": upstream.url}}, "context": None}}})
        body = about(size, **GREEDY, stream=True)
        upstream.play(STREAM)
        assert (await ask(stack, body)).content == STREAM
        assert json.loads(upstream.received)["messages"] == body["messages"]
        assert (await ask(stack, body)).headers["x-tiergate-cache"] == "exact"
        url = body["messages"][0]["content"][1]["image_url"]
        url["url"] = url["url"][:-1] + ("A" if url["url"][-1] != "A" else "B")
        assert (await ask(stack, body)).headers["x-tiergate-cache"] == "miss"
        await stack.at_rest()


async def test_one_over_the_bound_and_one_in_time(start):
    """Large bodies of one tenant at once, more than one of them above the bound: each has its own answer."""
    changes = {"models": {0: {"context": None}}, "server": {"port": 0, "max_body": "3MiB"}}
    stack = await start(changes, fakes={"s1": ROOMY, "l1": Options()})
    sizes = [2_900_000, 3_300_000, 2_500_000, 3_300_000]
    answers = await asyncio.gather(*(ask(stack, about(size, seed)) for seed, size in enumerate(sizes)))
    assert [answer.status_code for answer in answers] == [200, 413, 200, 413]
    assert {answer.json()["error"]["code"] for answer in answers if answer.status_code == 413} == {"body_too_large"}


def form(size):
    """A recording, and the model that is to hear it."""
    sound = random.Random(1).randbytes(size)
    head = b'--edge\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\nContent-Type: audio/wav\r\n\r\n'
    return head + sound + b'\r\n--edge\r\nContent-Disposition: form-data; name="model"\r\n\r\nsmall-model\r\n--edge--\r\n'


LARGEST = 2**24 - 4096
LARGE = {
    "picture": (json.dumps(about(LARGEST, **GREEDY, stream=True)).encode(), {}, STREAM),
    "recording": (
        form(LARGEST),
        {"path": "/v1/audio/transcriptions", "headers": {"content-type": "multipart/form-data; boundary=edge"}},
        b'{"text":"hi"}',
    ),
}


@pytest.mark.parametrize("kind", LARGE)
async def test_others_have_their_turn_while_a_large_body_is_read(start, kind):
    """The loop is kept no longer at a stretch than a few readings of the body take, counted in CPU of its own thread."""
    raw, how, told = LARGE[kind]
    async with ByteUpstream() as upstream:
        small = {"replicas": {0: {"url": upstream.url}}, "context": None, "endpoints": ["chat", "audio"]}
        stack = await start({"models": {0: small}, "server": {"port": 0, "max_body": "16MiB"}})
        upstream.play(told, content_type="text/event-stream" if kind == "picture" else "application/json")
        once = min(_cpu(lambda: msgspec.json.decode(LARGE["picture"][0])) for _ in range(5))
        found = []
        for number in range(2):
            body = raw.replace(b"what is this", b"what is %04d" % number)
            step, answer = await _longest_step(stack, body, how)
            assert (answer.status_code, answer.content) == (200, told)
            assert len(upstream.received) >= LARGEST
            found.append(step)
    assert min(found) < STEPS * once, (found, once)


@pytest.mark.parametrize("model", ["small-model", "auto"])
async def test_others_have_their_turn_while_a_long_prompt_is_read(start, model):
    """The same of a megabyte of text, which is looked at for what its beginning shares with others as well."""
    text = " ".join(random.Random(1).choices(["prove", "that", "the", "model", "is", "as", "good", "as"], k=200_000))
    raw = json.dumps(chat(text, model=model, **GREEDY)).encode()
    once = min(_cpu(lambda: msgspec.json.decode(raw)) for _ in range(5))
    found = []
    async with ByteUpstream() as one, ByteUpstream() as two:
        models = {n: {"context": None, "replicas": {0: {"url": one.url}, 1: {"url": two.url}}} for n in range(2)}
        stack = await start({"models": models}, fakes={name: Options() for name in ("s1", "s2", "l1", "l2")})
        for number in range(3):
            for upstream in (one, two):
                upstream.play(WHOLE, content_type="application/json")
            step, answer = await _longest_step(stack, raw.replace(b"prove", b"prov%d" % number, 1), {})
            assert (answer.status_code, answer.content) == (200, WHOLE)
            found.append(step)
    assert min(found) < TEXT_STEPS * once, (found, once)


def _cpu(work):
    began = time.thread_time()
    work()
    return time.thread_time() - began


async def _longest_step(stack, raw, how):
    """CPU seconds of the longest turn of the loop while that is asked, and the answer."""
    edge, turns = stack.gateway.parts.edge, []

    async def watch():
        last = time.thread_time()
        while True:
            await asyncio.sleep(0)
            last, before = time.thread_time(), last
            turns.append(last - before)

    gc.collect()
    gc.disable()
    watching = asyncio.create_task(watch())
    try:
        answer = await ask(stack, raw, **how)
    finally:
        watching.cancel()
        gc.enable()
    await stack.until(lambda: not edge.running)
    return max(turns), answer


def test_a_digest_stands_for_a_long_body():
    """The secret, the models and every byte of a long body are in its key still, and another spelling of it is the same."""

    def key(body, **how):
        known = {"secret": b"s", "scope": SimpleNamespace(tag="t"), "endpoint": "chat", "models": [("m", "1")], "tier": None}
        return exact_key(**{**known, **how}, body=body)

    long = {"messages": [{"content": "x" * 100_000}], "n": 1}
    assert key(long) == key({"n": 1.0, **long})
    others = [{**long, "n": 2}, *({**long, "messages": [{"content": text}]} for text in ("x" * 99_999 + "y", "x" * 100_001))]
    keys = [key(long), *map(key, others), key(long, secret=b"z"), key(long, models=[("m", "2")]), key(long, tier="small")]
    assert len(set(keys)) == len(keys)
    assert hashlib.sha256(b"").digest() not in keys
