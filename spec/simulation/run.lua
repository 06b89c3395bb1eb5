-- Simulated programs, one after the other (`make simulate` calls it):
--   luajit spec/simulation/run.lua [--programs N] [--from SEED] [--seed N] [--batch N] [--quiet]
--
-- Each runs in tick mode, by a seed that decides everything; then the model judges what was seen. Ten programs share a
-- runtime, one after the other, so that records, names and memory are used again. A program that fails is tried alone, shrunk to
-- the shortest that fails in the same way, shown, and named by the command that repeats it. Exit status 1, when any has failed.

local pierrot = require "pierrot"
local core = require "pierrot.core"
local program = require "simulation.program"
local world = require "simulation.world"
local model = require "simulation.model"

io.stdout:setvbuf "line"

jit.off()

local BATCH = 10
local WORKERS = 2

local notes, address = world.new_notes()

-- Compiling takes half of the time where states live as shortly as here: in every fourth runtime.
local function start(seed, throughput)
  notes.interpreted = math.ceil(seed / BATCH) % 4 == 0 and 0 or 1
  assert(pierrot.start { workers = WORKERS, throughput = throughput, log = "none",
    [pierrot._explore] = { seed = seed, plain = true, turns = 100000 } })
end

-- The spawn ops by number.
local function look(ops, specs)
  for _, op in ipairs(ops) do
    if op.op == "spawn" then
      specs[op.to] = op
    end
    look(op.ops or {}, specs)
  end
  return specs
end

-- What is done outside alone.
local outside = {
  advance = function(op) core.explore_wait(op.seconds) end,
  turns = function(op) core.explore_turns(op.n) end,
  jump = function(op)
    core.explore_jump(op.seconds)
    world.note("jump", 0)
  end,
  stall = function(op) core.explore_stall(op.worker, op.n) end,
  alloc = function(op)
    core.explore_fail_alloc(op.n)
    world.note("alloc", 0)
  end,
}

-- What has come to the program itself.
local function take_own()
  for what, ref in function() return pierrot.receive(0) end do
    if what == "down" or what == "exit" then
      world.note(what, 0, (world.key_of(ref)))
    end
  end
end

-- Permanent ones come back until their limit is reached.
local function end_all()
  for _ = 1, 8 do
    local left
    for k = 1, program.ACTORS do
      left = pierrot.kill(world.name(k)) and k or left
    end
    if not left then
      return
    end
    core.explore_wait(0.1)
  end
  error({ violation = "there are actors that cannot be killed" }, 0)
end

-- Runs a program in the runtime there is. -> nil, or what is wrong, and the number of notes
local function run(made)
  core.explore_reseed(made.seed)
  take_own()   -- the last one's
  notes.count, notes.lost, notes.serial = 0, 0, 0
  require("ffi").fill(notes.lives, 64 * 4)
  notes.run = notes.run + 1
  world.open(address)
  local judge = model.new(look(made.ops, {}), world.rules_of)
  local seen = 0
  local function note()
    while seen < notes.count do
      local it = notes.list[seen]
      seen = seen + 1
      judge:note { what = world.NOTES[it.what], who = it.who, a = it.a, b = it.b, c = it.c, ms = it.ms }
    end
  end
  local ok, err = pcall(function()
    local self = { k = 0, timers = {}, every = {} }
    for _, op in ipairs(made.ops) do
      local own = outside[op.op]
      if own then
        own(op)
      else
        world.verbs[op.op](self, op)
      end
      note()
    end
    core.explore_fail_alloc(0)
    local how = core.explore_wait()
    if how == "restless" then
      error({ violation = "it does not come to rest" }, 0)
    end
    take_own()
    note()
    local alive = {}
    for k = 1, program.ACTORS do
      alive[k] = pierrot.whereis(world.name(k)) ~= nil
    end
    judge:finish(alive)
    end_all()
  end)
  core.explore_fail_alloc(0)
  world.check()
  if ok then
    return nil, seen
  end
  local text = type(err) == "table" and err.violation or "the program itself: " .. tostring(err)
  return text, seen
end

-- The same in a runtime of its own.
local function run_alone(made)
  start(made.seed, made.throughput)
  local problem, count = run(made)
  if not pierrot.shutdown(10) then
    problem = problem or "its actors do not end"
  end
  return problem, count
end

-- A violation without its numbers.
local function kind_of(problem) return (problem:gsub("%d+", "N")) end

local function shrink(made, problem)
  local kind, ops = kind_of(problem), made.ops
  local function fails(candidate)
    local again = run_alone { seed = made.seed, throughput = made.throughput, ops = candidate }
    return again and kind_of(again) == kind and again
  end
  local smaller = true
  while smaller do
    smaller = false
    for candidate in program.smaller(ops) do
      local again = fails(candidate)
      if again then
        ops, problem, smaller = candidate, again, true
        break
      end
    end
  end
  return ops, problem
end

local function notes_as_text()
  local out = {}
  for i = 0, notes.count - 1 do
    local it = notes.list[i]
    out[i + 1] = ("    %8.3f  a%-3d %-8s %d %d %d"):format(it.ms / 1000, it.who, world.NOTES[it.what], it.a, it.b, it.c)
  end
  return "  what was seen (seconds, who, what):\n" .. table.concat(out, "\n")
end

local function report(made, problem)
  print(("seed %d: %s"):format(made.seed, problem))
  local seen = notes_as_text()
  local alone = run_alone(made)
  if not alone then
    print(seen)
    print(("  only after the programs before it in its runtime; to repeat it: make simulate BATCH=%d"):format(made.seed))
    return
  end
  local ops, shortest = shrink(made, alone)
  run_alone { seed = made.seed, throughput = made.throughput, ops = ops }
  print(("  shrunk from %d ops to %d: %s"):format(program.size(made.ops), program.size(ops), shortest))
  io.write(program.show(ops, "    "))
  print(notes_as_text())
  print(("  to repeat it: make simulate SEED=%d"):format(made.seed))
end

local options = { programs = 2000, from = 1 }
do
  local i = 1
  while arg[i] do
    local name = arg[i]:match "^%-%-(%l+)$"
    options[name or "?"] = name == "quiet" or tonumber(arg[i + 1])
    i = i + (name == "quiet" and 1 or 2)
  end
  if options.seed then
    options.from, options.programs = options.seed, 1
  end
  if options.batch then   -- all programs of its runtime up to this one
    options.from = options.batch - (options.batch - 1) % BATCH
    options.programs = options.batch - options.from + 1
  end
end

local failed, seen, first, what = 0, 0, nil, nil
local running = false
for seed = options.from, options.from + options.programs - 1 do
  local made = program.make(seed)
  if not running then
    start(seed, made.throughput)
    running = true
  end
  local problem, count = run(made)
  seen = seen + count
  if problem or seed % BATCH == 0 or seed == options.from + options.programs - 1 then
    running = false
    if not pierrot.shutdown(10) and not problem then
      problem = "its actors do not end"
    end
  end
  if problem then
    failed, first, what = failed + 1, first or seed, what or problem
    if not options.quiet then
      report(made, problem)
    end
    if options.quiet or failed == 5 then
      break
    end
  end
end
if options.quiet then
  print(first and ("found by seed %d: %s"):format(first, what) or ("not found by %d programs"):format(options.programs))
else
  print(("%d programs, %d things seen, %d failed"):format(options.programs, seen, failed))
end
os.exit(failed == 0 and 0 or 1)
