"""From what a source says to who serves, in a running gateway."""

import asyncio
import os
import random

import pytest
from gateway_talk import KEY, chat

from gateway.config.schema import Replica
from gateway.config.secret import Secret
from gateway.discovery.types import Found, LookFailed
from gateway.discovery.watch import Watch
from gateway.fleet import spec_of
from gateway.lab.fake import FakeVLLM, Options

MODEL = "small-model"
NOBODY = "http://127.0.0.1:9/v1"


def spec_like(name, url, events=None, replay=None):
    return Replica(name=name, url=url, api_key=Secret("k"), events=events, replay=replay)


class Said:
    """A source that says what a test tells it."""

    def __init__(self, label="dns vllm.test", patience=2):
        self.label = label
        self.patience = patience
        self.answer = LookFailed("nothing yet")

    def set(self, *replicas, ttl=0.0):
        """(name, url), and perhaps where its engine publishes events and replays them."""
        self.answer = Found(tuple(spec_like(*replica) for replica in replicas), ttl)

    async def look(self):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@pytest.fixture
def source():
    return Said()


@pytest.fixture
async def fakes():
    async with FakeVLLM(Options(tokens=4)) as one, FakeVLLM(Options(tokens=4, itl=0.01)) as two:
        yield [one, two]


def watch_of(stack, source):
    return Watch(MODEL, source, stack.gateway.parts.fleet, every=10.0, rng=random.Random(1))


def states(stack, model=MODEL):
    return {status.name: status.state for status in stack.gateway.parts.fleet.status(model)}


async def test_found_replicas_join_and_vanished_ones_leave(stack, source, fakes, caplog):
    """What is listed joins; what two looks in a row miss leaves; the config's own replica is not touched."""
    caplog.set_level("INFO", logger="tiergate.fleet")
    watch, fleet = watch_of(stack, source), stack.gateway.parts.fleet
    source.set(("a", fakes[0].url), ("b", fakes[1].url))
    await watch.look()
    await stack.until(lambda: states(stack) == {"s1": "up", "a": "up", "b": "up"})
    source.set(("a", fakes[0].url))
    await watch.look()
    assert states(stack)["b"] == "up"
    await watch.look()
    assert states(stack)["b"] == "leaving"
    await fleet.idle()
    assert states(stack) == {"s1": "up", "a": "up"}
    assert [record.message for record in caplog.records if "/b" in record.message] == [
        "small-model/b joins (dns vllm.test)",
        "small-model/b leaves: 0 requests are running",
        "small-model/b has left",
    ]


async def test_one_miss_and_back_changes_nothing(stack, source):
    """A list that leaves a replica out every other time, as cut DNS answers do, never takes it away."""
    watch = watch_of(stack, source)
    for _ in range(4):
        source.set(("a", NOBODY), ("b", NOBODY + "/b"))
        await watch.look()
        source.set(("a", NOBODY))
        await watch.look()
        assert states(stack)["b"] == "down"


async def test_failures_keep_the_set_and_are_told_once(stack, source, caplog):
    """A source that fails for an hour costs a line for each reason, one at its end, and no replica."""
    caplog.set_level("INFO", logger="tiergate.discovery")
    watch = watch_of(stack, source)
    source.set(("a", NOBODY))
    await watch.look()
    for failure in [LookFailed("there is no such name"), ZeroDivisionError()] * 5:
        source.answer = failure
        await watch.look()
    assert states(stack)["a"] == "down"
    source.set(("a", NOBODY))
    await watch.look()
    await watch.look()
    assert [record.message for record in caplog.records] == [
        "small-model: dns vllm.test: there is no such name; the known replicas stay",
        "small-model: dns vllm.test: the look failed (ZeroDivisionError); the known replicas stay",
        "small-model: dns vllm.test is back",
    ]


async def test_those_of_the_first_answer_are_not_slowed(stack, source, fakes):
    """What is found first has been there before us; what is found later is warmed up."""
    watch, fleet = watch_of(stack, source), stack.gateway.parts.fleet
    await watch.look()  # fails: not an answer yet
    source.set(("a", fakes[0].url))
    await watch.look()
    source.set(("a", fakes[0].url), ("b", fakes[1].url))
    await watch.look()
    await stack.until(lambda: states(stack) == {"s1": "up", "a": "up", "b": "up"})
    assert [len(fake.calls) for fake in fakes] == [0, 1]
    assert [fleet.members(MODEL)[name].replica.slots for name in "ab"] == [256, 25]


