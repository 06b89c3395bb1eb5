--- pierrot.testing and `pierrot test`: a clock that jumps, probes, seeds that repeat and are shrunk, failures that nobody
--- expects, faults; the command's output and exit status.
--- Mutants that were tried and are found: a failure of an actor passed over, a mute message answered, shrinking that keeps
--- all choices, time that goes on beside work to do, choices drawn in sequence instead of each from its number alone.

local testing = require "pierrot.testing"
local pierrot = require "pierrot"
local script = require "support.script"
local times = require "support.times"

local SEEDS = times(10, 2)

-- Two who read, add one and write.
local Store = {
  name = "store",
  start = function(self) self.n = 0 end,
  on = { get = function(self) return self.n end, set = function(self, n) self.n = n end },
}
local Adder = {
  name = "adder",
  receive = function(_, store, whom)
    local n = store:ask "get"
    store:tell("set", n + 1)
    whom:tell "done"
  end,
}

local function flaky(t)
  local store, probe = pierrot.spawn(Store), t:probe "counter"
  for _ = 1, 3 do pierrot.spawn(Adder):tell(store, probe.ref) end
  for _ = 1, 3 do probe:expect "done" end
  t:equal(3, store:ask "get", "sum")
end

local function fails(fn, options)
  local ok, err = pcall(testing.run, fn, options or { seeds = 1 })
  assert.is_false(ok)
  return err
end

local function says(text, part)
  assert.is_truthy(text:find(part, 1, true), ("%q is not in\n%s"):format(part, text))
end

describe("a test", function()
  local it = testing.it -- luacheck: ignore 431

  it("has an hour in no time, and its own clock", { seeds = SEEDS }, function(t)
    local probe = t:probe()
    pierrot.send_after(3600, probe.ref, "late")
    probe:expect_none(3599.9)
    probe:expect("late", 0.2)
    pierrot.sleep(86400)
    assert.is_true(t:elapsed() >= 90000 and t:elapsed() < 90001)
  end)

  it("takes no time while there is anything to do", { seeds = SEEDS }, function(t)
    local probe = t:probe()
    local hop = pierrot.spawn { function(_, n, whom)
      if n == 0 then whom:tell "done" else pierrot.self():tell(n - 1, whom) end
    end }
    pierrot.send_after(0.001, probe.ref, "timer")
    hop:tell(300, probe.ref)
    probe:expect "done"
    probe:expect "timer"
    t:settle()
    assert.is_true(t:elapsed() < 0.01)
  end)

  it("has probes that are told, asked, watch and are watched", { seeds = SEEDS }, function(t)
    local a, b = t:probe(), t:probe "b"
    a:tell(b.ref, "one", { x = { 1, 2 } })
    b:expect { "one", { x = { 1, testing.any } } }
    assert.equal(a.ref, b:sender())
    local asker = pierrot.spawn(function(_, whom) return "got " .. whom:ask("name", 1) end)
    pierrot.spawn(function(_, whom, to, value) whom:tell(to:ask(value)) end):tell(b.ref, asker, a.ref)
    a:expect { "name", function(n) return n == 1 end }
    a:reply "Anna"
    b:expect "got Anna"
    assert.equal("got", (b:ask(pierrot.spawn(function(_, x) return x end), "got")))
    local mortal = pierrot.spawn(function() pierrot.stop "enough" end)
    a:watch(mortal)
    mortal:tell()
    assert.equal("enough", a:expect_down(mortal, "enough"))
    b:tell(a.ref)
    a:expect {}
    for i = 1, 3 do b:tell(a.ref, i) end
    a:await(2)
    a:expect_in_any_order { 3, 1 }
    b:tell(a.ref, "last")
    assert.same({ { n = 1, "last" } }, a:messages())
    a:expect_none()
  end)

  it("waits for what is to become so", { seeds = SEEDS }, function(t)
    local actor = pierrot.spawn(function() pierrot.sleep(3) pierrot.register("up", pierrot.self()) end)
    actor:tell()
    assert.equal(actor, t:eventually(function() return pierrot.whereis "up" end, 4))
  end)

  it("may have actors that fail, if it says so", { seeds = SEEDS }, function(t)
    t:expect_failure("on purpose", 2)
    local actor = pierrot.spawn(function() error "on purpose" end)
    actor:tell()
    assert.is_false(pcall(actor.ask, actor))
  end)

  it("has faults", { seeds = SEEDS }, function(t)
    local echo = pierrot.spawn { function(_, x) return x end, name = "echo" }
    local fail = t:fault { to = "echo", action = "fail", nth = 2 }
    assert.equal("a", echo:ask "a")
    local _, err = pcall(echo.ask, echo, "b")
    assert.equal("failed", err.kind)
    assert.equal("c", echo:ask "c")
    assert.equal(1, fail:count())
    local slow = t:fault { to = echo, action = "slow", seconds = 2, every = 2 }
    for _ = 1, 4 do echo:ask "d" end
    assert.equal(4, math.floor(t:elapsed() + 0.01))
    assert.equal(2, slow:count())
    t:no_faults()
    t:fault { message = "e", action = "mute", most = 1 }
    _, err = pcall(echo.ask_within, echo, 1, "e")
    assert.equal("timeout", err.kind)
    assert.equal("e", echo:ask "e")
    t:fault { message = "f", action = "kill" }
    _, err = pcall(echo.ask, echo, "f")
    assert.equal("dead", err.kind)
  end)

  it("has faults by chance, from its seed", { seeds = 1 }, function(t)
    local echo = pierrot.spawn(function(_, x) return x end)
    local fault = t:fault { action = "slow", seconds = 0, chance = 0.5 }
    for _ = 1, 40 do echo:ask() end
    assert.is_true(fault:count() > 5 and fault:count() < 35)
  end)
end)

