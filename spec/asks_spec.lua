-- Many asks at once, piped replies, the circuit breaker, streams of work.
--
-- Mutants that these find: results in the order of arrival; one failure that spoils the others; pipe that drops the error;
-- a breaker that never half opens, or lets all through then; a stream that asks for more than its window, or loses
-- demand for a value that a stage leaves out.

local pierrot = require "pierrot"

local function wait(fn)
  while not fn() do pierrot.sleep(0.001) end
end

describe("many asks", function()
  before_each(function() assert(pierrot.start { workers = 2, log = "none" }) end)
  after_each(function() assert.is_true(pierrot.shutdown(10)) end)

  local function each_way(fn, ...)
    fn(...)
    local me = pierrot.self()
    pierrot.spawn { function(_, ...) fn(...) me:tell "ok" end, restart = "temporary" }:tell(...)
    assert.equal("ok", (pierrot.receive(60)))
  end

  it("ask_all gives the results in the order of the asks, failures among them", function()
    local slow = pierrot.spawn(function(_, x) pierrot.sleep(0.03) return "slow", x, nil end)
    local fast = pierrot.spawn { function(_, x) return x end, name = "fast" }
    local bad = pierrot.spawn(function() error "broken" end)
    local never = pierrot.spawn(function() pierrot.sleep(60) end)
    each_way(function(a, b, c, d)
      local r = pierrot.ask_all({ { a, 1 }, { "fast", nil, 2 }, { b, 2 }, { c }, { d } }, 0.2)
      assert(r[1].n == 3 and r[1][1] == "slow" and r[1][2] == 1 and r[1][3] == nil and not r[1].err)
      assert(r[2].n == 1 and r[2][1] == nil)
      assert(r[3].n == 1 and r[3][1] == 2)
      assert(r[4].err.kind == "failed" and tostring(r[4].err):find "broken")
      assert(r[5].err.kind == "timeout" and r[5].n == nil)
      assert(#pierrot.ask_all {} == 0)
    end, slow, fast, bad, never)
    never:kill()
    wait(function() return pierrot.stats().actors <= 5 end)   -- the askers have ended
  end)

  it("asks a hundred at once", function()
    local list = {}
    for i = 1, 100 do list[i] = { pierrot.spawn(function() pierrot.yield() return i end) } end
    local r = pierrot.ask_all(list, 60)
    for i = 1, 100 do assert.equal(i, r[i][1]) end
  end)

  it("pipe sends the reply as a message, and the error too", function()
    local echo = pierrot.spawn(function(_, ...) if ... == "fail" then error "broken" end return ... end)
    local me = pierrot.self()
    assert.is_true(pierrot.pipe({ echo, 1, nil, 3 }, me, "got"))
    assert.same({ "got", 1, nil, 3 }, { pierrot.receive(60) })
    assert.is_true(pierrot.pipe({ echo, "x" }, me))
    assert.equal("x", (pierrot.receive(60)))
    assert.is_true(pierrot.pipe({ echo, "fail" }, me, "got"))
    local name, none, err = pierrot.receive(60)
    assert.same({ "got", nil, "failed" }, { name, none, err.kind })
    local a = pierrot.spawn { on = {
      go = function() pierrot.pipe({ echo, 7 }, pierrot.self(), "reply") return "went on" end,
      reply = function(_, x) me:tell("reply", x) end,
    } }
    assert.equal("went on", a:ask "go")
    assert.same({ "reply", 7 }, { pierrot.receive(60) })
  end)

  it("refuses what is no ask, at the caller's line", function()
    for _, bad in ipairs { { "ask_all", 1 }, { "ask_all", { 1 } }, { "ask_all", { {} } }, { "ask_all", {}, -1 }, { "pipe", {} },
                           { "pipe", { "x" } }, { "pipe", { "x" }, "nobody" } } do
      local ok, err = pcall(function() local r = pierrot[bad[1]](unpack(bad, 2, 4)) return r end)
      assert.is_false(ok)
      assert.truthy(err:find("asks_spec.lua:%d+: " .. bad[1]), err)
    end
  end)

  it("a breaker opens, half opens, closes", function()
    local breaker = require "pierrot.breaker"
    local gate = pierrot.spawn { { on = {
      set = function(self, bad) self.bad = bad end,
      count = function(self) return self.n end,
      get = function(self) self.n = (self.n or 0) + 1 if self.bad then pierrot.defer():fail "no" end return "yes" end,
    } } }
    local b = breaker.new { failures = 3, reset = 0.05 }
    local function try()
      local ok, value = pcall(b.ask, b, gate, "get")
      return ok and value or value.kind
    end
    assert.equal("yes", try())
    gate:tell("set", true)
    assert.same({ "failed", "failed", "failed", "open", "open" }, { try(), try(), try(), try(), try() })
    assert.equal(4, gate:ask "count")
    assert.equal("open", b:state())
    pierrot.sleep(0.06)
    assert.equal("half_open", b:state())
    assert.equal("failed", try())
    assert.equal("open", try())
    gate:tell("set", false)
    pierrot.sleep(0.06)
    assert.equal("yes", try())
    assert.equal("closed", b:state())
    assert.has_error(function() breaker.new { failures = 0 } end)
  end)
end)

describe("a stream", function()
  before_each(function() assert(pierrot.start { workers = 2, log = "none" }) end)
  after_each(function() assert.is_true(pierrot.shutdown(10)) end)

  local stream = require "pierrot.stream"

  local function numbers(n)
    return stream.source { pull = function(self)
      self.n = (self.n or 0) + 1
      return self.n <= n and self.n or nil
    end }
  end

  local Sum = stream.sink {
    each = function(self, n) self.sum, self.count = (self.sum or 0) + n, (self.count or 0) + 1 end,
    finish = function(self) return self.sum, self.count end,
  }

  it("goes through its stages to the end", function()
    local sum, count = stream.run { numbers(1000), stream.map(function(_, n) return 2 * n end), Sum, within = 60 }
    assert.same({ 1001000, 1000 }, { sum, count })
    for _, window in ipairs { 1, 2, 7, 5000 } do
      sum, count = stream.run { numbers(1000), stream.map(function(_, n) if n % 3 == 0 then return n end end),
                                stream.map(function(_, n) return -n end), Sum, window = window, within = 60 }
      assert.same({ -166833, 333 }, { sum, count })
    end
    assert.is_nil((stream.run { numbers(0), Sum, within = 60 }))
  end)

  it("never holds more than its window, however slow the sink", function()
    local me = pierrot.self()
    local sink = stream.sink {
      start = function() me:tell("sink", pierrot.self()) end,
      each = function(self)
        self.most = math.max(self.most or 0, pierrot.self():info().depth)
        self.taken, self.up = 0, 0   -- its fields are its own
        pierrot.sleep(0.0005)
      end,
      finish = function(self) return self.most end,
    }
    local most = stream.run { numbers(300), stream.map(function(_, n) return n end), sink, window = 16, within = 60 }
    assert.is_true(most <= 16)
  end)

  it("ends with the failure of a part, and leaves nothing behind", function()
    local before = pierrot.stats().actors
    local ok, err = pcall(stream.run, { numbers(1000), stream.map(function(_, n)
      if n == 500 then error("bad value", 0) end
      return n
    end), stream.map(function(_, n) return n end), Sum, within = 60 })
    assert.is_false(ok)
    assert.truthy(tostring(err):find "bad value", tostring(err))
    wait(function() return pierrot.stats().actors <= before + 1 end)   -- the source waits for demand
  end)

  it("is the example", function()
    local script = require "support.script"
    local result = script.command(("%s run examples/stream.lua 2000 32"):format(script.quote(script.bin)), 60)
    assert.equal("", result.err)
    assert.equal(0, result.status)
    assert.truthy(result.out:find "^2000 readings, mean 67.1 F", result.out)
    script.clean()
  end)

  it("refuses wrong parts", function()
    assert.has_error(function() stream.source {} end)
    assert.has_error(function() stream.map(1) end)
    assert.has_error(function() stream.run { numbers(1) } end)
    assert.has_error(function() stream.run { numbers(1), Sum, window = 0 } end)
  end)
end)
