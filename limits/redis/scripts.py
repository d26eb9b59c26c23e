"""What the server does in one step each. Every moment is the server's own (TIME), in microseconds.

Keys, of which those of one tenant share a hash tag
    balance   one for each scope: what was spent, when, and under which limits; see below
    leases    one for each scope with a limit of parallel slots: a sorted set of who holds one, by when that ends
    open      one for each tenant and node: what was debited and is still to be corrected, as a set of names. A correction
              takes the name out first, so it counts once however often it is said, and never for what was not debited
    nodes     one for all: a sorted set of nodes, by when they are taken for dead
    budget    one for each scope that has one: see `limits.redis.budgets`

Rules
1. A decision reads every balance before it writes any: all or none. What a refusal gives back, it gives in the same step.
2. Lua has doubles, whose integers are exact up to 2^53. In sixty-millionths, the unit of `limits.bucket`, a debt of 2^40 tokens
   has 66 bits. So an amount is two numbers, whole ones and sixty-millionths of one, and what refills is worked out in pieces
   that stay below 2^53: nothing is ever rounded. A limit above 2^40 a minute is none.
3. A balance is kept until it would be full again, then it goes by itself. So do leases and open debits that nobody renews.
4. A moment may be given, for tests; else the first argument is empty.
"""

from __future__ import annotations

from hashlib import sha1
from typing import Final

from limits.redis.budgets import CHARGE_TEXT, READ_TEXT, SET_BACK_TEXT, USED

LEASE: Final = 10.0  # seconds for which a slot is held that nobody renews, and after which a node is taken for dead
LARGEST: Final = 1 << 40
ACCOUNT: Final = ">5q"  # whole requests, a rest of sixty-millionths, the same of tokens, slots in use
_OPEN = 3600.0
_LONGEST = 30 * 86400.0  # that a balance is kept


