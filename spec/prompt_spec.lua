--- `pierrot repl` without a terminal: a script of lines. Values, errors, what lasts, the helpers.
-- begun first

local script = require "support.script"
local quote = script.quote

-- Lines into the prompt -> { out =, err =, status = }
local function lines(text, opts)
  opts = opts or {}
  local path = script.write("lines.txt", text)
  return script.command(("env PIERROT_HISTORY= %s sh -c %s"):format(opts.env or "",
    quote(("exec %s repl %s <%s"):format(quote(script.bin), opts.flags or "--log error", quote(path)))), opts.limit)
end

-- The same, where all goes well.
local function output(text, opts)
  local r = lines(text, opts)
  assert.same({ 0, "" }, { r.status, r.err }, r.out)
  return r.out
end

describe("lines in a pipe:", function()
  teardown(script.clean)

  it("expressions print their values, statements run, no prompt is shown", function()
    assert.equal("3\n1\n\"two\"\nnil\n6\nhi\ntrue\n", output [[
1 + 2
1, "two", nil
x = 5
x + 1
print "hi"
for i = 1, 0 do end
local y = 1
= true
]])
    assert.equal("7\n8\n", output("1 + 6\n8"))   -- no newline at the end
    assert.equal("", output "")
    assert.equal("", output "\n\n  \n-- nothing\n")
  end)

  it("what is not finished goes on in the next line", function()
    assert.equal("6\n\"a\\nb\"\n3\n", output("function f(a,\n  b)\n\n  return a * b\nend\nf(2,\n3)\n[[a\nb]]\n1 +\n2\n"))
  end)

  it("_ is the last value", function()
    assert.equal("42\n43\n43\n43\n", output "42\n_ + 1\n_\nx = 7\n_\n")
  end)

  it("globals last, and functions typed can be spawned with what they read", function()
    assert.equal('{ 10, "ten" }\n', output [[
names = { [10] = "ten" }
function look(n) return names[n] end
a = spawn(function(self, n) return { n, look(n) } end)
ask(a, 10)
]])
    assert.equal('"local"\n', output("Worker = { on = { get = function(self) return self.kind end },\n"
      .. "start = function(self, k) self.kind = k end }\n"
      .. 'spawn(Worker, "local"):ask("get")\n'))
  end)

  it("an error shows message and traceback, and the next line runs", function()
    local r = lines "x = 1\nfunction f() error('went wrong') end\nfunction g() f() return 1 end\ng()\nx\n"
    assert.same({ 1, "1\n" }, { r.status, r.out })
    assert.equal("prompt:1: went wrong\nstack traceback:\n\t[C]: in function 'error'\n\tprompt:1: in function 'f'\n"
      .. "\tprompt:1: in function 'g'\n\tprompt:1: in main chunk\n", r.err)
    r = lines "error { code = 42 }\nerror()\nerror 'x'\nx = = 1\nlocal t = nil + 1\n2\n"
    assert.same({ 1, "2\n" }, { r.status, r.out })
    assert.is_truthy(r.err:find("error: { code = 42 }", 1, true), r.err)
    assert.is_truthy(r.err:find("error: nil", 1, true), r.err)
    assert.is_truthy(r.err:find("prompt:1: x\n", 1, true), r.err)
    assert.is_truthy(r.err:find("unexpected symbol near '='", 1, true), r.err)
    assert.is_truthy(r.err:find("prompt:1: attempt to perform arithmetic on a nil value", 1, true), r.err)
    -- A string in quotes goes on in the next line after a backslash only; a helper's place is not the user's.
    r = lines "\"abc\n1 + 1\n'a\\\nb'\nlog 'zzz'\nrequire 'nope'\n"
    assert.equal('2\n"a\\nb"\n', r.out)
    assert.is_truthy(r.err:find "^prompt:1: unfinished string near '<eof>'\n", r.err)
    assert.is_truthy(r.err:find("\nlog level 'zzz' is none of", 1, true), r.err)
    assert.is_truthy(r.err:find("\nmodule 'nope' not found:", 1, true), r.err)
  end)

  it("an ask that fails shows the traceback of the one that failed", function()
    local r = lines("a = spawn(function(self) local t = nil; return t.x end)\nask(a)\n1\n", { flags = "--log none" })
    assert.same({ 1, "1\n" }, { r.status, r.out })
    assert.is_truthy(r.err:find("^ask: actor .- failed: prompt:1: attempt to index"), r.err)
    assert.is_truthy(r.err:find("in function <prompt:1>", 1, true), r.err)
  end)

  it("code that cannot be carried is an error at the prompt's line, with the advice", function()
    local r = lines "n = 0\nspawn(function() n = n + 1 end)\n1\n"
    assert.equal("1\n", r.out)
    assert.is_truthy(r.err:find("^prompt:1: spawn: global 'n' is assigned"), r.err)
  end)

  it("an unfinished statement at the end is an error", function()
    local r = lines "1\nfor i = 1, 3 do\n"
    assert.same({ 1, "1\n", "the input ends in the middle of a statement\n" }, { r.status, r.out, r.err })
  end)

  it("a line of 20 MB, and one with zero bytes", function()
    local r = lines("1\n" .. ("x"):rep(20e6) .. "\n2\n")
    assert.same({ 1, "1\n", "a line of the input is too long\n" }, { r.status, r.out, r.err })
    assert.equal("3\n", output '#"a\0b"\n')
  end)

  it("the process goes on until nothing is left that could happen", function()
    assert.equal("late\n", output("a = spawn(function() pierrot.sleep(0.05) print 'late' end)\nlocal ok = a:tell()\n"
      .. "while a:info().processed == 0 do pierrot.sleep(0.001) end\n"))
  end)

  it("a file runs first: its globals are there, its arguments in arg", function()
    local path = script.write("first.lua", "local a = ...\nname = a .. arg[2]\nfunction double(x) return 2 * x end\n")
    assert.equal('"onetwo"\n42\n7\n', output("name\ndouble(21)\n_G.seven or 7\n", { flags = "--log error " .. quote(path) .. " one two" }))
    local bad = script.write("bad.lua", "x = 1\nerror 'no'\n")
    local r = lines("x\n", { flags = quote(bad) })
    assert.same({ 1, "1\n" }, { r.status, r.out })
    assert.is_truthy(r.err:find("bad.lua:2: no", 1, true), r.err)
    r = lines("1\n", { flags = "/nonexistent.lua" })
    assert.same({ 1, "1\n" }, { r.status, r.out })
    assert.is_truthy(r.err:find("cannot open /nonexistent.lua", 1, true), r.err)
  end)

  it("flush shows what was sent to the prompt, in order and once; receive takes it too", function()
    local out = output [[
me = pierrot.self()
spawn(function(self, to) for i = 1, 3 do to:tell("n", i) end return true end):ask(me)
pierrot.sleep(0)
flush()
flush()
tell(me, "later", { 1 })
pierrot.receive(5)
]]
    assert.is_truthy(out:find('^true\n"n"  1  from actor [^\n]*\n"n"  2  [^\n]*\n"n"  3  [^\n]*\ntrue\n"later"\n{ 1 }\n$'), out)
  end)

  it("an ask to the prompt is kept until its line runs", function()
    assert.equal("42\n", output [[
local ok = spawn(function(self, to) print(to:ask("question")) end):tell(pierrot.self())
pierrot.sleep(0.01)
if pierrot.receive(5) == "question" then pierrot.defer():reply(42) end
]])
  end)

  it("ps and tree show the actors; ps sorts and filters", function()
    local out = output [[
Child = { name = "child", receive = function() return 1 end }
Parent = { name = "parent", start = function()
  for i = 1, 30 do require "pierrot".spawn{ Child, name = "c" .. i } end
end, receive = function() return true end }
p = spawn(Parent)
ask(p)
for i = 1, 5 do ask("c7") end
ps{ filter = "child", sort = "processed", n = 2 }
tree(p)
]]
    assert.is_truthy(out:find("^true\nID +NAME +BEHA" ..
      "VIOUR +WORKER +STATE +DEPTH +PROCESSED +RESTARTS +AGE\n%S+ +c7 +child +%d +%a+ +0 +5 "), out)
    assert.is_truthy(out:find("... 28 more", 1, true), out)
    assert.is_truthy(out:find('\nparent  %d+%.%d+, %a+\n|%- "c%d+" child  '), out)
    assert.is_truthy(out:find("`- ... and 10 more\n", 1, true), out)
    local r = lines 'ps{ sort = "name" }\nps{ n = 0 }\nps(12)\n'
    assert.is_truthy(r.err:find('^prompt:1: ps: sort: "depth", .- got name\n'), r.err)
    assert.is_truthy(r.err:find("prompt:1: ps: n: a whole number", 1, true), r.err)
  end)

  it("trace shows the next messages of an actor, and nothing after them", function()
    local out = output [[
worked = { on = { work = function(self, x) return x end, wait = function() pierrot.sleep(0.01) end } }
a = spawn{ worked, name = "worked" }
trace("worked", 3)
pierrot.sleep(0.05)
for i = 1, 2 do ask(a, "work", { i }) end
tell(a, "wait")
tell(a, "work", "unseen")
pierrot.sleep(0.1)
ask(a, "work", 1)
]]
    local n = select(2, out:gsub('"work"  { %d }  actor "worked" [^\n]* <%- actor [^\n]*, done in ', ""))
    assert.equal(2, n, out)
    assert.is_truthy(out:find('"wait"  actor "worked" [^\n]*, done in %d+%.%d ms\n'), out)
    assert.is_nil(out:find("unseen", 1, true), out)
    local r = lines 'trace("nobody")\ntrace(pierrot.self(), -1)\n'
    assert.is_truthy(r.err:find("^prompt:1: trace: there is no such actor: nobody\n"), r.err)
    assert.is_truthy(r.err:find("prompt:1: trace: a whole number", 1, true), r.err)
  end)

  it("traces over restarts, failures, unhandled and big messages; ends with the actor", function()
    local out = output([[
a = spawn{ { on = { boom = function() error "no" end, big = function() end } }, name = "a" }
trace(a)
pierrot.sleep(0.05)
tell(a, "boom") tell(a, "nothing") tell(a, "big", ("x"):rep(10000))
pierrot.sleep(0.1)
a:stop()
pierrot.sleep(0.1)
]], { flags = "--log none" })
    assert.is_truthy(out:find('"boom"  actor "a" [^\n]*, failed in '), out)
    assert.is_truthy(out:find('"nothing"  actor "a" [^\n]*, unhandled in '), out)
    assert.is_truthy(out:find('"(2 values, 10013 bytes)"  actor', 1, true), out)
    assert.is_truthy(out:find("has ended\n", 1, true), out)
  end)

  it("log changes the level, stats and info return tables, help lists what there is", function()
    assert.equal('"error"\n"none"\n"number"\n"idle"\n', output [[
log()
log "none"
log()
type(stats().handled)
a = spawn(function() return 1 end) x = ask(a)
repeat pierrot.sleep(0.001) until info(a).state == "idle"
info(a).state
]])
    local out = output "help()\n"
    for _, name in ipairs { "ps", "tree", "info", "tell", "ask", "spawn", "flush", "trace", "stats", "log", "edit", "Ctrl-D" } do
      assert.is_truthy(out:find(name, 1, true), name)
    end
  end)

  it("the prompt's actor cannot be lost: its failure or stop", function()
    assert.equal("1\ntrue\n", output "1\npierrot.stop()\n2\n")   -- it leaves
    local r = lines("1\npierrot.self():kill()\n2\n")
    assert.same({ 0, "1\ntrue\n" }, { r.status, r.out }, r.err)
  end)

  it("lines that use coroutines, yield, and wait in them", function()
    assert.equal("1\n2\n3\n", output [[
co = coroutine.wrap(function() for i = 1, 3 do pierrot.sleep(0.001) coroutine.yield(i) end end)
co()
co()
co()
]])
    local r = lines "coroutine.yield(1)\n2\n"
    assert.equal("2\n", r.out)
    assert.is_truthy(r.err:find("outside a coroutine", 1, true), r.err)
  end)
end)
