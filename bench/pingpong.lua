--- Pingpong (Savina): two actors send a number to and fro, `round_trips` times.
-- An operation is a message; a round trip is two. Measures the delivery of a message to an actor
-- that waits for it: there is never more than one to deliver.
-- Timed by ping, from its first throw to its last catch. The result is pong's count of catches.

local pierrot = require "pierrot"

local TIME_LIMIT_SECONDS = 120

local Pong = {
  name = "pong",

  start = function(self)
    self.received = 0
  end,

  on = {
    partner = function(self, ping) self.ping = ping end,
    received = function(self) return self.received end,
  },

  receive = function(self, n)
    self.received = self.received + 1
    self.ping:tell(n)
  end,
}

local Ping = {
  name = "ping",

  start = function(self, pong, main)
    self.pong, self.main = pong, main
  end,

  on = {
    serve = function(self, round_trips)
      self.started = pierrot.now()
      self.pong:tell(round_trips)
    end,
  },

  receive = function(self, n)
    if n > 1 then
      self.pong:tell(n - 1)
    else
      self.main:tell("done", pierrot.now() - self.started)
    end
  end,
}

local function run(parameters)
  local round_trips = parameters.round_trips
  local pong = pierrot.spawn(Pong)
  local ping = pierrot.spawn(Ping, pong, pierrot.self())
  pong:ask("partner", ping)

  ping:tell("serve", round_trips)
  local done, seconds = pierrot.receive(TIME_LIMIT_SECONDS)
  if done ~= "done" then error("pingpong: not done after " .. TIME_LIMIT_SECONDS .. " s") end

  local received = pong:ask("received")
  if received ~= round_trips then
    error(("pingpong: pong caught %d of %d"):format(received, round_trips))
  end
  ping:stop()
  pong:stop()
  return received, 2 * round_trips, seconds
end

return { run = run }
