--- Runs the benchmarks of bench/ and prints a table; on request, with the same work in Erlang.
--
-- How it measures:
--
--   * Every figure comes from a process of its own: it does the whole work once to warm up, once
--     with the timer on, and ends. LuaJIT compiles what it meets first, memory is laid out as it
--     comes, and within one process all runs share that luck. Fresh processes show it as spread.
--   * With peers, the sides take turns, A B A B: a machine that gets slower or busier on the way
--     does so for both.
--   * All sides get their parameters from bench/params.lua, and each reports what it did. If the
--     operations or the results of two runs differ, there is no table but an error.
--   * The median stands for the runs; the lowest and the highest stand beside it.
--
-- A side is an entry of `sides`: how to get it ready, and the shell command that runs a benchmark
-- and prints "PROGRAM NANOSECONDS OPERATIONS RESULT". This module runs outside actors, in plain Lua.

local M = {}

local TIME_LIMIT_SECONDS = 300     -- for one process

---@class pierrot.bench.Options
---@field names? string[]    which benchmarks; default or empty: all
---@field peers? boolean     run the peers as well
---@field json? string       a file to write the figures to
---@field runs? integer      measured runs of each side; default 5
---@field dir? string        the directory of the benchmarks; default "bench"
---@field workers? integer   of each side; default: the cores, at least 2
---@field throughput? integer   of Pierrot: messages an actor handles in a turn; default: its own
---@field pierrot? string    the command to run; default: PIERROT_BIN, this executable, build/pierrot

-- The shell ---------------------------------------------------------------------------------------

local function quote(word)
  return "'" .. tostring(word):gsub("'", "'\\''") .. "'"
end

--- Runs a command. Its standard output; or nil, and what went wrong.
local function sh(command)
  local pipe = assert(io.popen("{ " .. command .. "\n} ; echo \"status $?\""))
  local out, status = pipe:read("*a"):match("^(.*)status (%d+)\n$")
  pipe:close()
  if status == "0" then return out end
  if status == "124" then return nil, ("no end after %d s: %s"):format(TIME_LIMIT_SECONDS, command) end
  return nil, ("status %s: %s"):format(status or "unknown", command)
end

local function is_installed(command)
  return sh("command -v " .. quote(command)) ~= nil
end

local function core_count()
  return tonumber(sh("nproc")) or 2
end

--- The running executable, if that is Pierrot.
local function own_executable()
  local path = (sh("readlink /proc/$PPID/exe") or ""):match("^(.-)\n$")
  return path and path:match("pierrot[^/]*$") and path
end

-- The sides ---------------------------------------------------------------------------------------

---@class pierrot.bench.Side
---@field name string
---@field prepare fun(context: table): string?, string?   what it is, for the heading; or nil and why not
---@field command fun(context: table, program: string, parameters: string): string

---@type pierrot.bench.Side[]
local sides = {
  {
    name = "pierrot",
    prepare = function(context)
      return ("%s, %d workers%s"):format(jit.version, context.workers,
        context.throughput and ", throughput " .. context.throughput or "")
    end,
    command = function(context, program, parameters)
      local throughput = context.throughput and "--throughput " .. context.throughput or ""
      return ("%s run --workers %d %s %s %s 1 %s"):format(quote(context.pierrot),
        context.workers, throughput, quote(context.dir .. "/run.lua"), program, parameters)
    end,
  },
  {
    name = "erlang",
    prepare = function(context)
      if not (is_installed("erl") and is_installed("erlc")) then
        return nil, "not installed (Debian: erlang-base)"
      end
      local _, why = sh(("erlc -o %s %s/erlang/*.erl"):format(
        quote(context.scratch), quote(context.dir)))
      if why then return nil, why end
      local release = sh("erl -noshell -eval 'io:format(erlang:system_info(otp_release)), halt()'")
      return ("OTP %s, +S %d:%d"):format(release or "?", context.workers, context.workers)
    end,
    command = function(context, program, parameters)
      return ("erl +S %d:%d -noshell -pa %s -run bench main -extra %s 1 %s"):format(
        context.workers, context.workers, quote(context.scratch), program, parameters)
    end,
  },
}

