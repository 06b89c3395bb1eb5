--- Thread ring (Savina): a token goes round a ring of `actors`, for `hops` deliveries.
-- An operation is a message. Measures how quickly the next actor runs when its neighbour has sent
-- to it, with more actors than the processor has registers and stacks for at hand.
-- Timed from before the token enters to its last delivery. The result is the sum of what the
-- actors counted.

local pierrot = require "pierrot"

local TIME_LIMIT_SECONDS = 120

local Member = {
  name = "ring member",

  start = function(self, main)
    self.main, self.received = main, 0
  end,

  on = {
    next = function(self, neighbour) self.next = neighbour end,
    received = function(self) return self.received end,
  },

  receive = function(self, hops_left)
    self.received = self.received + 1
    if hops_left > 1 then
      self.next:tell(hops_left - 1)
    else
      self.main:tell("done", pierrot.now())
    end
  end,
}

local function run(parameters)
  local members = {}
  for i = 1, parameters.actors do members[i] = pierrot.spawn(Member, pierrot.self()) end
  for i, member in ipairs(members) do member:ask("next", members[i % #members + 1]) end

  local started = pierrot.now()
  members[1]:tell(parameters.hops)
  local done, ended = pierrot.receive(TIME_LIMIT_SECONDS)
  if done ~= "done" then error("ring: not done after " .. TIME_LIMIT_SECONDS .. " s") end

  local received = 0
  for _, member in ipairs(members) do
    received = received + member:ask("received")
    member:stop()
  end
  if received ~= parameters.hops then
    error(("ring: %d deliveries, of %d"):format(received, parameters.hops))
  end
  return received, parameters.hops, ended - started
end

return { run = run }
