-- `pairs` in an order of its own, for runs that are to be the same every time (a runtime with a seed): LuaJIT's order
-- of strings differs from process to process.
--
-- Numbers come first, then strings, booleans, refs, each sorted. Tables and functions as keys come last, as the table
-- gives them, which is not the same every time. So it is with shared values, too. `next` is as it was.

local share = require "pierrot.share"

local type, next, pairs, rawget, sort, format = type, next, pairs, rawget, table.sort, string.format

local RANK = { number = 1, string = 2, boolean = 3, userdata = 4 }

local function less(a, b)
  local kind, other = type(a), type(b)
  if kind ~= other then
    return RANK[kind] < RANK[other]
  elseif kind == "number" or kind == "string" then
    return a < b
  elseif kind == "boolean" then
    return a == false and b == true
  end
  return format("%p", a) < format("%p", b)   -- a ref's address is its id
end

local function is_list(t, step)
  local n = 0
  for key in step, t do
    n = n + 1
    if key ~= n then
      return false
    end
  end
  return true
end

local function index(t, key) return t[key] end

return function(t)
  local step, get = next, rawget
  if share.is(t) then
    step, get = share.each, index
  elseif type(t) == "cdata" then
    return pairs(t)
  elseif type(t) ~= "table" then
    error(("bad argument #1 to 'pairs' (table expected, got %s)"):format(t == nil and "no value" or type(t)), 2)
  end
  if is_list(t, step) then
    return step, t, nil
  end
  local keys, last, n, i = {}, {}, 0, 0
  for key in step, t do
    if RANK[type(key)] then
      n = n + 1
      keys[n] = key
    else
      last[#last + 1] = key
    end
  end
  sort(keys, less)
  for _, key in ipairs(last) do
    n = n + 1
    keys[n] = key
  end
  return function()
    while i < n do
      i = i + 1
      local value = get(t, keys[i])
      if value ~= nil then   -- it may have been taken out meanwhile
        return keys[i], value
      end
    end
  end, t, nil
end
