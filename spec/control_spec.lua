--- The control socket: what it answers, who may connect, prompts in another process, and clients that mean harm.

local json = require "cjson"
local script = require "support.script"
local Client = require "support.unix"
local Pty = require "support.pty"
local times = require "support.times"
local quote = script.quote

local server, socket_path

local PROGRAM = [[
local pierrot = require "pierrot"
local counter = { name = "counter", on = { inc = function(self, by) self.n = (self.n or 0) + by return self.n end } }
pierrot.spawn{ counter, name = "hits" }
local keep = pierrot.spawn{ { name = "keep", start = function() pierrot.send_every(60, pierrot.self(), 1) end,
  receive = function() end }, name = "keep" }
io.stderr:write "ready\n"
]]

-- A process with a control socket, from here to the end of the test.
local function serve(source, flags)
  socket_path = script.path "socket"
  local path, err = script.write("server.lua", source or PROGRAM), script.path "server.err"
  os.remove(err)
  local pid = script.sh(("%s run --log error --control %s %s %s >%s 2>%s </dev/null & echo $!"):format(quote(script.bin),
    quote(socket_path), flags or "", quote(path), quote(script.path "server.out"), quote(err))):match "%d+"
  server = pid
  for _ = 1, 2000 do
    if (script.read(err) or ""):find "ready" then return end
    script.sh "sleep 0.01"
  end
  error("the server does not come up: " .. (script.read(err) or ""))
end

local function alive() return select(2, script.sh("kill -0 " .. server .. " 2>/dev/null")) == 0 end

local function stop_server()
  script.sh("kill " .. server .. " 2>/dev/null; for i in $(seq 1500); do kill -0 " .. server
    .. " 2>/dev/null || break; sleep 0.01; done; kill -9 " .. server .. " 2>/dev/null; true")
end

local function ctl(request, flags)
  return script.command(("%s ctl %s %s %s"):format(quote(script.bin), flags or "", quote(socket_path), request))
end

local function client() return assert(Client.connect(socket_path)) end

-- One request, its answer.
local function ask(c, request)
  c:send(type(request) == "string" and request .. "\n" or json.encode(request) .. "\n")
  local line = c:line()
  return line and json.decode(line)
end

local function assert_serves()
  local c = client()
  local answer = ask(c, { cmd = "stats", id = 7 })
  assert.same({ true, 7 }, { answer.ok, answer.id })
  c:close()
  assert.is_true(alive())
end

