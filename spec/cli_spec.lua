-- The `pierrot` command: what it prints, on which stream, its exit status, and when the process ends.
-- sanitizers: address

local script = require "support.script"
local quote = script.quote

local prelude = "local pierrot = require 'pierrot'\n"

local function run(source, opts) return script.run(prelude .. source, opts) end

local function lines(text) return select(2, text:gsub("\n", "")) end

-- A script in the background; `body` is shell that may use $pid, $out (its stdout), and what `wait_line` makes.
local function background(source, body, flags)
  local path = script.write("background.lua", prelude .. source)
  local out, err = script.path "bg.out", script.path "bg.err"
  local shell = ([[
    %s run %s %s >%s 2>%s </dev/null & pid=$!
    out=%s
    for i in $(seq 1000); do grep -q ready "$out" 2>/dev/null && break; sleep 0.01; done
    %s
    for i in $(seq 3000); do kill -0 $pid 2>/dev/null || break; sleep 0.01; done
    kill -KILL $pid 2>/dev/null
    wait $pid; status=$?
    echo "exit $status"
  ]]):format(quote(script.bin), flags or "--log error", quote(path), quote(out), quote(err), quote(out), body)
  local said = script.sh("bash -c " .. quote(shell) .. " 2>/dev/null")
  local before, status = said:match "^(.*)exit (%d+)\n$"
  return { out = script.read(out), err = script.read(err), status = tonumber(status), said = before }
end

