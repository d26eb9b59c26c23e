"""Identical requests on different workers share one answer: who comes, who goes, who dies, and what each is told."""

import asyncio
import time
from contextlib import AsyncExitStack

import pytest
from gateway_talk import GREEDY, ask, chat, config_of, hold, payloads, posts, said, usage, wire
from pair import Pair

from gateway.config import parse
from gateway.lab.fake import FakeVLLM, Options
from limits.waiting import Priority

SLOW = {"s1": Options(itl=0.01), "l1": Options()}


@pytest.fixture
async def start(tmp_path):
    """`await start(config changes, fakes={name: Options})` → a running Pair."""
    async with AsyncExitStack() as scope:

        async def make(changes=None, *, fakes=None):
            running = {
                name: await scope.enter_async_context(FakeVLLM(options))
                for name, options in (fakes or {"s1": Options(), "l1": Options()}).items()
            }
            keys = {"keys": {"path": str(tmp_path / "keys.json")}}
            pair = Pair(parse(config_of(running, {**keys, **(changes or {})}), tmp_path / "config.yaml"))
            pair.small = running["s1"]
            await pair.start()
            scope.push_async_callback(pair.stop)
            return pair

        yield make


def charged(pair):
    return sum(line["charged_tokens"] for line in pair.lines)


async def done(pair, count):
    """Everything is back, and there are that many log lines."""
    await pair.a.until(lambda: pair.idle() and len(pair.lines) >= count)
    assert len(pair.lines) == count


async def following(pair, count=1):
    """That many clients of worker b wait for what worker a makes."""
    await pair.b.until(lambda: pair.b.running == count and len(pair.a.link.outgoing) == 1)


@pytest.mark.parametrize("stream", [False, True], ids=["json", "sse"])
async def test_two_workers_make_one_call(start, stream):
    """The same request on two workers is one call upstream: equal bytes, one miss and one shared, tokens told once."""
    pair = await start()
    wake = hold(pair.small)
    body = chat("[[tokens: 20]]", **GREEDY, stream=stream)
    leader = asyncio.create_task(ask(pair.a, body))
    await pair.a.until(lambda: posts(pair.small))
    follower = asyncio.create_task(ask(pair.b, body))
    await following(pair)
    wake()
    first, second = await asyncio.gather(leader, follower)
    assert (first.status_code, first.content) == (200, second.content)
    assert [answer.headers["x-tiergate-cache"] for answer in (first, second)] == ["miss", "shared"]
    for name in ("content-type", "x-tiergate-model", "x-tiergate-tier", "x-tiergate-route", "x-tiergate-replica"):
        assert first.headers[name] == second.headers[name], name
    call = posts(pair.small)[0]
    assert len(posts(pair.small)) == 1
    await done(pair, 2)
    assert [line["cache"] for line in pair.lines] == ["miss", "shared"]
    assert {(line["model"], line["replica"], line["attempts"]) for line in pair.lines} == {("small-model", "s1", 1)}
    assert charged(pair) == call.prompt_tokens + call.tokens
    assert [line["completion_tokens"] for line in pair.lines] == [call.tokens, 0]


async def test_pieces_arrive_as_they_are_made(start):
    """A client of the other worker reads on while the model still writes: late, it gets all from the start, then each token."""
    pair = await start(fakes=SLOW)
    body = chat("[[tokens: 60]]", **GREEDY, stream=True)
    async with wire(pair.a.gateway.port) as leader, wire(pair.b.gateway.port) as late:
        leader.send(body)
        await leader.head()
        first = [await leader.piece() for _ in range(5)]
        late.send(body)
        await late.head()
        early = [await late.piece()]
        assert pair.a.running == pair.b.running == 1
        rest, second = await asyncio.gather(leader.pieces(), late.pieces())
    assert late.headers["x-tiergate-cache"] == "shared"
    assert b"".join(early + second) == b"".join(first + rest)
    assert len(second) > 20