describe("the control socket", function()
  after_each(function()
    if server then stop_server() end
    server = nil
  end)
  teardown(script.clean)

  it("answers ps, tree, stats, info, stop, log and eval, for people and as JSON", function()
    serve()
    assert.equal("600", script.sh("stat -c %a " .. quote(socket_path)):match "%d+")
    local r = ctl "ps count"
    assert.same({ 0, "" }, { r.status, r.err })
    assert.is_truthy(r.out:find "^ID +NAME +BEHAVIOUR.-\n%S+ +hits +counter ")
    assert.is_truthy(ctl("tree").out:find('"hits" counter', 1, true))
    assert.is_truthy(ctl("stats").out:find "actors: %d+\n")
    assert.is_truthy(ctl("info hits").out:find "\nname: hits\n")
    assert.equal("5\n", ctl("eval 'ask(\"hits\", \"inc\", 5)'").out)
    r = ctl "eval 'error(1, 0)'"
    assert.same({ 1, "" }, { r.status, r.err })
    assert.equal("before: error\n", ctl("log warn").out)
    local answer = json.decode(ctl("ps", "--json").out)
    assert.is_true(answer.ok)
    assert.equal(4, answer.result.total)
    assert.same({ ok = true, output = "6\n" }, json.decode(ctl("eval 'ask(\"hits\", \"inc\", 1)'", "--json").out))
    assert.equal(0, ctl("stop hits").status)
    r = ctl "stop hits"
    assert.same({ 1, "pierrot: there is no actor 'hits'\n" }, { r.status, r.err })
    for _, wrong in ipairs { "nonsense", "stop", "ps a b", "stats x" } do
      assert.equal(2, ctl(wrong).status, wrong)
    end
    stop_server()
    assert.is_nil(script.read(socket_path))   -- the file goes with the process
    r = ctl "ps"
    assert.equal(1, r.status)
    assert.is_truthy(r.err:find "cannot connect")
  end)

  it("answers code that ends its own session, and is not ended through itself", function()
    serve()
    for _, code in ipairs { "pierrot.self():kill()", "pierrot.stop(\"enough\")", "io.output = nil", "io.flush = error" } do
      local c = client()
      local answer = ask(c, { cmd = "eval", code = code, id = 5 })
      while answer.out do answer = json.decode(c:line()) end
      assert.same({ id = 5 }, { id = answer.id }, code)
      c:close()
    end
    local c = client()
    local rows = ask(c, { cmd = "ps", filter = "control", n = 1 }).result.actors
    for _ = 1, 5 do   -- more often than it would be restarted
      assert.same({ ok = false, error = "'" .. rows[1].id .. "' answers here: it ends with the process", id = json.null },
                  ask(c, { cmd = "stop", name = rows[1].id, id = json.null }))
    end
    c:close()
    assert_serves()
  end)

  it("shows a picture after one that was refused", function()
    serve()
    local c = client()
    assert.equal("there is no actor '99.9'", ask(c, { cmd = "top", detail = "99.9" }).error)
    script.sh "sleep 0.3"   -- longer than the window of a picture
    local answer = ask(c, { cmd = "top" })
    assert.is_true(answer.ok, answer.error)
    assert.equal(0, answer.result.rate)
    c:close()
  end)

  it("begins anew after a failure of its own: who was there is sent away, and the next is answered", function()
    serve()
    local c, other = client(), client()
    assert.is_true(ask(other, { cmd = "stats" }).ok)
    local id = ask(c, { cmd = "ps", filter = "control", n = 1 }).result.actors[1].id
    c:send(json.encode { cmd = "eval", code = ("for _, r in ipairs { pierrot.whereis 'hits' } do"
      .. " local core = require 'pierrot.core' local slot, generation = ('%s'):match '(%%d+)%%.(%%d+)'"
      .. " core.ref_of(tonumber(slot), tonumber(generation)):stop() end"):format(id) } .. "\n")
    while c:line() do end
    assert.is_nil(other:line())
    assert_serves()
  end)

  it("only looks where it is read-only", function()
    serve(nil, "--control-readonly")
    assert.equal(0, ctl("ps").status)
    for _, request in ipairs { "stop hits", "log none", "eval 1" } do
      local r = ctl(request)
      assert.same({ 1, true }, { r.status, r.err:find("read-only", 1, true) ~= nil or request == "eval 1" }, request)
    end
    assert.is_truthy(ctl("eval 1", "--json").out:find("read-only", 1, true))
    local r = script.command(("sh -c %s"):format(quote(("echo 1 | %s repl --attach %s"):format(quote(script.bin), quote(socket_path)))))
    assert.equal(1, r.status)
    assert.is_truthy(r.err:find("read-only", 1, true))
  end)

  it("says why it cannot be opened; takes over a socket that nobody listens at, and no other", function()
    local path = script.write("server.lua", PROGRAM)
    local r = script.command(("%s run --control /nonexistent/dir/s %s"):format(quote(script.bin), quote(path)))
    assert.equal(1, r.status)
    assert.is_truthy(r.err:find "control: cannot listen at /nonexistent/dir/s: No such file")
    r = script.command(("%s run --control %s %s"):format(quote(script.bin), ("x"):rep(200), quote(path)))
    assert.is_truthy(r.err:find "control: a path of 1 to 107 bytes expected, got 200")
    serve()
    r = script.command(("%s run --control %s %s"):format(quote(script.bin), quote(socket_path), quote(path)))
    assert.equal(1, r.status)
    assert.is_truthy(r.err:find "in use")
    assert_serves()
    script.sh("kill -9 " .. server .. "; sleep 0.1")
    serve()   -- the file of the killed one is there
    assert_serves()
  end)

  it("a prompt in the other process: its values, errors, output, globals, helpers", function()
    serve()
    local lines = script.write("lines", "1 + 1\nx = 5\nx\nprint('out')\nask('hits', 'inc', 3)\nfor i = 1, 2 do\nprint(i)\nend\n"
      .. "tell(pierrot.self(), 'a')\nflush()\n")
    local r = script.command(("sh -c %s"):format(quote(("%s repl --attach %s <%s"):format(quote(script.bin), quote(socket_path), lines))))
    assert.is_truthy(r.out:find '^2\n5\nout\n3\n1\n2\ntrue\n"a"  from actor [^\n]*\n$', r.out)
    assert.same({ 0, "" }, { r.status, r.err })
    assert.equal("", script.read(script.path "server.out"))
    local deaf = ("echo 1 | %s repl --attach %s >/dev/full"):format(quote(script.bin), quote(socket_path))
    r = script.command("sh -c " .. quote(deaf))
    assert.equal(1, r.status)
    assert.is_truthy(r.err:find("cannot write to standard output: No space left on device", 1, true), r.err)
    assert_serves()
  end)

  it("at a terminal: editing, completion, output of a loop, and the interrupt key, while ctl goes on answering", function()
    serve()
    local editor = script.write("editor.sh", "#!/bin/sh\nsed -i s/20/41/ \"$1\"\n")
    script.sh("chmod +x " .. quote(editor))
    local p = Pty.open(("%s repl --attach %s"):format(quote(script.bin), quote(socket_path)),
                       { env = { TERM = "xterm", PIERROT_HISTORY = "", NO_COLOR = "1", VISUAL = false, EDITOR = editor } })
    p:wait_last(">")
    assert.is_truthy(p:text():find("attached to process " .. server, 1, true), p:seen())
    p:send("ask('hi\t") p:wait_last("> ask('hits'")
    p:send(", 'inc', 2)\r") p:wait("\n2\n") p:wait_last(">")
    for _, line in ipairs { "while true do end", "pierrot.sleep(1e6)", "for i = 1, math.huge do print(i) end" } do
      p.raw = ""
      p:send("print 'begun' " .. line .. "\r")
      p:wait(function() return p.raw:find("\nbegun", 1, true) end, "the line to run")
      assert.equal(0, ctl("ps").status)
      p:send("\3")
      p:wait(function() return p.raw:find("interrupted", 1, true) end, "the interruption of " .. line)
      p:wait_last(">")
    end
    p:send("20 + 1\r") p:wait("\n21\n") p:wait_last(">")
    p:send("edit()\r") p:wait("\n41 + 1\n42\n") p:wait_last(">")
    p:send("\4")
    assert.equal(0, p:finish())
    assert_serves()
  end)

  it("a client that dies takes its session along, in the middle of a line too", function()
    serve()
    for _, line in ipairs { "while true do end", "pierrot.sleep(1e6)", "x = 1" } do
      local c = client()
      c:send(json.encode { cmd = "attach" } .. "\n")
      assert.is_truthy(c:line():find "prompt")
      c:send(json.encode { line = line } .. "\n")
      c:close()
    end
    local c = client()
    repeat until #ask(c, { cmd = "ps", filter = "prompt" }).result.actors == 0
    c:close()
    assert_serves()
  end)

  it("rubbish, and requests of every wrong shape, get an answer or the end, and harm nothing", function()
    serve()
    math.randomseed(1)
    local c = client()
    for _, line in ipairs { "", "nonsense", "[]", "1", "null", '{"cmd":', "{}", '{"cmd":1}', '{"cmd":[]}', '{"cmd":"nonsense"}',
                            '{"cmd":"stop"}', '{"cmd":"stop","name":{}}', '{"cmd":"stop","name":"99999999.1"}', '{"cmd":"ps","n":1e99}',
                            '{"cmd":"ps","n":-1}', '{"cmd":"ps","sort":5}', '{"cmd":"ps","filter":1}', '{"cmd":"log"}',
                            '{"cmd":"log","level":"x"}',
                            '{"cmd":"eval"}', '{"cmd":"info","name":""}', ("["):rep(100000), '{"id":{},"cmd":"x"}', "\255\254\0" } do
      local answer = ask(c, line)
      assert.is_false(answer and answer.ok, line:sub(1, 40))
    end
    c:close()
    -- 250 at a time: as many as lie in the socket's buffer, where nobody reads answers meanwhile.
    for _ = 1, times(40, 8) do
      c = client()
      for i = 1, 250 do
        local bytes = {}
        for k = 1, math.random(0, 60) do bytes[k] = string.char(math.random(0, 255)) end
        local line = table.concat(bytes):gsub("[\n\3]", "")
        c:send((i % 3 == 0 and '{"cmd":"' .. line .. '"}' or line) .. "\n")
      end
      for _ = 1, 250 do assert.is_false(json.decode(c:line()).ok) end
      c:close()
    end
    assert_serves()
  end)

  it("a line without end is refused; a flood waits; who reads nothing is dropped, and holds up nobody until then", function()
    serve()
    local deaf, other = client(), client()
    deaf:send(json.encode { cmd = "eval", code = "for i = 1, 1e7 do print(('x'):rep(1000)) end" } .. "\n")
    local function sessions() return #ask(other, { cmd = "ps", filter = "prompt" }).result.actors end
    repeat until sessions() == 1
    local c = client()
    local chunk, sent = ("x"):rep(2 ^ 20), 0
    for _ = 1, 1024 do   -- 1 GB, as far as it is taken
      local n = c:send(chunk)
      sent = sent + n
      if n < #chunk then break end
    end
    assert.is_true(sent < 64 * 2 ^ 20)
    c:close()
    local flood, count = client(), times(1000, 500)
    flood:send((json.encode { cmd = "ps" } .. "\n"):rep(count))
    for _ = 1, count do assert.is_truthy(flood:line()) end
    flood:close()
    repeat script.sh "sleep 0.02" until sessions() == 0
    other:close()
    deaf:close()
    assert_serves()
    local rss = tonumber(script.read("/proc/" .. server .. "/status"):match "VmRSS:%s*(%d+)")
    assert.is_true(rss < (script.sanitized and 1e6 or 100e3), rss)
  end)

  it("a hundred clients at once, and more than there is room for", function()
    serve()
    local clients = {}
    for i = 1, 100 do clients[i] = client() end
    for i, c in ipairs(clients) do
      c:send(json.encode { cmd = "eval", code = ("ask('hits', 'inc', 1) * 0 + %d"):format(i), id = i } .. "\n")
    end
    for i, c in ipairs(clients) do
      assert.equal(i .. "\n", json.decode(c:line()).out)
      assert.same({ id = i, ok = true }, json.decode(c:line()))
    end
    for i = 101, 300 do clients[i] = client() end
    assert.is_truthy(clients[300]:line():find "too many clients")
    for _, c in ipairs(clients) do c:close() end
    local c
    repeat
      if c then c:close() end
      c = client()
      local answer = ask(c, { cmd = "stats" })
    until answer and answer.ok
    c:close()
    assert_serves()
  end)

  it("opens from a plain program too, and ends with its runtime", function()
    local r = script.plain(([[
      local pierrot = require "pierrot"
      for round = 1, 3 do
        assert(pierrot.start{ workers = 2, log = "error", control = %q })
        assert(io.open "/proc/self/fd/0")
        assert(os.execute "test -S %s" == 0)
        assert(pierrot.shutdown())
        assert(os.execute "test -e %s" ~= 0)
      end
      print(pcall(pierrot.start, { control = 1 }))
      print(pierrot.start{ control = "/nonexistent/x" })
      assert(pierrot.start{ workers = 1 })
      print "done"
    ]]):format(script.path "plain.socket", script.path "plain.socket", script.path "plain.socket"))
    assert.is_truthy(r.out:find "control: the path of a socket %(string%) expected, got number\nnil\tcontrol: cannot listen.-\ndone\n$",
      r.out .. r.err)
    assert.equal(0, r.status)
  end)
end)
