"""Identical requests in flight: one upstream call, shared by all who may share it, whoever comes and goes meanwhile."""

import asyncio
import socket

import pytest
from gateway_talk import (
    GREEDY,
    KEY,
    OTHER_KEY,
    Wire,
    ask,
    chat,
    digest,
    freeze_limits,
    hold,
    lines,
    payloads,
    posts,
    queued,
    said,
    scrape,
    tenant,
    tokens_told,
    total,
    usage,
    wire,
)

from gateway.lab.fake import Options

SLOW = {"s1": Options(itl=0.01), "l1": Options()}
K2 = "a-second-key-of-acme"


def two_keys(**first):
    """The tenant acme with the key k1 (`first` are its settings) and an unlimited key k2."""
    acme = tenant("acme", KEY, key=first)
    acme["keys"].append({"id": "k2", "sha256": digest(K2)})
    return {"tenants": [acme]}


def aboard(stack):
    """How many wait for each answer that is being made."""
    return [len(flight.readers) for flight in stack.gateway.parts.flights._flights.values()]


async def test_fifty_identical_requests_are_one_upstream_call(stack):
    """Fifty at once: one call upstream, the same answer for all, one miss and forty-nine shared, tokens counted once."""
    wake = hold(stack.small)
    tasks = [asyncio.create_task(ask(stack, chat("[[tokens: 5]]", **GREEDY))) for _ in range(50)]
    await stack.until(lambda: aboard(stack) == [50])
    wake()
    answers = await asyncio.gather(*tasks)
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.content for answer in answers}) == 1
    assert len(posts(stack.small)) == 1
    assert sorted(answer.headers["x-tiergate-cache"] for answer in answers) == ["miss"] + ["shared"] * 49
    assert {answer.headers["x-tiergate-model"] for answer in answers} == {"small-model"}
    found = await scrape(stack)
    assert total(found, "tiergate_tokens_total", direction="completion") == stack.small.calls[0].tokens
    assert total(found, "tiergate_cache_lookups_total", result="shared") == 49
    assert total(found, "tiergate_requests_total", outcome="ok") == 50
    await stack.at_rest()


async def test_a_follower_has_no_tokens_of_its_own_in_the_log(stack):
    """Over the log lines of one shared answer the tokens and the charge add up to the one call that was made."""
    wake = hold(stack.small)
    tasks = [asyncio.create_task(ask(stack, chat("[[tokens: 5]]", **GREEDY, stream=i % 2 == 0))) for i in range(6)]
    await stack.until(lambda: stack.gateway.parts.edge.running == 6)
    wake()
    await asyncio.gather(*tasks)
    log = await lines(stack, 6)
    assert sorted(line["cache"] for line in log) == ["miss"] + ["shared"] * 5
    call = posts(stack.small)[0]
    assert sum(line["charged_tokens"] for line in log) == call.prompt_tokens + call.tokens
    assert sum(line["completion_tokens"] for line in log) == call.tokens
    assert sum(line["prompt_tokens"] for line in log) == call.prompt_tokens


@pytest.mark.parametrize("leader_streams", [False, True], ids=["json leads", "sse leads"])
async def test_followers_of_either_wire_format_get_the_answer_in_theirs(stack, leader_streams):
    """JSON and stream followers share one call, each in its own format, with the usage chunk only for those who asked."""
    wake = hold(stack.small)
    wishes = [
        {"stream": leader_streams},
        {},
        {"stream": True},
        {"stream": True, "stream_options": {"include_usage": True}},
        {},
    ]
    tasks = []
    for count, wish in enumerate(wishes, 1):
        tasks.append(asyncio.create_task(ask(stack, chat("[[reason: hm]] [[say: one two three]]", **GREEDY, **wish))))
        await stack.until(lambda count=count: stack.gateway.parts.edge.running == count)
    wake()
    answers = await asyncio.gather(*tasks)
    assert len(posts(stack.small)) == 1
    assert all(said(answer) == said(answers[1]) for answer in answers)
    assert said(answers[0])[0]["content"] == "one two three"
    kinds = [answer.headers["content-type"].split(";")[0] for answer in answers]
    assert kinds == [("text/event-stream" if wish.get("stream") else "application/json") for wish in wishes]
    assert [usage(answer) is not None for answer in answers] == [not leader_streams, True, False, True, True]
    assert usage(answers[3]) == usage(answers[1])
    assert [payloads(a.text)[-1] for a in (answers[2], answers[3])] == ["[DONE]", "[DONE]"]