class Script:
    """Lua, known to the server by its digest."""

    __slots__ = ("digest", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.digest = sha1(text.encode()).hexdigest().encode()  # noqa: S324 - what the protocol calls a script by


_COMMON = f"""
local UNIT, LEASE, OPEN, LONGEST = 60000000, {LEASE * 1e6:.0f}, {_OPEN * 1e3:.0f}, {_LONGEST * 1e3:.0f}
local function moment(given)
    if given ~= '' then return tonumber(given) end
    local t = redis.call('TIME')
    return t[1] * 1000000 + t[2]
end
local function refilled(elapsed, limit)  -- as two numbers; the limit's upper and lower bits one after the other
    local minutes = math.floor(elapsed / UNIT)
    local rest = elapsed - minutes * UNIT
    local high = math.floor(limit / 65536)
    local wholes = math.floor(rest * high / UNIT)
    local units = (rest * high - wholes * UNIT) * 65536 + rest * (limit - high * 65536)
    local carry = math.floor(units / UNIT)
    return minutes * limit + wholes * 65536 + carry, units - carry * UNIT
end
local function less(w, u, wholes, units)  -- never below nothing
    if w < wholes or (w == wholes and u <= units) then return 0, 0 end
    if u < units then return w - wholes - 1, u + UNIT - units end
    return w - wholes, u - units
end
local function over(w, u, more, burst)
    return burst >= 0 and (w + more > burst or (w + more == burst and u > 0))
end
local function cut(w, u, old, new)  -- a lower burst makes no debt of what was none
    if new < 0 then return 0, 0 end
    local debt, rest = math.max(0, w - math.max(old, 0)), 0
    if w >= old then rest = u end
    if w > new + debt or (w == new + debt and u > rest) then return new + debt, rest end
    return w, u
end
local function given(at)  -- a scope's limits: requests a minute and at once, tokens a minute and at once
    return {{tonumber(ARGV[at]), tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])}}
end
local function read(key, now, l)  -- refilled up to now. Moment, requests and rest, tokens and rest, limits as given
    local value = redis.call('GET', key)
    if not value or #value ~= 72 then return {{now, 0, 0, 0, 0, l[1], l[2], l[3], l[4]}} end
    local a = {{struct.unpack('>i8i8i8i8i8i8i8i8i8', value)}}
    local elapsed = now - a[1]
    if elapsed > 0 then
        a[1] = now
        if a[6] > 0 then a[2], a[3] = less(a[2], a[3], refilled(elapsed, a[6])) end
        if a[8] > 0 then a[4], a[5] = less(a[4], a[5], refilled(elapsed, a[8])) end
    end
    return a
end
local function under(a, l)  -- goes on under these limits; whether they are others
    if a[6] == l[1] and a[7] == l[2] and a[8] == l[3] and a[9] == l[4] then return false end
    a[2], a[3] = cut(a[2], a[3], a[7], l[2])
    a[4], a[5] = cut(a[4], a[5], a[9], l[4])
    a[6], a[7], a[8], a[9] = l[1], l[2], l[3], l[4]
    return true
end
local function take(a, requests, tokens)
    if a[6] >= 0 then a[2] = a[2] + requests end
    if a[8] >= 0 then a[4] = a[4] + tokens end
end
local function give(a, requests, tokens)
    if a[6] >= 0 and requests > 0 then a[2], a[3] = less(a[2], a[3], requests, 0) end
    if a[8] >= 0 and tokens > 0 then a[4], a[5] = less(a[4], a[5], tokens, 0) end
end
local function lasts(w, u, limit)  -- milliseconds
    if w == 0 and u == 0 then return 0 end
    return limit > 0 and (w + 1) / limit * 60000 or LONGEST
end
local function write(key, a)
    local left = math.max(lasts(a[2], a[3], a[6]), lasts(a[4], a[5], a[8]))
    if left == 0 then redis.call('DEL', key) return end
    local value = struct.pack('>i8i8i8i8i8i8i8i8i8', a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9])
    redis.call('SET', key, value, 'PX', string.format('%.0f', math.min(left + 1000, LONGEST)))
end
local function held(key, now, most)
    if most < 0 then return 0 end
    redis.call('ZREMRANGEBYSCORE', key, '-inf', string.format('%.0f', now))
    return redis.call('ZCARD', key)
end
local function hold(key, now, who)
    redis.call('ZADD', key, string.format('%.0f', now + LEASE), who)
    redis.call('PEXPIRE', key, LEASE / 1000)
end
local function open(key, name)
    redis.call('SADD', key, name)
    redis.call('PEXPIRE', key, OPEN)
end
local function told(a, slots) return struct.pack('>i8i8i8i8i8', a[2], a[3], a[4], a[5], slots) end
"""

ADMIT: Final = Script(
    _COMMON
    + """-- open, then balance and leases of each scope; moment, id, then limits and slots of each -> fits?, accounts
local now, id, n, fits = moment(ARGV[1]), ARGV[2], (#KEYS - 1) / 2, true
local accounts, changed, slots, answer = {}, {}, {}, {}
for i = 1, n do
    local l, most = given(5 * i - 2), tonumber(ARGV[5 * i + 2])
    local a = read(KEYS[2 * i], now, l)
    changed[i], slots[i] = under(a, l), held(KEYS[2 * i + 1], now, most)
    fits = fits and not over(a[2], a[3], 1, a[7]) and (most < 0 or slots[i] < most)
    accounts[i] = a
end
for i = 1, n do
    local a = accounts[i]
    if fits then
        take(a, 1, 0)
        if tonumber(ARGV[5 * i + 2]) >= 0 then
            hold(KEYS[2 * i + 1], now, id)
            slots[i] = slots[i] + 1
        end
    end
    if fits or changed[i] then write(KEYS[2 * i], a) end
    answer[i] = told(a, slots[i])
end
if fits then open(KEYS[1], 'q' .. id) end
return struct.pack('>i8', fits and 1 or 0) .. table.concat(answer)
"""
)


def _both(text: str) -> tuple[Script, Script]:
    """For who has no budget, and for who has one: what is for those alone is in the lines that end with `--$`."""
    plain = "\n".join(line for line in text.split("\n") if not line.endswith("--$"))
    return Script(_COMMON + plain), Script(_COMMON + USED + text)


RESERVE, RESERVE_BUDGETS = _both(
    """-- open, then balance and leases of each scope, a model's last, then budgets; moment, the admission's id, id, requests,
-- tokens, clamp, model?, then limits and slots of each, then day and month of each budget, the fewest tokens, how many budgets
-- -> fits? (2: no, and the admission's request was given back), tokens, accounts, budgets
local limited, said_of_budgets = 0, ''
limited = tonumber(ARGV[#ARGV]) --$
local now, request, id, n = moment(ARGV[1]), 'q' .. ARGV[2], ARGV[3], (#KEYS - 1 - limited) / 2
local requests, tokens, model = tonumber(ARGV[4]), tonumber(ARGV[5]), ARGV[7] == '1' and n or 0
local accounts, slots, answer, changed, fits = {}, {}, {}, false, true
local found, left, cut = budgets(now, limited), tokens, false --$
for i, b in ipairs(found) do --$
    local at = #ARGV - 2 - 2 * (limited - i) --$
    left = math.min(left, room(b, tonumber(ARGV[at - 1]), tonumber(ARGV[at]))) --$
end --$
if left < tokens then --$
    cut = ARGV[6] == '1' and math.min(tokens, math.max(1, tonumber(ARGV[#ARGV - 1]))) <= left --$
    fits = cut --$
    if cut then tokens = left end --$
end --$
for i = 1, n do
    local l = given(5 * i + 3)
    local a = read(KEYS[2 * i], now, l)
    if i == model then changed = under(a, l) end
    slots[i] = held(KEYS[2 * i + 1], now, tonumber(ARGV[5 * i + 7]))
    if ARGV[6] == '1' and a[9] > 0 then tokens = math.min(tokens, a[9]) end
    accounts[i] = a
end
for i = 1, n do
    local a, ask = accounts[i], i == model and 1 or requests
    if ask > 0 and over(a[2], a[3], ask, a[7]) or over(a[4], a[5], tokens, a[9]) then fits = false end
    if i == model then
        local most = tonumber(ARGV[5 * i + 7])
        fits = fits and (most < 0 or slots[i] < most)
    end
end
local back = not fits and redis.call('SREM', KEYS[1], request) == 1
for i = 1, n do
    local a = accounts[i]
    if fits then
        take(a, i == model and 1 or requests, tokens)
        if i == model and tonumber(ARGV[5 * i + 7]) >= 0 then
            hold(KEYS[2 * i + 1], now, id)
            slots[i] = slots[i] + 1
        end
    end
    answer[i] = told(a, slots[i])
    if back and i ~= model then give(a, 1, 0) end
    if fits or (back and i ~= model) or (i == model and changed) then write(KEYS[2 * i], a) end
end
if fits then
    open(KEYS[1], 't' .. id)
    if requests > 0 then open(KEYS[1], request) end
    for _, b in ipairs(found) do --$
        count(b, tokens, 0, b[2]) --$
        keep(b) --$
    end --$
    if cut then --$
        redis.call('HSET', KEYS[1] .. ':cut', 't' .. id, tokens) --$
        redis.call('PEXPIRE', KEYS[1] .. ':cut', OPEN) --$
    end --$
end
said_of_budgets = said(found) --$
return struct.pack('>i8i8', fits and 1 or back and 2 or 0, tokens) .. table.concat(answer) .. said_of_budgets
"""
)

CORRECT, CORRECT_BUDGETS = _both(
    """-- open, then balance and leases of each scope, then budgets; moment, the name of what is corrected (it counts once;
-- empty: nothing is), the lease that ends, then of each scope its limits, requests back, tokens to add, end its lease?; then the
-- day of the budgets (UNHEARD: as they are, less what was taken, however much that was; TODAY), tokens to add, tokens that are
-- settled with it, how many budgets there are
local now, name, limited, more, settled, taken = moment(ARGV[1]), ARGV[2], 0, 0, 0, nil
local counts = name ~= '' and redis.call('SREM', KEYS[1], name) == 1
local day = tonumber(ARGV[#ARGV - 3]) --$
more, settled, limited = tonumber(ARGV[#ARGV - 2]), tonumber(ARGV[#ARGV - 1]), tonumber(ARGV[#ARGV]) --$
if counts then --$
    taken = day == UNHEARD and redis.call('HGET', KEYS[1] .. ':cut', name) or nil --$
    redis.call('HDEL', KEYS[1] .. ':cut', name) --$
    if taken then more = -tonumber(taken) end --$
    for _, b in ipairs(budgets(now, limited, day ~= TODAY)) do --$
        if b[2] >= 0 then --$
            count(b, more, settled, day < 0 and b[2] or day) --$
            keep(b) --$
        end --$
    end --$
end --$
for i = 1, (#KEYS - 1 - limited) / 2 do
    local at = 7 * i - 3
    local requests, tokens = tonumber(ARGV[at + 4]), tonumber(ARGV[at + 5])
    if taken and tokens < 0 then tokens = more end
    if counts and (requests ~= 0 or tokens ~= 0) then
        local a = read(KEYS[2 * i], now, given(at))
        if tokens > 0 then take(a, 0, tokens) end
        give(a, requests, -tokens)
        write(KEYS[2 * i], a)
    end
    if ARGV[at + 6] == '1' then redis.call('ZREM', KEYS[2 * i + 1], ARGV[3]) end
end
return ''
"""
)

ADOPT: Final = Script(
    _COMMON
    + """-- open, the same of the node that is gone, leases ...; moment, name to open or none, lease, the node whose leases end
-- with this or none
local now = moment(ARGV[1])
if ARGV[4] ~= '' then redis.call('DEL', KEYS[2]) end
if ARGV[2] ~= '' then open(KEYS[1], ARGV[2]) end
for i = 3, #KEYS do
    if ARGV[4] ~= '' then
        for _, who in ipairs(redis.call('ZRANGE', KEYS[i], 0, -1)) do
            if who:sub(1, #ARGV[4]) == ARGV[4] then redis.call('ZREM', KEYS[i], who) end
        end
    end
    hold(KEYS[i], now, ARGV[3])
end
return ''
"""
)

RENEW: Final = Script(
    _COMMON
    + """-- leases; moment, who holds one ...
local now = moment(ARGV[1])
local ends, words = string.format('%.0f', now + LEASE), {}
for i = 2, #ARGV do
    words[#words + 1] = ends
    words[#words + 1] = ARGV[i]
end
redis.call('ZADD', KEYS[1], unpack(words))
redis.call('PEXPIRE', KEYS[1], LEASE / 1000)
return ''
"""
)

NODES: Final = Script(
    _COMMON
    + """-- nodes; moment, who, or the one that is gone -> how many there are
local now = moment(ARGV[1])
if ARGV[3] ~= '' then redis.call('ZREM', KEYS[1], ARGV[3]) end
if ARGV[2] ~= '' then hold(KEYS[1], now, ARGV[2]) end
return struct.pack('>i8', held(KEYS[1], now, 0))
"""
)

READ: Final = Script(_COMMON + USED + READ_TEXT)
SET_BACK: Final = Script(_COMMON + USED + SET_BACK_TEXT)
CHARGE: Final = Script(_COMMON + USED + CHARGE_TEXT)

ALL: Final = (
    ADMIT, RESERVE, RESERVE_BUDGETS, CORRECT, CORRECT_BUDGETS, ADOPT, RENEW, NODES, READ, SET_BACK, CHARGE,
)  # fmt: skip
