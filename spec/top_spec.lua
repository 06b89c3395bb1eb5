--- pierrot top, through a pseudo-terminal: what it shows of a running process, what its keys do, what it leaves behind.
--- Mutants that these tests have seen: groups that keep the figures of the last picture, a stop without its question; rates of
--- more than their window, or that stay; marks of messages that are not forgotten when these are handled; a look that wakes
--- nobody who waits.
-- sanitizers: address

local script = require "support.script"
local Pty = require "support.pty"
local pierrot = require "pierrot"
local quote = script.quote

local PROGRAM = [[
local pierrot = require "pierrot"
local quiet = { name = "quiet", receive = function() end }
for i = 1, 60 do pierrot.spawn(quiet) end
local slow = pierrot.spawn{ { name = "slow one", on = { job = function() pierrot.sleep(1e6) end } }, name = "desk" }
for i = 1, 12345 do slow:tell("job", i) end
local bounded = pierrot.spawn{ { name = "slow one", on = { job = function() pierrot.sleep(1e6) end } }, name = "counter",
  mailbox = 50 }
for i = 1, 20 do bounded:tell("job", i) end
pierrot.spawn{ { name = "beats",
  start = function() pierrot.monitor(slow) pierrot.send_every(0.01, pierrot.self(), "beat", { of = "a drum" }) end,
  on = { beat = function() end } }, name = "drum" }
local bad = { name = "bad", on = { go = function() error "on purpose" end } }
pierrot.spawn{ { name = "kicks", supervise = { intensity = 1e6 },
  start = function(self)
    self.bad = pierrot.spawn{ bad, name = "bad one" }
    pierrot.send_every(0.2, pierrot.self(), "kick")
  end,
  on = { kick = function(self) self.bad:tell "go" end } }, name = "kicker" }
pierrot.spawn{ { name = "burner", on = { burn = function() for i = 1, 1e5 do math.sqrt(i) end pierrot.self():tell "burn" end } },
  name = "burner" }:tell "burn"
pierrot.spawn{ { name = "late", receive = function() end,
  on = { hold = function() pierrot.receive(nil, function(what) return what == "go" end) end } }, name = "late" }
io.stderr:write "ready\n"
]]

-- In PROGRAM.
local function line_of(text)
  return select(2, PROGRAM:sub(1, PROGRAM:find(text, 1, true)):gsub("\n", "")) + 1
end

local server, socket, ptys = nil, nil, {}

local function serve(flags)
  socket = script.path "socket"
  local path, err = script.write("server.lua", PROGRAM), script.path "err"
  os.remove(err)
  server = script.sh(("%s run --log none --workers 2 --control %s %s %s 2>%s >/dev/null </dev/null & echo $!"):format(
    quote(script.bin), quote(socket), flags or "", quote(path), quote(err))):match "%d+"
  while not (script.read(err) or ""):find "ready" do script.sh "sleep 0.01" end
end

