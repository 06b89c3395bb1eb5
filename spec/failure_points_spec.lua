-- Every place where a script's code can raise, in every state: the failure is one of its actor's alone, its parent decides,
-- and the tree ends as it should. For each: the child is restarted with what was queued, no ask waits for nothing, every
-- started life but one that failed in its `stop` is stopped once, and at the end neither actor nor name is left.

local pierrot = require "pierrot"
local sanitized = os.getenv "PIERROT_SANITIZER" ~= nil

-- How the child comes to raise: each is a list of messages to it.
local points = {
  handler = { { "raise" } },
  ["handler, suspended before"] = { { "sleep and raise" } },
  ["handler, below pcall and a coroutine"] = { { "deep" } },
  ["handler, with an error object"] = { { "object" } },
  ["handler, with what cannot travel"] = { { "function" } },
  ["handler, with nil"] = { { "nil" } },
  ["handler, out of stack"] = { { "overflow" } },
  ["handler, with children"] = { { "spawn" }, { "raise" } },
  ["handler, asked"] = { { "raise" }, ask = true },
  ["handler, suspended, asked"] = { { "sleep and raise" }, ask = true },
  ["match of receive"] = { { "match" }, { "bait" } },
  ["a message that a timer sends"] = { { "timer" } },
  ["after a deferred reply"] = { { "defer and raise" }, ask = "deferred" },
  ["while a deferred reply is pending"] = { { "defer and go" }, ask = "timeout" },
  ["a reply that cannot be sent"] = { { "bad reply" }, ask = true },
  ["after become"] = { { "become" }, { "raise" } },
  ["after stash"] = { { "stash" }, { "raise" } },
  ["while told to stop"] = { { "stop and raise" }, ends = true },
  ["in stop"] = { { "stop badly" }, ends = true, bad_stop = true },
  ["in stop, at a restart"] = { { "bad stop" }, { "raise" }, bad_stop = true },
}

local function child_of(to)
  return {
    name = "child",
    start = function(self) to:tell("life", 1) self.n = 0 end,
    on = {
      raise = function() error("raised", 0) end,
      ["sleep and raise"] = function() pierrot.sleep(0.002) error("raised", 0) end,
      deep = function()
        local co = coroutine.create(function() error("inner", 0) end)
        assert(not coroutine.resume(co))
        assert(not pcall(error, "caught"))
        error("raised", 0)
      end,
      object = function() error(setmetatable({ code = 1 }, { __tostring = function() error "no text" end })) end,
      ["function"] = function() error(function() end) end,
      ["nil"] = function() error(nil) end,
      overflow = function() local function f() return 1 + f() end return f() end,
      spawn = function(self) self.kid = pierrot.spawn(function() end) end,
      match = function() pierrot.receive(1, function() error("raised", 0) end) end,
      timer = function() pierrot.send_after(0.001, pierrot.self(), "raise") end,
      ["defer and raise"] = function() pierrot.defer():reply "deferred" error("raised", 0) end,
      ["defer and go"] = function(self) self.later = pierrot.defer() pierrot.self():tell "raise" end,
      ["bad reply"] = function() return function() end end,
      become = function() pierrot.become { raise = function() error("raised", 0) end } end,
      stash = function()
        if pierrot.self():info().restarts > 0 then return end   -- it comes back with the restart
        pierrot.stash() pierrot.become { raise = function() error("raised", 0) end }
      end,
      ["stop and raise"] = function() pierrot.stop() error("raised", 0) end,
      ["bad stop"] = function(self) self.bad_stop = true end,
      ["stop badly"] = function(self) self.bad_stop = true pierrot.stop() end,
      bait = function() end,
      count = function(self) self.n = self.n + 1 return self.n end,
    },
    stop = function(self)
      to:tell("life", -1)
      if self.bad_stop then error("raised in stop", 0) end
    end,
  }
end

local parents = {
  ["the default rules"] = false,
  ["rules"] = { intensity = 10 },
  ["one_for_all"] = { strategy = "one_for_all" },
  ["on_failure"] = { on_failure = function() return "restart" end },
  ["on_failure, nothing"] = { on_failure = function() end },
  ["a back-off"] = { backoff = { min = 0.001, max = 0.002 } },
}

