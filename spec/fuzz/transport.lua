-- What transport.c does with an input, in Lua. `string.dump` and `load` are watched from the start: bytecode that was not
-- made here is loaded by nobody, for LuaJIT takes it at its word.

local dump, load_any, known = string.dump, load, {}

function string.dump(...) -- luacheck: ignore 122
  local bytes = dump(...)
  known[bytes] = true
  return bytes
end

function load(chunk, name, mode, env) -- luacheck: ignore 121
  if mode == "b" and not known[chunk] then
    return nil, "bytecode that was not made here"
  end
  return load_any(chunk, name, mode, env)
end

local pierrot = require "pierrot"
local transport, bytecode = require "pierrot.transport", require "pierrot.bytecode"

local fmt, concat = string.format, table.concat

-- take(): the next byte of an input, zeros at its end; take(n): one of 0 to n - 1
local function taker(input)
  local at = 0
  return function(n)
    at = at + 1
    local byte = input:byte(at) or 0
    return n and byte % n or byte
  end, function() return at < #input end
end

-- Code ----------------------------------------------------------------------------------------------------------
--
-- Variables hold values of every kind and each other; functions read them, make closures, call those before them. Some
-- assign to a variable outside themselves: they must be refused.

local numbers = { "0", "-0", "1", "-1.5", "1e300", "0/0", "1/0", "2^31", "2^53", "7LL", "9ULL" }
local library = { "math.floor", "string.rep", "table.concat", "math", "string", "ipairs", "tostring", "require 'pierrot'",
                  "select" }

