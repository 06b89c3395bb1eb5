-- equal(a, b): whether b is a faithful copy of a: types, NaN, the sign of zero, 64-bit integers, and all keys.
local ffi = require "ffi"

local function equal(a, b)
  local kind = type(a)
  if kind ~= type(b) then return false end
  if kind == "number" then
    return (a == b and 1 / a == 1 / b) or (a ~= a and b ~= b)
  elseif kind == "cdata" then
    return ffi.typeof(a) == ffi.typeof(b) and a == b
  elseif kind ~= "table" then
    return a == b
  end
  for key, value in next, a do
    if not equal(value, rawget(b, key)) then return false end
  end
  for key in next, b do
    if rawget(a, key) == nil then return false end
  end
  return true
end

return equal
