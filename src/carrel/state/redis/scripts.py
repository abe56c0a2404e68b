"""Lua scripts that Redis runs: operations of several commands that must not be interrupted. Each takes constant time.

All keys have the same hash tag, so that they are in one hash slot of a cluster.
"""

from __future__ import annotations

import hashlib

__all__ = ["SCRIPTS", "Script"]

#: Milliseconds for which the bus, the leases and the mailbox of a replica are kept after their last use.
DAY = 86_400_000

#: Adds an entry to the bus. KEYS[1] is the hash of counters, KEYS[2] the stream. A new bus begins with the time in
#: microseconds, so that its positions are above all positions of an earlier bus that FLUSHALL has removed.
ADD = f"""
local function now()
  local time = redis.call('TIME')
  return time[1] * 1000000 + time[2]
end
local function add(limit, field, value)
  local position = redis.call('HINCRBY', KEYS[1], 'position', 1)
  if position == 1 then
    position = now()
    redis.call('HSET', KEYS[1], 'position', string.format('%.0f', position))
  end
  redis.call('XADD', KEYS[2], 'MAXLEN', '~', limit, string.format('%.0f-0', position), field, value)
  redis.call('PEXPIRE', KEYS[1], {DAY})
  redis.call('PEXPIRE', KEYS[2], {DAY})
end
"""


class Script:
    """Script, with the digest by which Redis knows it."""

    __slots__ = ("digest", "source")

    def __init__(self, source: str) -> None:
        self.source = source
        self.digest = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()


# Replicas. KEYS: counters, bus, leases (sorted by expiry in microseconds).

#: ARGV: lease in microseconds, largest slot, first slot, name of the bus, sealed text, token of the replica.
JOIN = Script(
    ADD
    + f"""
redis.call('HSETNX', KEYS[1], 'slot', ARGV[3])
redis.call('HSETNX', KEYS[1], 'name', ARGV[4])
redis.call('HSETNX', KEYS[1], 'sealed', ARGV[5])
redis.call('HSETNX', KEYS[1], 'position', string.format('%.0f', now()))
local slot
repeat
  slot = redis.call('HINCRBY', KEYS[1], 'slot', 1) % (ARGV[2] + 1)
until not redis.call('ZSCORE', KEYS[3], slot)
redis.call('ZADD', KEYS[3], string.format('%.0f', now() + ARGV[1]), slot)
redis.call('HSET', KEYS[1], string.format('slot:%.0f', slot), ARGV[6])
redis.call('PEXPIRE', KEYS[1], {DAY})
redis.call('PEXPIRE', KEYS[3], {DAY})
local found = redis.call('HMGET', KEYS[1], 'name', 'position', 'sealed')
return {{slot, found[1], found[2], found[3], string.format('%.0f', now())}}
"""
)

#: Returns the time in microseconds, or "" if the slot is lost. A Redis that has lost the latest changes may have given
#: the slot to another replica since, which has another token.
#: ARGV: lease in microseconds, slot, start of the keys of mailboxes, entries that the bus keeps, token.
RENEW = Script(
    ADD
    + f"""
for _, lost in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', string.format('%.0f', now()), 'LIMIT', 0, 100)) do
  redis.call('ZREM', KEYS[3], lost)
  redis.call('HDEL', KEYS[1], 'slot:' .. lost)
  redis.call('DEL', ARGV[3] .. lost)
  add(ARGV[4], 'gone', lost)
end
if not redis.call('ZSCORE', KEYS[3], ARGV[2]) then return '' end
if redis.call('HGET', KEYS[1], 'slot:' .. ARGV[2]) ~= ARGV[5] then return '' end
redis.call('ZADD', KEYS[3], string.format('%.0f', now() + ARGV[1]), ARGV[2])
for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, {DAY}) end
redis.call('PEXPIRE', ARGV[3] .. ARGV[2], {DAY})
return string.format('%.0f', now())
"""
)

#: ARGV: slot, start of the keys of mailboxes, entries that the bus keeps, token.
LEAVE = Script(
    ADD
    + """
if redis.call('HGET', KEYS[1], 'slot:' .. ARGV[1]) == ARGV[4] and redis.call('ZREM', KEYS[3], ARGV[1]) == 1 then
  redis.call('HDEL', KEYS[1], 'slot:' .. ARGV[1])
  redis.call('DEL', ARGV[2] .. ARGV[1])
  add(ARGV[3], 'gone', ARGV[1])
end
"""
)