local function expression(take, names, depth)
  local kind = take(depth > 2 and 6 or 8)
  if kind == 0 then
    return numbers[take(#numbers) + 1]
  elseif kind == 1 then
    return fmt("%q", ("x"):rep(take(40)) .. string.char(take()))
  elseif kind == 2 then
    return ({ "true", "false", "nil" })[take(3) + 1]
  elseif kind == 3 or kind == 4 then
    return #names > 0 and names[take(#names) + 1] or "nil"
  elseif kind == 5 then
    return library[take(#library) + 1]
  end
  local fields = {}
  for i = 1, take(5) do
    local value = expression(take, names, depth + 1)
    local key = take(4)
    fields[i] = key == 0 and "[" .. take() .. "] = " .. value or key == 1 and fmt("k%d = %s", take(9), value) or value
  end
  return "{" .. concat(fields, ", ") .. "}"
end

local function body(take, names, functions, depth)
  local lines = {}
  for _ = 1, take(4) do
    local kind = take(8)
    local name = names[take(math.max(#names, 1)) + 1] or "nil"
    if kind == 0 then
      lines[#lines + 1] = fmt("add(type(%s))", name)
    elseif kind == 1 and #functions > 0 then
      lines[#lines + 1] = fmt("add(%s(add, n))", functions[take(#functions) + 1])
    elseif kind == 2 and depth < 3 then
      lines[#lines + 1] = fmt("local inner = function(add, n) %s end add(inner(add, n))",
                              body(take, names, functions, depth + 1))
    elseif kind == 3 then
      lines[#lines + 1] = fmt("if type(%s) == 'table' then for k, v in pairs(%s) do n = n + 1 end end", name, name)
    elseif kind == 4 then
      lines[#lines + 1] = fmt("add(global%d)", take(4))
    elseif kind == 5 then
      lines[#lines + 1] = fmt("for i = 1, %d do n = n + i end", take(5))
    elseif kind == 6 and take(8) == 0 and #names > 0 then
      lines[#lines + 1] = fmt("%s = n", name)
    else
      lines[#lines + 1] = fmt("add(%s)", expression(take, names, 1))
    end
  end
  lines[#lines + 1] = "do return n end"
  return concat(lines, " ")
end

local function program(take)
  local lines, names, functions = {}, {}, {}
  for i = 1, take(7) do
    local name = "v" .. i
    lines[#lines + 1] = fmt("local %s = %s", name, expression(take, names, 0))
    names[i] = name
  end
  for i = 1, 1 + take(5) do
    local name = "f" .. i
    lines[#lines + 1] = fmt("local function %s(add, n) %s end", name, body(take, names, functions, 0))
    functions[i] = name
  end
  for _ = 1, take(3) do   -- tables in one another, metatables
    local a, b = names[take(math.max(#names, 1)) + 1], names[take(math.max(#names, 1)) + 1]
    if a then
      lines[#lines + 1] = fmt("if type(%s) == 'table' and not library[%s] then %s end", a, a,
                              take(2) == 0 and fmt("%s.other = %s", a, b)
                              or fmt("setmetatable(%s, { __index = type(%s) == 'table' and %s or nil })", a, b, b))
    end
  end
  lines[#lines + 1] = fmt("return { receive = %s, on = { a = %s } }, { %s }", functions[take(#functions) + 1],
                          functions[take(#functions) + 1], concat(functions, ", "))
  return concat(lines, "\n")
end

-- A value's shape: what is in it, with places where it is met again.
local function shape(value, seen)
  if type(value) ~= "table" then
    return type(value) == "function" and "function" or type(value) == "cdata" and tostring(value)
           or value ~= value and "nan" or fmt("%s %s", type(value), tostring(value))
  elseif seen[value] then
    return "again " .. seen[value]
  end
  seen.count = (seen.count or 0) + 1
  seen[value] = seen.count
  if value == math or value == string or value == pierrot or rawget(value, "_G") then
    return "library"
  end
  local keys, parts = {}, {}
  for key in next, value do
    keys[#keys + 1] = key
  end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  for i, key in ipairs(keys) do
    parts[i] = tostring(key) .. "=" .. shape(rawget(value, key), seen)
  end
  local meta = debug.getmetatable(value)
  return "{" .. concat(parts, ",") .. (meta and " meta " .. shape(meta, seen) or "") .. "}"
end

local function outcome(behaviour, name)
  local told, seen = {}, {}
  local fn = name == "receive" and behaviour.receive or behaviour.on.a
  local count = 0
  local ok, result = pcall(fn, function(value)
    count = count + 1
    if count > 2000 then error("enough", 0) end
    told[#told + 1] = shape(value, seen)
  end, 1)
  if not ok then result = tostring(result):gsub("0x%x+", "address") end
  return concat(told, "\n") .. "\n" .. tostring(ok) .. tostring(result)
end

local function try_code(take)
  local source = program(take)
  local chunk = assert(loadstring(source, "=program"))
  local env = setmetatable({ library = { [math] = true, [string] = true, [pierrot] = true, [_G] = true } }, { __index = _G })
  for i = 0, 2 do
    env["global" .. i] = ({ 5, "text", { 1, 2 } })[i + 1]
  end
  local behaviour = setfenv(chunk, env)()
  local bytes, watch = transport.pack(behaviour, {})
  if not bytes then
    assert(type(watch) == "string" and (source:find("v%d = n") or watch:find "cannot be carried"), watch)
    return
  end
  assert(transport.pack(behaviour, {}) == bytes, "the same behaviour gives other bytes")
  assert(not transport.changed(watch), "nothing has changed")
  local copy = transport.unpack(bytes, _G)
  for _, name in ipairs { "receive", "a" } do
    local here, there = outcome(behaviour, name), outcome(copy, name)
    if here ~= there then
      error(("%s\n-- here:\n%s\n-- there:\n%s"):format(source, here, there), 0)
    end
  end
end

-- Bytes ---------------------------------------------------------------------------------------------------------

local samples = {}
do
  local list = { 1, 2, { 3, k = "v" } }
  list.self = list
  local twice = assert(loadstring("local l, n = ...\nreturn function(_, a) return l, n, a end, function() return n end",
                                  "=sample"))
  local f, g = twice(list, 3)
  samples[1] = transport.pack(f, {})
  samples[2] = transport.pack({ name = "two", on = { f = f, g = g }, receive = g, start = f }, {})
  samples[3] = transport.pack({ receive = assert(loadstring("return global0, string.rep, require, print", "=sample")) }, {})
  samples[4] = transport.pack({ receive = f, supervise = { strategy = "one_for_all", intensity = 2 } }, {})
  samples[5] = transport.module "pierrot.supervisor"
end
local dumps = {
  dump(assert(loadstring("local a, t = 1, {1, 2, x = 3.5, 7LL} return function() a = a + 1 b = t return c end", "=sample"))),
  dump(assert(loadstring("local a = ... return function() return function() a = 1 end end")), true),
  dump(assert(loadstring(("x = y "):rep(300)))),
}

local function edited(bytes, take, more)
  while more() do
    local kind, at, byte = take(4), take() + 256 * take(4), take()
    at = at % (#bytes + 1)
    if kind == 3 then   -- a piece of it again
      bytes = bytes:sub(1, at) .. bytes:sub(byte, byte + take(64)) .. bytes:sub(at + 1)
    else
      bytes = bytes:sub(1, at) .. (kind == 0 and "" or string.char(byte)) .. bytes:sub(at + (kind == 2 and 1 or 2))
    end
  end
  return bytes
end

local function try_bytes(take, more)
  local bytes = edited(samples[take(#samples) + 1], take, more)
  local ok, problem = pcall(transport.unpack, bytes, _G)
  assert(ok or type(problem) == "string", "no text says what is wrong")
  require("pierrot.unpack").mentions(bytes, "pierrot.supervisor")
end

local function try_dump(take, more)
  local result, problem = bytecode.analyse(edited(dumps[take(#dumps) + 1], take, more))
  assert(result or type(problem) == "string", "no text says what is wrong")
end

local kinds = { try_code, try_bytes, try_dump }

return function(input)
  local take, more = taker(input)
  return kinds[take(3) + 1](take, more)
end
