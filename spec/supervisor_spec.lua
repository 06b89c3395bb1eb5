-- pierrot.supervisor: trees that are declared, dynamic children, limits with OTP's meaning, shutdown from the root.
--
-- Mutants caught: children spawned without waiting for each start; all told to stop at once; a permanent child that its
-- parent's order restarts; exceeded = "stop" instead of "escalate"; a name that outlives its tree.

local pierrot = require "pierrot"
local times = require "support.times"
local sanitized = os.getenv "PIERROT_SANITIZER" ~= nil

local me

-- Reports its life; `slow` seconds in start and in stop.
local Child = {
  name = "child",
  start = function(self, name, slow, to)
    self.name, self.slow, self.to = name, slow or 0, to
    if self.slow > 0 then pierrot.sleep(self.slow) end
    if to then to:tell("start", name) end
  end,
  on = {
    name = function(self) return self.name end,
    fail = function(_, what) error(what or "as told", 0) end,
    quit = function(_, reason) pierrot.stop(reason) end,
  },
  stop = function(self, reason)
    if self.slow > 0 then pierrot.sleep(self.slow) end
    if self.to then self.to:tell("stop", self.name, type(reason) == "table" and reason.kind or reason) end
  end,
}

local function child(name, options)
  local spec = { Child, name, options and options.slow or 0, me, name = name }
  for key, value in pairs(options or {}) do
    if key ~= "slow" then spec[key] = value end
  end
  return spec
end

