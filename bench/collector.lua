--- How long Lua's collector holds a worker up:  pierrot run bench/collector.lua [ACTORS]
--
-- On a worker with so many actors (100,000), each with a field and one message behind it, three whole cycles are
-- driven in the smallest steps there are, and each step is timed. What the collector does in one go, whatever the pace:
-- it goes through one table, or, at the end of its marking, through all that has changed since it was marked.

local pierrot = require "pierrot"

local CYCLES = 3

local Actor = {
  start = function(self) self.count = 0 end,
  receive = function(self, x)
    self.count = self.count + 1
    self[self.count] = x
    return self.count
  end,
}

local Collector = {
  receive = function()
    local longest, steps, by_power = 0, 0, {}
    for _ = 1, CYCLES do
      repeat
        local begin = pierrot.now()
        local done = collectgarbage("step", 1)
        local took = pierrot.now() - begin
        local power = math.max(0, math.ceil(math.log(took * 1e6) / math.log(2)))
        by_power[power] = (by_power[power] or 0) + 1
        longest, steps = math.max(longest, took), steps + 1
      until done
    end
    return longest, steps, by_power, collectgarbage "count"
  end,
}

-- Spawned in a function, whose table of refs is garbage when the collector is timed.
local function populate(count)
  local refs = {}
  for i = 1, count do
    refs[i] = pierrot.spawn { Actor, worker = 1 }
    refs[i]:tell(i)
  end
  return refs[count]
end

local count = tonumber(arg[1] or 100000)
populate(count):ask_within(60, 0)
local longest, steps, by_power, kb = pierrot.spawn { Collector, worker = 1 }:ask_within(60, "go")
print(("%d actors, %.1f MB of Lua on their worker: %d steps, the longest %.2f ms"):format(
  count, kb / 1024, steps, longest * 1e3))
for power = 0, 20 do
  if by_power[power] then print(("  up to %7d us  %6d"):format(2 ^ power, by_power[power])) end
end
