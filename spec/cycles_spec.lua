-- Cycles of spawn, name, monitor, join, ask, timer, stop: what each of them has taken is given back. After the first 50,000
-- neither resident memory nor any worker's Lua heap grows, and at the end there is no actor, no name, no membership, and no
-- timer: an hour's timers are set to and by each, and yet the program ends at once.
--
-- 100,000 cycles on each run; PIERROT_HAMMER=10 for a million.

local script = require "support.script"
local times = require "support.times"

local source = [[
  local pierrot = require "pierrot"
  local cycles, drivers = tonumber(arg[1]), 4
  local workers = pierrot.stats().workers

  local Child = {
    name = "cyclist",
    start = function(self, name, boss)
      self.name = name
      pierrot.join "cyclists"
      pierrot.join("of " .. name)
      pierrot.send_every(3600, boss, "never")
      pierrot.send_after(3600, pierrot.self(), "never")
    end,
    on = { who = function(self) return self.name end },
  }

  local Driver = { on = {
    ride = function(self, from, to)
      for i = from, to do
        local name = "cyclist " .. i
        local where = i % (workers + 1)
        local ref, monitor = pierrot.spawn { Child, name, pierrot.self(), name = name, monitor = true,
                                             worker = where > 0 and where or nil }
        if ref:ask_within(60, "who") ~= name or pierrot.whereis(name) ~= ref then error("not " .. name) end
        pierrot.send_after(3600, ref, "never")
        pierrot.send_every(3600, ref, "never")
        local way = i % 3
        if way == 0 then ref:stop() elseif way == 1 then ref:kill() else ref:drain() end
        local what, who, _, which = pierrot.receive(60)
        if what ~= "down" or who ~= ref or which ~= monitor then error("no down of " .. name) end
      end
      return true
    end } }

  local function resident()
    for line in io.lines "/proc/self/status" do
      local kb = line:match "^VmRSS:%s+(%d+)"
      if kb then return tonumber(kb) end
    end
  end

  -- The live memory of each worker's state, in KB.
  local probes = {}
  for w = 1, workers do
    probes[w] = pierrot.spawn { function()
      collectgarbage() collectgarbage()
      return collectgarbage "count"
    end, worker = w }
  end
  local function heaps()
    local sum = 0
    for w = 1, workers do sum = sum + probes[w]:ask_within(60) end
    return sum
  end

  local them = {}
  for d = 1, drivers do them[d] = pierrot.spawn { Driver, worker = (d - 1) % workers + 1 } end
  local step = cycles / 10
  for round = 1, 10 do
    local asks = {}
    for d = 1, drivers do
      local from = (round - 1) * step + (d - 1) * step / drivers
      asks[d] = { them[d], "ride", from + 1, from + step / drivers }
    end
    for _, answer in ipairs(pierrot.ask_all(asks, 600)) do assert(answer[1] == true, tostring(answer[2])) end
    local s = pierrot.stats()
    print(round * step, resident(), math.floor(heaps()), s.names, s.memberships)
  end
  for _, list in ipairs { them, probes } do
    for _, ref in ipairs(list) do ref:stop() end
  end
  while pierrot.stats().actors > 1 do pierrot.sleep(0.001) end
  assert(pierrot.stats().spawned >= cycles)
]]

describe("a cycle of spawn, name, monitor, join, ask, timer and stop", function()
  teardown(script.clean)

  it("gives back all that it has taken", function()
    local cycles = times(100000, 2000)
    local out = script.output(source, { flags = "--log error --workers 3", args = tostring(cycles), limit = 280 })
    local first_kb, first_heap, last
    for done, kb, heap, names, memberships in out:gmatch "(%d+)\t(%d+)\t(%d+)\t(%d+)\t(%d+)\n" do
      done, kb, heap = tonumber(done), tonumber(kb), tonumber(heap)
      assert.equal("0", names)
      assert.equal("0", memberships)
      if done >= 50000 and not first_kb then first_kb, first_heap = kb, heap end
      if first_kb then
        -- Of resident memory: what a collector has not come to yet, and the blocks of an allocator. It is no share of the cycles.
        assert.is_true(kb <= first_kb + 2048, out)
        assert.is_true(heap <= first_heap + 64, out)
      end
      last = done
    end
    assert.equal(cycles, last)
    if os.getenv "PIERROT_HAMMER" then io.stderr:write(out) end
  end)
end)
