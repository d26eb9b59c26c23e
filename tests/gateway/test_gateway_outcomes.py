"""Every way out of a request: which of the closed set of outcomes it ends in, and that it is counted once, whoever decides."""

import asyncio
from collections import Counter

import pytest
from gateway_talk import (
    GREEDY,
    KEY,
    ask,
    chat,
    dial,
    freeze_limits,
    hold,
    lines,
    posts,
    queued,
    raw_request,
    scrape,
    station,
    tenant,
    total,
    wire,
)

from gateway.lab.fake import Options
from gateway.outcomes import OUTCOMES

POOR_KEY, SMALL_KEY, SPENT_KEY = "a-key-with-few-requests", "a-key-with-few-tokens", "a-key-without-budget"
BATCH, REALTIME = ({"x-tiergate-priority": name} for name in ("batch", "realtime"))
DEADLINE = {"x-tiergate-deadline-ms": "80"}
CHANGES = {
    "timeouts": {"connect": "1s", "first_token": "150ms", "between_tokens": "150ms", "total": "20s"},
    "models": {0: {"concurrency": {"max": 1}}},
    "routing": {"fallback": {}},
    "queue": {"max_requests": 1, "max_wait": {"standard": "60ms"}, "preempt": {"kind": "refuse", "within": "60s"}},
    "health": {"interval": "60s"},
    "breaker": {"failures": 1000},
    "tenants": [
        tenant("acme", KEY, rpm=100_000),
        tenant("initech", POOR_KEY, rpm=1),
        tenant("umbrella", SMALL_KEY, tpm=100, max_parallel=1),
        tenant("wayne", SPENT_KEY, budget={"day": 1}),
    ],
}
CONTENT = {"choices": [{"index": 0, "delta": {"content": "x"}, "finish_reason": None}]}
WAYS = {}


def way(*outcomes):
    """A way out: how many requests it sends, by how they are to end."""

    def note(play):
        WAYS[play.__name__] = Counter(outcomes), play
        return play

    return note


async def busy(stack, **how):
    """The one slot is taken; what is returned lets it go, and the answer."""
    wake, before = hold(stack.small), len(posts(stack.small))
    task = asyncio.create_task(ask(stack, chat("busy"), **how))
    await stack.until(lambda: len(posts(stack.small)) > before)

    async def end():
        wake()
        return await task

    return end


async def left(stack, body, condition, **how):
    """A client that leaves when the condition holds."""
    one = await dial(stack.gateway.port)
    one.send(body, **how)
    await stack.until(condition)
    one.leave()


async def told(stack, status, code, body, **how):
    answer = await ask(stack, body, **how)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


@way("ok", "ok", "ok")
async def answered(stack):
    """Whole, as a stream, and from the cache."""
    for body in (chat(**GREEDY), chat(stream=True), chat(**GREEDY)):
        assert (await ask(stack, body)).status_code == 200


@way("ok")
async def left_after_the_last_word(stack):
    """A stream has said that it is whole."""
    async with wire(stack.gateway.port) as one:
        one.send(chat(stream=True))
        await one.reader.readuntil(b"[DONE]")


@way(*["client_error"] * 6)
async def bad_requests(stack):
    await told(stack, 400, "invalid_json", b"{")
    await told(stack, 401, "invalid_api_key", chat(), key="no-such-key")
    await told(stack, 404, "model_not_found", chat(model="none"))
    await told(stack, 400, "invalid_header", chat(), headers={"x-tiergate-deadline-ms": "soon"})
    await told(stack, 405, "method_not_allowed", chat(), method="PUT")
    stack.small.faults.add(status=400, body={"error": {"message": "no"}}, times=1)
    assert (await ask(stack, chat())).status_code == 400


@way("client_error")
async def no_http(stack):
    async with wire(stack.gateway.port) as one:
        one.writer.write(b"NONSENSE\r\n\r\n")
        assert await one.head() == 400


@way("ok", *["limited"] * 5)
async def limits(stack):
    await ask(stack, chat(), key=POOR_KEY)
    await told(stack, 429, "rate_limit_exceeded", chat(), key=POOR_KEY)
    await told(stack, 400, "request_too_large", chat(max_tokens=5000), key=SMALL_KEY)
    await told(stack, 429, "insufficient_quota", chat(), key=SPENT_KEY)
    stack.large.faults.add(status=429, times=1)
    assert (await ask(stack, chat(model="large-model"))).status_code == 429
    stack.large.faults.add(status=429, times=1)
    assert (await ask(stack, chat(model="large-model", stream=True))).status_code == 429


