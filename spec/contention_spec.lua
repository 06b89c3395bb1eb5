-- Two workers on one processor, as in a container with a small share, or beside another program that computes: who has nothing to
-- do gives the processor to the other one. (To look for messages there again and again, and then to sleep, made each hand-over
-- fifty times as long.) See pr_worker_sleep.
--
-- Mutants that these find: a worker that does not note its processor, that never looks at the others', or does not yield.

local script = require "support.script"

-- The first processor that this process may use.
local function processor()
  local status = assert(script.read("/proc/self/status"))
  return (assert(status:match("Cpus_allowed_list:%s*(%d+)")))
end

describe("two workers on one processor", function()
  after_each(script.clean)

  it("answer each other without falling asleep", function()
    local file = script.write("there_and_back.lua", [[
      local pierrot = require "pierrot"
      local echo = pierrot.spawn { function(_, x) return x end, worker = 2 }
      local asker = pierrot.spawn {
        function(_, to, times)
          for i = 1, times do assert(to:ask_within(60, i) == i) end
          return true
        end,
        worker = 1,
      }
      asker:ask_within(60, echo, 1000)
      local before = pierrot.stats().parks
      asker:ask_within(60, echo, 10000)
      print(pierrot.stats().parks - before)
    ]])
    local result = script.command(("taskset -c %s %s run --workers 2 %s"):format(processor(), script.bin, script.quote(file)), 120)
    assert.equal("", result.err)
    assert.equal(0, result.status)
    assert.is_true(tonumber(result.out) < 2500, "they slept " .. result.out .. " times in 10,000 asks")
  end)

  it("send to each other no end of messages without waiting in vain", function()
    local file = script.write("streams.lua", [[
      local pierrot = require "pierrot"
      local Counter = {
        start = function(self) self.n = 0 end,
        on = {
          one = function(self, n) self.n = self.n + n end,
          sum = function(self) return self.n end,
        },
      }
      local Producer = function(_, counter, times)
        for _ = 1, times do counter:tell("one", 1) end
        return counter:ask_within(60, "sum")
      end
      local pending = {}
      for worker = 1, 2 do
        local counter = pierrot.spawn { Counter, worker = worker }
        pending[worker] = { pierrot.spawn { Producer, worker = 3 - worker }, counter }
      end
      for _, p in ipairs(pending) do print(p[1]:ask_within(60, p[2], 200000)) end
    ]])
    local result = script.command(("taskset -c %s %s run --workers 2 %s"):format(processor(), script.bin, script.quote(file)), 120)
    assert.equal("", result.err)
    assert.equal("200000\n200000\n", result.out)
  end)
end)
