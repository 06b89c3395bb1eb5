-- Groups and routers.
--
-- Mutants that these find: leave_all that leaves the first group only; die without it; publish that leaves its own
-- sender out, or stops at a dead member; a router that forwards without the ask; round robin that skips one; place
-- that is key % n; a resize that kills instead of draining.

local pierrot = require "pierrot"

local hammer = tonumber(os.getenv "PIERROT_HAMMER") or 1
local sanitized = os.getenv "PIERROT_SANITIZER"

local function echo(_, ...) return pierrot.self(), ... end

local function wait(fn)
  while not fn() do pierrot.sleep(0.001) end
end

describe("a group", function()
  before_each(function() assert(pierrot.start { workers = 2, log = "none" }) end)
  after_each(function() assert.is_true(pierrot.shutdown(10)) end)

  it("has members in the order of joining, and is left", function()
    local refs = {}
    for i = 1, 5 do
      refs[i] = pierrot.spawn(function(_, what, group) return pierrot[what](group) end)
      assert.is_true(refs[i]:ask("join", "five"))
    end
    assert.same(refs, pierrot.members "five")
    assert.is_false(refs[2]:ask("join", "five"))
    assert.is_true(refs[2]:ask("leave", "five"))
    assert.is_false(refs[2]:ask("leave", "five"))
    assert.is_true(pierrot.join("five", refs[2]))
    assert.same({ refs[1], refs[3], refs[4], refs[5], refs[2] }, pierrot.members "five")
    assert.same({}, pierrot.members "nobody")
    assert.is_false(pierrot.leave("nobody", refs[1]))
  end)

  it("publishes to all, the publisher included, in order; says how many it reached", function()
    local me = pierrot.self()
    for i = 1, 3 do
      local a = pierrot.spawn(function(_, n) me:tell(i, n, pierrot.sender() == me) end)
      pierrot.join("p", a)
    end
    assert.is_true(pierrot.join "p")
    local n = 200
    for k = 1, n do assert.equal(4, pierrot.publish("p", k)) end
    local last, own = { 0, 0, 0 }, 0
    for _ = 1, 4 * n do
      local i, k, sender = pierrot.receive(60)
      if k == nil then
        own = own + 1
        assert.equal(own, i)
      else
        assert.equal(last[i] + 1, k)
        assert.is_true(sender)
        last[i] = k
      end
    end
    assert.same({ n, n, n, n }, { own, last[1], last[2], last[3] })
    assert.equal(0, pierrot.publish("nobody", 1))
    assert.is_true(pierrot.leave "p")
    local ok, err = pcall(pierrot.publish, "p", print)
    assert.is_false(ok)
    assert.truthy(err:find "message%[1%]: function")
  end)

  it("loses members with their end, and not with a restart", function()
    local a = pierrot.spawn { start = function() pierrot.join "x" pierrot.join "y" end,
                              on = { fail = function() error "x" end }, receive = echo }
    assert.equal(a, a:ask(1))
    assert.same({ a }, pierrot.members "x")
    a:tell "fail"
    assert.equal(a, a:ask(1))
    assert.same({ a }, pierrot.members "x")
    a:stop()
    wait(function() return not a:is_alive() end)
    wait(function() return pierrot.stats().memberships == 0 end)
    assert.equal(0, #pierrot.members "x" + #pierrot.members "y")
    assert.same({ nil, "dead" }, { pierrot.join("x", a) })
    assert.equal(0, pierrot.publish("x", 1))
  end)

  it("refuses what is no group and no member, at the caller's line", function()
    for _, call in ipairs { { "join", 1 }, { "join", "" }, { "leave", {} }, { "members", ("x"):rep(256) }, { "publish" },
                            { "join", "x", "name" } } do
      local ok, err = pcall(function() local r = pierrot[call[1]](unpack(call, 2, 3)) return r end)
      assert.is_false(ok)
      assert.truthy(err:find("groups_spec.lua:%d+: " .. call[1]), err)
    end
  end)

  -- Members come, go and end on all workers while others publish.
  it("stands a storm of joins, leaves and ends", function()
    pierrot.shutdown()
    for _, workers in ipairs { 1, 2, 4, 8 } do
      assert(pierrot.start { workers = workers, log = "none" })
      local me = pierrot.self()
      local rounds = math.ceil((sanitized and 30 or 300) * hammer)
      for i = 1, 16 do
        pierrot.spawn(function(_, n)
          for k = 1, n do
            local name = "g" .. (i + k) % 5
            local a = pierrot.spawn(function() end)
            pierrot.join(name, a)
            pierrot.join("all", a)
            pierrot.publish(name, k)
            if k % 3 == 0 then pierrot.leave(name, a) end
            if k % 2 == 0 then a:stop() else a:kill() end
          end
          pierrot.publish("all", 0)
          me:tell "done"
        end):tell(rounds)
      end
      for _ = 1, 16 do assert.equal("done", pierrot.receive(60)) end
      wait(function() return pierrot.stats().actors == 16 and pierrot.stats().memberships == 0 end)
      for _, name in ipairs { "all", "g0", "g1", "g2", "g3", "g4" } do assert.same({}, pierrot.members(name)) end
      assert.is_true(pierrot.shutdown(20))
    end
    assert(pierrot.start { workers = 2, log = "none" })
  end)
end)

describe("a router", function()
  before_each(function() assert(pierrot.start { workers = 2, log = "none" }) end)
  after_each(function() assert.is_true(pierrot.shutdown(10)) end)

  local function spread(router, n, ...)
    local count, list = {}, {}
    for _ = 1, n do
      local who = router:ask(...)
      list[#list + 1] = who
      count[who] = (count[who] or 0) + 1
    end
    return count, list
  end

  it("takes turns, with sender and ask", function()
    local r = pierrot.router { echo, size = 3, name = "desk" }
    local routees = pierrot.routees(r)
    assert.equal(3, #routees)
    local _, list = spread(r, 7, "x")
    assert.same({ routees[1], routees[2], routees[3], routees[1], routees[2], routees[3], routees[1] }, list)
    local s = pierrot.router { function() return pierrot.sender() end, size = 1 }
    assert.equal(pierrot.self(), s:ask())
    assert.equal(r, pierrot.whereis "desk")
    assert.same({ nil, "exists", r }, { pierrot.router { echo, name = "desk" } })
  end)

  it("gives its routees their arguments and options, by behaviour, function or module", function()
    local r = pierrot.router { { start = function(self, a, b, c) self.v = { a, b, c } end,
                                 receive = function(self) return self.v[1], self.v[2], self.v[3] end }, 1, nil, 3, size = 2,
                               restart = "temporary" }
    assert.same({ 1, nil, 3 }, { r:ask() })
    local factor = 7
    r = pierrot.router { function(_, n) return factor * n end, size = 2 }
    assert.equal(21, r:ask(3))
  end)

  it("random reaches all", function()
    local r = pierrot.router { echo, size = 4, strategy = "random" }
    local count = spread(r, 400)
    for _, ref in ipairs(pierrot.routees(r)) do assert.is_true((count[ref] or 0) > 20) end
  end)

  it("hash keeps a key with one routee, and moves few when resized", function()
    local r = pierrot.router { echo, size = 8, strategy = "hash" }
    local before = {}
    for key = 1, 400 do before[key] = r:ask("put", "key" .. key) end
    local used = {}
    for key = 1, 400 do
      assert.equal(before[key], (r:ask("get", "key" .. key, "other")))
      used[before[key]] = (used[before[key]] or 0) + 1
    end
    local n = 0
    for _, k in pairs(used) do n = n + 1 assert.is_true(k > 15) end
    assert.equal(8, n)
    assert.equal(9, pierrot.resize(r, 9))
    local moved, new = 0, pierrot.routees(r)[9]
    for key = 1, 400 do
      local now = r:ask("get", "key" .. key)
      if now ~= before[key] then
        moved = moved + 1
        assert.equal(new, now)   -- keys move to the new one alone
      end
    end
    assert.is_true(moved > 10 and moved < 100)
    local own = pierrot.router { echo, size = 5, strategy = "hash", key = function(t) return t.user end }
    local who = own:ask { user = "ann", x = 1 }
    for i = 1, 20 do assert.equal(who, (own:ask { user = "ann", x = i })) end
    local ok, err = pcall(own.ask, own, {})
    assert.is_false(ok)
    assert.truthy(err.message:find "a key is a string, number, boolean or ref")
  end)

  it("smallest_mailbox goes round those that are busy", function()
    local r = pierrot.router { function(_, hold) if hold then pierrot.sleep(60) end return pierrot.self() end, size = 3,
                               strategy = "smallest_mailbox" }
    local routees = pierrot.routees(r)
    for sent = 1, 4 do    -- one of the three has two
      r:tell(true)
      wait(function()     -- one that is being taken is neither in line nor in hand yet
        local held = 0
        for _, ref in ipairs(routees) do
          local info = ref:info()
          held = held + info.depth + (info.state == "suspended" and 1 or 0)
        end
        return held == sent
      end)
    end
    local loads = {}
    for _, ref in ipairs(routees) do
      wait(function() return ref:info().state == "suspended" end)   -- all have taken their first
    end
    for _, ref in ipairs(routees) do loads[#loads + 1] = ref:info().depth end
    table.sort(loads)
    assert.same({ 0, 0, 1 }, loads)
    for _, ref in ipairs(routees) do ref:kill() end
  end)

  -- Its worker is held, so what others send it stays in that worker's inbox, where only a box counts it.
  it("smallest_mailbox counts what has not come out of another worker's inbox", function()
    local Routee = function(_, what)
      if what == "hold" then
        while not pierrot.whereis "let go" do end   -- luacheck: ignore 542
      end
      return pierrot.self()
    end
    local r, busy
    repeat
      r = pierrot.router { Routee, size = 4, strategy = "smallest_mailbox", worker = 1 }
      for _, ref in ipairs(pierrot.routees(r)) do
        ref:ask "where are you"
        if ref:info().worker ~= 1 then busy = ref end
      end
    until busy
    busy:tell "hold"
    wait(function() return busy:info().state == "processing" and busy:info().depth == 0 end)
    for _ = 1, 20 do busy:tell "wait" end
    assert.equal(20, busy:info().depth)
    local before = r:info().processed
    for _ = 1, 50 do r:tell "work" end   -- the others take them, on the held worker and on the router's own
    wait(function() return r:info().processed == before + 50 end)
    assert.equal(20, busy:info().depth)
    pierrot.register("let go", r)
    wait(function() return busy:info().processed == 22 end)
  end)

  it("broadcast reaches all; an ask is answered by the first", function()
    local me = pierrot.self()
    local r = pierrot.router { function(_, x) me:tell("got", x) return "reply" end, size = 5, strategy = "broadcast" }
    assert.equal("reply", r:ask "x")
    for _ = 1, 5 do assert.same({ "got", "x" }, { pierrot.receive(60) }) end
  end)

  it("scatter_gather gives the first reply, and an error when there is none", function()
    local r = pierrot.router { function(_, what)
      local n = 0
      for i, ref in ipairs(pierrot.members "gathered") do if ref == pierrot.self() then n = i end end
      if what == "fail" or (what == "some" and n ~= 3) then error("broken", 0) end
      if n ~= 2 and what ~= "some" then pierrot.sleep(0.5) end
      return n
    end, size = 3, strategy = "scatter_gather", within = 60 }
    for _, ref in ipairs(pierrot.routees(r)) do pierrot.join("gathered", ref) end
    assert.equal(2, r:ask("get"))
    assert.equal(3, r:ask_within(60, "some"))
    local ok, err = pcall(r.ask_within, r, 60, "fail")
    assert.is_false(ok)
    assert.equal("failed", err.kind)
    assert.is_true(r:tell "some")   -- no ask: to all
  end)

  it("resizes; what leaves does what it has been given", function()
    local me = pierrot.self()
    local r = pierrot.router { function(_, x) pierrot.sleep(0.001) me:tell(x) return x end, size = 4 }
    for i = 1, 40 do r:tell(i) end
    assert.equal(1, pierrot.resize(r, 1))
    assert.equal(1, #pierrot.routees(r))
    local got = {}
    for _ = 1, 40 do got[pierrot.receive(60)] = true end
    for i = 1, 40 do assert.is_true(got[i], i) end
    assert.equal(6, pierrot.resize(r, 6))
    assert.equal(6, #pierrot.routees(r))
  end)

  it("restarts a routee that fails, replaces one that has ended", function()
    local r = pierrot.router { function(_, what)
      if what == "fail" then error "x" elseif what == "end" then pierrot.stop() end
      return pierrot.self()
    end, size = 2 }
    local first = r:ask()
    assert.is_false(pcall(r.ask, r, "fail"))
    assert.equal(first, r:ask())
    assert.is_truthy(r:ask "end")
    wait(function() return pierrot.stats().ended == 1 end)
    local count = spread(r, 10)
    local n = 0
    for _, k in pairs(count) do n = n + 1 assert.equal(5, k) end
    assert.equal(2, n)
  end)

  it("routes to a group", function()
    local r = pierrot.router { group = "team" }
    local ok, err = pcall(r.ask, r, 1)
    assert.is_false(ok)
    assert.equal("dead", err.kind)
    local a, b = pierrot.spawn(echo), pierrot.spawn(echo)
    pierrot.join("team", a)
    pierrot.join("team", b)
    local count = spread(r, 10)
    assert.same({ 5, 5 }, { count[a], count[b] })
    assert.same({ a, b }, pierrot.routees(r))
    assert.is_false(pcall(pierrot.resize, r, 3))
    assert.equal(1, pierrot.stats().dead_letters)
  end)

  it("refuses wrong options at the caller's line", function()
    local n = 0
    local function assigns() n = n + 1 end
    for _, bad in ipairs { 1, {}, { echo, group = "x" }, { echo, strategy = "best" }, { echo, size = 0 }, { echo, size = 1.5 },
                           { echo, key = 1 }, { group = "x", size = 2 }, { echo, nonsense = true }, { assigns },
                           { echo, restart = "never" } } do
      local ok, err = pcall(function() local r = pierrot.router(bad) return r end)
      assert.is_false(ok)
      assert.truthy(err:find("groups_spec.lua:%d+: router: "), err)
    end
  end)
end)