local function open(columns, rows)
  local p = Pty.open(("%s top --attach %s"):format(quote(script.bin), quote(socket)),
                     { env = { TERM = "xterm" }, columns = columns or 100, rows = rows or 20 })
  ptys[#ptys + 1] = p
  p:wait("pierrot top: process " .. server)
  p:send "++"   -- four pictures a second
  return p
end

-- Until the line that begins with this matches; returns what it captures.
local function row(p, begin, pattern)
  local found
  p:wait(function()
    for _, line in ipairs(p:lines()) do
      if line:find(begin) then
        found = { line:match(pattern or begin) }
        if found[1] then return true end
      end
    end
  end, ("a line like %s %s"):format(begin, pattern or ""))
  return unpack(found)
end

-- Until line n is like this.
local function line(p, n, pattern)
  p:wait(function() return (p:lines()[n] or ""):find(pattern) end, ("line %d like %s"):format(n, pattern))
end

describe("pierrot top", function()
  after_each(function()
    for _, p in ipairs(ptys) do p:close() end
    ptys = {}
    if server then
      script.sh("kill -9 " .. server .. "; while kill -0 " .. server .. " 2>/dev/null; do sleep 0.01; done")
    end
    server = nil
  end)
  teardown(script.clean)

  it("shows the deepest first, sorts, goes to behaviours and back, filters, follows the size, and leaves the screen", function()
    serve()
    local p = open()
    row(p, "^workers %d+%% %d+%%, %S+ queued, 69 actors, [%d.k]+ messages/s$")   -- with control's own actor
    row(p, "^memory [%d.]+ MB, Lua [%d.]+ MB %([%d.]+ gc/s%), 0 dead letters, %d+ failures, %d+ restarts$")
    row(p, "^ID +NAME +BEHAVIOUR +STATE +DEPTH%* +MSG/S +TIME +OLDEST +RESTARTS$")
    line(p, 6, "^%d+%.%d+ +desk +slow one +suspended +12k ")
    line(p, 7, "^%d+%.%d+ +counter +slow one +suspended +19 ")
    line(p, 19, "^%.%.%. %d+ more$")
    line(p, 20, "^sort depth +Enter details")
    p:send "t"
    row(p, "^%S+ +burner ", "burner +burner +%S+ +%d+ +%S+ +(%d%d+)%%")   -- most of a worker's time
    line(p, 6, "^%S+ +burner ")
    p:send "r"
    row(p, "^%S+ +bad one ")
    line(p, 6, "^%S+ +bad one ")
    p:send "b"
    row(p, "^BEHAVIOUR +ACTORS +DEPTH +DEEPEST +MSG/S +TIME +RESTARTS%* +AGE +VERSION")
    row(p, "^quiet +60 +0 +0 ")
    row(p, "^slow one +1 +12k +12k ")   -- two places in the text are two behaviours
    p:send "n"
    line(p, 6, "^quiet +60 ")
    p:send "\r"   -- those of it
    line(p, 6, "^%S+ +quiet ")
    line(p, 20, 'filter "quiet"')
    p:send "/drx\127um\r"
    p:send "/\r"
    row(p, "^%S+ +desk ")
    p:send "/drum\r"
    row(p, "^%S+ +drum +beats +%S+ +%d+ +(%d+)")
    line(p, 7, "^$")
    p:resize(60, 10)
    p:wait(function() return #p:lines() == 10 and p:lines()[10]:find "^sort" and not p:text():find "TIME" end, "fewer columns")
    line(p, 5, "^ID +NAME +BEHAVIOUR +STATE +DEPTH%* +MSG/S$")
    p:resize(150, 30)
    row(p, "^ID .* OLDEST +RESTARTS%*? +LINE +AGE +WORKER$")
    p:send "/\rd"
    row(p, "^%S+ +desk .* >[%d.]+ s +0 +server.lua:" .. line_of "on = { job" .. " ")   -- where it waits; what it has was there before
    row(p, "^%S+ +counter .* [%d.]+ s +0 +server.lua:6 ")   -- a bounded mailbox knows when its messages came
    row(p, "^%S+ +burner .* server.lua:%d+ ")                -- where its handler begins
    local idle = row(p, "^%S+ +quiet .*", "%% +(%S+) +0 +[%d.]+ s +%d$")
    assert.equal("-", idle)                                  -- it has no oldest message, and no line
    p:send "h"
    row(p, "^up, down +choose a row +Enter  its details")
    p:send "\27q"
    assert.equal(0, p:finish())
    assert.is_truthy(p.raw:find "\27%[%?25h\27%[%?1049l$")
  end)

  it("shows an actor: its last failure and the messages it handles; stops it when told so twice", function()
    serve()
    local p = open(120, 30)
    p:send "/drum\r"
    row(p, "^%S+ +drum ")
    line(p, 7, "^$")
    p:send "\r"
    row(p, '^actor %d+%.%d+ "drum", beats, version 1$')
    row(p, "^%l+ on worker %d of default, %d+ in its mailbox, %d+ handled, 0 restarts, ")
    row(p, "^parent: actor %S+ %(.*server.lua%); children: 0")
    row(p, '^watches: actor "desk" %(slow one, %S+%)$')
    row(p, "^no failure since top has looked$")
    row(p, '^  "beat"  { of = "a drum" }  from actor "drum" %(beats, %S+%), done in [%d.]+ ms$', "^  .*$")
    p:send "\27/bad\r"
    row(p, "^%S+ +bad one ")
    line(p, 7, "^$")
    p:send "\r"
    row(p, "^last failure, [%d.]+ s ago: .*server.lua:%d+: on purpose$", "^last.*$")
    row(p, "^  stack traceback:$")
    p:send "\27/desk\r"
    row(p, "^%S+ +desk ")
    line(p, 7, "^$")
    p:send "\r"
    row(p, "^waits at .*server.lua:4$", "^waits.*$")
    row(p, "^mailbox: oldest >[%d.]+ s$")
    row(p, '^watched by: actor "drum" %(beats, %S+%)$')
    p:send "\27/drum\r"
    row(p, "^%S+ +drum ")
    p:send "k"
    row(p, "^stop actor %d+%.%d+ drum %(beats%)%? y to stop it")
    p:send "n"
    line(p, 30, "^sort")
    local before = row(p, "^%S+ +drum +beats +%l+ +%d+ +([%d.]+)")
    assert.is_truthy(tonumber(before))
    p:send "k"
    row(p, "^stop actor ")
    p:send "y"
    p:wait(function() return not p:text():find "\n%d+%.%d+ +drum " end, "the drum gone")
    p:send "\3"
    assert.equal(0, p:finish())
  end)

  it("only looks where the socket is read-only; ends with the process; says what is wrong", function()
    serve "--control-readonly"
    local p = open()
    row(p, "^%S+ +desk ")
    p:send "ky"
    row(p, "^stop: this control socket is read%-only$")
    script.sh("kill -9 " .. server)
    assert.equal(1, p:finish())
    assert.is_truthy(p.raw:find("the process has ended the connection", 1, true))
    local r = script.command(("%s top --attach /nonexistent/s"):format(quote(script.bin)))
    assert.equal(1, r.status)
    assert.is_truthy(r.err:find "cannot connect to /nonexistent/s", r.err)
    assert.equal(2, script.command(quote(script.bin) .. " top").status)
  end)

  it("counts exactly what was handled between two pictures, of each actor and of its behaviour", function()
    local r = script.run [[
      local pierrot, core = require "pierrot", require "pierrot.core"
      local one = { name = "one", receive = function(_, n) return n end }
      local a, b = pierrot.spawn{ one, name = "a" }, pierrot.spawn{ one, name = "b" }
      a:ask(1) b:ask(1)
      local view = core.top_view()
      local function look(grouped)
        local rows, _, head = core.top_look(view, grouped, "rate", 10, "one")
        local handled = {}
        for _, row in ipairs(rows) do handled[row.name or "?"] = math.floor(row.rate * head.seconds + 0.5) end
        return handled, head.seconds, rows
      end
      look(false)
      for round = 1, 2 do
        for n = 1, 300 do a:tell(n) end
        for n = 1, 20 * round do b:tell(n) end
        a:ask(1) b:ask(1)
        pierrot.sleep(0.25)   -- a window
        local grouped = round == 2
        local handled, seconds, rows = look(grouped)
        print(seconds >= 0.2, handled.a, handled.b, #rows, rows[1].rate >= rows[#rows].rate, rows[1].actors)
        local again = core.top_look(view, false, "rate", 10, "one")
        print(grouped or again[1].rate == rows[1].rate)   -- of the same window
      end
      pierrot.sleep(0.25)
      print(look(false).a)
    ]]
    assert.same({ 0, "" }, { r.status, r.err })
    assert.equal("true\t301\t21\t2\ttrue\tnil\ntrue\ntrue\t342\tnil\t1\ttrue\t2\ntrue\n0\n", r.out)
  end)

  it("knows since when a message waits, of an unbounded mailbox too", function()
    serve()
    local json, c = require "cjson", require("support.unix").connect(socket)
    local function ask(request)
      c:send(json.encode(request) .. "\n")
      local answer
      repeat answer = json.decode(c:line()) until not answer.out
      return assert(answer.ok and answer, answer.error).result
    end
    local DEPTH, OLDEST, PLACE, LONGER = 5, 6, 15, 16
    local function late(is)
      local it
      repeat it = ask{ cmd = "top", filter = "late" }.rows[1] until is(it)
      return it
    end
    local function tell(...) ask{ cmd = "eval", code = ("tell('late', %q)"):format(...) } end
    assert.same({}, ask{ cmd = "top", n = 0 }.rows)
    late(function(r) return r[OLDEST] == -1 and r[PLACE] == "" end)   -- it has done nothing yet
    local began = pierrot.now()
    tell "hold"
    tell "other"
    local got = late(function(r) return r[OLDEST] > 0 end)
    assert.is_true(got[OLDEST] <= pierrot.now() - began)
    assert.is_false(got[LONGER])
    assert.is_truthy(late(function(r) return r[PLACE]:find("server.lua:" .. line_of "pierrot.receive" .. "$") end))
    -- That one is handled, and another one waits behind the next that holds.
    began = pierrot.now()
    tell "hold"
    tell "another"
    tell "go"
    local info
    repeat info = ask{ cmd = "info", name = "late" } until info.processed >= 3 and info.depth == 1   -- the second one holds
    got = late(function(r) return r[DEPTH] == 1 and r[OLDEST] > 0 end)
    assert.is_true(got[OLDEST] <= pierrot.now() - began)
    tell "go"
    late(function(r) return r[DEPTH] == 0 and r[OLDEST] == -1 end)
    c:close()
  end)

  it("draws the pictures of docs/operating.md", function()
    local data, seen = require("cjson").decode((script.read "spec/support/top.json")), 0
    local top = require "pierrot.top"
    local blocks = "```text top=(%l+) width=(%d+) height=(%d+)\n(.-)\n```"
    for name, width, height, picture in script.read "docs/operating.md":gmatch(blocks) do
      local view = top.new_view()
      view.by = name == "behaviours" and "behaviour" or "actor"
      view.detail = name == "details"
      assert.equal(picture, table.concat(top.picture(view, data[name], tonumber(width), tonumber(height)), "\n"))
      seen = seen + 1
    end
    assert.equal(3, seen)
  end)

  it("prints one picture where there is no terminal", function()
    serve()
    local r = script.command(("%s top --attach %s"):format(quote(script.bin), quote(socket)))
    assert.same({ 0, "" }, { r.status, r.err })
    assert.is_truthy(r.out:find("^pierrot top: process " .. server .. ", up "), r.out)
    assert.is_truthy(r.out:find "\n%S+ +desk +slow one +suspended +12k ", r.out)
    assert.is_truthy(r.out:find "\n%.%.%. 49 more\n$", r.out)
  end)
end)
