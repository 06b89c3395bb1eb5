--- Fork-join create (Savina): `actors` actors are made, each gets one message, says that it has it, and
-- ends; `rounds` times over.
-- An operation is an actor. Measures birth and end, with the first message of each.
-- Timed from the first birth to the last actor's word. They say it to a latch, an actor that counts; the
-- result is the sum of the numbers that they were sent.

local pierrot = require "pierrot"
local support = require "support"

local Latch = {
  name = "latch",

  start = function(self, main, actors)
    self.main, self.actors = main, actors
    self.left, self.sum = actors, 0
  end,

  receive = function(self, n)
    self.sum = self.sum + n
    self.left = self.left - 1
    if self.left == 0 then
      self.main:tell("done", self.sum, pierrot.now())
      self.left = self.actors
    end
  end,
}

local Worker = {
  name = "worker",

  start = function(self, latch)
    self.latch = latch
  end,

  receive = function(self, n)
    self.latch:tell(n)
    pierrot.stop()
  end,
}

local function run(parameters)
  local actors, rounds = parameters.actors, parameters.rounds
  local latch = pierrot.spawn(Latch, pierrot.self(), actors)
  local sum, seconds = 0, 0
  for round = 1, rounds do
    local started = pierrot.now()
    for i = 1, actors do pierrot.spawn(Worker, latch):tell(i) end
    local total, ended = support.done "fjcreate"
    support.check("fjcreate: the sum", total, round * actors * (actors + 1) / 2)
    sum, seconds = total, seconds + (ended - started)
  end
  support.stop { latch }
  return sum, actors * rounds, seconds
end

return { run = run }
