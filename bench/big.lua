--- Big (Savina): each of `actors` actors pings a random one, waits for its pong, and so on `pings` times.
-- An operation is a ping with its pong. Measures many-to-many traffic, where every actor is sender
-- and receiver, and where nobody's partner is predictable.
-- Timed from before the actors are told to begin to the last one's word that it has its last pong. The random
-- numbers are Savina's, the same on every side. The result is the sum, over all actors, of pings received
-- times the actor's number: another target for a single ping changes it.

local pierrot = require "pierrot"
local support = require "support"

local Member = {
  name = "big",

  start = function(self, id, pings, sink)
    self.id, self.left, self.sink = id, pings, sink
    self.random, self.received = id, 0
  end,

  on = {
    neighbours = function(self, neighbours) self.neighbours = neighbours end,

    ping = function(self, from)
      self.received = self.received + 1
      self.neighbours[from]:tell("pong", self.id)
    end,

    pong = function(self, from)
      if from ~= self.expected then error("big: a pong from another than was pinged") end
      if self.left == 0 then
        self.sink:tell(self.id)
        return
      end
      self.left = self.left - 1
      self.random = (self.random * 1309 + 13849) % 65536
      local target = self.random % #self.neighbours + 1
      self.expected = target
      self.neighbours[target]:tell("ping", self.id)
    end,

    received = function(self) return self.received end,
  },
}

local Sink = {
  name = "sink",

  start = function(self, main, actors)
    self.main, self.left = main, actors
  end,

  receive = function(self)
    self.left = self.left - 1
    if self.left == 0 then self.main:tell("done", pierrot.now()) end
  end,
}

local function run(parameters)
  local actors, pings = parameters.actors, parameters.pings
  local sink = pierrot.spawn(Sink, pierrot.self(), actors)
  local members = {}
  for i = 1, actors do members[i] = pierrot.spawn(Member, i, pings, sink) end
  for i = 1, actors do members[i]:ask("neighbours", members) end   -- before any ping of another one

  local started = pierrot.now()
  for i = 1, actors do members[i]:tell("pong") end
  local ended = support.done "big"

  local received, result = 0, 0
  for i, member in ipairs(members) do
    local count = member:ask "received"
    received, result = received + count, result + i * count
  end
  support.check("big: pings received", received, actors * pings)
  support.stop(members)
  support.stop { sink }
  return result, actors * pings, ended - started
end

return { run = run }
