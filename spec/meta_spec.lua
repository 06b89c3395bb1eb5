--- lua/pierrot/meta.lua describes what is there, and nothing else: the module outside and inside an actor, the
--- methods of refs, timers and deferred replies, and the fields of info and stats.
--- Names that begin with "_" are not public.

local pierrot = require "pierrot"

--- What meta.lua defines, by object or class:
-- { pierrot = { spawn = "function", ... }, Ref = ..., ["pierrot.Info"] = { id = "field", ... }, ... }
local function documented()
  local found = { pierrot = { log = "table", version = "string" } }
  local function add(object, name, kind)
    found[object] = found[object] or {}
    found[object][name] = kind
  end
  local class
  for line in io.lines("lua/pierrot/meta.lua") do
    local object, name = line:match("^function ([%w_]+)[.:]([%w_]+)%(")
    if object then add(object, name, "function") end
    class = line:match("^%-%-%-@class ([%w_.]+)") or line:match("^%-%-%-@") and class or nil
    local field = line:match("^%-%-%-@field ([%w_]+)")
    if class and class ~= "pierrot" and field then add(class, field, "field") end
  end
  return found
end

local meta = documented()

local function names(t)
  local list = {}
  for name in pairs(t) do
    if type(name) == "string" and name:sub(1, 1) ~= "_" then list[#list + 1] = name end
  end
  table.sort(list)
  return list
end

--- Looks at `value`'s public fields: name -> type.
local function shape(value)
  local types = {}
  for name, field in pairs(value) do
    if name:sub(1, 1) ~= "_" then types[name] = type(field) end
  end
  return types
end

describe("lua/pierrot/meta.lua", function()
  setup(function() assert(pierrot.start{ workers = 2, log = "error" }) end)
  teardown(function() assert(pierrot.shutdown()) end)

  it("describes the module as it is outside", function()
    assert.same(meta.pierrot, shape(pierrot))
  end)

  it("describes the module as it is inside an actor", function()
    local actor = pierrot.spawn(function()
      local types, log = {}, {}
      local inner = require "pierrot"
      for name, field in pairs(inner) do types[name] = type(field) end
      for name, field in pairs(inner.log) do log[name] = type(field) end
      return types, log
    end)
    local types, log = actor:ask()
    for name in pairs(types) do
      if name:sub(1, 1) == "_" then types[name] = nil end
    end
    assert.same(meta.pierrot, types)
    assert.same(meta.log, log)
  end)

  it("describes the log", function()
    assert.same(meta.log, shape(pierrot.log))
  end)

  it("describes the methods of refs", function()
    local methods = {}
    for name in pairs(meta.Ref) do methods[name] = "function" end
    for name in pairs(meta.Monitor) do methods[name] = "function" end   -- both are light userdata, of one metatable
    assert.same(methods, shape(debug.getmetatable(pierrot.self()).__index))
  end)

  it("describes the methods of timers", function()
    local timer = pierrot.send_after(60, pierrot.self(), "later")
    assert.same(meta.Timer, shape(debug.getmetatable(timer).__index))
    timer:cancel()
  end)

  it("describes the methods of deferred replies", function()
    local actor = pierrot.spawn(function()
      local deferred, methods = require("pierrot").defer(), {}
      for name, field in pairs(getmetatable(deferred)) do methods[name] = type(field) end
      deferred:reply(methods)
    end)
    local methods = actor:ask()
    for name in pairs(methods) do
      if name:sub(1, 1) == "_" then methods[name] = nil end
    end
    assert.same(meta.Deferred, methods)
  end)

  it("describes what info and stats return", function()
    local parent = pierrot.spawn{ function()
      local inner = require "pierrot"
      return inner.spawn{ function() return true end, name = "meta child", mailbox = 10 }
    end, name = "meta parent" }
    local child = parent:ask()
    child:ask()
    assert.same(names(meta["pierrot.Info"]), names(child:info()))
    local stats = pierrot.stats()
    assert.same(names(meta["pierrot.Stats"]), names(stats))
    assert.same(names(meta["pierrot.DispatcherStats"]), names(stats.dispatchers.default))
    stats.by_worker[1].current = pierrot.self()   -- there only while a turn is under way
    assert.same(names(meta["pierrot.WorkerStats"]), names(stats.by_worker[1]))
  end)

  it("describes the modules beside it", function()
    local breaker = require "pierrot.breaker"
    assert.same(meta.breaker, shape(breaker))
    local methods = shape(getmetatable(breaker.new()))
    methods.__index = nil
    assert.same(meta.Breaker, methods)
    assert.same(meta.stream, shape(require "pierrot.stream"))
  end)

  it("describes the options that start and spawn know", function()
    local _, problem = pcall(pierrot.spawn, { function() end, nonsense = 1 })
    for option in pairs(meta["pierrot.Spawn"]) do
      assert.is_truthy(problem:find(option, 1, true), option)
    end
    local module = assert(io.open("lua/pierrot/init.lua")):read("*a")
    local known = module:match("local start_options = {(.-)}")
    local options = {}
    for option in known:gmatch("([%w_]+) = true") do options[option] = true end
    assert.same(names(options), names(meta["pierrot.StartOptions"]))
  end)

  it("describes what tests get", function()
    local function methods(of)
      local list = {}
      for name in pairs(of) do list[name] = "function" end
      return list
    end
    assert.same(methods(meta.Test), shape(require "pierrot.testing.context".Test))
    assert.same(methods(meta.Fault), shape(require "pierrot.testing.context".Fault))
    assert.same(methods(meta.Probe), shape(require "pierrot.testing.probe".Probe))
    local testing = shape(require "pierrot.testing")
    for name in pairs(meta.testing) do assert.equal("function", testing[name], name) end
  end)

  it("is Lua", function()
    assert(loadfile("lua/pierrot/meta.lua"))
  end)
end)
