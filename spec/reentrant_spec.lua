-- Reentrant actors: messages are taken while earlier handlers are suspended; one handler runs at a time all the same.
--
-- Mutants that these find: a bound off by one; handlers that go on in another order than their replies came; a reply
-- that goes to the oldest handler rather than its own; a hand (sender, ask, stash) that is the last message's; a receive
-- that loses its message to a new handler; a tell that lets other handlers in; a yield that starves messages, or messages
-- that starve a yield; a failure after which the other handlers go on, or whose askers wait for their time-out; a stop that
-- does not wait for handlers, or for those in receive; an edge for the deadlock search below the bound, or after an ask has
-- been passed on.

local pierrot = require "pierrot"

local times = require "support.times"

local function wait(fn)
  while not fn() do pierrot.sleep(0.001) end
end

-- Keeps what it is asked until it is let go: "hold" is answered when "release" comes, with what that says.
local Gate = {
  name = "gate",
  start = function(self) self.held = {} end,
  on = {
    hold = function(self, key) self.held[key] = self.held[key] or {} table.insert(self.held[key], pierrot.defer()) end,
    release = function(self, key, ...)
      for _, reply in ipairs(self.held[key] or {}) do reply:reply(...) end
      self.held[key] = nil
    end,
    count = function(self, key) return #(self.held[key] or {}) end,
  },
}

-- Asks in the background, as actors do; `answers` collects what came, by name.
local Asker = {
  name = "asker",
  start = function(self, ref, ...) self.result = { pcall(ref.ask_within, ref, 60, ...) } end,
  on = { get = function(self)
    local ok, err = unpack(self.result, 1, 2)
    if not ok then return false, err.kind, err.message end
    return unpack(self.result, 1, 5)
  end },
}
local function background(ref, ...)
  return pierrot.spawn(Asker, ref, ...)
end

-- Of the error that it got.
local function kind(asker)
  local ok, what = asker:ask "get"
  return not ok and what
end