@pytest.mark.parametrize("stream", [False, True], ids=["json", "sse"])
async def test_the_leader_leaves_and_another_worker_stays(start, stream):
    """The leader's departure does not end the answer; the other worker's client has it, and its line tells the tokens."""
    pair = await start(fakes=SLOW)
    body = chat("[[tokens: 40]]", **GREEDY, stream=stream)
    async with wire(pair.a.gateway.port) as leader:
        leader.send(body)
        await pair.a.until(lambda: posts(pair.small))
        followers = [asyncio.create_task(ask(pair.b, body)) for _ in range(2)]
        await following(pair, 2)
    answers = await asyncio.gather(*followers)
    assert {answer.status_code for answer in answers} == {200}
    assert said(answers[0])[0]["finish"] == "stop"
    call = posts(pair.small)[0]
    assert (len(posts(pair.small)), call.aborted) == (1, False)
    await done(pair, 3)
    assert charged(pair) == call.prompt_tokens + call.tokens
    assert sorted(line["completion_tokens"] for line in pair.lines) == [0, 0, call.tokens]
    assert pair.a.log.lines[0]["completion_tokens"] == 0
    assert (await ask(pair.a, body)).headers["x-tiergate-cache"] == "exact"


async def test_when_the_last_one_anywhere_leaves_the_call_ends(start):
    """The upstream call is closed once nobody on any worker listens, and the line of who left last tells what it cost."""
    pair = await start(fakes={"s1": Options(itl=0.02), "l1": Options()})
    body = chat("[[tokens: 500]]", **GREEDY, stream=True)
    async with wire(pair.b.gateway.port) as follower:
        async with wire(pair.a.gateway.port) as leader:
            leader.send(body)
            await leader.head()
            follower.send(body)
            await follower.head()
        await pair.a.until(lambda: not pair.a.running)
        await follower.piece()
        assert not posts(pair.small)[0].aborted
    await pair.a.until(lambda: posts(pair.small)[0].aborted)
    await done(pair, 2)
    assert [line["outcome"] for line in pair.lines] == ["client_gone", "client_gone"]
    assert pair.a.log.lines[0]["charged_tokens"] == 0
    assert pair.b.log.lines[0]["charged_tokens"] > 0


async def test_a_follower_leaves_and_the_leader_has_its_answer(start):
    """Who leaves on the other worker takes nothing from anybody."""
    pair = await start(fakes=SLOW)
    body = chat("[[tokens: 40]]", **GREEDY, stream=True)
    leader = asyncio.create_task(ask(pair.a, body))
    await pair.a.until(lambda: posts(pair.small))
    async with wire(pair.b.gateway.port) as follower:
        follower.send(body)
        await follower.head()
    answer = await leader
    assert payloads(answer.text)[-1] == "[DONE]"
    await done(pair, 2)
    call = posts(pair.small)[0]
    assert charged(pair) == pair.a.log.lines[0]["charged_tokens"] == call.prompt_tokens + call.tokens


@pytest.mark.parametrize("streams", [(True, False), (False, True)], ids=["sse leads", "json leads"])
async def test_each_worker_answers_in_its_clients_own_format(start, streams):
    """A stream is put together for a client of the other worker that wants none, and the other way round."""
    pair = await start()
    wake = hold(pair.small)
    bodies = [chat("[[reason: hm]] [[say: one two three]]", **GREEDY, stream=stream) for stream in streams]
    leader = asyncio.create_task(ask(pair.a, bodies[0]))
    await pair.a.until(lambda: posts(pair.small))
    followers = [asyncio.create_task(ask(pair.b, body)) for body in reversed(bodies)]
    await following(pair, 2)
    wake()
    first, *others = await asyncio.gather(leader, *followers)
    assert all(said(other) == said(first) for other in others)
    assert said(first)[0]["content"] == "one two three"
    assert {other.headers["x-tiergate-cache"] for other in others} == {"shared"}
    assert len(posts(pair.small)) == 1


async def test_the_usage_chunk_is_for_those_who_asked(start):
    """A client of the other worker gets the usage chunk that the leader did not want, and the other way round."""
    pair = await start()
    wake = hold(pair.small)
    plain, counted = (
        chat("[[tokens: 5]]", **GREEDY, stream=True, stream_options=options) for options in (None, {"include_usage": True})
    )
    leader = asyncio.create_task(ask(pair.a, plain))
    await pair.a.until(lambda: posts(pair.small))
    followers = [asyncio.create_task(ask(pair.b, body)) for body in (counted, plain)]
    await following(pair, 2)
    wake()
    answers = await asyncio.gather(leader, *followers)
    assert [usage(answer) is not None for answer in answers] == [False, True, False]
    assert len(posts(pair.small)) == 1


