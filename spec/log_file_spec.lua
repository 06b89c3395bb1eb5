--- The log in a file and as JSON: what a record holds, that nobody waits for a slow reader, and that what is lost is counted.
--- Mutants that these tests have seen: drops that are not said; an end that does not wait for the writer.

local json = require "cjson"
local script = require "support.script"
local times = require "support.times"
local quote = script.quote

local PROGRAM = [=[
local pierrot = require "pierrot"
pierrot.log.info("from the script: %s", "\"quoted\"\n\1")
local bad = pierrot.spawn{ { name = "bad", receive = function() error "on purpose" end }, name = "bad one" }
pcall(bad.ask, bad)
local other = pierrot.spawn{ { name = "other", receive = function() pierrot.log.warn "odd \255 bytes, and \xc3\xa9" return 1 end } }
other:ask()
pierrot.log.debug "not shown"
]=]

describe("the log", function()
  teardown(script.clean)

  it("as JSON: an object a line, with time, level, actor, name, behaviour and message", function()
    local r = script.run(PROGRAM, { flags = "--log-format json" })
    assert.equal(0, r.status)
    local records = {}
    for line in r.err:gmatch "[^\n]+" do records[#records + 1] = json.decode(line) end
    for _, record in ipairs(records) do
      assert.is_truthy(record.time:find "^%d%d%d%d%-%d%d%-%d%dT%d%d:%d%d:%d%d%.%d%d%dZ$", record.time)
      record.time = nil
    end
    assert.same({ level = "info", actor = "1.1", behaviour = r.path, message = "from the script: \"quoted\"\n\1" }, records[1])
    assert.same({ "error", "2.1", "bad one", "bad" },
                { records[2].level, records[2].actor, records[2].name, records[2].behaviour })
    assert.is_truthy(records[2].message:find '^actor "bad one" %(bad, 2.1%) failed in its handler: .*: on purpose\nstack traceback:',
                     records[2].message)
    if records[4].message:find "is restarted$" then   -- the asker has its error before that
      records[3], records[4] = records[4], records[3]
    end
    assert.same({ "info", "2.1", 'actor "bad one" (bad, 2.1) is restarted' },
                { records[3].level, records[3].actor, records[3].message })
    assert.same({ level = "warn", actor = "3.1", behaviour = "other", message = "odd \239\191\189 bytes, and \xc3\xa9" }, records[4])
    assert.equal(4, #records)
  end)

  it("goes to a file, behind what is there, as text too; the file has all of it when the process has ended", function()
    local path = script.write("some.log", "before\n")
    local n = times(5000, 1000)
    local r = script.run(([[
      local pierrot = require "pierrot"
      for i = 1, %d do pierrot.log.info("record %%d", i) end
      assert(pierrot.stats().log_dropped == 0)
    ]]):format(n), { flags = "--log-file " .. quote(path) })
    assert.same({ 0, "" }, { r.status, r.err })
    local text = script.read(path)
    assert.equal("before\n", text:sub(1, 7))
    local i = 0
    for number in text:gmatch "Z info  actor 1.1 %(%S+%): record (%d+)\n" do
      i = i + 1
      assert.equal(i, tonumber(number))
    end
    assert.equal(n, i)
    r = script.run("", { flags = "--log-file /nonexistent/dir/log" })
    assert.equal(1, r.status)
    assert.is_truthy(r.err:find("cannot start: log: cannot write to /nonexistent/dir/log: No such file", 1, true), r.err)
    r = script.run("", { flags = "--log-format xml" })
    assert.equal(2, r.status)
  end)

  for _, sink in ipairs { "--log-file %s", "2>%s", "--log-format json 2>%s" } do
    it("waits for no reader, with " .. sink .. ": what there is no room for is dropped, counted, and said", function()
      -- The reader begins when the actor has logged all it has to, which is more than a buffer and a pipe hold.
      local fifo, done = script.path "fifo", script.path "done"
      script.sh(("rm -f %s %s %s; mkfifo %s"):format(quote(fifo), quote(done), quote(done .. "2"), quote(fifo)))
      local path = script.write("flood.lua", ([[
        local pierrot = require "pierrot"
        local text = ("x"):rep(1000)
        for i = 1, 4000 do pierrot.log.info("%%d %%s", i, text) end
        local dropped = pierrot.stats().log_dropped
        assert(dropped > 1000, dropped)
        io.open(%q, "w"):close()
        repeat
          pierrot.sleep(0.01)
          pierrot.log.info "after"
        until pierrot.stats().log_dropped > dropped + 1e6 or io.open(%q)
        print(dropped)
      ]]):format(done, done .. "2"))
      local out = script.sh(("{ while [ ! -e %s ]; do sleep 0.01; done; "
        .. "awk '/were dropped/ { print } /after/ && !seen { seen = 1; system(\"touch %s\") }'; } <%s & "
        .. "timeout 60 %s run %s %s; wait"):format(quote(done), done .. "2", quote(fifo), quote(script.bin),
        sink:format(quote(fifo)), quote(path)))
      local said = 0   -- more than once where the pipe took some of it
      for n in out:gmatch "(%d+) records were dropped: the log is written more slowly than it grows" do
        said = said + tonumber(n)
      end
      local counted = out:match "\n(%d+)\n" or out:match "^(%d+)\n"
      assert.is_truthy(counted, out)
      assert.is_true(said >= tonumber(counted), out)
    end)
  end

  it("on standard error stands where it belongs among what else is written there; the last words find room", function()
    local path = script.write("order.lua", [[
      local pierrot = require "pierrot"
      for i = 1, 50 do
        pierrot.log.info("record %d", i)
        print("line " .. i)
        io.flush()
      end
      local text = ("x"):rep(1000)
      for _ = 1, 300 do pierrot.log.info(text) end
      error "the end"
    ]])
    local r = script.command(("sh -c %s"):format(quote(("timeout 60 %s run %s 2>&1"):format(quote(script.bin), quote(path)))))
    assert.equal(1, r.status)
    local i = 0
    for record, line in r.out:gmatch "record (%d+)\nline (%d+)\n" do
      i = i + 1
      assert.same({ i, i }, { tonumber(record), tonumber(line) })
    end
    assert.equal(50, i)
    assert.equal(300, select(2, r.out:gsub("Z info  actor 1.1 %(%S+%): x+\n", "")))
    assert.is_truthy(r.out:find ": the end\n\tstack traceback:\n\t\t[^\n]*\n\t\t[^\n]*\n", r.out:sub(-400))
  end)

  it("ends though its reader has stopped reading", function()
    local ended = script.path "ended"
    local path = script.write("stuck.lua", [[
      local pierrot = require "pierrot"
      for i = 1, 4000 do pierrot.log.info(("x"):rep(1000)) end
    ]])
    script.sh(("{ timeout 60 %s run %s 2>&1 >/dev/null; echo $? >%s; } | "
      .. "{ read -r line; while [ ! -s %s ]; do sleep 0.01; done; }")
      :format(quote(script.bin), quote(path), quote(ended), quote(ended)))
    assert.equal("0\n", script.read(ended))
  end)

  it("in a plain program", function()
    local path = script.path "plain.log"
    local r = script.plain(([[
      local pierrot = require "pierrot"
      for round = 1, 2 do
        assert(pierrot.start{ workers = 1, log_file = %q, log_format = "json" })
        pierrot.log.info("round %%d", round)
        assert(pierrot.shutdown())
      end
      for _, wrong in ipairs { { log_format = 1 }, { log_file = 1 }, { log_file = "" } } do
        print(select(2, pcall(function() pierrot.start(wrong) end)))
      end
    ]]):format(path))
    assert.equal(0, r.status, r.err)
    assert.is_truthy(r.out:find('start: log_format: "text" or "json" expected, got 1\n', 1, true), r.out)
    assert.is_truthy(r.out:find("start: log_file: the path of a file (string) expected, got number\n", 1, true), r.out)
    local rounds = {}
    for line in io.lines(path) do rounds[#rounds + 1] = json.decode(line).message end
    assert.same({ "round 1", "round 2" }, rounds)
  end)
end)
