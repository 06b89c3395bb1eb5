--- `pierrot repl` in a terminal: typing, editing, completion, history, the interrupt key, what others print meanwhile.
-- begun first

local script = require "support.script"
local Pty = require "support.pty"
local quote = script.quote

local C = require("ffi").C
local ptys = {}

-- A prompt that has shown itself. options: see Pty.open; history: a path; arguments
local function open(options)
  options = options or {}
  local env = { TERM = "xterm", PIERROT_HISTORY = options.history or "", NO_COLOR = "1", LC_ALL = "C.UTF-8", EDITOR = false,
                VISUAL = false }
  for name, value in pairs(options.env or {}) do env[name] = value end
  local p = Pty.open(("%s repl --log error %s"):format(quote(script.bin), options.arguments or ""),
                     { columns = options.columns, rows = options.rows, env = env })
  ptys[#ptys + 1] = p
  return p:wait_last(">")
end

-- Types a line; its answer and the next prompt.
local function answer(p, line, prompt)
  local before = #p.raw
  p:send(line .. "\r")
  p:wait(function()
    local lines = p:lines()
    return lines[#lines] == (prompt or ">") and p.raw:find("\n", before, true) ~= nil
  end, "the prompt after " .. line)
  return p
end

local function ends_with(p, ...)
  local lines, wanted = p:lines(), { ... }
  local last = {}
  for i = #lines - #wanted + 1, #lines do last[#last + 1] = lines[i] or "" end
  assert.same(wanted, last)
end

local function leave(p)
  p:wait(function() return p:lines()[#p:lines()]:find "^>" end, "the prompt")
  p:send("\21\4")
  assert.equal(0, p:finish())
end

-- A line that runs until it is interrupted, once it does run.
local function interrupt(p, line)
  p:send("io.write('running\\n') io.flush() " .. line .. "\r")
  p:wait(function() return p.raw:find("\nrunning", 1, true) end, "the line to run")
  p.raw, p.screen = "", require("support.screen").new(p.screen.columns, p.screen.rows)
  p:send("\3")
  p:wait("interrupted", "the interruption of " .. line)
  p:wait_last(">")
end

describe("at a terminal", function()
  after_each(function()
    for _, p in ipairs(ptys) do p:close() end
    ptys = {}
  end)
  teardown(script.clean)

  it("what is typed is run, and values come back", function()
    local p = open()
    assert.is_truthy(p:lines()[1]:find "^pierrot %S+, %d+ workers. help%(%) lists")
    answer(p, "1 + 41")
    ends_with(p, "> 1 + 41", "42", ">")
    answer(p, "error 'no'")
    assert.is_truthy(p:text():find("prompt:1: no", 1, true), p:seen())
    answer(p, "_ + 1")
    ends_with(p, "> _ + 1", "43", ">")
    leave(p)
  end)

  it("a line is edited: cursor, deletion, words, characters of several bytes", function()
    local p = open()
    answer(p, "12\27[D\27[D3\27[C\1'\5' .. 'x'\127\127y'")   -- '3 .. and so on: see what stands there
    assert.is_truthy(p:text():find("> '312' .. 'y'", 1, true), p:seen())
    ends_with(p, "> '312' .. 'y'", '"312y"', ">")
    answer(p, "'äö€x'\27[D\27[D\127\127ü\1\27[C")
    ends_with(p, "> 'äüx'", '"äüx"', ">")
    answer(p, "wrong\21'right'")
    ends_with(p, "> 'right'", '"right"', ">")
    leave(p)
  end)

  it("lines come back from the history, in the next session too", function()
    local path = script.path "history"
    local p = open { history = path }
    answer(p, "'first'")
    answer(p, "'second'")
    answer(p, " 'not kept'")
    answer(p, "\27[A\27[A")
    ends_with(p, "> 'first'", '"first"', ">")
    leave(p)
    assert.equal("'first'\n'second'\n'first'\n", script.read(path))
    assert.equal("600", script.sh("stat -c %a " .. quote(path)):match "%d+")
    p = open { history = path }
    answer(p, "\27[A\27[A")
    ends_with(p, "> 'second'", '"second"', ">")
    p:send("\18fir")   -- ^R: search
    p:wait("'first'")
    leave(open { history = "/nonexistent/directory/history" })
  end)

  it("the tabulator completes globals, fields, methods, keywords, names of actors and modules", function()
    local p = open()
    answer(p, "some_table = { alpha_one = 1, alpha_two = { deep = 1 } }")
    p:send("some_t\t") p:wait_last("> some_table")
    p:send(".al\t") p:wait_last("> some_table.alpha_")
    p:send("\t") p:wait("alpha_one  alpha_two") p:wait_last("> some_table.alpha_")
    p:send("tw\t.\t") p:wait_last("> some_table.alpha_two.deep")
    p:send("\21some_table.none.\t\21func\t") p:wait_last("> function")
    answer(p, "\21ref = spawn{ { receive = function() end }, name = 'unique-name' }")
    p:send("ref:is_al\t") p:wait_last("> ref:is_alive")
    p:send("\21('x'):up\t\21tell(\"uniq\t") p:wait_last('> tell("unique-name"')
    p:send("\21require 'pierrot.prompt.sh\t") p:wait_last("> require 'pierrot.prompt.show'")
    p:send("\21\t42") p:wait_last(">   42")   -- at the beginning of a line it indents
    answer(p, "\21setmetatable({}, { __index = error })")
    answer(p, "_G.trap = setmetatable({}, { __index = error })")
    p:send("trap.x\t") answer(p, "\21'alive'")
    ends_with(p, "> 'alive'", '"alive"', ">")
    leave(p)
  end)

  it("an unfinished statement goes on; the interrupt key gives it up, and what is typed", function()
    local p = open()
    answer(p, "for i = 1, 2 do", ">>")
    answer(p, "print(i)", ">>")
    answer(p, "end")
    ends_with(p, "> for i = 1, 2 do", ">> print(i)", ">> end", "1", "2", ">")
    answer(p, "for i = 1, 2 do", ">>")
    p:send("nonsense")
    p:wait_last(">> nonsense")
    p:send("\3")
    p:wait_last(">")
    assert.is_truthy(p:text():find(">> nonsense^C\n>", 1, true), p:seen())
    answer(p, "5")
    ends_with(p, "> 5", "5", ">")
    leave(p)
  end)

  it("the interrupt key ends a running line: loops, calls that wait, pcall, coroutines; the session stays", function()
    local p = open()
    answer(p, "kept = 'kept'")
    for _, line in ipairs {
      "while true do end", "function f() return f() end f()", "pierrot.sleep(1e6)", "pierrot.receive()",
      "while true do pcall(function() while true do end end) end",
      "coroutine.wrap(function() while true do coroutine.wrap(function() while true do end end)() end end)()",
      "repeat pcall(pierrot.sleep, 1000) until false",
      "spawn(function() pierrot.sleep(1000) end):ask_within(1000)",
      "for i = 1, math.huge do print(i) end",
      "string.gsub(('x'):rep(1e6), '.', function() while true do end end)",
      "print(setmetatable({}, { __tostring = function() while true do end end }))",
    } do
      interrupt(p, line)
    end
    assert.is_nil(p:text():find("running", 1, true))
    answer(p, "kept")
    ends_with(p, "> kept", '"kept"', ">")
    leave(p)
  end)

  it("says where a line was interrupted", function()
    local p = open()
    answer(p, "function spin() while true do end end")
    interrupt(p, "spin()")
    assert.is_truthy(p:text():find("interrupted at prompt:1", 1, true), p:seen())
  end)

  it("an interrupt ends no other actor's work", function()
    local p = open()
    answer(p, "worker = spawn(function(self, to) pierrot.sleep(0.3) to:tell('done') return 1 end)")
    answer(p, "local _ = tell(worker, pierrot.self())")
    interrupt(p, "while true do end")
    answer(p, "pierrot.receive(10)")
    ends_with(p, "> pierrot.receive(10)", '"done"', ">")
    answer(p, "info(worker).restarts")
    ends_with(p, "> info(worker).restarts", "0", ">")
  end)

  it("a line inside a C function says so, and the third interrupt ends the process", function()
    local p = open()
    p:send("print 'running' ; ('x'):rep(1e5):find '.-.-.-.-b'\r")
    p:wait(function() return p.raw:find("\nrunning", 1, true) end, "the line to run")
    p:send("\3") p:wait(function() return p.raw:find("^C\r\n", 1, true) end, "the end of its line")
    p:send("\3") p:wait("Ctrl-C once more ends the process")
    p:send("\3")
    assert.equal(130, p:finish())
  end)

  it("what others print stands above the line being typed", function()
    local p = open()
    answer(p, "t = spawn(function(self, n) for i = 1, n do print('tick ' .. i) end io.stderr:write('and an error\\n') end)")
    answer(p, "local _ = pierrot.send_after(0.2, t, 3)")
    p:send("'typed ")
    p:wait_last("> 'typed")
    p:wait("and an error")
    p:wait(function() return p:text():find("tick 1\ntick 2\ntick 3\nand an error\n> 'typed", 1, true) end, "the line below")
    p:send("on'\r")
    p:wait('"typed on"')
    answer(p, "local _ = pierrot.send_after(0.2, spawn(function() io.write 'half' io.flush() end), 1)")
    p:send("'x")
    p:wait(function() return p:text():find("half\n> 'x", 1, true) end, "the half line above")
    answer(p, "y'")
    ends_with(p, "half", "> 'xy'", '"xy"', ">")
    leave(p)
  end)

  it("a line longer than 40 columns, and output above all of its rows", function()
    local p = open { columns = 40 }
    answer(p, "t = spawn(function() print 'tick' end)")
    answer(p, "local _ = pierrot.send_after(0.3, t, 1)")
    local long = "'" .. ("0123456789"):rep(11)
    p:send(long)
    p:wait("tick")
    local rows = { ("> " .. long):sub(1, 40), ("> " .. long):sub(41, 80), ("> " .. long):sub(81) }
    p:wait(function() return p:text():find("tick\n" .. table.concat(rows, "\n"), 1, true) end, "the line below, whole")
    assert.equal(1, select(2, p:text():gsub("> '0123456789", "")), p:seen())
    answer(p, "\1\27[C!\5'")
    assert.is_truthy(p:text():find("> '!0123456789", 1, true), p:seen())
    p:send("'" .. ("x"):rep(60) .. "\3")
    p:wait(function() return p:text():find("xxx%^?C?[^\n]*\n>") or p.raw:find("%^C\r?\n") end, "giving it up")
    p:wait_last(">")
    answer(p, "'ä€' .. ('y'):rep(100)")
    leave(p)
  end)

  it("the window's size may change while a line is typed", function()
    local p = open { columns = 80 }
    p:send("'" .. ("0123456789"):rep(5))
    p:wait_last("> '" .. ("0123456789"):rep(5))
    p:resize(40, 24)
    answer(p, "!'")
    assert.is_truthy(p:text():find('"' .. ("0123456789"):rep(3), 1, true), p:seen())
    leave(p)
  end)

  it("many who print, and one who types", function()
    local p = open()
    answer(p, "noise = spawn(function(self) for i = 1, 300 do print(('%03d '):format(i) .. ('='):rep(60)) pierrot.sleep(0.001) end end)")
    answer(p, "for i = 1, 3 do tell(spawn(noise and function() for i = 1, 300 do print(('%03d '):format(i) .. ('='):rep(60))"
      .. " pierrot.sleep(0) end end), 1) end tell(noise, 1)")
    for c in ("'typed meanwhile'"):gmatch "." do p:send(c) end
    p:send("\r")
    p:wait(function() return p.raw:find('"typed meanwhile"\r\n', 1, true) and select(2, p.raw:gsub("300 ===", "")) == 4 end, "all of it")
    p:wait_last(">")
    local whole = 0
    for line in p.raw:gsub("\27%[%d*%a", ""):gmatch "[^\r\n]+" do
      if line:find "===" then
        assert.is_truthy(line:find("%d%d%d " .. ("="):rep(60) .. "$"), line)
        whole = whole + 1
      end
    end
    assert.is_true(whole > 300)
    leave(p)
  end)

  it("a dumb terminal gets plain lines, without control sequences or colours", function()
    local p = open { env = { TERM = "dumb", NO_COLOR = false } }
    answer(p, "{ 1, 'x' }")
    ends_with(p, "> { 1, 'x' }", '{ 1, "x" }', ">")
    answer(p, "for i = 1, 1 do", ">>")
    p:send("\3") p:wait_last(">")
    answer(p, "6 * 7")
    ends_with(p, "> 6 * 7", "42", ">")
    interrupt(p, "while true do end")
    assert.is_nil(p.raw:find("\27", 1, true))
    leave(p)
  end)

  it("colours where the terminal has them, and NO_COLOR is unset", function()
    local p = open { env = { NO_COLOR = false } }
    answer(p, "{ 1 }")
    assert.is_truthy(p.raw:find("{ \27[36m1\27[0m }", 1, true), p:seen())
    leave(p)
  end)

  it("the terminal is left as it was found", function()
    for _, line in ipairs { "\4", "os.exit(0)\r", "pierrot.shutdown()\r", "pierrot.self():kill()\r" } do
      local p = Pty.open(("sh -c 'stty -a >%s; %s repl --log error; stty -a >%s'"):format(script.path "before",
                         script.bin, script.path "after"), { env = { TERM = "xterm", PIERROT_HISTORY = "" } })
      ptys[#ptys + 1] = p
      p:wait_last(">")
      p:send(line)
      assert.equal(0, p:finish())
      assert.equal(script.read(script.path "before"), script.read(script.path "after"))
    end
  end)

  it("a terminate signal ends the process in order, in the middle of a line", function()
    local p = open()
    answer(p, "local _ = spawn { stop = function() print 'stopped' end }")
    p:send("'half")
    p:wait_last("> 'half")
    C.kill(p.pid, 15)
    assert.equal(0, p:finish())
    assert.is_truthy(p:text():find("stopped", 1, true), p:seen())
  end)

  it("stopped and continued, the line is there again", function()
    local p = open()
    p:send("'half")
    p:wait_last("> 'half")
    C.kill(p.pid, 19)
    C.kill(p.pid, 18)
    p:send(" and half'\r")
    p:wait('"half and half"')
    leave(p)
  end)

  it("edit() runs what the editor leaves", function()
    local editor = script.write("editor.sh", "#!/bin/sh\nsed -i 's/20/21/' \"$1\"\n")
    script.sh("chmod +x " .. quote(editor))
    local p = open { env = { EDITOR = editor } }
    answer(p, "2 * 20")
    answer(p, "edit()")
    ends_with(p, "> edit()", "2 * 21", "42", ">")
    local failing = open { env = { EDITOR = "false" } }
    answer(failing, "edit()")
    assert.is_truthy(failing:text():find("nothing is run", 1, true), failing:seen())
  end)

  it("questions of a line are asked at the terminal", function()
    local p = open()
    p:send("io.write('name? ') name = io.read()\r")
    p:wait("name? ")
    answer(p, "Colombine")
    answer(p, "name")
    ends_with(p, "> name", '"Colombine"', ">")
    leave(p)
  end)

  it("the prompt uses no processor time while it waits", function()
    if script.sanitized then return end   -- ThreadSanitizer's own thread does
    local p = open()
    answer(p, "1")
    local function ticks()
      local stat = script.read(("/proc/%d/stat"):format(p.pid)):match "%) (.*)"
      local fields = {}
      for field in stat:gmatch "%S+" do fields[#fields + 1] = tonumber(field) end
      return fields[12] + fields[13]
    end
    local function switches()
      return tonumber(script.sh(("cat /proc/%d/task/*/status | awk '/^voluntary/ { n += $2 } END { print n }'"):format(p.pid)):match "%d+")
    end
    local before
    for _ = 1, 60 do   -- until the states' collectors have come to rest
      before = switches()
      script.sh "sleep 0.5"
      if switches() == before then break end
    end
    local used = ticks()
    script.sh "sleep 1"
    assert.equal(before, switches())
    assert.equal(used, ticks())
  end)
end)
