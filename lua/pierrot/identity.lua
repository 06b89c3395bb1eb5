-- What goes from one lua_State to another by name: modules, what lies directly in them, and the
-- standard globals. Also how code finds a global, as that decides whether it is a standard one.
--
-- Invariants:
-- * A name that is given for a value leads to that value in this state, now.
-- * A script's own code and data never go by name, even where the script has put them into the
--   global table or into a standard library: they would be missing on the other side.

local identity = {}

local type, next, rawget, rawequal = type, next, rawget, rawequal
local getinfo, getmetatable = debug.getinfo, debug.getmetatable
local loaded = package.loaded
local base = loaded._G

-- Where names lead in a worker whose scripts do not see everything: see restrict.lua.
identity.base, identity.require = base, nil
function identity.use(script_loaded, script_globals, script_require)
  loaded, base = script_loaded, script_globals
  identity.base, identity.require = base, script_require
  identity.learn_all()
end

local CHAIN_LIMIT = 100 -- tables asked for a global, through __index

-- Kinds of names.
identity.MODULE = "m"   -- of a module
identity.FIELD = "."    -- of a module, and of a field in it
identity.STANDARD = "g" -- of a standard global

-- Standard globals by name, as they were when this file was loaded. Whoever replaces one of
-- them in a worker by a Lua function may put that here, to have it go by name too. (A C function
-- in the place of a standard global always does.)
identity.standard = {}
for name in ([[assert collectgarbage dofile error gcinfo getfenv getmetatable ipairs load loadfile
  loadstring module newproxy next pairs pcall print rawequal rawget rawlen rawset require select
  setfenv setmetatable tonumber tostring type unpack xpcall _VERSION coroutine debug io math os
  package string table bit jit]]):gmatch "%S+" do
  identity.standard[name] = rawget(base, name)
end

local LIBRARIES = {}
for name in ("coroutine debug io math os package string table bit jit ffi"):gmatch "%S+" do
  LIBRARIES[name] = true
end

local HAS_IDENTITY = { table = true, ["function"] = true, userdata = true, cdata = true }

-- value -> the module it is found in, and the field there (nil: the module itself). Weak, as
-- this is no reason to keep alive what a module has dropped.
local module_of, field_of
local known_modules = {}

local function is_c_function(value)
  return type(value) == "function" and getinfo(value, "S").what == "C"
end

-- What a script has added to a standard library is code of the script like any other. (A few
-- functions of these libraries are not C: LuaJIT has them as bytecode.)
local function is_patch(module, value)
  return LIBRARIES[module] and type(value) == "function" and not is_c_function(value)
    and not getinfo(value, "S").short_src:find("^%[builtin:")
end

local function learn(value, module, field)
  if HAS_IDENTITY[type(value)] and module_of[value] == nil and not is_patch(module, value)
    and not rawequal(value, base) then
    module_of[value], field_of[value] = module, field
  end
end

-- The standard libraries come first, so that a module's alias of string.format does not make
-- that function depend on that module. After that by name: any order that is always the same.
local function module_names()
  local names = {}
  for name in next, loaded do
    if type(name) == "string" and name ~= "_G" then names[#names + 1] = name end
  end
  table.sort(names, function(a, b)
    if LIBRARIES[a] ~= LIBRARIES[b] then return LIBRARIES[a] == true end
    return a < b
  end)
  return names
end

-- What a module was before `pierrot.reload` replaced it, and what lay in it: goes by name still. Weak.
local former_of, former_field = setmetatable({}, { __mode = "k" }), setmetatable({}, { __mode = "k" })

-- identity.replaced(name, former value of the module)
function identity.replaced(name, former)
  if not HAS_IDENTITY[type(former)] then return end
  former_of[former] = name
  for field, value in next, type(former) == "table" and former or {} do
    if type(field) == "string" and HAS_IDENTITY[type(value)] and not module_of[value] or module_of[value] == name then
      former_of[value], former_field[value] = name, field
    end
  end
end

-- Learns all names anew.
function identity.learn_all()
  module_of, field_of = setmetatable({}, { __mode = "k" }), setmetatable({}, { __mode = "k" })
  known_modules = {}
  for name, module in next, loaded do known_modules[name] = module end
  local names = module_names()
  for _, name in ipairs(names) do learn(loaded[name], name) end
  for name, value in next, identity.standard do learn(value, "_G", name) end
  for _, name in ipairs(names) do
    local module = loaded[name]
    if type(module) == "table" and not rawequal(module, base) then
      for field, value in next, module do
        if type(field) == "string" then learn(value, name, field) end
      end
    end
  end
  for name in next, identity.standard do
    local value = rawget(base, name)
    if is_c_function(value) then learn(value, "_G", name) end
  end
end

-- This runs once or twice in the life of a state. Traces for it would cost ten times as much to
-- make as it takes, and that in the first spawn.
for _, fn in ipairs { is_c_function, is_patch, learn, module_names, identity.learn_all } do
  jit.off(fn, true)
end

-- Learns new modules. Looks for replaced entries, not only for more of them: while a module is
-- being loaded, a placeholder stands where its table will be.
function identity.refresh()
  for name, module in next, loaded do
    if not rawequal(known_modules[name], module) then return identity.learn_all() end
  end
end

-- identity.find(value) -> kind, name, and for FIELD the field; nil if it has none.
-- After a refresh only.
function identity.find(value)
  local name = module_of[value]
  if name == nil then
    name = former_of[value]
    if name == nil then return nil end
    local field = former_field[value]
    if field == nil then return identity.MODULE, name end
    return identity.FIELD, name, field
  end
  local field = field_of[value]
  if name == "_G" then return identity.STANDARD, field end
  local module = loaded[name]
  if field == nil then
    if rawequal(module, value) then return identity.MODULE, name end
  elseif type(module) == "table" and rawequal(rawget(module, field), value) then
    return identity.FIELD, name, field
  end
end

-- The value of a global as code with this environment sees it. An __index function may raise for
-- a name it does not know, which is as good as nil here.
function identity.lookup(env, name)
  for _ = 1, CHAIN_LIMIT do
    local value = rawget(env, name)
    if not rawequal(value, nil) then return value end
    local meta = getmetatable(env)
    local index = meta and rawget(meta, "__index")
    if type(index) == "function" then
      local ok, found = pcall(index, env, name)
      if ok then return found end
      return nil
    elseif type(index) ~= "table" then
      return nil
    end
    env = index
  end
end

-- Whether a global of this name and value is there on the other side without being carried.
function identity.is_standard(name, value)
  local standard = identity.standard[name]
  if standard == nil then return name == "_G" end
  return rawequal(value, standard)
    or is_c_function(value) and identity.find(value) ~= identity.FIELD
end

return identity