-- Figures -----------------------------------------------------------------------------------------

--- Median, lowest and highest of a list of numbers.
local function summary_of(values)
  local sorted = {}
  for i, value in ipairs(values) do sorted[i] = value end
  table.sort(sorted)
  local middle = (#sorted + 1) / 2
  local median = (sorted[math.floor(middle)] + sorted[math.ceil(middle)]) / 2
  return { median = median, min = sorted[1], max = sorted[#sorted], runs = values }
end
M.summary_of = summary_of

--- One process of one side. `{ns =, ops =, result =}`, or nil and why.
local function run_once(side, context, benchmark)
  local parameters = {}
  for key, value in pairs(benchmark.parameters) do
    parameters[#parameters + 1] = ("%s=%d"):format(key, value)
  end
  table.sort(parameters)
  local program = benchmark.program or benchmark.name
  local command = side.command(context, program, table.concat(parameters, " "))
  local out, why = sh(("timeout --foreground %d %s"):format(TIME_LIMIT_SECONDS, command))
  if not out then return nil, why end
  local name, ns, ops, result = out:match("(%S+) (%S+) (%d+) (%S+)\n$")
  if name ~= program or not tonumber(ns) then
    return nil, ("no figure in %q: %s"):format(out, command)
  end
  return { ns = tonumber(ns), ops = tonumber(ops), result = result }
end

--- Runs a benchmark on all sides in turn. A summary by side's name; or nil and why.
local function measure(ready, context, benchmark, runs)
  local values, first = {}, nil
  for _, side in ipairs(ready) do values[side.name] = {} end
  for _ = 1, runs do
    for _, side in ipairs(ready) do
      local figure, why = run_once(side, context, benchmark)
      if not figure then return nil, why end
      first = first or figure
      if figure.ops ~= first.ops or figure.result ~= first.result then
        return nil, ("%s in %s did %d operations with result %s, instead of %d with %s"):format(
          benchmark.name, side.name, figure.ops, figure.result, first.ops, first.result)
      end
      table.insert(values[side.name], figure.ns)
    end
  end
  local summaries = {}
  for name, list in pairs(values) do
    summaries[name] = summary_of(list)
    summaries[name].ops = first.ops
  end
  return summaries
end

-- Output ------------------------------------------------------------------------------------------

local function heading(ready)
  local line = ("%-14s %9s %12s %17s"):format("", "ns/op", "op/s", "min-max ns")
  for i = 2, #ready do line = line .. (" %12s %7s"):format(ready[i].name .. " ns", "ratio") end
  return line
end

local function row(ready, benchmark, summaries)
  local own = summaries[ready[1].name]
  local line = ("%-14s %9.1f %12.0f %17s"):format(benchmark.name, own.median, 1e9 / own.median,
    ("%.1f-%.1f"):format(own.min, own.max))
  for i = 2, #ready do
    local peer = summaries[ready[i].name].median
    line = line .. (" %12.1f %6.2fx"):format(peer, peer / own.median)
  end
  return line
end

--- The figures as they are written to the JSON file.
local function figures_of(ready, benchmark, summaries)
  local figures = {
    name = benchmark.name, about = benchmark.about, op = benchmark.op,
    parameters = benchmark.parameters, sides = {},
  }
  for _, side in ipairs(ready) do
    local summary = summaries[side.name]
    figures.sides[side.name] = {
      ns_per_op = summary.median, ns_per_op_min = summary.min, ns_per_op_max = summary.max,
      ns_per_op_runs = summary.runs, ops_per_run = summary.ops,
      ops_per_second = 1e9 / summary.median,
      ratio = summary.median / summaries[ready[1].name].median,
    }
  end
  return figures
end

--- What a pattern finds in a file of /proc; nil if nothing.
local function look_up(path, pattern)
  local file = io.open(path)
  if not file then return nil end
  local found = file:read("*a"):match(pattern)
  file:close()
  return found
end

--- Where the figures come from, and what else ran there in the last minute (1 is one busy core).
local function machine()
  return {
    processor = look_up("/proc/cpuinfo", "model name%s*:%s*([^\n]+)") or "unknown processor",
    cores = core_count(),
    load = tonumber(look_up("/proc/loadavg", "^%S+")),
  }
end

-- The command -------------------------------------------------------------------------------------

--- The benchmarks of these names in the table's order, all of them for none; or nil and why.
local function select_benchmarks(all, names)
  if not names or #names == 0 then return all end
  local wanted, known, chosen = {}, {}, {}
  for _, name in ipairs(names) do wanted[name] = true end
  for i, benchmark in ipairs(all) do
    known[i] = benchmark.name
    if wanted[benchmark.name] then chosen[#chosen + 1] = benchmark end
    wanted[benchmark.name] = nil
  end
  local unknown = next(wanted)
  if unknown then
    return nil, ("no benchmark %s; there are: %s"):format(unknown, table.concat(known, ", "))
  end
  return chosen
end

--- The sides that can run here. Prints what they are, and which peers are left out and why.
local function prepare_sides(context, peers)
  local ready, descriptions = {}, {}
  for i, side in ipairs(sides) do
    if i == 1 or peers then
      local description, why = side.prepare(context)
      if description then
        ready[#ready + 1] = side
        descriptions[side.name] = description
        print(("%-14s %s"):format(side.name, description))
      else
        print(("%-14s left out: %s"):format(side.name, why))
      end
    end
  end
  return ready, descriptions
end

local function run_all(context, chosen, options, json_file)
  local here = machine()
  print(("%-14s %s, %d cores, load %.1f"):format("machine", here.processor, here.cores, here.load or 0))
  local ready, descriptions = prepare_sides(context, options.peers)
  print("\n" .. heading(ready))
  local report = {
    machine = here, workers = context.workers, runs = context.runs,
    sides = descriptions, benchmarks = {},
  }
  for _, benchmark in ipairs(chosen) do
    local summaries, why = measure(ready, context, benchmark, context.runs)
    if not summaries then return nil, why end
    print(row(ready, benchmark, summaries))
    io.stdout:flush()
    table.insert(report.benchmarks, figures_of(ready, benchmark, summaries))
  end
  if json_file then json_file:write(require("cjson").encode(report), "\n") end
  return true
end

--- Runs benchmarks as `pierrot bench` does.
---@param options? pierrot.bench.Options
---@return integer status  for the process: 0; 1 a benchmark failed; 2 wrong usage
function M.main(options)
  options = options or {}
  local function fail(status, why)
    io.stderr:write("pierrot bench: ", why, "\n")
    return status
  end

  local dir = options.dir or "bench"
  local load_table, unreadable = loadfile(dir .. "/params.lua")
  if not load_table then return fail(2, unreadable .. " (they are in the source tree: see --dir)") end
  local chosen, unknown = select_benchmarks(load_table(), options.names)
  if not chosen then return fail(2, unknown) end
  local json_file, unwritable
  if options.json then
    json_file, unwritable = io.open(options.json, "w")
    if not json_file then return fail(2, unwritable) end
  end

  local context = {
    dir = dir,
    pierrot = options.pierrot or os.getenv("PIERROT_BIN") or own_executable() or "build/pierrot",
    throughput = options.throughput,
    workers = options.workers or math.max(2, core_count()),
    runs = options.runs or 5,
    scratch = assert(sh("mktemp -d")):match("^[^\n]+"),
  }
  local ran, done, why = pcall(run_all, context, chosen, options, json_file)
  sh("rm -rf " .. quote(context.scratch))
  if json_file then json_file:close() end
  if not ran then return fail(1, tostring(done)) end
  if not done then return fail(1, why) end
  return 0
end

return M
