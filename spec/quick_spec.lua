-- tell in compiled code goes another way than interpreted (lua/pierrot/quick.lua): whatever it is given, both ways
-- must do the same. Each script tells in loops that are hot enough to be compiled.

local script = require "support.script"

local function run(text)
  local result = script.run(text, { flags = "--log none --workers 2" })
  assert.equal("", result.err)
  assert.equal(0, result.status)
  return result.out
end

describe("a compiled tell", function()
  it("delivers every shape of message, in order and whole", function()
    assert.equal("ok 60000\n", run [[
      local pierrot = require "pierrot"
      local shapes = {
        { 1 }, { -0.5 }, { "inc" }, { "" }, { ("x"):rep(5000) }, { "add", 2 }, { "a\0b", 0 / 0 }, { nil }, { true },
        { "s", "t" }, { 1, 2 }, { "x", nil }, { "n", false }, { "t", { 1, 2 } }, { 1, 2, 3, 4 }, { pierrot.self() },
        { "r", pierrot.self() }, { 2 ^ 53 }, { "f", 1 / 0 }, { "i", 7LL },
      }
      local counts = {}
      for i, shape in ipairs(shapes) do
        counts[i] = shape[2] == nil and i ~= 12 and 1 or #shape == 4 and 4 or 2
      end
      local function same(a, b)
        return a == b or (a ~= a and b ~= b) or (type(a) == "table" and a[1] == b[1] and a[2] == b[2])
      end
      local Sink = { name = "sink", start = function(self) self.n = 0 end,
        receive = function(self, ...)
          if ... == "count?" then return self.n end
          local i = self.n % #shapes + 1
          self.n = self.n + 1
          assert(select("#", ...) == counts[i], "values of shape " .. i .. ": " .. select("#", ...))
          for k = 1, counts[i] do assert(same((select(k, ...)), shapes[i][k]), "shape " .. i) end
        end }
      local near, far = pierrot.spawn { Sink, worker = "here" }, pierrot.spawn { Sink, worker = 2 }
      for _ = 1, 1500 do
        for i = 1, #shapes do
          local shape, n = shapes[i], counts[i]
          if n == 1 then
            assert(near:tell(shape[1]) == true)
            assert(far:tell(shape[1]) == true)
          elseif n == 2 then
            assert(near:tell(shape[1], shape[2]))
            assert(pierrot.tell(far, shape[1], shape[2]))
          else
            assert(near:tell(unpack(shape, 1, n)))
            assert(far:tell(unpack(shape, 1, n)))
          end
        end
      end
      print("ok", near:ask("count?") + far:ask("count?"))
    ]]:gsub("\t", " "))
  end)

  it("says what the interpreted one says of an actor that has ended", function()
    assert.equal("2000 2000 true\n", (run([[
      local pierrot = require "pierrot"
      local a = pierrot.spawn(function() end)
      local taken, refused, reasons = 0, 0, {}
      for i = 1, 4000 do
        if i == 2001 then a:ask_within(5, "all handled") a:kill() while a:is_alive() do pierrot.sleep(0.001) end end
        local ok, reason = a:tell("x", i)
        if ok then taken = taken + 1 else refused = refused + 1 reasons[reason] = true end
      end
      local stats = pierrot.stats()
      assert(stats.rejected == refused, "rejected " .. stats.rejected)
      print(taken, refused, next(reasons) == "dead" and next(reasons, "dead") == nil)
    ]]):gsub("\t", " ")))
  end)

  it("raises misuse at the caller's line", function()
    assert.equal("script.lua:7: cannot send message[1]: function\nscript.lua:7: tell: a ref or a registered name expected, got nil\n",
      (run([[
      local pierrot = require "pierrot"
      local a = pierrot.spawn(function() end)
      local values, refs = {}, {}
      for i = 1, 500 do values[i] = i refs[i] = a end
      local function all()
        for i = 1, 500 do
          refs[i]:tell(values[i])
        end
      end
      all() all()
      values[400] = print
      print(select(2, pcall(all)))
      values[400], refs[300] = 1, nil
      local ok, message = pcall(function() for i = 1, 500 do local r = refs[i] if r then r:tell(1) end end end)
      assert(ok, message)
      local tell = pierrot.tell
      local function by_name() for i = 1, 500 do tell(refs[i], 1) end end
      print((select(2, pcall(by_name)):gsub(":%d+:", ":7:")))
    ]]):gsub("[^\n]*script", "script")))
  end)

  it("raises at what is no ref, as interpreted", function()
    assert.equal("500 499 500 499\n", (run([[
      local pierrot = require "pierrot"
      local sink = pierrot.spawn(function() end)
      local hot = {}
      for i = 1, 500 do hot[i] = sink end
      local function all(at, to)
        hot[at] = to
        local told = 0
        for i = 1, 500 do
          if pcall(pierrot.tell, hot[i], 1) then told = told + 1 end
        end
        hot[at] = sink
        return told
      end
      local function values(at, value)
        hot[at] = value
        local told = 0
        for i = 1, 500 do
          if pcall(pierrot.tell, sink, hot[i]) then told = told + 1 end
        end
        hot[at] = sink
        return told
      end
      local file, proxy = io.stdout, newproxy()
      for _ = 1, 3 do all(1, sink) values(1, sink) end
      assert(all(250, proxy) == 499 and values(250, proxy) == 499)
      print(all(1, sink), all(250, file), values(1, sink), values(250, file))
    ]]):gsub("\t", " ")))
  end)

  -- A state remembers 16,384 (quick.c), then begins anew; places in its table of refs are 1024.
  it("finds its way among more refs than it remembers", function()
    assert.equal("40000 each its own\n", run [[
      local pierrot = require "pierrot"
      local total = pierrot.spawn { start = function(self) self.n = 0 end,
        on = { one = function(self) self.n = self.n + 1 end, total = function(self) return self.n end } }
      local refs = {}
      for i = 1, 20000 do refs[i] = pierrot.spawn(function(_, to) to:tell("one") end) end
      for _ = 1, 2 do for i = 1, #refs do refs[i]:tell(total) end end
      local n
      repeat n = total:ask("total") until n == 2 * #refs
      for i = 1, #refs do while refs[i]:info().processed ~= 2 do pierrot.sleep(0.001) end end
      print(n .. " each its own")
    ]])
  end)

  -- Each ref that was not found was once the beginning of another trace, until LuaJIT made no more of them.
  it("needs no trace of its own for each of many refs, nor for those it is refused by", function()
    assert.equal("few\n", run [[
      local pierrot = require "pierrot"
      local util = require "jit.util"
      local Sink = function() end
      local refs = {}
      for i = 1, 30000 do refs[i] = pierrot.spawn { Sink, worker = "here" } end
      refs[#refs]:ask(0)
      for i = 1, 300 do refs[i * 97]:stop() end
      pierrot.sleep(0.05)
      local function traces()
        local n = 0
        for i = 1, 5000 do n = n + (util.traceinfo(i) and 1 or 0) end
        return n
      end
      for _ = 1, 4 do
        for i = 1, #refs do refs[i]:tell(i) end
        for i = 1, #refs do refs[i]:tell("s", i) end
        refs[#refs]:ask(0)
      end
      print(traces() < 150 and "few" or traces())
    ]])
  end)
end)
