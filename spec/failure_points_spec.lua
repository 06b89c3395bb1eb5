-- Every place where a script's code can raise, in every state: the failure is one of its actor's alone, its parent decides,
-- and the tree ends as it should. For each point, by each kind of rules, with the parent idle, suspended and busy: what the
-- rules say comes about, no ask waits for nothing, every life that has started is stopped once, and at the end neither
-- actor nor name is left.
--
-- Mutants caught: a child whose decision has failed forgotten when its parent is resumed; timers of `stop` that outlive it;
-- a failed `start` that is owed a `stop`; the limit not counted for a failed `start`.
-- sanitizers: address

local pierrot = require "pierrot"
local times = require "support.times"
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
  ["match of receive, of what is queued"] = { { "match queued" } },
  ["match of receive, asked"] = { { "match queued" }, ask = true },
  ["in receive, of the message taken"] = { { "take and raise" } },
  ["while asking another one"] = { { "ask and raise" } },
  ["while its ask fails"] = { { "failed ask" } },
  ["a message that a timer sends"] = { { "timer" } },
  ["after a deferred reply"] = { { "defer and raise" }, ask = "deferred" },
  ["a deferred reply that cannot be sent"] = { { "defer badly" }, ask = "timeout" },
  ["while a deferred reply is pending"] = { { "defer and go" }, ask = "timeout" },
  ["a reply that cannot be sent"] = { { "bad reply" }, ask = true },
  ["after become"] = { { "become" }, { "raise" } },
  ["after stash"] = { { "stash" }, { "raise" } },
  ["while told to stop"] = { { "stop and raise" }, ends = true },
  ["in stop"] = { { "stop badly" }, ends = true, bad_stop = true },
  ["in stop, suspended"] = { { "stop badly", 0.001 }, ends = true, bad_stop = true },
  ["in stop, told by its parent"] = { { "bad stop" }, { "be stopped" }, ends = true, bad_stop = true },
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
      ["match queued"] = function()
        pierrot.self():tell "bait"
        pierrot.receive(60, function() error("raised", 0) end)
      end,
      ["take and raise"] = function()
        pierrot.self():tell "its own"
        assert(pierrot.receive(60, function(what) return what == "its own" end))
        error("raised", 0)
      end,
      ["ask and raise"] = function()
        local other = pierrot.spawn(function() return "x" end)
        error(other:ask(), 0)
      end,
      ["failed ask"] = function()
        local other = pierrot.spawn { function() error("of the other one", 0) end, restart = "temporary" }
        other:ask()
      end,
      ["defer badly"] = function() pierrot.defer():reply(function() end) end,
      ["be stopped"] = function() pierrot.parent():tell("stop child", (pierrot.self())) end,
      ["bad reply"] = function() return function() end end,
      become = function() pierrot.become { raise = function() error("raised", 0) end, bait = function() return "taken" end } end,
      stash = function()
        if pierrot.self():info().restarts > 0 then return end   -- it comes back with the restart
        pierrot.stash() pierrot.become { raise = function() error("raised", 0) end, bait = function() return "taken" end }
      end,
      ["stop and raise"] = function() pierrot.stop() error("raised", 0) end,
      ["bad stop"] = function(self) self.bad_stop = true end,
      ["stop badly"] = function(self, seconds) self.bad_stop, self.seconds = true, seconds pierrot.stop() end,
      bait = function() return "taken" end,
      count = function(self) self.n = self.n + 1 return self.n end,
    },
    stop = function(self)
      to:tell("life", -1)
      if self.seconds then pierrot.sleep(self.seconds) end
      if self.bad_stop then error("raised in stop", 0) end
    end,
  }
end