@way("ok", "limited")
async def parallel(stack):
    end = await busy(stack, key=SMALL_KEY)
    await told(stack, 429, "concurrency_limit_exceeded", chat(), key=SMALL_KEY)
    await end()


@way("ok", "ok", "rejected")
async def queue_full(stack):
    end = await busy(stack)
    waits = asyncio.create_task(ask(stack, chat("waits"), headers=REALTIME))
    await stack.until(lambda: queued(stack) == 1)
    await told(stack, 503, "queue_full", chat("late"), headers=REALTIME)
    await end()
    await waits


@way("ok", "ok", "rejected")
async def pushed_out(stack):
    end = await busy(stack)
    waits = asyncio.create_task(ask(stack, chat("waits"), headers=BATCH))
    await stack.until(lambda: queued(stack) == 1)
    urgent = asyncio.create_task(ask(stack, chat("urgent"), headers=REALTIME))
    assert (await waits).json()["error"]["code"] == "queue_full"
    await end()
    await urgent


@way("rejected", "ok")
async def preempted(stack):
    wake, before = hold(stack.small), len(posts(stack.small))
    batch = asyncio.create_task(ask(stack, chat("batch"), headers=BATCH))
    await stack.until(lambda: len(posts(stack.small)) > before)
    urgent = asyncio.create_task(ask(stack, chat("urgent"), headers=REALTIME))
    assert (await batch).json()["error"]["code"] == "preempted"
    wake()
    await urgent


@way("ok", "timeout", "timeout")
async def waited_in_vain(stack):
    end = await busy(stack)
    await told(stack, 503, "queue_timeout", chat("late"), headers={"x-tiergate-priority": "standard"})
    await told(stack, 503, "queue_timeout", chat("late"), headers=DEADLINE)
    await end()


@way("timeout", "timeout", "timeout")
async def no_answer_in_time(stack):
    for body, how in ((chat(), {"headers": DEADLINE}), (chat(stream=True), {"headers": DEADLINE}), (chat(stream=True), {})):
        stack.small.faults.add(hang_before_headers=True, times=3)
        await told(stack, 504, "upstream_timeout", body, **how)
        stack.small.faults.clear()


@way("rejected")
async def only_if_cached(stack):
    await told(stack, 504, "not_cached", chat("never asked", **GREEDY), headers={"cache-control": "only-if-cached"})


@way("upstream_error", "upstream_error", "upstream_error")
async def failed(stack):
    for fault, code in (({"status": 500}, "upstream_error"), ({"status": 404}, "backend_misconfigured")):
        stack.small.faults.add(**fault, times=1)
        await told(stack, 502, code, chat())
    stack.small.faults.add(close_before_headers=True)
    await told(stack, 502, "upstream_error", chat())
    stack.small.faults.clear()


@way("broken_stream", "broken_stream")
async def broken(stack):
    stack.small.faults.add(cut_after_tokens=2, times=1)
    assert b"stream_broken" in (await ask(stack, chat("[[tokens: 9]]", stream=True))).content
    stack.small.faults.add(error_in_stream=2, times=1)
    assert b"error" in (await ask(stack, chat("[[tokens: 9]]", stream=True))).content


@way("client_gone", "client_gone", "client_gone", "ok", "client_gone")
async def gone(stack):
    """In mid-body, at a replica (whole and as a stream), in the queue."""
    one = await dial(stack.gateway.port)
    one.writer.write(raw_request(chat())[:-1])
    await stack.until(lambda: stack.gateway.parts.edge.running == 1)
    one.leave()
    await stack.until(lambda: not stack.gateway.parts.edge.running)
    for stream in (False, True):
        wake, before = hold(stack.small), len(posts(stack.small))
        await left(stack, chat(stream=stream), lambda before=before: len(posts(stack.small)) > before)
        await stack.until(lambda: not station(stack).scheduler.inflight)
        wake()
    end = await busy(stack)
    await left(stack, chat("waits"), lambda: queued(stack) == 1)
    await stack.until(lambda: not queued(stack))
    await end()


@way("client_gone", "ok")
async def one_of_two_who_share_goes(stack):
    """The answer is made for the other."""
    wake, before = hold(stack.small), len(posts(stack.small))
    one = await dial(stack.gateway.port)
    one.send(chat("shared", **GREEDY))
    await stack.until(lambda: len(posts(stack.small)) > before)
    other = asyncio.create_task(ask(stack, chat("shared", **GREEDY)))
    await stack.until(lambda: stack.gateway.parts.edge.running == 2)
    one.leave()
    await stack.until(lambda: stack.gateway.parts.edge.running == 1)
    wake()
    assert (await other).status_code == 200


