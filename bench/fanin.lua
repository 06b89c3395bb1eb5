--- Fan-in: `producers` actors send `messages` numbers each to one consumer; `rounds` times over.
-- An operation is a message. Measures a mailbox with many senders, from the consumer's worker and others.
-- Timed from before the producers are told to begin to the consumer's last message. The result is the sum
-- of the numbers.

local pierrot = require "pierrot"
local support = require "support"

local Consumer = {
  name = "consumer",

  start = function(self, main, messages)
    self.main, self.messages = main, messages
    self.left, self.sum = messages, 0
  end,

  receive = function(self, n)
    self.sum = self.sum + n
    self.left = self.left - 1
    if self.left == 0 then
      self.main:tell("done", self.sum, pierrot.now())
      self.left = self.messages
    end
  end,
}

local Producer = {
  name = "producer",

  on = {
    produce = function(_, consumer, messages)
      for n = 1, messages do consumer:tell(n) end
    end,
  },
}

local function run(parameters)
  local count, messages, rounds = parameters.producers, parameters.messages, parameters.rounds
  local consumer = pierrot.spawn(Consumer, pierrot.self(), count * messages)
  local producers = {}
  for i = 1, count do producers[i] = pierrot.spawn(Producer) end

  local sum
  local started, ended = pierrot.now(), nil
  for round = 1, rounds do
    for _, producer in ipairs(producers) do producer:tell("produce", consumer, messages) end
    sum, ended = support.done "fanin"
    support.check("fanin: the sum", sum, round * count * messages * (messages + 1) / 2)
  end
  support.stop(producers)
  support.stop { consumer }
  return sum, count * messages * rounds, ended - started
end

return { run = run }
