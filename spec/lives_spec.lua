-- Short lives: a hot spawn, a start, the messages and the end of an actor are compiled into the loop that handles messages
-- (lua/pierrot/dispatch.lua, quick.lua, pr_worker_next_message). They must be what they are off that way: each script has
-- lives enough to be compiled, and others among them that have to leave the loop.
--
-- Fails when: a start gets another's values or self; a start that raises or waits in the loop is taken for one that is done; an
-- end in the loop leaves out `stop`, children, dead letters or the news of it; a spawner does not stand back.

local script = require "support.script"

local function run(text, workers)
  local result = script.run(text, { flags = "--log none --workers " .. (workers or 1) })
  assert.equal("", result.err)
  assert.equal(0, result.status)
  return result.out
end

describe("a short life", function()
  for _, workers in ipairs { 1, 2 } do
    it("starts with what it was given, whatever that is, and a self of its own, on " .. workers, function()
      assert.equal("ok 20000\n", run([[
        local pierrot = require "pierrot"
        local me = pierrot.self()
        local shapes = { { n = 0 }, { n = 1, 7 }, { n = 1, "text" }, { n = 2, me, -0.5 }, { n = 3, "a", 2, true }, { n = 1, { 1, 2 } },
                         { n = 2, "t", { x = 1 } }, { n = 2, { 1 }, 2 }, { n = 4, 1, 2, 3, 4 }, { n = 1, 7LL }, { n = 2, nil, false },
                         { n = 1, ("x"):rep(3000) } }
        local function same(a, b)
          return a == b or type(a) == "table" and type(b) == "table" and a[1] == b[1] and a[2] == b[2] and a.x == b.x
        end
        local Sink = { start = function(self) self.n = 0 end,
          on = { count = function(self) return self.n end, one = function(self) self.n = self.n + 1 end } }
        local sink = pierrot.spawn(Sink)
        local Life = {
          start = function(self, ...)
            assert(next(self) == nil and pierrot.parent() == pierrot.self() == false)
            self.given, self.count = { ... }, select("#", ...)
          end,
          receive = function(self, which, told, to, parent)
            self.told = (self.told or 0) + 1
            assert(self.told == told and pierrot.parent() == parent)
            local shape = shapes[which]
            assert(self.count == shape.n, which)
            for i = 1, shape.n do assert(same(self.given[i], shape[i]), which) end
            if told == 2 then to:tell "one" pierrot.stop() end
          end,
        }
        local function round(which)
          local shape, ref = shapes[which]
          if shape.n == 0 then ref = pierrot.spawn(Life)
          elseif shape.n == 1 then ref = pierrot.spawn(Life, shape[1])
          elseif shape.n == 2 then ref = pierrot.spawn(Life, shape[1], shape[2])
          elseif shape.n == 3 then ref = pierrot.spawn(Life, shape[1], shape[2], shape[3])
          else ref = pierrot.spawn(Life, unpack(shape, 1, shape.n)) end
          assert(ref:tell(which, 1, sink, me) and ref:tell(which, 2, sink, me))
        end
        local lives = 0
        for which = 1, #shapes do
          for _ = 1, 1500 do round(which) lives = lives + 1 end
        end
        for i = 1, 2000 do round(i % #shapes + 1) lives = lives + 1 end
        while pierrot.stats().actors > 2 do pierrot.sleep(0.001) end
        assert(pierrot.stats().failures == 0)
        print("ok " .. sink:ask "count")
      ]], workers))
    end)
  end

  it("may fail in `start`, wait there, or end there", function()
    assert.equal("ended 12000 failed 120 waited 120 stopped 240\n", run [[
      local pierrot = require "pierrot"
      local Sink = { start = function(self) self.waited, self.stopped = 0, 0 end,
        on = { waited = function(self) self.waited = self.waited + 1 end, stopped = function(self) self.stopped = self.stopped + 1 end,
               counts = function(self) return self.waited, self.stopped end, echo = function(_, n) return n end } }
      local Life = {
        start = function(self, sink, n)
          self.sink, self.n = sink, n
          if n % 100 == 1 then error "no" end
          if n % 100 == 2 then pierrot.sleep(0.001) self.waits = true end
          if n % 200 == 3 then assert(sink:ask("echo", n) == n) sink:tell "stopped" pierrot.stop() end
          if n % 200 == 103 then sink:tell "stopped" pierrot.stop() end
          if n % 100 == 4 then sink:tell "stopped" pierrot.stop() end
        end,
        receive = function(self, n)
          assert(self.n == n and (self.waits ~= nil) == (n % 100 == 2))
          if self.waits then self.sink:tell "waited" end
          pierrot.stop()
        end,
      }
      local Parent = { supervise = { on_failure = function() return "stop" end },
        on = { go = function(_, sink) for n = 1, 12000 do pierrot.spawn(Life, sink, n):tell(n) end end } }
      local sink, parent = pierrot.spawn(Sink), pierrot.spawn(Parent)
      parent:tell("go", sink)
      repeat pierrot.sleep(0.01) until pierrot.stats().ended == 12000
      local waited, stopped = sink:ask "counts"
      local stats = pierrot.stats()
      print("ended " .. stats.ended .. " failed " .. stats.failures .. " waited " .. waited .. " stopped " .. stopped)
    ]])
  end)

  it("ends with its `stop`, after its children, and what comes too late is a dead letter", function()
    assert.equal("stops 3000 children 3000 late 6000 gone 3000 of 3000\n", run [[
      local pierrot = require "pierrot"
      local Sink = { start = function(self) self.stops, self.children, self.open = 0, 0, {} end,
        on = { stop = function(self, n) self.stops = self.stops + 1 assert(not self.open[n], "before its child") end,
               born = function(self, n) self.open[n] = true end,
               child = function(self, n) self.children = self.children + 1 self.open[n] = nil end,
               counts = function(self) return self.stops, self.children end } }
      local Child = { start = function(self, sink, n) self.sink, self.n = sink, n end,
                      stop = function(self) self.sink:tell("child", self.n) end, receive = function() end }
      local Life = {
        start = function(self, sink, n) self.sink, self.n = sink, n end,
        receive = function(self)
          if self.n % 2 == 0 then self.sink:tell("born", self.n) pierrot.spawn(Child, self.sink, self.n):ask() end
          pierrot.stop()
        end,
      }
      local Stops = { start = function(self, sink, n)   -- has a tie: so its start is not done in the loop
          self.sink, self.n = sink, n
          if n % 3 == 0 then pierrot.monitor(sink) end
        end,
        receive = Life.receive, stop = function(self) self.sink:tell("stop", self.n) end }
      local sink = pierrot.spawn(Sink)
      local gone, watched = 0, 0
      for n = 1, 6000 do
        local ref = pierrot.spawn(n % 4 < 2 and Life or Stops, sink, n)
        ref:tell(1) ref:tell(2)
        if n % 2 == 0 then watched = watched + 1 pierrot.monitor(ref) end
      end
      for _ = 1, watched do assert(pierrot.receive() == "down") gone = gone + 1 end
      while pierrot.stats().actors > 2 do pierrot.sleep(0.001) end
      local stops, children = sink:ask "counts"
      local stats = pierrot.stats()   -- rejected: told when it had ended, after its spawner had stood back
      print("stops " .. stops .. " children " .. children .. " late " .. stats.dead_letters + stats.rejected .. " gone " .. gone
            .. " of " .. watched)
    ]])
  end)

  it("is refused at the caller's line", function()
    assert.equal("script.lua:8: cannot send argument[1]: function\n", (run([[
      local pierrot = require "pierrot"
      local Life = { start = function() pierrot.stop() end }
      local values = {}
      for i = 1, 500 do values[i] = i end
      local function all()
        for i = 1, 500 do

          pierrot.spawn(Life, values[i])
        end
      end
      all() all()
      values[400] = print
      print(select(2, pcall(all)))
      os.exit(0)
    ]]):gsub("[^\n]*script", "script")))
  end)

  it("begins while its spawner still spawns", function()
    local most = tonumber(run [[
      local pierrot = require "pierrot"
      local most, Life = 0, { receive = function() pierrot.stop() end }
      for n = 1, 20000 do
        pierrot.spawn(Life):tell(n)
        if n % 50 == 0 then most = math.max(most, pierrot.stats().actors) end
      end
      print(most)
    ]])
    assert.truthy(most < 400, most)   -- 128 and some, of 20,000
  end)

  it("has a self with nothing of those before it, whatever their names", function()
    assert.equal("ok\n", run [[
      local pierrot = require "pierrot"
      local names = { "plain", 'a "quoted" one', "two\nlines", "end", "", "nul\0within" }
      local Life = { start = function(self, n)
        assert(next(self) == nil)
        for i = n % 3 + 1, #names do self[names[i] ] = n end
        if n % 2 == 0 then self[1], self[n], self[{}] = 1, 2, 3 end
        for name, value in pairs(self) do assert(type(name) ~= "string" or value == n) end
        for i = 1, #names do assert(self[names[i] ] == (i > n % 3 and n or nil)) end
        pierrot.stop()
      end }
      local Wide = { start = function(self, n)
        assert(next(self) == nil)
        for i = 1, 40 do self["name" .. i] = n end
        pierrot.stop()
      end }
      for n = 1, 3000 do pierrot.spawn(Life, n) pierrot.spawn(Wide, n) end
      while pierrot.stats().actors > 1 do pierrot.sleep(0.001) end
      print(pierrot.stats().failures == 0 and "ok" or "failed")
    ]])
  end)

  it("leaves nothing of the last one behind once its worker is idle", function()
    assert.equal("4000\n", run [[
      local pierrot = require "pierrot"
      local Life = { start = function(self, counter)
        self.held = newproxy(true)
        getmetatable(self.held).__gc = function() counter:tell "gone" end
        pierrot.stop()
      end }
      local Counter = { start = function(self) self.n = 0 end,
        on = { gone = function(self) self.n = self.n + 1 end, n = function(self) return self.n end } }
      local counter = pierrot.spawn(Counter)
      for _ = 1, 4000 do pierrot.spawn(Life, counter) end
      local n
      for _ = 1, 100 do
        pierrot.sleep(0.005)
        collectgarbage()
        n = counter:ask "n"
        if n == 4000 then break end
      end
      print(n)
    ]])
  end)

  -- Those that wait since long are what the ring has spilled first; the newest, of which there are always more, come before them.
  it("begins, though there are always newer ones", function()
    local spawned = tonumber(run [[
      local pierrot = require "pierrot"
      local Breeder = {}
      function Breeder.start(_, n)
        if n > 0 then pierrot.spawn(Breeder, n - 1) pierrot.spawn(Breeder, n - 1) end
      end
      local Early = { start = function() print(pierrot.stats().spawned) os.exit(0) end }
      pierrot.spawn { { start = function()
        for i = 1, 400 do pierrot.spawn(i == 60 and Early or Breeder, 9) end
      end } }
      pierrot.sleep(60)
    ]])
    assert.truthy(spawned < 40000, spawned)   -- of 400,000
  end)

  it("goes to another worker where its own is stuck", function()
    assert.equal("4 of 4\n", run([[
      local pierrot = require "pierrot"
      local Life = { receive = function() pierrot.stop() end }
      local Note = { start = function(_, main) main:tell("began", pierrot.now()) end }
      local me, most = pierrot.self(), 0
      for _ = 1, 20 do
        for n = 1, 3000 do pierrot.spawn(Life):tell(n) end      -- so its new ones are left to it
        for _ = 1, 4 do pierrot.spawn(Note, me) end
        local until_ = pierrot.now() + 0.05
        while pierrot.now() < until_ do end
        local began = 0
        for _ = 1, 4 do
          local _, at = pierrot.receive(5)
          if at < until_ then began = began + 1 end
        end
        most = math.max(most, began)
        if most == 4 then break end
      end
      print(most .. " of 4")
    ]], 2))
  end)
end)