async def test_a_late_follower_gets_the_whole_stream(start):
    """Who joins in the middle gets everything from the start."""
    stack = await start(fakes=SLOW)
    async with wire(stack.gateway.port) as leader:
        leader.send(chat("[[tokens: 30]]", **GREEDY, stream=True))
        await leader.head()
        first = [await leader.piece() for _ in range(5)]
        late = await ask(stack, chat("[[tokens: 30]]", **GREEDY, stream=True))
        rest = await leader.pieces()
    assert late.headers["x-tiergate-cache"] == "shared"
    assert late.content == b"".join([*first, *rest])
    assert len(posts(stack.small)) == 1


@pytest.mark.parametrize("stream", [False, True], ids=["json", "sse"])
async def test_the_leader_leaves_and_the_others_stay(start, stream):
    """The leader's departure ends nobody's answer, and the tokens are charged all the same."""
    stack = await start(fakes=SLOW)
    async with wire(stack.gateway.port) as leader:
        leader.send(chat("[[tokens: 30]]", **GREEDY, stream=stream))
        await stack.until(lambda: posts(stack.small))
        followers = [asyncio.create_task(ask(stack, chat("[[tokens: 30]]", **GREEDY, stream=stream))) for _ in range(3)]
        await stack.until(lambda: stack.gateway.parts.edge.running == 4)
    answers = await asyncio.gather(*followers)
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.content for answer in answers}) == 1
    assert said(answers[0])[0]["finish"] == "stop"
    calls = posts(stack.small)
    assert (len(calls), calls[0].aborted) == (1, False)
    await stack.until(stack.idle)
    assert (await stack.gateway.parts.exact.stats()).entries == 1


async def test_a_call_whose_leader_left_is_in_the_log_and_the_metrics(start):
    """The lines of a shared answer add up to what the tenant was charged, though its leader left before the end."""
    stack = await start(fakes=SLOW)
    async with wire(stack.gateway.port) as leader:
        leader.send(chat("[[tokens: 30]]", **GREEDY))
        await stack.until(lambda: posts(stack.small))
        follower = asyncio.create_task(ask(stack, chat("[[tokens: 30]]", **GREEDY)))
        await stack.until(lambda: stack.gateway.parts.edge.running == 2)
    await follower
    call = posts(stack.small)[0]
    log = await lines(stack, 2)
    assert sorted(line["outcome"] for line in log) == ["client_gone", "ok"]
    assert sum(line["charged_tokens"] for line in log) == call.prompt_tokens + call.tokens
    assert total(await scrape(stack), "tiergate_tokens_total", direction="completion") == call.tokens


@pytest.mark.parametrize("stream", [False, True], ids=["json", "sse"])
async def test_when_all_leave_the_upstream_ends(start, stream):
    """The last departure closes the upstream, keeps nothing, and leaves nothing behind."""
    stack = await start(fakes=SLOW)
    async with wire(stack.gateway.port) as one, wire(stack.gateway.port) as two, wire(stack.gateway.port) as three:
        for member in (one, two, three):
            member.send(chat("[[tokens: 500]]", **GREEDY, stream=stream))
        await stack.until(lambda: stack.gateway.parts.edge.running == 3 and posts(stack.small))
        one.leave()
        two.leave()
        await stack.until(lambda: stack.gateway.parts.edge.running == 1)
        assert posts(stack.small)[0].ended_at is None
        three.leave()
        await stack.until(lambda: posts(stack.small)[0].aborted)
    await stack.until(stack.idle)
    assert len(posts(stack.small)) == 1
    assert (await stack.gateway.parts.exact.stats()).entries == 0
    assert {line["outcome"] for line in await lines(stack, 3)} == {"client_gone"}