local function expect(...)
  for _, wanted in ipairs { ... } do
    local got = { pierrot.receive(60) }
    assert.same(wanted, { unpack(got, 1, #wanted) })
  end
end

local function expect_starts(...)
  for _, name in ipairs { ... } do expect { "start", name } end
end

local function expect_stops(...)
  for _, name in ipairs { ... } do expect { "stop", name } end
end

local function await_death(ref)
  while ref:is_alive() do pierrot.sleep(0.001) end
end

describe("a supervisor", function()
  before_each(function()
    assert(pierrot.start { workers = 3, log = "none" })
    me = pierrot.self()
  end)
  after_each(function() pierrot.shutdown() end)

  it("starts its children in order, each after the one before, and stops them in reverse", function()
    for _ = 1, sanitized and 2 or 10 do
      local sup = pierrot.supervisor { child("a", { slow = 0.02 }), child "b", child("c", { slow = 0.01 }), child "d" }
      expect_starts("a", "b", "c", "d")
      sup:stop()
      expect_stops("d", "c", "b", "a")
      await_death(sup)
    end
  end)

  it("answers children and count, starts, stops and restarts children", function()
    local sup = pierrot.supervisor { name = "sup", child "a", child "b" }
    expect_starts("a", "b")
    local a, b = unpack(sup:ask "children")
    assert.same({ "a", "b" }, { a:ask "name", b:ask "name" })
    assert.same({ 2, 2 }, { sup:ask "count" })
    local c = sup:ask("start_child", child "c")
    expect_starts "c"
    assert.equal("c", c:ask "name")
    assert.same({ nil, "exists", c }, { sup:ask("start_child", child "c") })
    assert.is_true(sup:ask("stop_child", "b"))
    expect_stops "b"
    assert.is_false(b:is_alive())
    assert.same({ 2, 3 }, { sup:ask "count" })
    assert.is_true(sup:ask("stop_child", "b"))   -- already
    local again = sup:ask("restart_child", "b")
    expect_starts "b"
    assert.equal("b", again:ask "name")
    local third = sup:ask("restart_child", again)   -- a living one, by its ref
    expect({ "stop", "b" }, { "start", "b" })
    assert.is_true(pierrot.whereis "b" == third)
    assert.same({ nil, "no such child" }, { sup:ask("stop_child", "nobody") })
    assert.same({ nil, "no such child" }, { sup:ask("restart_child", "nobody") })
    assert.same({ 3, 3 }, { sup:ask "count" })
    -- A function and a module go as well, and what is wrong is told to the asker.
    local f = sup:ask("start_child", { function(_, x) return x + 1 end })
    assert.equal(3, f:ask(2))
    local ok, err = pcall(sup.ask, sup, "start_child", { { nonsense = function() end } })
    assert.is_false(ok)
    assert.truthy(tostring(err.message or err):find "unknown field 'nonsense'", tostring(err))
    ok, err = pcall(sup.ask, sup, "start_child", { Child, restart = "never" })
    assert.is_false(ok)
    assert.truthy(err.message:find 'restart: "transient", "permanent" or "temporary" expected, got never')
    ok, err = pcall(sup.ask, sup, "start_child", 5)
    assert.is_false(ok)
    assert.truthy(err.message:find "a table as spawn takes it expected, got number")
    assert.same({ 4, 4 }, { sup:ask "count" })
    assert.equal(0, sup:info().restarts)
  end)

  it("forgets a temporary child that has ended, and keeps the spec of any other", function()
    local sup = pierrot.supervisor { child("t", { restart = "temporary" }), child "n" }
    expect_starts("t", "n")
    pierrot.tell("t", "fail") expect { "stop", "t", "failed" }
    pierrot.tell("n", "quit") expect { "stop", "n", "normal" }
    while #sup:ask "children" > 0 do pierrot.sleep(0.001) end
    assert.same({ 0, 1 }, { sup:ask "count" })
    assert.same({ nil, "no such child" }, { sup:ask("restart_child", "t") })
    assert.is_truthy(sup:ask("restart_child", "n"))
  end)

  it("ends a permanent child for good when asked to, and at its own end", function()
    local sup = pierrot.supervisor { child("p", { restart = "permanent" }) }
    expect_starts "p"
    pierrot.tell("p", "quit") expect({ "stop", "p" }, { "start", "p" })
    assert.is_true(sup:ask("stop_child", "p"))
    expect { "stop", "p", "shutdown" }
    assert.is_nil(pierrot.whereis "p")
    sup:ask("restart_child", "p")
    expect_starts "p"
    sup:stop()
    expect { "stop", "p", "shutdown" }
    await_death(sup)
  end)

  it("tells what it keeps, and forgets what has ended when asked to", function()
    local sup = pierrot.supervisor { name = "sup", child("a", { restart = "permanent", shutdown = 2 }), child "b",
                                     { name = "inner", supervisor = { child "c" } }, { Child, "d", 0, me } }
    expect_starts("a", "b", "c", "d")
    local function specs()
      local list = sup:ask "specs"
      for _, one in ipairs(list) do one.ref = one.ref ~= nil end
      return list
    end
    local function one(name, ref, restart, shutdown, is_supervisor)
      return { name = name, ref = ref, restart = restart, shutdown = shutdown, significant = false, supervisor = is_supervisor }
    end
    assert.same({ one("a", true, "permanent", 2, false), one("b", true, "transient", 5, false),
                  one("inner", true, "transient", math.huge, true), one(nil, true, "transient", 5, false) }, specs())
    assert.is_true(pierrot.whereis "b" == sup:ask "specs"[2].ref)
    assert.same({ nil, "running" }, { sup:ask("delete_child", "b") })
    pierrot.tell("b", "quit") expect { "stop", "b" }
    while #sup:ask "children" > 3 do pierrot.sleep(0.001) end
    assert.is_false(specs()[2].ref)
    assert.same({ nil, "exists" }, { (sup:ask("start_child", child "b")), (select(2, sup:ask("start_child", child "b"))) })
    assert.is_true(sup:ask("delete_child", "b"))
    assert.same({ nil, "no such child" }, { sup:ask("delete_child", "b") })
    assert.same({ 3, 3 }, { sup:ask "count" })
    assert.is_truthy(sup:ask("start_child", child "b"))
    expect_starts "b"
    assert.equal("b", specs()[4].name)
  end)

  it("shuts itself down with its significant children, if it is to", function()
    local function sup_with(auto_shutdown, ...)
      local options = { auto_shutdown = auto_shutdown, monitor = true, child "plain" }
      for i, restart in ipairs { ... } do options[i + 1] = child("s" .. i, { significant = true, restart = restart }) end
      local sup, monitor = pierrot.supervisor(options)
      expect_starts "plain"
      for i = 1, select("#", ...) do expect_starts("s" .. i) end
      return sup, monitor
    end
    local function gone(monitor, ...)
      expect_stops(...)
      local what, _, reason, which = pierrot.receive(60)
      assert.same({ "down", "shutdown" }, { what, reason })
      assert.is_true(which == monitor)
    end
    for _ = 1, sanitized and 2 or 20 do
      local _, monitor = sup_with("any_significant", "transient", "temporary")
      pierrot.tell("s1", "quit")
      gone(monitor, "s1", "s2", "plain")
      _, monitor = sup_with("any_significant", "transient", "temporary")
      pierrot.tell("s1", "fail") expect({ "stop", "s1" }, { "start", "s1" })   -- a restart is no end
      pierrot.tell("s2", "fail")                                             -- of a temporary one any end counts
      gone(monitor, "s2", "s1", "plain")
      _, monitor = sup_with("all_significant", "transient", "temporary")
      pierrot.tell("s2", "quit") expect { "stop", "s2" }
      while pierrot.whereis "s2" do pierrot.sleep(0.001) end
      pierrot.tell("s1", "quit")
      gone(monitor, "s1", "plain")
    end
    -- Not by those that are none, nor by what the supervisor has done itself.
    local sup, monitor = sup_with("any_significant", "transient", "temporary")
    pierrot.tell("plain", "quit") expect { "stop", "plain" }
    assert.is_true(sup:ask("stop_child", "s2")) expect { "stop", "s2" }
    sup:ask("restart_child", "s1") expect({ "stop", "s1" }, { "start", "s1" })
    local again = sup:ask("start_child", child("s3", { significant = true }))
    expect_starts "s3"
    assert.equal(2, sup:ask "count")
    again:tell "quit"
    gone(monitor, "s3", "s1")
  end)

  it("whose child stops itself in start goes on without it", function()
    local sup = pierrot.supervisor { { function() end, name = "f" },
      { { start = function() pierrot.stop "not needed" end }, name = "ignored" }, child "a" }
    expect_starts "a"
    while sup:ask "count" ~= 2 do pierrot.sleep(0.001) end
    assert.same({ 2, 3 }, { sup:ask "count" })
  end)

  it("beyond its limits stops its children and fails; and so up to the root", function()
    local _, monitor = pierrot.supervisor { name = "top", intensity = 1, restart = "temporary", monitor = true,
      child "outer",
      { name = "inner", supervisor = { intensity = 2, child "a", child "b" } } }
    expect_starts("outer", "a", "b")
    for life = 1, 2 do
      for _ = 1, 2 do
        pierrot.tell(life == 1 and "a" or "b", "fail")
        expect({ "stop" }, { "start" })
      end
      pierrot.tell("b", "fail")
      if life == 1 then
        expect({ "stop", "b", "failed" }, { "stop", "a", "shutdown" })
        expect_starts("a", "b")
      end
    end
    expect({ "stop", "b", "failed" }, { "stop", "a", "shutdown" }, { "stop", "outer", "shutdown" })
    local what, _, reason, which = pierrot.receive(60)
    assert.equal("down", what)
    assert.is_true(which == monitor)
    assert.truthy(reason.message:find 'actor "inner".*more than 1 times in 5 s', reason.message)
    for _, name in ipairs { "top", "outer", "inner", "a", "b" } do assert.is_nil(pierrot.whereis(name)) end
  end)

  it("whose child fails to start again and again fails itself", function()
    local bad = { start = function(_, to) to:tell "bad" error("no", 0) end }
    local _, monitor = pierrot.supervisor { restart = "temporary", monitor = true, intensity = 2,
                                            child "a", { bad, me, name = "bad" }, child "never" }
    expect({ "start", "a" }, { "bad" }, { "bad" }, { "bad" }, { "stop", "a", "shutdown" })
    local what, _, reason, which = pierrot.receive(60)
    assert.same({ "down", "failed" }, { what, reason.kind })
    assert.is_true(which == monitor)
    assert.is_nil((pierrot.receive(0.02)))
  end)

  it("whose child's name is taken fails with that", function()
    pierrot.register("a", me)
    local _, monitor = pierrot.supervisor { restart = "temporary", monitor = true, child "a" }
    local what, _, reason, which = pierrot.receive(60)
    assert.same({ "down", 'supervisor: child "a": exists' }, { what, reason.message })
    assert.is_true(which == monitor)
  end)

  it("gives each child its own time to stop in, and then drops it", function()
    local sleeper = { receive = function() pierrot.sleep(3600) end, stop = function(_) error "is not reached" end }
    local sup = pierrot.supervisor { child "a", { sleeper, name = "long", shutdown = 0.05 },
                                     { sleeper, name = "none", shutdown = 0 }, child "b" }
    expect_starts("a", "b")
    for _, name in ipairs { "long", "none" } do
      pierrot.tell(name, 1)
      while pierrot.info(name).state ~= "suspended" do pierrot.sleep(0.001) end
    end
    local since = pierrot.now()
    sup:stop()
    expect_stops("b", "a")
    local took = pierrot.now() - since
    assert.is_true(took >= 0.045, took .. " s")
    await_death(sup)
  end)

  it("with a tree of hundreds ends from the leaves up, with every name free", function()
    local function level(depth, prefix)
      local options = { name = prefix .. "sup" }
      for i = 1, 4 do
        local name = prefix .. i
        if depth == 0 then
          options[i] = { Child, name, name = name }
        else
          options[i] = { supervisor = level(depth - 1, name .. "."), name = name }
        end
      end
      options.name = nil
      return options
    end
    for round = 1, sanitized and 2 or 5 do
      local options = level(3, "r")
      options.name = "root " .. round
      local sup = pierrot.supervisor(options)
      assert.equal(4, sup:ask_within(60, "count"))
      assert.equal("r4.4.4.4", pierrot.ask("r4.4.4.4", "name"))
      assert.equal(1 + 4 + 16 + 64 + 256, pierrot.stats().actors)
      sup:stop()
      await_death(sup)
      while pierrot.stats().actors > 0 do pierrot.sleep(0.001) end   -- counted when its id has gone
      assert.equal(0, pierrot.stats().names)
    end
  end)

  it("is misuse with what is none", function()
    local cases = {
      [{ 1 }] = "supervisor: child 1: a table as spawn takes it expected, got number",
      [{ {} }] = "supervisor: child 1 has no behaviour",
      [{ { Child, restart = "x" } }] = "supervisor: child 1: restart:",
      [{ { Child, nonsense = 1 } }] = "supervisor: child 1: unknown option 'nonsense'",
      [{ { function() me = 1 end } }] = "supervisor: child 1: upvalue 'me' is assigned",
      [{ { Child, link = true } }] = "link and monitor are not for children",
      [{ { Child, significant = true } }] = "child 1: significant is for supervisors with auto_shutdown",
      [{ auto_shutdown = "any_significant", { Child, significant = 1 } }] = "child 1: significant: true or false expected, got 1",
      [{ auto_shutdown = "all_significant", { Child, significant = true, restart = "permanent" } }] = "a permanent child never ends",
      [{ auto_shutdown = "all" }] = 'auto_shutdown: "never", "any_significant" or "all_significant" expected, got all',
      [{ { supervisor = 1 } }] = "supervisor: a table of its options",
      [{ strategy = "all" }] = "supervise.strategy",
      [{ nonsense = 1 }] = "supervisor: unknown option 'nonsense'",
    }
    for options, message in pairs(cases) do
      local ok, err = pcall(function() pierrot.supervisor(options) end)
      assert.is_false(ok)
      assert.truthy(err:find(message, 1, true), err)
      assert.truthy(err:find "supervisor_spec.lua:%d+: supervisor: ", err)
    end
    assert.error_matches(function() pierrot.supervisor() end, "a table of options and children expected, got nil")
  end)
end)

describe("a shutdown", function()
  -- `seconds`: each `stop`. A deadline of 50 ms is over before it is, with the runtime's own half second on top.
  local function round(workers, seconds)
    assert(pierrot.start { workers = workers, log = "none" })
    local slow = { start = function() end, stop = function() pierrot.sleep(seconds) end }
    local options = { name = "sup" }
    for i = 1, 8 do options[i] = { slow, name = "w" .. i, worker = math.random(workers) } end
    local sup = pierrot.supervisor(options)
    assert.equal(8, sup:ask "count")
    if math.random(4) == 1 then pierrot.sleep(math.random() / 1000) end
    assert.is_true(pierrot.shutdown(0.05))   -- true: all workers have left, and they leave when nobody lives
  end

  for workers = 1, 8 do
    it("of a root, a supervisor and eight workers leaves no actor and no name, with " .. workers .. " workers", function()
      round(workers, 0.2)
      for _ = 1, times(20, 2) do round(workers, math.random() / 500) end
    end)
  end
end)
