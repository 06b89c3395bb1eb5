-- What follows a child's failure, decided on its parent's turn: verdicts, strategies, limits, back-off.
--
-- Mutants caught: CHILD_ENDS in the user lane; no decision while a handler is suspended; a second failure while a group
-- is held counted; siblings stopped oldest first; HOLD skipped for an idle child; a token that a failed start keeps;
-- resume that ends timers; back-off that never grows; messages handled during a back-off.
-- begun first

local pierrot = require "pierrot"
local times = require "support.times"

-- A parent by its `supervise`: "spawn" makes named children which report to the test what they do.
local function parent_of(supervise, options)
  local me = pierrot.self()
  local child = {
    name = "child",
    start = function(self, name, fails)
      self.name, self.n = name, 0
      me:tell("start", name, pierrot.now())
      if fails and pierrot.whereis "failing" then error("start of " .. name, 0) end
    end,
    on = {
      fail = function(self, what) error(what or self.name, 0) end,
      quit = function(_, reason) pierrot.stop(reason) end,
      count = function(self) self.n = self.n + 1 return self.n end,
      arm = function() pierrot.send_after(0.02, pierrot.self(), "alarm") end,
      alarm = function(self) me:tell("alarm", self.name) end,
    },
    stop = function(self, reason) me:tell("stop", self.name, type(reason) == "table" and reason.kind or reason, pierrot.now()) end,
  }
  local behaviour = {
    name = "parent", supervise = supervise,
    start = function(self) self.lives = 1 me:tell "parent starts" end,
    on = {
      spawn = function(_, name, restart, ...)
        return pierrot.spawn { child, name, ..., restart = restart, name = name, worker = options and options.worker }
      end,
      sleep = function(_, seconds) pierrot.sleep(seconds) return "slept" end,
      call = function(_, ref, ...) return ref:ask(...) end,
      ping = function() return "pong" end,
      children = function() return pierrot.children() end,
    },
    stop = function(_, reason) me:tell("parent stops", type(reason) == "table" and reason.message or reason) end,
  }
  local parent = pierrot.spawn { behaviour, restart = options and options.restart }
  assert.same({ "parent starts" }, { pierrot.receive(60) })
  return parent
end

