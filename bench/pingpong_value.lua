--- Pingpong with a message that has contents: a string of `bytes` bytes, or for 0 a small table,
-- {id = 1, name = "x", pos = {1, 2, 3}}. It goes to and fro `round_trips` times; each actor sends on what it
-- was sent, after looking into it.
-- An operation is a message; a round trip is two. Measures what it costs to carry a value.
-- Timed by ping, from its first throw to its last catch. The result is the sum of what both saw: the last
-- coordinate of the table, or the length of the string.

local pierrot = require "pierrot"
local support = require "support"

local Pong = {
  name = "pong",

  start = function(self)
    self.seen = 0
  end,

  on = {
    partner = function(self, ping) self.ping = ping end,
    seen = function(self) return self.seen end,
  },

  receive = function(self, value)
    self.seen = self.seen + (type(value) == "table" and value.pos[3] or #value)
    self.ping:tell(value)
  end,
}

local Ping = {
  name = "ping",

  start = function(self, pong, main)
    self.pong, self.main, self.seen = pong, main, 0
  end,

  on = {
    serve = function(self, value, round_trips)
      self.left, self.started = round_trips, pierrot.now()
      self.pong:tell(value)
    end,
  },

  receive = function(self, value)
    self.seen = self.seen + (type(value) == "table" and value.pos[3] or #value)
    self.left = self.left - 1
    if self.left > 0 then
      self.pong:tell(value)
    else
      self.main:tell("done", self.seen, pierrot.now() - self.started)
    end
  end,
}

local function run(parameters)
  local round_trips, bytes = parameters.round_trips, parameters.bytes
  local value = bytes > 0 and ("x"):rep(bytes) or { id = 1, name = "x", pos = { 1, 2, 3 } }
  local pong = pierrot.spawn(Pong)
  local ping = pierrot.spawn(Ping, pong, pierrot.self())
  pong:ask("partner", ping)

  ping:tell("serve", value, round_trips)
  local seen, seconds = support.done "pingpong_value"
  seen = seen + pong:ask "seen"
  support.check("pingpong_value: what both saw", seen, 2 * round_trips * (bytes > 0 and bytes or 3))
  support.stop { ping, pong }
  return seen, 2 * round_trips, seconds
end

return { run = run }
