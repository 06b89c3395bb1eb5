require("jit.v").on("/tmp/h/jv2.txt")
--- Runs one benchmark inside Pierrot, once to warm up and then RUNS times.
--
--     pierrot run bench/run.lua PROGRAM [RUNS [PARAMETER=NUMBER...]]
--
-- Prints a line for each run: program, nanoseconds an operation, operations, result. The Erlang side
-- (erlang/bench.erl) takes the same arguments and prints the same lines. Parameters that are not
-- given are those of the first benchmark in params.lua that has this program.
--
-- bench/PROGRAM.lua returns { run = function(parameters) ... return result, ops, seconds end }. `run`
-- is called in this script's actor, spawns what it needs, stops it again, and raises an error if
-- the work was not done to the last message.

local directory = arg[0]:match("^(.*)/[^/]*$") or "."

local function defaults_of(name)
  for _, benchmark in ipairs(dofile(directory .. "/params.lua")) do
    if (benchmark.program or benchmark.name) == name then return benchmark.parameters end
  end
  error("run.lua: no benchmark " .. tostring(name), 0)
end

local name, runs = arg[1], tonumber(arg[2] or 5)
if not name or not runs then
  error("usage: pierrot run bench/run.lua PROGRAM [RUNS [PARAMETER=NUMBER...]]", 0)
end

local parameters = {}
for key, value in pairs(defaults_of(name)) do parameters[key] = value end
for i = 3, #arg do
  local key, value = arg[i]:match("^([%w_]+)=(%d+)$")
  if not parameters[key] then error("run.lua: " .. name .. " has no parameter " .. arg[i], 0) end
  parameters[key] = tonumber(value)
end

local benchmark = dofile(("%s/%s.lua"):format(directory, name))
benchmark.run(parameters)
for _ = 1, runs do
  local result, ops, seconds = benchmark.run(parameters)
  print(("%s %.3f %d %d"):format(name, seconds * 1e9 / ops, ops, result))
end
