-- become and unbecome, stash and unstash.
--
-- Mutants that these find: become keeps the old names; unbecome pops two; release without going back to the spawned
-- behaviour; stash that leaves the ask in hand, or counts as handled; unstash behind the mailbox, or in reverse; a
-- restart that loses what is kept.

local pierrot = require "pierrot"

local hammer = tonumber(os.getenv "PIERROT_HAMMER") or 1
local sanitized = os.getenv "PIERROT_SANITIZER"

describe("become", function()
  before_each(function() assert(pierrot.start { workers = 2, log = "none" }) end)
  after_each(function() assert.is_true(pierrot.shutdown(10)) end)

  it("swaps what handles the next messages, as a stack", function()
    local a = pierrot.spawn {
      on = {
        name = function() return "spawned" end,
        go = function(self)
          self.n = (self.n or 0) + 1
          pierrot.become {
            name = function(me) return "first", me.n end,
            go = function()
              pierrot.become { on = { back = function() return pierrot.unbecome() end },
                               receive = function(_, ...) return "second", ... end }
              return "still the first"
            end,
            back = function() return pierrot.unbecome() end,
          }
        end,
        back = function() return pierrot.unbecome() end,
      },
    }
    assert.equal("spawned", a:ask "name")
    assert.is_false(a:ask "back")
    a:ask "go"
    assert.same({ "first", 1 }, { a:ask "name" })
    assert.equal("still the first", a:ask "go")
    assert.same({ "second", "name", 7 }, { a:ask("name", 7) })
    assert.is_true(a:ask "back")
    assert.same({ "first", 1 }, { a:ask "name" })
    assert.is_true(a:ask "back")
    assert.equal("spawned", a:ask "name")
  end)

  it("takes a function, a table with receive, a module's name", function()
    local a = pierrot.spawn(function(_, what)
      if what == "fn" then
        pierrot.become(function(_, ...) pierrot.unbecome() return "fn", ... end)
      elseif what == "table" then
        pierrot.become { receive = function(_, ...) pierrot.unbecome() return "table", ... end }
      elseif what == "module" then
        package.preload.become_module = package.preload.become_module
          or function() return { receive = function(_, x) pierrot.unbecome() return "module", x end } end
        pierrot.become "become_module"
      end
      return "set"
    end)
    for _, kind in ipairs { "fn", "table", "module" } do
      assert.equal("set", a:ask(kind))
      assert.same({ kind, "x" }, { a:ask "x" })
    end
  end)

  it("replaces the present one on request, and says when the stack is too deep", function()
    local a = pierrot.spawn {
      start = function(self) self.n = 0 end,
      on = {
        many = function(_, replace)
          local even = { ["end"] = function() return "even", pierrot.unbecome(), pierrot.unbecome() end }
          local odd = { ["end"] = function() return "odd", pierrot.unbecome(), pierrot.unbecome() end }
          for i = 1, 3000 do pierrot.become(i % 2 == 0 and even or odd, replace) end
        end,
      },
    }
    a:ask("many", true)
    assert.same({ "even", true, false }, { a:ask "end" })
    local ok, err = pcall(a.ask, a, "many")
    assert.is_false(ok)
    assert.truthy(err.message:find("behaviour_spec.lua:%d+: become: 1000 behaviours lie on each other", 1))
  end)

  it("is undone by a restart, and leaves stop as it was", function()
    local me = pierrot.self()
    local a = pierrot.spawn {
      on = { go = function() pierrot.become { fail = function() error "x" end, name = function() return "other" end } end,
             name = function() return "spawned" end },
      stop = function() me:tell "stopped" end,
    }
    a:ask "go"
    assert.equal("other", a:ask "name")
    a:tell "fail"
    assert.equal("stopped", pierrot.receive(60))
    assert.equal("spawned", a:ask "name")
    a:ask "go"
    a:stop()
    assert.equal("stopped", pierrot.receive(60))
  end)

  it("what nothing takes is a dead letter", function()
    local a = pierrot.spawn(function() pierrot.become { known = function() return true end } end)
    a:ask()
    local ok, err = pcall(a.ask, a, "unknown")
    assert.is_false(ok)
    assert.equal("failed", err.kind)
    assert.is_true(a:ask "known")
    assert.equal(1, pierrot.stats().dead_letters_by_reason.unhandled)
  end)

  it("refuses what is no behaviour, at the caller's line", function()
    local a = pierrot.spawn(function(_, what)
      local bad = ({ number = 1, none = false, shape = { on = { 1 } }, handler = { x = 1 } })[what]
      local ok, err = pcall(function() local r = pierrot.become(bad) return r end)
      return ok, err
    end)
    for _, what in ipairs { "number", "none", "shape", "handler" } do
      local ok, err = a:ask(what)
      assert.is_false(ok, what)
      assert.truthy(err:find("behaviour_spec.lua:%d+: become: "), err)
    end
    for _, name in ipairs { "become", "unbecome", "stash", "unstash" } do
      local ok, err = pcall(pierrot[name], {})
      assert.is_false(ok)
      assert.truthy(err:find("inside an actor only", 1, true), err)
    end
  end)

  it("does not keep what was made in place", function()
    local a = pierrot.spawn(function(_, n)
      local function held() collectgarbage() collectgarbage() return collectgarbage "count" end
      local function round(i)
        local big = ("x"):rep(10000) .. i
        pierrot.become { f = function() return big end }
        pierrot.unbecome()
      end
      for i = 1, 200 do round(i) end
      local before = held()
      for i = 1, n do round(i) end
      return held() - before
    end)
    local n = sanitized and 300 or 3000
    assert.is_true(a:ask_within(60, n) < n)   -- KB: each would keep ten
  end)
end)