# Messages between replicas

#: KEYS: counters, bus. ARGV: entries that the bus keeps, entry.
PUBLISH = Script(ADD + "add(ARGV[1], 'sealed', ARGV[2])")

#: Skips a position, which tells all replicas that notices may be lost. KEYS: counters, bus. ARGV: entries.
SKIP = Script(
    ADD
    + """
local position = math.max(now(), redis.call('HINCRBY', KEYS[1], 'position', 1))
redis.call('HSET', KEYS[1], 'position', string.format('%.0f', position))
add(ARGV[1], 'skip', '')
"""
)

#: KEYS: leases, mailbox. ARGV: slot, letter, entries that a mailbox keeps.
PUT = Script(
    f"""
local time = redis.call('TIME')
local expires = redis.call('ZSCORE', KEYS[1], ARGV[1])
if not expires or tonumber(expires) <= time[1] * 1000000 + time[2] then return 0 end
redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[3], '*', 'sealed', ARGV[2])
redis.call('PEXPIRE', KEYS[2], {DAY})
return 1
"""
)

#: KEYS: leases. ARGV: slot.
HAS_REPLICA = Script(
    """
local time = redis.call('TIME')
local expires = redis.call('ZSCORE', KEYS[1], ARGV[1])
return expires and tonumber(expires) > time[1] * 1000000 + time[2] and 1 or 0
"""
)

# Locks: the slot of the holder, and a number that grows

#: Returns the holder. KEYS: counters, leases, lock. ARGV: slot, lifetime in milliseconds.
ACQUIRE = Script(
    """
local held = redis.call('GET', KEYS[3])
if held then
  local slot = string.match(held, '%d+')
  if slot == ARGV[1] then
    redis.call('PEXPIRE', KEYS[3], ARGV[2])
    return held
  end
  local time = redis.call('TIME')
  local expires = redis.call('ZSCORE', KEYS[2], slot)
  if expires and tonumber(expires) > time[1] * 1000000 + time[2] then return held end
end
held = string.format('%s %.0f', ARGV[1], redis.call('HINCRBY', KEYS[1], 'locks', 1))
redis.call('SET', KEYS[3], held, 'PX', ARGV[2])
return held
"""
)

#: KEYS: lock. ARGV: slot.
RELEASE = Script(
    """
local held = redis.call('GET', KEYS[1])
if held and string.match(held, '%d+') == ARGV[1] then redis.call('DEL', KEYS[1]) end
"""
)

# Sessions. KEYS: the hash of a session.

#: ARGV: lifetime in milliseconds, and fields, each followed by its value.
CREATE = Script("redis.call('HSET', KEYS[1], unpack(ARGV, 2)) redis.call('PEXPIRE', KEYS[1], ARGV[1])")

#: ARGV: field, value.
SET_IF_EXISTS = Script(
    """
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return 1
"""
)

#: ARGV: start of the names of the fields.
FIELDS = Script(
    """
local found = {}
for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
  if string.sub(field, 1, #ARGV[1]) == ARGV[1] then
    table.insert(found, field)
    table.insert(found, redis.call('HGET', KEYS[1], field))
  end
end
return found
"""
)

#: ARGV: field, value, most bytes of all values, bytes by which sealing makes a value longer, start of their names.
PUT_VALUE = Script(
    """
if redis.call('EXISTS', KEYS[1]) == 0 then return 1 end
local total = #ARGV[2] - ARGV[4]
for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
  if string.sub(field, 1, #ARGV[5]) == ARGV[5] and field ~= ARGV[1] then
    total = total + redis.call('HSTRLEN', KEYS[1], field) - ARGV[4]
  end
end
if total > tonumber(ARGV[3]) then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return 1
"""
)

# Events. KEYS: the list of a stream, of "number:sealed event", and "" after the last event.

