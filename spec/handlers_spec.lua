-- Which handler takes a message: that of its first value, if that is a name in `on`; else `receive`. The search compares a name's
-- ends, as they are in the message, and finds most at the first look (src/lua/loaded.c).
--
-- Mutants that these find: a name's tail, its middle or its length not compared; no look behind the first; a message too
-- short for a look read beyond its end (under AddressSanitizer); the name left among the values.

local pierrot = require "pierrot"

describe("the handler of a message", function()
  before_each(function() assert(pierrot.start { workers = 2, log = "none" }) end)
  after_each(function() assert.is_true(pierrot.shutdown(10)) end)

  -- Of each length some names, which differ in a single byte, wherever it is; and as many that have no handler.
  local function names()
    local known, unknown = {}, {}
    for length = 0, 40 do
      local name = ("abcdefghij"):rep(5):sub(1, length)
      known[#known + 1] = name
      for i = 1, length do
        local begin, rest = name:sub(1, i - 1), name:sub(i + 1)
        known[#known + 1], unknown[#unknown + 1] = begin .. "X" .. rest, begin .. "\0" .. rest
      end
    end
    return known, unknown
  end

  it("is that of its name, of whatever length, and `receive` for any other", function()
    local known, unknown = names()
    local Named = {
      on = {},
      start = function(self) self.wrong = {} end,
      receive = function(self, name, ...) return "receive", name, ... end,
    }
    for _, name in ipairs(known) do
      Named.on[name] = function(_, ...) return "on", name, ... end
    end
    local Asker = function(_, to, all, expected)
      for _ = 1, 3 do   -- the second time the names may be known by then, the third time compiled
        for _, name in ipairs(all) do
          local way, got, n, more = to:ask_within(60, name, 7)
          if way ~= expected or got ~= name or n ~= 7 or more ~= nil then return ("%s, not %s: %q"):format(way, expected, name) end
        end
      end
      return "all"
    end
    for worker = 1, 2 do
      local named, asker = pierrot.spawn { Named, worker = worker }, pierrot.spawn { Asker, worker = 1 }
      assert.equal("all", (asker:ask_within(60, named, known, "on")))
      assert.equal("all", (asker:ask_within(60, named, unknown, "receive")))
      for _, name in ipairs(known) do   -- from outside a message has no byte more than it needs
        assert.same({ "on", name }, { named:ask(name) })
      end
      assert.same({ "receive" }, { named:ask() })
      assert.same({ "receive", 3, "a" }, { named:ask(3, "a") })
      assert.same({ "receive", true, "" }, { named:ask(true, "") })
    end
  end)

  it("is found anew after each message, among many that are sent in turn", function()
    local Counter = {
      start = function(self) self.a, self.bcd, self.longer, self.rest = 0, 0, 0, 0 end,
      on = {
        a = function(self, n) self.a = self.a + n end,
        bcd = function(self, n) self.bcd = self.bcd + n end,
        ["a name that is longer"] = function(self, n) self.longer = self.longer + n end,
        sums = function(self) return self.a, self.bcd, self.longer, self.rest end,
      },
      receive = function(self, _, n) self.rest = self.rest + n end,
    }
    local Sender = function(_, to, times)
      for _ = 1, times do
        to:tell("a", 1)
        to:tell("bcd", 10)
        to:tell("a name that is longer", 100)
        to:tell("bce", 1000)
        to:tell("a name that is lonqer", 10000)
        to:tell(5, 100000)
      end
      return true
    end
    for worker = 1, 2 do
      local counter, sender = pierrot.spawn { Counter, worker = worker }, pierrot.spawn { Sender, worker = 1 }
      assert.is_true(sender:ask_within(60, counter, 3000))
      assert.same({ 3000, 30000, 300000, 333000000 }, { counter:ask_within(60, "sums") })
    end
  end)
end)
