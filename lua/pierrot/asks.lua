-- Several asks at once (ask_all), and an ask whose reply arrives as a message (pipe). Each ask is made by a small actor
-- of its own, a child of whoever wants it: so the caller goes on, or waits for all of them together.

local values = require "pierrot.values"

local asks = {}

local pierrot
local select, type, unpack, pcall = select, type, unpack, pcall

local function packed(...)
  return { n = select("#", ...), ... }
end

local function highest(list)
  local n = type(list.n) == "number" and list.n or 0
  for key in pairs(list) do
    if type(key) == "number" and key > n then
      n = key
    end
  end
  return n
end

-- ok, values... or false and the error
local function ask(seconds, target, ...)
  if seconds then
    return pcall(pierrot.ask_within, target, seconds, ...)
  end
  return pcall(pierrot.ask, target, ...)
end

-- The actor ends after this message.
function asks.last()
  pierrot.stop()
end

function asks.one(to, number, seconds, ...)
  local result = packed(ask(seconds, ...))
  local entry = { err = result[2] }
  if result[1] then
    entry = { n = result.n - 1, unpack(result, 2, result.n) }
  end
  to:tell("pierrot.result", number, entry)
end

function asks.all(seconds, list)
  for i = 1, #list do
    local request = list[i]
    pierrot.spawn { "pierrot.asker", restart = "temporary" }:tell("one", pierrot.self(), i, seconds,
                                                                unpack(request, 1, highest(request)))
  end
  local results = {}
  for _ = 1, #list do
    local _, i, entry = pierrot.receive()
    results[i] = entry
  end
  return results
end

-- The first reply answers; when there is none, the last error.
function asks.first(answer, seconds, refs, ...)
  for i = 1, #refs do
    pierrot.spawn { "pierrot.asker", restart = "temporary" }:tell("one", pierrot.self(), i, seconds, refs[i], ...)
  end
  for left = #refs, 1, -1 do
    local _, _, entry = pierrot.receive()
    if not entry.err then
      answer:reply(unpack(entry, 1, entry.n))
      return
    elseif left == 1 then
      answer:fail(entry.err)
    end
  end
end

function asks.piped(to, names, seconds, ...)
  local result = packed(ask(seconds, ...))
  local ok, reason
  if result[1] then
    if names.n > 0 then
      ok, reason = to:tell(names[1], unpack(result, 2, result.n))
    else
      ok, reason = to:tell(unpack(result, 2, result.n))
    end
  elseif names.n > 0 then
    ok, reason = to:tell(names[1], nil, result[2])
  else
    ok, reason = to:tell(nil, result[2])
  end
  if not ok and reason == "full" then
    pierrot.log.warn("pipe: the mailbox of %s is full: a reply is lost", tostring(to))
  end
end

function asks.install(the_pierrot, misuse)
  pierrot = the_pierrot

  local function check(what, request, level)
    if type(request) ~= "table" or (type(request[1]) ~= "userdata" and type(request[1]) ~= "string") then
      misuse(level + 1, "%s: { ref, ... } expected", what)
    end
    if highest(request) > values.MOST then
      misuse(level + 1, "%s: at most %d values expected", what, values.MOST)
    end
  end

  local function check_seconds(what, seconds, level)
    if seconds ~= nil and (type(seconds) ~= "number" or not (seconds >= 0)) then
      misuse(level + 1, "%s: a number of seconds, 0 or more, or nil expected, got %s", what, tostring(seconds))
    end
  end

  function pierrot.ask_all(list, seconds)
    if type(list) ~= "table" then
      misuse(2, "ask_all: a list of { ref, ... } expected, got %s", type(list))
    end
    check_seconds("ask_all", seconds, 2)
    for i = 1, #list do
      check("ask_all", list[i], 2)
    end
    if #list == 0 then
      return {}
    end
    local gather, reason = pierrot.spawn { "pierrot.asker", restart = "temporary" }
    if not gather then
      misuse(2, "ask_all: %s", reason)
    end
    return (pierrot.ask_within(gather, math.huge, "all", seconds, list))
  end

  function pierrot.pipe(request, to, name, seconds)
    check("pipe", request, 2)
    check_seconds("pipe", seconds, 2)
    if type(to) == "string" then
      to = pierrot.whereis(to)
    end
    if type(to) ~= "userdata" then
      misuse(2, "pipe: a ref or a registered name expected")
    end
    local asker, reason = pierrot.spawn { "pierrot.asker", restart = "temporary" }
    if not asker then
      return nil, reason
    end
    local names = { n = name ~= nil and 1 or 0, name }
    return asker:tell("pipe", to, names, seconds, unpack(request, 1, highest(request))) and true
  end
end

return asks
