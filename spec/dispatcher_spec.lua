-- Dispatchers: what blocks the threads of one delays nobody on another; what `start` and `spawn` take; figures.
--
-- Actors block in C, in a read from a pipe to which only the test writes: so it is certain that they are still there
-- while others are looked at, and nothing depends on time.

local ffi = require "ffi"
local pierrot = require "pierrot"
local script = require "support.script"

ffi.cdef [[
  int pipe(int fds[2]);
  long read(int fd, void *buffer, size_t count);
  long write(int fd, const void *buffer, size_t count);
  int close(int fd);
]]

local function wait(condition)
  while not condition() do pierrot.sleep(0.001) end
end

local opened = {}

-- { enter = end to read from, open = function(n): lets n through }
local function new_gate()
  local fds = ffi.new "int[2]"
  assert(ffi.C.pipe(fds) == 0)
  local enter, leave = fds[0], fds[1]
  opened[#opened + 1] = fds
  return { enter = enter, open = function(n) assert(ffi.C.write(leave, ("x"):rep(n), n) == n) end }
end

-- Inside an actor: blocks its thread in C until the gate lets it through.
local function pass(fd)
  local c = require "ffi"
  pcall(c.cdef, "long read(int fd, void *buffer, size_t count);")
  return tonumber(c.C.read(fd, c.new "char[1]", 1))
end

local Blocker = {
  name = "blocker",
  on = { pass = function(_, fd) return pass(fd) end, here = function() return true end },
}
local Echo = { name = "echo", receive = function(_, ...) return ... end }
local function of(name) return pierrot.stats().dispatchers[name] end
local function processed(actors)
  local n = 0
  for _, actor in ipairs(actors) do n = n + actor:info().processed end
  return n
end

describe("dispatchers", function()
  after_each(function()
    for _, fds in ipairs(opened) do ffi.C.write(fds[1], ("x"):rep(16), 16) end   -- after a test that failed half way
    pierrot.shutdown()
    for _, fds in ipairs(opened) do   -- when no thread can be in `read` any more
      ffi.C.close(fds[0])
      ffi.C.close(fds[1])
    end
    opened = {}
  end)
  teardown(script.clean)

  for workers = 1, 8 do
    it("keep eight actors that block in C away from everyone else, with " .. workers .. " default workers", function()
      assert(pierrot.start { workers = workers, log = "none" })
      local gate = new_gate()
      local blockers = {}
      for i = 1, 8 do blockers[i] = pierrot.spawn { Blocker, dispatcher = "blocking" } end
      for i = 1, 8 do blockers[i]:tell("pass", gate.enter) end
      wait(function() return processed(blockers) == 4 end)   -- a message counts from the moment it is taken in hand
      local echoes = {}
      for i = 1, 16 do echoes[i] = pierrot.spawn { Echo, worker = i % workers + 1 } end
      for round = 1, script.sanitized and 20 or 100 do
        for i = 1, 16 do assert(echoes[i]:ask(round) == round) end
      end
      assert.same({ 4, 4 }, { processed(blockers), of("blocking").busy })
      gate.open(8)
      for i = 1, 8 do assert.is_true(blockers[i]:ask("here")) end
      wait(function() return of("blocking").busy == 0 end)
    end)
  end

  it("have their own workers, and an actor stays on its own", function()
    assert(pierrot.start { workers = 2, log = "none", dispatchers = { blocking = 3, io = { workers = 2, throughput = 7 }, cpu = 1 } })
    for name, workers in pairs { default = 2, blocking = 3, io = 2, cpu = 1 } do
      local floating = pierrot.spawn { Echo, dispatcher = name }
      assert.equal(1, floating:ask(1))
      assert.equal(name, floating:info().dispatcher)
      assert.is_true(floating:info().worker >= 1 and floating:info().worker <= workers)
      for worker = 1, workers do
        local pinned = pierrot.spawn { Echo, dispatcher = name, worker = worker }
        assert.equal(worker, pinned:ask(worker))
        assert.same({ name, worker }, { pinned:info().dispatcher, pinned:info().worker })
      end
      local ok, err = pcall(pierrot.spawn, { Echo, dispatcher = name, worker = workers + 1 })
      assert.is_false(ok)
      local said = 'spawn: worker %d does not exist: the dispatcher "%s" has %d'
      assert.truthy(err:find(said:format(workers + 1, name, workers), 1, true), err)
    end
    assert.same({ 32, 1, 7, 32 }, { of("default").throughput, of("blocking").throughput, of("io").throughput, of("cpu").throughput })
  end)

  it("spread their actors, and give none to a worker that is held up", function()
    assert(pierrot.start { workers = 2, log = "none" })
    local residents, all = { 0, 0, 0, 0 }, {}
    local function add()
      local one = pierrot.spawn { Blocker, dispatcher = "blocking" }
      one:ask("here")
      wait(function() return of("blocking").busy == 0 or #all >= 12 end)
      local worker = one:info().worker
      residents[worker] = residents[worker] + 1
      all[#all + 1] = one
      return one
    end
    for n = 1, 12 do
      add()
      local most, least = 0, n
      for i = 1, 4 do most, least = math.max(most, residents[i]), math.min(least, residents[i]) end
      assert.is_true(most - least <= 1, table.concat(residents, " "))
    end
    local gate = new_gate()
    for _, one in ipairs(all) do
      if one:info().worker ~= 3 then one:tell("pass", gate.enter) end
    end
    wait(function() return processed(all) == 12 + 3 end)
    pierrot.sleep(0.005)   -- the others have been held up for so long at least
    for n = 1, 5 do
      add()
      assert.equal(3 + n, residents[3])
    end
    for _, one in ipairs(all) do   -- an end makes room
      if one:info().worker == 3 then
        one:stop()
        wait(function() return not one:is_alive() end)
      end
    end
    gate.open(9)
    wait(function() return of("blocking").busy == 0 end)
    assert.equal(3, add():info().worker)
  end)

  it("start their threads when they are first used, and their number is the configured one", function()
    local result = script.plain([[
      local pierrot = require "pierrot"
      local function threads()
        return tonumber(io.open("/proc/self/status"):read("*a"):match("Threads:%s*(%d+)"))
      end
      assert(pierrot.start{ workers = 2, dispatchers = { io = 3 } })
      local before = threads()
      print(pierrot.stats().dispatchers.io.running)
      local refs = {}
      for i = 1, 200 do refs[i] = pierrot.spawn{ function() return 1 end, dispatcher = "io" } end
      for i = 1, 200 do refs[i]:ask() end
      print(threads() - before, pierrot.stats().dispatchers.io.running, pierrot.stats().dispatchers.blocking.running)
      pierrot.spawn{ function() end, dispatcher = "blocking" }:ask()
      print(threads() - before)
      print(pierrot.shutdown())
      while threads() > before - 2 do pierrot.sleep(0.001) end   -- a joined thread is counted for a moment longer
    ]])
    assert.equal("false\n3\ttrue\tfalse\n7\ntrue\n", result.out, result.err)
    assert.equal(0, result.status)
  end)

  it("run a child on the default one, unless it is named or sent to its parent's worker", function()
    assert(pierrot.start { workers = 2, log = "none", dispatchers = { io = 2 } })
    local parent = pierrot.spawn { function()
      local plain, here, named = pierrot.spawn(Echo), pierrot.spawn { Echo, worker = "here" },
                                 pierrot.spawn { Echo, dispatcher = "blocking" }
      for _, child in ipairs { plain, here, named } do child:ask(1) end
      local ok, err = pcall(function() return (pierrot.spawn { Echo, worker = "here", dispatcher = "blocking" }) end)
      return plain:info().dispatcher, here:info().dispatcher, here:info().worker, named:info().dispatcher, ok, err
    end, dispatcher = "io", worker = 2 }
    local plain, here, worker, named, ok, err = parent:ask()
    assert.same({ "default", "io", 2, "blocking", false }, { plain, here, worker, named, ok })
    assert.truthy(err:find('spawn: worker = "here" is a worker of the dispatcher "io", not of "blocking"', 1, true), err)
  end)

  it("that are not there, or not rightly asked for, are named with those that are", function()
    assert(pierrot.start { workers = 1, log = "none", dispatchers = { io = 2 } })
    local function refused(pattern, spec)
      local line
      local ok, err = pcall(function()
        line = debug.getinfo(1, "l").currentline + 1
        local ref = pierrot.spawn(spec)
        return ref
      end)
      assert.is_false(ok)
      assert.truthy(err:find(("dispatcher_spec.lua:%d: spawn: "):format(line), 1, true), err)
      assert.truthy(err:find(pattern, 1, true), err)
    end
    refused([[there is no dispatcher 'disk' (there are "default", "blocking", "io"]], { Echo, dispatcher = "disk" })
    refused("dispatcher: a name (string) expected, got number", { Echo, dispatcher = 2 })
    refused("dispatcher: a name (string) expected, got boolean", { Echo, dispatcher = false })
  end)

  it("are checked at start", function()
    local function refused(pattern, dispatchers)
      local ok, err = pcall(function() return (pierrot.start { dispatchers = dispatchers }) end)
      assert.is_false(ok)
      assert.truthy(err:find("dispatcher_spec.lua:%d+: start: dispatchers"), err)
      assert.truthy(err:find(pattern, 1, true), err)
    end
    refused("a table { name = workers, ... } expected, got number", 4)
    refused("names of 1 to 63 bytes expected, got number", { 2 })
    refused("names of 1 to 63 bytes expected, got 64 bytes", { [("x"):rep(64)] = 2 })
    refused("without zero bytes", { ["a\0b"] = 2 })
    refused("the default one has start's own options", { default = 2 })
    for _, workers in ipairs { 0, -1, 1.5, 0 / 0, math.huge, 1025, "two", true } do
      refused("io: workers: a whole number from 1 to 1024 expected", { io = workers })
    end
    refused("io: workers: a whole number from 1 to 1024 expected, got nil", { io = {} })
    refused("io: throughput: a whole number from 1 to 1e+09 expected, got 0", { io = { workers = 1, throughput = 0 } })
    refused("io: unknown option 'threads'", { io = { threads = 1 } })
    local many = {}
    for i = 1, 31 do many["d" .. i] = 1 end
    refused("at most 30", many)
    many.d31 = nil
    assert(pierrot.start { workers = 1, dispatchers = many, log = "none" })
    assert.equal(1, pierrot.spawn { Echo, dispatcher = "d30" }:ask(1))
  end)

  it("give an actor as many messages in a row as their throughput says", function()
    assert(pierrot.start { workers = 1, log = "none", dispatchers = { three = { workers = 1, throughput = 3 }, blocking = 1 } })
    for name, throughput in pairs { three = 3, blocking = 1, default = 32 } do
      local gate = new_gate()
      local log = pierrot.spawn { function(self, who)
        if who then self[#self + 1] = who end
        return table.concat(self)
      end, worker = 1 }
      local gatekeeper = pierrot.spawn { Blocker, dispatcher = name, worker = 1 }
      local writers = {}
      for _, who in ipairs { "a", "b" } do
        writers[#writers + 1] = pierrot.spawn { { name = "writer", receive = function(self, to)
          self.n = (self.n or 0) + 1
          to:tell(who)
        end, on = { done = function(self) return self.n end } }, dispatcher = name, worker = 1 }
      end
      for _, writer in ipairs(writers) do writer:ask("done") end
      gatekeeper:tell("pass", gate.enter)
      wait(function() return gatekeeper:info().processed == 1 end)
      for _, writer in ipairs(writers) do
        for _ = 1, 96 do writer:tell(log) end
      end
      gate.open(1)
      for _, writer in ipairs(writers) do assert.equal(96, writer:ask("done")) end
      local run = ("a"):rep(throughput) .. ("b"):rep(throughput)
      wait(function() return #log:ask() == 192 end)
      assert.equal(run:rep(96 / throughput), log:ask(), name)
    end
  end)

  it("keep names, restarts, timers, asks and supervision what they are", function()
    assert(pierrot.start { workers = 1, log = "none", dispatchers = { io = 2 } })
    local Job = {
      name = "job",
      start = function(self) self.n = 0 end,
      on = {
        inc = function(self) self.n = self.n + 1 return self.n end,
        fail = function() error("failed on purpose", 0) end,
        later = function() pierrot.send_after(0.001, pierrot.self(), "inc") end,
        relay = function(_, to, ...) return to:ask(...) end,
        wait = function(_, seconds) pierrot.sleep(seconds) return "slept" end,
      },
    }
    local parent = pierrot.spawn { { start = function(self)
      self.child = pierrot.spawn { Job, dispatcher = "io", name = "job", worker = 1 }
    end, receive = function(self) return self.child end, supervise = { intensity = 5, period = 60 } } }
    local job = parent:ask()
    assert.equal(1, pierrot.ask("job", "inc"))
    assert.equal(job, pierrot.whereis("job"))
    local ok, err = pcall(job.ask, job, "fail")
    assert.is_false(ok)
    assert.equal("failed on purpose", err.cause)
    assert.equal(1, job:ask("inc"))   -- a fresh life
    assert.same({ "io", 1, 1 }, { job:info().dispatcher, job:info().worker, job:info().restarts })
    job:tell("later")
    wait(function() return job:info().processed >= 5 end)
    assert.equal(3, job:ask("inc"))
    local other = pierrot.spawn { Job, dispatcher = "blocking" }
    assert.equal(4, other:ask("relay", job, "inc"))
    assert.equal("slept", other:ask("wait", 0.001))
    assert.same({ "io" }, { pierrot.spawn { function()
      return pierrot.info(pierrot.self()).dispatcher
    end, dispatcher = "io" }:ask() })
    local router = pierrot.router { Job, dispatcher = "io" }
    local routees = pierrot.routees(router)
    assert.equal(2, #routees)
    for _, routee in ipairs(routees) do
      routee:ask("inc")
      assert.equal("io", routee:info().dispatcher)
    end
    local sup = pierrot.supervisor { { Job, dispatcher = "io", name = "supervised" } }
    assert.equal(1, #sup:ask("children"))
    assert.equal("io", pierrot.info("supervised").dispatcher)
    parent:stop()
    wait(function() return not job:is_alive() end)
    assert.is_nil(pierrot.whereis("job"))
  end)

  it("tell of slow turns with their name; on \"blocking\" they are no news", function()
    assert(pierrot.start { workers = 1, log = "none", dispatchers = { io = 2 } })
    pierrot.subscribe("slow_turn")
    local gate = new_gate()
    local expected = pierrot.spawn { Blocker, dispatcher = "blocking" }
    expected:tell("pass", gate.enter)
    wait(function() return expected:info().processed == 1 end)
    local slow = pierrot.spawn { Blocker, dispatcher = "io", worker = 2 }
    slow:tell("pass", gate.enter)
    local _, topic, details = pierrot.receive(60)   -- of two turns that go on, the one that began later
    assert.same({ "slow_turn", "io", 2 }, { topic, details.dispatcher, details.worker })
    assert.equal(slow, details.actor)
    gate.open(2)
  end)

  it("end at shutdown, in order, with what is suspended and what has children elsewhere", function()
    local result = script.run([[
      local pierrot = require "pierrot"
      local function stopped(name) return function() print(name .. " stopped") end end
      local parent = pierrot.spawn{ { name = "parent", stop = stopped "parent", start = function(self)
        self.child = pierrot.spawn{ { stop = stopped "child", receive = function() pierrot.sleep(60) end }, shutdown = 0.3 }
      end, receive = function(self) self.child:tell("sleep") return true end }, dispatcher = "blocking", shutdown = 1 }
      parent:ask()
      pierrot.spawn{ { receive = function() pierrot.receive() end, stop = stopped "waiting" }, dispatcher = "blocking" }:tell()
      pierrot.shutdown()
    ]], { flags = "--workers 2 --log none" })
    assert.equal(0, result.status, result.err)
    local at_child, at_parent = result.out:find("child stopped", 1, true), result.out:find("parent stopped", 1, true)
    assert.is_true(at_child == nil or at_parent == nil or at_child < at_parent, result.out)
    assert.truthy(result.out:find("parent stopped", 1, true), result.out)
  end)

  it("let `pierrot run` end when nothing is left, and not before a blocked thread comes back", function()
    local out = script.output([[
      local pierrot = require "pierrot"
      pierrot.spawn{ function()
        local ffi = require "ffi"
        ffi.cdef "int usleep(unsigned us);"
        ffi.C.usleep(50000)
        print "came back"
      end, dispatcher = "blocking" }:tell()
    ]])
    assert.equal("came back\n", out)
  end)

  it("are named when a thread of theirs is left behind at shutdown", function()
    local result = script.plain([[
      local pierrot = require "pierrot"
      assert(pierrot.start{ workers = 1, dispatchers = { io = 2 } })
      local a = pierrot.spawn{ { name = "stuck", on = { block = function()
        local ffi = require "ffi"
        ffi.cdef "int pause(void);"
        ffi.C.pause()
      end } }, dispatcher = "io", worker = 2 }
      a:tell("block")
      while a:info().processed == 0 do pierrot.sleep(0.001) end
      print(pierrot.shutdown(0.01))
    ]])
    assert.equal("nil\ttimeout\n", result.out)
    assert.truthy(result.err:find("shutdown: [^\n]*%(stuck%) has held worker 2 of io for"), result.err)
  end)
end)
