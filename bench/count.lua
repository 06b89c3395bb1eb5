--- Counting (Savina): a producer sends `messages` increments, by 1, to a counter, then asks for the total;
-- `rounds` times over.
-- An operation is an increment. Measures a stream in one direction: a long mailbox that fills from
-- one end and empties from the other.
-- Timed by the producer, from its first increment to the answer that holds the last total. The
-- answer comes after the counter has handled every increment, so the timer covers their delivery.

local pierrot = require "pierrot"

local TIME_LIMIT_SECONDS = 120

local Counter = {
  name = "counter",

  start = function(self)
    self.total = 0
  end,

  on = {
    increment = function(self, by) self.total = self.total + by end,
    total = function(self) return self.total end,
  },
}

local Producer = {
  name = "producer",

  on = {
    produce = function(_, counter, messages, rounds)
      local started = pierrot.now()
      local total
      for round = 1, rounds do
        for _ = 1, messages do counter:tell("increment", 1) end
        total = counter:ask_within(TIME_LIMIT_SECONDS, "total")
        if total ~= round * messages then
          error(("count: the counter has %d, of %d"):format(total, round * messages))
        end
      end
      return total, pierrot.now() - started
    end,
  },
}

local function run(parameters)
  local messages, rounds = parameters.messages, parameters.rounds
  local counter, producer = pierrot.spawn(Counter), pierrot.spawn(Producer)
  local total, seconds =
    producer:ask_within(TIME_LIMIT_SECONDS, "produce", counter, messages, rounds)
  producer:stop()
  counter:stop()
  return total, messages * rounds, seconds
end

return { run = run }
