-- Carries a behaviour (a function, or a table with functions in it) from one lua_State to
-- another as a string of bytes.
--
-- Invariants:
-- * What is carried is a graph: one value that is reached twice, a variable that two functions
--   share, a cycle, all arrive as such.
-- * Modules, library functions, shared values and actor refs go by identity, everything else by value.
-- * Nothing carried assigns to a variable outside itself: the copies on different workers would
--   drift apart. What cannot be carried is refused with a message that names the variable.
-- * Equal content gives equal bytes, so that a receiver can tell by them what it already has.
--
-- Several functions carried together that share a global table share one on the other side
-- too. Nothing here keeps state per behaviour; what is cached is the identity of modules and
-- what is known of bytecode.

local bytecode = require "pierrot.bytecode"
local identity = require "pierrot.identity"
local rules = require "pierrot.rules"
local share = require "pierrot.share"
local unpacker = require "pierrot.unpack"
local buffer = require "string.buffer"

local transport = {}

local type, next, rawget, rawequal, select = type, next, rawget, rawequal, select
local getfenv, pcall, error = getfenv, pcall, error
local getupvalue, upvalueid = debug.getupvalue, debug.upvalueid
local getinfo, getmetatable = debug.getinfo, debug.getmetatable
local lookup, string_dump = identity.lookup, string.dump
local format = unpacker.format

local CACHED_ANALYSES = 512

-- Names and values of the standard globals: see identity.lua.
transport.standard = identity.standard

-------------------------------------------------------------------------- checks

-- A field's type, or several.
local FIELDS = {
  name = "string", start = "function", on = "table", receive = "function", stop = "function",
  supervise = "table", upgrade = "function", trap_exit = "boolean", version = "number or string",
}
local FIELD_NAMES = "name, start, on, receive, stop, supervise, upgrade, trap_exit, version"

local function show_key(key)
  return type(key) == "string" and key or "[" .. tostring(key) .. "]"
end

-- transport.check(behaviour) -> true, or nil and what is wrong with its shape
function transport.check(behaviour)
  if type(behaviour) == "function" then return true end
  if type(behaviour) ~= "table" then
    return nil, ("a behaviour is a function or a table, not a %s"):format(type(behaviour))
  end
  for field, value in next, behaviour do
    local expected = FIELDS[field]
    if not expected then
      return nil, ("unknown field '%s' in a behaviour; it may have: %s")
        :format(show_key(field), FIELD_NAMES)
    elseif not expected:find(type(value), 1, true) then
      return nil, ("field '%s' of a behaviour must be a %s, not a %s")
        :format(field, expected, type(value))
    end
  end
  local supervise = rawget(behaviour, "supervise")
  local problem = supervise and rules.check(supervise)
  if problem then return nil, problem end
  for key, value in next, rawget(behaviour, "on") or {} do
    if type(key) ~= "string" then
      return nil, ("field 'on' of a behaviour has a key that is not a string: %s"):format(tostring(key))
    elseif type(value) ~= "function" then
      return nil, ("field 'on.%s' of a behaviour must be a function, not a %s"):format(key, type(value))
    end
  end
  return true
end

------------------------------------------------------------------------- packing

local ADVICE = {
  userdata = "is a userdata, which cannot be carried to another worker; "
    .. "open it in start and keep it in self",
  thread = "is a coroutine, which cannot be carried to another worker; "
    .. "create it in start and keep it in self",
  cdata = "is a cdata, which cannot be carried to another worker; "
    .. "create it in start and keep it in self",
  ["function"] = "is a C function of no loaded module, which cannot be carried to another worker; "
    .. "take it from a module that you require",
}

local function never() return false end

local function where(fn)
  local info = getinfo(fn, "S")
  return info.short_src .. ":" .. info.linedefined
end

-- Ends the packing. The message rides in the packer, which is thrown as the error: any other
-- error is one of this file.
local function fail(p, message)
  p.message = message
  error(p, 0)
end

local function key_step(key)
  if type(key) == "string" then
    return key:find("^[%a_][%w_]*$") and "." .. key or ("[%q]"):format(key)
  end
  return "[" .. tostring(key) .. "]"
