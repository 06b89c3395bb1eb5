-- Timers: what is due arrives, in order of time; after cancel nothing does; they end with the actor that set them.

local pierrot = require "pierrot"
local script = require "support.script"

local function expect(...) assert.same({ ... }, { pierrot.receive(60) }) end
local function nothing(seconds) assert.is_nil((pierrot.receive(seconds or 0))) end

describe("timers", function()
  before_each(function() assert(pierrot.start { workers = 2, log = "none" }) end)
  after_each(function() pierrot.shutdown() end)
  teardown(script.clean)

  it("arrive with their values, in order of time, not early", function()
    local me = pierrot.self()
    local before = pierrot.now()
    pierrot.send_after(0.09, me, "third", nil, { 3 }, nil)
    pierrot.send_after(0.03, me, "first", nil)
    pierrot.send_after(0.06, me, "second")
    pierrot.send_after(0, me, "at once")
    expect "at once"
    assert.equal(2, select("#", pierrot.receive(60)))
    expect "second"
    local n = select("#", pierrot.receive(60))
    assert.equal(4, n)
    assert.is_true(pierrot.now() - before >= 0.09)
    nothing()
  end)

  it("of equal time arrive in the order they were set", function()
    local me = pierrot.self()
    local a = pierrot.spawn(function() for i = 1, 50 do pierrot.send_after(0.02, me, i) end pierrot.sleep(0.2) end)
    a:tell()
    for i = 1, 50 do expect(i) end
  end)

  it("every so often, until cancelled", function()
    local t = pierrot.send_every(0.005, pierrot.self(), "tick", 1)
    for _ = 1, 5 do expect("tick", 1) end
    assert.is_true(t:cancel())
    nothing(0.05)
    assert.is_false(t:cancel())
  end)

  it("cancelled say whether they were pending; nothing more arrives, even if it was queued", function()
    local me = pierrot.self()
    local t = pierrot.send_after(100, me, "never")
    assert.is_true(t:cancel())
    assert.is_false(t:cancel())
    t = pierrot.send_after(0, me, "now")
    expect "now"
    assert.is_false(t:cancel())
    local a = pierrot.spawn(function(self, what)
      if what ~= "begin" then self.got = (self.got or 0) + 1 return self.got end
      local timer = pierrot.send_after(0, pierrot.self(), "queued")
      local every = pierrot.send_every(0.001, pierrot.self(), "queued")
      while pierrot.info(pierrot.self()).depth == 0 do pierrot.sleep(0.002) end
      pierrot.sleep(0.01)
      local first, second = timer:cancel(), every:cancel()
      return first, second
    end)
    local first, second = a:ask "begin"
    assert.is_true(first)
    assert.is_true(second)
    assert.equal(1, a:ask "count")
  end)

  it("end with the actor that set them, at a restart too", function()
    local me = pierrot.self()
    local behaviour = { start = function(_, to) pierrot.send_every(0.005, to, "tick", (pierrot.self())) end,
                        receive = function() error "x" end }
    local a = pierrot.spawn { behaviour, me }
    expect("tick", a)
    a:kill()
    while a:is_alive() do pierrot.sleep(0.001) end
    while pierrot.receive(0) do end
    nothing(0.03)
    local b = pierrot.spawn { { start = function(_, to)
      if not pierrot.whereis "began" then
        pierrot.register("began", to)
        pierrot.send_after(0.05, to, "of the first life")
      else
        to:tell "second life"
      end
    end, receive = function() error "x" end }, pierrot.spawn(function(_, ...) me:tell(...) end) }
    b:tell()
    expect "second life"
    nothing(0.12)
  end)

  it("set in stop end with it", function()
    local me = pierrot.self()
    local behaviour = { receive = function() return "lives" end, stop = function(_, why)
      pierrot.send_after(0.001, me, "late")
      pierrot.send_every(0.001, me, "late")
      if why == "slowly" then pierrot.sleep(0.02) me:tell "stopped" end
    end }
    for _ = 1, 20 do
      local a, _ = pierrot.spawn { behaviour, monitor = true }
      assert.equal("lives", a:ask())
      a:stop()
      assert.equal("down", (pierrot.receive(60)))
    end
    nothing(0.03)
    local b, _ = pierrot.spawn { behaviour, monitor = true }
    assert.equal("lives", b:ask())
    b:stop "slowly"   -- its `stop` waits: meanwhile they are its timers
    expect "late"
    local last
    repeat
      local what = pierrot.receive(60)
      last = what == "stopped" and what or last
    until what == "down"
    assert.equal("stopped", last)
    nothing(0.03)
  end)

  it("end with the actor they would send to", function()
    local setter = { on = {
      set = function(self, a)
        self.once, self.every = pierrot.send_after(3600, a, 1), pierrot.send_every(3600, a, 1)
      end,
      cancel = function(self) return self.once:cancel(), self.every:cancel() end } }
    local s = pierrot.spawn { setter, worker = 1 }
    for round = 1, 20 do
      local a, monitor = pierrot.spawn { function() end, worker = 1, monitor = true }
      s:ask("set", a)
      if round % 2 == 0 then a:stop() else a:kill() end
      assert.is_true(select(4, pierrot.receive(60)) == monitor)
      assert.same({ false, false }, { s:ask "cancel" })
      assert.same({ nil, "dead" }, { pierrot.send_after(1, a, 1) })
    end
  end)

  it("to those that have ended do not keep a program alive, whoever set them and where", function()
    for workers = 1, 4 do
      local out = script.output([[
        local pierrot = require "pierrot"
        local timers = {}
        local setter = function(_, a) pierrot.send_every(3600, a, "never") pierrot.send_after(3600, a, "never") return true end
        for i = 1, 8 do
          local a = pierrot.spawn { function() end, worker = i % pierrot.stats().workers + 1 }
          timers[i] = pierrot.send_after(3600, a, "never")
          for k = 1, 4 do
            pierrot.spawn { setter, worker = k % pierrot.stats().workers + 1 }:ask(a)
          end
          a:kill()
        end
        print "done"
      ]], { flags = "--log error --workers " .. workers, limit = 60 })
      assert.equal("done\n", out)
    end
  end)

  it("that nobody keeps fire all the same", function()
    pierrot.send_after(0.03, pierrot.self(), "kept")
    collectgarbage() collectgarbage()
    expect "kept"
  end)

  it("take odd arguments without harm, wrong ones raise at the caller's line", function()
    local me = pierrot.self()
    for _, call in ipairs { "send_after", "send_every" } do
      for _, bad in ipairs { -1, 0 / 0, -math.huge, "1", {}, true } do
        local ok, err = pcall(function() local t = pierrot[call](bad, me, 1) return t end)
        assert.is_false(ok)
        assert.truthy(err:find("timers_spec.lua:%d+: " .. call), err)
      end
      for _, far in ipairs { math.huge, 1e300, 2 ^ 53, 1e9 } do
        assert.is_true(pierrot[call](far, me, 1):cancel())
      end
      assert.is_false((pcall(pierrot[call], 1)))
      assert.is_false((pcall(pierrot[call], 1, 5)))
      assert.is_false((pcall(pierrot[call])))
      assert.is_false((pcall(pierrot[call], 1, me, print)))
      assert.same({ nil, "dead" }, { pierrot[call](1, "nobody", 1) })
    end
    assert.is_false((pcall(pierrot.send_every, 0, me, 1)))
    local t = pierrot.send_after(100, me)
    assert.is_false((pcall(t.cancel)))
    assert.is_false((pcall(t.cancel, io.stdout)))
    assert.is_false((pcall(t.cancel, me)))
    assert.is_true(t:cancel())
    nothing()
  end)

  it("by the thousand, half of them cancelled", function()
    local me = pierrot.self()
    local a = pierrot.spawn(function(_, n)
      local timers = {}
      for i = 1, n do timers[i] = pierrot.send_after(0.05 + (i % 37) / 1000, me, i) end
      for i = 2, n, 2 do timers[i]:cancel() end
      pierrot.sleep(0.3)
      me:tell "end"
    end)
    a:tell(2000)
    local seen = 0
    while true do
      local i = pierrot.receive(60)
      if i == "end" then break end
      assert.equal(1, i % 2)
      seen = seen + 1
    end
    assert.equal(1000, seen)
  end)

  it("sleep waits no shorter than told; now does not go back", function()
    local a = pierrot.spawn(function(_, seconds) local t = pierrot.now() pierrot.sleep(seconds) return pierrot.now() - t end)
    for _, seconds in ipairs { 0, 0.001, 0.0101, 0.02 } do assert.is_true(a:ask(seconds) >= seconds) end
    local t = pierrot.now()
    pierrot.sleep(0.01)
    assert.is_true(pierrot.now() - t >= 0.01)
    local last = 0
    for _ = 1, 1000 do local now = pierrot.now() assert(now >= last) last = now end
    for _, bad in ipairs { -1, 0 / 0, "1" } do
      local ok, err = pcall(function() local r = pierrot.sleep(bad) return r end)
      assert.is_false(ok)
      assert.truthy(err:find("timers_spec.lua:%d+: sleep"), err)
    end
    assert.is_false((pcall(pierrot.sleep)))
  end)
end)
