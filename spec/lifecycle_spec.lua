-- An actor's life: start, stop in its three ways, failure and restart, family. `stop` runs exactly once for each
-- life that started.

local pierrot = require "pierrot"
local sanitized = os.getenv "PIERROT_SANITIZER" ~= nil

local function echo(_, ...) return ... end

local function await_death(...)
  for _, ref in ipairs { ... } do
    while ref:is_alive() do pierrot.sleep(0.001) end
  end
end

-- Tells `to` of each start, stop and message.
local function recorder(to)
  return { name = "recorder",
    start = function(self, ...) self.count = 0 to:tell("start", ...) end,
    receive = function(self, what, ...)
      self.count = self.count + 1
      if what == "fail" then error "failed as told" end
      if what == "block" then pierrot.receive(3600, function(v) return v == "go" end) end
      if what == "stop" then pierrot.stop(...) end
      return self.count
    end,
    stop = function(self, reason) to:tell("stop", type(reason) == "table" and reason.kind or reason, self.count) end }
end

local function expect(...)
  local wanted = { ... }
  local got = { pierrot.receive(60) }
  assert.same(wanted, got)
end

describe("an actor", function()
  before_each(function() assert(pierrot.start { workers = 2, log = "none" }) end)
  after_each(function() pierrot.shutdown() end)

  local function spawn(restart, ...)
    local a = pierrot.spawn { recorder(pierrot.self()), restart = restart, ... }
    expect("start", ...)
    return a
  end

  it("starts with spawn's arguments, before any message", function()
    local a = spawn("temporary", 1, nil, "x")
    assert.equal(1, a:ask())
    assert.is_true(a:is_alive())
  end)

  describe("told to", function()
    it("stop handles at most one more of ten thousand queued", function()
      for worker = 1, 2 do
        local gate = pierrot.spawn(function() return 1 end)
        local me = pierrot.self()
        local a = pierrot.spawn { { start = function(self) self.n = 0 end,
          receive = function(self)
            self.n = self.n + 1
            if self.n > 1 then return end
            me:tell "first"
            while not pierrot.receive(0.01, function(v) return v == "go" end) do end
          end,
          stop = function(self, reason) me:tell("stop", reason, self.n) end }, worker = worker }
        a:tell(1)
        expect "first"
        for i = 1, 10000 do a:tell(i) end
        a:stop "enough"
        a:tell "go"
        local what, reason, n = pierrot.receive(60)
        assert.same({ "stop", "enough" }, { what, reason })
        assert.is_true(n <= 2, n .. " handled")
        await_death(a)
        assert.equal(1, gate:ask())
      end
    end)

    it("drain handles all that is queued, and none that comes later", function()
      local me = pierrot.self()
      local a = pierrot.spawn { receive = function(self) self.n = (self.n or 0) + 1 end,
        stop = function(self, reason) me:tell("stop", reason, self.n) end }
      for i = 1, 10000 do a:tell(i) end
      assert.is_true(a:drain "drained")
      for i = 1, 100 do a:tell(i) end
      expect("stop", "drained", 10000)
      await_death(a)
    end)

    it("kill is ended in its sleep, without stop", function()
      local a = spawn "transient"
      a:tell "block"
      while a:info().state ~= "suspended" do pierrot.sleep(0.001) end
      a:kill()
      await_death(a)
      assert.is_nil((pierrot.receive(0)))
    end)

    it("kill before it started neither starts nor stops", function()
      local busy = pierrot.spawn { function() local t = pierrot.now() + 0.05 while pierrot.now() < t do end end, worker = 1 }
      busy:tell()
      local a = pierrot.spawn { recorder(pierrot.self()), worker = 1 }
      a:kill()
      await_death(a)
      local first = pierrot.receive(0)
      assert.is_true(first == nil or first == "start")
      assert.is_nil((pierrot.receive(0)))
    end)

    it("stop twice stops once, with the first reason", function()
      local a = spawn()
      a:tell "block"
      while a:info().state ~= "suspended" do pierrot.sleep(0.001) end
      a:stop "one"
      a:stop "two"
      a:tell "go"
      expect("stop", "one", 1)
      await_death(a)
      assert.is_nil((pierrot.receive(0)))
      assert.same({ nil, "dead" }, { a:stop() })
    end)
  end)

  it("stops itself after the message in hand, with its reason or normal", function()
    local a = spawn()
    assert.equal(1, a:ask "stop")
    expect("stop", "normal", 1)
    local b = spawn()
    assert.equal(1, b:ask("stop", "had enough"))
    expect("stop", "had enough", 1)
    await_death(a, b)
    local c = spawn()
    c:ask("stop", { why = { 1 } })
    assert.equal("stop", (pierrot.receive(60)))
  end)

  it("gets no stop after a failed start", function()
    local me = pierrot.self()
    local a = pierrot.spawn { { start = function() me:tell "start" error "no" end, stop = function() me:tell "stop" end },
                              restart = "temporary" }
    expect "start"
    await_death(a)
    assert.is_nil((pierrot.receive(0)))
  end)

  it("is dead afterwards: every call says so", function()
    local a = spawn()
    a:kill()
    await_death(a)
    assert.is_false(a:is_alive())
    assert.same({ nil, "dead" }, { a:tell(1) })
    assert.same({ nil, "dead" }, { a:info() })
    assert.same({ nil, "dead" }, { a:stop() })
    assert.same({ nil, "dead" }, { a:drain() })
    assert.same({ nil, "dead" }, { a:kill() })
    assert.same({ nil, "dead" }, { pierrot.send_after(1, a, 1) })
    assert.equal("dead", select(2, pcall(a.ask, a)).kind)
    assert.same({ nil, "dead" }, { pierrot.tell("no such name", 1) })
    local replacement = pierrot.spawn(echo)
    assert.is_false(replacement == a)
    assert.same({ nil, "dead" }, { a:tell(1) })
    assert.equal("string", type(tostring(a)))
  end)

  describe("with children", function()
    local function tree(to)
      local leaf = recorder(to)
      return { receive = function(self, what)
        if what == "spawn" then
          self.a, self.b = pierrot.spawn { leaf, "a" }, pierrot.spawn { leaf, "b" }
          return self.a, self.b
        elseif what == "family" then
          return pierrot.parent(), pierrot.children(), pierrot.self()
        elseif what == "fail" then
          error "failed as told"
        end
      end, stop = function() to:tell "parent stops" end }
    end

    it("knows its family", function()
      local p = pierrot.spawn(tree(pierrot.self()))
      local a, b = p:ask "spawn"
      local parent, children, self = p:ask "family"
      assert.is_nil(parent)
      assert.same({ a, b }, children)
      assert.is_true(self == p)
      assert.is_true(a:info().parent == p)
      assert.same({ a, b }, p:info().children)
    end)

    it("takes them along, in its end before its own stop and at a restart", function()
      for _, how in ipairs { "stop", "fail" } do
        local p = pierrot.spawn(tree(pierrot.self()))
        local a, b = p:ask "spawn"
        local started = {}   -- each on a worker of its own: in either order
        for _ = 1, 2 do
          local what, which = pierrot.receive(60)
          assert.equal("start", what)
          started[which] = true
        end
        assert.same({ a = true, b = true }, started)
        if how == "stop" then p:stop() else p:tell "fail" end
        assert.equal("stop", (pierrot.receive(60)))
        assert.equal("stop", (pierrot.receive(60)))
        expect "parent stops"
        await_death(a, b)
        if how == "fail" then
          assert.same({}, select(2, p:ask "family"))
          assert.equal(1, p:info().restarts)
        else
          await_death(p)
        end
      end
    end)

    it("has them killed with it, without their stop", function()
      local p = pierrot.spawn(tree(pierrot.self()))
      local a, b = p:ask "spawn"
      pierrot.receive(60) pierrot.receive(60)
      p:kill()
      await_death(a, b, p)
      assert.is_nil((pierrot.receive(0)))
    end)
  end)

  it("shows itself in info", function()
    local a = pierrot.spawn { recorder(pierrot.self()), name = "shown", worker = 2 }
    a:ask(1)
    while a:info().state ~= "idle" do pierrot.sleep(0.001) end   -- the reply goes out before the turn ends
    local info = a:info()
    assert.equal("shown", info.name)
    assert.equal("recorder", info.behaviour)
    assert.equal(2, info.worker)
    assert.equal("idle", info.state)
    assert.equal(1, info.processed)
    assert.equal(0, info.restarts)
    assert.equal("number", type(info.age))
    assert.truthy(tostring(a):find("shown", 1, true))
    assert.same(info.id, pierrot.info("shown").id)
    local f = pierrot.spawn(echo)
    assert.truthy(f:info().behaviour:find("lifecycle_spec.lua:%d+"))
  end)

  describe("that fails", function()
    it("is restarted: fresh self, start's arguments again, queue, ref and name kept", function()
      local a = pierrot.spawn { recorder(pierrot.self()), "argument", { 2 }, name = "phoenix" }
      expect("start", "argument", { 2 })
      a:tell "x" a:tell "fail" a:tell "y"
      local count = a:ask "z"
      expect("stop", "failed", 2)
      expect("start", "argument", { 2 })
      assert.equal(2, count)   -- y and z, in a fresh self
      assert.is_true(pierrot.whereis "phoenix" == a)
      assert.equal(1, a:info().restarts)
    end)

    it("by its restart option: temporary ends, transient and permanent go on; only permanent after a normal end", function()
      local temporary, transient, permanent = spawn "temporary", spawn "transient", spawn "permanent"
      for _, a in ipairs { temporary, transient, permanent } do
        a:tell "fail"
        expect("stop", "failed", 1)
        if a == temporary then await_death(a) else expect "start" end
      end
      transient:ask "stop"
      expect("stop", "normal", 1)
      await_death(transient)
      permanent:ask "stop"
      expect("stop", "normal", 1)
      expect "start"
      assert.equal(1, permanent:ask())
      assert.equal(2, permanent:info().restarts)
    end)

    it("four times in five seconds is stopped", function()
      local a = spawn()
      for _ = 1, 3 do
        a:tell "fail"
        expect("stop", "failed", 1)
        expect "start"
      end
      a:tell "fail"
      expect("stop", "failed", 1)
      await_death(a)
      assert.is_nil((pierrot.receive(0)))
    end)

    it("in start, again and again, is stopped", function()
      local me = pierrot.self()
      local a = pierrot.spawn { start = function() me:tell "start" error "no" end, stop = function() me:tell "stop" end }
      for _ = 1, 4 do expect "start" end
      await_death(a)
      assert.is_nil((pierrot.receive(0)))
    end)

    it("in stop ends all the same", function()
      local a = pierrot.spawn { receive = echo, stop = function() error "in stop" end }
      a:ask(1)
      a:stop()
      await_death(a)
    end)

    it("leaves all others alone", function()
      local others = {}
      for i = 1, 20 do others[i] = pierrot.spawn { function(self) self.n = (self.n or 0) + 1 return self.n end, worker = i % 2 + 1 } end
      for round = 1, 3 do
        local bad = pierrot.spawn { function() error "bad" end, restart = "temporary" }
        assert.is_false((pcall(bad.ask, bad)))
        for i = 1, 20 do assert.equal(round, others[i]:ask()) end
      end
    end)
  end)

  it("stops exactly once for each start, in a storm of stops, kills and failures", function()
    local n = sanitized and 50 or 500
    local me = pierrot.self()
    local behaviour = { start = function() me:tell "start" end, stop = function() me:tell "stop" end,
      receive = function(_, what) if what == "fail" then error "x" elseif what == "stop" then pierrot.stop() end end }
    local refs = {}
    for i = 1, n do
      local a = pierrot.spawn { behaviour, restart = "temporary" }
      refs[i] = a
      a:tell(({ "fail", "stop", "x" })[i % 3 + 1])
      if i % 2 == 0 then a:stop() else a:drain() end
      a:stop()
    end
    await_death(unpack(refs))
    local starts, stops = 0, 0
    while true do
      local what = pierrot.receive(0)
      if not what then break end
      if what == "start" then starts = starts + 1 else stops = stops + 1 end
    end
    assert.equal(starts, stops)
  end)
end)
