-- pierrot.reload: new versions of modules and behaviours while actors run them. What a state does for it; the order of
-- steps is reloader.lua's, what becomes of actors src/lua/reload.c's.
--
-- A new version travels as { MAGIC, serial, modules, bytes }: the behaviour as carried first (transport.lua), and the
-- modules that are to stand in it by name, with their source text. So all workers have the same version, whatever
-- becomes of the file, those too that start later. The serial makes each a behaviour of its own.
--
-- Invariants:
-- * In a state, a module's text runs once for each serial, and what it makes is in package.loaded from `install` on.
-- * While a version is only tried (`trying`), nothing of it can be seen.

local identity = require "pierrot.identity"
local transport = require "pierrot.transport"
local unpacker = require "pierrot.unpack"
local buffer = require "string.buffer"

local reload = {}

local MAGIC = "pierrot reload 1"
local pcall, error, type, tostring, load, next = pcall, error, type, tostring, load, next
local searchpath, open = package.searchpath, io.open
local core

-- Versions as bytes -------------------------------------------------------------------------------------------------

-- bytes -> serial, modules, the carried behaviour; nil if they are no version
local function parse(bytes)
  if not bytes:find(MAGIC, 1, true) then
    return nil
  end
  local ok, version = pcall(buffer.decode, bytes)
  if ok and type(version) == "table" and version[1] == MAGIC then
    return version[2], version[3], version[4]
  end
end

