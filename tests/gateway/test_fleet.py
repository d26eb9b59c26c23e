"""Replicas that join and leave a running gateway, through the door that the operator and discovery share."""

import asyncio
import json

import httpx
import pytest
from gateway_talk import KEY, chat, hold

from gateway.errors import ApiError
from gateway.fleet import spec_of
from gateway.lab.fake import FakeVLLM, Options

MODEL = "small-model"


@pytest.fixture
async def extra():
    """One more fake that no config names."""
    async with FakeVLLM(Options(tokens=4)) as fake:
        yield fake


def states(stack):
    return {status.name: status.state for status in stack.gateway.parts.fleet.status(MODEL)}


def replica(stack, name):
    return stack.gateway.parts.fleet.members(MODEL)[name].replica


async def metrics(stack):
    return (await stack.client.get("/metrics")).text


async def test_a_joined_replica_is_warmed_and_serves(start, extra):
    """It gets one small request of its own served name before the first of a client, then its share; metrics know it."""
    stack = await start({"fleet": {"slow_start": None}})
    wake = hold(extra)
    stack.gateway.parts.fleet.add(MODEL, spec_of("s2", extra.url))
    assert states(stack) == {"s1": "up", "s2": "down"}
    assert (await stack.chat()).headers["x-tiergate-replica"] == "s1"
    wake()
    await stack.until(lambda: replica(stack, "s2").up)
    assert [(call.path, call.body["model"], call.body["max_tokens"]) for call in extra.calls] == [
        ("/v1/chat/completions", "fake", 1)
    ]
    seen = {(await stack.chat(f"hello {n}")).headers["x-tiergate-replica"] for n in range(20)}
    assert seen == {"s1", "s2"}
    assert 'tiergate_replica_up{model="small-model",replica="s2"} 1.0' in await metrics(stack)


async def test_slots_follow(start, extra):
    """The scheduler's capacity grows with the slow start's share and goes down when the replica leaves."""
    stack = await start({"fleet": {"slow_start": "1h", "warm_up": {"enabled": False}}})
    fleet, scheduler = stack.gateway.parts.fleet, stack.gateway.parts.lanes[MODEL].scheduler
    assert scheduler.capacity == 256
    fleet.add(MODEL, spec_of("s2", extra.url))
    await stack.until(lambda: replica(stack, "s2").up)
    assert scheduler.capacity == 256 + 25
    assert extra.calls == []
    fleet.remove(MODEL, "s2")
    assert scheduler.capacity == 256
    await fleet.idle()
    assert states(stack) == {"s1": "up"}


async def test_one_of_the_start_is_neither_warmed_nor_slowed(start, extra):
    """What is there when the process starts has all its slots at once."""
    stack = await start({})
    stack.gateway.parts.fleet.add(MODEL, spec_of("s2", extra.url), at_start=True)
    await stack.until(lambda: replica(stack, "s2").up)
    assert stack.gateway.parts.lanes[MODEL].scheduler.capacity == 512
    assert extra.calls == []


async def begun_stream(stack, tokens):
    """A stream that has begun on s1: its response, and what is still to be read."""
    request = stack.client.build_request(
        "POST",
        "/v1/chat/completions",
        json=chat(f"[[tokens: {tokens}]]", stream=True),
        headers={"authorization": f"Bearer {KEY}"},
    )
    answer = await stack.client.send(request, stream=True)
    lines = answer.aiter_lines()
    await anext(lines)
    return answer, lines


async def test_a_stream_runs_to_its_end_on_a_replica_that_leaves(start, extra):
    """The replica gets nothing new, keeps its stream, and is gone with its series and sockets when that has ended."""
    stack = await start({"fleet": {"slow_start": None}}, fakes={"s1": Options(itl=0.01), "l1": Options()})
    fleet = stack.gateway.parts.fleet
    answer, lines = await begun_stream(stack, 300)
    assert answer.headers["x-tiergate-replica"] == "s1"
    fleet.add(MODEL, spec_of("s2", extra.url))
    await stack.until(lambda: replica(stack, "s2").up)
    leaving = replica(stack, "s1")
    fleet.remove(MODEL, "s1")
    fleet.remove(MODEL, "s1")
    assert states(stack)["s1"] == "leaving"
    assert {(await stack.chat(f"hello {n}")).headers["x-tiergate-replica"] for n in range(5)} == {"s2"}
    assert 'tiergate_inflight_requests{model="small-model",replica="s1"} 1.0' in await metrics(stack)
    rest = [line async for line in lines]
    assert "data: [DONE]" in rest
    await fleet.idle()
    assert 'replica="s1"' not in await metrics(stack)
    assert leaving.client._closed
    assert leaving.inflight == 0


async def test_the_drain_timeout_does_not_break_streams(start, extra, caplog):
    """Past it the replica is out of the pool, and its stream runs on to [DONE]; only then its client is closed."""
    stack = await start({"fleet": {"drain_timeout": "20ms"}}, fakes={"s1": Options(itl=0.01), "l1": Options()})
    fleet = stack.gateway.parts.fleet
    _, lines = await begun_stream(stack, 150)
    leaving = replica(stack, "s1")
    fleet.remove(MODEL, "s1")
    await stack.until(lambda: states(stack) == {})
    assert "s1: drain timeout, 1 requests run on" in caplog.text
    assert (leaving.inflight, leaving.client._closed) == (1, False)
    fleet.add(MODEL, spec_of("s1", extra.url))  # the name is free
    assert "data: [DONE]" in [line async for line in lines]
    await fleet.idle()
    assert leaving.client._closed
    assert not replica(stack, "s1").client._closed


