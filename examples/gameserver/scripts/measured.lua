-- Wraps handlers so that the server knows the longest (--measure); without that, gives them back as they are. Not for
-- handlers that wait: what others do meanwhile would be counted.

local world = require "world"
local clock, took = world.clock, world.took

if not world.measuring then
  return function(handlers) return handlers end
end

local function after(began, ...)
  took(clock() - began)
  return ...
end

return function(handlers)
  local wrapped = {}
  for name, handler in pairs(handlers) do
    wrapped[name] = function(...)
      return after(clock(), handler(...))
    end
  end
  return wrapped
end
