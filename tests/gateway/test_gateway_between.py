"""Two gateways before the same replicas place requests as one would, and go on while they do not hear each other."""

import asyncio

import pytest
from test_gateway_placing import Talk, fleet, words

from gateway.lab.fake import Options


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """The pauses of an outage, shorter."""
    pytest.importorskip("redis", reason="the extra `redis` is not installed")
    monkeypatch.setattr("caches.redis.bus._PAUSES", (0.02, 0.1))


def shared(redis, **more):
    return {
        "models": {0: {"context": None}},
        "cache": {"secret": "0123456789abcdef", "exact": {"enabled": False}},
        "redis": {"url": redis.url},
        "fleet": {"share": "redis"},
        **more,
    }


@pytest.fixture
async def two(start, redis):
    """Both before the fakes of the first, which the second calls by other names."""
    return await gateways(start, redis)


async def gateways(start, redis, fakes=None):
    one = await start(shared(redis), fakes=fakes or fleet(4))
    urls = {name: fake.url for name, fake in one.fakes.items()}
    small = [{"name": f"other-{name}", "url": url} for name, url in urls.items() if name.startswith("s")]
    models = {0: {"context": None, "replicas": small}, 1: {"replicas": [{"name": "l1", "url": urls["l1"]}]}}
    both = one, await start(shared(redis, models=models), fakes={})
    for stack in both:
        await stack.until(lambda stack=stack: share_of(stack).standing == "ok, 1 others")
    return both


def share_of(stack):
    return stack.gateway.parts.share


def replicas_of(stack):
    return stack.gateway.parts.lanes["small-model"].pool.replicas


def placing_of(stack):
    return stack.gateway.parts.lanes["small-model"].placing


async def told(one, other):
    """What the one has said up to now has come to the other, and what was said before that, too."""
    number = share_of(one).desk._number + 1
    peers, node = share_of(other).desk.peers, share_of(one).desk._node
    await one.until(lambda: node in peers._peers and peers._peers[node].number > number)


async def test_conversations_that_change_gateways_stay_on_their_replica(two):
    """Each turn comes to the other gateway, and goes to the replica that has the history, the answers included."""
    talks = [Talk(two[0], seed) for seed in range(8)]
    for turn in range(4):
        for talk in talks:
            talk.stack = two[turn % 2]
            await talk.turn()
        await two[0].at_rest()
        await two[1].at_rest()
        await told(two[turn % 2], two[1 - turn % 2])
    for talk in talks:
        assert len({name.removeprefix("other-") for name in talk.where}) == 1
        before = 0
        for prompt, cached in talk.cached:
            assert cached >= before - 32
            before = prompt + 60
    assert len({talk.where[0] for talk in talks}) > 1
    for stack in two:
        await stack.until(lambda stack=stack: not any(it.others_inflight or it.others_pending for it in replicas_of(stack)))
        assert 0.9 * placing_of(stack).told.delivered < placing_of(stack).told.expected < 1.1 * placing_of(stack).told.delivered


async def test_what_runs_at_one_gateway_counts_at_the_other(start, redis):
    """Beside its own, for the choice alone: a replica that is busy there is left alone here, and has all its slots here."""
    one, two = await gateways(start, redis, fleet(2, ttft=0.5))
    before = [asyncio.ensure_future(one.chat(words(seed, 300), max_tokens=1)) for seed in range(1)]
    await two.until(lambda: any(replica.others_inflight for replica in replicas_of(two)))
    busy = next(replica for replica in replicas_of(two) if replica.others_inflight)
    assert busy.others_pending > 128
    assert (busy.inflight, busy.pending) == (0, 0)
    for seed in range(10, 13):
        reply = await two.chat(words(seed, 20), max_tokens=1)
        if before[0].done():
            break
        assert reply.headers["x-tiergate-replica"] != busy.name
    await asyncio.gather(*before)
    await two.until(lambda: not any(replica.others_inflight or replica.others_pending for replica in replicas_of(two)))


