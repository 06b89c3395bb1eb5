-- A handler that sends on and on stands back for those it has sent to (PR_BURST in src/worker.h). What must hold all the
-- same: order, every message, one handler of an actor at a time, and no error where Lua cannot suspend.
--
-- Fails when: pr_lua_stand_back never suspends (depth); a tell returns nothing after it (order); the sender takes a
-- message while it stands back (one at a time); it suspends where Lua cannot (comparator).

local script = require "support.script"

local function run(text)
  local result = script.run(text, { flags = "--log none --workers 2" })
  assert.equal("", result.err)
  assert.equal(0, result.status)
  return result.out
end

describe("a handler that sends without end", function()
  it("leaves the mailboxes of its worker short", function()
    local deepest = tonumber(run [[
      local pierrot = require "pierrot"
      local deepest = 0
      local sinks = {}
      for i = 1, 3 do
        sinks[i] = pierrot.spawn { { start = function(self) self.n = 0 end,
                                     receive = function(self) self.n = self.n + 1 end }, worker = "here" }
      end
      for n = 1, 30000 do
        for i = 1, #sinks do assert(sinks[i]:tell(n) == true) end
        if n % 50 == 0 then deepest = math.max(deepest, sinks[1]:info().depth) end
      end
      print(deepest)
    ]])
    assert.truthy(deepest < 3000, deepest)   -- of 30,000
  end)

  it("loses and reorders nothing, compiled or not, near and far, by tell of every shape", function()
    assert.equal("ok\n", run [[
      local pierrot = require "pierrot"
      local N = 20000
      local Sink = { name = "sink", start = function(self) self.n = 0 end,
        on = {
          count = function(self) return self.n end,
          named = function(self, n) self.n = self.n + 1 assert(n == self.n) end,
        },
        receive = function(self, n, second)
          self.n = self.n + 1
          if type(n) == "table" then n = n[1] elseif type(n) == "string" then n = tonumber(n) end
          assert(n == self.n and (second == nil or second == n))
        end }
      local Sender = function(_, kind, to)
        local sent = 0
        for n = 1, N do
          local ok
          if kind == 1 then ok = to:tell(n) elseif kind == 2 then ok = to:tell("named", n)
          elseif kind == 3 then ok = to:tell(tostring(n)) elseif kind == 4 then ok = to:tell({ n })
          elseif kind == 5 then ok = to:tell(n, n) else ok = to:tell(n, n, nil, nil) end
          if ok then sent = sent + 1 end
        end
        return sent
      end
      for kind = 1, 6 do
        for _, place in ipairs { 1, 2 } do
          local sink = pierrot.spawn { Sink, worker = place }
          local sender = pierrot.spawn { Sender, worker = 1 }
          assert(sender:ask(kind, sink) == N)
          assert(sink:ask("count") == N, kind)
        end
      end
      print("ok")
    ]])
  end)

  it("takes no other message meanwhile", function()
    assert.equal("ok 40\n", run([[
      local pierrot = require "pierrot"
      local sink = pierrot.spawn { function() end, worker = 1 }
      local flooder = pierrot.spawn { { start = function(self) self.inside, self.done = false, 0 end,
        receive = function(self, flood)
          assert(not self.inside, "a second handler of this actor")
          if not flood then return self.done end
          self.inside = true
          for n = 1, 3000 do sink:tell(n) end
          self.inside, self.done = false, self.done + 1
        end }, worker = 1 }
      for _ = 1, 40 do flooder:tell(true) end
      print("ok", flooder:ask(false))
    ]]):gsub("\t", " ") .. "")
  end)

  it("goes on where Lua cannot suspend", function()
    assert.equal("ok 20000\n", run([[
      local pierrot = require "pierrot"
      local sink = pierrot.spawn { { start = function(self) self.n = 0 end,
        receive = function(self, n) if n == nil then return self.n end self.n = self.n + 1 end }, worker = "here" }
      string.gsub(("x"):rep(20000), ".", function() sink:tell(1) end)
      print("ok", sink:ask())
    ]]):gsub("\t", " ") .. "")
  end)
end)
