-- The `pierrot` command. `main` gets what the launcher alone can do (catch_signals) and the arguments, and
-- returns the exit status: 0, 1 a failure, 2 wrong usage.

local pierrot = require "pierrot"
local ok, argparse = pcall(require, "argparse")

local levels = { "debug", "info", "warn", "error", "none" }

local function complain(fmt, ...)
  io.stderr:write("pierrot: ", fmt:format(...), "\n")
end

local function whole_number(most)
  return function(text)
    local n = tonumber(text)
    if n and n % 1 == 0 and n >= 1 and n <= most then
      return n
    end
    return nil, ("'%s' is not a whole number from 1 to %d"):format(text, most)
  end
end

local function runtime_options(command)
  command:option("--workers", "worker threads, 1 to 1024 (default: one a core, at least 2)"):convert(whole_number(1024))
  command:option("--throughput", "messages an actor handles before the next one's turn (default: 32)")
    :convert(whole_number(1e9))
  command:option("--control", "listen at a Unix socket, for pierrot repl --attach, ctl and top"):argname("SOCKET")
  command:flag("--control-readonly", "there, only look")
  command:option("--log", "lowest level that is logged (default: info)"):choices(levels)
  command:option("--log-format", "text (default), or json: an object a line"):choices { "text", "json" }
  command:option("--log-file", "where the log goes; default: standard error"):argname("FILE")
  command:option("--config", "a Lua file that returns the options of pierrot.start; those given here count first")
    :argname("FILE.lua")
end

local function make_parser()
  local parser = argparse("pierrot", "Runs actors written in Lua."):require_command(true):command_target("command")
  local run = parser:command("run", "run a script as the first actor")
  run:argument("file", "the script"):argname("FILE")
  run:argument("args", "what the script finds in arg"):args("*"):argname("ARG")
  runtime_options(run)
  local repl = parser:command("repl", "a prompt that is an actor")
  repl:argument("file", "a script that is run first"):args("?"):argname("FILE")
  repl:argument("args", "what the script finds in arg"):args("*"):argname("ARG")
  repl:option("--attach", "a prompt in the process that listens there"):argname("SOCKET")
  runtime_options(repl)
  local ctl = parser:command("ctl", "look at a running process, and change it")
  ctl:argument("socket", "where it listens (--control)"):argname("SOCKET")
  ctl:argument("request", "ps [PART], tree, stats, info NAME, stop NAME, log LEVEL, eval CODE"):args("1-2")
    :argname("REQUEST")
  ctl:flag("--json", "the answer as it comes, one line of JSON")
  local top = parser:command("top", "what the actors of a running process are doing, live")
  top:option("--attach", "where it listens (--control)"):argname("SOCKET"):count(1)
  local test = parser:command("test", "run tests of actors, each in a runtime of its own that repeats from a seed")
  test:argument("paths", "files, and directories with *_spec.lua and *_test.lua below them"):args("+"):argname("FILE")
  test:option("--seeds", "how many seeds each test is run with (default: 20, or what the test says)")
    :convert(whole_number(1e9))
  test:option("--seed", "one seed alone, as a report names it"):argname("SEED")
  test:option("--filter", "only tests with this in their names"):argname("PART")
  test:option("--workers", "workers of each runtime (default: 2)"):convert(whole_number(64))
  test:option("--log", "lowest level that is kept for reports (default: warn)"):choices(levels)
  local bench = parser:command("bench", "run the benchmarks")
  bench:argument("names", "which; default: all"):args("*"):argname("NAME")
  bench:flag("--peers", "beside it, the same work in Erlang and in C++ with CAF, where they are installed")
  bench:option("--json", "write the figures to a file"):argname("FILE")
  bench:option("--plot", "draw the figures in a file, as SVG"):argname("FILE")
  bench:option("--runs", "how often each"):default("5"):convert(whole_number(1e9))
  bench:option("--dir", "where the benchmarks are"):argname("DIR")
  runtime_options(bench)
  parser:command("version", "print the version")
  return parser
end

local commands = {}

function commands.version()
  print(("pierrot %s (%s)"):format(pierrot.version, jit.version))
  return 0
end

-- A script's modules are looked for beside it, too.
local function beside(file)
  local dir = file:match "^(.*/)[^/]*$" or ""
  package.path = ("%s?.lua;%s?/init.lua;%s"):format(dir, dir, package.path)
end

-- The options of the file --config; nil and what is wrong with it.
local function config_of(path)
  if not path then
    return {}
  end
  local chunk, problem = loadfile(path)
  if not chunk then
    return nil, problem
  end
  local ran, config = pcall(chunk)
  if not ran then
    return nil, tostring(config)
  end
  if type(config) ~= "table" then
    return nil, ("%s: a table with the options of pierrot.start expected, got %s"):format(path, type(config))
  end
  return config