-- What a parent's rules make of a failure, `by`: the child is restarted, resumed, stopped, or its parent fails and is restarted.
local parents = {
  ["the default rules"] = { by = "restart" },
  ["rules"] = { by = "restart", rules = { intensity = 10 } },
  ["one_for_all"] = { by = "restart", rules = { strategy = "one_for_all" } },
  ["rest_for_one"] = { by = "restart", rules = { strategy = "rest_for_one", count = "all", intensity = 20 } },
  ["a back-off"] = { by = "restart", rules = { backoff = { min = 0.001, max = 0.002 } } },
  ["on_failure: restart"] = { by = "restart", rules = { on_failure = function() return "restart" end } },
  ["on_failure: nothing"] = { by = "restart", rules = { on_failure = function() end } },
  ["on_failure: resume"] = { by = "resume", rules = { on_failure = function() return "resume" end } },
  ["on_failure: stop"] = { by = "stop", rules = { on_failure = function() return "stop" end } },
  ["no restarts"] = { by = "stop", rules = { intensity = 0 } },
  ["on_failure: escalate"] = { by = "escalate", rules = { on_failure = function() return "escalate" end } },
  ["no restarts, escalate"] = { by = "escalate", rules = { intensity = 0, exceeded = "escalate" } },
}

-- What the parent does when the failure comes.
local circumstances = {
  ["idle"] = function() end,
  ["suspended"] = function(parent) parent:tell("nap", 0.003) end,
  ["with a backlog"] = function(parent) for _ = 1, 200 do parent:tell "ping" end end,
}

local function parent_with(rules, child, options)
  return {
    name = "parent", supervise = rules,
    on = {
      children = function(self)
        for _, name in ipairs { "a", "b" } do
          if not self[name] then
            self[name] = pierrot.spawn { child, name = name, mailbox = options and options.mailbox }
          end
        end
        return self.a, self.b
      end,
      nap = function(_, seconds) pierrot.sleep(seconds) end,
      ping = function() return "pong" end,
      ["stop child"] = function(_, whom) whom:stop() end,
    } }
end

local function await(note, condition)
  local since = pierrot.now()
  while not condition() do
    pierrot.sleep(0.0005)
    assert.is_true(pierrot.now() - since < 60, note)
  end
end

local function dead(ref) return function() return not ref:is_alive() end end
local function restarted(ref, n) return function() return (ref:info() or { restarts = 0 }).restarts >= n end end

-- Ends the tree: every life that has started is stopped once, and nothing is left.
local function ends(parent, note)
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
end

local function nothing_is_left(note)
  await(note, function() return pierrot.stats().actors == 0 end)
  assert.equal(0, pierrot.stats().names, note)
end

local function all_accounted_for()
  local s = pierrot.stats()
  assert.equal(s.sent, s.handled + s.dead_letters + s.cancelled)
end

