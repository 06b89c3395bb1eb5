--- A fast producer, a slow consumer, constant memory: a stream of work by demand.
--
--     pierrot run examples/stream.lua [READINGS [WINDOW]]
--
-- The source could make a million readings a second; the sink takes some 20,000. Each part asks the one before it for
-- as many values as it has room for, so no mailbox ever holds more than WINDOW (64) of them. If one did, or a reading
-- was lost, the exit status is 1.

local pierrot = require "pierrot"
local stream = require "pierrot.stream"

local readings = tonumber(arg[1] or 20000)
local window = tonumber(arg[2] or 64)
if not readings or not window or arg[3] then error("usage: pierrot run examples/stream.lua [READINGS [WINDOW]]", 0) end

local SECONDS_EACH = 0.00005

local source = stream.source {
  pull = function(self)
    self.n = (self.n or 0) + 1
    if self.n <= readings then return { number = self.n, celsius = 15 + self.n % 10 } end
  end,
}

local fahrenheit = stream.map(function(_, reading)
  reading.fahrenheit = reading.celsius * 9 / 5 + 32
  return reading
end)

local sink = stream.sink {
  start = function(self) self.taken, self.sum, self.deepest = 0, 0, 0 end,
  each = function(self, reading)
    local until_then = pierrot.now() + SECONDS_EACH          -- slow
    while pierrot.now() < until_then do end
    self.taken = self.taken + 1
    self.sum = self.sum + reading.fahrenheit
    if self.taken % 100 == 0 then self.deepest = math.max(self.deepest, pierrot.self():info().depth) end
  end,
  finish = function(self) return self.taken, self.sum / self.taken, self.deepest end,
}

local began = pierrot.now()
local taken, mean, deepest = stream.run { source, fahrenheit, sink, window = window }
print(("%d readings, mean %.1f F, in %.1f s; the sink's mailbox held at most %d"):format(taken, mean,
  pierrot.now() - began, deepest))
if taken ~= readings or deepest > window then error("stream: a reading was lost, or the window was not kept", 0) end