async def narrow(port):
    """A connection whose client takes next to nothing unless it reads."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
    reader, writer = await asyncio.open_connection(sock=sock, limit=2**12)
    return Wire(reader, writer)


@pytest.mark.parametrize("slow_leads", [False, True], ids=["slow follows", "slow leads"])
async def test_a_slow_reader_holds_nobody_up_and_misses_nothing(stack, slow_leads):
    """While one client takes nothing another gets all of it, and the slow one gets the same bytes when it reads."""
    body = chat("[[tokens: 30000]]", **GREEDY, stream=True, max_tokens=31000, model="large-model")
    slow = await narrow(stack.gateway.port)
    try:
        wake = hold(stack.large)
        if slow_leads:
            slow.send(body)
            await stack.until(lambda: posts(stack.large))
        quick = asyncio.create_task(ask(stack, body))
        await stack.until(lambda: stack.gateway.parts.edge.running == 1 + slow_leads and posts(stack.large))
        if not slow_leads:
            slow.send(body)
        await stack.until(lambda: stack.gateway.parts.edge.running == 2)
        wake()
        got = await quick
        assert payloads(got.text)[-1] == "[DONE]"
        assert len(got.content) > 2**22
        late = await slow.answer()
    finally:
        slow.leave()
    assert late.content == got.content
    assert late.clean
    assert len(posts(stack.large)) == 1
    await stack.until(stack.idle)


@pytest.mark.parametrize("follower_streams", [False, True], ids=["json", "sse"])
async def test_a_leader_that_meets_its_own_limit_does_not_fail_the_others(start, follower_streams):
    """The leader's key has no tokens left: it is told so, and a follower with another key takes over."""
    stack = await start(two_keys(tpm=5))
    async with wire(stack.gateway.port) as poor, wire(stack.gateway.port) as rich, wire(stack.gateway.port) as third:
        poor.send(chat("hi", max_tokens=40, **GREEDY))
        rich.send(chat("hi", max_tokens=40, **GREEDY, stream=follower_streams), key=K2)
        third.send(chat("hi", max_tokens=40, **GREEDY), key=K2)
        refused, served, shared = await poor.answer(), await rich.answer(), await third.answer()
    assert refused.status_code == 400
    assert refused.json()["error"]["code"] == "request_too_large"
    assert (served.status_code, shared.status_code) == (200, 200)
    assert said(served) == said(shared)
    assert len(posts(stack.small)) == 1
    await stack.at_rest()


async def test_a_leaders_upstream_failure_gives_the_others_a_second_chance(stack):
    """When the leader's call fails before its first byte, the followers ask once more instead of failing with it."""
    stack.small.faults.add(status=400, body={"error": {"message": "unlucky"}}, hang_before_headers=0.05, times=1)
    tasks = [asyncio.create_task(ask(stack, chat("hi", **GREEDY))) for _ in range(3)]
    answers = await asyncio.gather(*tasks)
    assert sorted(answer.status_code for answer in answers) == [200, 200, 400]
    assert len(posts(stack.small)) == 2
    await stack.at_rest()


@pytest.mark.parametrize("fault", [{"error_in_stream": 6}, {"malformed_chunk": 6}, {"cut_after_tokens": 6}], ids=str)
async def test_a_stream_that_breaks_is_not_the_failure_of_who_was_given_nothing_of_it(start, fault):
    """Those who want JSON hear nothing until the end: they ask once more, together, when the leader's stream goes wrong."""
    stack = await start(fakes=SLOW)
    stack.small.faults.add(**fault, times=1)
    leader = asyncio.create_task(ask(stack, chat("[[tokens: 12]]", **GREEDY, stream=True)))
    await stack.until(lambda: aboard(stack) == [1])
    others = [asyncio.create_task(ask(stack, chat("[[tokens: 12]]", **GREEDY))) for _ in range(3)]
    answers = await asyncio.gather(*others)
    await leader
    assert [answer.status_code for answer in answers] == [200] * 3
    assert len(posts(stack.small)) == 2
    await stack.at_rest()


