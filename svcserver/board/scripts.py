"""The Lua scripts that run inside Valkey or Redis; they know keys and bytes, but no game rules.

``LOAD`` reads entries and the engine's time. ``COMMIT`` writes entries if every compared entry is
unchanged, and publishes messages with consecutive numbers. The engine keeps a list of the latest
messages for processes that were disconnected. If an engine loses its data, the numbers begin at 1
again. ``COMMIT`` then first publishes message number 0 with a new id (the life id), so that
processes notice the loss.

If one of the board's keys has a value of a wrong Redis type, the scripts delete the value.
Otherwise every transaction that reads the key would fail.
"""

import hashlib

from attrs import field, frozen

MOST_LATELY = (
    16_384  # messages in the list: usually 5 MB, or eight seconds of 100,000 players' events
)
MOST_NUMBER = 10**14  # of messages: the engine formats larger numbers as fractions
LONGEST_LATELY = 8_192  # bytes; of a longer message, the list has only the number
MOST_BYTES = 8 << 20  # of an entry; a larger entry is not ours and is cut off
STAMP = 12  # bytes at an entry's start, unique for each write, for the comparison

# the arguments of COMMIT for each key: stamp, value, milliseconds to live, list
ANY, ABSENT = b"*", b""  # instead of a stamp: not compared; must not exist
KEEP, DROP = b"-", b""  # instead of a value
FOR_EVER = b""
UNLISTED = b""


@frozen
class Script:
    """A Lua script with its SHA-1 hash, under which the engine stores the script."""

    text: str
    sha: str = field(init=False)

    @sha.default
    def _digest(self) -> str:
        return hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest()


# ARGV[i]: milliseconds to live from now on, or "" to keep the time to live.
# Returns seconds, microseconds and the entries; an absent entry is empty.
LOAD = Script(
    """
local time = redis.call('TIME')
local found = {time[1], time[2]}
for i, key in ipairs(KEYS) do
  local value = redis.pcall('GETRANGE', key, 0, MOST_BYTES)
  if type(value) == 'table' then
    redis.call('DEL', key)
    value = ''
  end
  if ARGV[i] ~= '' and value ~= '' then redis.call('PEXPIRE', key, ARGV[i]) end
  found[i + 2] = value
end
return found
""".replace("MOST_BYTES", str(MOST_BYTES))
)

# ARGV: a command that reads the list members after a given time. Returns its reply.
LISTED = Script(
    """
local found = redis.pcall(ARGV[1], KEYS[1], ARGV[2], '+inf')
if type(found) ~= 'table' or not found.err then return found end
redis.call('DEL', KEYS[1])
return redis.call(ARGV[1], KEYS[1], ARGV[2], '+inf')
"""
)

# ARGV: four values for each key as above, then a channel and a text for each message.
# Returns the index of the first changed key, or 0 and the numbers of the messages.
COMMIT = Script(
    """
local n = #KEYS
for i, key in ipairs(KEYS) do
  local expected = ARGV[4 * i - 3]
  if expected ~= '*' and redis.pcall('GETRANGE', key, 0, 11) ~= expected then return {i} end
end
local ms
for i, key in ipairs(KEYS) do
  local value, life, list = ARGV[4 * i - 2], ARGV[4 * i - 1], ARGV[4 * i]
  if value ~= '-' then
    if value == '' then
      redis.call('DEL', key)
    elseif life == '' then
      redis.call('SET', key, value)
    else
      redis.call('SET', key, value, 'PX', life)
    end
    if list ~= '' then
      if not ms then
        local time = redis.call('TIME')
        ms = time[1] * 1000 + math.floor(time[2] / 1000)
      end
      local member = string.sub(key, #list + 2)
      if type(redis.pcall('ZREMRANGEBYSCORE', list, '-inf', ms)) == 'table' then
        redis.call('DEL', list)
      end
      if value == '' then
        redis.call('ZREM', list, member)
      else
        redis.call('ZADD', list, life == '' and 'inf' or ms + life, member)
      end
    end
  end
end
local reply = {0}
for i = 4 * n + 1, #ARGV, 2 do
  local number = redis.pcall('INCR', ARGV[i] .. ':told')
  if type(number) == 'table' or number < 1 or number > MOST_NUMBER then
    redis.call('DEL', ARGV[i] .. ':told')
    number = redis.call('INCR', ARGV[i] .. ':told')
  end
  if number == 1 then
    local time = redis.call('TIME')
    local life = '0 life ' .. time[1] .. '.' .. time[2]
    redis.call('SET', ARGV[i] .. ':life', life)
    redis.call('DEL', ARGV[i] .. ':lately')
    redis.call('PUBLISH', ARGV[i], life)
    redis.call('RPUSH', ARGV[i] .. ':lately', life)
  end
  local said = number .. ' ' .. ARGV[i + 1]
  redis.call('PUBLISH', ARGV[i], said)
  if #said > LONGEST_LATELY then said = number .. ' ' end
  if type(redis.pcall('RPUSH', ARGV[i] .. ':lately', said)) == 'table' then
    redis.call('DEL', ARGV[i] .. ':lately')
    redis.call('RPUSH', ARGV[i] .. ':lately', said)
  end
  redis.call('LTRIM', ARGV[i] .. ':lately', -MOST_LATELY, -1)
  reply[#reply + 1] = number
end
return reply
""".replace("LONGEST_LATELY", str(LONGEST_LATELY))
    .replace("MOST_LATELY", str(MOST_LATELY))
    .replace("MOST_NUMBER", str(MOST_NUMBER))
)
SCRIPTS = LOAD, LISTED, COMMIT