describe("a failure", function()
  local workers = 0
  before_each(function()
    workers = workers % 4 + 1
    assert(pierrot.start { workers = workers, log = "none", ask_timeout = 60 })
  end)
  after_each(function() pierrot.shutdown() end)

  local function case(point, rule, circumstance, note)
    local parent = pierrot.spawn { parent_with(rule.rules, child_of(pierrot.self())), name = "parent" }
    local a, b = parent:ask "children"
    assert.equal(1, a:ask "count")
    assert.equal(1, b:ask "count")
    circumstance(parent)
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
      await(note, dead(a))
    elseif rule.by == "restart" then
      await(note, restarted(a, 1))
      assert.equal(1, a:ask "count", note)
      assert.equal(1, a:info().restarts, note)
    elseif rule.by == "resume" then
      assert.equal("taken", a:ask "bait", note)   -- it goes on
      assert.equal(0, a:info().restarts, note)
    elseif rule.by == "stop" then
      await(note, dead(a))
    else
      await(note, restarted(parent, 1))
      assert.is_false(a:is_alive(), note)
      assert.is_false(b:is_alive(), note)
      a, b = parent:ask "children"
      assert.equal(1, a:ask "count", note)
    end
    assert.is_true(b:ask "count" >= 1, note)
    assert.is_true(pierrot.whereis "b" == b, note)
    assert.same({ a, b }, { parent:ask "children" }, note)   -- the parent has lived on
    assert.equal(not point.ends and rule.by == "escalate" and 1 or 0, parent:info().restarts, note)
    ends(parent, note)
    nothing_is_left(note)
  end

  for where, point in pairs(points) do
    it("of " .. where .. " is the child's alone", function()
      for how, rule in pairs(parents) do
        for when, circumstance in pairs(circumstances) do
          case(point, rule, circumstance, where .. ", " .. how .. ", " .. when)
        end
      end
      all_accounted_for()
    end)
  end

  -- The first two lives of each child fail in `start`.
  local starts = {
    ["start"] = function() error("start", 0) end,
    ["start, suspended before"] = function() pierrot.sleep(0.001) error("start", 0) end,
    ["start, with a child"] = function() pierrot.spawn(function() end) error("start", 0) end,
    ["start, in the match of receive"] = function()
      pierrot.self():tell "bait"
      pierrot.receive(60, function() error("start", 0) end)
    end,
  }
  for where, raise in pairs(starts) do
    it("of " .. where .. " follows the same rules", function()
      for how, rule in pairs(parents) do
        local note = where .. ", " .. how
        local me = pierrot.self()
        local tally = pierrot.spawn { { start = function(self) self.lives = {} end, receive = function(self, who)
          self.lives[who] = (self.lives[who] or 0) + 1
          return self.lives[who]
        end }, name = "tally" }
        local parent = pierrot.spawn { parent_with(rule.rules, {
          name = "child",
          start = function()
            if pierrot.ask("tally", pierrot.self():info().name) <= 2 then raise() end
            me:tell("life", 1)
          end,
          on = { count = function() return 1 end, bait = function() end },
          stop = function() me:tell("life", -1) end }), name = "parent" }
        local a, b = parent:ask "children"
        if rule.by == "stop" then
          await(note, dead(a)) await(note, dead(b))
          assert.equal(0, parent:info().restarts, note)
        elseif rule.by == "escalate" then
          -- Each failure takes both children along, and is the parent's; the root restarts that three times.
          await(note, function() return dead(a)() and dead(b)() end)
          while parent:is_alive() do
            local ok, x, y = pcall(parent.ask, parent, "children")
            if ok and x:is_alive() and y:is_alive() and pcall(x.ask, x, "count") and pcall(y.ask, y, "count") then break end
          end
          assert.is_true(not parent:is_alive() or parent:info().restarts >= 2, note)
        else
          assert.equal(1, a:ask "count", note)
          assert.equal(1, b:ask "count", note)
          assert.equal(0, parent:info().restarts, note)
          assert.is_true(a:info().restarts >= 2, note)
        end
        if parent:is_alive() then
          assert.equal("pong", parent:ask "ping", note)
        end
        ends(parent, note)
        tally:stop()
        nothing_is_left(note)
      end
      all_accounted_for()
    end)
  end

  it("of a priority function is no failure: the message counts as one of priority 0", function()
    for how, rule in pairs(parents) do
      local child = child_of(pierrot.self())
      child.on.order = function(self, n) self.n = self.n * 10 + n return self.n end
      local parent = pierrot.spawn { parent_with(rule.rules, child, { mailbox = { priority = function(_, n)
        if n == 1 then error("in priority", 0) elseif n == 2 then return "none" elseif n == 3 then return pierrot.sleep(1) end
        return n
      end } }), name = "parent" }
      local a, b = parent:ask "children"
      for n = 1, 3 do a:tell("order", n) end
      assert.equal(123, a:ask("order", 0) / 10, how)
      assert.equal(0, a:info().restarts, how)
      assert.equal(1, b:ask "count", how)
      ends(parent, how)
      nothing_is_left(how)
    end
    all_accounted_for()
  end)

  -- on_failure that fails is the failure of the parent, by the rules of its own parent.
  local bad_answers = {
    raises = function() error("in on_failure", 0) end,
    ["returns no verdict"] = function() return "maybe" end,
    waits = function() pierrot.sleep(1) end,
    receives = function() pierrot.receive() end,
    asks = function(_, child) return child:ask "count" end,
  }
  for what, on_failure in pairs(bad_answers) do
    it("of on_failure that " .. what .. " is the parent's, in whatever state", function()
      for how, rule in pairs(parents) do
        for when, circumstance in pairs(circumstances) do
          local note = what .. ", " .. how .. ", " .. when
          local middle = parent_with({ on_failure = on_failure }, child_of(pierrot.self()))
          local top = pierrot.spawn { { supervise = rule.rules,
            receive = function(self)
              self.parent = self.parent or pierrot.spawn { middle, name = "middle" }
              return self.parent
            end }, name = "top" }
          local parent = top:ask()
          local a, b = parent:ask "children"
          assert.equal(1, b:ask "count", note)
          circumstance(parent)
          a:tell "raise"
          if rule.by == "resume" then   -- and the child with it
            assert.equal(1, a:ask "count", note)
            assert.equal(2, b:ask "count", note)
            assert.equal(0, a:info().restarts + parent:info().restarts, note)
          else
            await(note, dead(a)) await(note, dead(b))
            if rule.by == "restart" then
              await(note, restarted(parent, 1))
              a = parent:ask "children"
              assert.equal(1, a:ask "count", note)
            elseif rule.by == "stop" then
              await(note, dead(parent))
            else
              await(note, restarted(top, 1))
              assert.is_false(parent:is_alive(), note)
            end
          end
          assert.equal(rule.by == "escalate" and 1 or 0, top:info().restarts, note)
          ends(top, note)
          nothing_is_left(note)
        end
      end
      all_accounted_for()
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

end)

describe("a start", function()
  local function spawn_full(me, worker)
    local a = pierrot.spawn { {
      start = function(self)
        local kid = pierrot.spawn(function() end)
        if math.random(2) == 1 then pierrot.sleep(math.random() / 5000) end
        kid:stop()
        pierrot.yield()
        self.started = true
        me:tell "started"
      end,
      receive = function(self) if not self.started then me:tell "too early" end end }, worker = worker }
    for i = 1, 50 do a:tell(i) end
    assert.equal("started", (pierrot.receive(60)))
    local monitor = pierrot.monitor(a)
    assert.is_true(a:drain())
    assert.is_true(select(4, pierrot.receive(60)) == monitor)
    assert.is_nil((pierrot.receive(0)))
  end

  for workers = 1, 8 do
    it("that spawns, stops and waits is over before the first of a full mailbox is handled, with " .. workers .. " workers",
      function()
        assert(pierrot.start { workers = workers, log = "none" })
        for round = 1, times(125, 3) do spawn_full(pierrot.self(), round % workers + 1) end
        pierrot.shutdown()
      end)
  end
end)

describe("names", function()
  local function contend(me)
    local spawner = function()
      local ref, reason = pierrot.spawn { function() end, name = "wanted" }
      me:tell(ref and "got" or reason, ref)
      if ref then pierrot.receive() end   -- keeps it
    end
    local spawners = {}
    for i = 1, 32 do spawners[i] = pierrot.spawn(spawner) spawners[i]:tell() end
    local got, exists, holder = 0, 0, nil
    for _ = 1, 32 do
      local what, ref = pierrot.receive(60)
      if what == "got" then got = got + 1 holder = ref else assert.equal("exists", what) exists = exists + 1 end
    end
    assert.same({ 1, 31 }, { got, exists })
    local monitor = pierrot.monitor(holder)
    holder:kill()
    assert.is_true(select(4, pierrot.receive(60)) == monitor)
    local heir, heir_monitor = pierrot.spawn { function() end, name = "wanted", monitor = true }
    assert.is_truthy(heir)
    for i = 1, 32 do spawners[i]:kill() end
    heir:kill()
    assert.is_true(select(4, pierrot.receive(60)) == heir_monitor)
  end

  for workers = 1, 8 do
    it("of 32 spawners of one name one gets it, and the next one as soon as its down is out, with " .. workers .. " workers",
      function()
        assert(pierrot.start { workers = workers, log = "none" })
        for _ = 1, times(125, 2) do contend(pierrot.self()) end
        pierrot.shutdown()
      end)
  end
end)
