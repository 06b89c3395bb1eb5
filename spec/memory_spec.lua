-- Memory that runs out is an error to whoever wanted it, and nobody else notices: the sender of a message that cannot
-- be made, the actor that cannot hold what it was sent. Each script runs with an address space that is too small.

local script = require "support.script"

-- A sanitizer needs an address space of its own.
local test = os.getenv "PIERROT_SANITIZER" and pending or it

local function run(source, kilobytes)
  local path = script.write("memory.lua", source)
  local result = script.command(("sh -c 'ulimit -v %d; exec \"$0\" run --log none --workers 2 \"$1\"' %s %s"):format(
    kilobytes, script.quote(script.bin), script.quote(path)), 60)
  assert.equal(0, result.status, result.err)
  return result.out
end

describe("memory that runs out", function()
  test("while a message is made is an error at the sender's line, and the next message arrives", function()
    local out = run([[
      local pierrot = require "pierrot"
      local s = ("x"):rep(60 * 2 ^ 20)
      local kept = {}
      local ok, message
      for i = 1, 100 do
        local ref = pierrot.spawn(function() pierrot.sleep(100) end)
        kept[i] = ref
        ok, message = pcall(function() assert(ref:tell(s)) end)
        if not ok then break end
      end
      print((message:gsub("^.*/", "")))
      local echo = pierrot.spawn(function(_, x) return x end)
      print(echo:ask("still here"))
      for _, ref in ipairs(kept) do ref:kill() end
    ]], 800000)
    assert.match("^memory%.lua:8: not enough memory to send message %(61440 KB%)\nstill here\n$", out)
  end)

  test("in a handler fails that actor, and its worker goes on", function()
    local out = run([[
      local pierrot = require "pierrot"
      local glutton = pierrot.spawn { function() return #("x"):rep(2 ^ 30) end, worker = 1 }
      local neighbour = pierrot.spawn { function(_, x) return x + 1 end, worker = 1 }
      local ok, err = pcall(glutton.ask_within, glutton, 60)
      print(ok, err.kind, err.message:match "not enough memory")
      print(neighbour:ask(41))
    ]], 600000)
    assert.equal("false\tfailed\tnot enough memory\n42\n", out)
  end)
end)
