--- Runs the benchmarks of bench/ and prints a table; on request, with the same work in Erlang and in C++ with CAF.
--
-- How it measures:
--
--   * Every figure comes from a process of its own: it does the whole work once to warm up, once
--     with the timer on, and ends. LuaJIT compiles what it meets first, memory is laid out as it
--     comes, and within one process all runs share that luck. Fresh processes show it as spread.
--   * With peers, the sides take turns, A B C A B C: a machine that gets slower or busier on the way
--     does so for all.
--   * All sides get their parameters from bench/params.lua, and each reports what it did. If the
--     operations or the results of two runs differ, there is no table but an error.
--   * The median stands for the runs; the lowest and the highest stand beside it.
--
-- The sides are in bench/sides.lua. This module runs outside actors, in plain Lua.

local plot = require "pierrot.bench.plot"
local shell = require "pierrot.bench.shell"
local sides = require "pierrot.bench.sides"

local sh, quote = shell.sh, shell.quote

local M = {}

---@class pierrot.bench.Options
---@field names? string[]    which benchmarks; default or empty: all
---@field peers? boolean     run the peers as well
---@field json? string       a file to write the figures to
---@field plot? string       a file to draw them in, as SVG
---@field runs? integer      measured runs of each side; default 5
---@field dir? string        the directory of the benchmarks; default "bench"
---@field workers? integer   of each side; default: the cores, at least 2
---@field throughput? integer   of Pierrot: messages an actor handles in a turn; default: its own
---@field pierrot? string    the command to run; default: PIERROT_BIN, this executable, build/pierrot

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

local function program_of(benchmark)
  return benchmark.program or benchmark.name
end

local DEFAULT_PEERS = { "erlang", "caf" }

--- Whether a benchmark runs on a side: on the first one, Pierrot itself, always.
local function runs_on(benchmark, side)
  if side == sides[1] then return true end
  for _, name in ipairs(benchmark.peers or DEFAULT_PEERS) do
    if name == side.name then return true end
  end
  return false
end

