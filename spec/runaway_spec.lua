--- Handlers that do not end: `timeslice` puts them back in line, the watchdog names them, `kill` ends them where it can.

local pierrot = require "pierrot"
local script = require "support.script"
local times = require "support.times"

local echo

-- Its neighbour on the worker is served.
local function neighbours_go_on(rounds)
  for i = 1, rounds do assert.equal(i, echo:ask_within(60, i)) end
end

local function ended(ref)
  pierrot.monitor(ref)
  assert.equal("down", (pierrot.receive(60, function(what, who) return what == "down" and who == ref end)))
end

describe("a time slice", function()
  setup(function()
    assert(pierrot.start { workers = 2, log = "none" })
    echo = pierrot.spawn { function(_, n) return n end, worker = 1 }
  end)
  teardown(function()
    assert.is_true(pierrot.shutdown(60))
    script.clean()
  end)

  -- Each runs for ever.
  local loops = {
    plain = function() while true do end end,
    pcall = function() while true do pcall(function() while true do end end) end end,
    xpcall = function() while true do xpcall(function() while true do end end, tostring) end end,
    generator = function()
      local f = coroutine.wrap(function() for i = 1, math.huge do if i % 1e6 == 0 then coroutine.yield() end end end)
      while true do f() end
    end,
    ["coroutine in coroutine"] = function()
      coroutine.wrap(function() coroutine.wrap(function() while true do end end)() end)()
    end,
    -- Where Lua cannot suspend it is done at the next chance.
    comparator = function()
      while true do
        local t = {}
        for i = 1, 500 do t[i] = i * 7919 % 503 end
        table.sort(t, function(a, b) return a < b end)
      end
    end,
    callback = function() while true do (("x"):rep(100)):gsub(".", function(c) return c .. c end) end end,
    ["loaded code"] = function() loadstring "while true do end"() end,
    recursion = function()
      local function f(n) if n > 0 then return f(n - 1) end end
      while true do f(100000) end
    end,
  }
  for name, loop in pairs(loops) do
    it("puts back in line: " .. name, function()
      local a = pierrot.spawn { { receive = loop }, worker = 1, timeslice = 0.002 }
      a:tell()
      neighbours_go_on(10)
      assert.is_true(a:is_alive())
      a:kill()
      ended(a)
    end)
  end

  it("of start and stop as of handlers; what does not stop in time is dropped", function()
    local starting = pierrot.spawn { { start = loops.plain, receive = loops.plain }, worker = 1, timeslice = 0.002 }
    neighbours_go_on(5)
    starting:kill()
    ended(starting)
    local stopping = pierrot.spawn { { stop = loops.plain, receive = function() end }, worker = 1, timeslice = 0.002,
                                     shutdown = 0.02 }
    stopping:ask_within(60)
    stopping:stop()
    neighbours_go_on(5)
    ended(stopping)
  end)

  it("changes nothing but when things are done", function()
    local sums = pierrot.spawn { function(_, n)
      local sum, parts = 0, coroutine.wrap(function()
        for i = 1, n do
          if i % 3 == 0 then coroutine.yield(nil, i) else coroutine.yield(i) end
        end
        return "end"
      end)
      while true do
        local a, b = parts()
        if a == "end" then return sum end
        sum = sum + (a or b)
      end
    end, worker = 1, timeslice = 0.0001 }
    local n = times(30000, 3000)
    for i = 1, 5 do
      local k = n * i
      assert.equal(k * (k + 1) / 2, sums:ask_within(60, k))
    end
  end)

  it("handlers of a reentrant actor do not run into each other by it", function()
    local a = pierrot.spawn { function(self, n)
      assert(not self.inside, "another handler was in the middle")
      self.inside = true
      for i = 1, n do self.i = i end
      self.inside = nil
      return n
    end, worker = 1, timeslice = 0.0001, reentrant = true }
    local n = times(100000, 10000)
    local found = pierrot.ask_all { { a, n }, { a, n }, { a, n }, { a, n } }
    assert.equal(4, #found)
    for i = 1, 4 do assert.same({ n }, { found[i].value or found[i][1] }) end
  end)

  it("a failure, and a behaviour that it becomes, are as ever; other actors of the behaviour too", function()
    local b = { on = {
      fail = function(_, n) for _ = 1, n do end error "broken" end,
      become = function() pierrot.become { receive = function() while true do end end } end,
    } }
    local a = pierrot.spawn { b, worker = 1, timeslice = 0.001 }
    local ok, err = pcall(a.ask_within, a, 60, "fail", times(1e6, 1e5))
    assert.is_false(ok)
    assert.equal("failed", err.kind)
    assert.truthy(tostring(err.cause):find "broken")
    a:tell "become"
    a:tell "loop"
    neighbours_go_on(10)
    a:kill()
    ended(a)
    local free = pierrot.spawn { b, worker = 1 }
    assert.is_false((pcall(free.ask_within, free, 60, "fail", 10)))
    free:stop()
  end)

  it("an actor that only yields holds up no timer of its worker", function()
    local spinner = pierrot.spawn { function() while true do pierrot.yield() end end, worker = 1 }
    spinner:tell()
    local sleeper = pierrot.spawn { function() pierrot.sleep(0.01) return "woken" end, worker = 1 }
    assert.equal("woken", sleeper:ask_within(60))
    spinner:kill()
  end)

  it("the option is checked", function()
    for _, wrong in ipairs { 0, -1, 0 / 0, 1 / 0, "1", true } do
      local ok, problem = pcall(pierrot.spawn, { function() end, timeslice = wrong })
      assert.is_false(ok)
      assert.truthy(problem:find("timeslice: a number of seconds from 0.00001 to 1000000 expected", 1, true), problem)
    end
  end)

  it("slow_turn names a compiled loop: actor, behaviour, time, at most once a second an actor", function()
    pierrot.subscribe "slow_turn"
    local a = pierrot.spawn { { name = "slow", receive = function(_, seconds)
      local until_then = pierrot.now() + seconds
      while pierrot.now() < until_then do end
      return pierrot.now()
    end }, worker = 2 }
    local told, begun = {}, pierrot.now()
    for _ = 1, 8 do a:ask_within(60, 0.15) end
    while true do
      local what, _, details = pierrot.receive(0.05)
      if not what then break end
      told[#told + 1] = details
    end
    pierrot.unsubscribe "slow_turn"
    assert.is_true(#told >= 1)
    assert.is_true(#told <= pierrot.now() - begun + 1)
    assert.same({ a, "slow", 2 }, { told[1].actor, told[1].behaviour, told[1].worker })
    assert.is_true(told[1].seconds >= 0.1)
    a:kill()
  end)
end)
