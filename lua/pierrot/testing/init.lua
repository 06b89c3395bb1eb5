-- Tests of actors: each runs in a runtime of its own that does the same every time, with a clock that goes ahead when
-- nothing is left to do, and with one order of events after the other, each drawn from a seed.
--
--   local testing = require "pierrot.testing"
--   testing.run(function(t) ... end, { seeds = 100 })       -- raises with a report
--   testing.it("counts", function(t) ... end)               -- under `pierrot test`, and under busted
--
-- A test fails when its function raises, and when an actor fails and no t:expect_failure has said so. The seed that
-- fails is shrunk: of the choices that it has made, those that do not matter are left out.
--
-- src/explore.h says how; context.lua and probe.lua are what a test gets, report.lua is what is said.

local pierrot = require "pierrot"
local core = require "pierrot.core"
local context = require "pierrot.testing.context"
local report = require "pierrot.testing.report"
local match = require "pierrot.testing.match"

local testing = { any = match.any, report = report }

-- What holds for tests that say nothing, and what holds whatever they say: from the command line or the environment.
local defaults = { seeds = 20, workers = 2, turns = 1e6, log = "warn" }
testing.forced = { seeds = tonumber(os.getenv "PIERROT_SEEDS"), seed = os.getenv "PIERROT_SEED" }

-- Runs that shrinking may take, and seconds of processor time.
local SHRINK_RUNS, SHRINK_SECONDS = 400, 20
local LONG = 100   -- of a list of choices, for shrinking

local KNOWN = { seeds = "number", seed = "any", workers = "number", turns = "number", log = "string",
                ask_timeout = "number", dispatchers = "table", shrink = "boolean" }

