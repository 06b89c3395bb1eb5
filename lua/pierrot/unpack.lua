-- Makes a behaviour again from the bytes that transport.lua has written.
--
-- The bytes are one flat structure, as the encoder of string.buffer nests 100 deep at most:
--   { magic, heads, links }
--   heads: what each node is, enough to create it; the first node is the behaviour
--   links: what is in each table and each function, in the order of the nodes
-- A value in `links` is a string, number, ref or 64-bit integer as it is; or `true` and the
-- number of a node; or `false` and then true, false, or `nil_mark` for nil. (Booleans are the
-- cheapest to encode: one byte, where every number takes nine.)
--   table:    the values from 1 to n, as n and n values; the number of other fields, and each
--             as key and value; the metatable
--   function: the number of upvalues; for each the number of the variable it is, followed by its
--             value where that variable comes for the first time; the number of globals, and
--             each as name and value
--
-- Invariants:
-- * All nodes exist before any is filled, so order and cycles do not matter.
-- * No metamethod runs: fields are set raw, and metatables last.

local identity = require "pierrot.identity"
local share = require "pierrot.share"
local buffer = require "string.buffer"

local unpack = {}

local type, rawget, rawset = type, rawget, rawset
-- `require` is looked up when it is called: a worker replaces it after this is loaded.
local setfenv, load, pcall, error = setfenv, load, pcall, error
local setupvalue, upvaluejoin = debug.setupvalue, debug.upvaluejoin
local setmetatable = debug.setmetatable

-- Kinds of nodes in `heads`, beside those of identity.lua with their names, and what follows.
unpack.format = {
  magic = "pierrot behaviour 1",
  nil_mark = 0,
  TABLE = "t",    -- nothing
  FUNCTION = "f", -- the dump, or the number of a node that has the same; an environment
  ENV = "e",      -- an environment: the table itself, as `_G` gives it
  SHARED = "h",   -- a shared value: the number of its share, and of a table in it
}
local format = unpack.format
local TABLE, FUNCTION, NIL_MARK = format.TABLE, format.FUNCTION, format.nil_mark
local MODULE, FIELD, STANDARD = identity.MODULE, identity.FIELD, identity.STANDARD

local function refuse_global(_, name)
  error(("assignment to global '%s' inside an actor: actors share no variables; keep it in self")
    :format(tostring(name)), 2)
end

-- Modules that are used in place of those loaded, by name: set while a new version is tried. See reload.lua.
unpack.staged = {}

local function find_module(name)
  local staged = unpack.staged[name]
  if staged ~= nil then return staged end
  local ok, module = pcall(identity.require or require, name)
  if not ok then
    error(("module '%s' cannot be loaded on this worker: %s"):format(name, tostring(module)), 0)
  end
  return module
end

local function find_field(name, field)
  local module = find_module(name)
  local value = type(module) == "table" and rawget(module, field)
  if not value then error(("module '%s' has no field '%s' on this worker"):format(name, field), 0) end
  return value
end

local function find_standard(u, name)
  local value = u.globals[name]
  if value == nil then error(("global '%s' is missing on this worker"):format(name), 0) end
  return value
end

local function get_env(u, number)
  local env = u.envs[number]
  if not env then
    env = {}
    env._G = env
    local meta = { __index = u.globals, __newindex = refuse_global }
    if identity.require then
      meta.__metatable = false   -- see restrict.lua
    end
    setmetatable(env, meta)
    u.envs[number] = env
  end
  return env
end

local function make_function(u, dump, env)
  if type(dump) == "number" then dump = u.dumps[dump] end
  local fn, message = load(dump, nil, "b")
  if not fn then error("code cannot be loaded on this worker: " .. message, 0) end
  return setfenv(fn, env), dump
end

