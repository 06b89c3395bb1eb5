-- spawn: its forms and options, what carried code brings along, and misuse named at the caller's line.

local pierrot = require "pierrot"
local script = require "support.script"

local function echo(_, ...) return ... end
local helper_constant = { value = 5 }
local function helper(n) return n * helper_constant.value end

describe("spawn", function()
  before_each(function() assert(pierrot.start { workers = 2, log = "none" }) end)
  after_each(function() pierrot.shutdown() end)
  teardown(script.clean)

  it("takes a function, a table, or a list with options", function()
    assert.equal(1, pierrot.spawn(echo):ask(1))
    local b = { start = function(self, n) self.n = n end, receive = function(self) return self.n end }
    assert.equal(5, pierrot.spawn(b, 5):ask())
    assert.equal(6, pierrot.spawn { b, 6 }:ask())
    assert.equal(7, pierrot.spawn { b, 7, name = "seven", restart = "permanent", worker = "here" }:ask())
    local count = { start = function(self, ...) self.n = select("#", ...) self.last = select(-1, ...) end,
                    receive = function(self) return self.n, self.last end }
    assert.same({ 3, 3 }, { pierrot.spawn(count, nil, nil, 3):ask() })
    assert.same({ 3, 3 }, { pierrot.spawn { count, nil, nil, 3 }:ask() })
    assert.equal(2, (pierrot.spawn(count, 1, nil):ask()))
  end)

  it("says that there are too many arguments, wherever a list gives them", function()
    local many = { [2 ^ 20] = 1 }
    local function refused(what, fn)
      local line = debug.getinfo(fn, "S").linedefined
      local ok, problem = pcall(fn)
      assert.is_false(ok)
      assert.matches(("^.*spawn_spec.lua:%d: %s: at most 4000 "):format(line, what), problem)
    end
    many[1] = echo
    refused("spawn", function() pierrot.spawn(many) end)
    refused("router", function() pierrot.router(many) end)
    many[1] = pierrot.spawn(echo)
    refused("ask_all", function() pierrot.ask_all { many } end)
    refused("pipe", function() pierrot.pipe(many, pierrot.self()) end)
    local count = { start = function(self, ...) self.n = select("#", ...) end, receive = function(self) return self.n end }
    assert.equal(3999, pierrot.spawn { count, [4000] = true }:ask())
  end)

  it("takes a module's name, loaded once a worker", function()
    script.write("counted_behaviour.lua", [[
      local pierrot = require "pierrot"
      local loads = (rawget(package.loaded, "counted loads") or 0) + 1
      package.loaded["counted loads"] = loads
      return { name = "counted", receive = function(self, ...) return loads, ... end }
    ]])
    local result = script.run([[
      local pierrot = require "pierrot"
      for worker = 1, 2 do
        for i = 1, 3 do print(pierrot.spawn { "counted_behaviour", worker = worker }:ask(i)) end
      end
      print(pierrot.spawn("counted_behaviour"):info().behaviour)
    ]], { flags = "--workers 2 --log error" })
    assert.equal(("1\t1\n1\t2\n1\t3\n"):rep(2) .. "counted\n", result.out)
    assert.equal("", result.err)
  end)

  it("of a module that is missing, broken or no behaviour fails in start, and says why", function()
    script.write("broken_behaviour.lua", "error 'broken at load'")
    script.write("number_behaviour.lua", "return 5")
    local result = script.run([[
      local pierrot = require "pierrot"
      for _, name in ipairs { "missing_behaviour", "broken_behaviour", "number_behaviour" } do
        local a = pierrot.spawn { name, restart = "temporary" }
        print(pcall(a.ask, a))
        while a:is_alive() do pierrot.sleep(0.005) end
      end
    ]])
    assert.equal(0, result.status)
    for _, text in ipairs { "missing_behaviour", "broken at load", "number_behaviour" } do
      assert.truthy(result.err:find(text, 1, true), text .. " not in " .. result.err)
    end
  end)

  it("onto a worker by index, or the spawner's", function()
    for worker = 1, 2 do
      local a = pierrot.spawn { function()
        local child = pierrot.spawn { echo, worker = "here" }
        child:ask(1)
        return pierrot.info(child).worker, pierrot.info(pierrot.self()).worker
      end, worker = worker }
      assert.same({ worker, worker }, { a:ask() })
    end
  end)

  it("names what is wrong at the caller's line", function()
    local function refused(pattern, ...)
      local args = { n = select("#", ...), ... }
      local line
      local ok, err = pcall(function()
        line = debug.getinfo(1, "l").currentline + 1
        local ref = pierrot.spawn(unpack(args, 1, args.n))
        return ref
      end)
      assert.is_false(ok, "no error: " .. pattern)
      assert.truthy(tostring(err):find(("spawn_spec.lua:%d: spawn: "):format(line), 1, true), tostring(err))
      assert.truthy(tostring(err):find(pattern), tostring(err))
    end
    refused("behaviour")
    refused("behaviour", nil)
    refused("behaviour", 5)
    refused("behaviour", true)
    refused("behaviour", pierrot.self())
    refused("behaviour", { false })
    refused("behaviour", { 5, name = "x" })
    refused("frobnicate", { frobnicate = true })
    refused("unknown option 'frobnicate'", { echo, frobnicate = true })
    refused("unknown option 'Name'", { echo, Name = "x" })
    refused("behind the behaviour", { echo, name = "x" }, 5)
    refused("restart", { echo, restart = "sometimes" })
    refused("restart", { echo, restart = 1 })
    for _, worker in ipairs { 0, -1, 1.5, 0 / 0, math.huge, "there", {}, 3, 1e6, 2 ^ 32, 2 ^ 32 - 1, "1" } do
      refused("worker", { echo, worker = worker })
    end
    refused("receive", { receive = 5 })
    refused("on", { on = 5 })
    refused("on", { on = { 5 } })
    refused("on.a", { on = { a = "x" } })
    refused("start", { start = {} })
  end)

  it("carries helpers, upvalues, recursion, modules, varargs", function()
    local text, number, flag, nothing = "text", 1.5, true, nil
    local function fib(n) return n < 2 and n or fib(n - 1) + fib(n - 2) end
    local list = { 1, { 2 } }
    list.again = list[2]
    local a = pierrot.spawn { function(_, n)
      return text, number, flag, nothing, helper(n), fib(10), list[2][1], list.again == list[2], string.rep("x", 3),
        math.floor(2.5), type(pierrot.spawn)
    end, worker = 2 }
    assert.same({ "text", 1.5, true, nil, 10, 55, 2, true, "xxx", 2, "function" }, { a:ask(2) })
  end)

  it("carries a table that two functions share as one, apart from the spawner's", function()
    local shared = { n = 0 }
    local b = { on = { add = function() shared.n = shared.n + 1 return shared.n end, get = function() return shared.n end } }
    local a = pierrot.spawn { b, worker = 1 }
    assert.equal(1, a:ask "add")
    assert.equal(1, a:ask "get")
    assert.equal(0, shared.n)
  end)

  it("takes upvalues as they are at the spawn", function()
    local n = 1
    local function get() return n end
    local function spawn_one() return pierrot.spawn { get, worker = 1 } end
    local first = spawn_one()
    assert.equal(1, first:ask())
    n = 2
    local second = spawn_one()
    assert.equal(2, second:ask())
    assert.equal(1, first:ask())
  end)

  it("refuses captured userdata, coroutines and assigned variables, by name, at the spawn line", function()
    local function refused(pattern, behaviour)
      local ok, err = pcall(function() local r = pierrot.spawn(behaviour) return r end)
      assert.is_false(ok)
      assert.truthy(err:find("spawn_spec.lua:%d+: spawn: "), err)
      assert.truthy(err:find(pattern), err)
    end
    local file, co, count = io.tmpfile(), coroutine.create(print), 0
    refused("'file'", function() return file end)
    refused("'co'", { receive = function() return co end })
    refused("'count' is assigned.*keep it in self", function() count = count + 1 return count end)
    refused("'count'", { on = { a = function() return function() count = 5 end end } })
    refused("some_global", function() some_global = 1 end)   -- luacheck: ignore
    local inner = { deep = { file = file } }
    refused("inner%.deep%.file", function() return inner.deep.file end)
    file:close()
  end)

  it("spawns thousands, each with its own self", function()
    local n = script.sanitized and 500 or 5000
    local b = { start = function(self, i) self.i = i end, receive = function(self) return self.i end }
    local refs = {}
    for i = 1, n do refs[i] = pierrot.spawn(b, i) end
    for i = 1, n do assert(refs[i]:ask() == i) end
    for i = 1, n do refs[i]:stop() end
  end)
end)
