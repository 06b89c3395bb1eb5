-- Streams of work: values that go from a source through stages to a sink, as fast as the sink takes them. Each part is
-- an actor. Demand goes upstream as messages, and no part sends more than was asked of it: so each holds a window of
-- values at most, however fast its source is.
--
--     local stream = require "pierrot.stream"
--     local total = stream.run {
--       stream.source { pull = function(self) self.n = (self.n or 0) + 1 return self.n <= 1000 and self.n or nil end },
--       stream.map(function(self, n) return n * n end),
--       stream.sink { each = function(self, n) self.sum = (self.sum or 0) + n end,
--                     finish = function(self) return self.sum end },
--       window = 64,
--     }
--
-- A part that fails ends the stream: run raises what it failed with.

local pierrot = require "pierrot"

local stream = {}

local DEMAND, ITEM, DONE, FROM, RUN = "stream.demand", "stream.item", "stream.done", "stream.from", "stream.run"
local MOST = 1000000

local function check(value, what)
  if type(value) ~= "function" then
    error(("stream: %s: a function expected, got %s"):format(what, type(value)), 3)
  end
end

-- What a part needs for itself, apart from the fields that its author's functions keep in `self`.
local function state(self)
  local s = self._stream
  if not s then
    s = {}
    self._stream = s
  end
  return s
end

-- The parts' handlers, reached by way of the module: it is not carried.

function stream._pull(self, pull, to, n)
  for _ = 1, n do
    local value = pull(self)
    if value == nil then
      to:tell(DONE)
      pierrot.stop()
      return
    end
    to:tell(ITEM, value)
  end
end

function stream._from(self, up)
  local s = state(self)
  s.up = up
  pierrot.monitor(up)
end

function stream._demand(self, to, n)
  local s = state(self)
  s.to = to
  s.up:tell(DEMAND, pierrot.self(), n)
end

function stream._item(self, map, value)
  local s = state(self)
  local out = map(self, value)
  if out == nil then
    s.up:tell(DEMAND, pierrot.self(), 1)   -- this one was none: another for it
  else
    s.to:tell(ITEM, out)
  end
end

function stream._done(self)
  local s = state(self)
  s.done = true
  s.to:tell(DONE)
  pierrot.stop()
end

function stream._down(self, ref, reason)
  local s = state(self)
  if not s.done and ref == s.up then
    pierrot.stop(reason)
  end
end

function stream._run(self, up, window)
  local s = state(self)
  s.answer, s.window, s.taken = pierrot.defer(), window, 0
  stream._from(self, up)
  up:tell(DEMAND, pierrot.self(), window)
end

function stream._take(self, each, value)
  local s = state(self)
  each(self, value)
  s.taken = s.taken + 1
  if s.taken * 2 >= s.window then
    s.up:tell(DEMAND, pierrot.self(), s.taken)
    s.taken = 0
  end
end

function stream._finish(self, finish)
  local s = state(self)
  s.done = true
  if finish then
    s.answer:reply(finish(self))
  else
    s.answer:reply()
  end
  pierrot.stop()
end

function stream._broken(self, ref, reason)
  local s = state(self)
  if not s.done and ref == s.up then
    s.done = true
    s.answer:fail(type(reason) == "table" and reason.cause or reason)
    pierrot.stop()
  end
end

-- Parts ---------------------------------------------------------------------------------------------------------------

--- { pull = function(self) -> the next value, nil at the end; start = function(self, ...) }
function stream.source(spec)
  check(spec.pull, "pull")
  local pull = spec.pull
  return {
    name = "source", start = spec.start,
    on = { [DEMAND] = function(self, to, n) stream._pull(self, pull, to, n) end },
  }
end

--- function(self, value) -> a value for the next part; nil leaves it out
function stream.map(map)
  check(map, "map")
  return {
    name = "stage",
    on = {
      [FROM] = function(self, up) stream._from(self, up) end,
      [DEMAND] = function(self, to, n) stream._demand(self, to, n) end,
      [ITEM] = function(self, value) stream._item(self, map, value) end,
      [DONE] = function(self) stream._done(self) end,
      down = function(self, ref, reason) stream._down(self, ref, reason) end,
    },
  }
end

--- { each = function(self, value) end, finish = function(self) -> what run returns, start = function(self, ...) }
function stream.sink(spec)
  check(spec.each, "each")
  local each, finish = spec.each, spec.finish
  return {
    name = "sink", start = spec.start,
    on = {
      [RUN] = function(self, up, window) stream._run(self, up, window) end,
      [ITEM] = function(self, value) stream._take(self, each, value) end,
      [DONE] = function(self) stream._finish(self, finish) end,
      down = function(self, ref, reason) stream._broken(self, ref, reason) end,
    },
  }
end

--- Spawns the parts (behaviours from above, source first and sink last), runs the stream to its end, and returns what
--- the sink's `finish` does. window (64): values that each part holds at most; within: seconds, default no limit.
--- Waits.
function stream.run(parts)
  local window = parts.window or 64
  if type(window) ~= "number" or window < 1 or window > MOST or window % 1 ~= 0 then
    error(("stream: window: a whole number from 1 to %d expected, got %s"):format(MOST, tostring(window)), 2)
  end
  if #parts < 2 then
    error("stream: a source and a sink at least", 2)
  end
  local refs = {}
  for i = 1, #parts do
    refs[i] = assert(pierrot.spawn { parts[i], restart = "temporary" })
    if i > 1 and i < #parts then
      refs[i]:tell(FROM, refs[i - 1])
    end
  end
  return pierrot.ask_within(refs[#refs], parts.within or math.huge, RUN, refs[#refs - 1], window)
end

return stream
