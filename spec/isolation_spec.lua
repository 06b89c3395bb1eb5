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
end)