-- The next version of this behaviour, with another module in it, { name, source, chunkname }; nil if it does not use it
function reload.with_module(bytes, serial, module)
  local _, modules, carried = parse(bytes)
  carried = carried or bytes
  local spawned = carried:match "^%zmodule%z(.*)$"   -- by a host in C: see the hook `load`
  if spawned then
    carried = transport.module(spawned)
  end
  if not unpacker.mentions(carried, module[1]) then
    return nil
  end
  local list = {}
  for _, other in ipairs(modules or {}) do
    if other[1] ~= module[1] then
      list[#list + 1] = other
    end
  end
  list[#list + 1] = { module[1], module[2], module[3], serial }
  return buffer.encode { MAGIC, serial, list, carried }
end

-- The behaviour `carried` as a version of another.
function reload.version(carried, serial)
  local _, modules, inner = parse(carried)
  return buffer.encode { MAGIC, serial, modules or {}, inner or carried }
end

-- In a worker's state -----------------------------------------------------------------------------------------------

local made = {}            -- module's name -> { serial, what it is }, of those in package.loaded
local trying               -- the same, of those that are only tried; nil: none is

local function loaded_modules()
  return core.script_modules and core.script_modules.loaded or package.loaded
end

-- Runs the text of a module. Raises what is wrong with it.
local function make(name, source, chunkname)
  local modules = loaded_modules()
  local before = modules[name]
  local chunk, problem
  if core.script_modules then
    chunk = core.script_modules.compile(name, source, chunkname)
  else
    chunk, problem = load(source, chunkname, core.load_mode)
    if not chunk then
      error(problem, 0)
    end
  end
  local ok, result = core.run_module(chunk, name)
  local own = modules[name]   -- it may have put itself there
  modules[name] = before
  if not ok then
    error(result, 0)
  end
  if result == nil then
    result = own ~= before and own or true
  end
  return result
end

local function install(name, entry)
  local modules = loaded_modules()
  if modules[name] ~= nil then
    identity.replaced(name, modules[name])
  end
  if core.script_modules then
    core.script_modules.set(name, entry[2])
  else
    modules[name] = entry[2]
  end
  made[name] = entry
  identity.learn_all()
end

-- Makes them if need be. -> by name
local function stage(modules)
  local staged = {}
  for _, module in ipairs(modules) do
    local name, serial = module[1], module[4]
    local entry = trying and trying[name] or made[name]
    if not entry or entry[1] < serial then
      entry = { serial, make(name, module[2], module[3]) }
      if trying then
        trying[name] = entry
      else
        install(name, entry)
      end
    end
    staged[name] = entry[2]
  end
  return staged
end

local function finish(ok, ...)
  unpacker.staged = {}
  if not ok then
    error(..., 0)
  end
  return ...
end

-- The behaviour that these bytes are, if they are a version. For the hook `load`; raises what is wrong.
function reload.load(bytes)
  local serial, modules, carried = parse(bytes)
  if serial then
    unpacker.staged = stage(modules)
    return finish(pcall(transport.unpack, carried, core.globals or _G))
  end
end

-- Tries new versions here: a module (name, source, chunkname, serial) or nil, and behaviours { bytes, name }.
-- -> what to give to `take` or `leave`; nil and what is wrong
function reload.try(module, behaviours)
  trying = {}
  local handles = {}
  local ok, problem = pcall(core.without_waiting, function()
    if module then
      stage { module }
    end
    for i, behaviour in ipairs(behaviours) do
      handles[i] = core.intern(behaviour[1], behaviour[2])
      core.stage(handles[i])
    end
  end)
  local tried = trying
  trying = nil
  if not ok then
    return nil, tostring(problem)
  end
  return { modules = tried, handles = handles }
end

-- From here on they are what this worker has.
function reload.take(tried)
  for name, entry in next, tried.modules do
    if not made[name] or made[name][1] < entry[1] then
      install(name, entry)
    end
  end
  for _, handle in ipairs(tried.handles) do
    core.install(handle)
  end
end

-- The module's part -------------------------------------------------------------------------------------------------

-- name -> { name, source, chunkname }; nil and why not
local function source_of(name)
  if core.host_text then
    local text, chunkname = core.host_text(name)
    if type(text) == "string" then
      return { name, text, chunkname }
    elseif text then
      return nil, ("the module '%s' is the host's, in C"):format(name)
    end
  end
  if core.script_modules and not core.script_modules.files then
    return nil, ("there is no module '%s'"):format(name)
  end
  local path, tried = searchpath(name, package.path)
  if not path then
    return nil, ("there is no file of a module '%s':%s"):format(name, tried)
  end
  local file, problem = open(path, "rb")
  local text = file and file:read "*a"
  if file then
    file:close()
  end
  if not text then
    return nil, problem or ("cannot read %s"):format(path)
  end
  return { name, text, "@" .. path }
end

local NAME = "pierrot.reload"

-- The actor that does one reload after the other.
local function reloader(pierrot)
  local ref = pierrot.whereis(NAME)
  if ref then
    return ref
  end
  local handle = core.intern(transport.module "pierrot.reloader", "pierrot.reloader")
  local born, reason, holder = core.spawn(handle, NAME, 1, 0, { root = true })   -- permanent
  return born or holder, reason
end

-- carry(behaviour) -> handle or nil and what is wrong; name_of(behaviour)
function reload.install(pierrot, the_core, misuse, carry, name_of)
  core = the_core

  local function request(...)
    local ref, reason = reloader(pierrot)
    if not ref then
      return nil, reason
    end
    return pierrot.ask_within(ref, math.huge, ...)
  end

  local function sealed(bytes)
    return core.globals and core.seal(bytes) or nil
  end

  function pierrot.reload(what, new)
    local old = what
    if new == nil then
      if type(what) ~= "string" or what == "" then
        misuse(2, "reload: a module's name expected, got %s (a behaviour: reload(old, new))",
               what == "" and "an empty string" or type(what))
      end
      local module, problem = source_of(what)
      if not module then
        return nil, problem
      end
      local ok, reason, waiting = request("module", module)
      return ok, reason or waiting
    end
    if type(old) ~= "string" then
      if type(old) ~= "table" and type(old) ~= "function" then
        misuse(2, "reload: a behaviour, or the name of one, expected, got %s", type(old))
      end
      local handle, problem = carry(old)
      if not handle then
        misuse(2, "reload: %s", problem)
      end
      local bytes, name = core.bytes_of(handle)
      old = { bytes, name, sealed(bytes) }
    end
    local handle, problem = carry(new)
    if not handle then
      misuse(2, "reload: the new behaviour: %s", problem)
    end
    local bytes = core.bytes_of(handle)
    local name = type(new) == "string" and new or name_of(new)
    local ok, reason, waiting = request("behaviour", old, { bytes, name, sealed(bytes) })
    return ok, reason or waiting
  end

  if core.inside then
    local function upgrading(self, ...)
      local handler = core.upgrade(self)
      return handler(self, ...)
    end
    jit.off(upgrading)
    core.upgrading(upgrading)
  end
end

-- Whether these bytes were packed by a worker: where bytecode is not for scripts, neither is making it up.
function reload.is_genuine(bytes, seal)
  return not core.globals or seal == core.seal(bytes)
end

return reload
