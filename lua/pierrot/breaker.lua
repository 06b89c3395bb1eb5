-- A circuit breaker: asks that stop being made once they have failed too often, until some time has passed.
--
--     local breaker = require "pierrot.breaker"
--     self.prices = breaker.new { failures = 5, reset = 10, within = 1 }
--     local ok, price = pcall(self.prices.ask, self.prices, ref, "price", "apple")
--
-- Closed: asks are made; `failures` of them in a row without a reply open it. Open: `ask` raises at once, an error of
-- kind "open", for `reset` seconds. Then half open: one ask is made; its reply closes the breaker, its failure opens it
-- again. A breaker belongs to the actor that made it, and is kept in its `self`.

local pierrot = require "pierrot"
local errors = require "pierrot.errors"

local breaker = {}

local Breaker = {}
Breaker.__index = Breaker

local function positive(value, default, what)
  if value == nil then
    return default
  end
  if type(value) ~= "number" or not (value > 0) then
    error(("breaker: %s: a number above 0 expected, got %s"):format(what, tostring(value)), 3)
  end
  return value
end

--- failures (5): in a row, until it opens; reset (10): seconds until it tries again; within: seconds for each ask,
--- default the runtime's.
function breaker.new(options)
  options = options or {}
  return setmetatable({
    most = positive(options.failures, 5, "failures"), reset = positive(options.reset, 10, "reset"),
    within = positive(options.within, nil, "within"), failures = 0,
  }, Breaker)
end

--- "closed", "open" or "half_open"
function Breaker:state()
  if not self.opened then
    return "closed"
  end
  return pierrot.now() - self.opened < self.reset and "open" or "half_open"
end

local function settle(self, ok, ...)
  self.trying = nil
  if ok then
    self.failures, self.opened = 0, nil
    return ...
  end
  self.failures = self.failures + 1
  if self.opened or self.failures >= self.most then
    self.opened = pierrot.now()
  end
  error((...), 0)
end

--- As ref:ask(...); an error of kind "open" when it is not even tried.
function Breaker:ask(ref, ...)
  local state = self:state()
  if state == "open" or (state == "half_open" and self.trying) then
    local err = errors.new("open", ("ask: the breaker for %s is open after %d failures"):format(tostring(ref),
                                                                                              self.failures))
    err.cause = nil
    error(err, 0)
  end
  self.trying = state == "half_open" or nil
  if self.within then
    return settle(self, pcall(pierrot.ask_within, ref, self.within, ...))
  end
  return settle(self, pcall(pierrot.ask, ref, ...))
end

return breaker
