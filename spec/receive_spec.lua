-- receive: the next message, or the next that matches, with the others left in order; outside as inside.

local pierrot = require "pierrot"

local function echo(_, ...) return ... end

-- Runs `fn(...)` outside, then in an actor; both must return what `check` wants.
local function both(fn, check)
  check(fn())
  check(pierrot.spawn { function() return fn() end, worker = 1 }:ask_within(60))
end

describe("receive", function()
  before_each(function() assert(pierrot.start { workers = 2, log = "none" }) end)
  after_each(function() pierrot.shutdown() end)

  it("gives the next message's values, nothing on time-out", function()
    both(function()
      local me = pierrot.self()
      me:tell(1, nil, 3, nil)
      local n = select("#", pierrot.receive())
      local none, short = select("#", pierrot.receive(0)), select("#", pierrot.receive(0.01))
      me:tell()
      local empty = select("#", pierrot.receive(5))
      me:tell(nil)
      return n, none, short, empty, select("#", pierrot.receive(5))
    end, function(...) assert.same({ 4, 0, 0, 0, 1 }, { ... }) end)
  end)

  it("with match takes the first that matches and keeps the others in order", function()
    both(function()
      local me = pierrot.self()
      for i = 1, 10 do me:tell(i, "v" .. i) end
      local out = {}
      local function take(match) out[#out + 1] = (pierrot.receive(0, match)) or "-" end
      take(function(i) return i > 5 end)
      take(function(i) return i % 2 == 0 end)
      take(function(i) return i > 100 end)
      take(function(_, v) return v == "v10" end)
      for _ = 1, 8 do take() end
      return table.concat(out, " ")
    end, function(s) assert.equal("6 2 - 10 1 3 4 5 7 8 9 -", s) end)
  end)

  it("with match waits for it while others come in", function()
    local me = pierrot.self()
    local a = pierrot.spawn(function()
      local what, n = pierrot.receive(60, function(w) return w == "wanted" end)
      local rest = {}
      for i = 1, 5 do rest[i] = pierrot.receive(0) end
      return what, n, table.concat(rest, " ")
    end)
    pierrot.spawn(function(_, to) me:tell(to:ask_within(60, "begin")) end):tell(a)
    while a:info().state ~= "suspended" do pierrot.sleep(0.001) end
    for i = 1, 5 do a:tell("other" .. i) end
    a:tell("wanted", 7)
    assert.same({ "wanted", 7, "other1 other2 other3 other4 other5" }, { pierrot.receive(60) })
  end)

  it("an error in match reaches the caller, and no message is lost", function()
    both(function()
      local me = pierrot.self()
      me:tell(1) me:tell(2)
      local ok, err = pcall(pierrot.receive, 0, function() error({ "mine" }) end)
      return ok, err[1], (pierrot.receive(0)), (pierrot.receive(0))
    end, function(...) assert.same({ false, "mine", 1, 2 }, { ... }) end)
  end)

  it("answers an ask in hand through the handler's return or by defer", function()
    local a = pierrot.spawn(function()
      local what = pierrot.receive(60)
      pierrot.defer():reply("inner", what)
      return "outer"
    end)
    local me = pierrot.self()
    pierrot.spawn(function(_, to) me:tell("1", to:ask_within(60, "first")) end):tell(a)
    while a:info().state ~= "suspended" do pierrot.sleep(0.001) end
    assert.same({ "inner", "second" }, { a:ask_within(60, "second") })
    assert.same({ "1", "outer" }, { pierrot.receive(60) })
  end)

  it("an ask taken and not answered is told so at once", function()
    local a = pierrot.spawn(function() pierrot.receive(60) return "outer" end)
    a:tell "first"
    while a:info().state ~= "suspended" do pierrot.sleep(0.001) end
    local ok, err = pcall(a.ask_within, a, 3600, "second")
    assert.is_false(ok)
    assert.equal("failed", err.kind)
  end)

  it("makes the sender that of the message taken, and forwards that", function()
    local last = pierrot.spawn(function(_, ...) return "last", pierrot.sender(), ... end)
    local a = pierrot.spawn { { start = function()
      while true do
        pierrot.receive()
        pierrot.forward(last)
      end
    end } }
    local which, sender, x = a:ask_within(60, "x")
    assert.same({ "last", pierrot.self(), "x" }, { which, sender, x })
  end)

  it("in a loop ends at stop, drain and shutdown, with its stop callback", function()
    local me = pierrot.self()
    local loop = { start = function(self) self.n = 0 me:tell "started" while true do pierrot.receive() self.n = self.n + 1 end end,
                   stop = function(self, reason) me:tell("stop", reason, self.n) end }
    local a = pierrot.spawn(loop)
    assert.equal("started", pierrot.receive(60))
    a:tell(1) a:tell(2)
    a:drain "drained"
    assert.same({ "stop", "drained", 2 }, { pierrot.receive(60) })
    a = pierrot.spawn(loop)
    assert.equal("started", pierrot.receive(60))
    a:stop "stopped"
    assert.same({ "stop", "stopped", 0 }, { pierrot.receive(60) })
    pierrot.spawn(loop)
    assert.equal("started", pierrot.receive(60))
    assert.is_true(pierrot.shutdown(10))
    assert(pierrot.start { workers = 2, log = "none" })
  end)

  it("takes wrong arguments with an error at the caller's line", function()
    for _, bad in ipairs { -1, 0 / 0, "1", {}, true } do
      local ok, err = pcall(function() local r = pierrot.receive(bad) return r end)
      assert.is_false(ok)
      assert.truthy(err:find("receive_spec.lua:%d+: receive"), err)
    end
    local ok, err = pcall(function() local r = pierrot.receive(0, "x") return r end)
    assert.is_false(ok)
    assert.truthy(err:find("receive_spec.lua:%d+: receive"), err)
    pierrot.self():tell(1)
    assert.equal(1, pierrot.receive(math.huge))
    pierrot.self():tell(2)
    assert.equal(2, pierrot.receive(1e300))
    assert.equal(3, pierrot.spawn(function() pierrot.self():tell(3) return (pierrot.receive(math.huge)) end):ask())
    assert.equal(1, pierrot.spawn(echo):ask(1))
  end)

  it("does not take the replies of asks", function()
    local k = pierrot.spawn(function() local d = pierrot.defer() pierrot.sleep(0.05) d:reply "late" end)
    both(function()
      pcall(k.ask_within, k, 0.01)
      return select("#", pierrot.receive(0.1))
    end, function(n) assert.equal(0, n) end)
  end)
end)
