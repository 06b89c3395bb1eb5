-- Tables of a shape that comes often are made by a function of their own (src/lua/shapes.c) instead of the serializer.
-- Whatever is sent, what arrives must be the same. Each script sends in loops that are hot enough to be compiled, each
-- table often enough for its shape to be known.

local script = require "support.script"

local function run(text)
  local result = script.run(text, { flags = "--log none --workers 2" })
  assert.equal("", result.err)
  assert.equal(0, result.status)
  return result.out
end

-- Sends `values`, so often each, one after the other, to an actor on the same worker and one on the other; each says
-- which were not as they should be.
local SEND = [[
  local pierrot = require "pierrot"
  local function same(a, b)
    if type(a) ~= "table" or type(b) ~= "table" then
      return a == b and (a ~= 0 or 1 / a == 1 / b) or a ~= a and b ~= b and type(a) == type(b)
    end
    for k, v in pairs(a) do if not same(v, b[k]) then return false end end
    for k in pairs(b) do if a[k] == nil then return false end end
    return #a == #b
  end
  local Sink = {
    start = function(self, values) self.values, self.n, self.bad, self.kept = values, 0, {}, {} end,
    on = {
      check = function(self, value, i)
        self.n = self.n + 1
        if not same(value, self.values[i]) then self.bad[#self.bad + 1] = i end
        if self.kept[i] and not self.kept[i].mark then self.bad[#self.bad + 1] = -i end   -- changed by a later one
        value.mark = true          -- must not be seen in the next one
        self.kept[i] = value
      end,
      bad = function(self) return self.n, table.concat(self.bad, " ", 1, math.min(#self.bad, 20)) end,
    },
  }
  function send(values, times)
    local near = pierrot.spawn { Sink, values, worker = "here" }
    local far = pierrot.spawn { Sink, values, worker = 2 }
    for _ = 1, times do
      for i = 1, #values do
        near:tell("check", values[i], i)
        far:tell("check", values[i], i)
      end
    end
    local n, bad = near:ask_within(60, "bad")
    local m, worse = far:ask_within(60, "bad")
    return n + m, bad .. worse
  end
]]

describe("tables of a shape that comes often", function()
  it("arrive as they were sent", function()
    assert.equal("13200 \n", (run(SEND .. [[
      local me = pierrot.self()
      local long, longer = ("k"):rep(150), ("k"):rep(250)
      local list, many = {}, {}
      for i = 1, 20 do list[i] = i / 3 end
      for i = 1, 40 do many["f" .. i] = i end
      local values = {
        { id = 1, name = "x", pos = { 1, 2, 3 } }, { id = 0 / 0, name = "", pos = { -0, 1 / 0, -1 / 0 } }, {},
        { a = true, b = false, c = "true" }, { a = false, b = true, c = "" }, { {}, {}, { {} } }, list, many,
        { s = ("y"):rep(191) }, { s = ("y"):rep(192) }, { s = ("y"):rep(8000) }, { s = ("y"):rep(8400) },
        { s = ("z"):rep(100000) },
        { [long] = 1 }, { [longer] = 1 }, { [long] = 1, [long .. "b"] = 2 }, { from = me, list = { me, me } },
        { ["a\0b\n\"\\\r%d]=]"] = "a\0b", ["end"] = 1, [""] = 2 }, { 1, 2, nil, 4 }, { [0] = 1, 2 },
        { 1, x = { 2, y = { 3 } } }, { a = { a = { a = { a = { a = { a = { a = { a = { a = 1 } } } } } } } } },
        { [1.5] = 1 }, { [true] = 1 }, { n = 7LL }, { a = true, b = true }, { a = false, b = false },
        { 2 ^ 31, -2 ^ 31, 2 ^ 53, 0.1 }, { 1, "2", true, me }, { x = 1 }, { x = "1" }, { x = {} }, { x = me },
      }
      print(send(values, 200))
    ]]):gsub("\t", " ")))
  end)

  it("arrive as they were sent, also those that have the same bytes but for their leaves, or nearly", function()
    assert.equal("11400 \n", (run(SEND .. [[
      local me, other = pierrot.self(), pierrot.spawn {}
      local reversed = {}
      for _, key in ipairs { "pos", "name", "id" } do reversed[key] = #key end
      local values = {
        { id = 1, name = "abc", pos = { 1, 2, 3 } }, { id = 0 / 0, name = "xyz", pos = { 4, 5, 6 } },
        { id = 2, name = "longer", pos = { 7, 8, 9 } }, { id = 2, name = "", pos = { 0, 0, 0 } },
        { id = "12345678", name = "abc", pos = { 1, 2, 3 } }, { id = 1, name = "abc", pos = { 1, "87654321", 3 } },
        { x = 1.5 }, { x = "12345678" }, { x = me }, { x = other }, { y = 1.5 }, { z = 1.5 },
        { ab = 1 }, { ax = 2 }, { az = 3 }, { ay = 4 },
        { on = true, n = 1 }, { on = false, n = 2 }, { on = true, n = 3 }, { on = false, n = 4 },
        { 1.25, 2.25 }, { 1.5, "abcdefgh" }, { "abcdefgh", 2.5 }, { me, 1 }, { 1, me }, { 3.75, 4.75 },
        { a = ("x"):rep(100) }, { a = ("y"):rep(100) }, { a = ("z"):rep(123) }, { a = ("z"):rep(124) },
        { name = 1, id = 2, pos = 3 }, reversed, { pos = 3, id = 2, name = 4 },
        { a = "" }, { a = 1, b = "" }, { "" }, { "a" }, { "b" },
      }
      print(send(values, 150))
    ]]):gsub("\t", " ")))
  end)

  it("are made by functions of their own, as many as there may be", function()
    assert.equal("1 64 nil\n", (run([[
      local pierrot = require "pierrot"
      local function made(self)   -- how many of these functions this worker has
        local n = 0
        for _, t in pairs(debug.getregistry()) do
          for _, f in ipairs(type(t) == "table" and #t == 64 and t or {}) do
            n = n + (type(f) == "function" and debug.getinfo(f, "S").source == "@pierrot/shapes.lua" and 1 or 0)
          end
        end
        return n, self.bad
      end
      local function value(self, t, i)
        if t["f" .. i] ~= i or next(t, next(t)) then self.bad = true end
      end
      local counter = pierrot.spawn { { on = { value = value, made = made } }, worker = "here" }
      for _ = 1, 1000 do counter:tell("value", { f0 = 0 }, 0) end
      local one = (counter:ask "made")
      for _ = 1, 200 do
        for i = 1, 300 do counter:tell("value", { ["f" .. i] = i }, i) end
      end
      print(one, counter:ask "made")
    ]]):gsub("\t", " ")))
  end)
end)
