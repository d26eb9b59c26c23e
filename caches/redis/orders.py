"""Orders to the semantic caches of all gateways (see `caches.orders`), as a numbered list on the shared server.

    orders   the last `MOST`, each: when it was given, by whom, what
    head     a hash: the name of the series, and the number of the last one

Who finds a name that it does not know, or a number that is no longer there, has missed something: the server was wiped, lost its
last writes, or had more to tell meanwhile than it keeps. What cannot be understood counts as missed, too.
"""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Callable
from os import urandom
from typing import Final

import msgspec

from caches.orders import LEASE, News, Order, Place
from caches.redis.server import Script
from caches.redis.store import PREFIX, RedisStore

MOST: Final = 4096
_PIECE = 256  # orders that are read in one step
_LIST, _HEAD = PREFIX + "orders", PREFIX + "orders-head"
_FRONT = struct.Struct(">d8s")
_LONGEST = 64 * 1024  # bytes
_MICRO = 1_000_000

_COMMON = """
local function now()
    local t = redis.call('TIME')
    return t[1] * 1000000 + t[2]
end
local function series(orders, head, fresh)
    local name = redis.call('HGET', head, 'series')
    if name then return name end
    redis.call('HDEL', head, '')  -- needs no memory: see rule 7 of `scripts`
    redis.call('HSET', head, 'series', fresh, 'number', 0)
    redis.call('UNLINK', orders)
    return fresh
end
"""

POST = Script(
    _COMMON
    + f"""-- orders, head; a name for a new series, who, what -> its number, the moment
local t = now()
redis.call('HDEL', KEYS[2], '')
series(KEYS[1], KEYS[2], ARGV[1])
redis.call('RPUSH', KEYS[1], struct.pack('>d', t) .. ARGV[2] .. ARGV[3])
redis.call('LTRIM', KEYS[1], -{MOST}, -1)
return {{redis.call('HINCRBY', KEYS[2], 'number', 1), t}}
""",
    (int, int),
    writes=True,
)

READ = Script(
    _COMMON
    + f"""-- orders, head; a name for a new series, the known one, the known number
-- -> the series, the last number, whether some are lost, those behind the known number, the moment
local name = series(KEYS[1], KEYS[2], ARGV[1])
local last, known = tonumber(redis.call('HGET', KEYS[2], 'number')) or 0, tonumber(ARGV[3])
local kept = redis.call('LLEN', KEYS[1])
if name ~= ARGV[2] or known > last or known < last - kept then return {{name, last, 1, {{}}, now()}} end
local first = kept - (last - known)
return {{name, last, 0, redis.call('LRANGE', KEYS[1], first, first + {_PIECE - 1}), now()}}
""",
    (bytes, int, int, list, int),
    writes=True,
)

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Order).decode


class RedisOrders:
    """`tick` must never be set."""

    def __init__(self, shared: RedisStore, *, tick: Callable[[], float] = time.monotonic) -> None:
        self._shared = shared
        self._tick = tick

    async def post(self, order: Order) -> float:
        await self._shared.ask(POST, [_LIST, _HEAD], urandom(8), self._shared.me, _encode(order))
        return self._tick()

    async def settle(self, posted: float) -> None:
        await asyncio.sleep(max(0.0, posted + LEASE - self._tick()))

    async def read(self, place: Place | None) -> News:
        known = Place(b"", 0) if place is None else place
        answer = await self._shared.ask(READ, [_LIST, _HEAD], urandom(8), known.series, known.number, patience=0.0)
        name, last, lost, items, now = answer
        if lost:
            return News(Place(name, last), lost=True, more=False)
        number = known.number + len(items)
        news = News(Place(name, number), lost=False, more=number < last)
        for item in items:
            self._add(news, item, now)
        return news

    def _add(self, news: News, item: object, now: int) -> None:
        if not isinstance(item, bytes) or not _FRONT.size <= len(item) <= _LONGEST:
            news.lost = True
            return
        at, who = _FRONT.unpack_from(item)
        if who == self._shared.me:
            return
        try:
            news.orders.append((_decode(item[_FRONT.size :]), max(0.0, (now - at) / _MICRO)))
        except (msgspec.MsgspecError, ValueError):
            news.lost = True
