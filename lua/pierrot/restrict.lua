-- What scripts see in a worker whose host allows less than everything (the `libraries` of pierrot_config).
--
-- Invariants:
-- * Scripts, and the modules they load, have globals of their own, made here. No function that is reachable from there
--   leads to the real globals, to a library that is not allowed, to a loader of bytecode, or to a file.
-- * The Lua half keeps the real globals: nothing that a script replaces in its tables is called with what is internal.
-- * What goes between workers by name (identity.lua) is looked for in what scripts see.
--
-- A script can still use up time and memory, and change library tables that other scripts of this worker use.

local identity = require "pierrot.identity"

local type, error, pcall, setmetatable, next, tostring = type, error, pcall, setmetatable, next, tostring
local load, loadfile, searchpath, loadlib = load, loadfile, package.searchpath, package.loadlib
local real_require, real_loaded, real_preload = require, package.loaded, package.preload
local pairs, gsub, match, sub, concat = pairs, string.gsub, string.match, string.sub, table.concat
local real_xpcall = xpcall

local ALWAYS = [[assert error getmetatable ipairs next pairs pcall print rawequal rawget rawlen rawset select
  setmetatable tonumber tostring type unpack xpcall _VERSION]]
local PUBLIC = { ["pierrot.breaker"] = true, ["pierrot.stream"] = true }

local function copy(t)
  local result = {}
  for key, value in next, t do
    result[key] = value
  end
  return result
end