#: ARGV: lifetime in milliseconds, oldest number, event.
APPEND = Script(
    """
redis.call('RPUSH', KEYS[1], ARGV[3])
while true do
  local first = redis.call('LINDEX', KEYS[1], 0)
  local number = first and tonumber(string.match(first, '^%d+'))
  if not number or number >= tonumber(ARGV[2]) then break end
  redis.call('LPOP', KEYS[1])
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
"""
)

#: ARGV: number after which events are returned. Returns whether there is such a stream, then the events, latest first.
EVENTS = Script(
    """
local found, index = {redis.call('EXISTS', KEYS[1])}, -1
while true do
  local event = redis.call('LINDEX', KEYS[1], index)
  if not event then break end
  local number = tonumber(string.match(event, '^%d+'))
  if number and number <= tonumber(ARGV[1]) then break end
  table.insert(found, event)
  index = index - 1
end
return found
"""
)

# Tasks. KEYS: the hash of a task, the sorted set of the tasks of its owner, counters.

#: ARGV: lifetime in milliseconds, record, name of the task in the set of its owner, or "".
CREATE_TASK = Script(
    """
local position = redis.call('HINCRBY', KEYS[3], 'task', 1)
redis.call('HSET', KEYS[1], 'record', ARGV[2], 'position', position, 'owner', KEYS[2])
redis.call('PEXPIRE', KEYS[1], ARGV[1])
if ARGV[3] ~= '' then
  local kept = redis.call('PTTL', KEYS[2])
  redis.call('ZADD', KEYS[2], position, ARGV[3])
  redis.call('PEXPIRE', KEYS[2], math.max(kept, ARGV[1]))
end
"""
)

#: KEYS: the hash of a task. ARGV: record, "1" if its status is final.
SAVE_TASK = Script(
    """
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
if ARGV[2] == '1' then
  if redis.call('HSETNX', KEYS[1], 'over', 1) == 0 then return 0 end
elseif redis.call('HEXISTS', KEYS[1], 'over') == 1 then
  return 0
end
redis.call('HSET', KEYS[1], 'record', ARGV[1])
return 1
"""
)

#: KEYS: the hash of a task. ARGV: name of the task in the set of its owner.
REMOVE_TASK = Script(
    """
local owner = redis.call('HGET', KEYS[1], 'owner')
if owner then redis.call('ZREM', owner, ARGV[1]) end
redis.call('DEL', KEYS[1])
"""
)

# Used request states and quotas

#: KEYS: the hash of an exchange. ARGV: step, digest of the answers, lifetime in milliseconds.
USE = Script(
    """
local last = redis.call('HMGET', KEYS[1], 'step', 'answers', 'asked')
if last[1] then
  local step, taken = tonumber(ARGV[1]), tonumber(last[1])
  if last[3] ~= '1' or step < taken or (step == taken and last[2] ~= ARGV[2]) then return 0 end
end
redis.call('HSET', KEYS[1], 'step', ARGV[1], 'answers', ARGV[2], 'asked', 0)
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1
"""
)

#: KEYS: the hash of an exchange. ARGV: lifetime in milliseconds.
ASKED = Script(
    """
if redis.call('EXISTS', KEYS[1]) == 1 then
  redis.call('HSET', KEYS[1], 'asked', 1)
  redis.call('PEXPIRE', KEYS[1], ARGV[1])
end
"""
)

#: KEYS: the hash of a bucket. ARGV: amount, capacity, seconds in which it fills.
TAKE = Script(
    """
local time = redis.call('TIME')
local now, amount, capacity = time[1] + time[2] / 1000000, tonumber(ARGV[1]), tonumber(ARGV[2])
local rate = capacity / ARGV[3]
local known = redis.call('HMGET', KEYS[1], 'missing', 'at')
local missing = 0
if known[1] then missing = math.max(0, known[1] - math.max(0, now - known[2]) * rate) end
local lacking = missing + amount - capacity
if lacking > 0 then return string.format('%.17g', lacking / rate) end
missing = math.max(0, missing + amount)
redis.call('HSET', KEYS[1], 'missing', string.format('%.17g', missing), 'at', string.format('%.17g', now))
redis.call('PEXPIRE', KEYS[1], math.max(1, math.ceil(missing / rate * 1000)))
return '0'
"""
)

SCRIPTS = [script for script in list(globals().values()) if isinstance(script, Script)]
