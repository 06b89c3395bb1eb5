-- The option `mailbox` of spawn: a capacity, or { capacity =, overflow =, priority =, overload = }.

local MOST = 1e6
local overflows = { reject = 0, suspend = 1, drop_newest = 2, drop_oldest = 3 }
local fields = { capacity = true, overflow = true, priority = true, overload = true }

local function whole(value, most)
  return type(value) == "number" and value >= 1 and value <= most and value % 1 == 0
end

-- What is wrong with it, or nil.
local function problem_of(mailbox)
  if type(mailbox) == "number" then
    mailbox = { capacity = mailbox }
  elseif type(mailbox) ~= "table" then
    return ("a capacity or a table expected, got %s"):format(type(mailbox))
  end
  for key in pairs(mailbox) do
    if not fields[key] then
      return ("unknown field '%s' (there are capacity, overflow, priority, overload)"):format(tostring(key))
    end
  end
  if mailbox.capacity ~= nil and not whole(mailbox.capacity, MOST) then
    return ("capacity: a whole number from 1 to 1000000 expected, got %s"):format(tostring(mailbox.capacity))
  elseif mailbox.overflow ~= nil and not overflows[mailbox.overflow] then
    return ('overflow: "reject", "suspend", "drop_newest" or "drop_oldest" expected, got %s'):format(
      tostring(mailbox.overflow))
  elseif mailbox.overflow ~= nil and mailbox.capacity == nil then
    return "overflow: there is no capacity"
  elseif mailbox.priority ~= nil and type(mailbox.priority) ~= "function" then
    return ("priority: a function of the message's values expected, got %s"):format(type(mailbox.priority))
  elseif mailbox.overload ~= nil and not whole(mailbox.overload, 1e9) then
    return ("overload: a whole number of messages from 1 expected, got %s"):format(tostring(mailbox.overload))
  end
end

local DEFAULT_OVERLOAD = 1000

-- The arguments of core.mailbox but the last: capacity (0: none), overflow, threshold.
local function numbers(mailbox)
  if type(mailbox) == "number" then
    mailbox = { capacity = mailbox }
  end
  local capacity = mailbox.capacity or 0
  local overload = mailbox.overload
  if not overload then
    overload = capacity > 0 and math.min(DEFAULT_OVERLOAD, math.ceil(capacity / 2)) or DEFAULT_OVERLOAD
  end
  return capacity, overflows[mailbox.overflow or "reject"], overload
end

return { problem_of = problem_of, numbers = numbers }
