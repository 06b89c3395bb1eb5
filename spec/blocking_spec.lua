-- pierrot.blocking: a call on other threads that suspends its caller alone. As in dispatcher_spec.lua, what blocks does so
-- in a read from a pipe that only the test writes to: nothing here depends on time.

local ffi = require "ffi"
local pierrot = require "pierrot"
local script = require "support.script"

ffi.cdef [[
  int pipe(int fds[2]);
  long write(int fd, const void *buffer, size_t count);
  int close(int fd);
]]

local function wait(condition)
  while not condition() do pierrot.sleep(0.001) end
end

local opened = {}

local function new_gate()
  local fds = ffi.new "int[2]"
  assert(ffi.C.pipe(fds) == 0)
  local enter, leave = fds[0], fds[1]
  opened[#opened + 1] = fds
  return { enter = enter, open = function(n) assert(ffi.C.write(leave, ("x"):rep(n), n) == n) end }
end

local function pass(fd, ...)
  local c = require "ffi"
  pcall(c.cdef, "long read(int fd, void *buffer, size_t count);")
  c.C.read(fd, c.new "char[1]", 1)
  return ...
end

local Caller = {
  name = "caller",
  on = {
    pass = function(_, fd, ...) return pierrot.blocking(pass, fd, ...) end,
    here = function() return true end,
    fail = function() error("on purpose", 0) end,
    tell_back = function(_, fd, to) to:tell(pierrot.blocking(pass, fd, "done")) end,
  },
}
local function packed(...) return { n = select("#", ...), ... } end
local function blocking() return pierrot.stats().dispatchers.blocking end

describe("pierrot.blocking", function()
  before_each(function() assert(pierrot.start { workers = 2, log = "none", dispatchers = { blocking = 3 } }) end)
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

  -- The same from this thread and from an actor.
  local function both(fn)
    fn(pierrot.blocking)
    local actor = pierrot.spawn { { receive = function() fn(pierrot.blocking) return true end } }
    assert.is_true(actor:ask_within(60))
  end

  it("returns the call's values, holes and trailing nils included", function()
    local function values(...) return nil, select("#", ...), nil, ... end
    assert.same(packed(nil, 3, nil, "a", nil, nil), packed(pierrot.blocking(values, "a", nil, nil)))
    assert.same(packed(), packed(pierrot.blocking(function() end)))
    local actor = pierrot.spawn(function() return pierrot.blocking(values, "a", nil, nil) end)
    assert.same(packed(nil, 3, nil, "a", nil, nil), packed(actor:ask()))
  end)

  it("carries what the function reads, as it is at the call", function()
    both(function(call)
      local n, list = 1, { 1, { 2 } }
      local function read(x) return n, list[2][1], math.floor(x), pierrot.self():info().dispatcher end
      local a, b, c, d = call(read, 2.5)
      assert(a == 1 and b == 2 and c == 2 and d == "blocking")
      n = 2
      assert(call(read, 2.5) == 2)
      assert(call(string.rep, "x", 3) == "xxx")
      assert(call(os.getenv, "NOBODY_SETS_THIS") == nil)
      local me = pierrot.self()
      assert(call(function(ref) return ref end, me) == me)
    end)
  end)

  it("raises what the call raised, with its traceback, and nothing fails but the call", function()
    local function inner(t)
      local x = t.a.b
      return x
    end
    for _, inside in ipairs { false, true } do
      local function attempt(fn, ...)
        if not inside then return pcall(pierrot.blocking, fn, ...) end
        local actor = pierrot.spawn(function(_, ...)
          local ok, err = pcall(pierrot.blocking, fn, ...)
          return ok, err, tostring(err)
        end)
        return actor:ask(...)
      end
      local ok, err = attempt(function(t) local x = inner(t) return x end, {})
      assert.is_false(ok)
      assert.equal("failed", err.kind)
      assert.truthy(err.message:find("^blocking: .*blocking_spec.lua:%d+: attempt to index field 'a'"), err.message)
      assert.truthy(err.traceback:find("stack traceback:\n[^\n]*blocking_spec.lua:%d+: in function 'inner'"), err.traceback)
      assert.falsy(err.traceback:find("pierrot/", 1, true), err.traceback)
      ok, err = attempt(function(x) error { code = 7, x = x } end, 5)
      assert.same({ false, 7, 5 }, { ok, err.cause.code, err.cause.x })
      ok, err = attempt(function() error { f = print } end)   -- cannot travel: its text does
      assert.is_false(ok)
      assert.truthy(err.message:find("f = function", 1, true), err.message)
      ok, err = attempt(function() return 1, { f = { print } } end)
      assert.is_false(ok)
      assert.equal("blocking: cannot send reply[2].f[1]: function", err.message)
    end
    assert.equal(0, pierrot.stats().failures)
    assert.is_true(pierrot.blocking(function() return true end))
  end)

  it("names misuse at the caller's line", function()
    local count = 0
    local file = io.tmpfile()
    local function refused(pattern, ...)
      local args = packed(...)
      local line
      local ok, err = pcall(function()
        line = debug.getinfo(1, "l").currentline + 1
        local x = pierrot.blocking(unpack(args, 1, args.n))
        return x
      end)
      assert.is_false(ok)
      assert.truthy(err:find(("blocking_spec.lua:%d: "):format(line), 1, true), err)
      assert.truthy(err:find(pattern, 1, true), err)
    end
    refused("blocking: a function expected, got nil")
    refused("blocking: a function expected, got string", "print")
    refused("cannot send argument[2].f: function", function() end, 1, { f = print })
    refused("'count' is assigned", function() count = count + 1 end)
    refused("it runs on another thread, with copies; return what it finds", function() count = count + 1 end)
    refused("'file'", function() return file end)
    file:close()
    local actor = pierrot.spawn(function()
      return pcall(table.sort, { 2, 1 }, function(a, b) pierrot.blocking(print) return a < b end)
    end)
    local ok, err = actor:ask()
    assert.is_false(ok)
    assert.truthy(err:find("blocking: cannot suspend here, inside a call from C", 1, true), err)
    assert.equal(1, pierrot.stats().actors)   -- nothing was left behind
  end)

  -- A call that a thread had begun with, and not made, would stay with that thread: neither busy nor queued.
  it("has as many calls under way as threads, and the others in line, whichever thread is free next", function()
    local gate = new_gate()
    for _ = 1, script.sanitized and 5 or 30 do
      local callers = {}
      for i = 1, 8 do
        callers[i] = pierrot.spawn { Caller, worker = i % 2 + 1 }
        callers[i]:tell("pass", gate.enter)
      end
      for left = 7, 0, -1 do
        wait(function() return blocking().busy == math.min(3, left + 1) and blocking().queued == math.max(0, left - 2) end)
        gate.open(1)
      end
      wait(function() return blocking().busy == 0 end)
      for i = 1, 8 do callers[i]:stop() end
    end
  end)

  it("keeps its caller waiting, and nobody else; what does not fit on the threads waits in line", function()
    local gate = new_gate()
    local back = pierrot.spawn { { receive = function(self, what)
      self.n = (self.n or 0) + (what == "done" and 1 or 0)
      return self.n
    end } }
    local callers = {}
    for i = 1, 8 do
      callers[i] = pierrot.spawn { Caller, worker = i % 2 + 1 }
      callers[i]:tell("tell_back", gate.enter, back)
    end
    wait(function() return blocking().busy == 3 and blocking().queued == 5 end)
    local others = {}
    for i = 1, 8 do others[i] = pierrot.spawn { Caller, worker = i % 2 + 1 } end
    for _ = 1, 50 do
      for i = 1, 8 do assert.is_true(others[i]:ask("here")) end
    end
    assert.equal(0, back:ask())
    for i = 1, 8 do assert.equal("suspended", callers[i]:info().state) end
    gate.open(1)
    wait(function() return back:ask() == 1 end)
    gate.open(7)
    wait(function() return back:ask() == 8 end)
    wait(function() return pierrot.stats().actors == 17 end)   -- the callers, the others and `back`
  end)

  it("gives each of many callers its own answer", function()
    local callers, n = {}, script.sanitized and 50 or 500
    for i = 1, 16 do
      callers[i] = pierrot.spawn { function(_, from, to)
        for k = from, to do
          local x, y = pierrot.blocking(function(v) return v, -v end, k)
          if x ~= k or y ~= -k then return false end
        end
        return true
      end, worker = i % 2 + 1 }
    end
    local asks = {}
    for i = 1, 16 do asks[i] = { callers[i], i * n, (i + 1) * n - 1 } end
    for i, result in ipairs(pierrot.ask_all(asks, 120)) do assert.is_true(result[1], tostring(i)) end
    wait(function() return pierrot.stats().actors == 16 end)
  end)

  it("does not hold up a caller's end or restart; the answer that comes late is dropped", function()
    local gate = new_gate()
    local killed = pierrot.spawn { Caller, restart = "temporary" }
    local stopped = pierrot.spawn { Caller, restart = "temporary", shutdown = 0.01 }
    local parent = pierrot.spawn { { start = function(self)
        self.child = pierrot.spawn { Caller, shutdown = 0.01 }
      end,
      supervise = { strategy = "one_for_all" },
      on = { child = function(self) return self.child end, other = function()
        return pierrot.spawn { { on = { fail = function() error("on purpose", 0) end } } }
      end } } }
    local child, sibling = parent:ask("child"), parent:ask("other")
    for _, one in ipairs { killed, stopped, child } do one:tell("pass", gate.enter) end
    wait(function() return blocking().busy == 3 and blocking().queued == 0 end)
    for _, one in ipairs { killed, stopped, child } do wait(function() return one:info().state == "suspended" end) end
    killed:kill()
    stopped:stop()
    wait(function() return not killed:is_alive() and not stopped:is_alive() end)
    sibling:tell("fail")   -- one_for_all: the suspended child is restarted with it
    wait(function() return child:info().restarts == 1 end)
    assert.is_true(child:ask("here"))
    assert.equal(3, blocking().busy)
    local late = pierrot.stats().late_replies
    gate.open(3)
    wait(function() return pierrot.stats().late_replies == late + 3 end)
    wait(function() return blocking().busy == 0 end)
  end)

  it("may wait inside the call, too, and call again from there", function()
    both(function(call)
      assert(call(function(x)
        pierrot.sleep(0.001)
        local y = pierrot.blocking(function(z) return z * 2 end, x)
        return y + 1
      end, 20) == 41)
    end)
  end)

  it("says that the runtime is shutting down", function()
    local result = script.run([[
      local pierrot = require "pierrot"
      pierrot.spawn{ { stop = function()
        local ok, err = pcall(pierrot.blocking, function() end)
        print(ok, err.kind, err.message)
      end } }
      pierrot.yield()
      pierrot.shutdown()
    ]], { flags = "--log error" })
    assert.equal("false\tdead\tblocking: the runtime is shutting down\n", result.out, result.err)
    pierrot.shutdown()
    local ok, err = pcall(pierrot.blocking, function() end)
    assert.is_false(ok)
    assert.truthy(err:find("pierrot is not running", 1, true), err)
    assert(pierrot.start { workers = 1, log = "none" })
    assert.equal(1, pierrot.blocking(function() return 1 end))   -- nothing of the earlier runtime is left
  end)

  it("lets what runs at shutdown come to its end", function()
    local out = script.output([[
      local pierrot = require "pierrot"
      local me = pierrot.self()
      pierrot.spawn(function()
        pierrot.blocking(function()
          local ffi = require "ffi"
          ffi.cdef "int usleep(unsigned us);"
          me:tell "begun"
          ffi.C.usleep(100000)
          print "came to its end"
        end)
      end):tell()
      pierrot.receive()
      pierrot.shutdown()
    ]])
    assert.equal("came to its end\n", out)
  end)
end)