describe("a test that fails", function()
  it("is found, shrunk, and repeated from what the report says", function()
    local _, failure = testing.explore(flaky, { seeds = 100 })
    says(failure.message, "sum: 3 expected, got ")
    assert.is_true(#failure.only >= 1 and #failure.only <= 3 and failure.shrunk_from > #failure.only, failure.token)
    local _, again = testing.explore(flaky, { seed = failure.token })
    assert.same({ failure.message, failure.lines }, { again.message, again.lines })
    local _, whole = testing.explore(flaky, { seed = failure.seed, shrink = false })
    local _, once_more = testing.explore(flaky, { seed = failure.seed, shrink = false })
    assert.same(whole.lines, once_more.lines)
    assert.not_same(whole.lines, failure.lines)
    assert.is_true(#failure.lines > 8)
    assert.is_true(testing.explore(flaky, { seed = failure.seed .. ":0" }))
  end)

  it("is the same with the choices that were taken alone: the others change nothing", function()
    local function failing(t)
      t:fault { action = "slow", seconds = 1, chance = 0.3 }
      flaky(t)
      error("after " .. t:elapsed())
    end
    for seed = 1, SEEDS do
      local _, whole = testing.explore(failing, { seed = seed, shrink = false })
      assert.is_true(#whole.taken > 0 and #whole.taken < whole.choices)
      local _, again = testing.explore(failing, { seed = testing.format_seed(seed, whole.taken) })
      assert.same({ whole.message, whole.taken, whole.lines }, { again.message, again.taken, again.lines })
    end
  end)

  it("because an actor has failed, names actor, message and line", function()
    local text = fails(function(t)
      local actor = pierrot.spawn { { on = { go = function(self) return self.x.y end } }, name = "crasher" }
      actor:tell("go", 1)
      t:settle()
    end)
    says(text, 'crasher failed at "go": spec/testing_spec.lua:')
    says(text, "attempt to index field 'x'")
    says(text, "PIERROT_SEED=1")
    says(text, 'gets "go", 1 from test')
    says(text, "FAILS: ")
  end)

  it("because `stop` has failed after its end, or a failure did not come", function()
    says(fails(function(t)
      pierrot.spawn { { start = function() end, stop = function() error "no end" end } }
      t:settle()
    end), "failed at stop: ")
    says(fails(function(t) t:expect_failure "never" end), 'a failure like "never" expected, and there was none')
  end)

  it("because of a probe, says so at the test's line", function()
    local line = debug.getinfo(1, "l").currentline
    says(fails(function(t) t:probe "p":expect({ "a", 1 }, 2) end),
      ("spec/testing_spec.lua:%d: probe p: \"a\", 1 expected within 2 s, nothing came"):format(line + 1))
    says(fails(function(t)
      local p = t:probe "p"
      p:tell(p.ref, "b", { k = 1 })
      p:expect "a"
    end), 'probe p: "a" expected, got "b", {k = 1}')
    says(fails(function(t)
      local p = t:probe "p"
      pierrot.send_after(1, p.ref, "b")
      p:expect_none(2)
    end), "nothing expected for 2 s, got \"b\" after 1.0")
    says(fails(function(t)
      t:probe():expect_down(pierrot.spawn(function() end), nil, 1)
    end), "expected within 1 s, and it lives")
    says(fails(function(t) t:fault { action = "explode" } end), 'fault: action: "fail"')
    says(fails(function(t)
      t:fault { action = "mute" }
      pierrot.spawn(function() end):ask_within(1)
    end), ("spec/testing_spec.lua:%d: ask: no reply from"):format(line + 19))
  end)

  -- What is called wrongly, or comes otherwise than expected, and what is said of it, at the test's line.
  local wrong = {
    { "a number of seconds, 0 or more, expected, got -1", function(t) t:advance(-1) end },
    { "expect: a number of seconds, 0 or more, expected, got soon", function(t) t:probe():expect("a", "soon") end },
    { "probe: a name (string) or nothing expected, got number", function(t) t:probe(5) end },
    { "expect_failure: a pattern (string) or nothing expected, got number", function(t) t:expect_failure(5) end },
    { "expect_failure: a number of failures expected, got two", function(t) t:expect_failure("x", "two") end },
    { "fault: a rule (table) expected, got string", function(t) t:fault "mute" end },
    { "fault: unknown field 'whom'", function(t) t:fault { action = "mute", whom = "a" } end },
    { "fault: chance: a number, 0 or more, expected, got -1", function(t) t:fault { action = "mute", chance = -1 } end },
    { "fault: nth: a whole number, 1 or more, expected, got 1.5", function(t) t:fault { action = "mute", nth = 1.5 } end },
    { "fault: a slow handler takes `seconds`", function(t) t:fault { action = "slow" } end },
    { "fault: message: a string expected, got number", function(t) t:fault { action = "mute", message = 5 } end },
    { "fault: to: a ref, or the name", function(t) t:fault { action = "mute", to = 5 } end },
    { "fault: a test has at most 64 rules", function(t) for _ = 1, 65 do t:fault { action = "mute", to = "x" } end end },
    { "eventually: it is not so within 2 s", function(t) t:eventually(function() return false end, 2) end },
    { '"c" expected within 1 s, and did not come (1 others did, first "b")', function(_, p)
      p:tell(p.ref, "b")
      p:await("c", 1)
    end },
    { '"a" expected within 1 s, and 1 more; nothing came', function(_, p)
      p:tell(p.ref, "b")
      p:expect_in_any_order({ "a", "b", "c" }, 1)
    end },
    { '"d" came, and is none of the 2 that are expected (first "a")', function(_, p)
      p:tell(p.ref, "d")
      p:expect_in_any_order { "a", "b" }
    end },
    { 'expected to end with the reason "old", and it was "new"', function(_, p)
      local mortal = pierrot.spawn(function() pierrot.stop "new" end)
      mortal:tell()
      p:expect_down(mortal, "old")
    end },
    { "crasher had failed at \"x\": spec/testing_spec.lua", function(t, p)
      t:expect_failure "broken"
      pierrot.spawn { { receive = function() error "broken" end, name = "crasher" } }:tell "x"
      p:expect("y", 1)
    end },
    { '{[true] = 1, [1.5] = 2, k = {{{{{...}}}}}} expected, got "' .. ("z"):rep(120) .. '..."', function(_, p)
      p:tell(p.ref, ("z"):rep(200))
      p:expect { { [1.5] = 2, k = { { { { { 1 } } } } }, [true] = 1 } }
    end },
    { "(a function's yes) expected, got 1", function(_, p)
      p:tell(p.ref, 1)
      p:expect { function() return false end }
    end },
  }
  for _, case in ipairs(wrong) do
    it("because of " .. case[1]:sub(1, 60), function()
      local text = fails(function(t) case[2](t, t:probe()) end)
      says(text, case[1])
      says(text, "spec/testing_spec.lua:")
    end)
  end

  it("is called as it is to be", function()
    for part, options in pairs { ["unknown option 'seds'"] = { seds = 1 }, ["seeds: a number expected, got string"] = { seeds = "1" },
                                 ["'x' is no seed"] = { seed = "x" } } do
      says(fails(function() end, options), part)
    end
    says(fails(5), "testing.run: a function expected, got number")
    testing.test(function(t) t:advance(1) end, { seeds = 1 })()
    local _, err = pcall(setfenv(function() testing.it("a", function() end) end, { testing = testing, it = false }))
    says(err, "testing.it: there is no `it` here")
  end)

  it("may take what comes as it comes, fail an ask, and expect what is no number", function()
    assert.equal(1, testing.run(function(t)
      local p = t:probe()
      assert.is_nil(p:receive(1))
      p:tell(p.ref, "a", 0 / 0)
      assert.equal("a", (p:receive()))
      p:tell(p.ref, 0 / 0)
      p:expect(0 / 0)
      p:tell(p.ref, "b", 1)
      p:expect(testing.any)
      local asker = pierrot.spawn(function(_, whom) return select(2, pcall(whom.ask, whom, "q")) end)
      pierrot.spawn(function(_, of, to) to:tell("is", (of:ask(to))) end):tell(asker, p.ref)
      p:expect "q"
      p:fail "no answer today"
      local _, err = p:await { "is", testing.any }
      says(tostring(err), "no answer today")
    end, { seeds = 1 }))
  end)

  it("because its actors do not come to rest", function()
    says(fails(function(t)
      pierrot.spawn(function() pierrot.self():tell() end):tell()
      t:probe():expect "a"
    end, { seeds = 1, turns = 5000 }), "do not come to rest")
  end)

  it("because it depends on something else, says that it went another way", function()
    local count = 0
    says(fails(function()
      count = count + 1
      assert(count ~= 1, "the first time")
    end), "went another way")
  end)

  it("leaves its runtime ended, whatever it has done", function()
    fails(function()
      pierrot.spawn(function() while true do pierrot.receive() end end):tell()
      pierrot.spawn { { start = function() end, stop = function() pierrot.sleep(math.huge) end } , shutdown = math.huge }
      error "over"
    end)
    assert(pierrot.start { workers = 1 })
    assert.is_false(pcall(testing.run, function() end))
    assert(pierrot.shutdown())
  end)
end)

describe("pierrot test", function()
  teardown(script.clean)

  local function run(args, files)
    for name, text in pairs(files or {}) do script.write(name, text) end
    local bin = script.sh("realpath " .. script.quote(script.bin)):match "[^\n]+"
    return script.command("sh -c " .. script.quote(("cd %s && exec %s test %s"):format(script.quote(script.path ""),
      script.quote(bin), args)))
  end

  it("runs files and directories, and says what went wrong, in order", function()
    script.sh("mkdir -p " .. script.quote(script.path "dir/deeper"))
    local r = run("--seeds 2 one_spec.lua dir", {
      ["one_spec.lua"] = [[
        local mine = require "mine"
        describe("a", function()
          before_each(function(t) t.x = mine end)
          it("passes", function(t) assert(t.x == 5) loaded = true end)
          describe("b", function() it("fails", function(t) t:equal(5, 6) end) end)
        end)]],
      ["mine.lua"] = "return 5",
      ["dir/deeper/two_test.lua"] = "it('sees no global of another file', function() assert(loaded == nil) end)\n",
      ["dir/broken_spec.lua"] = "it(",
      ["dir/no_test_at_all.lua"] = "error 'is not loaded'",
    })
    assert.equal("", r.err)
    assert.equal([[
one_spec.lua
  ok      a passes (2 runs)
  FAILED  a b fails
          one_spec.lua:5: 5 expected, got 6
          seed 1, and any other: it fails when all is done first come, first served
          to repeat it: pierrot test one_spec.lua --filter 'a b fails' --seed 1
dir/broken_spec.lua
  FAILED  cannot be loaded: dir/broken_spec.lua:1: unexpected symbol near '<eof>'
dir/deeper/two_test.lua
  ok      sees no global of another file (2 runs)
5 runs
2 passed, 2 failed
]], r.out)
    assert.equal(1, r.status)
  end)

  it("runs one test with one seed, and tells wrong usage", function()
    local file = { ["pick_spec.lua"] = "it('this', function() end) it('that', function() error 'no' end)" }
    local r = run("pick_spec.lua --filter this --seed 7:1,2", file)
    assert.same({ 0, "pick_spec.lua\n  ok      this (1 run)\n1 run\n1 passed, 0 failed\n" }, { r.status, r.out })
    assert.equal(1, run("pick_spec.lua --filter other").status)
    for args, part in pairs { ["pick_spec.lua --seed x"] = "'x' is no seed", ["nowhere"] = "no such file", [""] = "usage" } do
      r = run(args)
      assert.equal(2, r.status)
      if part ~= "usage" then says(r.err, part) end
      assert.equal(1, select(2, r.err:gsub("\n", "")), r.err)
    end
  end)

  it("is there for plain programs that have not required pierrot", function()
    local r = script.plain("print(require('pierrot.testing').run(function(t) t:advance(60) end, { seeds = 2 }))")
    assert.same({ "2\n", "" }, { r.out, r.err })
  end)
end)
