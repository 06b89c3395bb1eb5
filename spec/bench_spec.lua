--- pierrot.bench: the figures it makes of runs, and the benchmarks themselves, in small.
--
-- Mutants that these find: an actor that forgets a message, a producer that sends one too few, another random
-- number on one side, a handler that answers another value.
-- sanitizers: none
-- begun first

local bench = require "pierrot.bench"
local cjson = require "cjson"
local plot = require "pierrot.bench.plot"

local pierrot_bin = os.getenv("PIERROT_BIN") or "build/pierrot"

local function sh(command)
  local pipe = assert(io.popen(command))
  local out = pipe:read("*a")
  pipe:close()
  return out
end

--- Calls `bench.main` and catches what it prints: status, standard output.
local function main(options)
  local lines, print_before = {}, print
  _G.print = function(line) lines[#lines + 1] = line end
  local ok, status = pcall(bench.main, options)
  _G.print = print_before
  assert(ok, status)
  return status, table.concat(lines, "\n") .. "\n"
end

-- Enough to go through every branch, and to end at once.
local tiny = {
  pingpong = { round_trips = 2000 },
  pingpong_table = { round_trips = 200, bytes = 0 },
  pingpong_1k = { round_trips = 200, bytes = 1024 },
  ring = { actors = 10, hops = 3001 },
  count = { messages = 1500, rounds = 2 },
  fjcreate = { actors = 50, rounds = 2 },
  fjthroughput = { actors = 7, messages = 100, rounds = 2 },
  big = { actors = 12, pings = 30 },
  ask = { asks = 200 },
  fanin = { producers = 3, messages = 500, rounds = 2 },
  chameneos = { creatures = 7, meetings = 300 },
  philosophers = { philosophers = 5, meals = 50 },
  bank = { accounts = 20, transfers = 200 },
  tree = { leaves = 1000, children = 10 },
  nbody = { actors = 3, messages = 2, steps = 20 },
  cross = { pairs = 3, round_trips = 100, across = 1 },
  pairs = { pairs = 3, round_trips = 100, across = 0 },
  pairs_placed = { pairs = 3, round_trips = 100, across = 2 },
  nbody_alone = { actors = 3, messages = 2, steps = 20 },
  wake = { wakes = 20 },
  cold = { backlog = 50, probes = 20 },
  live_10 = { actors = 10, messages = 1000 },
  live_1000 = { actors = 20, messages = 1000 },
  live_100000 = { actors = 30, messages = 1000 },
  live_1000000 = { actors = 40, messages = 1000 },
  latency = { actors = 100, pacers = 2, rate = 5000, milliseconds = 40 },
}

--- What params.lua says, but with the tiny parameters, as Lua source.
local function tiny_params()
  local entries = {}
  for _, benchmark in ipairs(dofile "bench/params.lua") do
    local small = assert(tiny[benchmark.name], "no tiny parameters for " .. benchmark.name)
    local pairs_of = {}
    for key in pairs(benchmark.parameters) do
      pairs_of[#pairs_of + 1] = ("%s = %d"):format(key, assert(small[key], benchmark.name .. "." .. key))
    end
    local peers = benchmark.peers and ("peers = { %s },"):format(
      #benchmark.peers > 0 and ("%q"):format(benchmark.peers[1]) or "") or ""
    entries[#entries + 1] = ("  { name = %q, program = %q, op = %q, %s parameters = { %s } },"):format(benchmark.name,
      benchmark.program or benchmark.name, benchmark.op, peers, table.concat(pairs_of, ", "))
  end
  return "return {\n" .. table.concat(entries, "\n") .. "\n}\n"
end

describe("pierrot.bench", function()
  local dir

  setup(function()
    dir = sh("mktemp -d"):match("[^\n]+")
    sh(("cp -r bench/* '%s'"):format(dir))
    local file = assert(io.open(dir .. "/params.lua", "w"))
    file:write(tiny_params())
    file:close()
  end)

  teardown(function()
    sh(("rm -rf '%s'"):format(dir))
  end)

  it("draws bars by benchmark and side, on a scale that fits", function()
    local function value(ns) return { median = ns, min = ns, max = ns } end
    local svg = plot.svg("a <title>", { "one", "two" }, {
      { label = "near", values = { one = value(100), two = value(200) } },
      { label = "alone", values = { one = value(50) } },
    })
    assert.truthy(svg:find("a &lt;title&gt;", 1, true) and svg:find("linear scale", 1, true))
    local widths = {}
    for width in svg:gmatch "width=\"([%d.]+)\" height=\"11\"" do widths[#widths + 1] = tonumber(width) end
    assert.equal(3, #widths)
    assert.is_true(math.abs(widths[2] - 2 * widths[1]) < 1 and math.abs(widths[1] - 2 * widths[3]) < 1)
    local far = plot.svg("", { "one" }, { { label = "a", values = { one = value(10) } },
                                          { label = "b", values = { one = value(100000) } } })
    assert.truthy(far:find("logarithmic scale", 1, true))
  end)

  it("takes the median and the extremes", function()
    local odd = bench.summary_of { 5, 1, 3 }
    assert.same({ 3, 1, 5 }, { odd.median, odd.min, odd.max })
    assert.same({ 5, 1, 3 }, odd.runs)
    assert.equal(2.5, bench.summary_of { 4, 1, 2, 3 }.median)
  end)

  it("runs every benchmark and prints a row for each", function()
    local status, out = main { dir = dir, runs = 1, pierrot = pierrot_bin }
    assert.equal(0, status)
    for name in pairs(tiny) do
      assert.truthy(out:match("\n" .. name .. " +[%d.]+ +%d+ +[%d.]+%-[%d.]+\n"), out)
    end
  end)

  it("runs the named ones only, and writes JSON", function()
    local json = dir .. "/out.json"
    local status, out =
      main { dir = dir, runs = 3, pierrot = pierrot_bin, names = { "ring" }, json = json }
    assert.equal(0, status)
    assert.falsy(out:find("pingpong"))
    local file = assert(io.open(json))
    local report = cjson.decode(file:read("*a"))
    file:close()
    assert.equal(1, #report.benchmarks)
    local ring = report.benchmarks[1]
    assert.same({ "ring", 3001, 3 },
      { ring.name, ring.sides.pierrot.ops_per_run, #ring.sides.pierrot.ns_per_op_runs })
  end)

  -- The peers are the same under a sanitizer, and CAF takes a while to compile.
  it("runs Erlang and CAF beside it, or says that they are not there", function()
    if os.getenv "PIERROT_SANITIZER" then return pending("not under a sanitizer") end
    local picture = dir .. "/out.svg"
    local status, out = main { dir = dir, runs = 1, pierrot = pierrot_bin, peers = true, plot = picture }
    assert.equal(0, status)
    local ready = {}
    for _, name in ipairs { "erlang", "caf", "one worker", "futex" } do
      ready[name] = not out:find("\n" .. name .. " +left out: ")
      if ready[name] then assert.truthy(out:find("\n" .. name .. " +[%u%l]"), out) end
    end
    for _, benchmark in ipairs(dofile(dir .. "/params.lua")) do
      local row = assert(out:match("\n" .. benchmark.name .. "( +%d[^\n]*)"), benchmark.name)
      local wanted = 0
      for _, peer in ipairs(benchmark.peers or { "erlang", "caf" }) do wanted = wanted + (ready[peer] and 1 or 0) end
      local _, ratios = row:gsub(" [%d.]+x", "")
      assert.equal(wanted, ratios, benchmark.name .. row)
    end
    local file = assert(io.open(picture))
    local svg = file:read("*a")
    file:close()
    for name in pairs(tiny) do assert.truthy(svg:find(">" .. name .. "<", 1, true), name) end
    local _, bars = svg:gsub("<rect x=\"130\" y=\"[%d.]+\" width=\"[%d.]+\" height=\"11\"", "")
    -- A row has one bar for itself, and one for each ratio.
    local _, rows = out:gsub("%d+%.%d%-%d+%.%d", "")
    local _, ratios = out:gsub(" [%d.]+x", "")
    assert.equal(rows + ratios, bars)
  end)

  it("fails when a side did something else", function()
    local file = assert(io.open(dir .. "/erlang/ring.erl", "w"))
    file:write "-module(ring).\n-export([run/1]).\nrun(_) -> {1, 1, 1}.\n"
    file:close()
    if sh("command -v erlc") == "" then return pending("needs Erlang") end
    assert.equal(1, (main { dir = dir, runs = 1, pierrot = pierrot_bin, peers = true,
                            names = { "ring" } }))
  end)

  it("fails when a benchmark fails", function()
    local file = assert(io.open(dir .. "/count.lua", "w"))
    file:write "return { run = function() error('not done to the last message') end }"
    file:close()
    assert.equal(1, (main { dir = dir, runs = 1, pierrot = pierrot_bin, names = { "count" } }))
  end)

  it("calls an unknown name wrong usage", function()
    assert.equal(2, (main { dir = dir, pierrot = pierrot_bin, names = { "frobnicate" } }))
    assert.equal(2, (main { dir = dir .. "/nowhere", pierrot = pierrot_bin }))
  end)
end)
