--- pierrot.reload: what running actors have after it, what a version that does not load leaves behind, and that under load
--- no message is lost and no handler runs half old and half new.
--- Mutants that these tests have seen: the old version kept (no successor set), `upgrade` not called, a started life taking
--- the old version, package.loaded set while a version is only tried, the former module not known by name.

local pierrot = require "pierrot"
local script = require "support.script"
local times = require "support.times"

local function module(name, text)
  script.write(name .. ".lua", text)
end

local path, before = nil, nil

describe("pierrot.reload", function()
  setup(function()
    before = package.path
    path = script.path "?.lua"
    package.path = path .. ";" .. before
  end)
  before_each(function() assert(pierrot.start { workers = 2, log = "none" }) end)
  after_each(function() assert(pierrot.shutdown()) end)
  teardown(function()
    package.path = before
    script.clean()
  end)

  it("gives running actors the new code, with their self; those born and restarted later too", function()
    module("counter", [[return { on = { inc = function(self) self.n = (self.n or 0) + 1 return "one", self.n end } }]])
    local refs = {}
    for i = 1, 4 do refs[i] = pierrot.spawn { "counter", worker = i % 2 + 1 } end
    for _, ref in ipairs(refs) do
      assert.same({ "one", 1 }, { ref:ask "inc" })
      assert.equal(1, ref:info().version)
    end
    module("counter", [[return { start = function(self) self.n = 100 end, on = {
      inc = function(self) self.n = (self.n or 0) + 1 return "two", self.n end,
      fail = function() error "on purpose" end } }]])
    assert.same({ true, 0 }, { pierrot.reload "counter" })
    for _, ref in ipairs(refs) do
      assert.equal(1, ref:info().version)   -- until its next message
      assert.same({ "two", 2 }, { ref:ask "inc" })
      assert.equal(2, ref:info().version)
    end
    local born = pierrot.spawn "counter"
    assert.same({ "two", 101 }, { born:ask "inc" })
    assert.equal(2, born:info().version)
    pcall(refs[3].ask, refs[3], "fail")
    assert.same({ "two", 101 }, { refs[3]:ask "inc" })
    module("counter", [[return { on = { inc = function(self) self.n = (self.n or 0) + 1 return "three", self.n end } }]])
    assert(pierrot.reload "counter")
    refs[1]:kill()
    assert.same({ "three", 3 }, { refs[2]:ask "inc" })
    assert.same({ "three", 1 }, { pierrot.spawn "counter":ask "inc" })
  end)

  it("calls upgrade once, before the next message, with the version before; its failure is the actor's", function()
    module("grows", [[return { version = "1.0", on = { get = function(self) return self.seen end } }]])
    local ref, idle = pierrot.spawn "grows", pierrot.spawn "grows"
    assert.is_nil(ref:ask "get")
    assert.is_nil(idle:ask "get")
    assert.equal("1.0", ref:info().version)
    for version = 2, 4 do
      module("grows", ([[return {
        version = %d,
        upgrade = function(self, old) self.seen = (self.seen or "") .. type(old) .. old .. ">%d " end,
        on = { get = function(self) return self.seen end } }]]):format(version, version))
      assert(pierrot.reload "grows")
      if version < 4 then ref:ask "get" end
    end
    assert.equal("string1.0>2 number2>3 number3>4 ", ref:ask "get")
    assert.equal("string1.0>2 number2>3 number3>4 ", ref:ask "get")
    assert.equal("string1.0>4 ", idle:ask "get")   -- not those between
    assert.equal(4, idle:info().version)
    module("grows", [[local pierrot = require "pierrot"
      return { upgrade = function() pierrot.sleep(0.01) end, on = { get = function(self) return tostring(self.seen) end } }]])
    assert(pierrot.reload "grows")
    local ok, err = pcall(ref.ask, ref, "get")
    assert.is_false(ok)
    assert.is_truthy(tostring(err):find "sleep: cannot suspend here", tostring(err))
    assert.equal("nil", ref:ask "get")   -- restarted, with the new code
    assert.equal(1, ref:info().restarts)
  end)

  it("a version that does not load changes nothing", function()
    module("stays", [[LOADS = (LOADS or 0) + 1
      return { name = "stays", on = {
        get = function() return "old", require("stays").name, package.loaded.stays == require "stays" end } }]])
    local ref
    for worker = 1, 2 do   -- a worker that has not loaded it yet would find what is in the file now
      ref = pierrot.spawn { "stays", worker = worker }
      assert.same({ "old", "stays", true }, { ref:ask "get" })
    end
    for _, wrong in ipairs { { "return {", "stays.lua:1: " }, { "error 'on purpose'", "stays.lua:1: on purpose" },
                             { "return { nonsense = 1 }", "'stays' is no behaviour: unknown field 'nonsense'" },
                             { "return 1", "a behaviour is a function or a table, not a number" },
                             { "require('pierrot').sleep(1)", "sleep: cannot suspend here" } } do
      module("stays", wrong[1])
      local ok, reason = pierrot.reload "stays"
      assert.is_nil(ok)
      assert.is_truthy(reason:find(wrong[2], 1, true), reason)
      assert.same({ "old", "stays", true }, { ref:ask "get" })
      assert.equal(1, ref:info().version)
      assert.same({ "old", "stays", true }, { pierrot.spawn "stays":ask "get" })
    end
    local ok, reason = pierrot.reload "no.such.module"
    assert.is_nil(ok)
    assert.is_truthy(reason:find("there is no file of a module 'no.such.module':\n\tno file", 1, true))
    for _, wrong in ipairs { 5, "", {}, print } do
      local raised, message = pcall(function() pierrot.reload(wrong) end)
      assert.is_false(raised)
      assert.is_truthy(message:find "reload_spec.lua:%d+: reload: a module's name expected", message)
    end
  end)

  it("what uses a module takes it: behaviours in place that refer to it or lie in it; by its old table too", function()
    module("parts", [[return { cart = { on = { get = function(self) self.n = (self.n or 0) + 1 return "old cart", self.n end } },
                               price = function() return "old price" end }]])
    local parts = require "parts"
    local cart = pierrot.spawn(parts.cart)
    local user = pierrot.spawn { { on = {
      price = function(self) self.parts = self.parts or parts return parts.price() end,
      another = function(self) return require("pierrot").spawn(self.parts.cart):ask "get" end } } }
    assert.same({ "old cart", 1 }, { cart:ask "get" })
    assert.equal("old price", user:ask "price")
    module("parts", [[return { cart = { on = { get = function(self) self.n = (self.n or 0) + 1 return "new cart", self.n end } },
                               price = function() return "new price" end }]])
    assert(pierrot.reload "parts")
    assert.same({ "new cart", 2 }, { cart:ask "get" })
    assert.equal("new price", user:ask "price")
    assert.same({ "new cart", 1 }, { user:ask "another" })
    assert.same({ "new cart", 1 }, { pierrot.spawn(parts.cart):ask "get" })   -- the table here is the old one
    package.loaded.parts = nil
  end)

  it("replaces behaviours of the running script, given them or their name", function()
    local Old = { name = "in place", on = { get = function(self) self.n = (self.n or 0) + 1 return "old", self.n end } }
    local ref = pierrot.spawn(Old)
    assert.same({ "old", 1 }, { ref:ask "get" })
    assert(pierrot.reload(Old, { name = "in place", on = { get = function(self) self.n = self.n + 1 return "new", self.n end } }))
    assert.same({ "new", 2 }, { ref:ask "get" })
    assert.equal("in place", ref:info().behaviour)
    assert(pierrot.reload("in place", { name = "in place", on = { get = function(self) return "newest", self.n end } }))
    assert.same({ "newest", 2 }, { ref:ask "get" })
    assert(pierrot.reload(Old, Old))   -- back again
    assert.same({ "old", 3 }, { ref:ask "get" })
    assert.equal(4, ref:info().version)
    assert.same({ nil, "there is no behaviour 'nobody'" }, { pierrot.reload("nobody", Old) })
    local ok, message = pcall(function() pierrot.reload(Old, { nonsense = 1 }) end)
    assert.is_false(ok)
    assert.is_truthy(message:find "reload_spec.lua:%d+: reload: the new behaviour: unknown field 'nonsense'", message)
  end)

  it("a handler that is suspended ends as it began; stop is that of the version an actor has", function()
    module("slow", [[local pierrot = require "pierrot"
      return { on = { go = function(self, gate) local got = gate:ask "wait" return "old " .. got end,
                      report = function(self, to) self.to = to end },
               stop = function(self) if self.to then self.to:tell "old stop" end end }]])
    local gate = pierrot.spawn { { on = {
      wait = function(self) self.waiting = require("pierrot").defer() end,
      waits = function(self) return self.waiting ~= nil end,
      open = function(self) self.waiting:reply "end" end } } }
    local ref, idle = pierrot.spawn "slow", pierrot.spawn "slow"
    idle:ask("report", pierrot.self())
    local caller = pierrot.spawn { { on = { go = function(_, it, at, to) to:tell("answer", it:ask("go", at)) end } } }
    caller:tell("go", ref, gate, pierrot.self())
    repeat until gate:ask "waits"
    module("slow", [[return { on = { go = function() return "new" end }, stop = function() error "not this one" end }]])
    assert(pierrot.reload "slow")
    gate:tell "open"
    assert.same({ "answer", "old end" }, { pierrot.receive(30, function(first) return first == "answer" end) })
    assert.equal("new", ref:ask "go")
    idle:stop()
    assert.equal("old stop", pierrot.receive(30))
  end)

  it("what the new version does not take is a dead letter; become lies on top until unbecome", function()
    module("turns", [[local pierrot = require "pierrot"
      return { on = { turn = function() pierrot.become { on = { back = function() pierrot.unbecome() return "back" end } } return true end,
                      gone = function() return "old" end } }]])
    local ref = pierrot.spawn "turns"
    ref:ask "turn"
    module("turns", [[return { on = { here = function() return "new" end } }]])
    assert(pierrot.reload "turns")
    assert.equal("back", ref:ask "back")
    local ok, err = pcall(ref.ask, ref, "gone")
    assert.is_false(ok)
    assert.is_truthy(tostring(err):find("nothing in its behaviour takes this message", 1, true))
    assert.equal("new", ref:ask "here")
  end)

  it("a worker that is held up takes it when it is free", function()
    pierrot.shutdown()
    assert(pierrot.start { workers = 2, log = "none", ask_timeout = 0.3, dispatchers = { io = 1 } })
    module("late", [[return { on = { get = function() return "old" end } }]])
    local far = pierrot.spawn { "late", dispatcher = "io" }
    local here = pierrot.spawn "late"
    assert.same({ "old", "old" }, { far:ask "get", here:ask "get" })
    local fifo = script.path "held"
    script.sh("mkfifo " .. script.quote(fifo))
    local holder = pierrot.spawn { function(_, name) io.open(name):close() end, dispatcher = "io" }
    holder:tell(fifo)
    repeat until holder:info().state == "processing"
    module("late", [[return { on = { get = function() return "new" end } }]])
    assert.same({ true, 1 }, { pierrot.reload "late" })
    assert.equal("new", here:ask "get")
    local waiting = pierrot.spawn { { on = { go = function(_, to, it) to:tell(it:ask_within(30, "get")) end } } }
    waiting:tell("go", pierrot.self(), far)
    script.sh("echo >" .. script.quote(fifo))
    assert.equal("new", pierrot.receive(30))
  end)

  it("a thousand reloads under ten thousand busy actors: nothing is lost, no handler is half new", function()
    local reloads, actors = times(60, 30), times(600, 200)
    local out = script.output(([=[
local pierrot = require "pierrot"
local function write(version)
  local file = assert(io.open(%q, "w"))
  file:write(([[
local pierrot = require "pierrot"
local VERSION = %%d
local function version() return VERSION end
return {
  name = "busy", version = VERSION,
  start = function(self) self.version, self.count = VERSION, 0 end,
  upgrade = function(self, old)
    assert(old == self.version and old < VERSION, "an upgrade from what it was not")
    self.version = VERSION
  end,
  on = {
    work = function(self)
      assert(self.version == VERSION, "not upgraded")
      self.count = self.count + 1
      if self.count %%%% 16 == 0 then pierrot.yield() end
      assert(self.version == %%d and version() == %%d, "half old, half new")
    end,
    count = function(self) return self.count, self.version end,
  },
}
]]):format(version, version, version))
  file:close()
end
write(1)
local actors = {}
for i = 1, %d do actors[i] = pierrot.spawn "busy" end
for _, actor in ipairs(actors) do actor:ask "count" end
local feeder = pierrot.spawn { { on = {
  go = function(self, list)
    self.actors, self.rounds = list, 0
    pierrot.self():tell "round"
  end,
  round = function(self)
    for _, actor in ipairs(self.actors) do actor:tell "work" end
    for i = 1, #self.actors, 97 do self.actors[i]:ask_within(60, "count") end
    self.rounds = self.rounds + 1
    if self.stopped then self.stopped:reply(self.rounds) else pierrot.self():tell "round" end
  end,
  stop = function(self) self.stopped = pierrot.defer() end,
} } }
feeder:tell("go", actors)
local function resident()
  local file = io.open "/proc/self/status"
  local kb = tonumber(file:read "*a":match "VmRSS:%%s*(%%d+)")
  file:close()
  return kb
end
local last, half = %d + 1
for version = 2, last do
  write(version)
  local ok, waiting = pierrot.reload "busy"
  assert(ok, waiting)
  if version == math.floor(last / 2) then half = resident() end
end
local grown = resident() - half
local rounds = feeder:ask_within(60, "stop")
for _, actor in ipairs(actors) do
  local count, version = actor:ask_within(60, "count")
  assert(count == rounds and version == last, ("%%d of %%d messages, version %%d"):format(count, rounds, version))
end
assert(pierrot.stats().failures == 0 and pierrot.stats().dead_letters == 0)
print(grown)
]=]):format(script.path "busy.lua", actors, reloads), { limit = 280, flags = "--log error --workers 2" })
    local grown = tonumber(out)
    assert.is_true(script.sanitized or grown < 16384, grown)   -- a version more than needed for each would be more
  end)
end)