describe("stash", function()
  before_each(function() assert(pierrot.start { workers = 2, log = "none" }) end)
  after_each(function() assert.is_true(pierrot.shutdown(10)) end)

  -- Keeps everything until it is opened; then it handles.
  local Gate = {
    name = "gate",
    on = {
      open = function()
        pierrot.become(function(_, ...)
          if ... == "close" then pierrot.unbecome() return end
          return pierrot.sender(), ...
        end)
        return pierrot.unstash()
      end,
      fail = function() error "gate" end,
      here = function() return true end,
    },
    receive = function() assert(pierrot.stash()) end,
  }

  it("keeps sender and pending ask, and the order", function()
    local me = pierrot.self()
    local gate = pierrot.spawn(Gate)
    local askers = {}
    for i = 1, 5 do
      askers[i] = pierrot.spawn(function(_, g, n)
        local sender, x, y = g:ask_within(60, n, nil)
        me:tell(n, sender == pierrot.self(), x, y)
      end)
      askers[i]:tell(gate, i)
      while askers[i]:info().state ~= "suspended" do pierrot.sleep(0.001) end
    end
    assert.is_true(gate:ask "here")   -- behind what is known to have been sent
    assert.equal(1, gate:info().processed)
    assert.equal(5, gate:ask "open")
    local got = {}
    for _ = 1, 5 do
      local n, own, x, y = pierrot.receive(60)
      got[n] = own and x == n and y == nil
    end
    assert.same({ true, true, true, true, true }, got)
    gate:tell "close"
  end)

  it("puts all back in front of what is queued, in order", function()
    local a = pierrot.spawn {
      start = function(self) self.out = {} end,
      on = {
        hold = function() pierrot.receive(60, function(x) return x == "go on" end) end,
        open = function() pierrot.become { say = function(self, n) self.out[#self.out + 1] = n end,
                                           get = function(self) return self.out end }
                          return pierrot.unstash() end,
        say = function() pierrot.stash() end,
      },
    }
    for i = 1, 3 do a:tell("say", i) end
    a:tell "hold"
    a:tell "open"
    for i = 4, 6 do a:tell("say", i) end
    a:tell "go on"
    assert.same({ 1, 2, 3, 4, 5, 6 }, a:ask "get")
    local s = pierrot.stats()
    assert.equal(s.sent, s.handled + s.dead_letters + s.cancelled)
  end)

  it("what is stashed again waits again", function()
    local a = pierrot.spawn {
      start = function(self) self.seen = 0 end,
      on = { again = function() return pierrot.unstash() end, seen = function(self) return self.seen end },
      receive = function(self) self.seen = self.seen + 1 pierrot.stash() end,
    }
    for i = 1, 3 do a:tell(i) end
    for i = 1, 4 do
      assert.equal(3 * i, a:ask "seen")
      assert.equal(3, a:ask "again")
    end
  end)

  it("a restart puts what is kept in front of the mailbox; an end makes dead letters of it", function()
    local me = pierrot.self()
    local B = {
      start = function(self) self.first = pierrot.self():info().restarts == 0 end,
      on = { fail = function() error "x" end },
      receive = function(self, n) if self.first then pierrot.stash() else me:tell(n) end end,
    }
    local a = pierrot.spawn(B)
    for i = 1, 3 do a:tell(i) end
    a:tell "fail"
    a:tell(4)
    for i = 1, 4 do assert.equal(i, (pierrot.receive(60))) end
    local b = pierrot.spawn(B)
    local asker = pierrot.spawn(function() me:tell(select(2, pcall(b.ask_within, b, 3600, "x")).kind) end)
    asker:tell "go"
    while asker:info().state ~= "suspended" or b:info().state ~= "idle" or pierrot.stats().sent < 10 do
      pierrot.sleep(0.001)
    end
    b:stop()
    assert.equal("dead", pierrot.receive(60))
  end)

  it("stashes what receive has taken", function()
    local a = pierrot.spawn {
      on = { begin = function()
               for _ = 1, 2 do pierrot.receive(60) pierrot.stash() end
               pierrot.unstash()
               return "began"
             end,
             x = function(_, n) return "x", n end },
    }
    local me = pierrot.self()
    local function asker(...)
      local b = pierrot.spawn(function(_, ...) me:tell(a:ask_within(60, ...)) end)
      b:tell(...)
      repeat
        pierrot.sleep(0.001)
        local info = b:info()
      until info.processed == 1 and (info.state == "suspended" or info.state == "idle")
    end
    asker "begin"
    asker("x", 1)
    asker("x", 2)
    local got = {}
    for _ = 1, 3 do got[#got + 1] = table.concat({ pierrot.receive(60) }, " ") end
    table.sort(got)
    assert.same({ "began", "x 1", "x 2" }, got)
  end)

  it("needs a message in hand, once", function()
    local a = pierrot.spawn {
      start = function(self) self.start = select(2, pcall(pierrot.stash)) end,
      receive = function(self)
        pierrot.stash()
        return self.start, select(2, pcall(pierrot.stash))
      end,
      on = { get = function(self) return self.start, select(2, pcall(function() pierrot.stash() return pierrot.stash() end)) end },
    }
    a:tell(1)
    local deferred = pierrot.spawn(function(_, ref) return ref end)
    assert.truthy(deferred:ask(a))
    a:tell "stop"
    local b = pierrot.spawn(function()
      pierrot.become { again = function() end }
      local first = pierrot.stash()
      local ok, err = pcall(function() local r = pierrot.stash() return r end)
      pierrot.self():drain()
      assert(first and not ok and err:find("behaviour_spec.lua:%d+: stash: the message in hand is stashed already"), err)
      pierrot.log.level "none"
    end)
    b:tell(1)
    while b:is_alive() do pierrot.sleep(0.001) end
    assert.equal(0, pierrot.stats().failures)
  end)

  -- Every asker waits for its own number; the gate opens and closes at random moments. 100,000 asks; so many of each asker
  -- is PIERROT_HAMMER=64.
  for _, workers in ipairs { 1, 2, 4, 8 } do
    it("answers 64 askers behind a gate, each its own: " .. workers .. " workers", function()
      pierrot.shutdown(10)
      assert(pierrot.start { workers = workers, log = "none" })
      local rounds = math.max(20, math.floor((sanitized and 2000 or 100000) * hammer / 64))
      local me = pierrot.self()
      local gate = pierrot.spawn {
        start = function(self) self.open, self.n = false, 0 end,
        receive = function(self, x)
          if x == "switch" then
            self.open = not self.open
            if self.open then pierrot.unstash() end
            return
          end
          self.n = self.n + 1
          if not self.open then pierrot.stash() return end
          return x
        end,
      }
      for i = 1, 64 do
        pierrot.spawn(function(_, n)
          local bad = 0
          for round = 1, n do
            local x = i * 1e6 + round
            if gate:ask_within(120, x) ~= x then bad = bad + 1 end
          end
          me:tell("done", bad)
        end):tell(rounds)
      end
      local ticker = pierrot.send_every(0.002, gate, "switch")
      for _ = 1, 64 do assert.same({ "done", 0 }, { pierrot.receive(60 + 20 * hammer) }) end
      ticker:cancel()
    end)
  end
end)
