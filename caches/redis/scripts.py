"""What the server does in one step each. Every moment is the server's own (TIME), in microseconds.

Keys
    entries   one for each answer, named by the id that clients see; its value begins with what these scripts must know of it:
              the format, the number of fields, the fields (8 bytes each: see `caches.marks`), and when it began to be made
    marks     a hash. A field's 8 bytes -> the moment up to which everything that has it is flushed;
              "i" and a tenant's field -> its deleted ids, 16 bytes each (8 of the id, the moment);
              "p" and a tenant's field -> the moment up to which nothing of that tenant is to be stored any more
    index     a sorted set of ids by when they expire

Rules
1. A flush is a mark, and every get compares: it holds at once and for all, however much there is to delete. Deleting what is
   flushed, and counting it, is done afterwards, piece by piece, by way of the index.
2. Loss of the index loses counts. Loss of the marks (a server wiped, or one that evicts any key) is noticed by the mark on
   everything, which is always there: without it nothing is served, and the next put, or `MARK`, sets it to the present moment.
3. Marks are bounded. Too many: the oldest half becomes one mark on everything, and the oldest deletes one on all that is put.
   A mark that only puts are held against is forgotten after `MAKING`, for nothing that took longer to make is taken.
4. Every change is published, with who made it.
5. A clock that was set back would make an old answer look young. Whoever puts says what time it must at least be, by what it was
   told before; if it is not, the answer is refused, and the sender has learnt of it.
6. The last of what a script returns is the moment.
7. A server that is out of memory refuses a script's first write if that needs any, and none after it. So what must always be
   possible, flushing and deleting, begins with a write that needs none.
"""

from __future__ import annotations

from typing import Final

from caches.marks import MOST_TAGS
from caches.redis.server import Script

FORMAT: Final = 1
MOST_FIELDS: Final = 4 * (1 + MOST_TAGS)
MAKING: Final = 3600  # seconds from the beginning of an answer's making to its being stored, at most
MOST_MARKS: Final = 4096
MOST_IDS: Final = 64  # of one tenant
_HEAD = 2 + 8 * MOST_FIELDS + 8
_SWEEPS = 4  # expired ids that a put takes out of the index
_PIECE = 500  # ids that are looked at in one step

_COMMON = f"""
local MAKING = {MAKING * 1_000_000}
local function now()
    local t = redis.call('TIME')
    return t[1] * 1000000 + t[2]
end
local function head(value)  -- its fields and when it began; nothing if it is none of ours
    if type(value) ~= 'string' or #value < 2 or value:byte(1) ~= {FORMAT} then return nil end
    local n = value:byte(2)
    if n < 4 or n > {MOST_FIELDS} or #value < 10 + 8 * n then return nil end
    local fields = {{}}
    for i = 1, n do fields[i] = value:sub(8 * i - 5, 8 * i + 2) end
    return fields, struct.unpack('>d', value, 8 * n + 3)
end
local function flushed(marks, fields, born)
    local moments = redis.call('HMGET', marks, unpack(fields))
    if not moments[1] then return true end
    for i = 1, #fields do
        if moments[i] and tonumber(moments[i]) >= born then return true end
    end
    return false
end
local function later(marks, field, moment)  -- leaves a mark, unless there is a later one
    local known = redis.call('HGET', marks, field)
    if not known or tonumber(known) < moment then redis.call('HSET', marks, field, string.format('%.0f', moment)) end
end
local function latest(field, value)
    if field:sub(1, 1) == 'i' and #field == 9 then return struct.unpack('>d', value, #value - 7) end
    return tonumber(value)
end
local function bound(marks, everything, t)
    if redis.call('HLEN', marks) <= {MOST_MARKS} then return end
    local all, kept = redis.call('HGETALL', marks), {{}}
    for i = 1, #all, 2 do
        local field, moment = all[i], latest(all[i], all[i + 1])
        if #field == 9 and moment < t - MAKING then redis.call('HDEL', marks, field)
        elseif field ~= everything and field ~= 'p' .. everything then kept[#kept + 1] = {{moment, field}} end
    end
    if #kept <= {MOST_MARKS} / 2 then return end
    table.sort(kept, function(a, b) return a[1] < b[1] end)
    for i = 1, #kept - {MOST_MARKS} / 2 do
        local moment, field = kept[i][1], kept[i][2]
        redis.call('HDEL', marks, field)
        later(marks, #field == 8 and everything or 'p' .. everything, moment)
    end
end
"""

GET = Script(
    _COMMON
    + """-- entry, marks; perhaps `peek`: delete nothing
-- -> whether there is one (2: something that is none of ours), its value, milliseconds left, the moment
local value = redis.pcall('GET', KEYS[1])
if not value then return {0, '', 0, now()} end
local fields, born = head(value)
if not fields then return {2, '', 0, now()} end
if flushed(KEYS[2], fields, born) then
    if ARGV[1] ~= 'peek' then redis.pcall('UNLINK', KEYS[1]) end  -- where nothing may be written, it is left to its end
    return {0, '', 0, now()}
end
return {1, value, redis.call('PTTL', KEYS[1]), now()}
""",
    (int, bytes, int, int),
)

