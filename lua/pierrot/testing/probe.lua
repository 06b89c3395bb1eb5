-- Probes: stand-ins for actors, by which a test sees what is sent, answers, and sends. Each has a ref and a mailbox
-- of its own.
--
-- A message is written as the list of its values, { "paid", 10 }, or as its only value, "paid". Times are seconds of
-- the test's clock, 5 where none are given.

local pierrot = require "pierrot"
local core = require "pierrot.core"
local match = require "pierrot.testing.match"
local show = require "pierrot.testing.show"

local WITHIN = 5

local Probe = { __name = "pierrot.probe" }
Probe.__index = Probe

function Probe:__tostring()
  return ("probe %s"):format(self.name)
end

local function restored(self, ok, ...)
  core.probe_swap(self._port)
  if not ok then
    error((...), 0)
  end
  return ...
end

-- Calls fn as the probe: with its ref, its mailbox.
local function as(self, fn, ...)
  if not core.probe_swap(self._port) then
    error(("%s: its test is over"):format(tostring(self)), 3)
  end
  return restored(self, pcall(fn, ...))
end

local function seconds(within, what, level)
  if within == nil then
    return WITHIN
  elseif type(within) ~= "number" or not (within >= 0) then
    error(("%s: a number of seconds, 0 or more, expected, got %s"):format(what, tostring(within)), level + 1)
  end
  return within
end

local function pack(...)
  return { n = select("#", ...), ... }
end

local function received(within, picks)
  -- A message without values is told from none by the sender's being asked for: so the match function notes it.
  local came = false
  local values = pack(pierrot.receive(within, function(...)
    if picks and not picks(pack(...)) then
      return false
    end
    came = true
    return true
  end))
  return came and values or nil
end

-- The next message that fits, or nil.
local function take(self, within, picks)
  local values = as(self, received, within, picks)
  if values then
    self._t:_note(self, values)
  end
  return values
end

local function said(self, values)
  return show.message(values, self._t._names)
end

local function wanted(self, expected)
  return expected == match.any and "any message" or said(self, match.message(expected))
end

-- The next message is to be this one; returns its values.
function Probe:expect(expected, within)
  within = seconds(within, "expect", 2)
  local values = take(self, within)
  if not values then
    error(("%s: %s expected within %g s, nothing came%s"):format(tostring(self), wanted(self, expected), within,
      self._t:_why_nothing()), 2)
  elseif not match.fits(expected, values) then
    error(("%s: %s expected, got %s"):format(tostring(self), wanted(self, expected), said(self, values)), 2)
  end
  return unpack(values, 1, values.n)
end

-- Picks out the first message that is this one; others stay, in their order.
function Probe:await(expected, within)
  within = seconds(within, "await", 2)
  local values = take(self, within, function(got) return match.fits(expected, got) end)
  if not values then
    local others = self:messages()
    error(("%s: %s expected within %g s, and did not come%s"):format(tostring(self), wanted(self, expected), within,
      others[1] and (" (%d others did, first %s)"):format(#others, said(self, others[1])) or self._t:_why_nothing()), 2)
  end
  return unpack(values, 1, values.n)
end

-- The next messages are to be these, in any order. Returns them in the order in which they came, each as a list.
function Probe:expect_in_any_order(list, within)
  within = seconds(within, "expect_in_any_order", 2)
  local due, left, came = pierrot.now() + within, {}, {}
  for i, expected in ipairs(list) do
    left[i] = expected
  end
  while #left > 0 do
    local values = take(self, math.max(due - pierrot.now(), 0))
    if not values then
      error(("%s: %s expected within %g s, and %d more; nothing came%s"):format(tostring(self), wanted(self, left[1]),
        within, #left - 1, self._t:_why_nothing()), 2)
    end
    local found
    for i, expected in ipairs(left) do
      if match.fits(expected, values) then
        found = i
        break
      end
    end
    if not found then
      error(("%s: %s came, and is none of the %d that are expected (first %s)"):format(tostring(self),
        said(self, values), #left, wanted(self, left[1])), 2)
    end
    table.remove(left, found)
    came[#came + 1] = values
  end
  return came
end

-- Nothing is to come for so long.
function Probe:expect_none(within)
  within = seconds(within, "expect_none", 2)
  local since = pierrot.now()
  local values = take(self, within)
  if values then
    error(("%s: nothing expected for %g s, got %s after %g s"):format(tostring(self), within, said(self, values),
      pierrot.now() - since), 2)
  end
end

-- The end of `ref`, which the probe watches (from now on, if it has not before), for that reason; returns the reason.
function Probe:expect_down(ref, reason, within)
  within = seconds(within, "expect_down", 2)
  if not self._watched[ref] then
    self:watch(ref)
  end
  local values = take(self, within, function(got) return got[1] == "down" and got[2] == ref end)
  if not values then
    error(("%s: the end of %s expected within %g s, and it lives%s"):format(tostring(self), self._t._names(ref), within,
      self._t:_why_nothing()), 2)
  end
  self._watched[ref] = nil
  local got = values[3]
  local plain = type(got) == "table" and got.message or got
  if reason ~= nil and not match.same(reason, got) and not (type(reason) == "string" and plain == reason) then
    error(("%s: %s expected to end with the reason %s, and it was %s"):format(tostring(self), self._t._names(ref),
      show.value(reason), show.value(plain)), 2)
  end
  return got
end

-- The next message's values, or nothing when none comes.
function Probe:receive(within)
  local values = take(self, seconds(within, "receive", 2))
  if values then
    return unpack(values, 1, values.n)
  end
end

-- Takes all that has come, without waiting: a list of lists.
function Probe:messages()
  local list = {}
  while true do
    local values = take(self, 0)
    if not values then
      return list
    end
    list[#list + 1] = values
  end
end

-- Watches an actor: see expect_down.
function Probe:watch(ref)
  local monitor, reason = as(self, pierrot.monitor, ref)
  self._watched[ref] = monitor
  return monitor, reason
end

-- Answers the message that came last, which was an ask.
function Probe:reply(...)
  local deferred = as(self, pierrot.defer)
  return deferred:reply(...)
end

-- Fails the ask that came last.
function Probe:fail(err)
  local deferred = as(self, pierrot.defer)
  return deferred:fail(err)
end

-- Who sent the message that came last.
function Probe:sender() return as(self, pierrot.sender) end

function Probe:tell(target, ...) return as(self, pierrot.tell, target, ...) end
function Probe:ask(target, ...) return as(self, pierrot.ask, target, ...) end
function Probe:ask_within(target, within, ...) return as(self, pierrot.ask_within, target, within, ...) end
function Probe:link(target) return as(self, pierrot.link, target) end
function Probe:subscribe(topic) return as(self, pierrot.subscribe, topic) end
function Probe:join(group) return as(self, pierrot.join, group) end

-- t: the test's context.
local function new(t, name)
  local port, ref = core.probe_open()
  return setmetatable({ ref = ref, name = name, _port = port, _t = t, _watched = {} }, Probe)
end

return { Probe = Probe, new = new }
