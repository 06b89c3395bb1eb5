-- Shared values: what they are to read, that nobody can write to them, every way in which they travel, and that they are
-- freed when nobody holds them.
--
-- Mutants that these find: a message, its copy, a behaviour or an outer share that does not hold what it refers to, or
-- does not let go of it; a payload copied by hand (a reason, an error on its way up) that does not; a handle that keeps
-- the sharer's own tables; nested tables that are given out bare; a mark in a table that is taken for a ref.

local pierrot = require "pierrot"

local times = require "support.times"

local function wait(fn)
  while not fn() do pierrot.sleep(0.001) end
end

-- Full collections in every state, so that what only garbage holds is let go. What LuaJIT takes for held as well, though
-- nobody uses it any more, goes first: places of the stack, and constants of compiled code.
local function collect_everywhere()
  for i = 1, pierrot.stats().workers do
    local a = pierrot.spawn { function()
      local n = select("#", unpack({}, 1, 250))
      require("jit").flush()
      collectgarbage()
      collectgarbage()
      return n == 250
    end, worker = i }
    assert.is_true(a:ask_within(60))
    a:stop()
  end
  collectgarbage()
  collectgarbage()
end

local function freed(n)
  local left
  -- A plain program has in hand what receive gave last.
  pierrot.tell(pierrot.self(), "something else")
  repeat until pierrot.receive(60) == "something else"
  for _ = 1, 200 do
    collect_everywhere()
    left = pierrot.stats().shared
    if left == (n or 0) then return true end
    pierrot.sleep(0.005)
  end
  return false, left
end

-- Says what it gets, as text.
local Reader = {
  name = "reader",
  receive = function(_, ...)
    local out = {}
    for i = 1, select("#", ...) do
      local value = select(i, ...)
      out[i] = type(value) == "cdata" and "shared " .. tostring(value.name) or type(value)
    end
    return table.concat(out, " ")
  end,
}

