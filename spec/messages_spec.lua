-- What travels in messages, and how: every value that API.md lists arrives as it was sent, as a copy; every other
-- one raises at the caller's line with its path, and nothing is sent.

local ffi = require "ffi"
local pierrot = require "pierrot"
local equal = require "support.equal"
local sanitized = os.getenv "PIERROT_SANITIZER" ~= nil

local function echo(_, ...) return ... end
local function relay(_, to, ...) return to:ask_within(60, ...) end
local function pack(...) return { n = select("#", ...), ... } end

-- The three ways of a message: from outside; from an actor to one on its own worker; to one on another worker.
local function ways()
  local e1, e2 = pierrot.spawn { echo, worker = 1 }, pierrot.spawn { echo, worker = 2 }
  local r1 = pierrot.spawn { relay, worker = 1 }
  return {
    outside = function(...) return e1:ask_within(60, ...) end,
    same = function(...) return r1:ask_within(60, e1, ...) end,
    other = function(...) return r1:ask_within(60, e2, ...) end,
  }
end

local function check_copies(...)
  local sent = pack(...)
  for name, way in pairs(ways()) do
    local got = pack(way(...))
    assert.is_true(sent.n == got.n, name .. ": " .. sent.n .. " values sent, " .. got.n .. " came back")
    for i = 1, sent.n do
      assert.is_true(equal(sent[i], got[i]), ("%s: value %d: %s came back as %s"):format(name, i,
        tostring(sent[i]), tostring(got[i])))
    end
  end
end

local function nested(depth)
  local value = {}
  for _ = 2, depth do value = { value } end
  return value
end