@pytest.mark.parametrize("asked", [{}, {"include_usage": False}, {"include_usage": True}])
async def test_usage_in_each_chunk_is_for_who_asked_for_it(stack, asked):
    """`continuous_usage_stats` goes upstream with `include_usage` alone, and such a stream is nobody else's."""
    wake = hold(stack.small)
    options = {"stream": True, "stream_options": {"continuous_usage_stats": True, **asked}}
    first = asyncio.create_task(ask(stack, chat("[[say: one two]]", **GREEDY, **options)))
    await stack.until(lambda: stack.gateway.parts.edge.running == 1)
    other = asyncio.create_task(ask(stack, chat("[[say: one two]]", **GREEDY, stream=True)))
    await stack.until(lambda: stack.gateway.parts.edge.running == 2)
    wake()
    await asyncio.gather(first, other)
    wanted = asked.get("include_usage") is True
    sent = [call.body["stream_options"] for call in posts(stack.small)]
    assert sorted("continuous_usage_stats" in options for options in sent) == ([False, True] if wanted else [False])
    assert not any(payload["usage"] for payload in payloads(other.result().text)[:-1] if "usage" in payload)


async def test_a_failure_for_all_is_heard_by_all(stack):
    """When the second call fails as well, every follower hears it: nobody retries for ever."""
    stack.small.faults.add(status=400, body={"error": {"message": "unlucky"}}, hang_before_headers=0.02)
    answers = await asyncio.gather(*(ask(stack, chat("hi", **GREEDY)) for _ in range(5)))
    assert {answer.status_code for answer in answers} == {400}
    assert len(posts(stack.small)) == 2
    await stack.at_rest()


async def test_a_stream_that_breaks_is_heard_by_everybody_who_was_given_some_of_it(start):
    """After the first byte all stream followers get the same error event and end; nobody is replayed a half."""
    stack = await start(fakes=SLOW)
    stack.small.faults.add(cut_after_tokens=10, times=1)
    answers = await asyncio.gather(*(ask(stack, chat("[[tokens: 20]]", **GREEDY, stream=True)) for _ in range(3)))
    assert {payloads(answer.text)[-1]["error"]["code"] for answer in answers} == {"stream_broken"}
    assert all(answer.clean for answer in answers)
    assert len(posts(stack.small)) == 1
    assert {line["outcome"] for line in await lines(stack, 3)} == {"broken_stream"}
    await stack.at_rest()


async def test_a_realtime_follower_raises_the_leader(start):
    """A realtime request that joins a waiting batch request takes it along to the front of the queue."""
    stack = await start({"models": {0: {"concurrency": {"max": 1}}}})
    wake = hold(stack.small)
    as_class = lambda name: {"headers": {"x-tiergate-priority": name}}  # noqa: E731 - said once
    tasks = [asyncio.create_task(ask(stack, chat("blocker")))]
    await stack.until(lambda: posts(stack.small))
    for content, fields, name in [("wanted", GREEDY, "batch"), ("other", {}, "standard")]:
        tasks.append(asyncio.create_task(ask(stack, chat(content, **fields), **as_class(name))))
        await stack.until(lambda: queued(stack) == len(tasks) - 1)
    tasks.append(asyncio.create_task(ask(stack, chat("wanted", **GREEDY), **as_class("realtime"))))
    await stack.until(lambda: stack.gateway.parts.edge.running == 4)
    wake()
    await asyncio.gather(*tasks)
    assert [call.body["messages"][0]["content"] for call in posts(stack.small)] == ["blocker", "wanted", "other"]


async def test_a_follower_keeps_its_own_deadline(stack):
    """A follower's x-tiergate-deadline-ms holds although the request that it joined has more time."""
    wake = hold(stack.small)
    leader = asyncio.create_task(ask(stack, chat("hi", **GREEDY)))
    await stack.until(lambda: posts(stack.small))
    async with asyncio.timeout(5):
        late = await ask(stack, chat("hi", **GREEDY), headers={"x-tiergate-deadline-ms": "50"})
    assert late.status_code in (503, 504)
    wake()
    assert (await leader).status_code == 200


async def test_a_leaders_deadline_does_not_end_its_followers_streams(start):
    """The leader asked for an early end; a follower that did not gets the whole answer."""
    stack = await start(fakes={"s1": Options(itl=0.01), "l1": Options()})
    body = chat("[[tokens: 60]]", **GREEDY, stream=True)
    async with wire(stack.gateway.port) as leader:
        leader.send(body, headers={"x-tiergate-deadline-ms": "300"})
        await leader.head()
        follower = await ask(stack, body)
    assert payloads(follower.text)[-1] == "[DONE]"
    assert said(follower)[0]["finish"] == "stop"


