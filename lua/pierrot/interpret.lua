-- Keeps the functions of a behaviour from being compiled, so that its time slices are seen (src/lua/slice.c):
-- those given, those nested in them, and what they read that came along: variables, tables, globals of the script.
-- Modules stay as they are.

local identity = require "pierrot.identity"

local off, type, next, getfenv = jit.off, type, next, getfenv
local getinfo, getupvalue, find = debug.getinfo, debug.getupvalue, identity.find

return function(functions)
  local seen, list = {}, {}
  local function add(value, whatever)
    local kind = type(value)
    if (kind == "function" or kind == "table") and not seen[value] and (whatever or not find(value)) then
      seen[value] = true
      list[#list + 1] = value
    end
  end
  local function add_all(t)
    for key, value in next, t do
      add(key)
      add(value)
    end
  end
  for _, fn in next, functions do
    add(fn, true)
  end
  local at = 0
  while at < #list do
    at = at + 1
    local value = list[at]
    if type(value) == "table" then
      add_all(value)
    elseif getinfo(value, "S").what ~= "C" then
      off(value, true)
      for i = 1, getinfo(value, "u").nups do
        add((select(2, getupvalue(value, i))))
      end
      if getfenv(value) ~= identity.base then
        add(getfenv(value))
      end
    end
  end
end
