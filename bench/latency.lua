--- One-way latency under a paced load: among `actors` living actors, `pacers` more send `rate` messages a second, all
-- together, for so many `milliseconds`, each to one that is picked at random. A pacer sleeps a millisecond, sends what
-- is due, and so on; one that is late sends more then, so the load stays what it is.
-- An operation is a message. Its latency is the time from just before the tell to the beginning of the handler.
-- The figure is the mean; p50, p99, p99.9 and the longest come with it, and the overrun: how much longer the pacers
-- took than they should, which is a few milliseconds unless the load was more than the side could take. The result is
-- the number of messages.

local pierrot = require "pierrot"
local support = require "support"

local TICK_SECONDS = 0.001

local Target = {
  name = "target",

  start = function(self)
    self.count = 0
  end,

  on = {
    report = function(self) return self end,
  },

  receive = function(self, sent)
    local latency = pierrot.now() - sent
    self.count = self.count + 1
    self[self.count] = latency
  end,
}

local Pacer = {
  name = "pacer",

  on = {
    pace = function(_, main, targets, rate, seconds, random)
      local started, sent, total = pierrot.now(), 0, math.floor(rate * seconds)
      while sent < total do
        pierrot.sleep(TICK_SECONDS)
        local due = math.min(total, math.floor((pierrot.now() - started) * rate))
        while sent < due do
          random = (random * 1664525 + 1013904223) % 4294967296
          targets[math.floor(random / 4294967296 * #targets) + 1]:tell(pierrot.now())
          sent = sent + 1
        end
      end
      main:tell("done", sent)
    end,
  },
}

local function run(parameters)
  local count, pacers, seconds = parameters.actors, parameters.pacers, parameters.milliseconds / 1000
  local targets, sources = {}, {}
  for i = 1, count do targets[i] = pierrot.spawn(Target) end
  for i = 1, pacers do sources[i] = pierrot.spawn(Pacer) end
  for i, target in ipairs(targets) do
    if i % 1000 == 0 then target:ask_within(support.TIME_LIMIT_SECONDS, "report") end
  end

  local started = pierrot.now()
  for i, source in ipairs(sources) do
    source:tell("pace", pierrot.self(), targets, parameters.rate / pacers, seconds, i)
  end
  local sent = 0
  for _ = 1, pacers do sent = sent + support.done "latency" end
  local overrun = pierrot.now() - started - seconds
  pierrot.sleep(0.1)

  local all, sum = {}, 0
  for _, target in ipairs(targets) do
    for _, latency in ipairs(target:ask "report") do
      all[#all + 1] = latency
      sum = sum + latency
    end
  end
  support.check("latency: messages that arrived", #all, sent)
  support.stop(sources)
  support.stop(targets)
  local more = support.percentiles(all)
  more[#more + 1] = { "overrun", overrun * 1e9 }
  return sent, sent, sum, more
end

return { run = run }
