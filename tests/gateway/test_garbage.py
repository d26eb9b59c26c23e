"""What a request leaves in memory when it has ended: nothing that only the garbage collector would find."""

import asyncio
import gc
from contextlib import contextmanager

import pytest
from gateway_talk import KEY, ask, chat, hold, posts, tenant, wire

PRODUCT = ("gateway", "backends", "caches", "limits", "routing")
NOT_SERVED = "gateway.lab"  # whose engines are in the test's process, too
CACHED = {"temperature": 0}
STREAMED = {"stream": True}
POOR_KEY = "a-key-with-few-tokens"
NO = {"error": {"message": "no"}}
FAULTS = {
    "refused by its backend": {"s1": {"status": 400, "body": NO}},
    "for a path that its backend does not have": {"s1": {"status": 404, "body": NO}},
    "answered by the other model": {"s1": {"status": 503}},
    "answered by nobody": {"s1": {"status": 503}, "l1": {"status": 503}},
    "refused by all": {"s1": {"status": 429}, "l1": {"status": 429}},
    "broken off": {"s1": {"cut_after_tokens": 3}},
    "with an error in it": {"s1": {"error_in_stream": 2}},
    "too late for its client": {"s1": {"hang_before_headers": 0.2}},
}
WISHES = {"too late for its client": {"headers": {"x-tiergate-deadline-ms": "20"}}}
ENDS = [
    *FAULTS,
    "of a wrong key",
    "of no model",
    "beyond its limit",
    "in a full queue",
    "of a client that leaves",
    "a failed cascade",
]


@contextmanager
def seen_by_the_collector():
    """Objects of the product that nothing but the collector finds, once it is left."""
    left = []
    gc.collect()
    gc.disable()
    try:
        yield left
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        found = [type(one) for one in gc.garbage]
        left += [
            kind.__qualname__
            for kind in found
            if kind.__module__.split(".")[0] in PRODUCT and not kind.__module__.startswith(NOT_SERVED)
        ]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


@pytest.mark.parametrize("fields", [{}, CACHED, STREAMED, CACHED | STREAMED], ids=["kept by none", "cached", "streamed", "both"])
async def test_requests_leave_no_cycles(start, fields):
    """A request's own objects are freed as it ends, whether it is cached, streamed, both or neither."""
    stack = await start()

    async def some(first):
        for number in range(first, first + 5):
            assert (await stack.chat(f"hello {number}", **fields)).status_code == 200
        await stack.until(stack.idle)
        await asyncio.sleep(0)

    await some(0)
    with seen_by_the_collector() as left:
        await some(5)
    assert left == []


@pytest.mark.parametrize("workers", [0, 1], ids=["one process", "dispatcher apart"])
async def test_what_goes_wrong_leaves_no_cycles(start, workers):
    """However a request ends, its objects are freed then: an error refers to the frames that it went through, and none to it."""
    stack = await start(
        {
            "models": {0: {"concurrency": {"max": 1}}},
            "queue": {"max_requests": 1},
            "routing": {"routes": {"thrifty": {"cascade": {"price": 1000.0, "floor": 0.0}}}},
            "health": {"interval": "1h"},
            "tenants": [tenant("acme", KEY), tenant("initech", POOR_KEY, tpm=50)],
        },
        workers=workers,
    )
    found = {}
    for end in ENDS:
        await one(stack, end, f"{end} 1", {})
    gc.collect()
    gc.freeze()  # it is not walked once more for each
    for end in ENDS:
        for fields in ({}, CACHED | STREAMED):
            with seen_by_the_collector() as left:
                await one(stack, end, f"{end} {fields} 2", fields)
            if left:
                found[end, *fields] = left
    assert found == {}


async def one(stack, end, content, fields):
    """A request that ends so, from its head until nothing of it is held."""
    port = stack.gateway.port
    for name, fake in stack.fakes.items():
        fake.faults.clear()
        if name in FAULTS.get(end, {}):
            fake.faults.add(**FAULTS[end][name])
    if end == "in a full queue":
        wake = hold(stack.small)
        waiting = [asyncio.create_task(ask(stack, chat(f"{content} {number}", **fields))) for number in range(2)]
        await stack.until(lambda: stack.gateway.parts.lanes["small-model"].scheduler.queue.load.requests == 1)
        assert (await ask(stack, chat(content, **fields))).json()["error"]["code"] == "queue_full"
        wake()
        await asyncio.gather(*waiting)
    elif end == "of a client that leaves":
        wake, before = hold(stack.small), len(posts(stack.small))
        async with wire(port) as two:
            two.send(chat(content, **fields))
            await stack.until(lambda: len(posts(stack.small)) > before)
        await stack.until(lambda: not stack.gateway.parts.edge.running)
        wake()
    elif end == "a failed cascade":
        stack.small.faults.add(status=400, body=NO)
        await ask(stack, chat(content, model="thrifty"))
    elif end == "of a wrong key":
        assert (await ask(stack, chat(content, **fields), key="wrong")).status_code == 401
    elif end == "of no model":
        assert (await ask(stack, chat(content, model="made-up"))).status_code == 404
    elif end == "beyond its limit":
        assert (await ask(stack, chat(content, max_tokens=1000, **fields), key=POOR_KEY)).status_code == 400
    else:
        await ask(stack, chat(content, **fields), **WISHES.get(end, {}))
    await stack.until(stack.idle)
    for _ in range(3):
        await asyncio.sleep(0)
