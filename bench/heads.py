"""Request heads of many players, each with different header fields."""

from pathlib import Path

PLAYERS = 2_000  # each with a token and ids of its own, on eight paths: 16,000 heads
VARIED = """
math.randomseed(1)
local letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
local function some(count, from)
  local found = {{}}
  for at = 1, count do
    local n = math.random(#from)
    found[at] = from:sub(n, n)
  end
  return table.concat(found)
end
local function uuid()
  local hex = "0123456789abcdef"
  return some(8, hex).."-"..some(4, hex).."-"..some(4, hex).."-"..some(4, hex).."-"..some(12, hex)
end
local paths = {{
  "/inventory/UID-%s/%s", "/account/UID-%s/characters", "/heartbeat?player=%s", "/friends/UID-%s",
  "/party/UID-%s", "/progression/UID-%s", "/guild/member/UID-%s", "/gamesession/UID-%s/city",
}}
local heads = {{}}
for player = 1, {players} do
  local token = "eyJ"..some(60, letters).."."..some(260, letters).."."..some(342, letters)
  local own, character = uuid(), uuid()
  for _, path in ipairs(paths) do
    heads[#heads + 1] = "GET "..path:format(own, character).." HTTP/1.1\\r\\n"
      .."Host: 127.0.0.1:{port}\\r\\nAccept: */*\\r\\nAccept-Encoding: deflate, gzip\\r\\n"
      .."User-Agent: Game/++Release-4.26 Windows/10.0.19041.1.256.64bit\\r\\n"
      .."Authorization: Bearer "..token.."\\r\\n\\r\\n"
  end
end
function request() return heads[math.random(#heads)] end
"""


def varied(folder: Path, port: int) -> Path:
    """Write a wrk script that sends a randomly chosen head with each request."""
    script = folder / f"heads-{port}.lua"
    script.write_text(VARIED.format(players=PLAYERS, port=port))
    return script
