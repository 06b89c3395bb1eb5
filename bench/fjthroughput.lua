--- Fork-join throughput (Savina): `messages` numbers are sent to each of `actors` actors, in turn; `rounds`
-- times over.
-- An operation is a message. Measures delivery where there is always something to do, for many.
-- Timed from the first message to the last actor's word that it has all of its messages. The result is the
-- sum of the numbers that arrived.

local pierrot = require "pierrot"
local support = require "support"

local Latch = {
  name = "latch",

  start = function(self, main, actors)
    self.main, self.actors = main, actors
    self.left, self.sum = actors, 0
  end,

  receive = function(self, sum)
    self.sum = self.sum + sum
    self.left = self.left - 1
    if self.left == 0 then
      self.main:tell("done", self.sum, pierrot.now())
      self.left = self.actors
    end
  end,
}

local Worker = {
  name = "worker",

  start = function(self, latch, messages)
    self.latch, self.messages = latch, messages
    self.left, self.sum = messages, 0
  end,

  receive = function(self, n)
    self.sum = self.sum + n
    self.left = self.left - 1
    if self.left == 0 then
      self.latch:tell(self.sum)
      self.left, self.sum = self.messages, 0
    end
  end,
}

local function run(parameters)
  local actors, messages, rounds = parameters.actors, parameters.messages, parameters.rounds
  local latch = pierrot.spawn(Latch, pierrot.self(), actors)
  local workers = {}
  for i = 1, actors do workers[i] = pierrot.spawn(Worker, latch, messages) end

  local sum
  local started, ended = pierrot.now(), nil
  for round = 1, rounds do
    for n = 1, messages do
      for i = 1, actors do workers[i]:tell(n) end
    end
    sum, ended = support.done "fjthroughput"
    support.check("fjthroughput: the sum", sum, round * actors * messages * (messages + 1) / 2)
  end
  support.stop(workers)
  support.stop { latch }
  return sum, actors * messages * rounds, ended - started
end

return { run = run }
