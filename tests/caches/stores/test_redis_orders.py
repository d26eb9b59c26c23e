"""Orders on a real server: whoever reads on misses none, or knows that it has missed some."""

from __future__ import annotations

import pytest
from store_world import World

from caches.orders import Flushed, Forgotten, Place
from caches.redis import orders as module
from caches.redis.orders import RedisOrders
from caches.redis.store import PREFIX
from caches.which import Which

ORDERS = [Flushed(Which(tag=f"t{n}", older_than=n or None)) for n in range(7)] + [Forgotten("ce-1", None)]
LIST = f"{PREFIX}orders".encode()


@pytest.fixture
async def two(redis):
    async with World("redis", redis) as world:
        yield RedisOrders(world.one), RedisOrders(world.two)


async def begun(reads):
    first = await reads.read(None)
    assert first.lost
    return first.place


async def test_what_one_posts_another_reads_in_order(two):
    """Behind its place, and only that; its own it leaves out."""
    posts, reads = two
    place = await begun(reads)
    for order in ORDERS:
        await posts.post(order)
    await reads.post(ORDERS[0])
    news = await reads.read(place)
    assert ([order for order, _ in news.orders], news.lost, news.more) == (ORDERS, False, False)
    assert all(0 <= ago < 60 for _, ago in news.orders)
    again = await reads.read(news.place)
    assert (again.orders, again.lost, again.place) == ([], False, news.place)


async def test_many_are_read_in_pieces(two):
    """Nothing is believed before the last of them."""
    posts, reads = two
    place = await begun(reads)
    for _ in range(300):
        await posts.post(ORDERS[0])
    one = await reads.read(place)
    rest = await reads.read(one.place)
    assert (one.more, rest.more, len(one.orders) + len(rest.orders)) == (True, False, 300)


@pytest.mark.parametrize("loss", ["wiped", "the list", "the head", "trimmed", "set back", "not understood", "too short"])
async def test_what_is_lost_is_noticed(two, redis, loss):
    """Once; afterwards nothing more is."""
    posts, reads = two
    await begun(reads)
    for order in ORDERS:
        await posts.post(order)
    place = (await reads.read(await begun(reads))).place
    behind = Place(place.series, place.number - 3)
    match loss:
        case "wiped":
            redis.command(b"FLUSHALL")
        case "the list":
            redis.command(b"DEL", LIST)
        case "the head":
            redis.command(b"DEL", LIST + b"-head")
        case "trimmed":
            redis.command(b"LTRIM", LIST, b"-2", b"-1")
        case "set back":
            behind = Place(place.series, place.number + 1)
        case "not understood":
            redis.command(b"LSET", LIST, b"-1", b"x" * 40)
        case "too short":
            redis.command(b"LSET", LIST, b"-1", b"")
    news = await reads.read(behind)
    assert news.lost
    assert not (await reads.read(news.place)).lost


async def test_no_more_are_kept_than_the_most(two, redis, monkeypatch):
    """The oldest go first."""
    posts, _ = two
    assert f"-{module.MOST}, -1" in module.POST.text
    redis.command(b"EVAL", b"for i = 1, 5000 do redis.call('RPUSH', KEYS[1], 'x') end", b"1", LIST)
    redis.command(b"HSET", LIST + b"-head", b"series", b"s", b"number", b"5000")
    await posts.post(ORDERS[0])
    assert redis.command(b"LLEN", LIST) == b":%d\r\n" % module.MOST


async def test_a_server_without_memory_takes_orders_all_the_same(two, redis):
    """What must not be served can be told, and heard, when nothing else can be written."""
    posts, reads = two
    redis.command(b"CONFIG", b"SET", b"maxmemory", b"1")
    try:
        place = await begun(reads)
        await posts.post(ORDERS[0])
        assert [order for order, _ in (await reads.read(place)).orders] == [ORDERS[0]]
    finally:
        redis.command(b"CONFIG", b"SET", b"maxmemory", b"0")
