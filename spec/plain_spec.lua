-- In a plain program: require does nothing by itself; a runtime is started, used and shut down, again and again.

local script = require "support.script"

local function ok(source, wanted, opts)
  local r = script.plain(source, opts)
  assert.equal(0, r.status, r.err)
  assert.equal("", r.err)
  assert.equal(wanted, r.out)
end

describe("a plain program", function()
  teardown(script.clean)

  it("that only requires starts no thread and prints nothing", function()
    ok([[
      local before = {}
      for name in pairs(_G) do before[name] = true end
      local pierrot = require "pierrot"
      for name in pairs(_G) do assert(before[name], name) end
      local n = 0
      for _ in io.popen("ls /proc/$PPID/task"):lines() do n = n + 1 end
      print(type(pierrot), type(pierrot.version), n)
    ]], "table\tstring\t1\n")
  end)

  it("that calls before start, or after shutdown, is told so at its line", function()
    local source = [[
      local pierrot = require "pierrot"
      local ref
      local function check()
        for name, call in pairs {
          tell = function() local r = pierrot.tell("x", 1) return r end,
          ask = function() local r = pierrot.ask("x", 1) return r end,
          ask_within = function() local r = pierrot.ask_within("x", 1, 1) return r end,
          spawn = function() local r = pierrot.spawn(function() end) return r end,
          spawn_table = function() local r = pierrot.spawn { function() end, name = "x" } return r end,
          spawn_name = function() local r = pierrot.spawn "x" return r end,
          whereis = function() local r = pierrot.whereis "x" return r end,
          register = function() local r = pierrot.register("x", ref) return r end,
          unregister = function() local r = pierrot.unregister("x") return r end,
          stats = function() local r = pierrot.stats() return r end,
          self = function() local r = pierrot.self() return r end,
          children = function() local r = pierrot.children() return r end,
          receive = function() local r = pierrot.receive(0) return r end,
          receive_match = function() local r = pierrot.receive(0, print) return r end,
          send_after = function() local r = pierrot.send_after(1, "x", 1) return r end,
          send_every = function() local r = pierrot.send_every(1, "x", 1) return r end,
          info = function() local r = pierrot.info "x" return r end,
          is_alive = function() local r = pierrot.is_alive "x" return r end,
          stop = function() local r = pierrot.stop "x" return r end,
          drain = function() local r = pierrot.drain "x" return r end,
          kill = function() local r = pierrot.kill "x" return r end,
          forward = function() local r = pierrot.forward "x" return r end,
        } do
          local fine, err = pcall(call)
          if fine or not tostring(err):find "plain.lua:%d+: .*not running" then print(name, fine, err) end
        end
        pcall(pierrot.sender) pcall(pierrot.defer) pcall(pierrot.parent) pcall(pierrot.yield) pcall(pierrot.sleep, 0)
        pcall(pierrot.log.info, "x") pcall(pierrot.log.level)
        assert(pierrot.now() > 0)
        if ref then
          assert(type(tostring(ref)) == "string")
          for _, m in ipairs { "tell", "ask", "stop", "kill", "drain", "info", "is_alive" } do
            assert(not pcall(ref[m], ref))
          end
        end
      end
      check()
      assert(pierrot.shutdown())
      assert(pierrot.start { workers = 2, log = "none" })
      ref = pierrot.spawn(function(_, ...) return ... end)
      assert(ref:ask(1) == 1)
      assert(pierrot.shutdown())
      assert(pierrot.shutdown())
      check()
      print "checked"
    ]]
    ok(source, "checked\n")
  end)

  it("starts twice; what the first runtime gave is dead in the second", function()
    ok([[
      local pierrot = require "pierrot"
      local function echo(_, ...) return ... end
      local refs = {}
      for round = 1, 5 do
        assert(pierrot.start { workers = 2, log = "none" })
        local fresh = {}
        for i = 1, 50 do fresh[i] = pierrot.spawn { echo, name = "n" .. i, worker = i % 2 + 1 } end
        for i = 1, 50 do assert(fresh[i]:ask(i) == i) end
        for _, old in ipairs(refs) do
          assert(not old:is_alive())
          local sent, why = old:tell(1)
          assert(sent == nil and why == "dead")
          assert(select(2, pcall(old.ask, old, 1)).kind == "dead")
          for i = 1, 50 do assert(old ~= fresh[i]) end
        end
        for i = 1, 50 do refs[#refs + 1] = fresh[i] end
        refs[#refs + 1] = pierrot.self()
        assert(pierrot.shutdown(10) == true)
      end
      print "fine"
    ]], "fine\n")
  end)

  it("takes start's options, and is told what is wrong with them at its line", function()
    ok([[
      local pierrot = require "pierrot"
      for i, options in ipairs { 5, "x", true, { workers = 0 }, { workers = -1 }, { workers = 1.5 }, { workers = 0/0 },
          { workers = "2" }, { workers = math.huge }, { throughput = 0 }, { ask_timeout = -1 }, { ask_timeout = 0/0 },
          { log = "loud" }, { log = 5 }, { frobnicate = 1 }, { 1 } } do
        local fine, err = pcall(function() local r = pierrot.start(options) return r end)
        if fine or not tostring(err):find "plain.lua:%d+: start: " then print(i, fine, err) end
      end
      assert(pierrot.start { workers = 1, throughput = 1, ask_timeout = 0.01, log = "none" })
      assert(pierrot.stats().workers == 1)
      local slow = pierrot.spawn(function() pierrot.sleep(0.5) end)
      print(select(2, pcall(slow.ask, slow)).kind)
      print(pcall(function() local r = pierrot.start() return r end))
      for _, bad in ipairs { -1, 0/0, "1", {} } do assert(not pcall(pierrot.shutdown, bad)) end
      assert(pierrot.shutdown())
    ]], "timeout\nfalse\t" .. script.path "plain.lua" .. ":12: start: pierrot is running already\n")
  end)

  it("may end with its runtime running", function()
    ok([[
      local pierrot = require "pierrot"
      assert(pierrot.start { workers = 2, log = "none" })
      local a = pierrot.spawn { { receive = function(_, n) return n end, stop = function() io.write "stopped\n" io.flush() end } }
      print(a:ask(1))
      io.stdout:flush()
    ]], "1\nstopped\n")
    ok([[
      local pierrot = require "pierrot"
      assert(pierrot.start { workers = 2, log = "none" })
      pierrot.spawn { { start = function() pierrot.receive() end } }
      pierrot.send_every(0.001, pierrot.self(), 1)
      io.write "x\n" io.stdout:flush()
      os.exit(0)
    ]], "x\n")
    local r = script.plain([[
      local pierrot = require "pierrot"
      assert(pierrot.start { workers = 2, log = "none" })
      error "the program's own"
    ]])
    assert.equal(1, r.status)
    assert.truthy(r.err:find("the program's own", 1, true))
  end)

  it("whose actor never returns: shutdown gives up in its time, and says so", function()
    ok([[
      local pierrot = require "pierrot"
      assert(pierrot.start { workers = 2, log = "none" })
      local a = pierrot.spawn(function() while true do end end)
      a:tell()
      pierrot.sleep(0.05)
      print(pierrot.shutdown(0.1))
      io.stdout:flush()
      os.exit(0)
    ]], "nil\ttimeout\n")
  end)

  it("uses it in coroutines, and has no parent or children of others", function()
    ok([[
      local pierrot = require "pierrot"
      assert(pierrot.start { workers = 2, log = "none" })
      local echo = pierrot.spawn(function(_, ...) return ... end)
      local gen = coroutine.wrap(function() for i = 1, 3 do coroutine.yield((echo:ask(i))) end end)
      print(gen(), gen(), gen())
      local list = { 3, 1, 2 }
      table.sort(list, function(a, b) return echo:ask(a < b) end)
      print(table.concat(list, " "), ("abc"):gsub(".", function(c) return (echo:ask(c:upper())) end))
      print(pierrot.parent(), pierrot.sender())
      pierrot.shutdown()
    ]], "1\t2\t3\n1 2 3\tABC\t3\nnil\tnil\n")
  end)

  it("works from an installed tree", function()
    local prefix = script.path "prefix"
    local made = script.command(("env -u MAKEFLAGS -u MAKELEVEL make install SANITIZE=%s BUILD=%s PREFIX=%s"):format(
      os.getenv "PIERROT_SANITIZER" or "", script.quote(script.build), script.quote(prefix)), 120)
    assert.equal(0, made.status, made.err)
    local path = script.write("installed.lua", [[
      local pierrot = require "pierrot"
      assert(pierrot.start { workers = 2, log = "none" })
      print(pierrot.spawn(function(_, n) return n + 1 end):ask(1))
      pierrot.shutdown()
    ]])
    local r = script.command(("env LUA_PATH=%s LUA_CPATH=%s %s %s"):format(
      script.quote(prefix .. "/share/lua/5.1/?.lua;;"), script.quote(prefix .. "/lib/lua/5.1/?.so;;"),
      script.quote(script.luajit), script.quote(path)))
    assert.same({ 0, "2\n", "" }, { r.status, r.out, r.err })
    r = script.command(("env -u LUA_PATH -u LUA_CPATH %s version"):format(script.quote(prefix .. "/bin/pierrot")))
    assert.equal(0, r.status)
    assert.equal("", r.err)
  end)
end)