describe("pierrot", function()
  teardown(script.clean)

  describe("on bad input says one clear thing:", function()
    it("no such file", function()
      local r = script.command(quote(script.bin) .. " run /nonexistent/script.lua")
      assert.equal(1, r.status)
      assert.equal(1, lines(r.err), r.err)
      assert.truthy(r.err:find("/nonexistent/script.lua", 1, true))
      assert.equal("", r.out)
    end)

    it("a directory, an empty file, binary junk", function()
      local r = script.command(quote(script.bin) .. " run /tmp")
      assert.equal(1, r.status)
      assert.equal(1, lines(r.err), r.err)
      r = script.run("")
      assert.same({ 0, "", "" }, { r.status, r.out, r.err })
      r = script.run("\127ELF\0\1\2\3")
      assert.equal(1, r.status)
      assert.equal(1, lines(r.err), r.err)
    end)

    it("a syntax error, with its line", function()
      local r = script.run("local x = 1\nlocal y = = 2\n")
      assert.equal(1, r.status)
      assert.equal(1, lines(r.err), r.err)
      assert.truthy(r.err:find("script.lua:2:", 1, true), r.err)
    end)

    it("an error in the main chunk: a traceback with the script's line, once", function()
      local r = run("local function inner() error 'went wrong' end\nlocal function outer() inner() return 1 end\nouter()\n")
      assert.equal(1, r.status)
      assert.truthy(r.err:find("script.lua:2: went wrong", 1, true), r.err)
      assert.truthy(r.err:find("stack traceback:", 1, true), r.err)
      assert.truthy(r.err:find("script.lua:4: in ", 1, true), r.err)
      assert.equal(1, select(2, r.err:gsub("script.lua:2: went wrong", "")), r.err)
      assert.equal("", r.out)
    end)

    it("error values that are tables or nil", function()
      local r = run "error({ code = 42, text = 'why' })"
      assert.equal(1, r.status)
      assert.truthy(r.err:find("code = 42", 1, true), r.err)
      r = run "error(setmetatable({}, { __tostring = function() return 'an object' end }))"
      assert.equal(1, r.status)
      assert.truthy(r.err:find("an object", 1, true), r.err)
      for _, value in ipairs { "nil", "", "false", "12", "print", "setmetatable({}, { __tostring = error })" } do
        r = run("error(" .. value .. ")")
        assert.equal(1, r.status, value)
        assert.truthy(#r.err > 0, value)
      end
    end)

    it("a failed script with --log none still prints its traceback", function()
      local r = run("error 'went wrong'", { flags = "--log none" })
      assert.equal(1, r.status)
      assert.truthy(r.err:find("script.lua:2: went wrong", 1, true), r.err)
    end)

    it("wrong usage: status 2 and one line", function()
      for _, arguments in ipairs { "", "frobnicate", "run", "run --frobnicate x.lua", "--frobnicate", "run --workers x.lua",
                                   "run --workers 0 x.lua", "run --workers -1 x.lua", "run --workers two x.lua",
                                   "run --workers 1.5 x.lua", "run --log loud x.lua", "run --throughput 0 x.lua",
                                   "run --workers", "version extra", "run --workers nan x.lua", "run --workers 1e99 x.lua" } do
        local r = script.command(quote(script.bin) .. " " .. arguments)
        assert.equal(2, r.status, arguments .. ": status " .. r.status .. ": " .. r.err)
        assert.equal(1, lines(r.err), arguments .. ": " .. r.err)
        assert.equal("", r.out, arguments)
      end
    end)
  end)

  it("version and --help", function()
    local r = script.command(quote(script.bin) .. " version")
    assert.equal(0, r.status)
    assert.truthy(r.out:find("^pierrot %d+%.%d+%S* "), r.out)
    r = script.command(quote(script.bin) .. " --help")
    assert.equal(0, r.status)
    assert.truthy(r.out:find("run", 1, true))
  end)

  describe("goes on after", function()
    it("an error in a child's start and handler: logged, with the child's line", function()
      local r = run([[
        local bad = pierrot.spawn { { name = "bad", start = function() error "in start" end }, restart = "temporary" }
        while bad:is_alive() do pierrot.sleep(0.005) end
        print "goes on"
      ]])
      assert.equal(0, r.status)
      assert.equal("goes on\n", r.out)
      assert.truthy(r.err:find("bad", 1, true) and r.err:find("script.lua:2: in start", 1, true), r.err)
    end)

    it("an error in a timer's target", function()
      local r = run([[
        local bad = pierrot.spawn { function() error "in target" end, restart = "temporary" }
        pierrot.send_after(0.01, bad, "x")
        while bad:is_alive() do pierrot.sleep(0.005) end
        print "goes on"
      ]])
      assert.same({ 0, "goes on\n" }, { r.status, r.out })
      assert.truthy(r.err:find("script.lua:2: in target", 1, true), r.err)
    end)
  end)

  describe("gives the script", function()
    it("its arguments, in arg and as ...", function()
      local r = run("print(arg[0], #arg, arg[1], arg[2], arg[3], ...)", { args = "one '' 'two words'" })
      assert.equal(r.path .. "\t3\tone\t\ttwo words\tone\t\ttwo words\n", r.out)
    end)

    it("options that come after FILE, and a --", function()
      local r = run("print(table.concat(arg, ' '))", { args = "--workers 3 -x --log=debug -- --help -h" })
      assert.equal("--workers 3 -x --log=debug -- --help -h\n", r.out)
      assert.equal(0, r.status)
    end)

    it("as many workers as it asks for", function()
      local r = run("print(pierrot.stats().workers, pierrot.stats().throughput)", { flags = "--workers 3 --throughput=7" })
      assert.equal("3\t7\n", r.out)
    end)

    it("with the options of a file, of which those given count first", function()
      local config = script.write("config.lua", "return { workers = 3, throughput = 9, dispatchers = { io = 1 } }")
      local r = run("local s = pierrot.stats() print(s.workers, s.throughput, s.dispatchers.io.workers)",
        { flags = "--workers 2 --config " .. script.quote(config) })
      assert.equal("2\t9\t1\n", r.out)
      for text, problem in pairs { ["return 1"] = "a table with the options of pierrot.start expected, got number",
          ["return {"] = "config.lua:1: ", ["error 'no'"] = "config.lua:1: no", ["return { worker = 2 }"] = "cannot start: .*worker" } do
        r = run("", { flags = "--config " .. script.quote(script.write("config.lua", text)) })
        assert.equal(1, r.status)
        assert.truthy(r.err:find(problem), r.err)
        assert.equal(1, select(2, r.err:gsub("\n", "")), r.err)
      end
    end)

    it("modules that lie beside it, in actors too", function()
      script.write("beside.lua", "return { hello = function() return 'hello from beside' end }")
      local r = run "local beside = require 'beside' print(pierrot.spawn(function() return beside.hello() end):ask())"
      assert.same({ 0, "hello from beside\n" }, { r.status, r.out })
    end)

    it("a file name with odd characters", function()
      local r = run("print(arg[0]:match '[^/]*$')", { name = "odd name's %s (1).lua" })
      assert.same({ 0, "odd name's %s (1).lua\n" }, { r.status, r.out })
    end)
  end)

  it("lets a script that returns a behaviour go on as that", function()
    local r = run [[
      local me = pierrot.self()
      me:tell("add", 2) me:tell("add", 3) me:tell("other") me:tell "end"
      return { on = { add = function(self, n) self.n = (self.n or 0) + n end,
                      ["end"] = function(self) print("sum", self.n) pierrot.stop() end },
               receive = function(self, what) print("other", what) end,
               stop = function(self, reason) print("stop", reason) end }
    ]]
    assert.same({ 0, "other\tother\nsum\t5\nstop\tnormal\n", "" }, { r.status, r.out, r.err })
    r = run "pierrot.self():tell 'x' return function(self, what) print(what) pierrot.stop() end"
    assert.same({ 0, "x\n", "" }, { r.status, r.out, r.err })
    r = run "return { frobnicate = 1 }"
    assert.equal(1, r.status)
    assert.truthy(r.err:find("frobnicate", 1, true), r.err)
    for _, value in ipairs { "1", "'x'", "nil", "true" } do
      r = run("return " .. value)
      assert.same({ 0, "", "" }, { r.status, r.out, r.err })
    end
  end)

  it("a failure of the script later on ends the process with status 1", function()
    local r = run [[
      pierrot.spawn { { receive = function() return 1 end, stop = function() print 'stopped' end } }:ask()
      pierrot.self():tell 'x'
      return function() error 'later' end
    ]]
    assert.equal(1, r.status)
    assert.equal("stopped\n", r.out)
    assert.truthy(r.err:find("script.lua:4: later", 1, true), r.err)
  end)

  describe("ends", function()
    it("when nothing is left that could happen", function()
      assert.equal(0, run("").status)
      assert.equal(0, run("for i = 1, 100 do pierrot.spawn(function() end) end").status)
      local r = run "for i = 1, 100 do pierrot.spawn(function(self, n) io.write(n, '\\n') end):tell(i) end"
      assert.equal(100, lines(r.out))
      assert.equal(0, run("pierrot.receive()").status)
      assert.equal(0, run("pierrot.spawn { { start = function() pierrot.receive() end } }").status)
      assert.equal(0, run("pierrot.spawn(function() pierrot.defer() end):tell() pierrot.receive()").status)
    end)

    it("running stop callbacks then", function()
      local r = run "pierrot.spawn { { start = function() end, stop = function(_, reason) print('stop', reason) end } }"
      assert.same({ 0, "stop\tshutdown\n" }, { r.status, r.out })
    end)

    it("not before timers, sleeps and asks are done", function()
      local r = run [[
        local p = pierrot.spawn(function(_, what) print(what) end)
        pierrot.send_after(0.1, p, "timer")
        pierrot.spawn { { start = function() pierrot.sleep(0.2) print "slept" end } }
        local k = pierrot.spawn(function() local d = pierrot.defer() pierrot.sleep(0.3) d:reply "reply" end)
        pierrot.spawn { { start = function() print(k:ask()) end } }
      ]]
      assert.same({ 0, "timer\nslept\nreply\n" }, { r.status, r.out })
      r = run [[
        local n = 0
        local timer = pierrot.send_every(0.01, pierrot.self())
        for i = 1, 5 do pierrot.receive() n = n + 1 end
        timer:cancel()
        print(n)
      ]]
      assert.same({ 0, "5\n" }, { r.status, r.out })
    end)

    it("at pierrot.shutdown(), whatever is queued", function()
      local r = run [[
        local a = pierrot.spawn { { receive = function() pierrot.self():tell() end, stop = function() print "stopped" end } }
        a:tell()
        while a:info().processed == 0 do pierrot.yield() end
        pierrot.send_every(0.001, a)
        pierrot.shutdown()
      ]]
      assert.same({ 0, "stopped\n" }, { r.status, r.out })
    end)
  end)

  describe("on signals", function()
    local patient = [[
      pierrot.spawn { { start = function() pierrot.send_every(1000, pierrot.self()) end,
                        stop = function(_, reason) print("stopped", reason) end, receive = function() end } }
      io.write("ready\n") io.flush()
    ]]
    for _, name in ipairs { "INT", "TERM" } do
      it("SIG" .. name .. " shuts down in order", function()
        local r = background(patient, "kill -" .. name .. " $pid")
        assert.same({ 0, "ready\nstopped\tshutdown\n" }, { r.status, r.out })
      end)
    end

    it("ends at once at a second one", function()
      local r = background([[
        pierrot.spawn { { start = function() pierrot.send_every(1000, pierrot.self()) end, receive = function() end,
                          stop = function() io.write("stopping\n") io.flush() pierrot.sleep(1000) end } }
        io.write("ready\n") io.flush()
      ]], [[kill -TERM $pid
        for i in $(seq 1000); do grep -q stopping "$out" && break; sleep 0.01; done
        kill -TERM $pid]])
      assert.equal(128 + 15, r.status)
    end)

    -- Both at once: each waits for its five seconds.
    it("and at pierrot.shutdown() a handler that never returns is reported by name at the deadline, and the status is 1", function()
      local other = script.write("other.lua", prelude .. [[
        pierrot.sleep(0.001)   -- from now on this actor stays on its worker: not that of the other
        local a = pierrot.spawn { { name = "headstrong", receive = function() while true do end end },
                                  worker = pierrot.info(pierrot.self()).worker % 2 + 1 }
        a:tell()
        while a:info().processed == 0 do pierrot.sleep(0.001) end   -- counted when it is taken in hand
        pierrot.shutdown()
      ]])
      local r = background([[
        pierrot.spawn { { name = "stubborn", receive = function() io.write("ready\n") io.flush() while true do end end } }:tell()
      ]], ("kill -TERM $pid; %s run --workers 2 --log error %s 2>&1; echo status $?"):format(quote(script.bin), quote(other)))
      assert.equal(1, r.status)
      assert.truthy(r.err:find("stubborn", 1, true), r.err)
      assert.truthy(r.said:find("headstrong", 1, true), r.said)
      assert.truthy(r.said:find("status 1\n", 1, true), r.said)
    end)
  end)

  it("under PUC Lua the module gives one clear message", function()
    if script.sh "command -v lua5.1" == "" then return pending "no lua5.1 here" end
    if script.sanitized then return pending "a sanitizer's module does not load into it" end
    local r = script.command(("env LUA_CPATH=%s lua5.1 -e 'local ok, err = pcall(require, [[pierrot]]) print(ok, err)'"):format(
      quote(script.build .. "/?.so")))
    assert.equal(0, r.status, r.err)
    assert.truthy(r.out:find("^false"), r.out)
    assert.truthy(r.out:find("LuaJIT", 1, true), r.out)
  end)

  it("uses no CPU while idle", function()
    if script.sanitized then return end
    local r = background([[
      for i = 1, 100 do pierrot.spawn { { start = function() pierrot.receive() end } } end
      pierrot.send_after(100, pierrot.self())
      pierrot.sleep(0.3)
      io.write("ready\n") io.flush()
      pierrot.receive()
    ]], [[
      sample() { for t in /proc/$pid/task/*; do sed 's/.*) //' $t/stat | awk '{ print $12 + $13 }'
                 grep voluntary_ctxt_switches $t/status | head -1; done; }
      for i in 1 2 3 4 5 6 7 8; do   # it comes to rest
        first=$(sample); sleep 1; second=$(sample)
        [ "$first" = "$second" ] && break
      done
      [ "$first" = "$second" ] && echo same || echo "$first -- $second"
      kill -TERM $pid]])
    assert.equal("same\n", r.said)
    assert.equal(0, r.status)
  end)

  it("has as many threads for ten thousand actors as for one", function()
    local function threads(n)
      return background(([[
        for i = 1, %d do pierrot.spawn { { start = function() pierrot.receive() end } } end
        pierrot.send_after(100, pierrot.self())
        io.write("ready\n") io.flush()
        pierrot.receive()
      ]]):format(n), "ls /proc/$pid/task | wc -l; kill -TERM $pid", "--workers 2 --log none").said
    end
    assert.equal(threads(1), threads(script.sanitized and 1000 or 10000))
  end)
end)