end

-- The variable that a value was found in: "upvalue 'cfg.conn' of function at game.lua:12".
-- Climbs from the table that holds it to the nearest function; `owner` is nil for the behaviour.
local function describe(p, owner, step, label)
  local trail = ""
  while owner and type(p.values[owner]) == "table" do
    trail = (step == "field" and key_step(label) or ".<" .. step .. ">") .. trail
    owner, step, label = p.owners[owner], p.steps[owner], p.labels[owner]
  end
  if not owner then
    if trail == "" then return "the behaviour" end
    return ("field '%s' of the behaviour"):format((trail:gsub("^%.", "")))
  end
  -- Without debug information variables have no names.
  return ("%s '%s' %s function at %s"):format(step, (label == "" and "?" or label) .. trail,
    step == "upvalue" and "of" or "read by", where(p.values[owner]))
end

local function refuse_assignment(p, fn, assignment)
  local kind, name = "global", assignment.global
  if not name then kind, name = "upvalue", getupvalue(fn, assignment.upvalue) end
  if name == "" then name = "?" end
  local line = assignment.line and (" (line %d)"):format(assignment.line) or ""
  fail(p, ("%s '%s' is assigned by function at %s%s: actors share no variables; keep it in self")
    :format(kind, name, where(fn), line))
end

-- By dump. Dropped as a whole when full: a program that makes ever new code is rare.
local analyses, analysis_count = {}, 0

local function analyse(dump)
  local known = analyses[dump]
  if known then return known end
  local result, message = bytecode.analyse(dump)
  if not result then return nil, message end
  if analysis_count == CACHED_ANALYSES then analyses, analysis_count = {}, 0 end
  analyses[dump], analysis_count = result, analysis_count + 1
  return result
end

local function env_number(p, env)
  local number = p.envs[env]
  if not number then
    number = p.env_count + 1
    p.envs[env], p.env_count = number, number
    p.env_names[number] = {}
  end
  return number
end

-- Appends in order, here and in `put`: filled from behind (as a multiple assignment does) a table
-- would keep its items as hash entries, and be encoded so.
local function add_head(p, a, b, c)
  local heads, n = p.heads, #p.heads
  heads[n + 1] = a
  heads[n + 2] = b
  heads[n + 3] = c
end

local function add_function_head(p, id, fn, dump)
  local info, message = analyse(dump)
  if not info then fail(p, ("function at %s: %s"):format(where(fn), message)) end
  if info.assignment then refuse_assignment(p, fn, info.assignment) end
  add_head(p, format.FUNCTION, p.dumps[dump] or dump, env_number(p, getfenv(fn)))
  p.dumps[dump] = p.dumps[dump] or id
  p.infos[id] = info
end

local function add_identity_head(p, value)
  local kind, name, field = identity.find(value)
  if kind then add_head(p, kind, name, field) end
  return kind ~= nil
end

