-- What may stand in `supervise`, and what is wrong with it otherwise.

local rules = {}

local choices = {
  strategy = { one_for_one = true, one_for_all = true, rest_for_one = true },
  count = { child = true, all = true },
  exceeded = { stop = true, escalate = true },
}
local FIELDS = "strategy, intensity, period, count, exceeded, backoff, on_failure"
-- Least, whether that one is left out, most, whether whole.
local numbers = { intensity = { 0, false, 1e6, true }, period = { 0, true, 1e9 } }
local backoff_numbers = {
  min = { 0, false, 1e6 }, max = { 0, true, 1e6 }, factor = { 1, false, 1e6 }, jitter = { 0, false, 1 },
}

local function choice(field, value)
  if choices[field][value] then
    return
  end
  local names = {}
  for name in pairs(choices[field]) do
    names[#names + 1] = ("%q"):format(name)
  end
  table.sort(names)
  return ("supervise.%s: %s expected, got %s"):format(field, table.concat(names, " or "), tostring(value))
end

local function number(field, value, limits)
  local least, open, most, whole = limits[1], limits[2], limits[3], limits[4]
  if type(value) == "number" and value >= least and not (open and value == least) and value <= most and
     not (whole and value % 1 ~= 0) then
    return
  end
  return ("supervise.%s: a%s number %s %g, at most %g, expected, got %s"):format(field, whole and " whole" or "",
    open and "above" or "from", least, most, tostring(value))
end

local function backoff(value)
  if type(value) ~= "table" then
    return ("supervise.backoff: a table expected, got %s"):format(type(value))
  end
  for key, item in next, value do
    if not backoff_numbers[key] then
      return ("supervise.backoff: unknown field '%s' (there are min, max, factor, jitter)"):format(tostring(key))
    end
    local problem = number("backoff." .. key, item, backoff_numbers[key])
    if problem then
      return problem
    end
  end
  if (value.min or 0.1) > (value.max or 10) then
    return "supervise.backoff: min is above max"
  end
end

-- rules.check(supervise) -> nil, or what is wrong
function rules.check(supervise)
  for field, value in next, supervise do
    local problem
    if choices[field] then
      problem = choice(field, value)
    elseif numbers[field] then
      problem = number(field, value, numbers[field])
    elseif field == "backoff" then
      problem = backoff(value)
    elseif field == "on_failure" then
      problem = type(value) ~= "function" and "supervise.on_failure: a function expected, got " .. type(value) or nil
    else
      problem = ("supervise: unknown field '%s' (there are %s)"):format(tostring(field), FIELDS)
    end
    if problem then
      return problem
    end
  end
end

return rules
