-- ask: every ask is answered once, by its own reply or by an error that says why; nothing else reaches the asker.
-- Where an error must come at once the ask's own limit is an hour: a test that waits for that hangs.

local pierrot = require "pierrot"
local sanitized = os.getenv "PIERROT_SANITIZER" ~= nil

local HOUR = 3600

local function echo(_, ...) return ... end

local function failure(ref, ...)
  local ok, err = pcall(ref.ask_within, ref, HOUR, ...)
  assert.is_false(ok)
  assert.equal("table", type(err), tostring(err))
  return err
end

-- Keeps asks: "hold" defers; "count"; "answer" replies to all with its argument; "refuse" fails all.
local keeper = { name = "keeper", on = {
  hold = function(self, tag)
    self.held = self.held or {}
    self.held[#self.held + 1] = { pierrot.defer(), tag }
  end,
  count = function(self) return #(self.held or {}) end,
  answer = function(self, ...)
    for _, held in ipairs(self.held) do held[1]:reply(held[2], ...) end
    self.held = {}
  end,
  refuse = function(self, err)
    for _, held in ipairs(self.held) do held[1]:fail(err) end
    self.held = {}
  end,
} }

local function await_count(ref, n)
  while ref:ask_within(HOUR, "count") < n do pierrot.sleep(0.002) end
end

describe("ask", function()
  before_each(function() assert(pierrot.start { workers = 2, log = "none" }) end)
  after_each(function() pierrot.shutdown() end)

  describe("of an actor that raises", function()
    it("raises at once an error with kind, cause and traceback", function()
      local a = pierrot.spawn { function() error("went wrong") end, restart = "temporary" }
      local err = failure(a)
      assert.equal("failed", err.kind)
      assert.truthy(tostring(err.cause):find("ask_spec.lua:%d+: went wrong"))
      assert.truthy(err.traceback:find("stack traceback:", 1, true))
      assert.truthy(err.traceback:find("ask_spec.lua", 1, true))
      assert.truthy(tostring(err):find("went wrong", 1, true))
      assert.is_true(err.ref == a)
    end)

    it("gives tables as they are, objects by their __tostring, nil and other values readably", function()
      local a = pierrot.spawn { { on = {
        table = function() error({ code = 7, inner = { "x" } }) end,
        object = function() error(setmetatable({ code = 8 }, { __tostring = function() return "object!" end })) end,
        none = function() error() end,
      } }, restart = "permanent" }
      local function ask(name) return failure(a, name) end
      -- three in all: more restarts in five seconds are not granted
      local err = ask "table"
      assert.same({ code = 7, inner = { "x" } }, err.cause)
      err = ask "object"
      assert.truthy(tostring(err):find("object!", 1, true), tostring(err))
      assert.equal(8, err.cause.code)
      err = ask "none"
      assert.equal("failed", err.kind)
      assert.equal("string", type(tostring(err)))
    end)

    for _, case in ipairs {
      { "a __tostring that raises", function() error(setmetatable({}, { __tostring = function() error("no") end })) end },
      { "a __tostring that returns no string", function() error(setmetatable({}, { __tostring = function() return {} end })) end },
      { "a __tostring that waits", function()
        error(setmetatable({}, { __tostring = function() pierrot.sleep(0.01) return "x" end })) end },
      { "a key whose __tostring raises", function()
        error({ [setmetatable({}, { __tostring = function() error("no") end })] = 1 }) end },
      { "a locked metatable", function() error(setmetatable({}, { __metatable = "locked" })) end },
      { "a message field that is no text", function() error({ message = { "no text" } }) end },
      { "nil", function() error(nil) end },
      { "false", function() error(false) end },
      { "a number", function() error(42) end },
      { "a function", function() error(print) end },
      { "a cycle", function() local t = {} t.t = t error(t) end },
      { "a coroutine in a table", function() error({ co = coroutine.create(print) }) end },
      { "a ref", function() error(pierrot.self()) end },
      { "a long text", function() error(("x"):rep(1e6)) end },
      { "a stack overflow", function() local function f() return 1 + f() end f() end },
      { "an unpack of too many", function() return unpack({}, 1, 1e8) end },
      { "an error object of pierrot with odd fields", function()
        local _, err = pcall(pierrot.ask, "nobody here")
        err.message, err.kind, err.traceback = print, {}, {}
        error(err)
      end },
    } do
      it("with " .. case[1], function()
        local a = pierrot.spawn { case[2], restart = "temporary" }
        local err = failure(a)
        assert.equal("failed", err.kind)
        assert.equal("string", type(tostring(err)))
        assert.is_true(#tostring(err) > 0)
        assert.equal("dead", failure(a).kind)
        assert.equal(1, pierrot.spawn(echo):ask(1))
      end)
    end

    it("keeps kind and cause over two hops", function()
      local bottom = pierrot.spawn { function() error({ code = 5 }) end, restart = "temporary" }
      local middle = pierrot.spawn { function(_, to) return to:ask() end, restart = "temporary" }
      local err = failure(middle, bottom)
      assert.equal("failed", err.kind)
      assert.equal("failed", err.cause.kind)
      assert.equal(5, err.cause.cause.code)
    end)
  end)

  it("of a dead actor, an unknown name, one that takes no such message", function()
    local a = pierrot.spawn { echo, worker = 1 }
    a:kill()
    assert.equal("dead", failure(a, 1).kind)
    local ok, err = pcall(pierrot.ask, "nobody", 1)
    assert.is_false(ok)
    assert.equal("dead", err.kind)
    assert.truthy(tostring(err):find("nobody", 1, true))
    ok, err = pcall(pierrot.ask, "", 1)
    assert.is_false(ok)
    assert.equal("dead", err.kind)
    local picky = pierrot.spawn { { on = { a = echo } } }
    err = failure(picky, "b")
    assert.equal("failed", err.kind)
    assert.same({}, { picky:ask "a" })
  end)

  it("of an actor that is stopping: dead", function()
    local k = pierrot.spawn(keeper)
    local a = pierrot.spawn { { receive = echo, start = function(self, to) self.to = to end,
      stop = function(self) self.to:ask_within(HOUR, "hold") end }, k }
    assert.equal(1, a:ask(1))
    a:stop()
    await_count(k, 1)
    assert.equal("stopping", a:info().state)
    assert.same({ nil, "stopping" }, { a:tell(1) })
    assert.equal("dead", failure(a, 1).kind)
    k:tell "answer"
  end)

  it("queued behind a handler is answered at once when its actor ends, however it ends", function()
    for _, how in ipairs { "kill", "stop", "error" } do
      local k, me = pierrot.spawn(keeper), pierrot.self()
      local a = pierrot.spawn { function(_, what)
        if what == "block" then
          k:ask_within(HOUR, "hold")
          if how == "error" then error "now" end
        end
      end, restart = "temporary" }
      a:tell "block"
      await_count(k, 1)
      local askers = {}
      for i = 1, 20 do
        askers[i] = pierrot.spawn(function(_, to)
          local ok, err = pcall(to.ask_within, to, HOUR, "queued")
          me:tell(ok, ok or err.kind)
        end)
        askers[i]:tell(a)
      end
      while a:info().depth < 20 do pierrot.sleep(0.002) end
      if how ~= "error" then a[how](a) end
      if how ~= "kill" then k:tell "answer" end
      for _ = 1, 20 do
        assert.same({ false, "dead" }, { pierrot.receive(HOUR) }, how)
      end
    end
  end)

  it("in the hand of an actor that is killed while it waits is answered at once", function()
    local k, me = pierrot.spawn(keeper), pierrot.self()
    local a = pierrot.spawn(function() k:ask_within(HOUR, "hold") end)
    pierrot.spawn(function(_, to) me:tell(select(2, pcall(to.ask_within, to, HOUR)).kind) end):tell(a)
    await_count(k, 1)
    a:kill()
    assert.equal("dead", pierrot.receive(HOUR))
  end)

  it("gives up after its limit, and a late reply reaches nobody", function()
    local function late(k)
      local ok, err = pcall(k.ask_within, k, 0.02, "hold", "late")
      if ok or err.kind ~= "timeout" then return "no time-out: " .. tostring(err) end
      k:tell "answer"
      for i = 1, 50 do
        local got = k:ask_within(3600, "count", i)
        if got ~= 0 then return "got " .. tostring(got) end
      end
      return "fine", tostring(err)
    end
    local said, text = late(pierrot.spawn(keeper))
    assert.equal("fine", said)
    assert.truthy(text:find("0.02", 1, true), text)
    assert.is_nil((pierrot.receive(0)))
    for worker = 1, 2 do
      local inside = pierrot.spawn { function(_, k)
        local result = late(k)
        return result, pierrot.receive(0)
      end, worker = 1 }
      assert.equal("fine", (inside:ask_within(HOUR, pierrot.spawn { keeper, worker = worker })))
    end
  end)

  it("takes odd limits", function()
    local e = pierrot.spawn { echo, worker = 1 }
    for _, bad in ipairs { -1, 0 / 0, -math.huge, "1", {}, true } do
      local ok, err = pcall(function() local r = e:ask_within(bad, 1) return r end)
      assert.is_false(ok)
      assert.truthy(tostring(err):find("ask_spec.lua:%d+: ask_within: "), tostring(err))
    end
    assert.is_false((pcall(e.ask_within, e, nil)))
    assert.is_false((pcall(e.ask_within, e)))
    assert.equal(1, e:ask_within(math.huge, 1))
    assert.equal(1, e:ask_within(1e300, 1))
    local k = pierrot.spawn(keeper)
    assert.equal("timeout", select(2, pcall(k.ask_within, k, 0, "hold")).kind)
    local inside = pierrot.spawn(function(_, to, kept)
      return to:ask_within(math.huge, 1), to:ask_within(1e300, 2), select(2, pcall(kept.ask_within, kept, 0, "hold")).kind
    end)
    assert.same({ 1, 2, "timeout" }, { inside:ask(e, k) })
  end)

  it("raises on what is no ref", function()
    for _, bad in ipairs { 1, true, {}, print } do
      for _, call in ipairs { "ask", "tell", "stop", "drain", "kill", "is_alive", "info", "forward" } do
        local ok, err = pcall(function() local r = pierrot[call](bad) return r end)
        assert.is_false(ok)
        assert.truthy(tostring(err):find("ask_spec.lua:%d+: " .. call), call .. ": " .. tostring(err))
      end
    end
    assert.is_false((pcall(pierrot.ask)))
    assert.is_false((pcall(pierrot.tell)))
    assert.is_false((pcall(pierrot.tell, nil, 1)))
  end)

  describe("deferred", function()
    it("is answered later, once, also by another actor", function()
      local k, me = pierrot.spawn(keeper), pierrot.self()
      for i = 1, 3 do
        pierrot.spawn(function(_, to) me:tell(to:ask_within(HOUR, "hold", i)) end):tell(k)
      end
      await_count(k, 3)
      k:tell("answer", "more", nil)
      local seen = {}
      for _ = 1, 3 do
        local tag, more = pierrot.receive(HOUR)
        seen[tag] = more
      end
      assert.same({ "more", "more", "more" }, seen)

      local other = pierrot.spawn { function(_, deferred, ...) deferred:reply(pierrot.self(), ...) end, worker = 2 }
      local giver = pierrot.spawn { function(_, to) to:tell(pierrot.defer(), 1, nil, 3) end, worker = 1 }
      assert.same({ other, 1, nil, 3 }, { giver:ask_within(HOUR, other) })
      assert.equal(5, select("#", giver:ask_within(HOUR, other), 5, 5, 5, 5))
    end)

    it("twice says so; a second reply is dropped", function()
      local a = pierrot.spawn(function()
        local d = pierrot.defer()
        local again = { pcall(pierrot.defer) }
        local first = d:reply("one", again[1], again[2])
        local second, why = d:reply("two")
        local third, too = d:fail("three")
        pierrot.self():tell("next", first, second, why, third, too)
        local _, r1, r2, w1, r3, w2 = pierrot.receive(1)
        pierrot.forward(pierrot.self())
        return r1, r2, w1, r3, w2
      end)
      local one, ok, err = a:ask()
      assert.equal("one", one)
      assert.is_false(ok)
      assert.truthy(err:find("defer", 1, true))
      assert.equal("string", type(pierrot.spawn(function() return "still here" end):ask()))
    end)

    it("fails with any error", function()
      for _, value in ipairs { "text", 5, false } do
        local a = pierrot.spawn(function() pierrot.defer():fail(value) end)
        local err = failure(a)
        assert.equal("failed", err.kind)
        assert.equal(value, err.cause)
      end
      local err = failure(pierrot.spawn(function() pierrot.defer():fail({ code = 3 }) end))
      assert.same({ code = 3 }, err.cause)
      err = failure(pierrot.spawn(function() pierrot.defer():fail() end))
      assert.equal("failed", err.kind)
    end)

    it("without an ask raises at its line", function()
      local a = pierrot.spawn(function(_, back) back:tell(pcall(function() local d = pierrot.defer() return d end)) end)
      a:tell(pierrot.self())
      local ok, err = pierrot.receive(HOUR)
      assert.is_false(ok)
      assert.truthy(err:find("ask_spec.lua:%d+: defer"), err)
      ok, err = pcall(function() local d = pierrot.defer() return d end)
      assert.is_false(ok)
      assert.truthy(err:find("ask_spec.lua:%d+: defer"), err)
    end)

    it("with a value that cannot be sent raises, and can be answered still", function()
      local a = pierrot.spawn(function()
        local d = pierrot.defer()
        local ok, err = pcall(function() local r = d:reply(print) return r end)
        d:reply(ok, err)
      end)
      local ok, err = a:ask()
      assert.is_false(ok)
      assert.truthy(err:find("ask_spec.lua:%d+: .*reply%[1%]: function"), err)
    end)

    it("that is a table somebody made up harms nobody", function()
      local a = pierrot.spawn(function(_, what)
        local d = pierrot.defer()
        local meta = getmetatable(d)
        local results = {}
        for _, fields in ipairs { {}, { asker = 1, number = 1 }, { asker = pierrot.self(), number = -1 },
                                  { asker = pierrot.self(), number = 0 / 0 }, { asker = pierrot.self(), number = 2 ^ 60 },
                                  { asker = pierrot.self(), number = "x" } } do
          results[#results + 1] = tostring(pcall(setmetatable(fields, meta).reply, fields, 1))
        end
        d:reply(#results, what)
      end)
      assert.same({ 6, "x" }, { a:ask_within(HOUR, "x") })
    end)
  end)

  describe("forwarded", function()
    it("goes on with its sender and pending reply", function()
      local last = pierrot.spawn { function(_, ...) return pierrot.sender(), ... end, worker = 2 }
      local middle = pierrot.spawn { function(_, to) pierrot.forward(to) end, worker = 1 }
      local first = pierrot.spawn(function(_, m, to, ...) return pierrot.self(), m:ask_within(HOUR, to, ...) end)
      local me, sender, to, a, b = first:ask_within(HOUR, middle, last, 1, nil)
      assert.is_true(me == sender and to == last)
      assert.same({ 1 }, { a, b })
      assert.is_true(pierrot.self() == (middle:ask_within(HOUR, last)))
    end)

    it("to the dead returns why, and the ask stays in hand", function()
      local dead = pierrot.spawn { echo, worker = 1 }
      dead:kill()
      while dead:is_alive() do pierrot.sleep(0.001) end
      local a = pierrot.spawn(function(_, to)
        local ok, why = pierrot.forward(to)
        local ok2, why2 = pierrot.forward("nobody")
        return ok, why, ok2, why2
      end)
      assert.same({ nil, "dead", nil, "dead" }, { a:ask_within(HOUR, dead) })
    end)

    it("twice: the ask goes once, the message twice", function()
      local me = pierrot.self()
      local target = pierrot.spawn(function() me:tell("seen") return "answer" end)
      local a = pierrot.spawn(function() return pierrot.forward(target) and pierrot.forward(target) end)
      assert.equal("answer", a:ask_within(HOUR))
      assert.equal("seen", pierrot.receive(HOUR))
      assert.equal("seen", pierrot.receive(HOUR))
    end)

    it("without a message in hand raises", function()
      local ok, err = pcall(function() local r = pierrot.forward(pierrot.self()) return r end)
      assert.is_false(ok)
      assert.truthy(err:find("ask_spec.lua:%d+: forward"), err)
      local a = pierrot.spawn { start = function(self) self.said = select(2, pcall(pierrot.forward, pierrot.self())) end,
                                receive = function(self) return self.said end }
      assert.truthy(a:ask():find("forward", 1, true))
    end)

    it("to one that fails: the asker is told", function()
      local bad = pierrot.spawn { function() error "bad" end, restart = "temporary" }
      local a = pierrot.spawn(function() pierrot.forward(bad) end)
      assert.equal("failed", failure(a).kind)
    end)
  end)

  it("ten thousand times at once", function()
    local n = sanitized and 1000 or 10000
    local k, me = pierrot.spawn(keeper), pierrot.self()
    local function asker(_, i)
      me:tell(i, (k:ask_within(HOUR, "hold", i)))
    end
    for i = 1, n do pierrot.spawn(asker):tell(i) end
    await_count(k, n)
    k:tell "answer"
    local seen = 0
    for _ = 1, n do
      local i, got = pierrot.receive(HOUR)
      if i == got then seen = seen + 1 end
    end
    assert.equal(n, seen)
  end)

  describe("in a circle", function()
    local function node(_, route, at)
      at = at or 1
      local to = route[at + 1]
      if not to then return "end" end
      local ok, err = pcall(to.ask_within, to, 3600, route, at + 1)
      if ok then return err end
      return err.kind or tostring(err)
    end

    it("of one, two or three is found at once", function()
      for size = 1, 3 do
        for workers = 1, 2 do
          local nodes = {}
          for i = 1, size do nodes[i] = pierrot.spawn { node, worker = workers == 1 and 1 or i % 2 + 1 } end
          local route = {}
          for i = 1, size + 1 do route[i] = nodes[(i - 1) % size + 1] end
          assert.equal("deadlock", nodes[1]:ask_within(HOUR, route), size .. " actors")
        end
      end
    end)

    it("is none where the asked one has replied, deferred or forwarded before it asks back", function()
      local function patient(_, back, how, ...)
        if how == "defer" then
          local d = pierrot.defer()
          d:reply("replied", ...)
          return back:ask_within(3600, "hello")
        elseif how == "later" then
          local d = pierrot.defer()
          pierrot.self():tell(back, "back", d)
        elseif how == "back" then
          local d = ...
          d:reply "later"
          back:ask_within(3600, "hello")
        end
      end
      local function asker(_, to, how)
        if to == "hello" then return "hello" end
        return (to:ask_within(3600, pierrot.self(), how))
      end
      for _, how in ipairs { "defer", "later" } do
        for worker = 1, 2 do
          for _ = 1, 20 do
            local a, p = pierrot.spawn { asker, worker = 1 }, pierrot.spawn { patient, worker = worker }
            assert.equal(how == "later" and "later" or "replied", (a:ask_within(HOUR, p, how)))
          end
        end
      end
    end)
  end)

  describe("works", function()
    local function answer(behaviour, ...)
      return pierrot.spawn(behaviour):ask_within(HOUR, pierrot.spawn { echo, worker = 2 }, ...)
    end

    it("in pcall, xpcall, and deep inside functions", function()
      assert.same({ true, 1, nil, 3 }, { answer(function(_, e) return pcall(e.ask, e, 1, nil, 3) end) })
      assert.same({ true, 5 }, { answer(function(_, e) return xpcall(function() return e:ask(5) end, tostring) end) })
      assert.equal(100, (answer(function(_, e)
        local function deep(n) return n == 0 and e:ask(0) or (function() return 1 + (deep(n - 1)) end)() end
        return (deep(100))
      end)))
      assert.equal("pcall in pcall", (answer(function(_, e)
        local _, _, _, v = pcall(pcall, pcall, function() return e:ask "pcall in pcall" end)
        return v
      end)))
    end)

    it("in coroutines of the script's own", function()
      assert.same({ 1, 2, 3, nil }, { answer(function(_, e)
        local gen = coroutine.wrap(function() for i = 1, 3 do coroutine.yield((e:ask(i))) end end)
        return gen(), gen(), gen(), gen()
      end) })
      assert.same({ "a", "suspended", true, "b", "dead" }, { answer(function(_, e)
        local co = coroutine.create(function(x) local y = coroutine.yield((e:ask(x))) return (e:ask(y)) end)
        local _, first = coroutine.resume(co, "a")
        local status = coroutine.status(co)
        local ok, second = coroutine.resume(co, "b")
        return first, status, ok, second, coroutine.status(co)
      end) })
      assert.equal("three deep", (answer(function(_, e)
        local wrap = coroutine.wrap
        return (wrap(function() return wrap(function() return wrap(function() return (e:ask "three deep") end)() end)() end)())
      end)))
    end)

    it("with a generator that is kept between messages", function()
      local e = pierrot.spawn(echo)
      local a = pierrot.spawn(function(self, to)
        self.gen = self.gen or coroutine.wrap(function() for i = 1, 10 do coroutine.yield((to:ask(i))) end end)
        return (self.gen())
      end)
      for i = 1, 10 do assert.equal(i, a:ask_within(HOUR, e)) end
    end)

    it("in iterators and metamethods called from Lua", function()
      assert.same({ 6, "foo", "called" }, { answer(function(_, e)
        local sum = 0
        for i in function(_, last) return (e:ask((last or 0) < 3 and (last or 0) + 1 or nil)) end do sum = sum + i end
        local t = setmetatable({}, { __index = function(_, k) return (e:ask(k)) end,
                                     __call = function() return (e:ask "called") end })
        return sum, t.foo, t()
      end) })
    end)

    it("in start and in stop", function()
      local e, me = pierrot.spawn(echo), pierrot.self()
      local a = pierrot.spawn { {
        start = function(self, to) self.to, self.v = to, to:ask "asked in start" end,
        receive = function(self) return self.v end,
        stop = function(self, reason) me:tell("stopped", reason, (self.to:ask "asked in stop")) end,
      }, e }
      assert.equal("asked in start", a:ask())
      a:stop "enough"
      assert.same({ "stopped", "enough", "asked in stop" }, { pierrot.receive(HOUR) })
    end)
  end)

  describe("where Lua cannot suspend", function()
    local function text(behaviour)
      local a = pierrot.spawn(behaviour)
      local said, after = a:ask_within(HOUR, pierrot.spawn { echo, worker = 2 })
      assert.equal("after", after)
      return tostring(said)
    end

    it("says so: sort, gsub, load", function()
      local said = text(function(_, e)
        local _, err = pcall(table.sort, { 3, 2, 1 }, function(x, y) e:ask(1) return x < y end)
        return err, (e:ask "after")
      end)
      assert.truthy(said:find("ask_spec.lua:%d+: ask: cannot suspend here"), said)
      said = text(function(_, e)
        local _, err = pcall(string.gsub, "abc", ".", function(c) return (e:ask(c)) end)
        return err, (e:ask "after")
      end)
      assert.truthy(said:find("ask_spec.lua:%d+: ask: cannot suspend here"), said)
      for _, call in ipairs { function() pierrot.sleep(0.01) end, function() pierrot.sleep(0) end,
                              function() pierrot.yield() end, function() pierrot.receive(1) end } do
        said = text(function(_, e)
          local _, err = pcall(string.gsub, "abc", ".", call)
          return err, (e:ask "after")
        end)
        assert.truthy(said:find("ask_spec.lua:%d+: .*cannot suspend here"), said)
      end
    end)

    it("says so from a coroutine inside, too, and later asks are unharmed", function()
      local said = text(function(_, e)
        local err
        for _ = 1, 3 do
          _, err = pcall(table.sort, { 3, 2, 1 }, function(x, y)
            return coroutine.wrap(function() e:ask_within(0.01, 1) return x < y end)()
          end)
        end
        for i = 1, 5 do
          if e:ask(i) ~= i then return "wrong reply" end
          pierrot.sleep(0.01)
        end
        return err, (e:ask "after")
      end)
      assert.truthy(said:find("cannot suspend", 1, true), said)
    end)

    it("a bare coroutine.yield in a handler fails that actor alone", function()
      local a = pierrot.spawn { function() coroutine.yield(1) end, restart = "temporary" }
      local err = failure(a)
      assert.equal("failed", err.kind)
      assert.truthy(tostring(err):find("yield", 1, true))
    end)
  end)
end)