async def test_fifty_followers_on_another_worker(start):
    """Fifty clients of the other worker are one feed and no call of their own."""
    pair = await start()
    wake = hold(pair.small)
    body = chat("[[tokens: 30]]", **GREEDY, stream=True)
    leader = asyncio.create_task(ask(pair.a, body))
    await pair.a.until(lambda: posts(pair.small))
    followers = [asyncio.create_task(ask(pair.b, body)) for _ in range(50)]
    await following(pair, 50)
    assert len(pair.node.feeds) == 1
    wake()
    answers = await asyncio.gather(leader, *followers)
    assert len({answer.content for answer in answers}) == 1
    await done(pair, 51)
    assert len(posts(pair.small)) == 1
    assert charged(pair) == posts(pair.small)[0].prompt_tokens + posts(pair.small)[0].tokens


async def test_the_leaders_worker_dies_before_the_answer(start):
    """Who was given nothing yet is served by its own worker, and its client notices nothing."""
    pair = await start()
    wake = hold(pair.small)
    body = chat("[[tokens: 10]]", **GREEDY, stream=True)
    async with wire(pair.a.gateway.port) as leader:
        leader.send(body)
        await pair.a.until(lambda: posts(pair.small))
        followers = [asyncio.create_task(ask(pair.b, body)) for _ in range(3)]
        await following(pair, 3)
        pair.a.die()
        await pair.a.until(lambda: len(posts(pair.small)) == 2)
        wake()
        answers = await asyncio.gather(*followers)
    assert {answer.status_code for answer in answers} == {200}
    assert len({answer.content for answer in answers}) == 1
    assert sorted(answer.headers["x-tiergate-cache"] for answer in answers) == ["miss", "shared", "shared"]


async def test_the_leaders_worker_dies_in_the_middle(start):
    """Who was given a part of the stream gets the error event of a broken one."""
    pair = await start(fakes={"s1": Options(itl=0.02), "l1": Options()})
    body = chat("[[tokens: 500]]", **GREEDY, stream=True)
    async with wire(pair.a.gateway.port) as leader, wire(pair.b.gateway.port) as follower:
        leader.send(body)
        await leader.head()
        follower.send(body)
        await follower.head()
        await follower.piece()
        pair.a.die()
        rest = b"".join(await follower.pieces()).decode()
    assert payloads(rest)[-1]["error"]["code"] == "stream_broken"
    await pair.b.until(lambda: pair.b.log.lines)
    assert pair.b.log.lines[0]["outcome"] == "broken_stream"


async def test_an_error_of_the_work_reaches_every_worker(start):
    """What the backend refuses with, its own bytes included, is what the clients of every worker are told in the end."""
    pair = await start()
    pair.small.faults.add(status=422, body={"error": {"message": "no such thing", "mine": 1}})
    body = chat("[[tokens: 10]]", **GREEDY)
    answers = await asyncio.gather(ask(pair.a, body), ask(pair.b, body))
    assert [answer.status_code for answer in answers] == [422, 422]
    assert len({answer.content for answer in answers}) == 1


async def test_a_failure_of_the_leader_alone_is_not_the_others(start):
    """A limit that stops the leader's work leaves the others to make the answer by themselves."""
    pair = await start(
        {
            "queue": {"max_wait": {"realtime": "300ms", "standard": "20s", "batch": "20s"}},
            "models": {0: {"concurrency": {"max": 1}}},
        }
    )
    wake = hold(pair.small)
    blocker = asyncio.create_task(ask(pair.a, chat("something else")))
    await pair.a.until(lambda: posts(pair.small))
    body = chat("[[tokens: 10]]", **GREEDY)
    leader = asyncio.create_task(ask(pair.a, body))
    await pair.a.until(lambda: pair.a.running == 2)
    follower = asyncio.create_task(ask(pair.b, body, headers={"x-tiergate-priority": "standard"}))
    await following(pair)
    assert (await leader).status_code == 503
    wake()
    answer = await follower
    assert (answer.status_code, answer.headers["x-tiergate-cache"]) == (200, "miss")
    await blocker


