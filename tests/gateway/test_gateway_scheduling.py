"""What the queue is told of requests, before and after, through the whole gateway: predictions, costs, deadlines."""

import time

from gateway_talk import ask, chat, hold, posts, queued, station, wire
from test_gateway_queue import waiting

from limits.waiting import Priority, SlotAsk


def accounts(stack):
    """What each class was charged, in tokens, and how many charges await their correction."""
    lines = station(stack).scheduler.queue._lines
    return [(line.account.counter / line._stride, line.account.running) for line in lines]


def predicted(stack, form):
    one = SlotAsk(Priority.REALTIME, "acme", 1, 1, 0.0, prompt=10, form=form)
    return station(stack).scheduler.predictor.predict(one)


async def test_what_was_used_is_charged_and_learned(start):
    """After an answer its real tokens stand on the account of its class, and the next ones are thought to be as long."""
    stack = await start()
    spent = 0
    for _ in range(30):
        usage = (await ask(stack, chat())).json()["usage"]
        spent += usage["prompt_tokens"] + 2 * usage["completion_tokens"]
    await stack.until(lambda: (spent, 0) in accounts(stack))
    assert predicted(stack, "chat") < 100


async def test_a_stream_is_charged_and_learned_too(start):
    """Its usage says what it cost; other forms of the same tenant are thought to be like it until something is known of them."""
    stack = await start()
    for _ in range(30):
        await ask(stack, chat(stream=True))
    await stack.until(lambda: not any(running for _, running in accounts(stack)))
    assert sum(charged for charged, _ in accounts(stack)) > 30 * 2 * 16
    assert predicted(stack, "chat+stream") < 100
    assert predicted(stack, "completions") < 100


async def test_what_failed_is_charged_nothing(start):
    """An engine that refuses has done nothing for its tenant, and nothing is learned of its answers."""
    stack = await start()
    refused = await ask(stack, chat(temperature=-5))
    assert refused.status_code == 400
    await stack.until(lambda: all(account == (0, 0) for account in accounts(stack)))
    assert predicted(stack, "chat") == 256


async def test_a_client_that_leaves_owes_no_correction(start):
    """Left while it waits or while it runs, no charge is left open."""
    stack = await start({"models": {0: {"concurrency": {"max": 1}}}})
    wake = hold(stack.small)
    async with wire(stack.gateway.port) as runs, wire(stack.gateway.port) as waits:
        runs.send(chat(stream=True))
        await stack.until(lambda: posts(stack.small))
        waits.send(chat(stream=True))
        await stack.until(lambda: queued(stack) == 1)
    await stack.until(lambda: station(stack).scheduler.inflight == 0)
    wake()
    assert not any(running for _, running in accounts(stack))


async def test_a_short_answer_goes_first(start):
    """Of one tenant's requests the one that can only be short overtakes one that may be long."""
    line = await waiting(start)
    await line.add("long", fields={"max_tokens": 4000})
    await line.add("short", fields={"max_tokens": 1})
    assert await line.order() == ["short", "long"]


async def test_first_come_first_served_is_a_setting(start):
    """With `per_token: null` no length overtakes."""
    line = await waiting(start, {"queue": {"order": {"per_token": None}}})
    await line.add("long", fields={"max_tokens": 4000})
    await line.add("short", fields={"max_tokens": 1})
    assert await line.order() == ["long", "short"]


async def test_the_earliest_deadline_goes_first(start):
    """Of one tenant's requests with deadlines of their own the most pressing is served first."""
    line = await waiting(start)
    await line.add("patient", headers={"x-tiergate-deadline-ms": "60000"})
    await line.add("pressed", headers={"x-tiergate-deadline-ms": "20000"})
    assert await line.order() == ["pressed", "patient"]


async def test_strict_classes_are_a_setting(start):
    """With `classes: strict` no batch request goes while a realtime one waits, whatever it costs."""
    line = await waiting(start, {"queue": {"order": {"classes": "strict"}}})
    await line.add("b", headers={"x-tiergate-priority": "batch"})
    for number in range(20):
        await line.add(f"r{number}", headers={"x-tiergate-priority": "realtime"})
    assert (await line.order())[-1] == "b"


async def test_strict_classes_starve_nobody(start):
    """A batch request that has waited twice `promote_after` is as urgent as any, and goes as the oldest."""
    line = await waiting(start, {"queue": {"order": {"classes": "strict", "promote_after": "10s"}}})
    scheduler = station(line.stack).scheduler
    await line.add("b", headers={"x-tiergate-priority": "batch"})
    scheduler._clock = lambda: time.monotonic() + 21
    for number in range(20):
        await line.add(f"r{number}", headers={"x-tiergate-priority": "realtime"})
    assert (await line.order())[0] == "b"
