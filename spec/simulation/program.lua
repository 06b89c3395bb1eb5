-- Random programs of actors: data, drawn from a seed alone, so that a part of one can be left out without the rest becoming
-- another program.
--
-- { seed =, throughput =, ops = { what is done outside, in order } }. An op is a table: `op`, its operands, and in `ops` what
-- the handler of the message (or `start` of the actor) that it makes is to do. Actors are numbers from 1; 0 is outside. A
-- message has a number of its own, `id`.

local bit = require "bit"

local program = {}

program.ACTORS = 8

-- xorshift32 (G. Marsaglia)
local function dice_of(seed)
  local state = bit.tobit(seed * 2654435761 % 2 ^ 32 + 12345)
  if state == 0 then
    state = 1
  end
  return function(n)   -- 0 to n - 1
    state = bit.bxor(state, bit.lshift(state, 13))
    state = bit.bxor(state, bit.rshift(state, 17))
    state = bit.bxor(state, bit.lshift(state, 5))
    return (state % 2 ^ 32) % n
  end
end

local RESTARTS = { [0] = "transient", "permanent", "temporary" }
local OVERFLOWS = { [0] = "reject", "suspend", "drop_newest", "drop_oldest" }

-- Rules of a parent, by number from 0: see world.lua.
program.RULES = 12

function program.make(seed)
  local dice = dice_of(seed)
  local made = { seed = seed, throughput = 1 + dice(32), ops = {} }
  local born, id, left = 0, 0, 20 + dice(80)
  local alloc = dice(10) == 0   -- a program with allocations that fail: the model expects less of it

  local ops

  local function message(depth)
    id = id + 1
    return id, depth < 3 and ops(dice(4), depth + 1) or {}
  end

  local function spawn(depth)
    born = born + 1
    local number = born
    return { op = "spawn", to = number, restart = RESTARTS[dice(3)], rules = dice(program.RULES), trap = dice(4) == 0,
             capacity = dice(5) == 0 and 1 + dice(3) or nil, overflow = OVERFLOWS[dice(4)], link = dice(10) == 0,
             monitor = dice(8) == 0, ops = depth < 3 and ops(dice(3), depth + 1) or {} }
  end

  local function somebody() return 1 + dice(math.max(born, 1)) end

  local function one(depth)
    local roll, outside = dice(100), depth == 0
    if roll < 8 and born < program.ACTORS then
      return spawn(depth)
    elseif roll < 46 then
      local to = somebody()
      local number, inner = message(depth)
      return { op = "tell", to = to, id = number, ops = inner }
    elseif roll < 55 then
      local to = somebody()
      local number, inner = message(depth)
      return { op = "ask", to = to, id = number, seconds = 1 + dice(5), ops = inner }
    elseif roll < 63 then
      local to = somebody()
      local number, inner = message(depth)
      return { op = "after", to = to, id = number, seconds = dice(80) / 10, ops = inner }
    elseif roll < 65 and not outside then
      id = id + 1
      return { op = "every", id = id, seconds = (1 + dice(30)) / 10, times = 1 + dice(3) }
    elseif roll < 67 then
      return { op = "cancel" }
    elseif roll < 71 then
      return { op = ({ [0] = "stop", "drain", "kill" })[dice(3)], to = somebody() }
    elseif roll < 75 then
      return outside and { op = "advance", seconds = dice(30) / 10 } or { op = "sleep", seconds = dice(30) / 10 }
    elseif roll < 79 then
      return outside and { op = "turns", n = dice(20) } or { op = "fail" }
    elseif roll < 82 then
      return { op = "monitor", to = somebody() }
    elseif roll < 85 then
      return { op = "link", to = somebody() }
    elseif roll < 86 then
      return { op = "unlink", to = somebody() }
    elseif roll < 90 then
      return { op = "join", group = dice(2), to = somebody() }
    elseif roll < 91 then
      return { op = "leave", group = dice(2), to = somebody() }
    elseif roll < 94 then
      local number, inner = message(depth)
      return { op = "publish", group = dice(2), id = number, ops = inner }
    elseif roll < 95 then
      return outside and { op = "jump", seconds = dice(60) / 10 } or { op = "finish" }
    elseif roll < 97 then
      return outside and { op = "stall", worker = 1 + dice(2), n = 1 + dice(40) } or { op = "yield" }
    elseif roll < 98 and alloc then
      return outside and { op = "alloc", n = 1 + dice(60) } or { op = "yield" }
    end
    return outside and { op = "turns", n = 1 + dice(5) } or { op = "stash" }
  end

  function ops(n, depth)
    local list = {}
    for _ = 1, n do
      if left > 0 then
        left = left - 1
        list[#list + 1] = one(depth)
      end
    end
    return list
  end

  made.ops[1] = spawn(0)
  if born < program.ACTORS then
    made.ops[2] = spawn(0)
  end
  while left > 0 do
    for _, op in ipairs(ops(1, 0)) do
      made.ops[#made.ops + 1] = op
    end
  end
  return made
end

-- Ops, and those within them.
function program.size(ops)
  local n = 0
  for _, op in ipairs(ops) do
    n = n + 1 + program.size(op.ops or {})
  end
  return n
end

-- All programs with one op less (and what is within it): an iterator of { ops = }, the biggest first.
function program.smaller(ops)
  local list = {}
  local function walk(here, rebuild)
    for i, op in ipairs(here) do
      local function without(replacement)
        local copy = {}
        for k, other in ipairs(here) do
          if k ~= i then
            copy[#copy + 1] = other
          elseif replacement then
            copy[#copy + 1] = replacement
          end
        end
        return rebuild(copy)
      end
      list[#list + 1] = { size = 1 + program.size(op.ops or {}), make = without }
      if op.ops and #op.ops > 0 then
        walk(op.ops, function(inner)
          local changed = {}
          for key, value in pairs(op) do
            changed[key] = value
          end
          changed.ops = inner
          return without(changed)
        end)
      end
    end
  end
  walk(ops, function(copy) return copy end)
  table.sort(list, function(a, b) return a.size > b.size end)
  local i = 0
  return function()
    i = i + 1
    return list[i] and list[i].make()
  end
end

-- As text, an op a line.
function program.show(ops, indent)
  local out = {}
  for _, op in ipairs(ops) do
    local operands, keys = {}, {}
    for key, value in pairs(op) do
      if key ~= "op" and key ~= "ops" and value ~= false then
        keys[#keys + 1] = key
      end
    end
    table.sort(keys)
    for _, key in ipairs(keys) do
      operands[#operands + 1] = ("%s=%s"):format(key, tostring(op[key]))
    end
    out[#out + 1] = ("%s%s %s\n"):format(indent, op.op, table.concat(operands, " "))
    out[#out + 1] = program.show(op.ops or {}, indent .. "    ")
  end
  return table.concat(out)
end

return program