--- What a process printed. `{ns =, ops =, result =, more = {{name, ns}...}}`, or nil.
local function parse(out, program)
  local name, ns, ops, result, rest = out:match("(%S+) (%S+) (%d+) (%S+)([^\n]*)\n$")
  if name ~= program or not tonumber(ns) then return nil end
  local more = {}
  for label, value in rest:gmatch(" ([^%s=]+)=(%S+)") do
    if not tonumber(value) then return nil end
    more[#more + 1] = { label, tonumber(value) }
  end
  return { ns = tonumber(ns), ops = tonumber(ops), result = result, more = more }
end

--- One process of one side. What `parse` returns, or nil and why.
local function run_once(side, context, benchmark)
  local parameters = {}
  for key, value in pairs(benchmark.parameters) do
    parameters[#parameters + 1] = ("%s=%d"):format(key, value)
  end
  table.sort(parameters)
  local program = program_of(benchmark)
  local command = side.command(context, program, table.concat(parameters, " "))
  local out, why = sh(("timeout --foreground %d %s"):format(shell.TIME_LIMIT_SECONDS, command))
  if not out then return nil, why end
  local figure = parse(out, program)
  if not figure then return nil, ("no figure in %q: %s"):format(out, command) end
  return figure
end

--- Runs a benchmark on its sides in turn. Rows `{label =, sides = {[side's name] = summary}}`, the benchmark's
--- own first, then one for each further figure; or nil and why.
local function measure(ready, context, benchmark, runs)
  local rows, row_of, first = {}, {}, nil
  local function note(label, side, ns)
    local row = row_of[label]
    if not row then
      row = { label = label, values = {} }
      row_of[label], rows[#rows + 1] = row, row
    end
    row.values[side.name] = row.values[side.name] or {}
    table.insert(row.values[side.name], ns)
  end
  for _ = 1, runs do
    for _, side in ipairs(ready) do
      if runs_on(benchmark, side) then
        local figure, why = run_once(side, context, benchmark)
        if not figure then return nil, why end
        first = first or figure
        if figure.ops ~= first.ops or figure.result ~= first.result then
          return nil, ("%s in %s did %d operations with result %s, instead of %d with %s"):format(
            benchmark.name, side.name, figure.ops, figure.result, first.ops, first.result)
        end
        note(benchmark.name, side, figure.ns)
        for _, more in ipairs(figure.more) do note(benchmark.name .. " " .. more[1], side, more[2]) end
      end
    end
  end
  for _, row in ipairs(rows) do
    row.sides = {}
    for name, list in pairs(row.values) do row.sides[name] = summary_of(list) end
  end
  return rows, first.ops
end

-- Output ------------------------------------------------------------------------------------------

local LABEL_WIDTH = 16

local function heading(ready)
  local line = ("%-" .. LABEL_WIDTH .. "s %9s %12s %17s"):format("", "ns/op", "op/s", "min-max ns")
  for i = 2, #ready do line = line .. (" %12s %7s"):format(ready[i].name .. " ns", "ratio") end
  return line
end

local function line_of(ready, row)
  local own = row.sides[ready[1].name]
  local line = ("%-" .. LABEL_WIDTH .. "s %9.1f %12.0f %17s"):format(row.label, own.median, 1e9 / own.median,
    ("%.1f-%.1f"):format(own.min, own.max))
  for i = 2, #ready do
    local peer = row.sides[ready[i].name]
    line = line .. (peer and (" %12.1f %6.2fx"):format(peer.median, peer.median / own.median) or (" "):rep(21))
  end
  return (line:gsub(" +$", ""))
end

--- A row's figures as they are written to the JSON file.
local function figures_of(ready, benchmark, row, ops)
  local figures = {
    name = row.label, about = benchmark.about, op = benchmark.op,
    parameters = benchmark.parameters, sides = {},
  }
  for _, side in ipairs(ready) do
    local summary = row.sides[side.name]
    if summary then
      figures.sides[side.name] = {
        ns_per_op = summary.median, ns_per_op_min = summary.min, ns_per_op_max = summary.max,
        ns_per_op_runs = summary.runs, ops_per_run = ops,
        ops_per_second = 1e9 / summary.median,
        ratio = summary.median / row.sides[ready[1].name].median,
      }
    end
  end
  return figures
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
    if i == 1 or peers and #context.programs[side.name] > 0 then
      local description, why = side.prepare(context)
      if description then
        ready[#ready + 1] = side
        descriptions[side.name] = description
        print(("%-16s %s"):format(side.name, description))
      else
        print(("%-16s left out: %s"):format(side.name, why))
      end
    end
  end
  return ready, descriptions
end

--- Writes the picture of all rows.
local function draw(file, ready, here, runs, rows)
  local names, bars = {}, {}
  for i, side in ipairs(ready) do names[i] = side.name end
  for i, row in ipairs(rows) do bars[i] = { label = row.label, values = row.sides } end
  local title = ("pierrot bench: %s, %d cores, %d runs"):format(here.processor, here.cores, runs)
  file:write(plot.svg(title, names, bars))
end

local function run_all(context, chosen, options, json_file, plot_file)
  local here = shell.machine()
  print(("%-16s %s, %d cores, load %.1f"):format("machine", here.processor, here.cores, here.load or 0))
  local ready, descriptions = prepare_sides(context, options.peers)
  print("\n" .. heading(ready))
  local report = {
    machine = here, workers = context.workers, runs = context.runs,
    sides = descriptions, benchmarks = {},
  }
  local all_rows = {}
  for _, benchmark in ipairs(chosen) do
    local rows, ops = measure(ready, context, benchmark, context.runs)
    if not rows then return nil, ops end
    for _, row in ipairs(rows) do
      print(line_of(ready, row))
      table.insert(report.benchmarks, figures_of(ready, benchmark, row, ops))
      table.insert(all_rows, row)
    end
    io.stdout:flush()
  end
  if json_file then json_file:write(require("cjson").encode(report), "\n") end
  if plot_file then draw(plot_file, ready, here, context.runs, all_rows) end
  return true
end

--- The programs of these benchmarks, each once, by the name of the side that runs them.
local function programs_of(chosen)
  local programs = {}
  for _, side in ipairs(sides) do
    local seen, list = {}, {}
    for _, benchmark in ipairs(chosen) do
      local program = program_of(benchmark)
      if not seen[program] and runs_on(benchmark, side) then
        seen[program] = true
        list[#list + 1] = program
      end
    end
    programs[side.name] = list
  end
  return programs
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
  local json_file, plot_file, unwritable
  if options.json then
    json_file, unwritable = io.open(options.json, "w")
    if not json_file then return fail(2, unwritable) end
  end
  if options.plot then
    plot_file, unwritable = io.open(options.plot, "w")
    if not plot_file then return fail(2, unwritable) end
  end

  local context = {
    dir = dir,
    pierrot = options.pierrot or os.getenv("PIERROT_BIN") or shell.own_executable() or "build/pierrot",
    throughput = options.throughput,
    workers = options.workers or math.max(2, shell.core_count()),
    runs = options.runs or 5,
    programs = programs_of(chosen),
    scratch = assert(sh("mktemp -d")):match("^[^\n]+"),
  }
  local ran, done, why = pcall(run_all, context, chosen, options, json_file, plot_file)
  sh("rm -rf " .. quote(context.scratch))
  if json_file then json_file:close() end
  if plot_file then plot_file:close() end
  if not ran then return fail(1, tostring(done)) end
  if not done then return fail(1, why) end
  return 0
end

return M