describe("a reentrant actor", function()
  before_each(function() assert(pierrot.start { workers = 2, log = "none" }) end)
  after_each(function() assert.is_true(pierrot.shutdown(10)) end)

  local function waiter(options)
    local gate = pierrot.spawn(Gate)
    local spec = { {
      name = "waiter",
      start = function(self, ref) self.gate, self.order, self.lives = ref, {}, (self.lives or 0) + 1 end,
      on = {
        ask = function(self, key) self.order[#self.order + 1] = key return key, (self.gate:ask_within(60, "hold", key)) end,
        who = function(self, key) self.gate:ask_within(60, "hold", key) return pierrot.sender() end,
        order = function(self) return table.concat(self.order, " ") end,
        fail = function(self, key) if key then self.gate:ask_within(60, "hold", key) end error("no more", 0) end,
        sleep = function(_, s) pierrot.sleep(s) return "slept" end,
      },
      stop = function() end,
    }, gate, reentrant = true }
    for key, value in pairs(options or {}) do spec[key] = value end
    return pierrot.spawn(spec), gate
  end
  local function holds(gate, key, n)
    wait(function() return gate:ask("count", key) == (n or 1) end)
  end

  it("takes messages while handlers are suspended; each answer goes to its own asker", function()
    local w, gate = waiter()
    local a, b, c = background(w, "ask", "a"), background(w, "ask", "b"), background(w, "who", "c")
    holds(gate, "a") holds(gate, "b") holds(gate, "c")
    assert.truthy(({ ["a b"] = true, ["b a"] = true })[w:ask "order"])
    gate:tell("release", "b", "for b")
    assert.same({ true, "b", "for b" }, { b:ask "get" })
    gate:tell("release", "c")
    assert.same({ true, c }, { c:ask "get" })
    gate:tell("release", "a", "for a")
    assert.same({ true, "a", "for a" }, { a:ask "get" })
  end)

  it("stash, defer and forward are those of the handler's own message", function()
    local gate = pierrot.spawn(Gate)
    local w = pierrot.spawn { { on = {
      later = function(_, key) gate:ask_within(60, "hold", key) if key == "s" then pierrot.stash() return pierrot.become {
        later = function(_, again) return "later " .. again end } end return "now" end,
      defer = function(self, key) gate:ask_within(60, "hold", key) self.deferred = pierrot.defer() end,
      give = function(self)
        while not self.deferred do pierrot.sleep(0.001) end   -- its handler may be slower than this message
        self.deferred:reply "given"
      end,
      pass = function(_, key) gate:ask_within(60, "hold", key) pierrot.forward(gate) end,
      unstash = function() return pierrot.unstash() end,
    } }, reentrant = true }
    local s, d, f = background(w, "later", "s"), background(w, "defer", "d"), background(w, "pass", "f")
    for _, key in ipairs { "s", "d", "f" } do holds(gate, key) end
    gate:tell("release", "d") gate:tell("release", "f")
    w:tell "give"     -- before become
    assert.same({ true, "given" }, { d:ask "get" })
    f:kill()
    gate:tell("release", "s")
    wait(function() return select(2, pcall(w.ask, w, "unstash")) ~= 1 end)   -- become has only "later"
    w:tell "x"
    s:kill()
  end)

  for _, workers in ipairs { 1, 2, 4, 8 } do
    it("has at most so many under way, and so many: " .. workers .. " workers", function()
      pierrot.shutdown(10)
      assert(pierrot.start { workers = workers, log = "none" })
      for _, bound in ipairs { 1, 2, 7 } do
        local w = pierrot.spawn { {
          start = function(self) self.now, self.most, self.done = 0, 0, 0 end,
          on = {
            work = function(self, i)
              self.now = self.now + 1
              self.most = math.max(self.most, self.now)
              if i % 3 == 0 then pierrot.yield() else pierrot.sleep(0.001 * (i % 3)) end
              self.now, self.done = self.now - 1, self.done + 1
              return i
            end,
            most = function(self) return self.most end,
          },
        }, reentrant = bound }
        local asks = {}
        for i = 1, times(300, 60) do asks[i] = { w, "work", i } end
        local results = pierrot.ask_all(asks, 60)
        for i, r in ipairs(results) do assert.equal(i, r[1]) end
        assert.equal(bound, w:ask "most")
      end
    end)
  end

  it("goes on with its handlers in the order in which what they wait for comes", function()
    for worker = 1, 2 do
      local gate = pierrot.spawn { { start = Gate.start, on = {
        hold = Gate.on.hold, count = Gate.on.count,
        release = function(self, keys)     -- all in one turn: several are ready before the first goes on
          for _, key in ipairs(keys) do self.held[key][1]:reply(key) end
        end,
      } }, worker = worker }
      local w = pierrot.spawn { {
        start = function(self) self.order = {} end,
        on = {
          hold = function(self, key)
            local answer = gate:ask_within(60, "hold", key)
            self.order[#self.order + 1] = answer
            return true
          end,
          order = function(self) return table.concat(self.order, " ") end,
        },
      }, reentrant = true, worker = 1 }
      local askers, keys = {}, { 3, 7, 1, 5, 8, 2, 6, 4 }
      for key = 1, #keys do
        askers[key] = background(w, "hold", key)
        holds(gate, key)
      end
      gate:tell("release", keys)
      for key = 1, #keys do assert.same({ true, true }, { askers[key]:ask "get" }) end
      assert.equal(table.concat(keys, " "), w:ask "order")
    end
  end)

  it("runs one handler at a time: a tell is no suspension, however many there are", function()
    local sink = pierrot.spawn { function() end, worker = 1 }
    local w = pierrot.spawn { { on = {
      burst = function(self)
        assert(not self.inside)
        self.inside = true
        for i = 1, 20000 do sink:tell(i) end   -- stands back for the sink on its worker, again and again
        self.inside = false
        return true
      end,
    } }, reentrant = true, worker = 1 }
    local asks = {}
    for i = 1, 8 do asks[i] = { w, "burst" } end
    for _, r in ipairs(pierrot.ask_all(asks, 60)) do assert.is_true(r[1]) end
  end)

  it("handlers that yield and new messages take turns", function()
    local w = pierrot.spawn { { on = {
      spin = function(self) repeat pierrot.yield() until self.over return "over" end,
      flood = function(self, n)       -- tells itself the next, until a handler has got on between them
        self.floods = n
        if not self.slept then pierrot.self():tell("flood", n + 1) end
      end,
      nap = function(self) pierrot.sleep(0.005) self.slept = true return "up" end,
      stop = function(self) self.over = true return "told" end,
    } }, reentrant = true }
    local spinner = background(w, "spin")
    assert.equal("told", w:ask_within(60, "stop"))
    assert.same({ true, "over" }, { spinner:ask "get" })
    w:tell("flood", 1)
    assert.equal("up", w:ask_within(60, "nap"))
  end)

  it("a handler in receive gets the next message; what does not match stays in line", function()
    local gate = pierrot.spawn(Gate)
    local w = pierrot.spawn { {
      start = function(self) self.seen = {} end,
      on = {
        wait_for = function(_, what) return pierrot.receive(60, function(x) return x == what end) end,
        any = function() return pierrot.receive(60) end,
        held = function(self, key) gate:ask_within(60, "hold", key) self.seen[#self.seen + 1] = key return key end,
        other = function(self, x) self.seen[#self.seen + 1] = x end,
        seen = function(self) return table.concat(self.seen, " ") end,
      },
    }, reentrant = true }
    local first = background(w, "held", "k")
    holds(gate, "k")
    local x = background(w, "wait_for", "x")
    wait(function() return w:info().state == "suspended" end)
    w:tell("other", 1)
    gate:tell("release", "k")                       -- a handler that was there before goes on meanwhile
    assert.same({ true, "k" }, { first:ask "get" })
    w:tell("other", 2)
    wait(function() return w:info().depth == 2 end)
    w:tell("x", "for x")
    assert.same({ true, "x", "for x" }, { x:ask "get" })
    assert.equal("k 1 2", w:ask "seen")
    local any = background(w, "any")
    wait(function() return w:info().state == "suspended" end)
    w:tell("other", 3)
    assert.same({ true, "other", 3 }, { any:ask "get" })
  end)

  it("several can be in receive, each with its own match", function()
    local gate = pierrot.spawn(Gate)
    local w = pierrot.spawn { { on = { pick = function(_, key)
      gate:ask_within(60, "hold", "start")
      return pierrot.receive(60, function(what, k) return what == "for" and k == key end)
    end } }, reentrant = true }
    local askers = {}
    for i = 1, 5 do askers[i] = background(w, "pick", i) end
    holds(gate, "start", 5)
    gate:tell("release", "start")
    wait(function() return w:info().state == "suspended" end)
    for i = 5, 1, -1 do w:tell("for", i) end
    for i = 1, 5 do assert.same({ true, "for", i }, { askers[i]:ask "get" }) end
  end)

  it("fails as one: the other handlers end, their askers are told at once; a new life is a fresh one", function()
    local w, gate = waiter()
    local a, f = background(w, "ask", "a"), background(w, "fail", "f")
    holds(gate, "a") holds(gate, "f")
    local t = pierrot.now()
    gate:tell("release", "f")
    assert.equal("failed", kind(f))
    assert.equal("failed", kind(a))
    assert.truthy(select(3, a:ask "get"):find("no more", 1, true))
    assert.is_true(pierrot.now() - t < 30)          -- not by a time-out
    assert.equal("", w:ask "order")
    assert.equal(1, w:info().restarts)
    gate:tell("release", "a", "too late")           -- to a handler that is no more
    wait(function() return pierrot.stats().late_replies == 1 end)
    local again = background(w, "ask", "b")
    holds(gate, "b")
    gate:tell("release", "b", "fine")
    assert.same({ true, "b", "fine" }, { again:ask "get" })
  end)

  it("after a failure that its parent answers with \"resume\" the other handlers go on", function()
    local gate = pierrot.spawn(Gate)
    local boss = pierrot.spawn { {
      supervise = { on_failure = function() return "resume" end },
      start = function(self)
        self.child = pierrot.spawn { { on = {
          hold = function(me, key) me.held = key return (gate:ask_within(60, "hold", key)) end,
          next = function() return pierrot.receive(60) end,
          fail = function() gate:ask_within(60, "hold", "fail") error("no", 0) end,
          held = function(me) return me.held end,
        } }, reentrant = true }
      end,
      on = { child = function(self) return self.child end },
    } }
    local child = boss:ask "child"
    local f = background(child, "fail")
    holds(gate, "fail")
    local a = background(child, "hold", "a")
    holds(gate, "a")
    local r = background(child, "next")
    wait(function() return child:info().state == "suspended" end)
    gate:tell("release", "fail")
    assert.equal("failed", kind(f))
    gate:tell("release", "a", 7)
    assert.same({ true, 7 }, { a:ask "get" })
    child:tell("for the one in receive")
    assert.same({ true, "for the one in receive" }, { r:ask "get" })
    assert.equal("a", child:ask "held")
    assert.equal(0, child:info().restarts)
  end)

  it("stop and drain let its handlers finish, and take no more messages", function()
    for _, how in ipairs { "stop", "drain" } do
      local w, gate = waiter()
      local a, b = background(w, "ask", "a"), background(w, "ask", "b")
      holds(gate, "a") holds(gate, "b")
      w[how](w)
      wait(function() return w:info().state == "stopping" end)
      assert.same({ nil, "stopping" }, { w:tell("order") })
      gate:tell("release", "a", 1)
      assert.same({ true, "a", 1 }, { a:ask "get" })
      assert.is_true(w:is_alive())
      gate:tell("release", "b", 2)
      assert.same({ true, "b", 2 }, { b:ask "get" })
      wait(function() return not w:is_alive() end)
    end
  end)

  it("pierrot.stop() in one handler waits for the others; those in receive end", function()
    local gate = pierrot.spawn(Gate)
    local w = pierrot.spawn { { on = {
      hold = function() return (gate:ask_within(60, "hold", "a")) end,
      listen = function() return pierrot.receive(60) end,
      last = function() gate:ask_within(60, "hold", "l") pierrot.stop "enough" return "bye" end,
    } }, reentrant = true }
    local l, a = background(w, "last"), background(w, "hold")
    holds(gate, "a") holds(gate, "l")
    local r = background(w, "listen")
    wait(function() return w:info().state == "suspended" end)
    gate:tell("release", "l")
    assert.same({ true, "bye" }, { l:ask "get" })
    assert.equal("dead", kind(r))
    assert.is_true(w:is_alive())
    gate:tell("release", "a", 1)
    assert.same({ true, 1 }, { a:ask "get" })
    wait(function() return not w:is_alive() end)
  end)

  it("kill ends all handlers at once; so does the end of the time to stop in", function()
    for _, shutdown in ipairs { 60, 0.05 } do
      local w, gate = waiter { shutdown = shutdown }
      local a, b = background(w, "ask", "a"), background(w, "ask", "b")
      holds(gate, "a") holds(gate, "b")
      if shutdown == 60 then w:kill() else w:stop() end
      for _, asker in ipairs { a, b } do assert.equal("dead", kind(asker)) end
      wait(function() return not w:is_alive() end)
    end
  end)

  it("is held with its group: one_for_all", function()
    local gate = pierrot.spawn(Gate)
    local boss = pierrot.spawn { {
      supervise = { strategy = "one_for_all" },
      start = function(self)
        self.r = pierrot.spawn { { on = { hold = function(_, key) return (gate:ask_within(60, "hold", key)) end } },
                                 reentrant = true }
        self.f = pierrot.spawn(function() error("no", 0) end)
      end,
      on = { refs = function(self) return self.r, self.f end },
    } }
    local r, f = boss:ask "refs"
    local a, b = background(r, "hold", "a"), background(r, "hold", "b")
    holds(gate, "a") holds(gate, "b")
    f:tell()
    wait(function() return r:info().state == "stopping" end)
    gate:tell("release", "a", 1)
    gate:tell("release", "b", 2)      -- those under way are finished first, as after stop
    assert.same({ true, 1 }, { a:ask "get" })
    assert.same({ true, 2 }, { b:ask "get" })
    wait(function() return r:info().restarts == 1 and f:info().restarts == 1 end)
  end)

  it("start and stop run alone", function()
    local gate = pierrot.spawn(Gate)
    local w = pierrot.spawn { {
      start = function(self) gate:ask_within(60, "hold", "start") self.ready = true end,
      on = { get = function(self) return self.ready end },
      stop = function(self) gate:ask_within(60, "hold", "stop") self.ready = false end,
    }, reentrant = true, monitor = true }
    local a = background(w, "get")
    holds(gate, "start")
    gate:tell("release", "start")
    assert.same({ true, true }, { a:ask "get" })
    w:stop()
    holds(gate, "stop")
    assert.same({ nil, "stopping" }, { w:tell "get" })
    gate:tell("release", "stop")
    assert.equal("down", (pierrot.receive(60)))
  end)

  it("asks itself below its bound, and is told at it", function()
    local w = pierrot.spawn { { on = { down = function(_, n)
      if n == 0 then return 0 end
      local ok, r = pcall(pierrot.ask, pierrot.self(), "down", n - 1)
      if ok then return 1 + r end
      return r.kind == "deadlock" and 1000 or r.kind
    end } }, reentrant = 5 }
    assert.equal(4, w:ask("down", 4))
    assert.equal(1004, w:ask("down", 7))
    local other = pierrot.spawn { { on = { down = function(_, ref, n) return ref:ask("up", n) end } } }
    local both = pierrot.spawn { { on = {
      go = function(_, n) local ok, r = pcall(other.ask, other, "down", pierrot.self(), n) return ok and r or r.kind end,
      up = function(_, n) return n end,
    } }, reentrant = 2 }
    assert.equal(3, both:ask("go", 3))
  end)

  it("finds a deadlock at its bound when all its handlers wait for one that waits for it", function()
    local gate = pierrot.spawn(Gate)
    local w, b
    b = pierrot.spawn { { name = "b", on = { call = function(_, ref)
      gate:ask_within(60, "hold", "b")
      local ok, r = pcall(ref.ask_within, ref, 60, "one more")
      return ok and r or r.kind
    end } } }
    w = pierrot.spawn { { name = "w", on = {
      call = function() return (b:ask_within(60, "call", pierrot.self())) end,
      ["one more"] = function() return "taken" end,
    } }, reentrant = 2 }
    local first = background(w, "call")
    holds(gate, "b")
    local second = background(w, "call")
    wait(function() return b:info().depth == 1 and w:info().state == "suspended" end)
    gate:tell("release", "b")        -- b asks w, which waits for b twice over
    assert.same({ true, "deadlock" }, { first:ask "get" })
    holds(gate, "b")
    gate:tell("release", "b")        -- now there is room
    assert.same({ true, "taken" }, { second:ask "get" })
  end)

  it("is told of no deadlock where an ask has been passed on", function()
    local gate = pierrot.spawn(Gate)
    local b = pierrot.spawn { { name = "b", on = {
      hold = function() pierrot.forward(gate) end,
      back = function(_, ref) local ok, r = pcall(ref.ask_within, ref, 60, "end") return ok and r or r.kind end,
    } } }
    local w = pierrot.spawn { { name = "w", on = {
      pass = function() return (b:ask_within(60, "hold", "k")) end,
      back = function() return (b:ask_within(60, "back", pierrot.self())) end,
      ["end"] = function() return "reached" end,
    } }, reentrant = 2 }
    local passed = background(w, "pass")
    holds(gate, "k")
    local back = background(w, "back")     -- now it is at its bound, with two asks to b; and b asks it
    wait(function() return w:info().state == "suspended" and w:info().depth == 1 end)
    gate:tell("release", "k", "passed")
    assert.same({ true, "passed" }, { passed:ask "get" })
    assert.same({ true, "reached" }, { back:ask "get" })
  end)

  it("waits for room in a full mailbox, and takes messages meanwhile", function()
    local gate = pierrot.spawn(Gate)
    local full = pierrot.spawn { function(_, x) if x == "hold" then gate:ask_within(60, "hold", "full") end end,
                                 mailbox = { capacity = 1, overflow = "suspend" } }
    full:tell "hold"
    holds(gate, "full")
    local w = pierrot.spawn { { on = {
      put = function(_, n) for i = 1, n do full:tell(i) end return "put" end,
      hello = function() return "hello" end,
    } }, reentrant = true }
    local put = background(w, "put", 3)
    wait(function() return full:info().waiting == 1 end)
    assert.equal("hello", w:ask "hello")
    gate:tell("release", "full")
    assert.same({ true, "put" }, { put:ask "get" })
  end)

  it("has a mailbox with a bound like any other", function()
    local w, gate = waiter { mailbox = 2, reentrant = 3 }
    local askers = {}
    for i = 1, 3 do
      askers[i] = background(w, "ask", "k" .. i)
      holds(gate, "k" .. i)
    end
    assert.is_true(w:tell "order")
    assert.is_true(w:tell "order")
    assert.same({ nil, "full" }, { w:tell "order" })
    gate:tell("release", "k2", 2)
    assert.same({ true, "k2", 2 }, { askers[2]:ask "get" })
    wait(function() return w:info().depth == 0 end)
    gate:tell("release", "k1") gate:tell("release", "k3")
  end)

  it("ten thousand at once, answered in any order", function()
    local n = times(10000, 500)
    local gate = pierrot.spawn(Gate)
    local w = pierrot.spawn { { on = { hold = function(_, i) return i, (gate:ask_within(60, "hold", i)) end } },
                              reentrant = true }
    local counter = pierrot.spawn { {
      start = function(self) self.right, self.wrong = 0, 0 end,
      on = {
        one = function(self, i, of, what)
          if of == i and what == -i then self.right = self.right + 1 else self.wrong = self.wrong + 1 end
        end,
        get = function(self) return self.right, self.wrong end,
      },
    } }
    local driver = pierrot.spawn { {
      start = function(_, ref, to, from, upto)
        for i = from, upto do
          pierrot.spawn { { start = function() to:tell("one", i, ref:ask_within(60, "hold", i)) pierrot.stop() end } }
        end
      end,
    }, w, counter, 1, n }
    assert(driver)
    wait(function() return gate:info().processed >= n end)
    local random = 12345
    local order = {}
    for i = 1, n do order[i] = i end
    for i = n, 2, -1 do
      random = (random * 1103515245 + 12345) % 2 ^ 31
      local j = random % i + 1
      order[i], order[j] = order[j], order[i]
    end
    for _, i in ipairs(order) do gate:tell("release", i, -i) end
    wait(function() local right, wrong = counter:ask "get" return right + wrong == n end)
    assert.same({ n, 0 }, { counter:ask "get" })
  end)

  it("refuses a bound that is none, at the caller's line", function()
    for _, bound in ipairs { 0, -1, 1.5, 1e7, "yes" } do
      local ok, err = pcall(pierrot.spawn, { function() end, reentrant = bound })
      assert.is_false(ok)
      assert.truthy(tostring(err):find "reentrant: true, false or a whole number of handlers from 1 to 1000000 expected")
    end
    assert(pierrot.spawn { function() end, reentrant = false })
  end)
end)

-- Everything at once: reentrant actors that ask each other across workers, with bounds, and fail, and are killed. Every
-- ask has its end, in time, and with its own number; nothing is lost.
for _, workers in ipairs { 1, 2, 4, 8 } do
  describe("reentrant actors under fire on " .. workers .. " workers", function()
    it("answer every ask, each its own", function()
      assert(pierrot.start { workers = workers, log = "none" })
      local rounds = times(400, 40)
      local nodes = {}
      local Node = {
        name = "node",
        on = {
          meet = function(self, refs) self.refs = refs end,
          go = function(self, number, hops)
            local refs = self.refs
            if hops == 0 or not refs then return number end
            if number % 97 == 0 and hops == 1 then error("an unlucky number", 0) end
            if number % 5 == 0 then pierrot.yield() end
            local to = refs[(number * 7 + hops) % #refs + 1]
            local ok, got = pcall(to.ask_within, to, 2, "go", number, hops - 1)
            if not ok then return got.kind == "timeout" and error("silence", 0) or number end
            if got ~= number then error("wrong number", 0) end
            return got
          end,
        },
      }
      for i = 1, 12 do
        nodes[i] = pierrot.spawn { Node, reentrant = ({ true, 2, 8 })[i % 3 + 1], restart = "permanent",
                                   mailbox = i % 4 == 0 and 64 or nil }
      end
      for _, node in ipairs(nodes) do node:tell("meet", nodes) end
      local Driver = {
        start = function(self, refs, from, upto)
          self.ends = {}
          for number = from, upto do
            local to = refs[number % #refs + 1]
            local ok, got = pcall(to.ask_within, to, 10, "go", number, 1 + number % 4)
            local what = ok and (got == number and "right" or "wrong") or got.kind
            self.ends[what] = (self.ends[what] or 0) + 1
          end
        end,
        on = { ends = function(self) return self.ends end },
      }
      local drivers = {}
      for i = 1, 16 do drivers[i] = pierrot.spawn { Driver, nodes, i * rounds, (i + 1) * rounds - 1 } end
      local sum = {}
      for _, driver in ipairs(drivers) do
        for what, n in pairs(driver:ask_within(120, "ends")) do sum[what] = (sum[what] or 0) + n end
      end
      local total = 0
      for _, n in pairs(sum) do total = total + n end
      assert.equal(16 * rounds, total)
      assert.is_nil(sum.wrong)
      assert.is_nil(sum.timeout)
      assert.is_true((sum.right or 0) > total / 4)
      for i = 1, 12, 2 do nodes[i]:kill() end
      assert.is_true(pierrot.shutdown(20))
    end)
  end)
end