async def test_one_that_comes_back_while_leaving_is_undrained(stack, source, fakes):
    """Listed again before its stream has ended, the same replica serves on; the stream ends as it should."""
    source.patience = 1
    watch, fleet = watch_of(stack, source), stack.gateway.parts.fleet
    fleet.drain(MODEL, "s1")
    source.set(("a", fakes[1].url))
    await watch.look()
    await stack.until(lambda: states(stack)["a"] == "up")
    request = stack.client.build_request(
        "POST", "/v1/chat/completions", json=chat("[[tokens: 120]]", stream=True), headers={"authorization": f"Bearer {KEY}"}
    )
    answer = await stack.client.send(request, stream=True)
    lines = answer.aiter_lines()
    await anext(lines)
    member = fleet.members(MODEL)["a"]
    source.set()
    await watch.look()
    await watch.look()
    assert states(stack)["a"] == "leaving"
    source.set(("a", fakes[1].url))
    await watch.look()
    assert states(stack)["a"] == "up"
    assert fleet.members(MODEL)["a"] is member
    assert "data: [DONE]" in [line async for line in lines]
    await fleet.idle()
    assert states(stack)["a"] == "up"


async def test_a_changed_address_is_another_replica(stack, source, fakes):
    """Under the same name the new address serves at once."""
    watch = watch_of(stack, source)
    source.set(("a", fakes[0].url))
    await watch.look()
    old = stack.gateway.parts.fleet.members(MODEL)["a"].replica
    source.set(("a", fakes[1].url))
    await watch.look()
    new = stack.gateway.parts.fleet.members(MODEL)["a"].replica
    assert new is not old
    await stack.gateway.parts.fleet.idle()
    assert old.client._closed
    await stack.until(lambda: new.up)


async def test_a_renamed_replica_joins_while_the_old_name_leaves(stack, source):
    """The same address under another name: one leaves, one joins, at the same look."""
    source.patience = 1
    watch = watch_of(stack, source)
    source.set(("a", NOBODY))
    await watch.look()
    source.set(("b", NOBODY))
    await watch.look()
    assert states(stack) == {"s1": "up", "a": "leaving", "b": "down"}


async def test_a_fleet_that_is_replaced_has_no_gap(stack, source, fakes):
    """While the new ones do not serve yet the old ones stay, also under the same address; an empty list ends them all."""
    source.patience = 1
    watch, fleet = watch_of(stack, source), stack.gateway.parts.fleet
    fleet.remove(MODEL, "s1")
    source.set(("a", fakes[0].url))
    await watch.look()
    await stack.until(lambda: states(stack) == {"a": "up"})
    source.set(("b", NOBODY))
    await watch.look()
    await watch.look()
    assert states(stack) == {"a": "up", "b": "down"}
    source.set(("c", fakes[0].url))
    await watch.look()
    assert states(stack) == {"a": "up", "b": "leaving", "c": "down"}
    await stack.until(lambda: states(stack)["c"] == "up")
    await watch.look()
    await fleet.idle()
    assert states(stack) == {"c": "up"}
    source.set()
    await watch.look()
    await fleet.idle()
    assert states(stack) == {}


async def test_others_replicas_are_passed_over(stack, source, caplog):
    """A name or a URL that the config or another list brought stays theirs, and that is said once."""
    config = stack.gateway.parts.fleet.members(MODEL)["s1"].spec
    other = Said("file x", 1)
    other.set(("a", NOBODY))
    second = watch_of(stack, other)
    await second.look()
    source.set(
        ("s1", NOBODY + "/1"), ("again", config.url), ("a", NOBODY + "/2"), ("twice", NOBODY + "/3"), ("twice2", NOBODY + "/3")
    )
    watch = watch_of(stack, source)
    await watch.look()
    await watch.look()
    assert sorted(states(stack)) == ["a", "s1", "twice"]
    assert stack.gateway.parts.fleet.members(MODEL)["s1"].spec is config
    assert sum("is there from elsewhere" in record.message for record in caplog.records) == 4
    other.set()
    await second.look()
    await stack.gateway.parts.fleet.idle()
    await watch.look()
    assert states(stack).keys() == {"a", "s1", "twice"}


async def test_an_address_of_events_is_one_replicas(stack, source, caplog):
    """What another list's replica is heard at is passed over; in one list two may change places."""
    one, two = "tcp://127.0.0.1:1", "tcp://127.0.0.1:2"
    other = Said("file x", 1)
    other.set(("a", NOBODY, one, two))
    second = watch_of(stack, other)
    await second.look()
    source.set(("b", NOBODY + "/b", one), ("c", NOBODY + "/c", "tcp://127.0.0.1:3", two), ("d", NOBODY + "/d"))
    await watch_of(stack, source).look()
    assert states(stack).keys() == {"a", "d", "s1"}
    assert sum("is there from elsewhere" in record.message for record in caplog.records) == 2
    other.set(("a", NOBODY, one), ("e", NOBODY + "/e", two))
    await second.look()
    other.set(("a", NOBODY, two), ("e", NOBODY + "/e", one))
    await second.look()
    members = stack.gateway.parts.fleet.members(MODEL)
    assert (members["a"].spec.events, members["e"].spec.events) == (two, one)