async def test_a_more_urgent_follower_moves_the_work_up(start):
    """Work that waits in one worker's name moves up when another worker's client of a higher class wants it, early or late."""
    pair = await start({"models": {0: {"concurrency": {"max": 1}}}})
    wake = hold(pair.small)
    blocker = asyncio.create_task(ask(pair.a, chat("something else")))
    await pair.a.until(lambda: posts(pair.small))
    body = chat("[[tokens: 10]]", **GREEDY)
    scheduler = pair.dispatcher.parts.owner.lanes["small-model"].scheduler
    asked = []
    for worker, priority in ((pair.a, Priority.BATCH), (pair.b, Priority.STANDARD), (pair.b, Priority.REALTIME)):
        asked.append(asyncio.create_task(ask(worker, body, headers={"x-tiergate-priority": priority.name.lower()})))
        await pair.a.until(lambda priority=priority: scheduler.depth(priority) == 1)
    wake()
    assert {answer.status_code for answer in await asyncio.gather(*asked, blocker)} == {200}


async def test_the_dispatcher_dies_before_the_answer(start):
    """Who waits on the other worker asks the next dispatcher, and shares the answer that is still being made."""
    pair = await start()
    wake = hold(pair.small)
    body = chat("[[tokens: 10]]", **GREEDY, stream=True)
    leader = asyncio.create_task(ask(pair.a, body))
    await pair.a.until(lambda: posts(pair.small))
    follower = asyncio.create_task(ask(pair.b, body))
    await following(pair)
    await pair.dispatcher.stop()
    await pair.a.until(lambda: pair.a.link.away and pair.b.link.away)
    await pair.start_dispatcher()
    await following(pair)
    wake()
    first, second = await asyncio.gather(leader, follower)
    assert (first.status_code, second.status_code, first.content) == (200, 200, second.content)
    assert len(posts(pair.small)) == 1
    await done(pair, 2)


async def test_the_dispatcher_dies_in_the_middle(start, monkeypatch):
    """The leader's stream runs on without a dispatcher; the one that came through it ends with an error event, in time."""
    monkeypatch.setattr("gateway.dispatch.incoming._PATIENCE", 0.3)
    pair = await start(fakes=SLOW)
    body = chat("[[tokens: 60]]", **GREEDY, stream=True)
    async with wire(pair.a.gateway.port) as leader, wire(pair.b.gateway.port) as follower:
        leader.send(body)
        await leader.head()
        follower.send(body)
        await follower.head()
        await follower.piece()
        await pair.dispatcher.stop()
        rest = b"".join(await follower.pieces()).decode()
        whole = b"".join(await leader.pieces()).decode()
        await pair.start_dispatcher()
    assert payloads(rest)[-1]["error"]["code"] == "stream_broken"
    assert payloads(whole)[-1] == "[DONE]"
    await done(pair, 2)


async def test_a_stream_goes_on_under_the_next_dispatcher(start):
    """A dispatcher that is replaced in the middle costs the other worker's client no byte."""
    pair = await start(fakes={"s1": Options(itl=0.01), "l1": Options()})
    body = chat("[[tokens: 120]]", **GREEDY, stream=True)
    async with wire(pair.a.gateway.port) as leader, wire(pair.b.gateway.port) as follower:
        for one in (leader, follower):
            one.send(body)
            await one.head()
        first = await follower.piece()
        await pair.dispatcher.stop()
        await pair.a.until(lambda: pair.a.link.away and pair.b.link.away)
        await pair.start_dispatcher()
        whole, rest = await asyncio.gather(leader.pieces(), follower.pieces())
    assert first + b"".join(rest) == b"".join(whole)
    assert len(posts(pair.small)) == 1
    await done(pair, 2)
    assert charged(pair) == posts(pair.small)[0].prompt_tokens + posts(pair.small)[0].tokens


