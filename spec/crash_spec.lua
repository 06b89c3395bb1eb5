-- What scripts may do without taking the process down: each case runs in a process of its own, which must end by
-- itself, with the wanted output, never by a signal.
-- sanitizers: address

local script = require "support.script"

local prelude = [[
local pierrot = require "pierrot"
local function echo(_, ...) return ... end
-- asks `behaviour` once in an actor; the kind of the failure, or what it returns
local function try(behaviour, ...)
  local a = pierrot.spawn { behaviour, restart = "temporary" }
  local ok, result = pcall(a.ask_within, a, 60, ...)
  return ok and result or not ok and result.kind
end
local function churn() for i = 1, 3e5 do local t = { i } end collectgarbage() end
]]

local function ends_well(source, wanted)
  local result = script.run(prelude .. source .. "\nprint 'still here'", { flags = "--log none --workers 2", limit = 60 })
  assert.equal(0, result.status, "status " .. result.status .. ": " .. result.out .. result.err)
  assert.equal((wanted or "") .. "still here\n", result.out)
end

describe("the process survives", function()
  teardown(script.clean)

  it("recursion through C: gsub in gsub", function()
    ends_well([[
      print(try(function()
        local function f(s) return (s:gsub(".", f)) end
        f "x"
      end))
    ]], "failed\n")
  end)

  it("recursion through pcall, metamethods, sort and error handlers", function()
    ends_well([[
      print(try(function() local function f() return (pcall(f)) end return f() end) ~= nil)
      print(try(function() local t = setmetatable({}, {}) getmetatable(t).__index = function(x, k) return x[k .. "x"] end
        return t.x end))
      print(try(function() local function f() table.sort({ 2, 1 }, function() f() return true end) end f() end))
      print(try(function() local function h() error "again" end return xpcall(h, h) and 1 or "handled" end))
      print(try(function() local function f() return f() + 1 end return xpcall(f, debug.traceback) and 1 or "handled" end))
    ]], "true\nfailed\nfailed\nhandled\nhandled\n")
  end)

  -- LuaJIT looks for the line at which its recorder was cut off among the callers, where there may be none in Lua.
  it("errors raised by C functions in a loop that is about to be compiled", function()
    ends_well([[
      local wrong = {
        function(bad) return tonumber("12", bad and 99 or 10) end,
        function(bad) return setmetatable({}, bad and 5 or {}) end,
        function(bad) return select(bad and -5 or 1, 1, 2) end,
        function(bad) return ("x"):sub(bad and {} or 1) end,
        function(bad) return ("x"):rep(bad and 1e11 or 1) end,
      }
      local failed = 0
      for kind = 1, #wrong do
        for n = 50, 70 do   -- 56 rounds make a loop hot
          local what = try(function() for i = 1, 100 do wrong[kind](i >= n) end return "done" end)
          failed = failed + (what == "failed" and 1 or 0)
        end
      end
      print(failed >= 84)
    ]], "true\n")
  end)

  it("memory errors", function()
    ends_well([[
      print(try(function() return #("abcd"):rep(2 ^ 30) end))
      print(try(function() return string.rep("x", 2 ^ 30, "y") end))
    ]], "failed\nfailed\n")
  end)

  for name, call in pairs {
    tell = "pierrot.tell(sink, 1)", stop = "pierrot.stop()", ["stop another"] = "pierrot.stop(sink)",
    spawn = "pierrot.spawn(function() end)", send_after = "pierrot.send_after(0.01, sink, 1)", ask = "pierrot.ask(sink, 1)",
    receive = "pierrot.receive(0)", sleep = "pierrot.sleep(0)", self = "pierrot.self()", defer = "pierrot.defer()",
    forward = "pierrot.forward(sink)", sender = "pierrot.sender()", children = "pierrot.children()",
    parent = "pierrot.parent()", log = "pierrot.log.error('in gc')", print = "io.write('')", error = "error 'in gc'",
    yield = "pierrot.yield()", ["coroutine.yield"] = "coroutine.yield()", kill = "pierrot.kill(sink)",
    register = "pierrot.register('x', sink)", stats = "pierrot.stats()", ["reply"] = "pierrot.info(sink)",
  } do
    it("a finalizer that calls " .. name, function()
      ends_well(([[
        local sink = pierrot.spawn(function() end)
        local maker = pierrot.spawn(function(self, sink)
          for i = 1, 3000 do
            local p = newproxy(true)
            getmetatable(p).__gc = function() %s end
          end
        end)
        local bystander = pierrot.spawn(echo)
        for i = 1, 5 do
          maker:tell(sink)
          pierrot.sleep(0.03)       -- idle workers collect, with no actor running
          churn()
          pcall(bystander.ask, bystander, i)
        end
      ]]):format(call))
    end)
  end

  it("a finalizer that writes when the state is closed", function()
    for _, call in ipairs { "io.write('y')", "print('y')", "io.flush()", "pierrot.tell(pierrot.whereis('x') or 'x', 1)" } do
      ends_well(([[
        pierrot.spawn(function()
          local p = newproxy(true)
          getmetatable(p).__gc = function() %s end
          package.loaded.kept = p
          return 1
        end):ask()
      ]]):format(call:gsub("'y'", "''"):gsub("print", "io.write")))
    end
  end)

  it("a waiting coroutine of the script's own, caught inside a call from C and resumed later", function()
    ends_well([[
      local e = pierrot.spawn(echo)
      print(try(function(_, to)
        local co = coroutine.create(function() return to:ask(1) end)
        pcall(string.gsub, "x", ".", function() return tostring(select(2, coroutine.resume(co))) end)
        pcall(coroutine.resume, co)
        local sum = 0
        for i = 1, 10 do sum = sum + to:ask(i) end
        return sum
      end, e))
      print(try(function(_, to)
        for _ = 1, 5 do
          pcall(table.sort, { 3, 2, 1 }, function(a, b)
            return coroutine.wrap(function() to:ask_within(0.05, 1) return a < b end)()
          end)
          pcall(string.gsub, "x", ".", function() coroutine.wrap(pierrot.sleep)(0.05) end)
          pcall(string.gsub, "x", ".", function() coroutine.wrap(pierrot.receive)(0.05) end)
        end
        pierrot.sleep(0.2)
        return to:ask(7)
      end, e))
    ]], "55\n7\n")
  end)

  it("an error in a finalizer without failing an actor that has none", function()
    ends_well([[
      local maker = pierrot.spawn { function()
        for i = 1, 20000 do
          local p = newproxy(true)
          getmetatable(p).__gc = function() error "in gc" end
        end
      end, worker = 1 }
      local bystander = pierrot.spawn { function(self, n) local t = {} for i = 1, 100 do t[i] = { i } end return n end, worker = 1 }
      for i = 1, 3 do maker:tell() end
      local wrong = 0
      for i = 1, 3000 do
        local ok = pcall(bystander.ask, bystander, i)
        if not ok then wrong = wrong + 1 end
      end
      print("wrong", wrong)
    ]], "wrong\t0\n")
  end)

  it("calls at odd moments of a life", function()
    ends_well([[
      local events = {}
      local boss = pierrot.self()
      local function one(behaviour, ...)
        local a = pierrot.spawn { behaviour, restart = "temporary", ... }
        return a
      end
      -- spawn, tell to itself, stop itself, kill itself, forward, defer, receive in stop
      local a = one { receive = echo, stop = function(self)
        pcall(pierrot.spawn, echo)
        pierrot.self():tell "x"
        pierrot.self():stop()
        pierrot.self():drain()
        pierrot.stop()
        pcall(pierrot.defer)
        pcall(pierrot.forward, boss)
        pcall(pierrot.receive, 0)
        boss:tell "stopped"
      end }
      a:ask(1)
      a:stop()
      print(pierrot.receive(10))
      -- kill itself in the handler, in start, in stop
      one(function() pierrot.kill(pierrot.self()) pierrot.sleep(100) end):tell()
      one { start = function() pierrot.kill(pierrot.self()) pierrot.sleep(100) end }
      local c = one { receive = echo, stop = function() pierrot.kill(pierrot.self()) pierrot.sleep(100) end }
      c:ask(1) c:stop()
      -- stop itself in start
      local d = one { start = function() pierrot.stop "in start" end, stop = function(_, r) boss:tell(r) end, receive = echo }
      print(pierrot.receive(10))
      print(select(2, pcall(d.ask, d, 1)).kind)
      -- an error in stop
      local e = one { receive = echo, stop = function() error "in stop" end }
      e:ask(1) e:stop()
      -- receive in stop that waits for ever is ended by a kill
      local f = one { receive = echo, stop = function() boss:tell "waits" pierrot.receive() end }
      f:ask(1) f:stop()
      print(pierrot.receive(10))
      f:kill()
      while a:is_alive() or c:is_alive() or d:is_alive() or e:is_alive() or f:is_alive() do pierrot.sleep(0.005) end
      print(#pierrot.children() <= 2)
    ]], "stopped\nin start\ndead\nwaits\ntrue\n")
  end)

  it("shutdown in start, in stop, in a handler, in a match function", function()
    for _, source in ipairs {
      "pierrot.spawn { { start = function() pierrot.shutdown() end } }",
      "pierrot.spawn { { start = function() pierrot.shutdown() pierrot.sleep(0.01) end } } pierrot.receive()",
      "pierrot.spawn(function() pierrot.shutdown() end):tell() pierrot.receive()",
      "local a = pierrot.spawn { { stop = function() pierrot.shutdown() end } } a:stop()",
      "pierrot.shutdown() pierrot.shutdown()",
      "pierrot.self():tell(1) pierrot.self():tell(2) pierrot.receive(10, function() pierrot.shutdown() return false end)",
    } do
      local result = script.run(prelude .. source, { flags = "--log none --workers 2" })
      assert.equal(0, result.status, source .. ": status " .. result.status .. result.err)
    end
  end)

  it("whatever a match function does", function()
    ends_well([[
      local a = pierrot.spawn { function(self, to)
        local me = pierrot.self()
        for i = 1, 5 do me:tell(i) end
        local said = {}
        local function try_match(name, match)
          local ok, err = pcall(pierrot.receive, 0, match)
          said[#said + 1] = name .. ":" .. (ok and "ok" or type(err))
        end
        try_match("error", function() error "in match" end)
        try_match("nil error", function() error() end)
        try_match("receive", function() return pierrot.receive(0) end)
        try_match("ask", function() return to:ask(1) end)
        try_match("sleep", function() pierrot.sleep(0) end)
        try_match("yield", function() coroutine.yield() end)
        try_match("wrapped", coroutine.wrap(function() to:ask(1) end))
        try_match("tell", function(n) if n == 1 then me:tell(6) end return false end)
        try_match("spawn", function() pierrot.spawn(echo) return false end)
        try_match("collect", function() collectgarbage() return false end)
        local left = {}
        while true do
          local v = pierrot.receive(0)
          if not v then break end
          left[#left + 1] = v
        end
        return table.concat(said, " "), table.concat(left, "")
      end, worker = 1 }
      print(a:ask_within(60, pierrot.spawn(echo)))
    ]], "error:string nil error:nil receive:string ask:string sleep:string yield:string wrapped:string tell:ok spawn:ok "
      .. "collect:ok\t123456\n")
  end)

  it("os.exit in a handler: the status is that of the call", function()
    local result = script.run(prelude .. [[
      pierrot.spawn(function() io.write "last words" io.flush() os.exit(7) end):tell()
      pierrot.receive()
    ]])
    assert.equal(7, result.status)
    assert.equal("last words", result.out)
  end)

  it("a plain program whose match function shuts down, restarts or asks", function()
    local result = script.plain([[
      local pierrot = require "pierrot"
      local function started() assert(pierrot.start { workers = 2, log = "none" }) return pierrot.self() end
      local me = started()
      for i = 1, 10 do pierrot.tell(me, i) end
      pcall(pierrot.receive, 1, function() pierrot.shutdown() return false end)
      pierrot.shutdown()
      me = started()
      for i = 1, 10 do pierrot.tell(me, i) end
      pcall(pierrot.receive, 1, function() pierrot.shutdown() started() return false end)
      pierrot.shutdown()
      me = started()
      local e = pierrot.spawn(function(_, ...) return ... end)
      for i = 1, 10 do pierrot.tell(me, i) end
      pcall(pierrot.receive, 1, function(n) return e:ask(n) == 3 end)
      pierrot.shutdown()
      print "still here"
    ]])
    assert.equal(0, result.status, result.err)
    assert.equal("still here\n", result.out)
  end)

  it("what a plain program keeps from an earlier runtime is dropped in a later one", function()
    local result = script.plain([[
      local pierrot = require "pierrot"
      local function behaviour(k) return loadstring("return function(_, ...) return ..., " .. k .. " end")() end
      for i = 1, 40 do
        assert(pierrot.start { workers = 2, log = "none" })
        local timers = {}
        for k = 1, 20 do
          local ref = pierrot.spawn(behaviour(k))
          ref:ask(1)
          timers[k] = pierrot.send_after(100, ref, 1)
        end
        pierrot.shutdown()
        assert(pierrot.start { workers = 2, log = "none" })
        local live = {}
        for k = 1, 20 do live[k] = pierrot.spawn(behaviour(k)) end
        for k = 1, 20 do if k % 2 == 0 then assert(not timers[k]:cancel()) end end
        timers = nil
        collectgarbage() collectgarbage()
        for k = 1, 20 do assert(live[k]:ask(1) == 1) end
        pierrot.shutdown()
      end
      print "still here"
    ]], { limit = 120 })
    assert.equal(0, result.status, result.err)
    assert.equal("still here\n", result.out)
  end)
end)
