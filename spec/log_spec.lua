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
end)
