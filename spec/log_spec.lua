-- The log: on stderr, a line each, from the level asked for up.

local script = require "support.script"

local source = [[
  local pierrot = require "pierrot"
  pierrot.log.debug("debug %d", 1)
  pierrot.log.info("info %s", "x")
  pierrot.log.warn "warn %d"
  pierrot.log.error("error %5.1f", 2.5)
]]

describe("the log", function()
  teardown(script.clean)

  it("has levels, each with those above it", function()
    local levels = { "debug", "info", "warn", "error", "none" }
    local texts = { "debug 1", "info x", "warn %d", "error   2.5" }
    for i, level in ipairs(levels) do
      local r = script.run(source, { flags = "--log " .. level })
      assert.equal("", r.out)
      assert.equal(0, r.status)
      for k, text in ipairs(texts) do
        assert.equal(k >= i, r.err:find(text, 1, true) ~= nil, level .. ": " .. r.err)
      end
    end
  end)

  it("names the actor, also from many at once, never mixed", function()
    local r = script.run([[
      local pierrot = require "pierrot"
      for i = 1, 8 do
        pierrot.spawn { { name = "chatty", receive = function(_, n)
          for k = 1, 200 do pierrot.log.info("<%s>", ("x"):rep(n * 10)) end end }, worker = i % 2 + 1 }:tell(i)
      end
    ]], { flags = "--workers 2 --log info" })
    local n = 0
    for line in r.err:gmatch "[^\n]+" do
      assert.truthy(line:find "^%d%d%d%d%-.* info  actor .*chatty.*: <x+>$", line)
      n = n + 1
    end
    assert.equal(1600, n)
  end)

  -- Its error has no traceback. AddressSanitizer sees whether one is looked for behind its end.
  it("says who ended too often without failing, and nothing more", function()
    local r = script.run([[
      local pierrot = require "pierrot"
      local child = { name = "child", restart = "permanent", function() pierrot.stop() end }
      pierrot.spawn { { name = "parent", supervise = { intensity = 0, exceeded = "escalate" },
        start = function() pierrot.spawn(child):tell() end }, restart = "temporary", monitor = true }
      pierrot.receive(60)
    ]], { flags = "--log error" })
    assert.equal(0, r.status, r.err)
    assert.truthy(r.err:find("actor [%d.]+ %(parent%) failed by a child's failure: "
      .. 'actor "child" %([^ ]+:2, [%d.]+%) was to be restarted more than 0 times in 5 s\n'), r.err)
  end)

  it("takes odd arguments, wrong formats raise at the caller's line", function()
    local r = script.run([[
      local pierrot = require "pierrot"
      pierrot.log.error("100%")
      pierrot.log.error(nil)
      pierrot.log.error()
      pierrot.log.error({})
      pierrot.log.error("a\0b")
      pierrot.log.error(("x"):rep(1e5))
      pierrot.log.error("")
      print(pcall(function() pierrot.log.error("%d", "x") end))
      print(pcall(function() pierrot.log.error({}, 1) end))
      print(pcall(function() pierrot.log.error(nil, 1) end))
      print(pcall(function() pierrot.log.error("%y", 1) end))
    ]])
    assert.equal(0, r.status, r.err)
    local n = 0
    for line in r.out:gmatch "[^\n]+" do
      n = n + 1
      assert.truthy(line:find "^false\t.*script.lua:%d+: log.error: ", line)
    end
    assert.equal(4, n)
  end)

  it("writes a record as one line, whatever is in it", function()
    local r = script.run([[
      local pierrot = require "pierrot"
      pierrot.log.error("a\n2026-01-01T00:00:00.000Z error forged\n")
      pierrot.log.error("\27[2J\ttab\rreturn\0nul")
      local a = pierrot.spawn { { name = "poet\nb", receive = function() error("two\nlines", 0) end }, restart = "temporary" }
      a:tell()
      while a:is_alive() do pierrot.sleep(0.001) end
    ]], { flags = "--log error" })
    assert.equal(0, r.status, r.err)
    local lines = {}
    for line in r.err:gmatch "[^\n]+" do lines[#lines + 1] = line end
    assert.equal(3, #lines, r.err)
    assert.truthy(lines[1]:find([[: a\n2026-01-01T00:00:00.000Z error forged\n]], 1, true))
    assert.truthy(lines[2]:find([[\x1b[2J\ttab\rreturn\x00nul]], 1, true))
    assert.truthy(lines[3]:find([[failed in its handler: two\nlines\nstack traceback:\n\t]], 1, true))
  end)

  it("says once how many failures and restarts it has held back", function()
    local r = script.run([[
      local pierrot = require "pierrot"
      local Bad = { supervise = { intensity = 1e6 }, start = function()
        for i = 1, 10 do
          pierrot.spawn { function() error("x", 0) end, name = "bad" .. i }
        end
      end, receive = function() return true end }
      local bad = pierrot.spawn(Bad)
      bad:ask()
      for n = 1, 1000 do
        for i = 1, 10 do pierrot.tell("bad" .. i) end
      end
      while pierrot.stats().restarts < 10000 do pierrot.sleep(0.001) end
      assert(pierrot.stats().failures == 10000)
      bad:stop()
    ]], { flags = "--log info --workers 2", limit = 60 })
    assert.equal(0, r.status, r.err)
    local shown, held = 0, 0
    for line in r.err:gmatch "[^\n]+" do
      local n = line:match "(%d+) more records of failures and restarts were held back"
      if n then held = held + n else shown = shown + 1 end
      assert.truthy(n or line:find "failed in its handler: x\\nstack traceback" or line:find "is restarted$", line)
    end
    assert.equal(20000, shown + held)   -- a failure and a restart each, and none is lost without being counted
    assert.is_true(held > 0)
  end)
end)
