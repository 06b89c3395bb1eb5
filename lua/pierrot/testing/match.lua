-- Whether a message is what a test expects: values are compared by what they hold; testing.any fits everything, and a
-- function decides by itself.

local match = { any = setmetatable({}, { __tostring = function() return "any" end }) }

local function same(expected, got, depth)
  if expected == match.any then
    return true
  elseif type(expected) == "function" then
    return (expected(got)) and true or false
  elseif expected ~= expected then
    return got ~= got
  elseif type(expected) ~= "table" or type(got) ~= "table" or depth > 100 then
    return expected == got
  end
  for key, value in pairs(expected) do
    if not same(value, got[key], depth + 1) then
      return false
    end
  end
  for key in pairs(got) do
    if expected[key] == nil then
      return false
    end
  end
  return true
end

function match.same(expected, got)
  return same(expected, got, 0)
end

-- A message as a test writes it, as { n =, values }: a list of its values, or its only value.
function match.message(expected)
  if type(expected) == "table" and expected ~= match.any then
    local n = expected.n or #expected
    local values = { n = n }
    for i = 1, n do
      values[i] = expected[i]
    end
    return values
  end
  return { n = 1, expected }
end

function match.fits(expected, got)
  if expected == match.any then
    return true
  end
  local values = match.message(expected)
  if values.n ~= got.n then
    return false
  end
  for i = 1, values.n do
    if not match.same(values[i], got[i]) then
      return false
    end
  end
  return true
end

return match
