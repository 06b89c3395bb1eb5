--- A prompt attached to a running process repairs it: finds the actor with the deepest mailbox, traces it, gives its module
--- new code, and watches the depth fall. Nothing that was queued is lost.

local script = require "support.script"
local Pty = require "support.pty"
local quote = script.quote

-- A shop whose desk waits where it need not, and so falls behind; others have little to do.
local PROGRAM = [[
local pierrot = require "pierrot"
for i = 1, 40 do
  pierrot.spawn{ { name = "customer", start = function(self) pierrot.send_every(0.05, pierrot.self(), "look") end,
    on = { look = function() end } }, name = "customer " .. i }
end
local desk = pierrot.spawn{ "desk", name = "desk" }
pierrot.spawn{ { name = "door",
  start = function(self) self.sent = 0 pierrot.send_every(0.002, pierrot.self(), "open") end,
  on = { open = function(self) self.sent = self.sent + 1 desk:tell("order", self.sent, { what = "tea" }) end,
         sent = function(self) return self.sent end } }, name = "door" }
io.stderr:write "ready\n"
]]
local DESK = [[
local pierrot = require "pierrot"
return { name = "desk", on = {
  order = function(self, number)
    assert(number == (self.last or 0) + 1)
    %s
    self.last = number
  end,
  last = function(self) return self.last end,
} }
]]

describe("an attached prompt", function()
  local server
  after_each(function()
    if server then script.sh("kill " .. server .. "; while kill -0 " .. server .. " 2>/dev/null; do sleep 0.01; done") end
  end)
  teardown(script.clean)

  it("finds the deepest mailbox, traces its actor, reloads its module, and sees the depth fall", function()
    local socket = script.path "socket"
    script.write("desk.lua", DESK:format "pierrot.sleep(0.02)   -- let the others in")
    local path, err = script.write("shop.lua", PROGRAM), script.path "err"
    server = script.sh(("%s run --log error --control %s %s 2>%s >/dev/null </dev/null & echo $!"):format(
      quote(script.bin), quote(socket), quote(path), quote(err))):match "%d+"
    while not (script.read(err) or ""):find "ready" do script.sh "sleep 0.01" end

    local p = Pty.open(("%s repl --attach %s"):format(quote(script.bin), quote(socket)),
                       { env = { TERM = "xterm", PIERROT_HISTORY = "", NO_COLOR = "1" }, columns = 120 })
    p:wait_last ">"
    local function type_line(line)
      p.raw = ""
      p:send(line .. "\r")
      p:wait(function()
        local lines = p:lines()
        return lines[#lines] == ">" and p.raw:find("\n", 1, true) ~= nil
      end, "the prompt after " .. line)
      return p.raw
    end
    type_line "repeat pierrot.sleep(0.05) until info('desk').depth > 40"
    local table_of_one = type_line "ps{ n = 1 }"
    assert.is_truthy(table_of_one:find "desk +desk +%d+ +%l+ +%d+", table_of_one)
    type_line "trace('desk', 2)"
    p:wait(function() return select(2, p.raw:gsub('"order"  %d+  { what = "tea" }  actor "desk" %(desk, [%d.]+%) <%- ', "")) == 2 end,
      "two messages of the desk")
    assert.is_truthy(p.raw:find('<- actor "door" (door, ', 1, true), p.raw)
    local slow = tonumber(p.raw:match "done in ([%d.]+) ms")
    assert.is_true(slow >= 20, slow)

    script.write("desk.lua", DESK:format "")
    type_line "reload 'desk'"
    type_line "repeat pierrot.sleep(0.01) until info('desk').depth == 0"
    assert.is_truthy(type_line "info('desk').version":find "\n2\r?\n")
    type_line "trace('desk', 1)"
    p:wait(function() return p.raw:find "done in [%d.]+ %S+" end, "a message of the repaired desk")
    assert.is_truthy(type_line "s = ask('door', 'sent') repeat l = ask('desk', 'last') until l >= s return l >= s":find "\ntrue\r?\n")
    p:send "\4"
    assert.equal(0, p:finish())
    assert.equal("ready\n", script.read(err))   -- no handler has failed: each order came once, in its turn
  end)
end)