async def test_a_stream_that_ends_without_a_dispatcher_is_whole_under_the_next(start):
    """The maker's work is over and its client has all of it when another dispatcher comes; so has the other worker's then."""
    pair = await start(fakes={"s1": Options(itl=0.01), "l1": Options()})
    body = chat("[[tokens: 30]]", **GREEDY, stream=True)
    async with wire(pair.a.gateway.port) as leader, wire(pair.b.gateway.port) as follower:
        for one in (leader, follower):
            one.send(body)
            await one.head()
        first = await follower.piece()
        await pair.dispatcher.stop()
        whole = await leader.pieces()
        await pair.a.until(lambda: not pair.a.running)
        await pair.start_dispatcher()
        rest = await follower.pieces()
    assert first + b"".join(rest) == b"".join(whole)
    assert len(posts(pair.small)) == 1
    await done(pair, 2)
    assert charged(pair) == posts(pair.small)[0].prompt_tokens + posts(pair.small)[0].tokens


async def test_a_drain_waits_for_who_listens_elsewhere(start):
    """A worker that drains stays until the other worker's client has its answer, though its own client has left."""
    pair = await start(fakes=SLOW)
    body = chat("[[tokens: 40]]", **GREEDY, stream=True)
    async with wire(pair.a.gateway.port) as leader:
        leader.send(body)
        await leader.head()
        follower = asyncio.create_task(ask(pair.b, body))
        await following(pair)
    await pair.a.until(lambda: not pair.a.running)
    await pair.a.process.serving.drain()
    await pair.a.process.stop()
    answer = await follower
    assert payloads(answer.text)[-1] == "[DONE]"
    assert len(posts(pair.small)) == 1


async def test_a_worker_that_ends_at_once_leaves_the_work_to_others(start):
    """The other worker's client is served by its own worker when the leader's ends before it has given anything."""
    pair = await start()
    wake = hold(pair.small)
    body = chat("[[tokens: 10]]", **GREEDY)
    leader = asyncio.create_task(ask(pair.a, body))
    await pair.a.until(lambda: posts(pair.small))
    follower = asyncio.create_task(ask(pair.b, body))
    await following(pair)
    await pair.a.process.serving._cut()
    stopping = asyncio.create_task(pair.a.process.stop())
    assert (await leader).status_code == 503
    await pair.a.until(lambda: len(posts(pair.small)) == 2)
    wake()
    answer = await follower
    await stopping
    assert (answer.status_code, answer.headers["x-tiergate-cache"]) == (200, "miss")


async def test_an_answer_that_is_over_is_found_in_the_cache(start):
    """Who was sent to a worker that has just finished gets the answer that is now kept, and makes none."""
    pair = await start()
    body = chat("[[tokens: 10]]", **GREEDY)
    node = pair.node
    open_feed = node.feeds._open

    def late(session, message):
        """Its word comes only after the leader's worker is done."""
        asyncio.get_running_loop().create_task(hold_back(session, message))

    async def hold_back(session, message):
        await pair.a.until(lambda: not node.berths)
        open_feed(session, message)

    node.feeds._open = late
    wake = hold(pair.small)
    leader = asyncio.create_task(ask(pair.a, body))
    await pair.a.until(lambda: posts(pair.small))
    follower = asyncio.create_task(ask(pair.b, body))
    await pair.b.until(lambda: len(pair.b.link.incoming) == 1)
    wake()
    first, second = await asyncio.gather(leader, follower)
    assert (second.content, second.headers["x-tiergate-cache"]) == (first.content, "exact")
    assert len(posts(pair.small)) == 1
    await done(pair, 2)


async def test_a_worker_takes_so_many_feeds_and_no_more(start, monkeypatch):
    """Beyond the bound a worker makes the answer itself."""
    monkeypatch.setattr("gateway.dispatch.feeds.MOST", 1)
    pair = await start()
    wake = hold(pair.small)
    bodies = [chat(f"[[tokens: {count}]]", **GREEDY) for count in (3, 4)]
    asked = [asyncio.create_task(ask(pair.a, body)) for body in bodies]
    await pair.a.until(lambda: len(posts(pair.small)) == 2)
    asked.append(asyncio.create_task(ask(pair.b, bodies[0])))
    await following(pair)
    asked.append(asyncio.create_task(ask(pair.b, bodies[1])))
    await pair.a.until(lambda: len(posts(pair.small)) == 3)
    wake()
    answers = await asyncio.gather(*asked)
    assert [answer.headers["x-tiergate-cache"] for answer in answers] == ["miss", "miss", "shared", "miss"]
    await done(pair, 4)