-- "17" or "17:3,9": the seed, and which of its choices are drawn.
function testing.parse_seed(text)
  local seed, list = tostring(text):match "^(%d+)$", nil
  if not seed then
    seed, list = tostring(text):match "^(%d+):([%d,]+)$"
  end
  seed = tonumber(seed)
  if not seed or seed > 2 ^ 53 then
    return nil, ("'%s' is no seed: a whole number, or one with its choices (17:3,9), expected"):format(tostring(text))
  end
  local only
  if list then
    only = {}
    for number in list:gmatch "%d+" do
      only[#only + 1] = tonumber(number)
    end
    table.sort(only)
  end
  return seed, only
end

function testing.format_seed(seed, only)
  if not only then
    return ("%d"):format(seed)
  end
  return ("%d:%s"):format(seed, only[1] and table.concat(only, ",") or "0")
end

local function options_of(given, level)
  local options = {}
  for name, value in pairs(defaults) do
    options[name] = value
  end
  for name, value in pairs(given or {}) do
    if not KNOWN[name] then
      error(("testing: unknown option '%s' (there are seeds, seed, workers, turns, log, ask_timeout, dispatchers, "
             .. "shrink)"):format(tostring(name)), level + 1)
    elseif KNOWN[name] ~= "any" and type(value) ~= KNOWN[name] then
      error(("testing: %s: a %s expected, got %s"):format(name, KNOWN[name], type(value)), level + 1)
    end
    options[name] = value
  end
  for name, value in pairs(testing.forced) do
    options[name] = value
  end
  return options
end

-- What a run's error is known by: the same failure of another run has the same.
local function place_of(message)
  return message:match "^[^\n]-:%d+:" or message:match "^[^\n]*":gsub("%d+", "0")
end

-- One run of the test. -> nil, or what has failed: { message =, traceback =, place =, seed =, only =, taken =,
-- choices =, lines = (with records), log = }.
local function attempt(fn, options, seed, only, records)
  local started, reason = pierrot.start { workers = options.workers, throughput = 1, ask_timeout = options.ask_timeout,
    dispatchers = options.dispatchers, log = options.log,
    [pierrot._explore] = { seed = seed, only = only, records = records, turns = options.turns } }
  if not started then
    error("testing: cannot start: " .. tostring(reason), 0)
  end
  math.randomseed(seed)
  local t = context.new(records)
  local ok, err = xpcall(fn, context.caught, t)
  local failure = not ok and err or t:_verdict()
  if failure and records then
    failure.lines = report.interleaving(t)
  end
  if not pierrot.shutdown(5) and not failure then
    failure = { message = "the actors of this test do not end" }
  end
  local state = core.explore_state()
  failure = failure or t:_late_verdict()
  if failure then
    failure.place = place_of(failure.place or failure.message)
    failure.seed, failure.only, failure.taken, failure.choices = seed, only, state.taken, state.choices
    failure.log = state.log
  end
  return failure
end

-- The i-th of `parts` parts of a list, and what is left without it.
local function split(list, i, parts)
  local part, rest = {}, {}
  for k, item in ipairs(list) do
    local to = math.ceil(k * parts / #list) == i and part or rest
    to[#to + 1] = item
  end
  return part, rest
end

-- Delta debugging (Zeller and Hildebrandt, 2002) of the choices: a short list with which the same failure comes; then
-- none of it can be left out. `fails(list)` -> the failure, or nil.
local function shrink(list, fails)
  local best
  -- Which choices were taken, if it fails and there are fewer than of `now`.
  local function try(candidate, now)
    local failure = fails(candidate)
    if failure and #failure.taken < #now then
      best = failure
      return failure.taken
    end
  end
  local now = try({}, list) or list
  -- Of a long list its shortest beginning, for what comes after a failure is no part of it.
  local without, with = 0, #now
  while #now > LONG and with - without > 1 do
    local middle = math.floor((without + with) / 2)
    local taken = try({ unpack(now, 1, middle) }, now)
    if taken then
      now, with = taken, #taken
    else
      without = middle
    end
  end
  local parts = math.min(2, #now)
  while #now > 1 do
    local smaller, alone
    for i = 1, parts do
      alone = alone or try((split(now, i, parts)), now)
    end
    for i = 1, parts do
      smaller = smaller or alone or try(select(2, split(now, i, parts)), now)
    end
    if smaller then
      now, parts = smaller, alone and 2 or math.max(parts - 1, 2)
    elseif parts >= #now then
      break
    else
      parts = parts * 2
    end
    parts = math.min(parts, #now)
  end
  return best
end

-- The failure in its shortest form, with its interleaving.
local function explain(fn, options, first)
  local again = attempt(fn, options, first.seed, first.only, true)
  if not again then
    first.unrepeatable = true
    return first
  end
  if again.place ~= first.place then
    again.unrepeatable = true
    return again
  end
  local found, runs, since = again, 0, os.clock()
  if options.shrink ~= false and not first.only and #again.taken > 0 then
    local smallest = shrink(again.taken, function(list)
      if runs >= SHRINK_RUNS or os.clock() - since > SHRINK_SECONDS then
        return nil
      end
      runs = runs + 1
      local failure = attempt(fn, options, first.seed, list, false)
      return failure and failure.place == first.place and failure or nil
    end)
    if smallest and #smallest.taken < #again.taken then
      local shown = attempt(fn, options, first.seed, smallest.taken, true)
      if shown and shown.place == first.place then
        found = shown
        found.only = smallest.taken
      end
    end
  end
  found.shrunk_from = #again.taken
  found.shrink_runs = runs
  return found
end

-- Runs a test with all its seeds. -> true, how many; nil, the failure.
function testing.explore(fn, given)
  local options = options_of(given, 2)
  if core.is_running() then
    error("testing: a runtime is running: each test starts one of its own, so call pierrot.shutdown() before", 2)
  end
  local one, only
  if options.seed then
    one, only = testing.parse_seed(options.seed)
    if not one then
      error("testing: seed: " .. only, 2)
    end
  end
  local runs = 0
  for seed = one or 1, one or options.seeds do
    runs = runs + 1
    local failure = attempt(fn, options, seed, only, false)
    if failure then
      failure = explain(fn, options, failure)
      failure.runs = runs
      failure.token = testing.format_seed(failure.seed, failure.only)
      return nil, failure
    end
  end
  return true, runs
end

-- The same, raising the report. `command`: how to repeat it, with %s for the seed.
function testing.run(fn, given, command)
  if type(fn) ~= "function" then
    error("testing.run: a function expected, got " .. type(fn), 2)
  end
  local ok, failure = testing.explore(fn, given)
  if not ok then
    error(report.text(failure, (command or "PIERROT_SEED=%s"):format(failure.token)), 0)
  end
  return failure
end

-- For other test frameworks: a function without arguments that runs the test.
function testing.test(fn, given)
  return function()
    testing.run(fn, given, "PIERROT_SEED=%s busted ...")
  end
end

-- it(name, [options,] fn), in the framework whose global `it` there is.
function testing.it(name, given, fn)
  if fn == nil then
    given, fn = nil, given
  end
  local env = getfenv(2)
  local register = env and env.it or rawget(_G, "it")
  if type(register) ~= "function" or register == testing.it then
    error("testing.it: there is no `it` here: run the file with `pierrot test`, or with busted", 2)
  end
  if testing.registers then   -- pierrot test, which knows of seeds itself
    return testing.registers(name, given, fn)
  end
  local where = debug.getinfo(2, "S").short_src
  register(name, function()
    testing.run(fn, given, ("PIERROT_SEED=%%s busted %s --filter %q"):format((where:gsub("%%", "%%%%")),
                                                                             (name:gsub("%%", "%%%%"))))
  end)
end

return testing
