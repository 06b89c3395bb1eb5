-- Actors share nothing: no variable, no global, no failure.

local script = require "support.script"

local prelude = "local pierrot = require 'pierrot'\n"
local function output(source, opts) return script.output(prelude .. source, opts) end

describe("isolation", function()
  teardown(script.clean)

  it("an accidental global in a handler is an error at the spawn, with its name and line", function()
    local out = output [[
      print(pcall(function()
        local r = pierrot.spawn(function()
          local a = 1
          accidental = a
        end)
        return r
      end))
    ]]
    assert.truthy(out:find("^false\t.*script.lua:3: spawn: global 'accidental' is assigned .*%(line 5%).*self"), out)
  end)

  it("one made by other means is an error at its line, and reaches nobody", function()
    local out = output([[
      local function try(what)
        local a = pierrot.spawn { function(_, how)
          local ok, err
          if how == "rawset" then ok, err = pcall(function() _G.by_field = 1 end)
          elseif how == "loaded" then ok, err = pcall(function() loadstring("by_load = 1")() end)
          elseif how == "getfenv" then ok, err = pcall(function() getfenv(1).by_env = 1 end)
          elseif how == "package" then ok, err = pcall(function() package.loaded._G.by_package = 1 end) end
          return ok, tostring(err)
        end, worker = 1 }
        local ok, err = a:ask(what)
        print(what, ok, err:match "assignment to global '[%w_]+'")
      end
      for _, what in ipairs { "rawset", "loaded", "getfenv", "package" } do try(what) end
      print(pierrot.spawn { function() return rawget(_G, "by_field"), rawget(_G, "by_load"), rawget(_G, "by_env"),
        rawget(package.loaded._G, "by_package") end, worker = 1 }:ask())
    ]], { flags = "--workers 2 --log none" })
    assert.equal([[
rawset	false	assignment to global 'by_field'
loaded	false	assignment to global 'by_load'
getfenv	false	assignment to global 'by_env'
package	false	assignment to global 'by_package'
nil	nil	nil	nil
]], out)
  end)

  it("the script's globals go along as they are, and are its own", function()
    local out = output [[
      limit = 5
      list = { 1 }
      function double(n) return n * 2 end
      local b = function(_, n) list[#list + 1] = n return double(n) + limit, #list end
      local a, c = pierrot.spawn { b, worker = 1 }, pierrot.spawn { b, worker = 2 }
      print(a:ask(1))
      print(a:ask(2))
      print(#list, limit, double(4))
      limit = 6
      print(pierrot.spawn { b, worker = 1 }:ask(1))
      print(c:ask(1))
    ]]
    assert.equal("7\t2\n9\t3\n1\t5\t8\n8\t2\n7\t2\n", out)
  end)

  it("a module may make globals while it loads, and not later", function()
    script.write("making.lua", "made_by_module = 7\nreturn { later = function() made_later = 1 end }")
    local out = output([[
      local a = pierrot.spawn { function()
        local m = require "making"
        local ok, err = pcall(m.later)
        return made_by_module, ok, tostring(err):match "assignment to global 'made_later'"
      end, worker = 1 }
      print(a:ask())
    ]], { flags = "--workers 2 --log none" })
    assert.equal("7\tfalse\tassignment to global 'made_later'\n", out)
  end)

  it("a module that cannot be loaded leaves globals guarded", function()
    script.write("failing.lua", "error { 'a table' }")
    local out = output([[
      local a = pierrot.spawn { function()
        local ok, err = pcall(require, "failing")
        local ok2 = pcall(require, "not there at all")
        local ok3, err3 = pcall(function() _G.late = 1 end)
        local ok4 = pcall(function() package.loaded._G.late = 1 end)
        return ok, type(err), ok2, ok3, ok4
      end, worker = 1 }
      print(a:ask())
    ]], { flags = "--workers 2 --log none" })
    assert.truthy(out:find "^false\t%a+\tfalse\tfalse\tfalse\n$", out)
  end)

  it("self is the actor's own, also of actors of one behaviour on one worker", function()
    local out = output [[
      local b = { start = function(self) assert(next(self) == nil) self.list = {} end,
                  receive = function(self, n) self.list[#self.list + 1] = n return #self.list end }
      local refs = {}
      for i = 1, 100 do refs[i] = pierrot.spawn { b, worker = 1 } end
      for round = 1, 3 do for i = 1, 100 do assert(refs[i]:ask(round) == round) end end
      print "fine"
    ]]
    assert.equal("fine\n", out)
  end)

  it("an error in one actor is seen by no other", function()
    local r = script.run(prelude .. [[
      local good = {}
      for i = 1, 10 do good[i] = pierrot.spawn { function(self) self.n = (self.n or 0) + 1 return self.n end, worker = i % 2 + 1 } end
      for round = 1, 20 do
        pierrot.spawn { function() error(("bad"):rep(round)) end, worker = round % 2 + 1, restart = "temporary" }:tell()
        pierrot.spawn { function() local function f() return 1 + f() end f() end, worker = round % 2 + 1, restart = "temporary" }:tell()
        for i = 1, 10 do assert(good[i]:ask() == round) end
      end
      print "fine"
    ]], { flags = "--workers 2 --log none" })
    assert.same({ 0, "fine\n" }, { r.status, r.out })
  end)

  -- docs/isolation.md has a line for each of these.

  local bombs = {
    { "deep recursion", "local function f() return 1 + f() end return f()", "stack overflow" },
    { "stack overflow in a coroutine", "return coroutine.wrap(function() local function f() return 1 + f() end return f() end)()",
      "stack overflow" },
    { "error in error handling", "return xpcall(error, error)", "false" },
    { "error in error handling", "return (xpcall(error, function(e) error(e) end))", "false" },
    { "an error object that cannot be shown", "error(setmetatable({}, { __tostring = error }))",
      "an error object whose __tostring failed" },
    { "an error object that cannot be shown", "error(setmetatable({}, { __tostring = function() return {} end }))", "error" },
    { "a huge string", "return #('x'):rep(2 ^ 31 - 1)", "memory" },
    { "a finalizer that raises",
      "local p = newproxy(true) getmetatable(p).__gc = function() error 'in gc' end p = nil collectgarbage() return 'fine'", "fine" },
    { "the collector", "collectgarbage 'stop' local n = collectgarbage 'count' for i = 1, 3e5 do local t = { i } end "
      .. "return collectgarbage 'count' - n < 10000", "true" },
    { "the environment of the coroutine", "setfenv(0, {})", "setfenv: level 0 is shared" },
    { "metatables do not travel", "local t = setmetatable({}, { __index = error }) return getmetatable(t) ~= nil, t", "true" },
  }

  it("what stays its own: a neighbour goes on after each", function()
    local source = { [[
      local neighbour = pierrot.spawn { function(self, n)
        self.n = (self.n or 0) + n
        return self.n, loadstring("return type(print)")(), getmetatable("").__index == string
      end, worker = 1 }
      local round = 0
      local function try(bomb)
        local a = pierrot.spawn { bomb, worker = 1, restart = "temporary" }
        local ok, err, more = pcall(a.ask_within, a, 60)
        round = round + 1
        local n, kind, same = neighbour:ask_within(60, 1)
        assert(n == round and kind == "function" and same)
        print((tostring(err):gsub("\n", " ")), type(more) == "table" and getmetatable(more) or nil)
      end
    ]] }
    for i, bomb in ipairs(bombs) do
      source[i + 1] = ("for _ = 1, 2 do try(function() %s end) end"):format(bomb[2])
    end
    local out, at = output(table.concat(source, "\n"), { flags = "--workers 2 --log none" }), 0
    for line in out:gmatch "[^\n]+" do
      local bomb = bombs[math.floor(at / 2) + 1]
      assert.truthy(line:find(bomb[3], 1, true), bomb[1] .. ": " .. line)
      assert.truthy(line:find "\tnil$", line)
      at = at + 1
    end
    assert.equal(2 * #bombs, at)
  end)

  -- What it does, what a neighbour then says, and what actors elsewhere say.
  local tricks = {
    { "the string metatable", "getmetatable('').__index = { upper = function() return 'changed' end }", "return ('x'):upper()",
      "changed", "X" },
    { "a library's table", "math.floor = nil", "return math.floor == nil", "true", "false" },
    { "a module's variables", "require('shared_module').n = 5", "return require('shared_module').n", "5", "0" },
    { "the debug library", "debug.setmetatable(pierrot.self(), nil)", "return (pcall(function() return pierrot.self().tell end))",
      "false", "true" },
    { "random numbers", "math.randomseed(7)", "local n = math.random(1e9) math.randomseed(7) return n == math.random(1e9)", "true",
      "false" },
    { "a pattern that goes back and forth", "pcall(string.find, ('a'):rep(24), ('a*'):rep(7) .. 'b')", "return 'served'", "served",
      "served" },
    { "as much memory as it likes", "package.loaded.hoard = ('x'):rep(2 ^ 26)", "return collectgarbage 'count' > 2 ^ 16", "true",
      "false" },
    { "the compiler", "jit.off()", "return (jit.status())", "false", "true" },
    { "ffi", "local ffi = require 'ffi' ffi.cast('char *', ffi.cast('const char *', 'a text'))[0] = 65", "return 'a text'", "A text",
      "a text" },
  }

  for _, trick in ipairs(tricks) do
    it("its neighbours': " .. trick[1], function()
      script.write("shared_module.lua", "return { n = 0 }")
      local out = output(([[
        local function look() %s end
        local own = pierrot.self():info().worker
        local neighbour, other = pierrot.spawn { look, worker = own %% 3 + 1 }, pierrot.spawn { look, worker = (own + 1) %% 3 + 1 }
        local bad = pierrot.spawn { function() %s end, worker = own %% 3 + 1 }
        other:ask_within(60)
        pcall(bad.ask_within, bad, 60)
        print(neighbour:ask_within(60))
        print(other:ask_within(60))
      ]]):format(trick[3], trick[2]), { flags = "--workers 3 --log none" })
      assert.equal(trick[4] .. "\n" .. trick[5] .. "\n", out)
    end)
  end

  it("its neighbours': a loop without a time slice; kill takes effect afterwards", function()
    local out = output([[
      local me, own = pierrot.self(), pierrot.self():info().worker
      local long = pierrot.spawn { function(_, seconds)
        local until_then = pierrot.now() + seconds
        while pierrot.now() < until_then do end
        me:tell("over", pierrot.now())
      end, worker = own % 3 + 1, monitor = true, restart = "temporary" }
      local function clock() return pierrot.now() end
      local neighbour, other = pierrot.spawn { clock, worker = own % 3 + 1 }, pierrot.spawn { clock, worker = (own + 1) % 3 + 1 }
      neighbour:ask()
      long:tell(1)
      pierrot.sleep(0.1)
      assert(long:kill())
      local elsewhere, after = other:ask(), neighbour:ask_within(60)
      local what, over = pierrot.receive(60)
      print(what, elsewhere < over, over < after)
      local down, who = pierrot.receive(60)
      print(down, who == long)
    ]], { flags = "--workers 3 --log none" })
    assert.equal("over\ttrue\ttrue\ndown\ttrue\n", out)
  end)

  it("its neighbours': tables in a behaviour; setfenv on its own functions", function()
    local out = output([[
      local list = {}
      local b = { on = {
        add = function() list[#list + 1] = 1 return #list end,
        count = function() return #list end,
        move = function() setfenv(2, { marked = true }) return 1 end,
      }, receive = function() return marked end }
      b.on.change = function() setfenv(b.receive, setmetatable({ marked = true }, { __index = _G })) end
      local a, c = pierrot.spawn { b, worker = 1 }, pierrot.spawn { b, worker = 1 }
      local elsewhere = pierrot.spawn { b, worker = 2 }
      local other = pierrot.spawn { function() return #list, marked end, worker = 1 }
      a:ask "add"
      print(c:ask "count", elsewhere:ask "count", (other:ask()))
      pcall(a.ask, a, "change")
      print(c:ask "x", elsewhere:ask "x", (select(2, other:ask())))
    ]], { flags = "--workers 2 --log none" })
    assert.equal("1\t0\t0\ntrue\tnil\tnil\n", out)
  end)
end)