def later(pair, seconds):
    """For the caches of all processes, it is that much later."""
    wall = lambda: time.time() + seconds  # noqa: E731 - one clock for all
    exact = pair.dispatcher.parts.owner.exact
    exact._clock = exact._shelf._clock = wall
    for worker in (pair.a, pair.b):
        answers = worker.process.parts.own.pipeline.answers
        answers._wall = answers.entries._wall = wall


async def test_a_stale_answer_is_renewed_once_for_all_workers(start):
    """Both serve it at once and go on serving it, and one request is made in its place; next time it is one again."""
    pair = await start({"cache": {"secret": "s", "exact": {"ttl": "10s", "stale": "1h"}}})
    body = chat("[[say: hello]]", **GREEDY)
    await ask(pair.a, body)
    for round_, seconds in enumerate((11, 22)):
        later(pair, seconds)
        wake = hold(pair.small)
        answers = await asyncio.gather(*(ask(worker, body) for worker in (pair.a, pair.b) * 3))
        assert [answer.headers["x-tiergate-cache"] for answer in answers] == ["exact"] * 6
        await pair.a.until(lambda round_=round_: len(posts(pair.small)) == 2 + round_)
        wake()
        for worker in (pair.a, pair.b):
            await worker.process.parts.own.behind.settled()
        assert len(posts(pair.small)) == 2 + round_
        fresh = await ask(pair.b, body)
        assert (fresh.headers["x-tiergate-cache"], int(fresh.headers["age"]) < 5) == ("exact", True)
        pair.node.local._renewing.clear()
        for worker in (pair.a, pair.b):
            worker.process.parts.own.pipeline.answers._renewing.clear()


@pytest.mark.parametrize("headers", [{"x-stainless-read-timeout": "1"}, {"x-tiergate-deadline-ms": "800"}])
@pytest.mark.parametrize("others", [0, 1], ids=["alone", "beside another"])
async def test_patience_ends_while_the_other_workers_work_waits(start, headers, others):
    """A client of this worker is told queue_timeout by when its patience ends; who else waits, here or there, is served."""
    pair = await start({"models": {0: {"concurrency": {"max": 1}}}})
    wake, body = hold(pair.small), chat("same", **GREEDY)
    asked = [asyncio.create_task(ask(pair.a, chat("blocker")))]
    await pair.a.until(lambda: posts(pair.small))
    asked.append(asyncio.create_task(ask(pair.a, body)))
    await pair.a.until(lambda: pair.dispatcher.parts.owner.lanes["small-model"].scheduler.queue.load.requests == 1)
    asked += [asyncio.create_task(ask(pair.b, body)) for _ in range(others)]
    hasty = asyncio.create_task(ask(pair.b, body, headers=headers))
    await following(pair, 1 + others)
    late = await hasty
    assert (late.status_code, late.json()["error"]["code"]) == (503, "queue_timeout")
    assert 1 <= int(late.headers["retry-after"]) <= 60
    wake()
    assert [answer.status_code for answer in await asyncio.gather(*asked)] == [200] * (2 + others)
    assert len(posts(pair.small)) == 2
    await done(pair, 3 + others)


async def test_patience_does_not_end_what_the_other_worker_has_a_slot_for(start):
    """An SDK's own timeout does nothing then, and a deadline ends with upstream_timeout."""
    pair = await start()
    wake, body = hold(pair.small), chat("same", **GREEDY)
    leader = asyncio.create_task(ask(pair.a, body))
    await pair.a.until(lambda: posts(pair.small))
    follower = asyncio.create_task(ask(pair.b, body, headers={"x-stainless-read-timeout": "0.3"}))
    late = await ask(pair.b, body, headers={"x-tiergate-deadline-ms": "500"})
    assert (late.status_code, late.json()["error"]["code"]) == (504, "upstream_timeout")
    wake()
    assert [answer.status_code for answer in await asyncio.gather(leader, follower)] == [200, 200]
    await done(pair, 3)