end

-- Starts the runtime; false: said why not.
local function start(options, more)
  local config, problem = config_of(options.config)
  if not config then
    complain("--config: %s", problem)
    return false
  end
  for _, name in ipairs { "workers", "throughput", "log", "log_format", "log_file", "control", "control_readonly" } do
    if options[name] ~= nil then
      config[name] = options[name]
    end
  end
  for name, value in pairs(more or {}) do
    config[name] = value
  end
  local ran, started, reason = pcall(pierrot.start, config)
  if not ran or not started then
    local with = options.config and (" (with %s)"):format(options.config) or ""
    complain("cannot start: %s%s", ran and reason or started, with)
    return false
  end
  return true
end

function commands.run(options, catch_signals)
  local chunk, problem = loadfile(options.file)
  if not chunk then
    complain("%s", problem)
    return 1
  end
  beside(options.file)
  if not start(options) then
    return 1
  end
  local ran, failed = pierrot._run_script(options.file, catch_signals, unpack(options.args))
  if not ran then
    complain("cannot run %s: %s", options.file, failed)
    return 1
  end
  -- All of this process's actors end now, in order; the report on one that does not is in the log.
  local status = failed() and 1 or 0
  if not pierrot.shutdown(5) then
    return 1
  end
  return status
end

-- Where the lines of prompts are kept; nil: nowhere.
local function history_file()
  local path = os.getenv "PIERROT_HISTORY"
  if path then
    return path ~= "" and path or nil
  end
  local home = os.getenv "HOME"
  local state = os.getenv "XDG_STATE_HOME" or home and home .. "/.local/state"
  if not state or state == "" then
    return nil
  end
  os.execute(("mkdir -p -m 700 '%s' 2>/dev/null"):format((state .. "/pierrot"):gsub("'", "'\\''")))
  return state .. "/pierrot/history"
end

function commands.repl(options, catch_signals)
  local core = require "pierrot.core"
  if options.attach then
    return require("pierrot.client").attach(options.attach, history_file(), complain)
  end
  if options.file then
    beside(options.file)
  end
  local terminal = core.terminal_open(history_file())
  if not terminal then
    complain "cannot read the terminal: not enough memory"
    return 1
  end
  if not start(options, { [pierrot._prompts] = true }) then
    core.terminal_close()
    return 1
  end
  catch_signals()
  local prompt = pierrot.spawn { "pierrot.prompt", { interactive = terminal.interactive, coloured = terminal.coloured,
    file = options.file, arguments = options.args }, dispatcher = "prompts", worker = 1 }
  core.hold(prompt, terminal.interactive)
  core.terminal_bind(prompt)
  local banner = ("pierrot %s, %d workers. help() lists what there is, Ctrl-D leaves."):format(pierrot.version,
    pierrot.stats().workers)
  prompt:tell("\0go", terminal.interactive and banner or nil)
  core.wait_quiet()
  local failed = core.script_failed
  core.terminal_close()
  core.stop_all()
  local status = failed() and 1 or 0
  return pierrot.shutdown(5) and status or 1
end

function commands.ctl(options)
  return require("pierrot.client").ctl(options, complain)
end

function commands.top(options)
  return require("pierrot.client").top(options.attach, complain)
end

function commands.test(options)
  return require("pierrot.testing.runner").main(options)
end

function commands.bench(options)
  return require("pierrot.bench").main(options) or 0
end

return function(catch_signals, _, ...)
  if not ok then
    complain("the Lua module argparse is missing (Debian: lua-argparse, LuaRocks: argparse)")
    return 1
  end
  local parser = make_parser()
  local argv = { ... }
  if argv[1] == "--version" then
    argv[1] = "version"
  end
  -- What comes after the script is the script's own, options too.
  if argv[1] == "run" or argv[1] == "repl" then
    local at = 2
    while argv[at] and argv[at]:sub(1, 1) == "-" and argv[at] ~= "--" and argv[at] ~= "-" do
      local alone = argv[at]:find("=", 1, true) or argv[at] == "-h" or argv[at] == "--help"
        or argv[at] == "--control-readonly"
      at = at + (alone and 1 or 2)
    end
    if argv[at] == "--" then
      at = at + 1
    end
    if argv[at] then
      local own = { unpack(argv, at + 1) }
      local head = { unpack(argv, 1, at) }
      argv = head
      argv.own = own
    end
  end
  local own = argv.own
  local parsed, options = parser:pparse(argv)
  if not parsed then
    complain("%s (pierrot --help says how)", (options:gsub("\n.*", "")))
    return 2
  end
  options.args = own or options.args or {}
  return commands[options.command](options, catch_signals)
end
