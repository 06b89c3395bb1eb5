--- Fairness: on worker 1 a greedy actor always has `backlog` messages for itself; a cold one beside it is told the time
-- now and then, `probes` times, from worker 2.
-- An operation is a probe. The figure is the mean time from before the tell to the cold actor's handler: what a
-- throughput (`--throughput`) of more messages a turn costs those who seldom run. The result is the number of probes.

local pierrot = require "pierrot"
local support = require "support"

local Greedy = {
  name = "greedy",

  on = {
    begin = function(_, backlog)
      for _ = 1, backlog do pierrot.self():tell(0) end
    end,
  },

  receive = function(_, n) pierrot.self():tell(n) end,
}

local Cold = {
  name = "cold",
  on = { report = function(self) return self end },
  receive = function(self, sent) self[#self + 1] = pierrot.now() - sent end,
}

local Prober = {
  name = "prober",
  on = {
    run = function(_, cold, probes, main)
      for _ = 1, probes do
        pierrot.sleep(0.001)
        cold:tell(pierrot.now())
      end
      main:tell "done"
    end,
  },
}

local function run(parameters)
  local greedy, cold = pierrot.spawn { Greedy, worker = 1 }, pierrot.spawn { Cold, worker = 1 }
  local prober = pierrot.spawn { Prober, worker = 2 }
  greedy:tell("begin", parameters.backlog)
  prober:tell("run", cold, parameters.probes, pierrot.self())
  support.done "cold"
  local all, sum = cold:ask "report", 0
  for _, wait in ipairs(all) do sum = sum + wait end
  support.check("cold: probes", #all, parameters.probes)
  support.stop { greedy, cold, prober }
  return #all, #all, sum, support.percentiles(all)
end

return { run = run }
