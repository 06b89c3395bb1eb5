--- Waking: an actor on worker 1 tells one on worker 2 the time, `wakes` times, with a pause of a millisecond before
-- each, so that worker 2 sleeps whenever a message comes.
-- An operation is a message. The figure is the mean time from before the tell to the handler; the median and others
-- come with it. The side "futex" (futex.c) does the same with two threads and nothing else. The result is the number
-- of messages.

local pierrot = require "pierrot"
local support = require "support"

local Sleeper = {
  name = "sleeper",
  on = { report = function(self) return self end },
  receive = function(self, sent) self[#self + 1] = pierrot.now() - sent end,
}

local Waker = {
  name = "waker",
  on = {
    run = function(_, sleeper, wakes, main)
      for _ = 1, wakes do
        pierrot.sleep(0.001)
        sleeper:tell(pierrot.now())
      end
      main:tell "done"
    end,
  },
}

local function run(parameters)
  local sleeper = pierrot.spawn { Sleeper, worker = 2 }
  local waker = pierrot.spawn { Waker, worker = 1 }
  waker:tell("run", sleeper, parameters.wakes, pierrot.self())
  support.done "wake"
  local all, sum = sleeper:ask "report", 0
  for _, latency in ipairs(all) do sum = sum + latency end
  support.check("wake: messages", #all, parameters.wakes)
  support.stop { sleeper, waker }
  return #all, #all, sum, support.percentiles(all)
end

return { run = run }