-- Creates every node, empty; returns for each whether it is to be filled.
local function make_nodes(u, heads)
  local at, id, nodes = 1, 0, u.nodes
  while heads[at] do
    local kind, a, b = heads[at], heads[at + 1], heads[at + 2]
    id = id + 1
    if kind == TABLE then
      nodes[id], u.fill[id], at = {}, TABLE, at + 1
    elseif kind == FUNCTION then
      nodes[id], u.dumps[id] = make_function(u, a, get_env(u, b))
      u.fill[id], u.own_env[id], at = FUNCTION, get_env(u, b), at + 3
    elseif kind == MODULE then
      nodes[id], at = find_module(a), at + 2
    elseif kind == FIELD then
      nodes[id], at = find_field(a, b), at + 3
    elseif kind == STANDARD then
      nodes[id], at = find_standard(u, a), at + 2
    elseif kind == format.SHARED then
      nodes[id], at = share.find(a, b), at + 3
    else
      nodes[id], at = get_env(u, a), at + 2
    end
  end
  return id
end

local function take(u)
  local links, at = u.links, u.at
  local value = links[at]
  if value == true then
    u.at = at + 2
    return u.nodes[links[at + 1]]
  elseif value == false then
    u.at = at + 2
    value = links[at + 1]
    if value == NIL_MARK then return nil end
    return value
  end
  u.at = at + 1
  return value
end

local function refuse_damaged()
  error("these bytes are not a behaviour: they are damaged", 0)
end

-- How many of something follow: no more than there is.
local function take_count(u)
  local n = take(u)
  if type(n) ~= "number" or not (n >= 0 and n <= u.size - u.at + 1) then refuse_damaged() end
  return n
end

-- Where something goes in a table. (NaN there, in compiled code, lets LuaJIT of Debian 12 raise its error from a stack
-- that it has not brought up to date, and crash once in fifty times.)
local function take_key(u)
  local key = take(u)
  if key == nil or key ~= key then refuse_damaged() end
  return key
end

local function fill_table(u, t)
  for i = 1, take_count(u) do rawset(t, i, take(u)) end
  for _ = 1, take_count(u) do
    local key = take_key(u)
    rawset(t, key, take(u))
  end
  -- Only once all is filled: none of this is seen by __newindex.
  local meta = take(u)
  if meta then setmetatable(t, meta) end
end

local function fill_function(u, fn, env)
  local variables = u.variables
  for i = 1, take_count(u) do
    local number = take_key(u)
    local first = variables[number]
    if first then
      upvaluejoin(fn, i, first[1], first[2])
    else
      variables[number] = { fn, i }
      setupvalue(fn, i, take(u))
    end
  end
  for _ = 1, take_count(u) do
    local name = take_key(u)
    rawset(env, name, take(u))
  end
end

-- unpack.mentions(bytes, name) -> whether this is a behaviour, and is or uses that module or what lies in it
function unpack.mentions(bytes, name)
  if not bytes:find(name, 1, true) then return false end
  local ok, packed = pcall(buffer.decode, bytes)
  if not ok or type(packed) ~= "table" or packed[1] ~= format.magic then return false end
  local heads, at = packed[2], 1
  while heads[at] do
    local kind = heads[at]
    if (kind == MODULE or kind == FIELD) and heads[at + 1] == name then return true end
    at = at + (kind == TABLE and 1 or (kind == FUNCTION or kind == FIELD or kind == format.SHARED) and 3 or 2)
  end
  return false
end

-- unpack.behaviour(bytes, globals) -> behaviour, nil; or behaviour and its name where it is not
-- carried but found in this state. Raises a string that says what is missing.
function unpack.behaviour(bytes, globals)
  local ok, packed = pcall(buffer.decode, bytes)
  if not ok or type(packed) ~= "table" or packed[1] ~= format.magic then
    error("these bytes are not a behaviour, or one of another version of Pierrot", 0)
  end
  local heads, links = packed[2], packed[3]
  local u = {
    globals = globals, links = links, size = #links, at = 1,
    nodes = {}, fill = {}, dumps = {}, envs = {}, own_env = {}, variables = {},
  }
  for id = 1, make_nodes(u, heads) do
    if u.fill[id] == TABLE then
      fill_table(u, u.nodes[id])
    elseif u.fill[id] == FUNCTION then
      fill_function(u, u.nodes[id], u.own_env[id])
    end
  end
  if u.fill[1] then return u.nodes[1], nil end
  return u.nodes[1], heads[1] == FIELD and heads[2] .. "." .. heads[3] or heads[2]
end

return unpack