describe("a failure", function()
  local workers = 0
  before_each(function()
    workers = workers % 4 + 1
    assert(pierrot.start { workers = workers, log = "none", ask_timeout = 60 })
  end)
  after_each(function() pierrot.shutdown() end)

  for where, point in pairs(points) do
    it("of " .. where .. " is the child's alone", function()
      for how, rules in pairs(parents) do
        local note = where .. ", " .. how
        local me = pierrot.self()
        local child = child_of(me)
        local parent = pierrot.spawn { {
          name = "parent", supervise = rules or nil,
          on = { children = function(self)
            self.a = self.a or pierrot.spawn { child, name = "a" }
            self.b = self.b or pierrot.spawn { child, name = "b" }
            return self.a, self.b
          end } }, name = "parent" }
        local a, b = parent:ask "children"
        assert.equal(1, a:ask "count")
        assert.equal(1, b:ask "count")
        for i, message in ipairs(point) do
          if i < #point or not point.ask then
            a:tell(unpack(message))
          elseif point.ask == "timeout" then
            local ok, err = pcall(a.ask_within, a, 0.02, unpack(message))
            assert.is_false(ok, note)
            assert.equal("timeout", err.kind, note)
          elseif point.ask == "deferred" then
            assert.equal("deferred", a:ask(unpack(message)), note)
          else
            local ok, err = pcall(a.ask, a, unpack(message))
            assert.is_false(ok, note)
            assert.equal("failed", err.kind, note)
          end
        end
        if point.ends then
          while a:is_alive() do pierrot.sleep(0.001) end
        else
          local before = pierrot.now()
          while a:info().restarts == 0 do
            pierrot.sleep(0.001)
            assert.is_true(pierrot.now() - before < 60, note)
          end
          assert.equal(1, a:ask "count", note)
          assert.equal(1, a:info().restarts, note)
        end
        assert.is_true(b:ask "count" >= 1, note)
        assert.is_true(pierrot.whereis "b" == b, note)
        assert.same({ a, b }, { parent:ask "children" }, note)   -- the parent has lived on
        assert.equal(0, parent:info().restarts, note)
        local _, monitor = nil, pierrot.monitor(parent)
        parent:stop()
        local lives, ended = 0, false
        repeat
          local what, n, _, which = pierrot.receive(60)
          if what == "life" then lives = lives + n elseif what == "down" and which == monitor then ended = true end
        until ended
        while true do
          local what, n = pierrot.receive(0)
          if not what then break end
          if what == "life" then lives = lives + n end
        end
        assert.equal(0, lives, note)
        while pierrot.stats().actors > 0 do pierrot.sleep(0.001) end
        assert.equal(0, pierrot.stats().names, note)
      end
      local s = pierrot.stats()
      assert.equal(s.sent, s.handled + s.dead_letters + s.cancelled)
    end)
  end

  it("in start, however often, ends as the limits say, and takes no worker along", function()
    local other = pierrot.spawn { function(_, x) return x end, worker = 1 }
    for round = 1, sanitized and 10 or 100 do
      local me = pierrot.self()
      local bad = { start = function(_, sleeps)
        me:tell "start"
        if sleeps then pierrot.sleep(0.001) end
        error("start", 0)
      end, stop = function() me:tell "stop" end }
      local parent, monitor = pierrot.spawn { { supervise = { intensity = 3, exceeded = round % 2 == 0 and "escalate" or nil },
        start = function(_, sleeps) pierrot.spawn { bad, sleeps, name = "bad" } end,
        receive = function() return "lives" end }, round % 3 == 0, monitor = true, restart = "temporary" }
      for _ = 1, 4 do assert.equal("start", (pierrot.receive(60))) end
      assert.equal(round, other:ask(round))
      if round % 2 == 0 then
        local what, _, reason, which = pierrot.receive(60)
        assert.same({ "down", "failed" }, { what, reason.kind })
        assert.is_true(which == monitor)
      else
        assert.equal("lives", parent:ask())
        parent:stop()
        assert.equal("down", (pierrot.receive(60)))
      end
      assert.is_nil(pierrot.whereis "bad")
      while pierrot.stats().actors > 1 do pierrot.sleep(0.001) end   -- counted when its down is out
    end
  end)

  it("in start never comes before start is done, with a mailbox that is full", function()
    for round = 1, sanitized and 20 or 300 do
      local me = pierrot.self()
      local a = pierrot.spawn { {
        start = function(self)
          local kid = pierrot.spawn(function() end)
          kid:stop()
          pierrot.yield()
          self.started = true
          me:tell "started"
        end,
        receive = function(self) if not self.started then me:tell "too early" end end }, worker = round % workers + 1 }
      for i = 1, 50 do a:tell(i) end
      assert.equal("started", (pierrot.receive(60)))
      assert.is_true(a:drain())
      while a:is_alive() do pierrot.sleep(0) end
      assert.is_nil((pierrot.receive(0)))
    end
  end)
end)

describe("names", function()
  it("of 32 spawners of one name one gets it, and the next one as soon as its down is out", function()
    for round = 1, sanitized and 5 or 50 do
      assert(pierrot.start { workers = round % 8 + 1, log = "none" })
      local me = pierrot.self()
      local spawner = function()
        local ref, reason = pierrot.spawn { function() end, name = "wanted" }
        me:tell(ref and "got" or reason, ref)
        if ref then pierrot.receive() end   -- keeps it
      end
      for _ = 1, 32 do pierrot.spawn(spawner):tell() end
      local got, exists, holder = 0, 0, nil
      for _ = 1, 32 do
        local what, ref = pierrot.receive(60)
        if what == "got" then got = got + 1 holder = ref else assert.equal("exists", what) exists = exists + 1 end
      end
      assert.same({ 1, 31 }, { got, exists })
      local monitor = pierrot.monitor(holder)
      holder:kill()
      assert.is_true(select(4, pierrot.receive(60)) == monitor)
      assert.is_truthy(pierrot.spawn { function() end, name = "wanted" })
      pierrot.shutdown()
    end
  end)
end)
