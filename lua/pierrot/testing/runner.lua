-- `pierrot test FILE|DIR...`: loads files of tests, runs each test with its seeds, and says how it went. A file sees
--
--   describe(name, fn)          a group
--   it(name, [options,] fn)     a test: fn(t); also `test`
--   before_each(fn), after_each(fn)   around each run of each test of the group: fn(t)
--   pending(name)               a test to be written
--   assert                      luassert's where that is installed, so that files can be busted's as well
--
-- Each file has globals of its own, and modules that it loads are loaded anew by the next one.

local testing = require "pierrot.testing"

local runner = {}

local function quote(text)
  return "'" .. text:gsub("'", "'\\''") .. "'"
end

-- The files below these paths, in the order given; of a directory those named *_spec.lua and *_test.lua. Or nil and
-- what is wrong.
function runner.files(paths)
  local files = {}
  for _, path in ipairs(paths) do
    local pipe = io.popen(([[if [ -d %s ]; then
      echo d; find -L %s -type f \( -name '*_spec.lua' -o -name '*_test.lua' \) | LC_ALL=C sort
    elif [ -e %s ]; then echo f; fi]]):format(quote(path), quote(path), quote(path)))
    local kind = pipe:read "*l"
    if kind == "d" then
      for line in pipe:lines() do
        files[#files + 1] = line
      end
    end
    pipe:close()
    if kind == "f" then
      files[#files + 1] = path
    elseif not kind then
      return nil, ("%s: there is no such file or directory"):format(path)
    end
  end
  return files
end

-- The tests of a file, in order: { name, full, options, fn, before = list, after = list, pending = true }. Or nil and
-- what is wrong.
function runner.load(file)
  local chunk, problem = loadfile(file)
  if not chunk then
    return nil, problem
  end
  local tests = {}
  local group = { name = "", before = {}, after = {} }

  local function add(name, given, fn)
    if fn == nil then
      given, fn = nil, given
    end
    if type(name) ~= "string" or type(fn) ~= "function" then
      error("it: a name and a function expected", 3)
    end
    local test = { name = group.name .. name, options = given, fn = fn, before = {}, after = {} }
    local each = group
    while each do
      for i = #each.before, 1, -1 do
        table.insert(test.before, 1, each.before[i])
      end
      for _, after in ipairs(each.after) do
        test.after[#test.after + 1] = after
      end
      each = each.parent
    end
    tests[#tests + 1] = test
  end

  local env = setmetatable({}, { __index = _G })
  env._G = env
  function env.describe(name, fn)
    if type(name) ~= "string" or type(fn) ~= "function" then
      error("describe: a name and a function expected", 2)
    end
    group = { name = group.name .. name .. " ", before = {}, after = {}, parent = group }
    fn()
    group = group.parent
  end
  env.context = env.describe
  function env.it(name, given, fn) return add(name, given, fn) end
  env.test = env.it
  function env.pending(name)
    tests[#tests + 1] = { name = group.name .. tostring(name), pending = true }
  end
  function env.before_each(fn) group.before[#group.before + 1] = fn end
  function env.after_each(fn) group.after[#group.after + 1] = fn end
  local found, luassert = pcall(require, "luassert")
  if found then
    env.assert = luassert
  end
  testing.registers = add
  setfenv(chunk, env)
  local ran, err = pcall(chunk)
  testing.registers = nil
  if not ran then
    return nil, tostring(err)
  end
  return tests
end

local function body_of(test)
  return function(t)
    for _, before in ipairs(test.before) do
      before(t)
    end
    test.fn(t)
    for _, after in ipairs(test.after) do
      after(t)
    end
  end
end

local function shell(word)
  return word:find "^[%w_./:,=-]+$" and word or quote(word)
end

local function plural(n, what)
  return ("%d %s%s"):format(n, what, n == 1 and "" or "s")
end

local INDENT = (" "):rep(10)

local function indented(text)
  return (text:gsub("\n", "\n" .. INDENT))
end

-- -> "ok" or "FAILED", how many runs, and what is said of it
local function run(file, test, options)
  local ran, ok, result = pcall(testing.explore, body_of(test), test.options)
  if not ran then
    return "FAILED", 0, tostring(ok)
  elseif ok then
    return "ok", result, plural(result, "run")
  end
  local command = ("pierrot test %s --filter %s --seed %s"):format(shell(file), shell(test.name), result.token)
  if options.workers then
    command = ("%s --workers %d"):format(command, options.workers)
  end
  return "FAILED", result.runs, testing.report.text(result, command)
end

-- Counts into `tally`.
local function run_file(file, options, tally)
  local out = io.stdout
  local tests, problem = runner.load(file)
  out:write(file, "\n")
  if not tests then
    tally.FAILED = tally.FAILED + 1
    out:write("  FAILED  cannot be loaded: ", indented(problem), "\n")
    return
  end
  for _, test in ipairs(tests) do
    if test.pending and not options.filter then
      tally.pending = tally.pending + 1
      out:write("  pending ", test.name, "\n")
    elseif not test.pending and test.name:find(options.filter or "", 1, true) then
      local outcome, count, text = run(file, test, options)
      tally[outcome], tally.runs = tally[outcome] + 1, tally.runs + count
      out:write(("  %-7s %s"):format(outcome, test.name))
      out:write(outcome == "ok" and (" (%s)\n"):format(text) or "\n" .. INDENT .. indented(text) .. "\n")
    end
    out:flush()
  end
end

-- A file's modules are found beside it, and are nobody else's.
local function within(file, fn)
  local path, known = package.path, {}
  local dir = file:match "^(.*/)[^/]*$" or ""
  package.path = ("%s?.lua;%s?/init.lua;%s"):format(dir, dir, path)
  for name in pairs(package.loaded) do
    known[name] = true
  end
  fn()
  for name in pairs(package.loaded) do
    if not known[name] and not name:find "^pierrot" and not name:find "^luassert" and not name:find "^say" then
      package.loaded[name] = nil
    end
  end
  package.path = path
end

local function wrong(fmt, ...)
  io.stderr:write("pierrot: test: ", fmt:format(...), "\n")
end

-- options: { paths =, seeds =, seed =, filter =, workers =, log = }. -> exit status
function runner.main(options)
  local files, problem = runner.files(options.paths)
  if not files then
    wrong("%s", problem)
    return 2
  end
  local seed, no_seed = testing.parse_seed(options.seed or 1)
  if not seed then
    wrong("--seed: %s", no_seed)
    return 2
  end
  testing.forced = { seed = options.seed, seeds = options.seeds, workers = options.workers, log = options.log }
  local tally = { ok = 0, FAILED = 0, pending = 0, runs = 0 }
  for _, file in ipairs(files) do
    within(file, function() run_file(file, options, tally) end)
  end
  if tally.ok + tally.FAILED + tally.pending == 0 then
    wrong("there are no tests%s in %s", options.filter and (" with %q in their names"):format(options.filter) or "",
          table.concat(options.paths, ", "))
    return 1
  end
  print(("%s%s\n%d passed, %d failed"):format(plural(tally.runs, "run"),
    tally.pending > 0 and (", %d pending"):format(tally.pending) or "", tally.ok, tally.FAILED))
  return tally.FAILED > 0 and 1 or 0
end

return runner