-- Chunks of the Lua half are known by such names: scripts cannot have them.
local function chunkname_of(given)
  if type(given) == "string" and match(given, "^[=@]pierrot/") then
    return "=" .. sub(given, 2 + #"pierrot/")
  end
  return given
end

-- The first half, before the host adds its modules: notes what is there without them. Returns the second one.
-- host_text(name): the text of a module of the host's, and what to call it; or its function in C; or nil.
return function(core, pierrot, allowed)
  local before_globals, before_loaded, before_preload = copy(_G), copy(real_loaded), copy(real_preload)
  local host_text, over = core.host_text, core.over

  -- A message handler would run inside the hook that has ended the script, where nothing counts its instructions.
  local function limited_xpcall(fn, handler, ...)
    if type(handler) ~= "function" then
      error(("bad argument #2 to 'xpcall' (function expected, got %s)"):format(type(handler)), 2)
    end
    return real_xpcall(fn, function(problem)
      if over() then
        return problem
      end
      return handler(problem)
    end, ...)
  end

  return function()
    local globals, loaded, loading = {}, {}, {}
    local preloaded = {}   -- what the host has put into package.preload by itself
    local named = {}   -- `loaded`, and the modules of the Lua half: what code that is carried may go by
    local mode = allowed.bytecode and "bt" or "t"

    local function environment()
      local env = {}
      env._G = env
      return setmetatable(env, { __index = globals, __metatable = false })
    end

    local function compile(name, text, chunkname)
      local chunk, problem = load(text, chunkname, mode, environment())
      if not chunk then
        error(("error loading module '%s':\n\t%s"):format(name, problem), 0)
      end
      return chunk
    end

    local function from_files(name, tried)
      local path, problem = searchpath(name, package.path)
      if path then
        local chunk, trouble = loadfile(path, mode, environment())
        return chunk or error(("error loading module '%s':\n\t%s"):format(name, trouble), 0)
      end
      tried[#tried + 1] = problem
      path, problem = searchpath(name, package.cpath)
      if path then
        local open, trouble = loadlib(path, "luaopen_" .. gsub(gsub(name, "^.*%-", ""), "%.", "_"))
        return open or error(("error loading module '%s':\n\t%s"):format(name, trouble), 0)
      end
      tried[#tried + 1] = problem
    end

    -- The function that makes the module.
    local function find(name)
      local text, chunkname = host_text(name)
      if type(text) == "string" then
        return compile(name, text, chunkname)
      elseif text then
        return text   -- a module in C
      elseif preloaded[name] then
        return preloaded[name]
      elseif PUBLIC[name] then
        return real_require
      end
      local tried = {}
      local opens = allowed.files and from_files(name, tried)
      if not opens then
        error(("module '%s' not found%s"):format(name, concat(tried)), 0)
      end
      return opens
    end

    local function require(name)
      if type(name) ~= "string" then
        error(("bad argument #1 to 'require' (string expected, got %s)"):format(type(name)), 2)
      end
      local module = loaded[name]
      if module ~= nil then
        return module
      elseif loading[name] then
        error(("loop in loading module '%s'"):format(name), 2)
      end
      loading[name] = true
      local ok, result = pcall(function()
        return find(name)(name)
      end)
      loading[name] = nil
      if not ok then
        error(result, 2)
      end
      if loaded[name] == nil then
        loaded[name] = result == nil and true or result
      end
      named[name] = loaded[name]
      return loaded[name]
    end

    for name in ALWAYS:gmatch "%S+" do
      globals[name] = _G[name]
    end
    globals._G, globals.require = globals, require
    if core.over then   -- instructions are limited: see src/lua/budget.c
      globals.xpcall = limited_xpcall
    end
    globals.coroutine = copy(coroutine)
    globals.package = { loaded = loaded }
    for _, name in pairs { "table", "string", "math", "bit" } do
      globals[name] = allowed[name] and copy(_G[name]) or nil
    end
    for _, name in pairs { "io", "os", "debug", "jit" } do
      globals[name] = allowed[name] and _G[name] or nil
    end
    if allowed.debug then
      globals.getfenv, globals.setfenv, globals.newproxy = getfenv, setfenv, newproxy
    end
    if globals.string and not allowed.bytecode then
      globals.string.dump = nil
    end

    -- ("").dump would be string.dump, and getmetatable("").__index a table that all share.
    local strings = getmetatable("")
    strings.__index = copy(string)
    strings.__index.dump = allowed.bytecode and string.dump or nil
    strings.__metatable = false

    function globals.load(chunk, chunkname, asked, env)
      if type(chunk) == "function" then
        local parts, piece = {}, chunk()
        while piece ~= nil and piece ~= "" do
          if type(piece) ~= "string" then
            return nil, "reader function must return a string"
          end
          parts[#parts + 1], piece = piece, chunk()
        end
        chunk = concat(parts)
        chunkname = chunkname or "=(load)"
      end
      if type(chunk) ~= "string" then
        error(("bad argument #1 to 'load' (string expected, got %s)"):format(type(chunk)), 2)
      end
      if asked == "b" and mode == "t" then
        return nil, "attempt to load chunk with wrong mode"
      end
      local fn, problem = load(chunk, chunkname_of(chunkname), asked == "t" and "t" or mode,
        env == nil and environment() or env)
      return fn, problem
    end

    function globals.loadstring(text, chunkname)
      local fn, problem = globals.load(tostring(text), chunkname)
      return fn, problem
    end

    if allowed.files then
      function globals.loadfile(path)
        local fn, problem = loadfile(path, mode, environment())
        return fn, problem
      end
      function globals.dofile(path)
        local fn, problem = loadfile(path, mode, environment())
        return (fn or error(problem, 0))()
      end
    end

    function globals.collectgarbage(what)
      return what == "count" and collectgarbage "count" or 0
    end

    local api = copy(pierrot)
    api.log, api._run_script = copy(pierrot.log), nil
    for _, name in pairs { "_G", "coroutine", "table", "string", "math", "bit", "io", "os", "debug", "jit",
                           "package" } do
      loaded[name] = globals[name]
    end
    loaded.pierrot = api
    for _, name in pairs { "ffi", "string.buffer", "jit.util", "jit.opt" } do
      if allowed[name] or (allowed.jit and match(name, "^jit")) then
        loaded[name] = real_require(name)
      end
    end

    -- What the host has added.
    for name, value in next, copy(_G) do
      if before_globals[name] == nil and globals[name] == nil then
        globals[name] = value
      end
    end
    for name, opener in next, real_preload do
      if before_preload[name] == nil then
        preloaded[name] = opener
      end
    end
    for name, module in next, copy(real_loaded) do
      if before_loaded[name] == nil and loaded[name] == nil then
        loaded[name] = module
      end
    end

    for name, module in next, loaded do
      named[name] = module
    end
    for name, module in next, real_loaded do
      if type(name) == "string" and match(name, "^pierrot%.") then
        named[name] = module
      end
    end
    named["pierrot.itself"] = pierrot
    identity.use(named, globals, function(name)
      if name == "pierrot.itself" then
        return pierrot
      end
      return (match(name, "^pierrot%.") and real_require or require)(name)
    end)
    for name, value in next, globals do
      identity.standard[name] = value
    end
    for name in next, identity.standard do
      if globals[name] == nil then
        identity.standard[name] = nil
      end
    end
    core.globals, core.load_mode = globals, mode
    -- For reload.lua: where scripts find their modules.
    core.script_modules = {
      loaded = loaded, compile = compile, files = allowed.files,
      set = function(name, module) loaded[name], named[name] = module, module end,
    }
  end
end
