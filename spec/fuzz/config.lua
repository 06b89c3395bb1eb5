-- What config.c does with an input, in Lua: the options of start and spawn, and the command line. What is wrong raises a text
-- that names the option; what is right starts, and ends again. Files, processes and sockets are out of reach.

local pierrot = require "pierrot"
local core = require "pierrot.core"

local names = { "workers", "throughput", "ask_timeout", "log", "spin", "dispatchers", "log_format", "log_file", "control",
                "control_readonly", "name", "restart", "worker", "mailbox", "dispatcher", "reentrant", "timeslice", "link",
                "monitor", "shutdown", "capacity", "overflow", "priority", "overload", "blocking", "default", "x", "strategy",
                "intensity", "period", "backoff", "min", "max", "size", "supervisor", "memory_limit", "seed" }
local numbers = { 0, 1, 2, 3, 4, -1, 0.5, 1 / 0, -1 / 0, 0 / 0, 1e300, 65000, 65001, 2 ^ 31, 2 ^ 32, 1025, 1e6, 1e6 + 1 }
local texts = { "", "info", "none", "loud", "json", "text", "/nonexistent/x", "/dev/null", "a\0b", ("long"):rep(80), "here", "any",
                "transient", "permanent", "temporary", "reject", "suspend", "drop_newest", "drop_oldest", "default", "blocking",
                "one_for_one", "one_for_all", "hash", "random", "%s%d" }

local function taker(input)
  local at = 0
  return function(n)
    at = at + 1
    local byte = input:byte(at) or 0
    return n and byte % n or byte
  end
end

local function value(take, depth)
  local kind = take(depth > 3 and 6 or 9)
  if kind == 0 or kind == 1 then
    return numbers[take(#numbers) + 1]
  elseif kind == 2 or kind == 3 then
    return texts[take(#texts) + 1]
  elseif kind == 4 then
    return take(2) == 0
  elseif kind == 5 then
    local odd = { print, function(_, n) return n end, core.running and pierrot.self() or false, 5LL, io.stdout,
                  coroutine.create(print) }
    return odd[take(#odd) + 1]
  end
  local t = {}
  for _ = 1, take(5) do
    local key = take(6) == 0 and take(4) or names[take(#names) + 1]
    if take(30) == 0 then key = value(take, depth + 1) end
    if key ~= nil and key == key then
      t[key] = value(take, depth + 1)
    end
  end
  return t
end

-- A call with what may be misuse: a text says what is wrong, at the caller's line, or all is well.
local function call(fn, ...)
  local ok, problem, reason = pcall(fn, ...)
  if not ok and type(problem) ~= "string" then
    error("no text: " .. tostring(problem), 0)
  elseif not ok and problem:find "^pierrot/" then
    error("raised inside: " .. problem, 0)
  end
  return ok and problem, reason
end

-- No more than a few threads an input.
local function clamp(options)
  if type(options) ~= "table" then
    return options
  end
  local few = function(n) return type(n) == "number" and n > 8 and n <= 1024 and 8 or n end
  options.workers = few(options.workers) or 2
  for key, entry in pairs(type(options.dispatchers) == "table" and options.dispatchers or {}) do
    if type(entry) == "table" then entry.workers = few(entry.workers) else options.dispatchers[key] = few(entry) end
  end
  return options
end

local function try_start(take)
  local started = call(pierrot.start, clamp(value(take, 0)))
  if started then
    assert(pierrot.stats().workers <= 8)
    local ref = pierrot.spawn(function(_, n) return n end)
    assert(ref:ask_within(20, 7) == 7)   -- whatever ask_timeout is
  end
  assert(pierrot.shutdown(20))
end

local behaviour = { receive = function() end, supervise = {} }

local function try_spawn(take)
  if not core.running then
    assert(pierrot.start { workers = 2, log = "none" })
    core.running = true
  end
  for _ = 1, 4 do
    local options = value(take, 0)
    local ref
    if take(3) > 0 and type(options) == "table" then
      options[1] = behaviour
      if take(4) == 0 then options = value(take, 2) end
    end
    local kind = take(4)
    if kind == 0 then
      ref = call(pierrot.supervisor, options)
    elseif kind == 1 then
      ref = call(pierrot.router, options)
    elseif kind == 2 then
      ref = call(pierrot.spawn, { supervise = options, receive = behaviour.receive })
    else
      ref = call(pierrot.spawn, options)
    end
    if ref then
      assert(type(ref) == "userdata", tostring(ref))
      pierrot.kill(ref)
    end
  end
end

-- The command line ------------------------------------------------------------------------------------------------

local words = { "run", "repl", "ctl", "top", "bench", "version", "--version", "--help", "-h", "--workers", "--workers=2", "4",
                "--throughput", "--log", "--log=none", "--control", "--control-readonly", "--config", "--attach", "--", "-",
                "file.lua", "ps", "stats", "--json", "--runs", "--peers", "", "--workers=1e999", "--log=", "--x", "=", "-x", "%d" }
local original, written = { start = pierrot.start, exit = os.exit }, nil

local function none() return 0 end
local stubs = { ["pierrot.client"] = { attach = none, ctl = none, top = none }, ["pierrot.bench"] = { main = none } }

local function try_command(take)
  if core.running then
    assert(pierrot.shutdown(20))
    core.running = nil
  end
  local argv = {}
  for i = 1, take(8) do
    argv[i] = words[take(#words) + 1]
    if take(12) == 0 then
      argv[i] = argv[i] .. string.char(take(), take())
    end
  end
  for name, stub in pairs(stubs) do package.loaded[name] = stub end
  written = ""
  local started
  function pierrot.start(options)
    started = options
    return nil, "not here"
  end
  local loads, real_stderr, real_print = loadfile, io.stderr, print
  os.exit = function() error("exit", 0) end -- luacheck: ignore 122
  os.execute = none -- luacheck: ignore 122
  loadfile = function(path) return path ~= "no" and function() return { workers = 3 } end or nil, "no file" end -- luacheck: ignore 121
  io.stderr = { write = function(_, ...) written = written .. table.concat { ... } end } -- luacheck: ignore 122
  local real_stdout = io.stdout
  io.stdout = { write = none } -- luacheck: ignore 122
  print = none -- luacheck: ignore 121
  local ok, status = pcall(require "pierrot.cli", none, nil, unpack(argv))
  io.stderr, io.stdout, print, loadfile, os.exit, pierrot.start = -- luacheck: ignore 121 122
    real_stderr, real_stdout, real_print, loads, original.exit, original.start
  assert(ok or tostring(status):find "^exit", status)
  if ok then
    assert(status == 0 or status == 1 or status == 2, tostring(status))
    assert(status == 0 or written:find "^pierrot: [^\n]+\n", "nothing says what is wrong")
    assert(not started or type(started) == "table")
  end
end

local kinds = { try_spawn, try_command, try_spawn, try_start }

return function(input)
  local take = taker(input)
  local kind = kinds[take(#kinds) + 1]
  if kind == try_start and core.running then
    assert(pierrot.shutdown(20))
    core.running = nil
  end
  kind(take)
end
