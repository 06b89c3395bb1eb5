-- Dispatchers: the option `dispatchers` of start, the option `dispatcher` of spawn. They are made in src/dispatcher.c.

local dispatchers = {}

-- Where an actor is to run, as core.spawn takes it: PLACES * the dispatcher's number (0: none is named) + the worker's
-- there (0: any; HERE: the spawner's).
local PLACES = 2 ^ 16
dispatchers.HERE = PLACES - 1

-- -> the place, or nil and what is wrong
function dispatchers.place(core, name, worker)
  if type(name) ~= "string" then
    return nil, ("dispatcher: a name (string) expected, got %s"):format(type(name))
  end
  local number, names = core.dispatcher(name)
  if not number then
    local text = "there is no dispatcher '%s' (there are %s; others are named by pierrot.start{ dispatchers = ... })"
    return nil, text:format(name, names)
  end
  return PLACES * number + worker
end

local MOST, MOST_WORKERS = 30, 1024
local limits = { workers = MOST_WORKERS, throughput = 1e9 }

local function name_problem(name)
  if type(name) ~= "string" or #name < 1 or #name > 63 then
    local got = type(name) == "string" and #name .. " bytes" or type(name)
    return (": names of 1 to 63 bytes expected, got %s"):format(got)
  elseif name:find("%z") then
    return ": a name without zero bytes expected"
  elseif name == "default" then
    return ": the default one has start's own options workers and throughput"
  end
end

-- A number of workers, or { workers =, throughput = }, into `entry` = { name, workers, throughput }. -> what is wrong
local function take(entry, options)
  if type(options) ~= "table" then
    options = { workers = options }
  end
  for key in pairs(options) do
    if not limits[key] then
      return (".%s: unknown option '%s' (there are workers, throughput)"):format(entry[1], tostring(key))
    end
  end
  entry[2], entry[3] = options.workers or entry[2], options.throughput or entry[3]
  for at, key in ipairs { "workers", "throughput" } do
    local value = entry[at + 1]
    local right = type(value) == "number" and value >= 1 and value <= limits[key] and value % 1 == 0
    if not right and (value or key == "workers") then
      return (".%s: %s: a whole number from 1 to %g expected, got %s")
        :format(entry[1], key, limits[key], tostring(value or nil))
    end
  end
end

-- { blocking = 4, name = workers or { workers =, throughput = } } -> list of { name, workers, throughput }, "blocking"
-- first and there in any case, with false for the runtime's throughput; or nil and what is wrong.
function dispatchers.list(given)
  if given ~= nil and type(given) ~= "table" then
    return nil, (": a table { name = workers, ... } expected, got %s"):format(type(given))
  end
  local blocking, names = { "blocking", 4, 1 }, {}
  for name, options in pairs(given or {}) do
    local problem = name_problem(name)
    if not problem and name ~= "blocking" then
      names[#names + 1] = name
      names[name] = { name, false, false }
    end
    problem = problem or take(names[name] or blocking, options)
    if problem then
      return nil, problem
    end
  end
  if #names > MOST then
    return nil, (': at most %d beside "default" and "blocking" expected, got %d'):format(MOST, #names)
  end
  table.sort(names)
  local list = { blocking }
  for _, name in ipairs(names) do
    list[#list + 1] = names[name]
  end
  return list
end

return dispatchers