local function expect(...)
  for _, wanted in ipairs { ... } do
    local got = { pierrot.receive(60) }
    assert.same(wanted, { unpack(got, 1, #wanted) })
  end
end

local function nothing_more()
  local left = { pierrot.receive(0.05) }
  assert.same({}, left)
end

local function spawn(parent, name, ...)
  local ref = parent:ask("spawn", name, ...)
  expect { "start", name }
  return ref
end

describe("a failing child", function()
  before_each(function() assert(pierrot.start { workers = 3, log = "none" }) end)
  after_each(function() pierrot.shutdown() end)

  describe("by on_failure", function()
    it("is restarted, stopped or resumed; by the error's kind and content", function()
      local p = parent_of { on_failure = function(err, child)
        if err.kind ~= "failed" or err.actor ~= child or err.first ~= "fail" or err.behaviour ~= "child" then return "stop" end
        if err.message == "nothing" then return nil end
        return err.cause
      end }
      local a = spawn(p, "a")
      assert.equal(1, a:ask "count")
      a:tell("fail", "resume")
      assert.equal(2, a:ask "count")
      assert.equal(0, a:info().restarts)
      a:tell("fail", "restart")
      expect({ "stop", "a", "failed" }, { "start", "a" })
      assert.equal(1, a:ask "count")
      a:tell("fail", "nothing")   -- by its `restart`
      expect({ "stop", "a", "failed" }, { "start", "a" })
      a:tell("fail", "stop")
      expect { "stop", "a", "failed" }
      while a:is_alive() do pierrot.sleep(0.001) end
      local t = spawn(p, "t", "temporary")
      t:tell("fail", "restart")   -- the word counts more than the option
      expect({ "stop", "t", "failed" }, { "start", "t" })
      t:tell("fail", "nothing")
      expect { "stop", "t", "failed" }
      nothing_more()
    end)

    it("keeps its timers, its children and its stash when it is resumed", function()
      local p = parent_of { on_failure = function() return "resume" end }
      local a = spawn(p, "a")
      a:tell "arm"
      a:tell("fail", "x")
      expect { "alarm", "a" }
    end)

    it("that was not started is restarted instead of resumed, within the limits", function()
      local p = parent_of { on_failure = function() return "resume" end }
      pierrot.register("failing", pierrot.self())
      p:tell("spawn", "a", nil, true)
      for _ = 1, 4 do expect { "start", "a" } end
      nothing_more()
      assert.equal("pong", p:ask "ping")
    end)

    it("escalates: its parent fails by its error, and takes its children along", function()
      local p = parent_of { on_failure = function() return "escalate" end }
      spawn(p, "a")
      local b = spawn(p, "b")
      b:tell("fail", "too bad")
      expect({ "stop", "b", "failed" }, { "stop", "a", "shutdown" }, { "parent stops", "too bad" }, { "parent starts" })
      nothing_more()
      assert.equal(1, p:info().restarts)
    end)

    it("that raises, or returns what is no answer, is a failure of the parent", function()
      for _, on_failure in ipairs { function() error("in on_failure", 0) end, function() return "maybe" end,
                                    function() pierrot.sleep(1) end, function() pierrot.receive() end } do
        local p = parent_of { on_failure = on_failure }
        local a = spawn(p, "a")
        a:tell "fail"
        expect { "stop", "a" }
        local what, message = pierrot.receive(60)
        assert.equal("parent stops", what)
        assert.truthy(message:find "on_failure")
        expect { "parent starts" }
        nothing_more()
      end
    end)

    it("can stop its own actor", function()
      local p = parent_of { on_failure = function() pierrot.stop "enough" return "restart" end }
      local a = spawn(p, "a")
      a:tell "fail"
      expect({ "stop", "a" }, { "parent stops", "enough" })
      while p:is_alive() do pierrot.sleep(0.001) end
    end)

    it("is asked while a handler of the parent is suspended, which goes on", function()
      local p = parent_of { on_failure = function(err) return err.message end }
      local a, b = spawn(p, "a"), spawn(p, "b")
      local asker = pierrot.spawn { function(_, ref, ...) return ref:ask(...) end }
      asker:tell(p, "sleep", 0.3)
      while p:info().state ~= "suspended" do pierrot.sleep(0.001) end
      a:tell("fail", "restart")
      expect({ "stop", "a" }, { "start", "a" })
      b:tell("fail", "resume")
      assert.equal(1, b:ask "count")
      assert.equal("suspended", p:info().state)
      -- The parent waits for a child's reply, and the child fails: the ask ends at once, the child is decided about.
      local ok, err = pcall(p.ask, p, "call", a, "fail", "restart")
      assert.is_false(ok)
      assert.equal("failed", err.kind)
      expect({ "stop", "a" }, { "start", "a" })
    end)
  end)

  it("takes no message until it is decided about, and then all of them in order", function()
    local p = parent_of({ on_failure = function()
      local until_ = pierrot.now() + 0.05
      while pierrot.now() < until_ do end
      return "resume"
    end }, { worker = 2 })
    local a = spawn(p, "a")
    a:tell("fail")
    for i = 1, 100 do
      assert.equal(i, a:ask "count")
    end
  end)

  describe("with one_for_all", function()
    it("takes all along: stopped youngest first, started oldest first; it counts once", function()
      local p = parent_of { strategy = "one_for_all", count = "all", intensity = 2 }
      local refs = {}
      for _, name in ipairs { "a", "b", "c", "d" } do refs[name] = spawn(p, name) end
      for _, failing in ipairs { "b", "d" } do
        refs[failing]:tell "fail"
        local reason = { a = "shutdown", b = "shutdown", c = "shutdown", d = "shutdown" }
        reason[failing] = "failed"
        for _, name in ipairs { "d", "c", "b", "a" } do expect { "stop", name, reason[name] } end
        for _, name in ipairs { "a", "b", "c", "d" } do expect { "start", name } end
        nothing_more()
      end
      for _, ref in pairs(refs) do
        assert.equal(2, ref:info().restarts)
        assert.equal(1, ref:ask "count")
      end
      refs.a:tell "fail"
      expect { "stop", "a", "failed" }   -- the limit: it is stopped, and the others live
      nothing_more()
    end)

    it("stops temporary ones for good", function()
      local p = parent_of { strategy = "one_for_all" }
      spawn(p, "a") spawn(p, "b", "temporary")
      spawn(p, "c"):tell "fail"
      expect({ "stop", "c", "failed" }, { "stop", "b", "shutdown" }, { "stop", "a", "shutdown" }, { "start", "a" }, { "start", "c" })
      nothing_more()
      assert.equal(2, #p:ask "children")
    end)

    it("keeps what is queued for those it takes along", function()
      local p = parent_of { strategy = "one_for_all" }
      local a, b = spawn(p, "a"), spawn(p, "b")
      for _ = 1, 3 do
        b:tell "fail"
        for i = 1, 50 do a:tell("count", i) end
        expect({ "stop", "b" }, { "stop", "a" }, { "start", "a" }, { "start", "b" })
      end
      a:ask "count"   -- behind all of them
      assert.equal(151, a:info().processed)
    end)
  end)

  it("with rest_for_one takes along those started after it", function()
    local p = parent_of { strategy = "rest_for_one" }
    local refs = {}
    for _, name in ipairs { "a", "b", "c", "d" } do refs[name] = spawn(p, name) end
    refs.b:tell "fail"
    expect({ "stop", "d", "shutdown" }, { "stop", "c", "shutdown" }, { "stop", "b", "failed" },
           { "start", "b" }, { "start", "c" }, { "start", "d" })
    refs.d:tell "fail"
    expect({ "stop", "d", "failed" }, { "start", "d" })
    refs.a:tell "fail"
    for _, name in ipairs { "d", "c", "b", "a" } do expect { "stop", name } end
    for _, name in ipairs { "a", "b", "c", "d" } do expect { "start", name } end
    nothing_more()
    -- One that goes for good leaves the order of the others.
    refs.c:stop()
    expect { "stop", "c", "normal" }
    refs.b:tell "fail"
    expect({ "stop", "d" }, { "stop", "b" }, { "start", "b" }, { "start", "d" })
    nothing_more()
  end)

  it("in start, within a group, counts as the next failure", function()
    local p = parent_of { strategy = "one_for_all", intensity = 3, count = "all", exceeded = "escalate" }
    spawn(p, "a")
    local b = p:ask("spawn", "b", nil, true)
    expect { "start", "b" }
    assert.equal(1, b:ask "count")
    pierrot.register("failing", pierrot.self())
    b:tell "fail"
    expect({ "stop", "b", "failed" }, { "stop", "a" }, { "start", "a" }, { "start", "b" })   -- b fails
    expect({ "stop", "a" }, { "start", "a" }, { "start", "b" })
    expect({ "stop", "a" }, { "start", "a" }, { "start", "b" })
    expect { "stop", "a", "shutdown" }
    local what, message = pierrot.receive(60)
    assert.equal("parent stops", what)
    assert.truthy(message:find 'actor "b".*more than 3 times in 5 s')
    expect { "parent starts" }
    nothing_more()
  end)

  describe("within limits", function()
    it("is counted by itself, or with all others", function()
      local p = parent_of { intensity = 2, period = 100 }
      local a, b = spawn(p, "a"), spawn(p, "b")
      for _ = 1, 2 do
        a:tell "fail" expect({ "stop", "a" }, { "start", "a" })
        b:tell "fail" expect({ "stop", "b" }, { "start", "b" })
      end
      a:tell "fail" expect { "stop", "a", "failed" }
      assert.equal(1, b:ask "count")
      local q = parent_of { intensity = 2, period = 100, count = "all" }
      local c, d = spawn(q, "c"), spawn(q, "d")
      c:tell "fail" expect({ "stop", "c" }, { "start", "c" })
      d:tell "fail" expect({ "stop", "d" }, { "start", "d" })
      c:tell "fail" expect { "stop", "c", "failed" }
      assert.equal(1, d:ask "count")
      nothing_more()
    end)

    it("0 is stopped at its first failure", function()
      local p = parent_of { intensity = 0 }
      spawn(p, "a"):tell "fail"
      expect { "stop", "a", "failed" }
      nothing_more()
    end)

    it("is not found out by failures that are further apart", function()
      local p = parent_of { intensity = 1, period = 0.02 }
      local a = spawn(p, "a")
      for _ = 1, 10 do
        a:tell "fail"
        expect({ "stop", "a" }, { "start", "a" })
        pierrot.sleep(0.03)
      end
      assert.equal(1, a:ask "count")
    end)

    it("counts when it fails, and not when its teardown is over", function()
      local me = pierrot.self()
      local p = pierrot.spawn { { supervise = { intensity = 2, period = 0.2 }, start = function()
        pierrot.spawn { { start = function() me:tell "start" end, receive = function() error("x", 0) end,
                          stop = function() pierrot.sleep(0.15) end }, name = "slow" }
      end } }
      for life = 1, 3 do
        expect { "start" }
        pierrot.tell("slow", life)
      end
      -- 0, 0.15 and 0.30 s: never three within 0.2 s. So it goes on ...
      expect { "start" }
      p:kill()
      while p:is_alive() do pierrot.sleep(0.001) end
      -- ... and with a period that holds all three it does not, however long each teardown takes.
      pierrot.spawn { { supervise = { intensity = 2, period = 5 }, start = function()
        pierrot.spawn { { start = function() me:tell "start" end, receive = function() error("x", 0) end,
                          stop = function() pierrot.sleep(0.05) end }, name = "slow2" }
      end } }
      for life = 1, 3 do
        expect { "start" }
        pierrot.tell("slow2", life)
      end
      nothing_more()
    end)
  end)

  it("permanent is restarted after any end but its parent's, and counted", function()
    local p = parent_of { intensity = 3, period = 100 }
    local a = spawn(p, "a", "permanent")
    a:stop "by others"
    expect({ "stop", "a", "by others" }, { "start", "a" })
    a:tell("quit", "by itself")
    expect({ "stop", "a", "by itself" }, { "start", "a" })
    a:kill()
    expect { "start", "a" }
    assert.equal(3, a:info().restarts)
    a:stop "once more"
    expect { "stop", "a", "once more" }
    while a:is_alive() do pierrot.sleep(0.001) end
  end)

  describe("with a back-off", function()
    it("waits longer each time, up to the cap, while messages wait; and anew after a long life", function()
      local p = parent_of { intensity = 100, backoff = { min = 0.02, max = 0.08, factor = 2, jitter = 0 } }
      local a = spawn(p, "a")
      local function delay()   -- by the child's own clock
        local stop, _, _, stopped = pierrot.receive(60)
        local start, _, started = pierrot.receive(60)
        assert.same({ "stop", "start" }, { stop, start })
        return started - stopped
      end
      for _ = 1, 4 do a:tell "fail" a:tell "arm" end   -- all of them wait: so no life is a long one
      for _, least in ipairs { 0.02, 0.04, 0.08, 0.08 } do
        local d = delay()
        assert.is_true(d >= least - 0.002, d .. " s are less than " .. least)
      end
      expect { "alarm", "a" }   -- only the last life's timer is left, the others ended
      pierrot.sleep(0.1)
      a:tell "fail"
      assert.is_true(delay() >= 0.018)
    end)

    it("is over at once when it is stopped for good meanwhile", function()
      local p = parent_of { backoff = { min = 100, max = 100 } }
      local a, b = spawn(p, "a"), spawn(p, "b")
      a:tell "fail" b:tell "fail"
      expect { "stop" } expect { "stop" }
      a:stop()
      while a:is_alive() do pierrot.sleep(0.001) end
      p:stop()
      expect { "parent stops", "normal" }
      while b:is_alive() or p:is_alive() do pierrot.sleep(0.001) end
      nothing_more()
    end)

    it("goes for a whole group", function()
      local p = parent_of { strategy = "one_for_all", backoff = { min = 0.05, max = 0.05, jitter = 0 } }
      local a = spawn(p, "a") spawn(p, "b")
      a:tell "fail"
      expect({ "stop", "b" }, { "stop", "a" })
      local since = pierrot.now()
      expect({ "start", "a" }, { "start", "b" })
      assert.is_true(pierrot.now() - since >= 0.045)
    end)
  end)

  it("escalates beyond the limit, up to the root, which stops what fails too often", function()
    local me = pierrot.self()
    local leaf = { start = function() me:tell "leaf" end, receive = function() error("leaf", 0) end }
    local middle = { supervise = { intensity = 1, exceeded = "escalate" },
      start = function(_, depth, again)
        if depth == 0 then pierrot.spawn { leaf, name = "leaf" }
        else pierrot.spawn { again, depth - 1, again, name = "level " .. depth } end
      end }
    -- A behaviour does not travel in messages: three levels by hand.
    local inner = { supervise = middle.supervise, start = function() me:tell "inner" pierrot.spawn { leaf, name = "leaf" } end }
    local outer = { supervise = middle.supervise, start = function() me:tell "outer" pierrot.spawn { inner, name = "inner" } end }
    local top, monitor = pierrot.spawn { outer, name = "outer", restart = "temporary", monitor = true }
    expect({ "outer" }, { "inner" }, { "leaf" })
    local fails = 0
    while true do
      while pierrot.tell("leaf", 1) == nil and top:is_alive() do pierrot.sleep(0.001) end
      fails = fails + 1
      local what, _, reason, which
      repeat
        what, _, reason, which = pierrot.receive(60)
      until what == "leaf" or what == "down"
      if what == "down" then
        assert.is_true(which == monitor)
        assert.equal("failed", reason.kind)
        assert.truthy(reason.message:find "inner.*more than 1 times")
        assert.equal("leaf", reason.cause)
        break
      end
    end
    assert.equal(4, fails)   -- 2 for each of the 2 lives of inner
    for _, name in ipairs { "leaf", "inner", "outer" } do assert.is_nil(pierrot.whereis(name)) end
  end)

  it("escalates what ended too often and did not fail: an error without traceback", function()
    local child = { restart = "permanent", function() pierrot.stop() end }
    local parent = { supervise = { intensity = 0, exceeded = "escalate" }, start = function() pierrot.spawn(child):tell() end }
    local seen = pierrot.self()
    pierrot.spawn { { supervise = { on_failure = function(e)
      seen:tell("failure", e.kind, e.message, tostring(e.traceback), tostring(e.cause))
      return "stop"
    end }, start = function() pierrot.spawn(parent) end } }
    local what, kind, message, traceback, cause = pierrot.receive(60)
    assert.same({ "failure", "failed" }, { what, kind })
    assert.truthy(message:find "was to be restarted more than 0 times in 5 s$", message)
    assert.same({ "nil", message }, { traceback, cause })   -- where there is no cause, its text stands for it
  end)

  it("resumes with its parent, when that is resumed after an escalation", function()
    local me = pierrot.self()
    local child = { start = function(self) self.n = 0 end, receive = function(self, what)
      self.n = self.n + 1
      if what == "fail" then error("x", 0) end
      return self.n
    end }
    local parent = { supervise = { on_failure = function() return "escalate" end },
      start = function(self) self.child = pierrot.spawn(child) self.other = pierrot.spawn(child) end,
      receive = function(self) return self.child, self.other end }
    local top = pierrot.spawn { supervise = { on_failure = function() me:tell "decided" return "resume" end },
      start = function(self) self.parent = pierrot.spawn(parent) end, receive = function(self) return self.parent end }
    local p = top:ask()
    local a, b = p:ask()
    a:tell "fail" b:tell "fail"
    expect({ "decided" }, { "decided" })
    assert.equal(2, a:ask())
    assert.equal(2, b:ask())
    assert.same({ a, b }, { p:ask() })
  end)

  it("is misuse when the rules are none", function()
    local cases = {
      [{ strategy = "all" }] = 'supervise.strategy: "one_for_all" or "one_for_one" or "rest_for_one" expected, got all',
      [{ intensity = 1.5 }] = "supervise.intensity: a whole number",
      [{ intensity = -1 }] = "supervise.intensity",
      [{ period = 0 }] = "supervise.period: a number above 0",
      [{ count = 3 }] = "supervise.count",
      [{ exceeded = "restart" }] = "supervise.exceeded",
      [{ backoff = 1 }] = "supervise.backoff: a table expected",
      [{ backoff = { least = 1 } }] = "unknown field 'least'",
      [{ backoff = { min = 20 } }] = "min is above max",
      [{ backoff = { factor = 0.5 } }] = "supervise.backoff.factor",
      [{ on_failure = "stop" }] = "supervise.on_failure: a function expected",
      [{ whatever = 1 }] = "supervise: unknown field 'whatever'",
    }
    for rules, message in pairs(cases) do
      local ok, err = pcall(pierrot.spawn, { supervise = rules })
      assert.is_false(ok)
      assert.truthy(err:find(message, 1, true), err)
    end
  end)
end)

describe("a child that fails on every message", function()
  after_each(function() pierrot.shutdown() end)

  for workers = 1, 8 do
    it("is restarted exactly 3 times when 3 in 5 s are allowed, with " .. workers .. " workers", function()
      assert(pierrot.start { workers = workers, log = "none" })
      for _ = 1, times(150, 3) do
        local p = parent_of({ intensity = 3, period = 5 }, { worker = math.random(workers) })
        local a = spawn(p, "a")
        for i = 1, 1000 do
          a:tell("fail", "x")
          if i % 100 == 0 and math.random(4) == 1 then pierrot.sleep(math.random() / 10000) end
        end
        for _ = 1, 3 do expect({ "stop", "a" }, { "start", "a" }) end
        expect { "stop", "a" }
        while a:is_alive() do pierrot.sleep(0.001) end
        p:stop()
        expect { "parent stops" }   -- and no "start" before it
        while pierrot.whereis "a" do pierrot.sleep(0.001) end
      end
    end)
  end
end)

-- A failure's order overtakes what is queued: it is looked at before the next message. Who says when it was there to be
-- seen is a witness, on the failing child's worker and told after it: once the witness has handled its message, the failure
-- is on its way. So nothing here depends on how fast anybody is.
--
-- Mutants caught: control looked at when a turn begins, in either loop; CHILD_ENDS in the user lane.
describe("a failure reaches its parent before two more messages are handled", function()
  local tally = { n = 0 }
  local parent = {
    supervise = { on_failure = function(_, child)
      pierrot.tell("test", "decided", tally.n - (tally.seen or tally.n), child)
      return "stop"
    end },
    start = function(self, where, at, seconds)
      tally.n, tally.seen = 0, nil
      self.child = pierrot.spawn { function(_, what) if what ~= "up" then error("x", 0) end end, worker = where }
      self.witness = pierrot.spawn { function() end, worker = where }
      self.child:ask "up" self.witness:ask "up"   -- or the one could have its first turn after the other's second
      self.at, self.seconds = at, seconds
    end,
    receive = function(self)
      tally.n = tally.n + 1
      if tally.n == self.at then self.child:tell() self.witness:tell() end
      local until_ = pierrot.now() + self.seconds
      while pierrot.now() < until_ do end
      if tally.n > self.at and not tally.seen and self.witness:info().processed > 1 then tally.seen = tally.n end
    end,
  }

  local function round(queued, where, at, seconds)
    local p = pierrot.spawn { parent, where, at, seconds, worker = 1 }
    for _ = 1, queued do p:tell() end
    local what, more, child = pierrot.receive(60)
    assert.equal("decided", what)
    assert.is_true(more < 2, more .. " more")
    p:kill()
    while p:is_alive() do pierrot.sleep(0) end
    assert.is_false(child:is_alive())
  end

  after_each(function() pierrot.shutdown() end)

  for workers = 1, 8 do
    it("of ten thousand, with " .. workers .. " workers", function()
      assert(pierrot.start { workers = workers, log = "none", throughput = workers % 3 == 0 and 1000 or 32 })
      pierrot.register("test", pierrot.self())
      for where = 1, workers do round(10000, where, 5, 0.001) end
      for _ = 1, times(125, 12) do
        if math.random(4) == 1 then pierrot.sleep(math.random() * 1e-4) end
        round(math.random(300, 600), math.random(workers), math.random(50), math.random() * 4e-5)
      end
    end)
  end
end)