async def test_one_that_comes_back_while_leaving_stays(start):
    """A replica that is wanted again before its last request ended serves on, with its warmth and its sockets."""
    stack = await start({}, fakes={"s1": Options(itl=0.01), "l1": Options()})
    fleet = stack.gateway.parts.fleet
    _, lines = await begun_stream(stack, 120)
    fleet.leave(MODEL, "s1")
    assert (await stack.chat()).status_code == 503
    fleet.stay(MODEL, "s1", source="config")
    assert states(stack) == {"s1": "up"}
    assert (await stack.chat("again")).status_code == 200
    assert "data: [DONE]" in [line async for line in lines]
    await fleet.idle()
    assert states(stack) == {"s1": "up"}


async def test_what_the_operator_drained_stays_drained(start):
    """A drain by hand outlives the leaving and coming back of discovery, until it is undone by hand."""
    stack = await start({})
    fleet = stack.gateway.parts.fleet
    fleet.drain(MODEL, "s1")
    fleet.leave(MODEL, "s1")
    fleet.stay(MODEL, "s1", source="config")
    assert states(stack) == {"s1": "draining"}
    assert (await stack.chat()).status_code == 503
    fleet.undrain(MODEL, "s1")
    assert (await stack.chat()).status_code == 200


async def test_a_dismissed_replica_leaves_its_name_at_once(start, extra):
    """An address that changed under a name: the new one takes the name while the old one's stream runs to its end."""
    stack = await start({"fleet": {"slow_start": None}}, fakes={"s1": Options(itl=0.01), "l1": Options()})
    fleet = stack.gateway.parts.fleet
    _, lines = await begun_stream(stack, 40)
    fleet.dismiss(MODEL, "s1")
    fleet.add(MODEL, spec_of("s1", extra.url), at_start=True)
    await stack.until(lambda: replica(stack, "s1").up)
    assert (await stack.chat()).status_code == 200
    assert len(extra.calls) == 1
    assert "data: [DONE]" in [line async for line in lines]
    await fleet.idle()


@pytest.mark.parametrize(
    ("call", "status", "code"),
    [
        (lambda fleet: fleet.add("nobody", spec_of("x", "http://127.0.0.1:1/v1")), 404, "model_not_found"),
        (lambda fleet: fleet.status("nobody"), 404, "model_not_found"),
        (lambda fleet: fleet.drain(MODEL, "nobody"), 404, "replica_not_found"),
        (lambda fleet: fleet.undrain(MODEL, "nobody"), 404, "replica_not_found"),
        (lambda fleet: fleet.remove(MODEL, "nobody"), 404, "replica_not_found"),
        (lambda fleet: fleet.add(MODEL, spec_of("s1", "http://127.0.0.1:1/v1")), 409, "replica_exists"),
        (lambda fleet: spec_of("a b", "http://127.0.0.1:1/v1"), 400, "invalid_request"),
        (lambda fleet: spec_of("ab", "ftp://127.0.0.1:1/v1"), 400, "invalid_request"),
        (lambda fleet: spec_of("ab", "http://u:p@127.0.0.1:1/v1"), 400, "invalid_request"),
        (lambda fleet: spec_of("ab", "http://127.0.0.1:1/v1", "a\nb"), 400, "invalid_request"),
    ],
)
async def test_refusals_name_their_reason(stack, call, status, code):
    """Unknown names are a 404, taken ones a 409, nonsense a 400, and nothing has changed."""
    with pytest.raises(ApiError) as refused:
        call(stack.gateway.parts.fleet)
    assert (refused.value.status, refused.value.code) == (status, code)
    assert "u:p@" not in json.dumps(refused.value.body().decode())
    assert states(stack) == {"s1": "up"}


async def test_discovered_replicas_are_not_removed_by_hand(stack, extra):
    """It would be back at the next look: a 409 that says who lists it."""
    fleet = stack.gateway.parts.fleet
    fleet.add(MODEL, spec_of("s2", extra.url), source="dns vllm.test")
    with pytest.raises(ApiError, match=r"listed by dns vllm\.test") as refused:
        fleet.remove(MODEL, "s2")
    assert (refused.value.status, refused.value.code) == (409, "replica_discovered")


async def test_a_model_has_a_bounded_number_of_replicas(stack):
    """The 1,025th is refused."""
    fleet = stack.gateway.parts.fleet
    await asyncio.sleep(0)
    stack.gateway._tasks[0].cancel()  # no checks of a thousand addresses
    for number in range(1023):
        fleet.add(MODEL, spec_of(f"x{number}", "http://127.0.0.1:9/v1"))
    with pytest.raises(ApiError) as refused:
        fleet.add(MODEL, spec_of("one-more", "http://127.0.0.1:9/v1"))
    assert refused.value.code == "too_many_replicas"


async def test_stopping_closes_those_that_leave(start):
    """A gateway that stops while a replica is leaving closes its sockets too."""
    stack = await start({}, fakes={"s1": Options(itl=0.05), "l1": Options()})
    leaving = replica(stack, "s1")
    async with httpx.AsyncClient(base_url=stack.url, trust_env=False) as client:
        task = asyncio.create_task(
            client.post(
                "/v1/chat/completions", json=chat("[[tokens: 500]]", stream=True), headers={"authorization": f"Bearer {KEY}"}
            )
        )
        await stack.until(lambda: leaving.inflight == 1)
        stack.gateway.parts.fleet.remove(MODEL, "s1")
        await stack.gateway.stop()
        assert leaving.client._closed
        await asyncio.gather(task, return_exceptions=True)
