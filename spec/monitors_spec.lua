-- Monitors and links: one "down" for each monitor, whatever races with what; exits of links; from inside and outside.
--
-- Mutants caught: a MONITOR that finds nobody is freed instead of answered; cancel leaves the node at the watcher; a
-- DOWN that is taken leaves it; a second link adds a second node; an EXIT of reason "normal" ends the other; a down
-- goes out before the name is free; a restart tells the monitors.

local pierrot = require "pierrot"
local sanitized = os.getenv "PIERROT_SANITIZER" ~= nil

local stopper = function(_, what, ...)
  if what == "stop" then pierrot.stop(...) elseif what == "fail" then error(...) end
  return what
end

local function all_received()
  local got = {}
  while true do
    local message = { pierrot.receive(0) }
    if #message == 0 then return got end
    got[#got + 1] = message
  end
end

describe("a monitor", function()
  before_each(function() assert(pierrot.start { workers = 3, log = "none" }) end)
  after_each(function() pierrot.shutdown() end)

  local function expect_down(ref, reason, monitor)
    local what, who, why, which = pierrot.receive(60)
    assert.equal("down", what)
    assert.is_true(who == ref)
    assert.is_true(which == monitor)
    if type(reason) == "function" then reason(why) else assert.same(reason, why) end
  end

  it("from outside tells of each kind of end, once, with the reason", function()
    local ends = {
      { function(a) a:tell "stop" end, "normal" },
      { function(a) a:tell("stop", "enough") end, "enough" },
      { function(a) a:tell("stop", { 1, { x = 2 } }) end, { 1, { x = 2 } } },
      { function(a) a:stop() end, "normal" },
      { function(a) a:stop "told" end, "told" },
      { function(a) a:drain "drained" end, "drained" },
      { function(a) a:kill() end, "killed" },
      { function(a) a:tell("fail", { code = 5 }) end, function(err)
        assert.equal("failed", err.kind)
        assert.equal(5, err.cause.code)
        assert.equal("fail", err.first)
        assert.equal("string", type(err.traceback))
        assert.truthy(err.behaviour:find "monitors_spec.lua")
      end },
    }
    for _, case in ipairs(ends) do
      local a = pierrot.spawn { stopper, restart = "temporary" }
      local m = pierrot.monitor(a)
      case[1](a)
      expect_down(a, case[2], m)
      assert.is_false(m:cancel())
      assert.is_nil((pierrot.receive(0)))
    end
  end)

  it("of a dead actor tells at once: noproc", function()
    local a = pierrot.spawn(stopper)
    local first = pierrot.monitor(a)
    a:stop()
    expect_down(a, "normal", first)
    local m = pierrot.monitor(a)
    assert.is_false(m == first)
    expect_down(a, "noproc", m)
    assert.same({ nil, "dead" }, { pierrot.monitor "nobody has this name" })
  end)

  it("is a value: a key, equal to itself in a message, with a text, and no ref", function()
    local a = pierrot.spawn(function(_, ...) return ... end)
    local m, other = pierrot.monitor(a), pierrot.monitor(a)
    local t = { [m] = 1 }
    assert.equal(1, t[a:ask(m)])
    assert.is_false(m == other)
    assert.truthy(tostring(m):find "^monitor %d+$")
    assert.error_matches(function() pierrot.tell(m, 1) end, "tell: a ref or a registered name expected, got a monitor")
    assert.error_matches(function() a:cancel() end, "a monitor or a timer expected, got a ref")
    assert.error_matches(function() pierrot.monitor(nil) end, "monitor: a ref or a registered name expected, got nil")
  end)

  it("tells each of several, and a cancelled one not, though its down is queued already", function()
    local a = pierrot.spawn(stopper)
    local m = {}
    for i = 1, 5 do m[i] = pierrot.monitor(a) end
    assert.is_true(m[2]:cancel())
    assert.is_false(m[2]:cancel())
    a:stop()
    while a:is_alive() do pierrot.sleep(0.001) end
    assert.is_true(m[4]:cancel())   -- its down lies in the mailbox, or is under way
    local seen = {}
    for _ = 1, 3 do seen[select(4, pierrot.receive(60))] = true end
    assert.same({ [m[1]] = true, [m[3]] = true, [m[5]] = true }, seen)
    assert.same({}, all_received())
  end)

  it("comes behind what the ended one has sent, and when its name is free", function()
    local me = pierrot.self()
    local behaviour = function() for i = 1, 100 do me:tell("n", i) end pierrot.stop() end
    for round = 1, sanitized and 50 or 500 do
      local a = pierrot.spawn { behaviour, name = "taken", worker = round % 3 + 1 }
      assert.is_truthy(a)
      local m = pierrot.monitor(a)
      a:tell()
      for i = 1, 100 do assert.same({ "n", i }, { pierrot.receive(60) }) end
      expect_down(a, "normal", m)
    end
  end)

  it("is not told by a restart, and outlives it on both sides", function()
    local a = pierrot.spawn(stopper)
    local m = pierrot.monitor(a)
    local watcher = pierrot.spawn({ name = "watcher", on = {
      watch = function(_, ref) pierrot.monitor(ref) end,
      fail = function() error "as told" end,
      down = function(_, _, reason) pierrot.tell("report", reason) end } })
    pierrot.register("report", pierrot.self())
    watcher:tell("watch", a)
    watcher:tell "fail"
    a:tell("fail", "x")
    assert.equal("still there", a:ask "still there")
    assert.equal(1, a:info().restarts)
    while watcher:info().restarts ~= 1 do pierrot.sleep(0.001) end
    a:stop "now"
    local got = { { pierrot.receive(60) }, { pierrot.receive(60) } }
    local reasons = {}
    for _, g in ipairs(got) do
      if g[1] == "down" then assert.is_true(g[4] == m) reasons.outside = g[3] else reasons.inside = g[1] end
    end
    assert.same({ outside = "now", inside = "now" }, reasons)
  end)

  it("can be cancelled and made again inside the handler of a down", function()
    local me = pierrot.self()
    local watcher = pierrot.spawn({
      start = function(self) self.n = 0 end,
      on = {
        watch = function(self, ref) self.m = pierrot.monitor(ref) self.other = pierrot.monitor(ref) end,
        down = function(self, ref, reason, m)
          self.n = self.n + 1
          if self.n == 1 then
            -- The down of one of the two; the other's, queued behind, is cancelled, and one more is made.
            local rest = m == self.m and self.other or self.m
            me:tell("first", reason, m:cancel(), rest:cancel())
            self.again = pierrot.monitor(ref)
          else
            me:tell("second", reason, m == self.again)
          end
        end,
        count = function(self) return self.n end,
      } })
    local a = pierrot.spawn(stopper)
    watcher:tell("watch", a)
    watcher:ask "count"
    a:stop()
    assert.same({ "first", "normal", false, true }, { pierrot.receive(60) })
    assert.same({ "second", "noproc", true }, { pierrot.receive(60) })
    assert.equal(2, watcher:ask "count")
  end)

  it("is forgotten with its watcher", function()
    local a = pierrot.spawn(stopper)
    local behaviour = { on = { watch = function(_, ref) for _ = 1, 10 do pierrot.monitor(ref) end return true end } }
    for _ = 1, sanitized and 20 or 200 do
      local w = pierrot.spawn(behaviour)
      w:ask("watch", a)
      w:stop()
    end
    local before = pierrot.stats().dead_letters
    while pierrot.stats().actors > 1 do pierrot.sleep(0.001) end
    a:stop()
    while a:is_alive() do pierrot.sleep(0.001) end
    assert.equal(before, pierrot.stats().dead_letters)
    assert.same({}, all_received())
  end)

  it("is accounted for like a message", function()
    local a = pierrot.spawn(stopper)
    local m, kept = pierrot.monitor(a), pierrot.monitor(a)
    m:cancel()
    a:stop()
    expect_down(a, "normal", kept)
    while pierrot.stats().actors > 0 do pierrot.sleep(0.001) end
    local s = pierrot.stats()
    assert.equal(s.sent, s.handled + s.dead_letters + s.cancelled)
  end)

  it("can be had with spawn, atomically", function()
    for _ = 1, sanitized and 100 or 1000 do
      local a, m = pierrot.spawn { function() end, monitor = true }
      a:stop "early"
      expect_down(a, "early", m)
    end
    local dead, dm = pierrot.spawn { { start = function() error "no" end }, restart = "temporary", monitor = true }
    expect_down(dead, function(err) assert.equal("failed", err.kind) end, dm)
    local first = pierrot.spawn { stopper, name = "holder" }
    assert.same({ nil, "exists", first }, { pierrot.spawn { stopper, name = "holder", monitor = true } })
    first:stop()
    assert.same({}, all_received())
    assert.error_matches(function() pierrot.spawn { stopper, monitor = 1 } end, "spawn: monitor: true or false expected, got 1")
    assert.error_matches(function() pierrot.spawn { stopper, shutdown = -1 } end, "spawn: shutdown: a number of seconds")
  end)

  it("between actors on any workers: exactly one down each, in a storm of ends, cancels and deaths", function()
    local n = sanitized and 300 or 3000
    local me = pierrot.self()
    local watcher = { start = function(self) self.open, self.downs = {}, 0 end, on = {
      watch = function(self, ref, cancel)
        local m = pierrot.monitor(ref)
        if cancel then m:cancel() else self.open[m] = ref end
      end,
      down = function(self, ref, _, m)
        if self.open[m] ~= ref then me:tell("wrong", tostring(m)) end
        self.open[m] = nil
        self.downs = self.downs + 1
      end,
      result = function(self) return self.downs, next(self.open) == nil end,
    } }
    local watchers = {}
    for i = 1, 3 do watchers[i] = pierrot.spawn { watcher, worker = i } end
    local expected = { 0, 0, 0 }
    for i = 1, n do
      local a = pierrot.spawn { function() pierrot.stop() end, worker = i % 3 + 1 }
      for k = 1, 3 do
        local cancelled = (i + k) % 4 == 0
        watchers[k]:tell("watch", a, cancelled)
        if not cancelled then expected[k] = expected[k] + 1 end
        if i % 3 == k - 1 then a:tell() end
      end
    end
    for k = 1, 3 do
      local downs, none
      repeat downs, none = watchers[k]:ask "result" until none and downs >= expected[k]
      assert.equal(expected[k], downs)
    end
    assert.is_nil((pierrot.receive(0)))
  end)
end)

describe("a link", function()
  before_each(function() assert(pierrot.start { workers = 3, log = "none" }) end)
  after_each(function() pierrot.shutdown() end)

  local me
  local function actor(options)
    me = pierrot.self()
    local to = me
    local behaviour = { trap_exit = options and options.trap,
      on = {
        link = function(_, ref) return pierrot.link(ref) end,
        unlink = function(_, ref) return pierrot.unlink(ref) end,
        fail = function(_, what) error(what, 0) end,
        quit = function(_, reason) pierrot.stop(reason) end,
        ping = function() return "pong" end,
        exit = function(_, ref, reason) to:tell("trapped", ref, reason) end },
      stop = function(_, reason) to:tell("stop", pierrot.self(), reason) end }
    local ref = pierrot.spawn { behaviour, restart = options and options.restart }
    ref:ask "ping"   -- who ends before it has started has no `stop`
    return ref
  end

  local function expect_stops(...)
    local wanted, got = {}, {}
    for i = 1, select("#", ...), 2 do
      wanted[tostring(select(i, ...))] = (select(i + 1, ...))
    end
    for _ = 1, select("#", ...) / 2 do
      local what, ref, reason = pierrot.receive(60)
      assert.equal("stop", what)
      got[tostring(ref):match "actor %S+"] = type(reason) == "table" and reason.kind or reason
    end
    local keyed = {}
    for ref, reason in pairs(wanted) do keyed[ref:match "actor %S+"] = reason end
    assert.same(keyed, got)
  end

  it("ends the other with the same reason, in both directions, but for normal", function()
    for _, swap in ipairs { false, true } do
      local a, b = actor(), actor()
      a:ask("link", b)
      if swap then a, b = b, a end
      a:tell("quit", "enough")
      expect_stops(a, "enough", b, "enough")
    end
    local a, b = actor(), actor()
    a:ask("link", b)
    a:tell "quit"
    expect_stops(a, "normal")
    assert.equal("pong", b:ask "ping")
  end)

  it("carries a failure that is an end, and no restart", function()
    local a, b = actor { restart = "temporary" }, actor()
    a:ask("link", b)
    b:tell("fail", "b")
    expect_stops(b, "failed")
    assert.equal("pong", b:ask "ping")   -- it was restarted, and a lives
    assert.equal("pong", a:ask "ping")
    a:tell("fail", "a")
    expect_stops(a, "failed", b, "failed")
  end)

  it("is a message to who traps exits", function()
    local a, b = actor(), actor { trap = true }
    a:ask("link", b)
    a:kill()
    local what, ref, reason = pierrot.receive(60)
    assert.same({ "trapped", "killed" }, { what, reason })
    assert.is_true(ref == a)
    assert.equal("pong", b:ask "ping")
    b:ask("link", a)   -- dead
    assert.same({ "trapped", a, "noproc" }, { pierrot.receive(60) })
    local c = actor()
    b:ask("link", c)
    c:tell "quit"
    assert.equal("stop", (pierrot.receive(60)))
    assert.same({ "trapped", c, "normal" }, { pierrot.receive(60) })
  end)

  it("to a dead actor ends the linker: noproc", function()
    local a, b = actor(), actor()
    a:kill()
    while a:is_alive() do pierrot.sleep(0.001) end
    b:tell("link", a)
    expect_stops(b, "noproc")
  end)

  it("that is taken back is none, and twice is once", function()
    local a, b = actor(), actor { trap = true }
    a:ask("link", b) a:ask("link", b) b:ask("link", a)
    assert.is_true(b:ask("unlink", a))
    assert.is_false(b:ask("unlink", a))
    a:ask "ping"
    a:stop "gone"
    expect_stops(a, "gone")
    assert.equal("pong", b:ask "ping")
    assert.is_nil((pierrot.receive(0)))
  end)

  it("from outside is told like to who traps", function()
    local a = actor()
    assert.is_true(pierrot.link(a))
    a:tell("quit", "bye")
    assert.equal("stop", (pierrot.receive(60)))
    assert.same({ "exit", a, "bye" }, { pierrot.receive(60) })
    local b = pierrot.spawn { function() pierrot.stop "at once" end, link = true }
    b:tell()
    assert.same({ "exit", b, "at once" }, { pierrot.receive(60) })
    local c = actor()
    pierrot.link(c)
    assert.is_true(pierrot.unlink(c))
    c:kill()
    while c:is_alive() do pierrot.sleep(0.001) end
    assert.is_nil((pierrot.receive(0)))
  end)

  it("ends a whole ring, whoever begins, and what is suspended or busy with a backlog", function()
    for round = 1, sanitized and 5 or 30 do
      local n, ring = 20, {}
      for i = 1, n do ring[i] = actor() end
      for i = 1, n do ring[i]:ask("link", ring[i % n + 1]) end
      for i = 1, 200 do ring[i % n + 1]:tell "ping" end
      ring[round % n + 1]:tell("quit", "ring")
      for _ = 1, n do assert.equal("ring", (select(3, pierrot.receive(60)))) end
    end
  end)
end)
