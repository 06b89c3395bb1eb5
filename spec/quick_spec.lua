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

  it("raises at a table that does not travel, whatever the stack below holds", function()
    assert.equal("20\n", run [[
      local pierrot = require "pierrot"
      local ref = pierrot.spawn(function(_, _, value) return value end)
      local good, bad = {}, {}
      for i = 1, 20 do
        good[i] = { i }
        bad[i] = i < 5 and { i } or { print }
      end
      local function many(values)
        for i = 1, 20 do ref:tell("x", values[i]) end
      end
      local function one(value)
        return (ref:ask("x", value))
      end
      local raised = 0
      for n = 1, 200 do
        local turn = n % 20 == 19
        pierrot.sleep(0)   -- the last call of C, far down
        local _, _, _, _, told = pcall(pcall, pcall, pcall, pcall, many, turn and bad or good)
        local ok, err = pcall(function() return one(turn and bad[5] or good[1]) end)
        if turn and not told and not ok and err:find("cannot send message[2][1]: function", 1, true) then
          raised = raised + 2
        end
      end
      print(raised)
    ]])
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

-- The message is made by compiled code, and sent by a C function that ends the trace; what comes after it is another one.
describe("a compiled ask", function()
  it("brings every number of values, both ways", function()
    assert.equal("ok\n", run [[
      local pierrot = require "pierrot"
      local Echo = { name = "echo", receive = function(_, ...) return ... end,
        on = { count = function(_, ...) return select("#", ...) end } }
      local near, far = pierrot.spawn { Echo, worker = "here" }, pierrot.spawn { Echo, worker = 2 }
      local function values(...) return select("#", ...), (select(4, ...)) end
      for i = 1, 2000 do
        for _, echo in ipairs { near, far } do
          assert(echo:ask(i) == i and echo:ask("x") == "x" and echo:ask(echo) == echo)
          local a, b = echo:ask("x", i)
          assert(a == "x" and b == i)
          local c, d, e, f = echo:ask_within(5, i, true, "z")
          assert(c == i and d == true and e == "z" and f == nil)
          assert(values(echo:ask(nil)) == 1 and values(echo:ask("a", nil)) == 2 and values(echo:ask("a", nil, nil)) == 3)
          local n, fourth = values(echo:ask(1, 2, 3, i, nil))
          assert(n == 5 and fourth == i)
          assert(values(echo:ask()) == 0)
          assert(echo:ask("count") == 0 and echo:ask("count", i) == 1 and echo:ask("count", i, nil) == 2)
          assert(pierrot.ask(echo, "count", 1, 2, 3, 4) == 4 and pierrot.ask_within(echo, 5, "count", nil) == 1)
          local s, t = echo:ask("t", { i })
          assert(s == "t" and t[1] == i and echo:ask({ i = i }).i == i)
        end
      end
      print "ok"
    ]])
  end)

  it("fails with what an interpreted one fails with", function()
    assert.equal("failed 7\nfailed bad\ntimeout\ndead\ndeadlock\nthe same\n", run [[
      local pierrot = require "pierrot"
      local Server = { name = "server", on = {
        fine = function(_, n) return n end,
        raise = function(_, n) error { n = n } end,
        bad = function() error("bad", 0) end,
        late = function(self) self.asked = pierrot.defer() end,
      } }
      local good, bad
      -- All are answered but one.
      local function asks(n, what, within)
        local failure
        for i = 1, n do
          local odd = i == n - 3
          local to, message = odd and bad or good, odd and what or "fine"
          local ok, value
          if within then
            ok, value = pcall(pierrot.ask_within, to, odd and within or 5, message, i)
          else
            ok, value = pcall(pierrot.ask, to, message, i)
          end
          if odd then
            assert(not ok)
            failure = value
          else
            assert(ok and value == i, tostring(value))
          end
        end
        return failure
      end
      local function fresh() return pierrot.spawn { Server, restart = "temporary" } end
      local function all(n)
        local texts, kinds = {}, {}
        local function note(err, more)
          kinds[#kinds + 1] = err.kind .. (more and " " .. tostring(more) or "")
          texts[#texts + 1] = (tostring(err):gsub("actor %d+%.%d+", "actor"):gsub("n = %d+", "n"):gsub("stack traceback.*", ""))
        end
        good, bad = fresh(), fresh()
        local err = asks(n, "raise")
        note(err, err.cause.n == n - 3 and 7)
        bad = fresh()
        err = asks(n, "bad", 5)
        note(err, err.cause)
        bad = fresh()
        note(asks(n, "late", 0.01))
        bad = fresh()
        bad:kill()
        while bad:is_alive() do pierrot.sleep(0.001) end
        note(asks(n, "fine"))
        bad = pierrot.self()
        note(asks(n, "fine", 5))
        return table.concat(kinds, "\n"), table.concat(texts, "\n")
      end
      local kinds, texts = all(5)
      for _ = 1, 3 do
        local hot_kinds, hot_texts = all(400)
        assert(hot_kinds == kinds, hot_kinds)
        assert(hot_texts == texts, hot_texts .. "\n-- instead of\n" .. texts)
      end
      print(kinds .. "\nthe same")
    ]])
  end)

  it("says that it cannot wait, and sends nothing then", function()
    assert.equal("refused\n400 9\n", (run([[
      local pierrot = require "pierrot"
      local Server = { start = function(self) self.n = 0 end, receive = function(self, n) self.n = self.n + 1 return n end,
        on = { total = function(self) return self.n end } }
      local server = pierrot.spawn(Server)
      local function hot(from, to)
        for i = from, to do assert(server:ask(i) == i) end
      end
      hot(1, 398)
      local refused = 0
      local function compare(a, b)
        for i = 1, 2 do
          local ok, err = pcall(hot, i, i)
          if not ok and tostring(err):find("script%.lua:%d+: ask: cannot suspend here") then refused = refused + 1 end
        end
        return a < b
      end
      for _ = 1, 100 do table.sort({ 2, 1, 3 }, compare) end
      print(refused >= 400 and "refused" or refused)
      hot(399, 400)
      print(server:ask "total", server:ask(9))
    ]]):gsub("\t", " ")))
  end)

  it("waits no less than it was told to, in a busy worker, too", function()
    assert.equal("20 neither early nor late\n", run [[
      local pierrot = require "pierrot"
      local Silent = { start = function(self) self.all = {} end,
        receive = function(self, answer) if answer then return true end self.all[#self.all + 1] = pierrot.defer() end }
      local silent = pierrot.spawn { Silent, worker = 1 }
      local Asker = { receive = function(_, main)
        for _ = 1, 200 do silent:ask(true) end
        local wait = 0.02
        for _ = 1, 5 do
          local begun = pierrot.now()
          while pierrot.now() - begun < 0.01 do end   -- the worker's own idea of the time is old now
          local asked = pierrot.now()
          local ok = pcall(pierrot.ask_within, silent, wait, false)
          main:tell(not ok and pierrot.now() - asked >= wait)
        end
      end }
      for _ = 1, 4 do pierrot.spawn({ Asker, worker = 1 }):tell(pierrot.self()) end
      local n = 0
      local late = pierrot.send_after(15, pierrot.self(), "late")
      for _ = 1, 20 do n = n + (pierrot.receive(20) == true and 1 or 0) end
      late:cancel()
      print(n .. " neither early nor late")
    ]])
  end)
end)

-- In the loop's own traces tables are encoded there (recorder.lua, from_loop): one that does not travel raises inside of it.
describe("a hot handler's table that cannot travel", function()
  it("is refused, and nothing else is lost by it", function()
    assert.equal("ok 8000 250 250\n", (run([[
      local pierrot = require "pierrot"
      local Sink = { start = function(self) self.n = 0 end, receive = function(self, t) self.n = self.n + 1 return t end,
        on = { total = function(self) return self.n end } }
      local function nest(depth, send, sink, value)
        local kept = depth * 3
        if depth == 0 then return send(sink, value) end
        local result = nest(depth - 1, send, sink, value)
        assert(kept == depth * 3)
        return result
      end
      local Worker = { start = function(self, sink) self.sink, self.told, self.asked = sink, 0, 0 end,
        on = {
          tell = function(self, i, odd)
            local ok, err = pcall(nest, i % 5, self.sink.tell, self.sink, { i, odd and print or i })
            if not ok then
              assert(odd and err:find "cannot send message%[1%]", err)
              self.told = self.told + 1
            end
          end,
          ask = function(self, i, odd)
            local ok, value = pcall(nest, i % 5, self.sink.ask, self.sink, { i, odd and print or i })
            if ok then
              assert(value[1] == i)
            else
              assert(odd and value:find "cannot send message%[1%]", value)
              self.asked = self.asked + 1
            end
          end,
          refused = function(self) return self.told, self.asked end,
        } }
      local sink = pierrot.spawn { Sink, worker = "here" }
      local worker = pierrot.spawn { Worker, sink, restart = "temporary", worker = "here" }
      for i = 1, 8500 do
        local odd = i % 17 == 0
        worker:tell(i % 2 == 0 and "tell" or "ask", i, odd)
      end
      local told, asked = worker:ask_within(20, "refused")
      print("ok", sink:ask "total", told, asked)
    ]]):gsub("\t", " ")))
  end)
end)