async def test_a_drain_by_hand_outlives_the_looks(stack, source, fakes):
    """The operator's drain of a listed replica is not undone by its being listed."""
    watch = watch_of(stack, source)
    source.set(("a", fakes[0].url))
    await watch.look()
    await stack.until(lambda: states(stack)["a"] == "up")
    stack.gateway.parts.fleet.drain(MODEL, "a")
    await watch.look()
    assert states(stack)["a"] == "draining"


async def test_a_full_model_takes_no_more(stack, source, caplog):
    """The bound is the model's; the list's rest is passed over, and said."""
    stack.gateway._tasks[0].cancel()
    fleet = stack.gateway.parts.fleet
    for number in range(1022):
        fleet.add(MODEL, spec_of(f"x{number}", f"{NOBODY}/{number}"))
    source.set(("a", NOBODY + "/a"), ("b", NOBODY + "/b"))
    await watch_of(stack, source).look()
    assert "a" in states(stack)
    assert "b" not in states(stack)
    assert "small-model: b of dns vllm.test is there from elsewhere, or there is no room" in caplog.text


@pytest.mark.parametrize(("ttl", "pause"), [(0.0, 10.0), (5.0, 10.0), (60.0, 60.0), (1e9, 300.0)])
async def test_the_pause_respects_the_ttl(stack, source, ttl, pause):
    """The next look comes no sooner than the answer's time to live, which is believed up to five minutes."""
    watch = watch_of(stack, source)
    source.set(("a", NOBODY), ttl=ttl)
    await watch.look()
    assert watch.pause() == pause


async def test_a_model_that_only_discovers(start, tmp_path, fakes):
    """A watched file alone: nothing serves before it is there, then who is listed does, and an emptied list ends it."""
    config = {
        "models": {0: {"replicas": [], "discover": [{"kind": "file", "path": "./replicas.yaml", "every": "10ms"}]}},
        "fleet": {"slow_start": None, "warm_up": {"enabled": False}},
    }
    stack = await start(config)
    assert (await stack.chat()).status_code == 503
    fresh = tmp_path / "fresh"

    def put(text):
        fresh.write_text(text)
        os.replace(fresh, tmp_path / "replicas.yaml")

    put(f"- {{name: a, url: '{fakes[0].url}'}}\n- {{name: b, url: '{fakes[1].url}'}}\n")
    await stack.until(lambda: states(stack) == {"a": "up", "b": "up"})
    assert {(await stack.chat(f"hello {n}")).headers["x-tiergate-replica"] for n in range(20)} == {"a", "b"}
    put("- {oops\n")
    await asyncio.sleep(0.05)
    assert states(stack) == {"a": "up", "b": "up"}
    put(f"- {{name: b, url: '{fakes[1].url}'}}\n")
    await stack.until(lambda: states(stack) == {"b": "up"})
    put("[]\n")
    await stack.until(lambda: states(stack) == {})
    assert (await stack.chat("again")).status_code == 503


async def test_services_in_the_dns_come_and_go(start, fakes):
    """SRV records, asked for again and again: a target joins, the other leaves, an outage and a lost name change nothing."""
    pytest.importorskip("dns", reason="dnspython is not installed")
    import dns.rcode
    from name_server import NameServer

    name = "_http._tcp.vllm.test"
    records = [f"1 1 {fake.port} localhost." for fake in fakes]
    names = [f"localhost-{fake.port}" for fake in fakes]
    async with NameServer() as server:
        server.ttl = 0
        server.zone = {(name, "SRV"): records[:1]}
        discover = {"kind": "srv", "name": name, "servers": [server.address], "every": "10ms"}
        stack = await start({"models": {0: {"replicas": [], "discover": [discover]}}})
        await stack.until(lambda: states(stack) == {names[0]: "up"})
        server.zone = {(name, "SRV"): records}
        await stack.until(lambda: states(stack) == {names[0]: "up", names[1]: "up"})
        server.zone = {(name, "SRV"): records[1:]}
        await stack.until(lambda: states(stack) == {names[1]: "up"})
        assert (await stack.chat()).headers["x-tiergate-replica"] == names[1]
        for change in ({"zone": {}}, {"rcode": dns.rcode.SERVFAIL}, {"zone": {(name, "TXT"): ['"x"']}, "rcode": None}):
            vars(server).update(change)
            asked = len(server.asked)
            await stack.until(lambda asked=asked: len(server.asked) > asked + 3)
            assert states(stack) == {names[1]: "up"}


async def test_a_long_list_is_followed_a_few_at_a_time(stack, source):
    """While hundreds join or leave at once, others get their turns in between: no stream waits for the whole list."""
    watch, turns = watch_of(stack, source), 0

    async def others():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    source.set(*((f"r{number}", f"http://127.0.0.1:{number + 1}/v1") for number in range(160)))
    await watch.look()
    joined = turns
    assert joined >= 160 // 8
    source.set()
    await watch.look()
    await watch.look()
    assert turns - joined >= 160 // 8
    beside.cancel()