describe("messages", function()
  before_each(function() assert(pierrot.start { workers = 2, log = "none" }) end)
  after_each(function() pierrot.shutdown() end)

  describe("carry", function()
    it("nothing at all, nils, holes and trailing nils", function()
      check_copies()
      check_copies(nil)
      check_copies(nil, nil, nil)
      check_copies(1, nil, 3, nil, nil)
      check_copies(nil, nil, "x")
      check_copies({ nil, nil, 3 }, { [1] = 1, [3] = 3 }, { n = 3, 1, nil, nil })
    end)

    it("booleans, and numbers with NaN, infinities, -0 and the ends of the range", function()
      check_copies(true, false)
      check_copies(0, -0, 1, -1, 1.5, 0 / 0, 1 / 0, -1 / 0)
      check_copies(2 ^ 31, -2 ^ 31, 2 ^ 32, 2 ^ 53, -2 ^ 53, 2 ^ 53 + 2, 5e-324, 1.7976931348623157e308)
      check_copies({ 0, -0, 0 / 0, 1 / 0, -1 / 0, [-1] = -0, [2.5] = 1, [2 ^ 40] = 2, [1 / 0] = 3 })
    end)

    it("64-bit integers, signed and unsigned", function()
      check_copies(0LL, 1LL, -1LL, 9223372036854775807LL, -9223372036854775807LL - 1)
      check_copies(0ULL, 18446744073709551615ULL, { 1LL, a = { 2ULL } })
      check_copies(ffi.new("int64_t", 5), ffi.new("uint64_t", 6))
    end)

    it("strings of any bytes and lengths", function()
      local all = {}
      for byte = 0, 255 do all[#all + 1] = string.char(byte) end
      all = table.concat(all)
      check_copies("", "\0", "a\0b", all, all:rep(1000))
      for length = 0, 600, 7 do check_copies(("x"):rep(length), { [("k"):rep(length)] = ("v"):rep(length) }) end
      check_copies({ [""] = 1, ["\0"] = 2, [all] = all })
    end)

    it("refs, as values and as keys, dead ones too, and one's own", function()
      local ref = pierrot.spawn(echo)
      local dead = pierrot.spawn(echo)
      dead:kill()
      check_copies(ref, dead, pierrot.self(), { ref, [ref] = { dead, [dead] = true } })
      assert.is_true(ref:ask(ref) == ref)
      assert.equal("works", ref:ask({ [ref] = "works" })[ref])
      assert.equal(7, select(2, ref:ask(ref, 7)))
    end)

    it("tables with every kind of key, empty ones, and ones that lie in two places", function()
      local twice = { 1, 2 }
      check_copies({}, { {} }, { [true] = 1, [false] = 2, [0] = 3, [-1] = 4, [1.5] = 5, a = 6 })
      check_copies({ twice, twice, again = { twice } })
      check_copies({ [{}] = nil })
      local long = {}
      for i = 1, 5000 do long[i] = i end
      check_copies(long)
    end)

    it("tables as keys", function()
      local got = pierrot.spawn(echo):ask({ [{ "key" }] = "value" })
      local key, value = next(got)
      assert.same({ "key" }, key)
      assert.equal("value", value)
    end)

    it("tables nested 100 deep", function()
      check_copies(nested(100))
      check_copies(1, nested(100), nested(99))
      check_copies({ a = nested(99) })
    end)

    it("a thousand values", function()
      local many = {}
      for i = 1, 1000 do many[i] = i % 3 == 0 and { i } or i % 3 == 1 and tostring(i) or i end
      check_copies(unpack(many, 1, 1000))
      check_copies(unpack(many, 1, 1003))
      check_copies(unpack({}, 1, 200))
    end)

    it("random nested values", function()
      local seed = os.time() * 1000 + math.floor(os.clock() * 1e6) % 1000
      io.stdout:write("messages_spec: seed ", seed, "\n") io.stdout:flush()
      math.randomseed(seed)
      local random = math.random
      local ref = pierrot.spawn(echo)
      local function bytes(most)
        local t = {}
        for i = 1, random(0, most) do t[i] = string.char(random(0, 255)) end
        return table.concat(t)
      end
      local makers = {
        function() return random() < 0.5 end,
        function() return random(-300, 300) end,
        function() return (random() - 0.5) * 10 ^ random(-300, 300) end,
        function() return ({ 0 / 0, 1 / 0, -1 / 0, -0, 2 ^ 53 })[random(5)] end,
        function() return bytes(10) end,
        function() return bytes(400) end,
        function() return ref end,
        function() return ffi.cast("int64_t", random(-2 ^ 31, 2 ^ 31)) * 2147483647LL end,
        function() return ffi.cast("uint64_t", random(0, 2 ^ 31)) * 8589934591ULL end,
      }
      local function make(depth)
        if depth > 0 and random() < 0.4 then
          local t = {}
          for _ = 1, random(0, 6) do t[#t + 1] = make(depth - 1) end
          for _ = 1, random(0, 6) do
            local key = ({ bytes(6), random(-50, 50), random(), random() < 0.5, ref })[random(5)]
            t[key] = make(depth - 1)
          end
          if random() < 0.3 then t[random(1, 6)] = nil end
          return t
        end
        return makers[random(#makers)]()
      end
      local all = ways()
      for round = 1, sanitized and 60 or 250 do
        local n = random(0, 6)
        local values = { n = n }
        for i = 1, n do values[i] = random() < 0.2 and nil or make(random(0, 6)) end
        for name, way in pairs(all) do
          local got = pack(way(unpack(values, 1, n)))
          assert.is_true(got.n == n, ("seed %d, round %d, %s: count"):format(seed, round, name))
          for i = 1, n do
            assert.is_true(equal(values[i], got[i]), ("seed %d, round %d, %s: value %d"):format(seed, round, name, i))
          end
        end
      end
    end)

    it("a string of 100 MB", function()
      local mb = sanitized and 10 or 100
      local big = ("0123456789abcdef"):rep(65536 * mb)
      local measure = pierrot.spawn(function(_, s) return #s, s:byte(1), s:byte(-1), s:sub(50000, 50020) end)
      local size, first, last, middle = measure:ask_within(60, big)
      assert.same({ #big, 48, 102, big:sub(50000, 50020) }, { size, first, last, middle })
      local made = pierrot.spawn(function(_, n) return ("ab"):rep(n) end):ask_within(60, #big / 2)
      assert.is_true(made == ("ab"):rep(#big / 2))
    end)

    it("100 MB of tables, there and back", function()
      local rows = {}
      for i = 1, sanitized and 5000 or 50000 do
        rows[i] = { id = i, text = ("row %d "):format(i):rep(200), at = i / 7 }
      end
      local sum = pierrot.spawn(function(_, all)
        local n = 0
        for i = 1, #all do n = n + all[i].id + #all[i].text end
        return n, all
      end)
      local wanted = 0
      for i = 1, #rows do wanted = wanted + i + #rows[i].text end
      local n, back = sum:ask_within(60, rows)
      assert.equal(wanted, n)
      assert.equal(#rows, #back)
      assert.same(rows[#rows], back[#rows])
    end)
  end)

  describe("are copies", function()
    it("that the receiver may write to, on the same worker and on another", function()
      local keep = function(self, value)
        if value then
          value.changed = true
          value.inner[1] = "changed"
          self.kept = value
        end
        return self.kept
      end
      local send = function(_, to)
        local value = { inner = { "as it was" } }
        to:ask(value)
        local before = { value.changed, value.inner[1] }
        value.inner[1] = "changed by the sender"
        return before[1], before[2], to:ask().inner[1]
      end
      local sender = pierrot.spawn { send, worker = 1 }
      for worker = 1, 2 do
        local changed, inner, kept = sender:ask(pierrot.spawn { keep, worker = worker })
        assert.same({ nil, "as it was", "changed" }, { changed, inner, kept })
      end
    end)

    it("in replies too: what a handler returns it may go on changing", function()
      local a = pierrot.spawn { { on = {
        get = function(self) self.list = self.list or { 1 } return self.list end,
        add = function(self) self.list[#self.list + 1] = 0 return #self.list end,
      } }, worker = 1 }
      local mine = a:ask "get"
      assert.equal(2, a:ask "add")
      assert.same({ 1 }, mine)
      mine[9] = true
      assert.same({ 1, 0 }, a:ask "get")
    end)

    it("without their metatables", function()
      local index = function() return "from __index" end
      local object = setmetatable({ a = 1 }, { __index = index, __newindex = function() end, __len = index,
        __pairs = index, __metatable = "locked" })
      local kind, a, b = pierrot.spawn(function(_, t) return type(getmetatable(t)), t.a, t.b end):ask(object)
      assert.same({ "nil", 1 }, { kind, a, b })
      local got = pierrot.spawn(echo):ask({ object })
      assert.is_nil(getmetatable(got[1]))
    end)
  end)

  describe("refuse, at the caller's line,", function()
    -- Sends with `call`; the error must begin with the place of the call and hold `path`.
    local function refused(path, ...)
      local count = pierrot.spawn(function(self, ...)
        if ... == "count" then return self.n or 0 end
        self.n = (self.n or 0) + 1
      end)
      local line
      local values = pack(...)
      local ok, err = pcall(function()
        line = debug.getinfo(1, "l").currentline + 1
        count:tell("first", unpack(values, 1, values.n))
      end)
      assert.is_false(ok)
      err = tostring(err)
      assert.truthy(err:find(("messages_spec.lua:%d: "):format(line), 1, true), err)
      assert.truthy(err:find(path, 1, true), err .. "\n  lacks " .. path)
      ok, err = pcall(function()
        line = debug.getinfo(1, "l").currentline + 1
        count:ask("first", unpack(values, 1, values.n))
      end)
      assert.is_false(ok)
      err = tostring(err)
      assert.truthy(err:find(("messages_spec.lua:%d: "):format(line), 1, true), err)
      assert.truthy(err:find(path, 1, true), err .. "\n  lacks " .. path)
      assert.equal(0, count:ask("count"))
    end

    it("functions", function()
      refused("message[2]: function", print)
      refused("message[3].callbacks.done: function", 1, { callbacks = { done = function() end } })
      refused("message[2][3]: function", { 1, 2, print })
      refused('message[2]["a b"]: function', { ["a b"] = print })
      refused("function", { [print] = 1 })
    end)

    it("coroutines and userdata", function()
      refused("message[2]: thread", coroutine.create(function() end))
      refused("message[2].file: userdata", { file = io.stdout })
      refused("message[2]: userdata", newproxy())
      local upvalue = 1
      refused("message[2]: userdata", debug.upvalueid(function() return upvalue end, 1))   -- light
      refused("message[2].x: userdata", { x = debug.upvalueid(function() return upvalue end, 1) })
    end)

    it("cjson.null", function()
      local ok, cjson = pcall(require, "cjson")
      if not ok then return pending("no cjson here") end
      refused("message[2]: userdata", cjson.null)
      refused("message[2].a[1]: userdata", { a = { cjson.null } })
    end)

    it("cdata other than 64-bit integers", function()
      refused("message[2]: cdata", ffi.new("complex", 1, 2))
      refused("message[2].z: cdata", { z = ffi.new("complex", 1, 2) })
      refused("message[2].z: cdata", { z = ffi.new("complex float", 1, 2) })
      refused("message[2]: cdata", ffi.new("int[3]"))
      refused("message[2]: cdata", ffi.new("struct { int a; }"))
      refused("message[2]: cdata", ffi.typeof("int"))
      refused("message[2].p: cdata", { p = ffi.cast("void *", 0) })
      refused("message[2]: cdata", ffi.new("int32_t", 1))
    end)

    it("cycles", function()
      local t = { deep = {} }
      t.deep.back = t
      refused("message[2].deep.back: a cycle", t)
      local me = {}
      me[1] = me
      refused("message[2][1]: a cycle", me)
      local key = {}
      key[key] = 1
      refused("a cycle", key)
    end)

    it("tables 101 deep", function()
      refused("nested more than 100 deep", nested(101))
      refused("nested more than 100 deep", { a = nested(100) })
      refused("nested more than 100 deep", nested(5000))
    end)

    it("more values than fit, without harm", function()
      local many = {}
      for i = 1, 6000 do many[i] = i end
      local e = pierrot.spawn(echo)
      local ok, err = pcall(function() e:tell(unpack(many)) end)
      assert.is_false(ok)
      assert.truthy(tostring(err):find("messages_spec.lua:", 1, true), err)
      assert.equal(1, e:ask(1))
    end)

    it("in spawn's arguments and stop's reason too", function()
      local ok, err = pcall(function() pierrot.spawn(echo, { f = print }) end)
      assert.is_false(ok)
      assert.truthy(err:find("messages_spec.lua:%d+: .*argument%[1%]%.f: function"), err)
      local e = pierrot.spawn(echo)
      ok, err = pcall(function() e:stop(print) end)
      assert.is_false(ok)
      assert.truthy(err:find("messages_spec.lua:%d+: .*reason.*function"), err)
      assert.equal(1, e:ask(1))
    end)

    it("in a reply: the handler fails, the asker is told at once with the path", function()
      local a = pierrot.spawn { function() return 1, { f = print } end, restart = "temporary" }
      local ok, err = pcall(a.ask_within, a, 60)
      assert.is_false(ok)
      assert.equal("failed", err.kind)
      assert.truthy(tostring(err):find("reply[2].f: function", 1, true), tostring(err))
    end)

    it("inside an actor as outside", function()
      local a = pierrot.spawn(function(_, to)
        local _, first = pcall(function() to:tell("x", { f = print }) end)
        local _, second = pcall(function() to:ask("x", { f = print }) end)
        local _, third = pcall(function() pierrot.send_after(1, to, { coroutine.create(print) }) end)
        return first, second, third
      end)
      local first, second, third = a:ask(pierrot.spawn(echo))
      assert.truthy(first:find("messages_spec.lua:%d+: .*message%[2%]%.f: function"), first)
      assert.truthy(second:find("messages_spec.lua:%d+: .*message%[2%]%.f: function"), second)
      assert.truthy(third:find("messages_spec.lua:%d+: .*message%[1%]%[1%]: thread"), third)
    end)
  end)
end)
