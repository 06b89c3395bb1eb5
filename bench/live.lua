--- Many living actors: a driver tells each of `actors` actors a number, in turn, until `messages` are sent, in rounds
-- of at most 100,000, and waits after each round until all have arrived.
-- An operation is a message. Shows whether a message costs more where there are more actors, beyond what the caches
-- explain: with each actor, other memory is touched.
-- Timed from the first message to the last arrival. The result is the sum of the numbers.

local pierrot = require "pierrot"
local support = require "support"

local MOST_AT_ONCE = 100000

local Member = {
  name = "member",

  start = function(self)
    self.sum = 0
  end,

  on = { sum = function(self) return self.sum end },

  receive = function(self, n) self.sum = self.sum + n end,
}

local function run(parameters)
  local count, messages = parameters.actors, parameters.messages
  local members = {}
  for i = 1, count do members[i] = pierrot.spawn { Member, worker = "here" } end
  members[count]:ask_within(support.TIME_LIMIT_SECONDS, "sum")

  local started, at, sent = pierrot.now(), 0, 0
  while sent < messages do
    local last = math.min(messages, sent + MOST_AT_ONCE)
    for n = sent + 1, last do
      at = at % count + 1
      members[at]:tell(n)
    end
    sent = last
    -- All are on this worker, whose list is taken in order: the last one told is the last one to run.
    members[at]:ask_within(support.TIME_LIMIT_SECONDS, "sum")
  end
  local seconds, sum = pierrot.now() - started, 0
  for _, member in ipairs(members) do sum = sum + member:ask_within(support.TIME_LIMIT_SECONDS, "sum") end
  support.check("live: the sum", sum, messages * (messages + 1) / 2)
  support.stop(members)
  return sum, messages, seconds
end

return { run = run }
