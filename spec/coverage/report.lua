-- What the tests have reached, after `make coverage` has run them:  luajit spec/coverage/report.lua BUILD-DIR APART
-- APART: a build in which each envelope is allocated by itself, where tests of refused memory have run too.
--
-- A line for each file: lines that ran, branches that were taken at least once; then the core (src/*), the border (src/lua),
-- the library (src/embed), and the Lua half (lines only). Fails where the core is below LIMITS.
--
-- C: from gcov's JSON. A header's code is compiled into several files: the best of them counts, line by line and branch by branch.
-- What is known to be out of reach, and why, is in known.lua: it is counted apart. BUILD-DIR/coverage/unreached has the rest.
local json = require "cjson"
local build, apart = assert(arg[1]), assert(arg[2])
local known = dofile "spec/coverage/known.lua"
local LIMITS = { lines = 95, branches = 90 }

local function lines_of(command)
  local pipe = assert(io.popen(command))
  local list = {}
  for line in pipe:lines() do list[#list + 1] = line end
  pipe:close()
  return list
end

local root = lines_of("pwd")[1]

local function source_of(path)
  local list = {}
  for line in io.lines(path) do list[#list + 1] = line end
  return list
end

-- file -> { [line] = { count, branches = { { count }... } } }
local files = {}

local function add(file, entry)
  local lines = files[file]
  if not lines then
    lines = { source = source_of(file) }
    files[file] = lines
  end
  local key = entry.function_name and ("%d %s"):format(entry.line_number, entry.function_name) or tostring(entry.line_number)
  local line = lines[entry.line_number] or { count = 0, branches = {}, order = {} }
  lines[entry.line_number] = line
  line.count = line.count + entry.count
  for i, branch in ipairs(entry.branches) do
    local id = key .. " " .. i
    if not line.branches[id] then
      line.branches[id] = 0
      line.order[#line.order + 1] = id
    end
    line.branches[id] = line.branches[id] + branch.count
  end
end

local objects = lines_of(("find '%s/obj' -name '*.gcda'"):format(build))
assert(#objects > 0, "no counts in " .. build)
-- message.c is other code there.
for _, object in ipairs(lines_of(("find '%s/obj' -name '*.gcda' ! -name message.gcda"):format(apart))) do
  objects[#objects + 1] = object
end
for _, object in ipairs(objects) do
  local text = table.concat(lines_of(("gcov -j -t -b '%s' 2>/dev/null"):format(object)))
  for _, file in ipairs(json.decode(text).files) do
    local path = file.file:gsub("^" .. root:gsub("%p", "%%%0") .. "/", "")
    if path:find "^src/" then
      for _, line in ipairs(file.lines) do add(path, line) end
    end
  end
end

-- The reason why this line, or its branches, are known to be out of reach.
local function reason(kind, path, text)
  for _, entry in ipairs(known) do
    if (entry.kind == kind or kind == "branch" and entry.kind == "line") and (not entry.file or path:find(entry.file))
      and text:find(entry.text, 1, entry.plain ~= false) then
      entry.hits = (entry.hits or 0) + 1
      return entry.reason
    end
  end
end

local function group_of(path)
  return path:find "^src/lua/" and "border, src/lua" or path:find "^src/embed/" and "library, src/embed"
    or path:find "^src/" and "core, src" or "Lua half, lua/pierrot"
end

local totals, order, reasons, rows, unreached = {}, {}, {}, {}, {}

local function total(name)
  if not totals[name] then
    totals[name] = { lines = 0, run = 0, branches = 0, taken = 0 }
    order[#order + 1] = name
  end
  return totals[name]
end

local function count(path, lines)
  local row = { path = path, lines = 0, run = 0, branches = 0, taken = 0 }
  for number = 1, #lines.source do
    local line, text = lines[number], lines.source[number]
    if line then
      local why = line.count == 0 and reason("line", path, text)
      if why then
        reasons[why] = reasons[why] or { lines = 0, branches = 0 }
        reasons[why].lines = reasons[why].lines + 1
        reasons[why].branches = reasons[why].branches + #line.order
      else
        row.lines, row.run = row.lines + 1, row.run + (line.count > 0 and 1 or 0)
        if line.count == 0 then unreached[#unreached + 1] = ("%s:%d: line: %s"):format(path, number, text) end
        local missed = 0
        for _, id in ipairs(line.order) do
          if line.branches[id] > 0 then row.taken = row.taken + 1 else missed = missed + 1 end
        end
        local because = missed > 0 and line.count > 0 and reason("branch", path, text)
        if because then
          reasons[because] = reasons[because] or { lines = 0, branches = 0 }
          reasons[because].branches = reasons[because].branches + missed
          row.branches = row.branches + #line.order - missed
        else
          row.branches = row.branches + #line.order
          if missed > 0 and line.count > 0 then
            unreached[#unreached + 1] = ("%s:%d: %d of %d branches: %s"):format(path, number, missed, #line.order, text)
          end
        end
      end
    end
  end
  if row.lines == 0 then return end
  rows[#rows + 1] = row
  local group = total(group_of(path))
  for _, what in ipairs { "lines", "run", "branches", "taken" } do group[what] = group[what] + row[what] end
end

local paths = {}
for path in pairs(files) do paths[#paths + 1] = path end
table.sort(paths, function(a, b)
  local ga, gb = group_of(a), group_of(b)
  if ga ~= gb then return ga > gb end
  return a < b
end)
for _, path in ipairs(paths) do count(path, files[path]) end

for _, name in ipairs(lines_of(("cd '%s/lines' 2>/dev/null && ls"):format(build))) do
  local path = "lua/" .. name:gsub("#", "/")
  local file = assert(io.open(("%s/lines/%s"):format(build, name), "rb"))
  local bytes = file:read "*a"
  file:close()
  local lines = { source = source_of(path) }
  for number = 1, #lines.source do
    local byte = bytes:byte(number + 1)
    if byte > 0 then lines[number] = { count = byte == 3 and 1 or 0, branches = {}, order = {} } end
  end
  count(path, lines)
end

local function show(row, name)
  local function percent(part, whole) return whole == 0 and "" or ("%6.1f %%"):format(100 * part / whole) end
  print(("%-34s %8s of %5d lines  %8s of %5d branches"):format(name, percent(row.run, row.lines), row.lines,
    percent(row.taken, row.branches), row.branches))
end

for _, row in ipairs(rows) do show(row, row.path) end
print()
for _, name in ipairs(order) do show(totals[name], name) end
print()
local list = {}
for why in pairs(reasons) do list[#list + 1] = why end
table.sort(list)
if #list > 0 then print "Not counted above, for these reasons (spec/coverage/known.lua):" end
for _, why in ipairs(list) do
  print(("%6d lines %6d branches  %s"):format(reasons[why].lines, reasons[why].branches, why))
end
local file = assert(io.open(build .. "/coverage/unreached", "w"))
file:write(table.concat(unreached, "\n"), "\n")
file:close()
print(("\nUnreached: %s/coverage/unreached"):format(build))
local core = totals["core, src"]
local failed = 100 * core.run / core.lines < LIMITS.lines or 100 * core.taken / core.branches < LIMITS.branches
if failed then print(("The core is below %d %% of lines or %d %% of branches."):format(LIMITS.lines, LIMITS.branches)) end
os.exit(failed and 1 or 0)