@way("upstream_error", "upstream_error", "upstream_error")
async def three_who_share_a_failure(stack):
    """Each hears of it, and each is counted: the leader at once, the others after a second try."""
    wake, before = hold(stack.small), len(posts(stack.small))
    stack.small.faults.add(status=500)
    tasks = [asyncio.create_task(ask(stack, chat("doomed", **GREEDY))) for _ in range(3)]
    answers = await asyncio.gather(*tasks)
    stack.small.faults.clear()
    wake()
    assert {answer.status_code for answer in answers} == {502}
    assert len(posts(stack.small)) > before


@way("rejected")
async def no_replica(stack):
    [replica] = station(stack).pool.replicas
    replica.up = False
    station(stack).pool.refresh()
    await told(stack, 503, "no_replica_ready", chat())
    replica.up = True
    station(stack).pool.refresh()


@way("rejected")
async def draining(stack):
    edge = stack.gateway.parts.edge
    edge.draining = True
    await told(stack, 503, "draining", chat())
    edge.draining = False


@pytest.mark.parametrize("shuffled", [False, True], ids=["in order", "the other way round"])
async def test_every_way_out_ends_in_its_outcome_once(start, shuffled):
    """One after the other through the same gateway: log and counters agree, and their sum is what was sent."""
    stack = await start(CHANGES, fakes={"s1": Options(tokens=3), "l1": Options(tokens=3)})
    freeze_limits(stack)
    sent: Counter[str] = Counter()
    for name, (outcomes, play) in reversed(WAYS.items()) if shuffled else WAYS.items():
        known = len(stack.log.lines)
        await play(stack)
        sent += outcomes
        await lines(stack, sent.total())
        assert Counter(line["outcome"] for line in stack.log.lines[known:]) == outcomes, name
        await stack.at_rest()
    found = await scrape(stack)
    assert {name: total(found, "tiergate_requests_total", outcome=name) for name in OUTCOMES} == dict(sent)
    assert total(found, "tiergate_requests_total") == len(stack.log.lines) == sent.total()
    assert set(sent) == set(OUTCOMES)
    ends = {end: total(found, "tiergate_queue_ended_total", end=end) for end in ("dispatched", "expired", "refused", "left")}
    assert ends == {"dispatched": 3, "expired": 2, "refused": 2, "left": 1}


@pytest.mark.parametrize("stream", [False, True], ids=["json", "sse"])
async def test_the_end_of_the_process_is_an_outcome_too(start, stream):
    """What runs, waits or shares when the process ends hears so, and is counted once: rejected, or broken if it had begun."""
    stack = await start({"models": {0: {"concurrency": {"max": 1}}}, "server": {"port": 0, "drain_timeout": "50ms"}},
                        fakes={"s1": Options(itl=0.02, tokens=500), "l1": Options()})  # fmt: skip
    one = await dial(stack.gateway.port)
    one.send(chat("runs", stream=stream, **GREEDY))
    await stack.until(lambda: bool(posts(stack.small)))
    if stream:
        await one.head()
    others = [asyncio.create_task(ask(stack, chat(content, stream=stream, **GREEDY))) for content in ("runs", "waits")]
    await stack.until(lambda: queued(stack) == 1 and stack.gateway.parts.edge.running == 3)
    stack.gateway.signalled()
    await asyncio.gather(*others, return_exceptions=True)
    await stack.until(lambda: len(stack.log.lines) == 3)
    begun = 2 if stream else 0
    assert Counter(line["outcome"] for line in stack.log.lines) == +Counter({"broken_stream": begun, "rejected": 3 - begun})
    assert {line["error"] for line in stack.log.lines} == {"shutting_down"}
    one.leave()


async def test_a_dispatcher_that_stays_away_is_an_outcome_too(start, monkeypatch):
    """New requests and one that waits are rejected, each once; what runs goes on, and is counted when it ends."""
    monkeypatch.setattr("gateway.dispatch.ticket.PATIENCE", 0.05)
    stack = await start({"models": {0: {"concurrency": {"max": 1}}}}, workers=1)
    end = await busy(stack)
    waits = asyncio.create_task(ask(stack, chat("waits")))
    await stack.until(lambda: queued(stack) == 1)
    for session in list(stack.gateway.dispatcher.parts.node.sessions):
        session.channel.abort()
    stack.gateway.dispatcher._server.close()
    assert (await waits).json()["error"]["code"] == "dispatcher_away"
    await told(stack, 503, "dispatcher_away", chat())
    assert (await end()).status_code == 200
    await stack.until(lambda: len(stack.log.lines) == 3)
    assert Counter(line["outcome"] for line in stack.log.lines) == {"rejected": 2, "ok": 1}
    await stack.gateway.start_dispatcher()
