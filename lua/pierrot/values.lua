-- Which values travel, and saying which one does not. The encoder in C finds that something cannot be sent;
-- only then is the message walked here, to name the place.

local values = {}

-- share.lua's, which needs this file.
function values.is_shared(value) return require("pierrot.share").is(value) end

local ffi = require "ffi"
local int64, uint64 = ffi.typeof "int64_t", ffi.typeof "uint64_t"

local MAX_DEPTH = 100

values.MOST = 4000   -- in one message, as codec.c has it

-- A ref is light userdata that holds an odd number of at most 46 bits; its metatable is that of the type.
local ref_name = "pierrot.ref"

function values.is_ref(value)
  if type(value) ~= "userdata" then
    return false
  end
  local mt = debug.getmetatable(value)
  return mt ~= nil and rawget(mt, "__name") == ref_name and rawget(mt, "valid")(value)
end

function values.key_path(key)
  if type(key) == "string" and key:match "^[%a_][%w_]*$" then
    return "." .. key
  elseif type(key) == "string" then
    return ("[%q]"):format(key)
  elseif type(key) == "table" then
    return "[a table]"
  end
  return "[" .. tostring(key) .. "]"
end

local key_path = values.key_path

local function kind(value)
  local t = type(value)
  if t == "cdata" then
    return "cdata (" .. tostring(ffi.typeof(value)):match "^ctype<(.*)>$" .. ")"
  elseif t == "function" or t == "thread" or t == "userdata" then
    return t
  end
end

-- Why this value, no table, cannot be sent by itself; nil if it can.
function values.trouble(value)
  local t = type(value)
  if t == "nil" or t == "boolean" or t == "number" or t == "string" or t == "userdata" and values.is_ref(value) or
     t == "cdata" and (ffi.istype(int64, value) or ffi.istype(uint64, value)) then
    return nil
  end
  return kind(value)
end

-- The path and the trouble of the first value that cannot be sent, depth first; nil when there is none.
local function find(value, path, depth, above)
  local t = type(value)
  if t == "nil" or t == "boolean" or t == "number" or t == "string" then
    return nil
  elseif t == "cdata" and (ffi.istype(int64, value) or ffi.istype(uint64, value)) then
    return nil
  elseif t == "userdata" and values.is_ref(value) then
    return nil
  elseif t == "cdata" and values.is_shared(value) then
    if path:sub(-8) == " (a key)" then
      return path, "a shared value, which goes as a value only"
    end
    return nil
  elseif t ~= "table" then
    return path, kind(value)
  end
  if above[value] then
    return path, "a cycle, it is " .. above[value] .. " again"
  elseif depth >= MAX_DEPTH then
    return path, ("a table nested more than %d deep"):format(MAX_DEPTH)
  end
  above[value] = path
  for k, v in next, value do
    local inner = path .. key_path(k)
    local where, trouble = find(k, path .. " (a key)", depth + 1, above)
    if not where then
      where, trouble = find(v, inner, depth + 1, above)
    end
    if where then
      return where, trouble
    end
  end
  above[value] = nil
end

function values.explain(label, ...)
  for i = 1, select("#", ...) do
    local where, trouble = find((select(i, ...)), ("%s[%d]"):format(label, i), 0, {})
    if where then
      if #where > 300 then
        where = where:sub(1, 120) .. " ... " .. where:sub(-120)
      end
      return ("cannot send %s: %s"):format(where, trouble)
    end
  end
  return ("cannot send %s"):format(label)
end

return values
