-- Bounded mailboxes: what happens to the message that is too many, exactness whoever sends from wherever, priorities,
-- senders that wait, cycles of them, what is exempt, and what can be seen.
--
-- Mutants that these find: a capacity off by one; the bound checked without the lock; drop_oldest that drops the newest;
-- a waiter that is not let in when a message is taken by receive; a waiter that stays after its sender's end or its
-- ask's time-out; no search for a cycle; a down that is refused; a priority heap that forgets the order among equals.

local pierrot = require "pierrot"

local times = require "support.times"
local sanitized = os.getenv "PIERROT_SANITIZER"

local function wait(fn)
  while not fn() do pierrot.sleep(0.001) end
end

-- Collects numbers; can be held, and let go.
local Collector = {
  name = "collector",
  start = function(self) self.got = {} end,
  on = {
    hold = function() pierrot.receive(nil, function(x) return x == "go" end) end,
    get = function(self) local got = self.got self.got = {} return got end,
    n = function(self, i) self.got[#self.got + 1] = i end,
    now = function() return true end,
  },
}

-- One that is held: what is sent now stays in its mailbox, and "go" goes past it.
local function held(mailbox, more)
  local a = pierrot.spawn { Collector, mailbox = mailbox, name = more and more.name, worker = more and more.worker }
  a:tell "hold"
  wait(function() return a:info().state == "suspended" end)
  return a
end

local function sum_holds()
  local s = pierrot.stats()
  return s.sent == s.handled + s.dead_letters + s.cancelled
end

describe("a bounded mailbox", function()
  before_each(function() assert(pierrot.start { workers = 2, log = "none" }) end)
  after_each(function() assert.is_true(pierrot.shutdown(10)) end)

  -- Ten messages to one of capacity 5 that is busy; "go" is refused or dropped like any other, so it is killed or let
  -- go by a message that is let in.
  local function ten(overflow)
    local a = held { capacity = 5, overflow = overflow }
    local results = {}
    for i = 1, 10 do
      local ok, reason = a:tell("n", i)
      results[i] = ok and "ok" or reason
    end
    return a, table.concat(results, " ")
  end

  local function rest_of(a)
    local depth = a:info().depth
    local me = pierrot.self()
    -- A second one takes over what it holds: the mailbox is read by its own owner alone, so it is asked to.
    a:kill()
    wait(function() return not a:is_alive() end)
    return depth, me
  end

  it("rejects: the first five stay", function()
    local a, results = ten "reject"
    assert.equal("ok ok ok ok ok full full full full full", results)
    assert.equal(5, a:info().depth)
    assert.equal(5, pierrot.stats().rejected)
    rest_of(a)
    assert.equal(5, pierrot.stats().dead_letters_by_reason.dead)
    assert.is_true(sum_holds())
  end)

  -- Busy by sleeping: the ten come while it handles the first.
  local function sleeper(overflow)
    local a = pierrot.spawn { {
      start = function(self) self.got = {} end,
      receive = function(self, i)
        if i == 0 then pierrot.sleep(0.1) else self.got[#self.got + 1] = i end
      end,
      on = { get = function(self) return self.got end },
    }, mailbox = { capacity = 5, overflow = overflow } }
    a:tell(0)
    wait(function() return a:info().state == "suspended" end)
    local n = 0
    for i = 1, 10 do n = n + (a:tell(i) and 1 or 0) end
    wait(function() return a:info().depth == 0 and a:info().state == "idle" end)
    return n, a:ask "get", pierrot.stats().dead_letters_by_reason
  end

  it("of ten sent to one of five that is busy: first five, last five, five rejected", function()
    local n, got = sleeper "reject"
    assert.same({ 5, { 1, 2, 3, 4, 5 } }, { n, got })
    local dead
    n, got, dead = sleeper "drop_newest"
    assert.same({ 10, { 1, 2, 3, 4, 5 }, 5 }, { n, got, dead.drop_newest })
    n, got, dead = sleeper "drop_oldest"
    assert.same({ 10, { 6, 7, 8, 9, 10 }, 5 }, { n, got, dead.drop_oldest })
    n, got = sleeper "suspend"
    assert.same({ 10, { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 } }, { n, got })
    assert.is_true(sum_holds())
  end)

  it("is a plain capacity too, which rejects; an ask gets the error \"full\"", function()
    local a = held(1)
    assert.is_true(a:tell("n", 1))
    assert.same({ nil, "full" }, { a:tell("n", 2) })
    local ok, err = pcall(a.ask, a, "now")
    assert.is_false(ok)
    assert.equal("full", err.kind)
    local inside = pierrot.spawn(function(_, ref)
      local _, e = pcall(ref.ask, ref, "now")
      local t, why = ref:tell(1)
      return e.kind, t, why
    end)
    assert.same({ "full", nil, "full" }, { inside:ask(a) })
    local b = held { capacity = 1, overflow = "drop_newest" }
    assert.is_true(b:tell("n", 1))
    ok, err = pcall(b.ask, b, "now")
    assert.is_false(ok)
    assert.equal("full", err.kind)
    local c = held { capacity = 1, overflow = "drop_oldest" }
    local asker = pierrot.spawn(function() return select(2, pcall(c.ask, c, "now")).kind end)
    local me = pierrot.self()
    pierrot.spawn(function() me:tell(asker:ask()) end):tell()
    wait(function() return c:info().depth == 1 end)
    c:tell("n", 1)
    assert.equal("full", pierrot.receive(60))
  end)

  -- 16 producers on all workers against one that is held: what is let in, is dropped, is refused adds up exactly.
  for _, overflow in ipairs { "reject", "drop_newest", "drop_oldest", "suspend" } do
    it("is exact under 16 producers: " .. overflow, function()
      pierrot.shutdown()
      for _, workers in ipairs { 1, 2, 4, 8 } do
        assert(pierrot.start { workers = workers, log = "none" })
        local me, each = pierrot.self(), times(200, 120)   -- more than any capacity, so that each of them waits
        for _, capacity in ipairs { 1, 5, 100 } do
          local before = pierrot.stats()
          local a = held { capacity = capacity, overflow = overflow }
          local producers = {}
          for p = 1, 16 do
            producers[p] = pierrot.spawn(function(_, ref, n)
              local ok = 0
              for i = 1, n do
                if ref:tell("n", p * 1e6 + i) then ok = ok + 1 end
                if i % 7 == 0 then pierrot.yield() end
              end
              me:tell("done", ok)
            end)
            producers[p]:tell(a, each)
          end
          local total = 16 * each
          if overflow == "suspend" then
            wait(function() return a:info().waiting == 16 end)
            assert.equal(capacity, a:info().depth)
          else
            local accepted = 0
            for _ = 1, 16 do accepted = accepted + select(2, pierrot.receive(120)) end
            local info = a:info()
            assert.same({ capacity, capacity }, { info.depth, info.high_water })
            assert.equal(overflow == "reject" and capacity or total, accepted)
            if overflow ~= "reject" then   -- the owner pays what is owed once it has looked through its mailbox
              local function dropped()
                return pierrot.stats().dead_letters_by_reason[overflow] - before.dead_letters_by_reason[overflow]
              end
              wait(function() return dropped() >= total - capacity end)
              assert.equal(total - capacity, dropped())
            end
          end
          a:kill()
          if overflow == "suspend" then     -- all of them are told
            local accepted = 0
            for _ = 1, 16 do accepted = accepted + select(2, pierrot.receive(120)) end
            assert.equal(capacity, accepted)
          end
          wait(function() return not a:is_alive() end)
          for _, p in ipairs(producers) do p:stop() end
        end
        wait(sum_holds)
        assert.is_true(pierrot.shutdown(20))
      end
      assert(pierrot.start { workers = 2, log = "none" })
    end)
  end

  -- A consumer that goes on while 16 send: each one's messages in order, everything accounted for.
  for _, overflow in ipairs { "reject", "drop_newest", "drop_oldest", "suspend" } do
    it("keeps the order of each sender: " .. overflow, function()
      pierrot.shutdown()
      for _, workers in ipairs { 1, 2, 8 } do
        assert(pierrot.start { workers = workers, log = "none" })
        local me, each = pierrot.self(), times(1000, 100)
        local a = pierrot.spawn { {
          start = function(self) self.last, self.n, self.bad = {}, 0, 0 end,
          receive = function(self, p, i)
            if i <= (self.last[p] or 0) then self.bad = self.bad + 1 end
            self.last[p] = i
            self.n = self.n + 1
          end,
          on = { result = function(self) return self.n, self.bad end },
        }, mailbox = { capacity = 7, overflow = overflow } }
        for p = 1, 16 do
          pierrot.spawn(function(_, n)
            local ok = 0
            for i = 1, n do if a:tell(p, i) then ok = ok + 1 end end
            me:tell("done", ok)
          end):tell(each)
        end
        local accepted = 0
        for _ = 1, 16 do accepted = accepted + select(2, pierrot.receive(120)) end
        wait(function() return a:info().depth == 0 and a:info().state == "idle" end)
        local n, bad = a:ask "result"
        local dead = pierrot.stats().dead_letters
        assert.equal(0, bad)
        assert.equal(accepted, n + dead)
        if overflow == "suspend" then assert.equal(16 * each, n) end
        assert.is_true(a:info().high_water <= 7)
        assert.is_true(pierrot.shutdown(20))
      end
      assert(pierrot.start { workers = 2, log = "none" })
    end)
  end

  it("never holds orders, downs and exits", function()
    local me = pierrot.self()
    local a = pierrot.spawn { {
      start = function(self) self.n = 0 end,
      on = { watch = function(_, ref) pierrot.monitor(ref) return true end,
             hold = function() pierrot.sleep(0.1) end, down = function(_, ref) me:tell("down", ref) end },
      receive = function() end, stop = function(_, reason) me:tell("stop", reason) end,
    }, mailbox = 1 }
    local other = pierrot.spawn(function() return true end)
    assert.is_true(a:ask("watch", other))
    a:tell "hold"
    wait(function() return a:info().state == "suspended" end)
    assert.is_true(a:tell(1))
    assert.same({ nil, "full" }, { a:tell(2) })
    other:kill()
    assert.same({ "down", other }, { pierrot.receive(60) })
    a:tell "hold"
    wait(function() return a:info().state == "suspended" end)
    a:tell(1)
    a:drain "drained"
    assert.same({ "stop", "drained" }, { pierrot.receive(60) })
    local b = held(1)
    b:tell("n", 1)
    assert.is_true(b:stop())
    wait(function() return not b:is_alive() end)
  end)

  it("brings a down behind what the ended one had sent", function()
    local me = pierrot.self()
    local a = pierrot.spawn { {
      on = { watch = function(_, ref) pierrot.monitor(ref) return true end,
             hold = function() pierrot.sleep(0.05) end,
             n = function(_, i) me:tell("n", i) end, down = function() me:tell("n", "down") end },
    }, mailbox = 5 }
    local other = pierrot.spawn(function(_, ref) for i = 1, 3 do ref:tell("n", i) end pierrot.stop() end)
    assert.is_true(a:ask("watch", other))
    a:tell "hold"
    wait(function() return a:info().state == "suspended" end)
    other:tell(a)
    local got = {}
    for i = 1, 4 do got[i] = select(2, pierrot.receive(60)) end
    assert.same({ 1, 2, 3, "down" }, got)
  end)

  it("makes dead letters of what a timer sends to a full one", function()
    local a = held { capacity = 1, overflow = "suspend" }
    a:tell("n", 1)
    pierrot.send_after(0, a, "n", 2)
    wait(function() return pierrot.stats().dead_letters_by_reason.full == 1 end)
    a:kill()
  end)

  it("bounds the stash too", function()
    local a = pierrot.spawn { {
      start = function(self) self.refused = 0 end,
      on = { refused = function(self) return self.refused, pierrot.unstash() end },
      receive = function(self) local ok, reason = pierrot.stash() if not ok then self.refused = reason end end,
    }, mailbox = 3 }
    for i = 1, 4 do
      a:tell(i)
      wait(function() return a:info().depth == 0 and a:info().state == "idle" end)
    end
    assert.same({ "full", 3 }, { a:ask "refused" })
  end)

  it("shows depth, high water, capacity, who waits, and the age of the oldest", function()
    local a = held { capacity = 4, overflow = "suspend" }
    for i = 1, 4 do a:tell("n", i) end
    local me = pierrot.self()
    pierrot.spawn(function() me:tell(a:tell("n", 5)) end):tell()
    wait(function() return a:info().waiting == 1 end)
    wait(function() return a:info().oldest >= 0.01 end)
    local info = a:info()
    assert.same({ 4, 4, 4, 1 }, { info.depth, info.high_water, info.capacity, info.waiting })
    a:kill()
    assert.is_nil((pierrot.receive(60)))
  end)

  it("raises \"overload\" at its threshold, at each doubling, and when it is back", function()
    pierrot.subscribe "overload"
    local a = pierrot.spawn { { receive = function(_, x) if x == 0 then pierrot.sleep(0.05) end end },
                              mailbox = { capacity = 100, overload = 10 } }
    a:tell(0)
    wait(function() return a:info().state == "suspended" end)
    for i = 1, 45 do a:tell(i) end
    local seen = {}
    for i = 1, 4 do
      local _, topic, details = pierrot.receive(60)
      assert.same({ "overload", a, 10 }, { topic, details.actor, details.threshold })
      seen[i] = (details.over and "over " or "back ") .. details.depth
    end
    assert.same({ "over 10", "over 20", "over 40", "back 5" }, seen)
    assert.is_nil(pierrot.receive(0.02))
  end)

  it("refuses wrong options at the caller's line", function()
    for _, bad in ipairs { 0, -1, 1.5, 2e6, "big", { capacity = 0 }, { capacity = 5, overflow = "explode" },
                           { overflow = "reject" }, { capacity = 1, size = 2 }, { priority = 1 }, { overload = 0 } } do
      local ok, err = pcall(function() local r = pierrot.spawn { Collector, mailbox = bad } return r end)
      assert.is_false(ok)
      assert.truthy(err:find("mailbox_spec.lua:%d+: spawn: mailbox: "), err)
    end
    local n = 0
    local ok, err = pcall(function()
      local r = pierrot.spawn { Collector, mailbox = { priority = function() n = n + 1 return n end } }
      return r
    end)
    assert.is_false(ok)
    assert.truthy(err:find "upvalue 'n' is assigned", err)
    local big = pierrot.spawn { Collector, mailbox = 1e6 }
    assert.is_true(big:ask "now")
  end)

  -- A consumer that takes more than a hundred times longer than its producer (50 microseconds a message): memory does not
  -- grow with what was sent. 100,000 messages; an hour of a thousand a second is PIERROT_HAMMER=36. Each on its own worker:
  -- on one, the producer would be held back by the turns of the consumer, and take minutes for the hour.
  for _, overflow in ipairs { "reject", "drop_newest", "drop_oldest", "suspend" } do
    it("keeps memory constant under a fast producer: " .. overflow, function()
      local function resident_mb()
        local file = assert(io.open "/proc/self/status")
        local kb = file:read("*a"):match "VmRSS:%s*(%d+)"
        file:close()
        return kb / 1024
      end
      local payload = ("x"):rep(1000)
      local a = pierrot.spawn { function(_, _, i)
        if i % 10 == 0 then
          local until_then = pierrot.now() + 0.0005
          while pierrot.now() < until_then do end
        end
      end, mailbox = { capacity = 100, overflow = overflow }, worker = 2 }
      local producer = pierrot.spawn { function(_, n)
        for i = 1, n do a:tell(payload, i) if i % 100 == 0 then pierrot.yield() end end
        return true
      end, worker = 1 }
      local n = overflow == "suspend" and times(5000, 500) or times(100000, 5000)
      producer:ask_within(600, n / 10)
      local before = resident_mb()
      producer:ask_within(600, n)
      if not sanitized then assert.is_true(resident_mb() - before < 20) end   -- kept, they would be 100 MB
      assert.is_true(a:info().high_water <= 100)
      a:kill()
    end)
  end
end)

describe("priority", function()
  before_each(function() assert(pierrot.start { workers = 2, log = "none" }) end)
  after_each(function() assert.is_true(pierrot.shutdown(10)) end)

  local function by_second(_, _, p) return p or 0 end

  local function queued(mailbox, list)
    local me = pierrot.self()
    local a = pierrot.spawn { {
      on = { hold = function() me:tell "held" pierrot.sleep(0.05) end, n = function(_, i) me:tell("n", i) end },
    }, mailbox = mailbox }
    a:tell("hold", 0, 0)
    assert.equal("held", (pierrot.receive(60)))
    for _, m in ipairs(list) do a:tell("n", m[1], m[2]) end
    return a
  end

  local function taken(n)
    local out = {}
    for i = 1, n do out[i] = select(2, pierrot.receive(60)) end
    return table.concat(out, " ")
  end

  it("takes higher first, first in first out among equals", function()
    queued({ priority = by_second }, { { "a", 1 }, { "b", 3 }, { "c", 1 }, { "d", 2 }, { "e", 3 }, { "f", -1 }, { "g" } })
    assert.equal("b e d a c g f", taken(7))
    local list = {}
    for i = 1, 500 do list[i] = { i, i * 7 % 5 } end
    queued({ priority = by_second, capacity = 1000 }, list)
    local last_p, last_i = 5, 0
    for _ = 1, 500 do
      local i = select(2, pierrot.receive(60))
      local p = i * 7 % 5
      assert.is_true(p < last_p or (p == last_p and i > last_i))
      last_p, last_i = p, i
    end
  end)

  it("with a capacity: what is dropped and refused", function()
    queued({ capacity = 3, overflow = "drop_oldest", priority = by_second }, { { 1, 9 }, { 2, 1 }, { 3, 5 }, { 4, 7 }, { 5, 1 } })
    assert.equal("4 3 5", taken(3))
    queued({ capacity = 3, priority = by_second }, { { 1, 1 }, { 2, 2 }, { 3, 3 }, { 4, 4 } })
    assert.equal("3 2 1", taken(3))
  end)

  it("goes for receive as well, and a drain comes last", function()
    local me = pierrot.self()
    local a = pierrot.spawn { {
      start = function()
        me:tell("ready")
        pierrot.sleep(0.05)
        local first = select(2, pierrot.receive(60, function(_, i) return i ~= "b" end))
        me:tell("n", first)
        while true do me:tell("n", (select(2, pierrot.receive()))) end
      end,
      stop = function(_, reason) me:tell("n", reason) end,
    }, mailbox = { priority = by_second } }
    assert.equal("ready", (pierrot.receive(60)))
    a:tell("n", "a", 1)
    a:tell("n", "b", 3)
    a:tell("n", "c", 2)
    a:drain "drained"
    assert.equal("c b a drained", taken(4))
  end)

  it("an error in it counts as 0", function()
    queued({ priority = function(_, _, p) return p > 0 and p or error "bad" end }, { { 1, -5 }, { 2, 1 }, { 3, -5 } })
    assert.equal("2 1 3", taken(3))
  end)
end)

describe("a sender that waits for room", function()
  before_each(function() assert(pierrot.start { workers = 2, log = "none" }) end)
  after_each(function() assert.is_true(pierrot.shutdown(10)) end)

  local full = { capacity = 1, overflow = "suspend" }

  it("does not hold its worker, and goes on when there is room", function()
    local me = pierrot.self()
    local a = pierrot.spawn { { on = { hold = function() pierrot.receive(nil, function(x) return x == "go" end) end,
                                       n = function(_, i) me:tell("n", i) end } }, mailbox = full, worker = 1 }
    a:tell "hold"
    wait(function() return a:info().state == "suspended" end)
    local function sender(i)
      local s = pierrot.spawn { function(_, what, x) me:tell("told", a:tell(what, x)) end, worker = 1 }
      s:tell("n", i)
      return s
    end
    sender(1)
    assert.same({ "told", true }, { pierrot.receive(60) })
    local s = sender(2)
    wait(function() return s:info().state == "suspended" end)
    assert.equal(1, pierrot.spawn { function() return 1 end, worker = 1 }:ask_within(60))
    -- "go" would have to wait as well: a stop lets all go.
    a:stop()
    assert.same({ "told", nil, "dead" }, { pierrot.receive(60) })
  end)

  it("outside blocks its thread, and for ask_timeout at most", function()
    pierrot.shutdown()
    assert(pierrot.start { workers = 2, log = "none", ask_timeout = 0.1 })
    local a = held(full)
    assert.is_true(a:tell("n", 1))
    local before = pierrot.now()
    assert.same({ nil, "full" }, { a:tell("n", 2) })
    assert.is_true(pierrot.now() - before >= 0.1)
    assert.same({ 1, 0 }, { a:info().depth, a:info().waiting })
    local ok, err = pcall(a.ask, a, "now")
    assert.is_false(ok)
    assert.equal("timeout", err.kind)
    assert.equal(0, a:info().waiting)
    pierrot.shutdown()
    assert(pierrot.start { workers = 2, log = "none" })   -- with more time
    local b = pierrot.spawn { function(_, s) pierrot.sleep(s) end, mailbox = full }
    for _ = 1, 5 do assert.is_true(b:tell(0.01)) end
  end)

  it("leaves the line when it is killed, or its ask gives up", function()
    local a = held(full)
    a:tell("n", 1)
    local s = pierrot.spawn(function() a:tell("n", 2) end)
    s:tell()
    wait(function() return a:info().waiting == 1 end)
    s:kill()
    wait(function() return a:info().waiting == 0 end)
    local me = pierrot.self()
    local t = pierrot.spawn(function() me:tell(select(2, pcall(a.ask_within, a, 0.02, "now")).kind) end)
    t:tell()
    assert.equal("timeout", (pierrot.receive(60)))
    assert.same({ 1, 0 }, { a:info().depth, a:info().waiting })
    a:kill()
  end)

  it("asks are answered after their wait", function()
    local a = pierrot.spawn { function(_, x) pierrot.sleep(0.002) return 2 * x end, mailbox = full }
    local me = pierrot.self()
    for i = 1, 20 do pierrot.spawn(function() me:tell(i, a:ask_within(60, i)) end):tell() end
    for _ = 1, 20 do
      local i, twice = pierrot.receive(60)
      assert.equal(2 * i, twice)
    end
  end)

  it("forwards with the ask, too", function()
    local a = pierrot.spawn { function(_, x) pierrot.sleep(0.002) return 2 * x end, mailbox = full }
    local desk = pierrot.spawn(function() pierrot.forward(a) end)
    local me = pierrot.self()
    for i = 1, 20 do pierrot.spawn(function() me:tell(i, desk:ask_within(60, i)) end):tell() end
    for _ = 1, 20 do
      local i, twice = pierrot.receive(60)
      assert.equal(2 * i, twice)
    end
  end)

  it("says where Lua cannot suspend", function()
    local a = held(full)
    a:tell("n", 1)
    local b = pierrot.spawn(function(_, ref)
      return select(2, pcall(string.gsub, "x", "x", function() ref:tell("n", 2) end))
    end)
    assert.truthy(b:ask(a):find "tell: cannot suspend here")
    a:kill()
  end)

  it("a cycle is found and named", function()
    local me = pierrot.self()
    local B = {
      on = {
        peer = function(self, ref) self.peer = ref return true end,
        -- Fills the other, and itself is filled.
        go = function(self)
          local ok, err
          repeat ok, err = pcall(self.peer.tell, self.peer, "go") until not ok or not err   -- or the other has ended
          if not ok then me:tell(err.kind, err.message) end
          pierrot.stop()
        end,
      },
    }
    local a = pierrot.spawn { B, mailbox = full, name = "ann" }
    local b = pierrot.spawn { B, mailbox = full, name = "bob" }
    assert(a:ask("peer", b) and b:ask("peer", a))
    a:tell "go"
    local kind, message = pierrot.receive(60)
    assert.equal("deadlock", kind)
    assert.truthy(message:find "ann" and message:find "bob" and message:find "%->", message)
    a:kill()
    b:kill()
    -- Itself.
    local c = pierrot.spawn { function() pierrot.self():tell(1) return pcall(pierrot.tell, pierrot.self(), 2) end,
                              mailbox = full }
    local ok, err = c:ask()
    assert.is_false(ok)
    assert.equal("deadlock", err.kind)
    c:kill()
  end)

  -- Two that send to each other, with timers among it: they go on or say "deadlock", and nothing hangs.
  for _, workers in ipairs { 1, 2, 4, 8 } do
    it("never hangs in silence: " .. workers .. " workers", function()
      pierrot.shutdown()
      assert(pierrot.start { workers = workers, log = "none" })
      local me = pierrot.self()
      local B = {
        on = {
          begin = function(self, peer, n)
            self.peer, self.left = peer, n
            pierrot.send_every(0.001, pierrot.self(), "tick")
          end,
          tick = function(self) self:send() end,
          ball = function(self) self:send() end,
        },
        start = function(self)
          self.sent = 0
          self.send = function(s)
            if not s.peer or s.left == 0 then return end
            s.left = s.left - 1
            local ok, err = pcall(s.peer.tell, s.peer, "ball")
            if ok then s.sent = s.sent + 1 elseif err.kind ~= "deadlock" then error(err) end
            if s.left == 0 then me:tell("done", s.sent) end
          end
        end,
      }
      for _ = 1, times(10, 2) do
        local a, b = pierrot.spawn { B, mailbox = full }, pierrot.spawn { B, mailbox = full }
        a:tell("begin", b, 50)
        b:tell("begin", a, 50)
        for _ = 1, 2 do
          local done, sent = pierrot.receive(60)
          assert.equal("done", done)
          assert.is_true(sent > 0)
        end
        a:kill()
        b:kill()
      end
    end)
  end
end)