-- Decides what a value that is met for the first time goes as.
local function add_node(p, value, owner, step, label)
  local id, kind = #p.values + 1, type(value)
  p.ids[value], p.values[id] = id, value
  p.owners[id], p.steps[id], p.labels[id] = owner or false, step or false, label or false
  if add_identity_head(p, value) then
    return id
  elseif kind == "cdata" and share.is(value) then
    add_head(p, format.SHARED, share.number(value), share.place(value))
    p.shared[#p.shared + 1] = value
  elseif kind == "table" and (p.envs[value] or rawequal(value, identity.base)) then
    add_head(p, format.ENV, env_number(p, value))
  elseif kind == "table" then
    add_head(p, format.TABLE)
    p.infos[id] = true
  else
    local is_lua, dump = false, nil
    if kind == "function" then is_lua, dump = pcall(string_dump, value) end
    if is_lua then
      add_function_head(p, id, value, dump)
    else
      identity.learn_all() -- a module may have got new fields since
      if not add_identity_head(p, value) then
        fail(p, describe(p, owner, step, label) .. " " .. ADVICE[kind])
      end
    end
  end
  return id
end

local function is_integer_cdata(value)
  local ok, ffi = pcall(require, "ffi")
  return ok and (ffi.istype("int64_t", value) or ffi.istype("uint64_t", value))
end

-- Whether the encoder takes it as it is.
local function is_plain(p, value, kind)
  if kind == "userdata" then return p.is_ref(value) end
  return kind == "string" or kind == "number" or kind == "cdata" and is_integer_cdata(value)
end

local function put(p, value, owner, step, label)
  local links, n, kind = p.links, #p.links, type(value)
  if kind == "nil" then
    links[n + 1] = false
    links[n + 2] = format.nil_mark
  elseif kind == "boolean" then
    links[n + 1] = false
    links[n + 2] = value
  elseif is_plain(p, value, kind) then
    links[n + 1] = value
  else
    links[n + 1] = true
    links[n + 2] = p.ids[value] or add_node(p, value, owner, step, label)
  end
end

local RANK = { string = 1, number = 2, boolean = 3, userdata = 4, cdata = 4 }
local UNORDERED = 5

local function sort_mixed(p, keys)
  local rank, order = {}, {}
  for _, key in ipairs(keys) do
    local kind = type(key)
    rank[key] = RANK[kind] or UNORDERED
    if kind == "boolean" then
      order[key] = tostring(key)
    elseif is_plain(p, key, kind) then
      order[key] = (kind == "string" or kind == "number") and key or buffer.encode(key)
    else
      rank[key] = UNORDERED
    end
  end
  table.sort(keys, function(a, b)
    if rank[a] ~= rank[b] then return rank[a] < rank[b] end
    return rank[a] ~= UNORDERED and order[a] < order[b]
  end)
end

-- Keys in an order that is the same each time: by type, then by value. Those without an order
-- (tables, functions) come as the table gives them. Those from 1 to `array_count` are left out.
local function sorted_keys(p, t, array_count)
  local keys, only_strings = {}, true
  for key in next, t do
    local kind = type(key)
    if kind ~= "number" or key < 1 or key > array_count or key % 1 ~= 0 then
      keys[#keys + 1] = key
      only_strings = only_strings and kind == "string"
    end
  end
  if only_strings then table.sort(keys) else sort_mixed(p, keys) end
  return keys
end

local function put_table(p, id, t)
  local links, n = p.links, 0
  while not rawequal(rawget(t, n + 1), nil) do n = n + 1 end
  links[#links + 1] = n
  for i = 1, n do put(p, rawget(t, i), id, "field", i) end
  local keys = sorted_keys(p, t, n)
  links[#links + 1] = #keys
  for i = 1, #keys do
    put(p, keys[i], id, "key")
    put(p, rawget(t, keys[i]), id, "field", keys[i])
  end
  put(p, getmetatable(t), id, "metatable")
end

-- Upvalues that are one variable have one number, and its value follows the first of them.
local function put_upvalues(p, id, fn, info)
  local links, variables = p.links, p.variables
  links[#links + 1] = info.upvalue_count
  for i = 1, info.upvalue_count do
    local variable = upvalueid(fn, i)
    local number = variables[variable]
    links[#links + 1] = number or p.variable_count + 1
    if not number then
      number = p.variable_count + 1
      variables[variable], p.variable_count = number, number
      local name, value = getupvalue(fn, i)
      put(p, value, id, "upvalue", name)
      p.watched[number] = { fn, i, value }
    end
    if info.immutable[i] then p.watched[number] = false end
  end
end

-- Adds those globals the function reads which its environment does not have yet. A standard
-- one is there already on the other side.
local function put_globals(p, id, fn, info)
  local links, env = p.links, getfenv(fn)
  local names = p.env_names[p.envs[env]]
  local at, count = #links + 1, 0
  links[at] = 0
  for _, name in ipairs(info.reads) do
    local value = lookup(env, name)
    if not names[name] and not identity.is_standard(name, value) then
      names[name] = true
      p.globals[#p.globals + 1] = { env, name, value }
      if not rawequal(value, nil) then
        count = count + 1
        links[#links + 1] = name
        put(p, value, id, "global", name)
      end
    end
  end
  links[at] = count
end

local function put_graph(p, behaviour)
  add_node(p, behaviour)
  local id = 0
  while id < #p.values do
    id = id + 1
    local value, info = p.values[id], p.infos[id]
    if info == true then
      put_table(p, id, value)
    elseif info then
      put_upvalues(p, id, value, info)
      put_globals(p, id, value, info)
    end
  end
end

------------------------------------------------------------------------ watching

-- Stands for nil in a watch, where nil says that the collector took the value.
local NOTHING = {}

-- A watch holds what it watches weakly: it is kept beside the behaviour it belongs to, and would
-- otherwise keep that alive for ever. What was collected has changed.
local WEAK = { __mode = "v" }

local function add_watched(watch, holder, key, value)
  local n = watch.count
  watch[n + 1], watch[n + 2] = holder, key
  watch[n + 3] = rawequal(value, nil) and NOTHING or value
  watch.count = n + 3
end

local function make_watch(p)
  local watch = setmetatable({ count = 0, upvalues = 0 }, WEAK)
  for number = 1, p.variable_count do
    local entry = p.watched[number]
    if entry then add_watched(watch, entry[1], entry[2], entry[3]) end
  end
  watch.upvalues = watch.count
  for _, entry in ipairs(p.globals) do add_watched(watch, entry[1], entry[2], entry[3]) end
  return watch.count > 0 and watch or nil
end

-- transport.changed(watch) -> whether a variable of the code has another value than when packed.
-- Looks at variables, not into the tables they hold. Cheap: no allocation, no hashing but for
-- globals. A nil watch never changes.
function transport.changed(watch)
  if watch == nil then return false end
  for at = 1, watch.count, 3 do
    local holder, key, before = watch[at], watch[at + 1], watch[at + 2]
    if holder == nil then return true end
    local now
    if at <= watch.upvalues then now = select(2, getupvalue(holder, key)) else now = lookup(holder, key) end
    if rawequal(now, nil) then now = NOTHING end
    -- NaN is never equal to itself, and has not changed for that.
    if not rawequal(now, before) and not (now ~= now and before ~= before) then return true end
  end
  return false
end

-- transport.pack(behaviour, opts) -> bytes, watch, the shared values in it; or nil and a message.
-- `opts.is_ref(v)`: whether a userdata is an actor ref, which goes as it is; `opts.is_shared(v)`
-- likewise for another kind of light userdata. `watch` is for transport.changed, nil when no
-- variable of the code can change (a standard global is taken not to).
function transport.pack(behaviour, opts)
  local ok, message = transport.check(behaviour)
  if not ok then return nil, message end
  identity.refresh()
  local p = {
    is_ref = opts and opts.is_ref or never, shared = {},
    heads = {}, links = {},
    -- by node: the value, what is known of a function (true: a table), and how it was reached
    ids = {}, values = {}, infos = {}, owners = {}, steps = {}, labels = {},
    dumps = {}, envs = {}, env_count = 0, env_names = {},
    variables = {}, variable_count = 0, watched = {}, globals = {},
  }
  ok, message = pcall(put_graph, p, behaviour)
  if not ok then
    if rawequal(message, p) then return nil, p.message end
    error(message, 0)
  end
  return buffer.encode { format.magic, p.heads, p.links }, make_watch(p), p.shared
end

-- transport.module(name) -> bytes of the behaviour that this module returns, wherever unpacked
function transport.module(name)
  return buffer.encode { format.magic, { identity.MODULE, name }, {} }
end

-- transport.unpack(bytes, globals) -> behaviour. `globals` is the worker's global table: what
-- the code reads and does not bring along comes from there. Raises a string that says what is
-- missing on this side.
function transport.unpack(bytes, globals)
  local behaviour, name = unpacker.behaviour(bytes, globals or identity.base)
  if name then -- found here, so not what the sender has checked
    local ok, message = transport.check(behaviour)
    if not ok then error(("'%s' is no behaviour: %s"):format(name, message), 0) end
  end
  return behaviour
end

return transport
