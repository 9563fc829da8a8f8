-- wrk script: replays prepared requests in turn. usage: wrk -s replay.lua URL -- FILE
-- FILE holds whole HTTP/1.1 requests, each after its length as a 4-byte big-endian number.

local requests, turn = {}, 0

function init(arguments)
  local file = assert(io.open(arguments[1], "rb"))
  local bytes = file:read("*a")
  file:close()
  local at = 1
  while at + 3 <= #bytes do
    local a, b, c, d = bytes:byte(at, at + 3)
    local length = ((a * 256 + b) * 256 + c) * 256 + d
    requests[#requests + 1] = bytes:sub(at + 4, at + 3 + length)
    at = at + 4 + length
  end
  turn = math.random(#requests) -- threads start at different requests
end

function request()
  turn = turn % #requests + 1
  return requests[turn]
end