PUT = Script(
    _COMMON
    + f"""-- entry, marks, index; value, expiry, id, 8 bytes of it, the least it can be now, channel, message -> stored?, moment
local entry, marks, index = KEYS[1], KEYS[2], KEYS[3]
local t, id8 = now(), ARGV[4]
local fields, born = head(ARGV[1])
local left = math.floor((ARGV[2] - t) / 1000)
if left < 1 or born < t - MAKING or t < tonumber(ARGV[5]) then return {{0, t}} end
if redis.call('HSETNX', marks, fields[1], string.format('%.0f', t)) == 1 then return {{0, t}} end
if flushed(marks, fields, born) then return {{0, t}} end
local lists = redis.call('HMGET', marks, 'i' .. fields[1], 'i' .. fields[2], 'p' .. fields[1], 'p' .. fields[2])
for i = 1, 2 do
    for at = 1, lists[i] and #lists[i] or 0, 16 do
        if lists[i]:sub(at, at + 7) == id8 and struct.unpack('>d', lists[i], at + 8) >= born then return {{0, t}} end
    end
    if lists[i + 2] and tonumber(lists[i + 2]) >= born then return {{0, t}} end
end
redis.call('SET', entry, ARGV[1], 'PX', left)
redis.call('ZADD', index, ARGV[2], ARGV[3])
local gone = redis.call('ZRANGEBYSCORE', index, '-inf', t, 'LIMIT', 0, {_SWEEPS})
if #gone > 0 then redis.call('ZREM', index, unpack(gone)) end
redis.call('PUBLISH', ARGV[6], ARGV[7])
return {{1, t}}
""",
    (int, int),
    writes=True,
)

DELETE = Script(
    _COMMON
    + f"""-- entry, marks, index; who (a tenant's field, or everything's), everything's, id, 8 bytes of it, channel, message
local entry, marks, index, who, everything = KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2]
local t, found = now(), 0
redis.call('HDEL', marks, '')
redis.call('HSETNX', marks, everything, string.format('%.0f', t))
local list, young = redis.call('HGET', marks, 'i' .. who) or '', {{}}
for at = 1, #list, 16 do
    if struct.unpack('>d', list, at + 8) >= t - MAKING then young[#young + 1] = list:sub(at, at + 15) end
end
if #young >= {MOST_IDS} then
    later(marks, 'p' .. who, struct.unpack('>d', young[1], 9))
    table.remove(young, 1)
end
redis.call('HSET', marks, 'i' .. who, table.concat(young) .. ARGV[4] .. struct.pack('>d', t))
bound(marks, everything, t)
local fields, born = head(redis.pcall('GETRANGE', entry, 0, {_HEAD - 1}))
if not fields or who == everything or who == fields[2] then  -- what is gone from here may still be in front of another gateway
    found = fields and not flushed(marks, fields, born) and 1 or 0
    redis.call('UNLINK', entry)
    redis.call('ZREM', index, ARGV[3])
    redis.call('PUBLISH', ARGV[5], ARGV[6])
end
return {{found, t}}
""",
    (int, int),
    writes=True,
)

FLUSH = Script(
    _COMMON
    + """-- marks; field, everything's, age, channel, message -> the moment up to which it holds
local t = now()
redis.call('HDEL', KEYS[1], '')
redis.call('HSETNX', KEYS[1], ARGV[2], string.format('%.0f', t))
later(KEYS[1], ARGV[1], t - ARGV[3])
bound(KEYS[1], ARGV[2], t)
redis.call('PUBLISH', ARGV[4], ARGV[5])
return {t - ARGV[3], t}
""",
    (int, int),
    writes=True,
)

WALK = Script(
    _COMMON
    + f"""-- index; cursor, field, moment, whether to delete, what ids have in front -> where to go on, how many are meant, moment
local found, next = 0, redis.call('ZSCAN', KEYS[1], ARGV[1], 'COUNT', {_PIECE})
for i = 1, #next[2], 2 do
    local id = next[2][i]
    local value, gone = redis.pcall('GETRANGE', ARGV[5] .. id, 0, {_HEAD - 1}), false
    local fields, born = head(value)
    for j = 1, fields and born <= tonumber(ARGV[3]) and #fields or 0 do
        if fields[j] == ARGV[2] then
            found, gone = found + 1, ARGV[4] == '1'
            break
        end
    end
    if gone then redis.call('UNLINK', ARGV[5] .. id) end
    if gone or value == '' then redis.call('ZREM', KEYS[1], id) end
end
return {{next[1], found, now()}}
""",
    (bytes, int, int),
)

LOOK = Script(
    _COMMON
    + """-- index; what ids have in front -> how many there are, the bytes of some of them, how many those are, the moment
local t = now()
local count = redis.call('ZCOUNT', KEYS[1], t, '+inf')
local first, all = redis.call('ZCOUNT', KEYS[1], '-inf', t), redis.call('ZCARD', KEYS[1])
local bytes, seen = 0, math.min(32, count)
for i = 0, seen - 1 do
    local at = first + math.floor(i * (all - first) / seen)
    local id = redis.call('ZRANGE', KEYS[1], at, at)[1]
    local length = redis.pcall('STRLEN', ARGV[1] .. id)
    if type(length) == 'number' then bytes = bytes + length end
end
return {count, bytes, seen, t}
""",
    (int, int, int, int),
)

DROP = Script(
    _COMMON
    + """-- entry, index; id -> the moment
redis.call('UNLINK', KEYS[1])
redis.call('ZREM', KEYS[2], ARGV[1])
return {now()}
""",
    (int,),
    writes=True,
)

MARK = Script(
    _COMMON
    + """-- marks; everything's -> its mark, the moment
local t = now()
redis.call('HSETNX', KEYS[1], ARGV[1], string.format('%.0f', t))
return {redis.call('HGET', KEYS[1], ARGV[1]), t}
""",
    (bytes, int),
    writes=True,
)

TIME = Script(_COMMON + "return {now()}", (int,))
