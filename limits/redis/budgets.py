"""What the server keeps of budgets, and does with them, in the steps of `limits.redis.scripts` and in some of its own.

A budget is one key for each scope that has one, below the tenant's hash tag: a day, what was used on it and in its month, and
what of both was settled, as `limits.budget` has it. It is kept for longer than a month from its last use. The server's TIME
decides the day, and one that goes back does not. What a budget cut down is noted beside the open debits, so that it can be given
back by who never heard of it.
"""

from __future__ import annotations

from typing import Final

UNHEARD, TODAY = -1, -2
"""In the place of a day: of what was never heard of, and the one that it is on the server."""
_KEPT = 40 * 86400  # seconds

USED: Final = f"""
local UNHEARD, TODAY = {UNHEARD}, {TODAY}
local DAY, KEPT, MOST = 86400000000, {_KEPT * 1000}, {1 << 52:.0f}
local function month_of(day)  -- months since the year 0, by the proleptic Gregorian calendar; years begin in March here
    local z = day + 719468
    local era = math.floor(z / 146097)
    local of_era = z - era * 146097
    local leaps = math.floor(of_era / 1460) - math.floor(of_era / 36524) + math.floor(of_era / 146096)
    local year = math.floor((of_era - leaps) / 365)
    local of_year = of_era - (365 * year + math.floor(year / 4) - math.floor(year / 100))
    return (era * 400 + year) * 12 + math.floor((5 * of_year + 2) / 153) + 2
end
local function kept(key)  -- key, day, used on it, used in its month, and what of these was settled
    local value = redis.call('GET', key)
    if not value or #value ~= 40 then return {{key, -1, 0, 0, 0, 0}} end
    local day, today, month, settled_today, settled_month = struct.unpack('>i8i8i8i8i8', value)
    return {{key, day, today, month, settled_today, settled_month}}
end
local function keep(b)
    redis.call('SET', b[1], struct.pack('>i8i8i8i8i8', b[2], b[3], b[4], b[5], b[6]), 'PX', string.format('%.0f', KEPT))
end
local function begin(b, day)
    if day > b[2] then
        if b[2] < 0 or month_of(b[2]) ~= month_of(day) then b[4], b[6] = 0, 0 end
        b[2], b[3], b[5] = day, 0, 0
    end
end
local function bounded(tokens) return math.min(math.max(0, tokens), MOST) end
local function count(b, tokens, settled, day)
    if month_of(day) ~= month_of(b[2]) then return end
    b[4], b[6] = bounded(b[4] + tokens), bounded(b[6] + settled)
    if day == b[2] then b[3], b[5] = bounded(b[3] + tokens), bounded(b[5] + settled) end
end
local function budgets(now, n, as_they_are)  -- of the last n keys, all on the same day
    local found, day = {{}}, math.floor(now / DAY)
    for i = 1, n do
        found[i] = kept(KEYS[#KEYS - n + i])
        day = math.max(day, found[i][2])
    end
    if not as_they_are then
        for _, b in ipairs(found) do begin(b, day) end
    end
    return found
end
local function room(b, day, month)  -- fewest tokens that are left, where -1 is no budget
    local left = MOST
    if day >= 0 then left = math.max(0, day - b[3]) end
    if month >= 0 then left = math.max(0, math.min(left, month - b[4])) end
    return left
end
local function said(found)
    local words = {{}}
    for i, b in ipairs(found) do words[i] = struct.pack('>i8i8i8', b[2], b[3], b[4]) end
    return table.concat(words)
end
"""

READ_TEXT: Final = """-- budgets; moment -> day, used on it and in its month, of each
return said(budgets(moment(ARGV[1]), #KEYS))
"""

SET_BACK_TEXT: Final = """-- budgets; moment -> the same. What runs stays reserved
local day, found = math.floor(moment(ARGV[1]) / DAY), {}
for i, key in ipairs(KEYS) do
    local b = kept(key)
    local today = day == b[2] and math.max(0, b[3] - b[5]) or 0
    local month = b[2] >= 0 and month_of(day) == month_of(b[2]) and math.max(0, b[4] - b[6]) or 0
    found[i] = {key, day, today, month, 0, 0}
    keep(found[i])
end
return said(found)
"""

CHARGE_TEXT: Final = """-- the number of the last charge of this node, budget; moment, number, day, tokens: counts once
local today, number = math.floor(moment(ARGV[1]) / DAY), tonumber(ARGV[2])
if number > tonumber(redis.call('GET', KEYS[1]) or '0') then
    redis.call('SET', KEYS[1], ARGV[2], 'PX', DAY / 1000)
    local b, day = kept(KEYS[2]), math.min(tonumber(ARGV[3]), today)
    begin(b, day)
    count(b, tonumber(ARGV[4]), tonumber(ARGV[4]), day)
    keep(b)
end
return ''
"""