@pytest.mark.parametrize("fault", ["stop", "kill", "flush"])
async def test_a_server_that_is_away_costs_no_request(two, redis, fault, caplog):
    """Requests go on by what each knows; the outage is told once, and its end; then they know of each other again."""
    one, other = two
    caplog.set_level("INFO", "tiergate.between")
    before = [share_of(stack)._channel.connected for stack in two]
    if fault == "flush":
        redis.command(b"FLUSHALL")
        redis.command(b"CLIENT", b"KILL", b"TYPE", b"pubsub")
    else:
        getattr(redis, fault)()
    for stack, times in zip(two, before, strict=True):
        channel = share_of(stack)._channel
        await stack.until(lambda channel=channel, times=times: not channel.open or channel.connected > times)
    for seed in range(4):
        assert (await two[seed % 2].chat(words(seed, 100), max_tokens=1)).status_code == 200
    if fault != "flush":
        for stack in two:
            await stack.until(lambda stack=stack: share_of(stack).desk.alone and not share_of(stack).peers)
            assert placing_of(stack).alone
            ready = (await stack.client.get("/ready")).json()
            assert ready["ready"]
            assert ready["share"].startswith("away: ")
        redis.resume() if fault == "stop" else redis.start()
    for stack in two:
        await stack.until(lambda stack=stack: share_of(stack).standing == "ok, 1 others")
    assert (await one.client.get("/ready")).json()["share"] == "ok, 1 others"
    for stack in two:
        await stack.until(lambda stack=stack: not share_of(stack).desk._events)
    await told(one, other)
    await told(other, one)
    known = [placing_of(stack).index.tokens(replica.name) for stack in two for replica in replicas_of(stack)]
    assert known[:4] == known[4:]
    away = [record for record in caplog.records if "are not heard" in record.message]
    again = [record for record in caplog.records if "heard again" in record.message]
    assert len(away) == len(again) == 2


async def test_a_gateway_that_dies_has_nothing_in_flight(start, redis):
    """Its counts are gone a second later, and those of one that ends in order at once; what it placed stays known."""
    one, two = await gateways(start, redis, fleet(2, ttft=3.0))
    running = [asyncio.ensure_future(one.chat(words(seed, 300), max_tokens=1)) for seed in range(4)]
    await two.until(lambda: sum(replica.others_inflight for replica in replicas_of(two)) == 4)
    await two.until(lambda: all(placing_of(two).index.tokens(replica.name) for replica in replicas_of(two)))
    held = [placing_of(two).index.tokens(replica.name) for replica in replicas_of(two)]
    share_of(one)._channel.say = silent
    await two.until(lambda: not any(replica.others_inflight or replica.others_pending for replica in replicas_of(two)))
    assert share_of(two).peers == 0
    assert [placing_of(two).index.tokens(replica.name) for replica in replicas_of(two)] == held
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


async def silent(_message):
    pass


async def test_what_is_no_message_changes_nothing(two, redis):
    """Whoever can write to the server, but has not the secret, is counted and ignored."""
    channel = share_of(two[0])._channel._channel.encode()
    for noise in (b"", b"x" * 100_000, bytes(range(256)) * 4):
        redis.command(b"PUBLISH", channel, noise)
    for stack in two:
        await stack.until(lambda stack=stack: share_of(stack).counts.refused == 3)
        assert (await stack.chat(max_tokens=1)).status_code == 200
    await told(*two)
    page = (await two[0].client.get("/metrics")).text
    assert 'tiergate_share_messages_total{result="refused"} 3.0' in page
    assert "tiergate_share_peers 1.0" in page


async def test_alone_both_send_what_begins_alike_to_the_same_replica(start, redis):
    """Each with an index that knows of no such prompt, and nobody else there: the beginning decides, not chance."""
    redis.stop()
    one = await start(shared(redis), fakes=fleet(4))
    urls = [{"name": name, "url": fake.url} for name, fake in one.fakes.items() if name.startswith("s")]
    models = {0: {"context": None, "replicas": urls}}
    two = await start(shared(redis, models=models), fakes={"l1": Options()})
    homes = set()
    for seed in range(4):
        system = words(seed, 800)
        where = [(await stack.chat(f"{system} {stack.url}", max_tokens=1)).headers["x-tiergate-replica"] for stack in (one, two)]
        assert where[0] == where[1]
        homes.add(where[0])
        for stack in (one, two):
            await stack.until(stack.idle)
    assert len(homes) > 1
    redis.resume()


async def test_a_dispatcher_that_is_replaced_tells_of_what_still_runs(start, redis):
    """Its successor is another gateway to the others, with the same requests in flight; then the first one's are gone."""
    fakes = fleet(2, ttft=0.5, itl=0.05)
    one = await start(shared(redis), fakes=fakes, workers=1)
    urls = [{"name": name, "url": fake.url} for name, fake in one.fakes.items() if name.startswith("s")]
    two = await start(shared(redis, models={0: {"context": None, "replicas": urls}}), fakes={"l1": Options()}, workers=0)
    running = asyncio.ensure_future(one.chat(words(1, 300), max_tokens=40, ignore_eos=True))
    await two.until(lambda: sum(replica.others_inflight for replica in replicas_of(two)) == 1)
    first = share_of(one).desk._node
    await one.gateway.replace_dispatcher()
    peers = share_of(two).desk.peers._peers
    await two.until(lambda: bool(peers) and first not in peers)
    assert [replica.others_inflight for replica in replicas_of(two)] == [replica.inflight for replica in replicas_of(one)]
    assert (await running).status_code == 200
    await two.until(lambda: not any(replica.others_inflight or replica.others_pending for replica in replicas_of(two)))