async def test_requests_that_ask_for_chance_or_a_fresh_answer_do_not_share(stack):
    """Sampled, no-cache and no-store requests each make a call of their own."""
    wake = hold(stack.small)
    wishes = [({}, None), ({}, None), (GREEDY, "no-cache"), (GREEDY, "no-cache"), (GREEDY, "no-store"), (GREEDY, "no-store")]
    tasks = [
        asyncio.create_task(ask(stack, chat("hi", **fields), headers={"cache-control": said_} if said_ else None))
        for fields, said_ in wishes
    ]
    await stack.until(lambda: len(posts(stack.small)) == 6)
    wake()
    assert {answer.status_code for answer in await asyncio.gather(*tasks)} == {200}


async def test_tenants_fly_apart(stack):
    """Two tenants' identical requests at once are two flights, each shared within its tenant."""
    wake = hold(stack.small)
    tasks = [asyncio.create_task(ask(stack, chat("hi", **GREEDY), key=key)) for key in (KEY, OTHER_KEY) * 3]
    await stack.until(lambda: stack.gateway.parts.edge.running == 6)
    wake()
    answers = await asyncio.gather(*tasks)
    assert len(posts(stack.small)) == 2
    assert len({answer.json()["id"] for answer in answers[::2]}) == 1
    assert answers[0].json()["id"] != answers[1].json()["id"]


@pytest.mark.parametrize("stream", [False, True], ids=["json", "sse"])
async def test_an_answer_outlives_the_account_of_its_leader(start, stream):
    """The leader's key has left and been idle so long that it was forgotten; the follower still gets its answer."""
    config = two_keys(tpm=1_000_000)
    config["tenants"] += [tenant(f"t{number}", f"key-{number}", tpm=1000) for number in range(20)]
    stack = await start(config)
    clock = freeze_limits(stack)
    wake = hold(stack.small)
    async with wire(stack.gateway.port) as leader:
        leader.send(chat("[[tokens: 30]]", **GREEDY, stream=stream))
        await stack.until(lambda: posts(stack.small))
        follower = asyncio.create_task(ask(stack, chat("[[tokens: 30]]", **GREEDY, stream=stream), key=K2))
        await stack.until(lambda: stack.gateway.parts.edge.running == 2)
    await stack.until(lambda: stack.gateway.parts.edge.running == 1)
    clock.advance(3600)
    for number in range(20):
        assert (await ask(stack, chat(model="large-model", max_tokens=20), key=f"key-{number}")).status_code == 200
    wake()
    answer = await follower
    assert answer.status_code == 200
    assert said(answer)[0]["finish"] == "stop"
    await stack.at_rest()


async def test_the_cost_of_a_work_whose_leader_left_before_it_broke_is_on_a_line(start):
    """The leader streams and leaves, the work breaks, a follower that was given nothing asks anew: its line tells both costs."""
    stack = await start(fakes=SLOW)
    stack.small.faults.add(cut_after_tokens=30, times=1)
    async with wire(stack.gateway.port) as leader:
        leader.send(chat("[[tokens: 60]]", **GREEDY, stream=True))
        await stack.until(lambda: posts(stack.small))
        follower = asyncio.create_task(ask(stack, chat("[[tokens: 60]]", **GREEDY)))
        await stack.until(lambda: stack.gateway.parts.edge.running == 2)
    await stack.until(lambda: stack.gateway.parts.edge.running == 1)
    assert len(posts(stack.small)) == 1
    assert (await follower).status_code == 200
    first, second = posts(stack.small)
    log = await lines(stack, 2)
    assert sorted(line["outcome"] for line in log) == ["client_gone", "ok"]
    charged = sum(line["charged_tokens"] for line in log)
    assert charged > second.prompt_tokens + second.tokens + 29
    found = await scrape(stack)
    assert total(found, "tiergate_tokens_total", direction="completion") == first.tokens + second.tokens
    assert total(found, "tiergate_tokens_total") == charged
    counted, told = tokens_told(found, log)
    assert counted == told