describe("a shared value", function()
  before_each(function() assert(pierrot.start { workers = 2, log = "none" }) end)
  after_each(function() assert.is_true(pierrot.shutdown(10)) end)

  it("is read like a table: by index, pairs, ipairs, #", function()
    local ref = pierrot.spawn(Reader)
    local value = { 10, 20, { 30 }, name = "n", no = false, deep = { er = { x = 1 } }, nan = 0 / 0, inf = math.huge,
                    big = 2LL ^ 60, ref = ref, bytes = "a\0b" }
    local s = pierrot.share(value)
    assert.equal(3, #s)
    assert.equal(10, s[1])
    assert.equal(30, s[3][1])
    assert.equal("n", s.name)
    assert.is_false(s.no)
    assert.is_nil(s.nothing)
    assert.equal(1, s.deep.er.x)
    assert.is_true(s.nan ~= s.nan)
    assert.equal(math.huge, s.inf)
    assert.is_true(s.big == 2LL ^ 60)
    assert.equal(ref, s.ref)
    assert.equal("a\0b", s.bytes)
    local seen = 0
    for k, v in pairs(s) do
      seen = seen + 1
      if type(value[k]) == "table" then assert.equal(s[k], v) elseif k ~= "nan" then assert.is_true(value[k] == v) end
    end
    assert.equal(11, seen)
    local list = {}
    for i, v in ipairs(s) do list[i] = v end
    assert.equal(3, #list)
    assert.equal(s[3], list[3])
    assert.equal("cdata", type(s))
    assert.truthy(tostring(s):find "^shared value %d+%.1$")
    assert.truthy(tostring(s.deep.er):find "^shared value %d+%.%d+$")
  end)

  it("is equal to itself alone, and can be a key", function()
    local s, other = pierrot.share { a = { 1 } }, pierrot.share { a = { 1 } }
    assert.is_true(s == s and s.a == s.a)
    assert.is_false(s == other or s.a == other.a or s == s.a)
    assert.is_false(s == nil or s == 1 or s == "x" or s == {})
    local keys = { [s] = "s", [s.a] = "a" }
    assert.same({ "s", "a" }, { keys[s], keys[s.a] })
    local echo = pierrot.spawn(function(_, x) return x, x.a end)
    local back, a = echo:ask(s)
    assert.is_true(back == s and a == s.a)
    assert.equal("a", keys[a])
    assert.equal(s, pierrot.share(s))
    assert.equal(s.a, pierrot.share(s.a))
  end)

  it("keeps a table that is reached twice one table", function()
    local t = { 1 }
    local s = pierrot.share { a = t, b = { c = t }, t, t }
    assert.is_true(s.a == s.b.c and s.a == s[1] and s[1] == s[2])
    local deep = {}
    for _ = 1, 60 do deep = { deep, deep } end       -- two to the sixtieth, were it copied
    s = pierrot.share(deep)
    assert.equal(s[1][1][2], s[2][2][2])
  end)

  it("is a copy: the sharer's table stays its own", function()
    local t = { list = { 1 } }
    local s = pierrot.share(t)
    t.list[1], t.more = 2, true
    assert.equal(1, s.list[1])
    assert.is_nil(s.more)
    local copy = pierrot.thaw(s)
    copy.list[2] = "mine"
    assert.same({ list = { 1 } }, pierrot.thaw(s))
    assert.equal("1,mine", table.concat(copy.list, ","))
    assert.same({ 5, "x" }, { pierrot.thaw(5), pierrot.thaw "x" })
  end)

  it("gives what is no table back as it is", function()
    for _, value in ipairs { 1, "text", true, 5LL, pierrot.spawn(Reader) } do assert.is_true(pierrot.share(value) == value) end
    assert.is_nil(pierrot.share(nil))
  end)

  it("cannot be written to; the error is at the writer's line, and says what to do", function()
    local s = pierrot.share { x = 1, list = { 1 } }
    for _, write in ipairs { function() s.x = 2 end, function() s.y = 2 end, function() s.list[1] = 2 end,
                             function() s.list[2] = 2 end, function() s.x = nil end } do
      local ok, err = pcall(write)
      assert.is_false(ok)
      assert.truthy(err:find("share_spec.lua:" .. debug.getinfo(write, "S").linedefined .. ": a shared value cannot be "
                             .. "written to", 1, true), err)
      assert.truthy(err:find("pierrot.thaw(value)", 1, true))
    end
    for _, call in ipairs { { rawset, s, "x", 2 }, { table.insert, s.list, 2 }, { table.remove, s.list },
                            { table.sort, s.list }, { setmetatable, s, {} }, { setmetatable, s.list, {} },
                            { rawget, s, "x" }, { next, s }, { unpack, s.list }, { table.concat, s.list },
                            { require("cjson").encode, s } } do
      assert.is_false(pcall(unpack(call)))
    end
    local step, state = pairs(s)
    assert.is_false(pcall(step, { 1 }))                -- what pairs returns reads handles alone, and gives out handles
    for _, value in step, state do assert.is_true(type(value) ~= "table") end
    assert.is_false(pcall(setmetatable({}, { __index = s, __newindex = s }).nothing, 1))
    local proxy = setmetatable({}, { __index = s, __newindex = s })
    assert.equal(1, proxy.x)
    assert.is_false(pcall(function() proxy.y = 1 end))
    assert.same({ x = 1, list = { 1 } }, pierrot.thaw(s))
    local a = pierrot.spawn(function(_, x) x.list[1] = 5 end)
    local ok, err = pcall(a.ask, a, s)
    assert.is_false(ok)
    assert.truthy(err.message:find "share_spec.lua:%d+: a shared value cannot be written to %(key 1%)")
  end)

  it("refuses what cannot travel, by its path, at the caller's line", function()
    local cycle = { a = {} }
    cycle.a.b = cycle
    local deep = {}
    for _ = 1, 102 do deep = { deep } end
    for _, case in ipairs {
      { { callbacks = { done = print } }, "value.callbacks.done: function" },
      { { { coroutine.create(print) } }, "value[1][1]: thread" },
      { { io.stdout }, "value[1]: userdata" },
      { cycle, "value.a.b: a cycle" },
      { print, "value: function" },
      { deep, "a table nested more than 100 deep" },
      { { a = { [{}] = 1 } }, "value.a: a table is a key in it" },
      { { [print] = 1 }, "value: a key in it is a function" },
    } do
      local ok, err = pcall(function() local s = pierrot.share(case[1]) return s end)
      assert.is_false(ok)
      assert.truthy(err:find "share_spec.lua:%d+: share: cannot share ", err)
      assert.truthy(err:find(case[2], 1, true), err)
    end
    assert.equal(0, pierrot.stats().shared)
  end)

  it("may stand in others, up to 100 deep; opening, copying and freeing a deep one takes no deep stack", function()
    local deep = pierrot.share { name = 1 }
    for i = 2, 100 do
      local t = { deep, name = i }
      for _ = 1, 20 do t = { t } end
      deep = pierrot.share(t)
    end
    local ok, err = pcall(pierrot.share, { in_it = { deep } })
    assert.is_false(ok)
    assert.truthy(err:find("value.in_it[1]: shared values nested more than 100 deep in each other", 1, true), err)
    local a = pierrot.spawn { function(_, x)
      local n, y = 0, x
      while y[1] do n, y = n + 1, y[1] end
      return n, y.name
    end, worker = 2 }
    assert.same({ 99 * 21, 1 }, { a:ask(deep) })
    local copy, n = pierrot.thaw(deep), 0
    while copy[1] do copy, n = copy[1], n + 1 end
    assert.equal(99 * 21, n)
    deep = nil
    a:kill()
    assert.is_true(freed(), deep)
  end)

  it("has one handle, however hot the code that looks for it", function()
    local s, keys = pierrot.share { list = { { id = 1 }, { id = 2 } } }, {}
    local first = s.list[1]
    keys[first] = "first"
    local same, found, writes = 0, 0, 0
    for i = 1, 2000 do
      local x = s.list[i % 2 + 1]
      if x == first then same = same + 1 end
      if keys[x] == "first" then found = found + 1 end
      if i % 100 == 0 then
        if not pcall(function() x.id = i end) then writes = writes + 1 end
        collectgarbage()
      end
    end
    assert.same({ 1000, 1000, 20, 1 }, { same, found, writes, first.id })
  end)

  it("keeps the order of keys where a runtime has a seed", function()
    local ordered = require "pierrot.ordered"
    local function keys(t)
      local list = {}
      for k, v in ordered(t) do
        list[#list + 1] = tostring(k)
        assert.is_true(v == t[k])
      end
      return table.concat(list, " ")
    end
    local value = { "x", "y", b = 1, a = { 2 }, [true] = 3, [10] = 4, [2.5] = 5 }
    assert.equal("1 2 2.5 10 a b true", keys(pierrot.share(value)))
    assert.equal(keys(value), keys(pierrot.share(value)))
    assert.equal("1 2 3", keys(pierrot.share { 7, 8, 9 }))
    assert.is_false(pcall(ordered, 5LL))
  end)

  it("is the same after a start that fails", function()
    local s = pierrot.share { name = "s" }
    assert.is_false(pcall(pierrot.start))
    local back = pierrot.spawn(function(_, x) return x end):ask { s }
    assert.equal(s, back[1])
  end)

  it("is held once by the runtime, and not at all after its last holder", function()
    local s = pierrot.share { ("x"):rep(10000) }
    local r = pierrot.spawn(Reader)
    for _ = 1, 100 do r:ask(s, { s }) end
    assert.equal(1, pierrot.stats().shared)
    assert.is_true(pierrot.stats().shared_bytes > 10000 and pierrot.stats().shared_bytes < 11000)
    s = s[1] and nil
    assert.is_true(freed())
    assert.equal(0, pierrot.stats().shared_bytes)
    assert.is_nil(s)
  end)

  it("lives as long as a table in it, a message on its way, or code that refers to it", function()
    local inner = pierrot.share({ name = "whole", part = { name = "part" } }).part
    assert.is_true(freed(1))
    assert.equal("part", inner.name)
    inner = nil
    assert.is_true(freed(), inner)

    local a = pierrot.spawn { start = function() pierrot.receive(60, function(x) return x == "go" end) end,
                              receive = function(_, ...) return Reader.receive(nil, ...) end }
    local s = pierrot.share { name = "sent" }
    a:tell("kept", s, { deep = { s } })
    local asker = pierrot.spawn { start = function(self, ref, x) self.got = ref:ask_within(60, "for you", x, { x }) end,
                                  on = { got = function(self) return self.got end } }
    asker:stop()
    asker = pierrot.spawn({ start = function(self, ref, x) self.got = ref:ask_within(60, x, x) end,
                            on = { got = function(self) return self.got end } }, a, s)
    wait(function() return a:info().depth == 2 end)
    s = s.name == "none"
    assert.is_true(freed(1), s)
    a:tell "go"
    assert.equal("shared sent shared sent", asker:ask_within(60, "got"))
    asker:kill()
    a:kill()
    assert.is_true(freed())

    local conf = pierrot.share { name = "conf" }
    local b = pierrot.spawn(function() return conf.name end)
    assert.equal("conf", b:ask())
    assert.is_true(freed(1))
    conf = nil
    b:kill()
    wait(function() return not b:is_alive() end)
    -- Behaviours that a worker has loaded stay until another one takes the place; the runtime's copy goes.
    b = pierrot.spawn(function() return 1 end)
    assert.equal(1, b:ask())
  end)

  it("holds other shared values", function()
    local b
    do
      local a = pierrot.share { name = "a" }
      b = pierrot.share { a = a, list = { a, a }, name = "b" }
      assert.is_true(b.a == a and b.list[2] == a)
      assert.equal(2, pierrot.stats().shared)
    end
    assert.is_true(freed(2))
    local echo = pierrot.spawn { function(_, x) return x.a, x.list[1].name end, worker = 2 }
    local back, name = echo:ask(b)
    assert.is_true(back == b.a and name == "a")
    b = nil
    assert.is_true(freed(1), b)                      -- b has gone, and a is here still
    assert.equal("a", back.name)
    back = nil
    assert.is_true(freed(), back)
  end)
end)

describe("a shared value travels", function()
  before_each(function() assert(pierrot.start { workers = 2, log = "none" }) end)
  after_each(function() assert.is_true(pierrot.shutdown(10)) end)

  local s
  before_each(function() s = pierrot.share { name = "s", part = { name = "part" }, 1, 2 } end)

  local function both_workers(fn)
    for worker = 1, 2 do fn(worker) end
    s = nil
    assert.is_true(freed())
  end

  it("alone and in tables, both ways, inside and outside", function()
    both_workers(function(worker)
      local echo = pierrot.spawn { function(_, ...) return ... end, worker = worker }
      local a, b, c, d = echo:ask(s, { s, { x = s, part = s.part }, echo, 5LL, n = 1 }, nil, s.part)
      assert.is_true(a == s and b[1] == s and b[2].x == s and b[2].part == s.part and b[3] == echo and b[4] == 5LL)
      assert.is_true(b.n == 1 and c == nil and d == s.part)
      local teller = pierrot.spawn { { start = function(self, to, x)
        self.ok = { to:ask(x, { x }) }
      end, on = { get = function(self) return self.ok[1] == self.ok[2][1], self.ok[1] end } }, echo, s, worker = 3 - worker }
      assert.same({ true, s }, { teller:ask "get" })
      teller:kill()
      echo:kill()
    end)
  end)

  it("refused values beside it are still named by their place", function()
    local a = pierrot.spawn(Reader)
    for message, problem in pairs { [{ s, print }] = "message[1][2]: function", [{ s, { f = print } }] = "message[1][2].f",
                                    [{ [s] = 1 }] = "a shared value, which goes as a value only" } do
      local ok, err = pcall(function() local r = a:tell(message) return r end)
      assert.is_false(ok)
      assert.truthy(err:find(problem, 1, true), err)
    end
    local cycle = { s }
    cycle.again = cycle
    assert.is_false(pcall(a.tell, a, cycle))
    local deep = { s }
    for _ = 1, 98 do deep = { deep } end
    assert.is_true(a:tell(deep))
    assert.is_false(pcall(a.tell, a, { { { deep } } }))
    a:stop()
    s = nil
    wait(function() return not a:is_alive() end)
  end)

  it("by forward, defer, stash, timers, groups, pipe, ask_all, start's arguments", function()
    both_workers(function(worker)
      local me = pierrot.self()
      local to = pierrot.spawn { {
        start = function(self, x) self.x = x pierrot.join "readers" end,
        on = {
          kept = function(self) return self.x end,
          first = function(self, x)
            if self.second then return x end
            pierrot.stash()
          end,
          second = function(self) self.second = true pierrot.unstash() end,
          later = function(self, x) self.later = pierrot.defer() self.what = { x } end,
          ["is later"] = function(self) return self.later ~= nil end,
          now = function(self) self.later:reply(self.what) end,
          back = function(_, x) return x end,
          tell = function(_, x, n) me:tell(x, n) end,
        },
      }, s, worker = worker }
      local by = pierrot.spawn { function() pierrot.forward(to) end, worker = 3 - worker }
      assert.equal(s, by:ask "kept")
      assert.equal(s, by:ask("back", s))
      local results = pierrot.ask_all({ { to, "back", s }, { by, "back", { s } } }, 60)
      assert.is_true(results[1][1] == s and results[2][1][1] == s)
      pierrot.pipe({ to, "back", s.part }, me, "piped")
      assert.same({ "piped", s.part }, { pierrot.receive(60) })
      pierrot.send_after(0.001, to, "tell", s, 1)
      assert.same({ s, 1 }, { pierrot.receive(60) })
      local every = pierrot.send_every(0.001, to, "tell", { s }, 2)
      for _ = 1, 3 do assert.equal(s, (pierrot.receive(60))[1]) end
      every:cancel()
      local cancelled = pierrot.send_after(60, to, "tell", s, 3)
      assert.is_true(cancelled:cancel())
      assert.equal(1, pierrot.publish("readers", "tell", s, 4))
      repeat local x, n = pierrot.receive(60) until n == 4 and x == s
      local stasher = pierrot.spawn({ start = function(self, ref, x) self.got = ref:ask_within(60, "first", x) end,
                                      on = { got = function(self) return self.got end } }, to, s)
      repeat to:tell "second" pierrot.sleep(0.001) until stasher:info().state ~= "suspended"
      assert.equal(s, stasher:ask_within(60, "got"))
      stasher:kill()
      local asker = pierrot.spawn({ start = function(self, ref, x) self.got = ref:ask_within(60, "later", x) end,
                                    on = { got = function(self) return self.got[1] end } }, by, s)
      wait(function() return to:ask "is later" end)
      to:tell "now"
      assert.equal(s, asker:ask_within(60, "got"))
      for _, a in ipairs { to, by, asker } do a:kill() end
      wait(function() return pierrot.stats().actors == 0 end)
      while pierrot.receive(0) do end
    end)
  end)

  -- After a table with shared values in it the next ones are looked through first: those without any go as before.
  it("among ordinary messages, from hot code", function()
    for worker = 1, 2 do
      local sink = pierrot.spawn { {
        start = function(self) self.n, self.bad = 0, 0 end,
        receive = function(self, i, x, y)
          local kind = i % 5
          local ok = kind == 0 and x.name == "s" and y == nil or kind == 1 and x[1].name == "s" and x.i == i and y == 7 or
                     kind == 2 and x.a[1] == i and y == nil or kind == 3 and x == "text" and y == i or
                     kind == 4 and x == 5LL and y.part.name == "part"
          self.n, self.bad = self.n + 1, self.bad + (ok and 0 or 1)
        end,
        on = { result = function(self) return self.n, self.bad end },
      }, worker = worker }
      local source = pierrot.spawn { function(_, x, n)
        for i = 1, n do
          local kind = i % 5
          if kind == 0 then sink:tell(i, x)
          elseif kind == 1 then sink:tell(i, { x, i = i }, 7)
          elseif kind == 2 then for k = 1, i % 40 do sink:tell(2, { a = { 2, k } }) end sink:tell(i, { a = { i } })
          elseif kind == 3 then sink:tell(i, "text", i)
          else sink:tell(i, 5LL, x) end
          if i % 97 == 0 then assert(not pcall(sink.tell, sink, { x, print })) end
        end
        return true
      end, worker = 1 }
      assert.is_true(source:ask_within(60, s, 3000))
      local n, bad = sink:ask_within(60, "result")
      assert.same({ true, 0 }, { n > 3000, bad })
      sink:kill() source:kill()
    end
    wait(function() return pierrot.stats().actors == 0 end)
    s = nil
    assert.is_true(freed())
  end)

  it("in tables with metatables, which do not", function()
    local a = pierrot.spawn(function(_, x) return x[1], x.there, getmetatable(x) end)
    for _, mt in ipairs { { __metatable = false }, { __metatable = "mine" }, { __index = function() error "no" end },
                          { __pairs = error, __len = error, __newindex = error } } do
      assert.same({ s }, { a:ask(setmetatable({ s }, mt)) })
    end
  end)

  -- The tracer may be told long after the message has gone.
  it("in what a trace shows", function()
    local traced = pierrot.spawn { on = { take = function() end } }
    local tracer = pierrot.spawn {
      on = {
        trace = function(_, ref) require("pierrot.core").trace(ref, 3) return true end,
        go = function() return pierrot.receive(60, function(x) return x == "go" end) end,
        ["\0trace"] = function(self, _, _, _, _, left, _, x, y) self[3 - left] = { x.name, y and y[1].name or "none" } end,
        seen = function(self) return self end,
      },
    }
    assert.is_true(tracer:ask("trace", traced))
    tracer:tell "go"
    wait(function() return tracer:info().state == "suspended" end)
    traced:tell("take", s)
    traced:tell("take", s.part, { s })
    traced:tell("take", s, { s, s.part })
    wait(function() return tracer:info().depth == 3 end)
    s = nil
    collect_everywhere()
    assert.equal(1, pierrot.stats().shared)            -- what the tracer has not seen yet holds it
    tracer:tell "go"
    assert.same({ { "s", "none" }, { "part", "s" }, { "s", "s" } }, tracer:ask_within(60, "seen"))
    tracer:kill() traced:kill()
  end)

  it("in a list that claims to be carried code", function()
    local sup = pierrot.supervisor {}
    for _, shared in ipairs { false, 5, { 1, {}, s } } do
      assert.is_false(pcall(sup.ask, sup, "start_child", { { ["\0carried"] = "no code", name = "x", shared = shared } }))
    end
    assert.is_true(sup:is_alive())
    sup:stop()
  end)

  it("as a reason, and in errors on their way up", function()
    local reason = s
    local a, m = pierrot.spawn { function(_, x) pierrot.stop(x) end, monitor = true }
    a:tell(s)
    local what, _, why, monitor = pierrot.receive(60)
    assert.is_true(what == "down" and why == reason and monitor == m)
    local exits = pierrot.spawn { { trap_exit = true, start = function(self) self.list = {} end, on = {
      exit = function(self, _, x) self.list[#self.list + 1] = x end,
      link = function(_, x)
        local b = pierrot.spawn { function(_, y) pierrot.stop { y, y.part } end, link = true }
        b:tell(x)
      end,
      list = function(self) return self.list end } } }
    exits:tell("link", s)
    local list
    wait(function() list = exits:ask "list" return #list == 1 end)
    assert.is_true(list[1][1] == s and list[1][2] == s.part)

    local raiser = pierrot.spawn { function(_, x) error { code = 1, what = x } end, restart = "temporary" }
    local ok, err = pcall(raiser.ask, raiser, s)
    assert.is_false(ok)
    assert.equal(s, err.cause.what)

    local seen = pierrot.spawn { { start = function(self) self.causes = {} end, on = {
      cause = function(self, x) self.causes[#self.causes + 1] = x end, get = function(self) return self.causes end } } }
    local boss = pierrot.spawn { {
      supervise = { on_failure = function(e) seen:tell("cause", e.cause.what) return "escalate" end },
      on = { go = function(_, x)
        local child = pierrot.spawn { function(_, y) error { what = y } end }
        child:tell(x)
      end },
    }, restart = "temporary", monitor = true }
    boss:tell("go", s)
    local _, _, boss_reason = pierrot.receive(60)
    assert.equal("failed", boss_reason.kind)
    assert.is_true(boss_reason.cause.what == s)
    assert.equal(s, seen:ask("get")[1])
    for _, x in ipairs { exits, seen } do x:kill() end
    wait(function() return pierrot.stats().actors == 0 end)
    s, reason, why, list, err, boss_reason = nil, nil, nil, nil, nil, nil
    assert.is_true(freed(), why or list or err or boss_reason or reason)
  end)

  -- Made by whoever ends or fails, and by then held by nothing but what tells of it.
  it("held by messages alone: a small one, a reason, errors that escalate", function()
    s = nil
    local watcher = pierrot.spawn {
      start = function(self) self.seen = {} end,
      receive = function(self, what, x, y)
        local value = what == "down" and y or x
        if type(value) == "table" then value = value.cause.what end
        self.seen[#self.seen + 1] = what .. " " .. value.name
      end,
      on = {
        watch = function(_, ref) pierrot.monitor(ref) return true end,
        go = function() return pierrot.receive(60, function(x) return x == "go" end) end,
        seen = function(self) local seen = self.seen self.seen = {} return seen end,
      },
    }
    local failing = pierrot.spawn { { on = { fail = function() error { what = pierrot.share { name = "failed" } } end } },
                                    restart = "temporary" }
    local function boss(rules)
      return pierrot.spawn { {
        supervise = rules,
        start = function(self)
          self.child = pierrot.spawn { function() error { what = pierrot.share { name = "child" } } end, worker = "here" }
        end,
        on = { go = function(self) self.child:tell() end },
        stop = function(self)                          -- its child has ended: only what this one fails with holds it
          while self.child:is_alive() do pierrot.yield() end
          collectgarbage() collectgarbage()
        end,
      }, restart = "temporary" }
    end
    for told, who in pairs {
      ["told one"] = pierrot.spawn(function() watcher:tell("told", pierrot.share { name = "one" }) pierrot.stop() end),
      ["down reason"] = pierrot.spawn(function() pierrot.stop(pierrot.share { name = "reason" }) end),
      ["down failed"] = failing,
      ["down child"] = boss { on_failure = function() return "escalate" end },
      ["down child "] = boss { intensity = 0, exceeded = "escalate" },
    } do
      if told:find "down" then assert.is_true(watcher:ask("watch", who)) end
      watcher:tell "go"
      wait(function() return watcher:info().state == "suspended" end)
      who:tell(who == failing and "fail" or "go")
      wait(function() return watcher:info().depth == 1 and not who:is_alive() end)
      for _ = 1, 3 do collect_everywhere() end
      watcher:tell "go"
      assert.same({ (told:gsub(" $", "")) }, watcher:ask_within(60, "seen"))
    end
    watcher:stop()
  end)

  it("in code: as a variable outside, in a table there, in a supervisor's children", function()
    local conf, list = s, { s.part, { s } }
    local Behaviour = { on = { get = function() return conf, conf.part == list[1], list[2][1] end } }
    local a = pierrot.spawn { Behaviour, worker = 1 }
    local b = pierrot.spawn { Behaviour, worker = 2 }
    for _, x in ipairs { a, b } do assert.same({ s, true, s }, { x:ask "get" }) end
    local sup = pierrot.supervisor { { Behaviour, name = "first" } }
    wait(function() return pierrot.whereis "first" end)
    assert.equal(s, (pierrot.ask("first", "get")))
    sup:ask("start_child", { { on = { get = function() return conf.part end } }, name = "second", restart = "permanent" })
    assert.is_true(freed(1))
    assert.equal(s.part, (pierrot.ask("second", "get")))
    local second = pierrot.whereis "second"
    second:stop()
    wait(function() return second:info() and second:info().restarts == 1 end)
    assert.equal(s.part, (pierrot.ask("second", "get")))
    local by = pierrot.spawn { function(_, x) return x end, mailbox = { priority = function() return conf[1] end } }
    assert.equal(s, by:ask(s))
    assert.equal(s, (pierrot.blocking(function(x) return x, x == conf end, s)))
    sup:stop()
  end)

  it("and is let go by dead letters, refused sends, full mailboxes, restarts", function()
    local gone = pierrot.spawn(Reader)
    gone:kill()
    wait(function() return not gone:is_alive() end)
    assert.same({ nil, "dead" }, { gone:tell(s, { s }) })
    local a = pierrot.spawn { start = function() pierrot.receive(60, function(x) return x == "never" end) end,
                              receive = function() end }
    for _ = 1, 10 do a:tell(s) end
    a:kill()
    wait(function() return pierrot.stats().dead_letters == 10 end)
    for _, overflow in ipairs { "reject", "drop_newest", "drop_oldest" } do
      local full = pierrot.spawn { { start = function() pierrot.receive(60, function(x) return x == "never" end) end },
                                   mailbox = { capacity = 2, overflow = overflow } }
      for _ = 1, 10 do full:tell(s) end
      full:kill()
    end
    local r = pierrot.spawn { function(self, x) if self.x then error "again" end self.x = x end, restart = "permanent" }
    for _ = 1, 3 do r:tell(s) end
    r:drain()
    wait(function() return pierrot.stats().restarts >= 1 end)
    local u = pierrot.spawn { { on = {} } }
    u:tell(s)
    s = nil
    r:kill() u:kill()
    wait(function() return pierrot.stats().actors <= 1 end)
    assert.is_true(freed())
  end)

  it("and is let go by asks that nobody waits for any more, timers, stashes, waiting senders, parked handlers", function()
    local slow = pierrot.spawn { function(self, x, late)
      self.x = x
      if late then pierrot.receive(60, function(y) return y == "go" end) end
      return x
    end }
    for _, asked in ipairs { s, { s } } do
      local ok, err = pcall(slow.ask_within, slow, 0.001, asked, true)
      assert.is_true(not ok and err.kind == "timeout")
      slow:tell "go"                                   -- its answer is too late
    end
    local timers = pierrot.spawn(function(self, x)
      self[1] = pierrot.send_after(3600, slow, x)
      self[2] = pierrot.send_every(3600, slow, { x })
      return true
    end)
    assert.is_true(timers:ask(s))
    local outside = pierrot.send_every(3600, slow, s, { s })
    local stashes = pierrot.spawn(function() pierrot.stash() end)
    for _ = 1, 5 do stashes:tell(s, { s }) end
    wait(function() return stashes:info().depth == 0 end)
    local full = pierrot.spawn { { start = function() pierrot.receive(60, function(x) return x == "never" end) end },
                                 mailbox = { capacity = 1, overflow = "suspend" } }
    full:tell(1)
    local senders = {}
    for i = 1, 4 do
      senders[i] = pierrot.spawn { function(self, x) self.x = x full:tell(x, { x }) end, worker = i % 2 + 1 }
      senders[i]:tell(s)
    end
    wait(function() return full:info().waiting == 4 end)
    local many = pierrot.spawn { function(_, x)
      local kept = { x }
      return pierrot.receive(60, function(y) return y == "never" end) or kept
    end, reentrant = 8 }
    for _ = 1, 20 do many:tell(s, { s }) end
    wait(function() return many:info().state == "suspended" end)
    s = nil
    collect_everywhere()
    assert.equal(1, pierrot.stats().shared)
    full:kill() many:kill() stashes:kill() timers:kill()
    for _, sender in ipairs(senders) do sender:kill() end
    slow:tell "nothing"
    assert.is_true(outside:cancel())
    slow:stop()
    wait(function() return pierrot.stats().actors == 0 end)
    assert.is_true(freed())
  end)

  it("to the end of the runtime, and no further, where nobody has let it go", function()
    for i = 1, 4 do
      local other = pierrot.share { name = i, s }
      local timer = pierrot.send_after(3600, pierrot.self(), other)
      pierrot.spawn { { start = function() pierrot.receive(60, function(x) return x == "never" end) end }, worker = i % 2 + 1 }:tell(
        other, { other })
      pierrot.tell(pierrot.self(), other)
      assert.equal(other, (pierrot.receive(60)))
      local ok = pcall(pierrot.ask_within, pierrot.self(), 0.001, { other })
      assert.is_false(ok)
      assert.is_true(pierrot.shutdown(10))
      collectgarbage()
      assert.equal(i, other.name)
      assert.is_false(timer:cancel())
      assert(pierrot.start { workers = 2, log = "none" })
      s = pierrot.share(pierrot.thaw(s))
    end
    collectgarbage()
    collectgarbage()
  end)

  it("not from a runtime that has ended; it can be read, and shared anew", function()
    local old = s
    assert.is_true(pierrot.shutdown(10))
    assert.is_false(pcall(pierrot.share, {}))
    assert(pierrot.start { workers = 2, log = "none" })
    assert.equal("part", old.part.name)
    local new = pierrot.share { name = "new" }
    local a = pierrot.spawn(function(_, x) return x end)
    for _, message in ipairs { { old }, { { old } }, { old.part } } do
      local ok, err = pcall(a.tell, a, unpack(message))
      assert.is_false(ok)
      assert.truthy(tostring(err):find("of a runtime that has ended", 1, true), err)
    end
    local ok, err = pcall(pierrot.share, { old })
    assert.is_false(ok)
    assert.truthy(err:find("of a runtime that has ended", 1, true))
    assert.is_false(pcall(pierrot.spawn, function() return old.name end))
    assert.equal(new, a:ask(new))
    assert.equal("s", a:ask(pierrot.share(pierrot.thaw(old))).name)
    collectgarbage()
    s = nil
  end)
end)

-- Shares made, passed on in every form, kept for a while, dropped, on all workers at once, with collections in between.
for _, workers in ipairs { 1, 2, 4, 8 } do
  describe("shared values under fire on " .. workers .. " workers", function()
    it("are right wherever they are, and none is left", function()
      assert(pierrot.start { workers = workers, log = "none" })
      local Node = {
        start = function(self) self.kept, self.n, self.bad = {}, 0, 0 end,
        on = {
          meet = function(self, refs) self.refs = refs return true end,
          pass = function(self, number, hops, a, box)
            self.n = self.n + 1
            local x = type(a) == "table" and a.x or a
            if x.number ~= number or x.list[3].n ~= number or (box and box[1].number ~= number) then self.bad = self.bad + 1 end
            self.kept[number % 7] = number % 3 == 0 and x.list[3] or x
            if self.n % 50 == 0 then collectgarbage() end
            if number % 11 == 0 then self.kept = {} end
            if hops > 0 then
              local to = self.refs[(number * 31 + hops * 17) % #self.refs + 1]
              if hops % 4 == 0 then x = pierrot.share { number = number, list = { x, x.list, { n = number, of = x } } } end
              if hops % 3 == 0 then to:tell("pass", number, hops - 1, { x = x, again = x.list }, { x })
              elseif hops % 3 == 1 then to:tell("pass", number, hops - 1, x)
              else
                pierrot.spawn { function(_, r, ...) r:tell(...) pierrot.stop() end, restart = "temporary" }:tell(
                  to, "pass", number, hops - 1, { x = x })
              end
            end
          end,
          result = function(self) self.kept = {} return self.n, self.bad end,
        },
      }
      local nodes = {}
      for i = 1, 2 * workers do nodes[i] = pierrot.spawn { Node, worker = (i - 1) % workers + 1 } end
      for _, node in ipairs(nodes) do assert.is_true(node:ask_within(60, "meet", nodes)) end
      local n, hops = times(150, 30), 12
      for number = 1, n do
        local x = pierrot.share { number = number, list = { 1, 2, { n = number } } }
        nodes[number % #nodes + 1]:tell("pass", number, hops, x)
        if number % 20 == 0 then collectgarbage() end
      end
      local total
      wait(function()
        total = 0
        for _, node in ipairs(nodes) do total = total + node:info().processed end
        return total >= n * (hops + 1) + #nodes
      end)
      local bad = 0
      for _, node in ipairs(nodes) do bad = bad + select(2, node:ask "result") end
      assert.equal(0, bad)
      for _, node in ipairs(nodes) do node:kill() end
      assert.same({ true }, { freed() })
      assert.is_true(pierrot.shutdown(20))
    end)
  end)
end
