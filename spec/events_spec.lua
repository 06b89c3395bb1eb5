-- The runtime's own events: each topic, who gets it and what it says, and that a slow subscriber loses events and slows
-- nobody.
--
-- Mutants that these find: no bound on what is pending; lost not counted, or reported twice; unsubscribe that leaves
-- what is queued; a subscription that outlives its actor, or ends with a restart; details without the pair count.

local pierrot = require "pierrot"

local function wait(fn)
  while not fn() do pierrot.sleep(0.001) end
end

describe("subscribe", function()
  before_each(function() assert(pierrot.start { workers = 2, log = "none" }) end)
  after_each(function() assert.is_true(pierrot.shutdown(10)) end)

  local function next_event(topic)
    local what, got, details = pierrot.receive(60)
    assert.same({ "event", topic }, { what, got })
    return details
  end

  it("dead_letter: target, sender, reason, message", function()
    assert.is_true(pierrot.subscribe "dead_letter")
    assert.is_false(pierrot.subscribe "dead_letter")
    local a = pierrot.spawn { { on = { known = function() return true end } }, name = "on" }
    a:tell("unknown", 1, 2)
    assert.same({ target = a, sender = pierrot.self(), reason = "unhandled", message = "unknown", values = 3 },
                next_event "dead_letter")
    a:tell(12)
    local details = next_event "dead_letter"
    assert.is_nil(details.message)
    assert.equal(1, details.values)
    assert.is_true(pierrot.unsubscribe "dead_letter")
    assert.is_false(pierrot.unsubscribe "dead_letter")
    a:tell "unknown"
    assert.is_true(a:ask "known")
    assert.is_nil(pierrot.receive(0.02))
  end)

  it("failure, restart, stopped: who, when, why", function()
    for _, topic in ipairs { "failure", "restart", "stopped" } do assert.is_true(pierrot.subscribe(topic)) end
    local a = pierrot.spawn { { name = "frail", receive = function(_, x) error("broken " .. x, 0) end }, name = "it" }
    a:tell "one"
    local details = next_event "failure"
    assert.truthy(details.traceback:find "events_spec.lua")
    details.traceback = nil
    assert.same({ actor = a, behaviour = "frail", name = "it", during = "handler", error = "broken one" }, details)
    assert.same({ actor = a, behaviour = "frail", name = "it", restarts = 1 }, next_event "restart")
    a:stop "enough"
    assert.same({ actor = a, behaviour = "frail", name = "it", reason = "enough", processed = 1, restarts = 1 },
                next_event "stopped")
    local b = pierrot.spawn { { name = "unborn", start = function() error "no" end }, restart = "temporary" }
    assert.equal("start", next_event("failure").during)
    assert.equal(b, next_event("stopped").actor)
  end)

  it("slow_turn: while a handler holds its worker, once a turn", function()
    assert.is_true(pierrot.subscribe "slow_turn")
    local a = pierrot.spawn { name = "slow", receive = function(_, seconds)
      local until_then = pierrot.now() + seconds
      while pierrot.now() < until_then do end
      return "done"
    end }
    local me = pierrot.self()
    a:tell(0)
    pierrot.spawn(function() me:tell(a:ask_within(60, 0.5)) end):tell(1)
    local details = next_event "slow_turn"
    assert.equal(a, details.actor)
    assert.equal("slow", details.behaviour)
    assert.is_true(details.seconds >= 0.1)
    assert.is_number(details.worker)
    assert.equal("done", (pierrot.receive(60)))
    assert.is_nil(pierrot.receive(0.05))
  end)

  it("a slow subscriber loses events, is told how many, and holds up nobody", function()
    local me, n = pierrot.self(), 2000
    local slow = pierrot.spawn {
      start = function() pierrot.subscribe "dead_letter" end,
      on = {
        hold = function() me:tell "held" pierrot.receive(60, function(x) return x == "go" end) end,
        count = function(self) return self.n or 0, self.lost or 0 end,
        event = function(self, _, details)
          self.n = (self.n or 0) + 1
          self.lost = (self.lost or 0) + (details.lost or 0)
        end,
      },
    }
    slow:tell "hold"
    assert.equal("held", (pierrot.receive(60)))
    local target = pierrot.spawn { on = { known = function() return true end } }
    for _ = 1, n do target:tell "unknown" end
    assert.is_true(target:ask_within(60, "known"))    -- all of them are dead letters by now
    assert.equal(n - 256, pierrot.stats().events_lost)
    slow:tell "go"
    assert.same({ 256, 0 }, { slow:ask_within(60, "count") })
    target:tell "unknown"
    assert.is_true(target:ask_within(60, "known"))
    wait(function() return slow:ask "count" == 257 end)
    assert.same({ 257, n - 256 }, { slow:ask "count" })
    local s = pierrot.stats()
    assert.equal(s.sent, s.handled + s.dead_letters + s.cancelled)
  end)

  it("ends with the subscriber, survives its restart", function()
    local me = pierrot.self()
    local a = pierrot.spawn {
      start = function(self) if pierrot.subscribe "dead_letter" == false then self.again = true end end,
      on = { event = function(self) me:tell("event", self.again) end, fail = function() error "x" end,
             known = function() return true end },
    }
    assert.is_true(a:ask "known")
    a:tell "fail"
    assert.is_true(a:ask "known")
    local target = pierrot.spawn { on = {} }
    target:tell "x"
    assert.same({ "event", true }, { pierrot.receive(60) })
    a:stop()
    wait(function() return not a:is_alive() end)
    target:tell "x"
    wait(function() return pierrot.stats().dead_letters == 2 end)
    assert.is_nil(pierrot.receive(0.02))
  end)

  it("refuses a topic that is none, at the caller's line", function()
    for _, bad in ipairs { "weather", 1, {} } do
      local ok, err = pcall(function() local r = pierrot.subscribe(bad) return r end)
      assert.is_false(ok)
      assert.truthy(err:find("events_spec.lua:%d+: subscribe: a topic expected"), err)
    end
  end)

  it("stands subscribers that come and go while events fly", function()
    local me, rounds = pierrot.self(), os.getenv "PIERROT_SANITIZER" and 50 or 400
    for i = 1, 8 do
      pierrot.spawn(function(_, n)
        for k = 1, n do
          local b = pierrot.spawn {
            start = function() pierrot.subscribe "dead_letter" pierrot.subscribe "stopped" end,
            on = { event = function() if k % 3 == 0 then pierrot.unsubscribe "stopped" end end },
          }
          b:tell "unknown"
          if (i + k) % 2 == 0 then b:stop() else b:drain() end
          b:tell "late"
        end
        me:tell "done"
      end):tell(rounds)
    end
    for _ = 1, 8 do assert.equal("done", pierrot.receive(120)) end
    wait(function() return pierrot.stats().actors == 8 end)
    wait(function()
      local s = pierrot.stats()
      return s.sent == s.handled + s.dead_letters + s.cancelled
    end)
  end)
end)
