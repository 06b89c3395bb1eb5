-- Writes docs/reference.md from lua/pierrot/meta.lua, on standard output:
--   luajit reference.lua META.lua >reference.md
-- Everything that meta.lua annotates is in it: functions with their parameters and what they return, the fields of
-- tables, and the names of types. A parameter without a type, and a piece of example code that is no Lua, are errors.

local path = assert(arg[1], "usage: reference.lua META.lua")

-- { kind = "function" | "class" | "alias" | "section", name =, text = { lines }, params =, returns =, fields =, ... }
local items = {}
local pending = { text = {} }

local function complain(number, fmt, ...)
  io.stderr:write(("%s:%d: %s\n"):format(path, number, fmt:format(...)))
  os.exit(1)
end

-- A type may hold blanks inside its brackets, and words that follow a comma or a colon.
local function type_and_rest(text)
  local depth, at = 0, 1
  while at <= #text do
    local c = text:sub(at, at)
    if c:find "[%(%[{<]" then
      depth = depth + 1
    elseif c:find "[%)%]}>]" then
      depth = depth - 1
    elseif c == " " and depth == 0 and not text:sub(1, at - 1):find "[:,]$" then
      break
    end
    at = at + 1
  end
  return text:sub(1, at - 1), text:sub(at + 1)
end

local tags = {}

function tags.param(rest)
  local name, more = rest:match "^(%S+)%s+(.*)$"
  local kind, text = type_and_rest(more)
  table.insert(pending.params, { name = name, type = kind, text = text })
end

function tags.field(rest)
  local name, more = rest:match "^(%b[])%s+(.*)$"
  if not name then name, more = rest:match "^(%S+)%s+(.*)$" end
  local kind, text = type_and_rest(more)
  table.insert(pending.class.fields, { name = name, type = kind, text = text })
end

tags["return"] = function(rest)
  local kind, more = type_and_rest(rest)
  local name, text = more:match "^(%S+)%s*(.*)$"
  table.insert(pending.returns, { type = kind, name = name or "", text = text or "" })
end

function tags.class(rest)
  local name, parent = rest:match "^([%w_.]+)%s*:?%s*([%w_.]*)"
  pending.class = { kind = "class", name = name, parent = parent ~= "" and parent, text = pending.text, fields = {} }
  items[#items + 1] = pending.class
  pending.text = {}
end

function tags.alias(rest)
  local name, kind = rest:match "^(%S+)%s+(.*)$"
  items[#items + 1] = { kind = "alias", name = name, type = kind, text = pending.text }
  pending.text = {}
end

function tags.generic() end
function tags.meta() end

local function reset()
  pending = { text = {}, params = {}, returns = {} }
end

-- Examples are pieces: a statement, or a field of a table.
local function check_examples(number, text)
  for code in (table.concat(text, "\n") .. "\n"):gmatch "```lua\n(.-)```" do
    if not loadstring(code) and not loadstring("return {" .. code .. "}") then
      complain(number, "the example is no Lua:\n%s", code)
    end
  end
end

local number = 0
reset()
for line in io.lines(path) do
  number = number + 1
  local tag, rest = line:match "^%-%-%-@(%l+)%s*(.*)$"
  local text = line:match "^%-%-%- ?(.*)$"
  local object, mark, name, arguments = line:match "^function ([%w_]+)([.:])([%w_]+)(%b())"
  local title = line:match "^%-%- (.-) %-%-%-%-+$"
  if tag then
    if not tags[tag] then complain(number, "unknown annotation @%s", tag) end
    tags[tag](rest)
  elseif text then
    table.insert(pending.text, text)
  elseif object then
    check_examples(number, pending.text)
    items[#items + 1] = { kind = "function", object = object, mark = mark, name = name, arguments = arguments,
                          text = pending.text, params = pending.params, returns = pending.returns }
    local given = {}
    for _, param in ipairs(pending.params) do given[param.name:gsub("%?$", "")] = true end
    for argument in arguments:gmatch "[%w_.]+" do
      if not given[argument] then complain(number, "%s: the parameter %s has no type", name, argument) end
    end
    reset()
  elseif title then
    items[#items + 1] = { kind = "section", name = title }
    reset()
  elseif line == "" then
    reset()
  end
end

-- Markdown ----------------------------------------------------------------------------------------------------------

local function put(fmt, ...)
  io.write(fmt:format(...), "\n")
end

local function code(text)
  return text:find "`" and text or "`" .. text .. "`"
end

local function prose(text)
  if #text > 0 then put("%s\n", table.concat(text, "\n")) end
end

-- ": more" of a sentence, or nothing
local function more(text)
  return text ~= "" and ": " .. text or ""
end

local called = { Ref = "ref", Timer = "timer", Monitor = "monitor", Deferred = "deferred", log = "pierrot.log",
                 Breaker = "breaker", Test = "t", Probe = "probe", Fault = "fault" }

local function heading(item)
  local before = (called[item.object] or item.object) .. item.mark
  return before .. item.name .. (item.arguments:gsub("[%w_]+", function(name)
    for _, param in ipairs(item.params) do
      if param.name == name .. "?" then return name .. "?" end
    end
    return name
  end))
end

put [[
# Reference

Made from `lua/pierrot/meta.lua`, which editors read, by `make reference`; `make check` says when it is out of date.
The [guide](guide.md) explains these things and shows them at work.

Misuse raises an error at the caller's line. What can fail in an orderly program returns nil and a reason. Times are
seconds. "Inside" is in an actor, "outside" a plain LuaJIT program. "Waits" means that the calling actor is suspended
and its worker goes on with others; outside, the calling thread blocks. `name?` may be left out.
]]
for _, item in ipairs(items) do
  if item.kind == "section" then
    put("## %s\n", item.name)
  elseif item.kind == "function" then
    put("### `%s`\n", heading(item))
    prose(item.text)
    for _, param in ipairs(item.params) do
      put("- `%s`: %s%s", param.name:gsub("%?$", ""), code(param.type), more(param.text))
    end
    for _, back in ipairs(item.returns) do
      put("- returns %s%s", code(back.type), (back.name ~= "" and " " .. back.name or "") .. more(back.text))
    end
    if #item.params + #item.returns > 0 then put "" end
  elseif item.kind == "alias" then
    put("### %s\n", item.name)
    prose(item.text)
    put("%s\n", code(item.type))
  elseif item.name ~= "pierrot" then
    put("### %s%s\n", item.name, item.parent and ", and what " .. item.parent .. " has" or "")
    prose(item.text)
    for _, field in ipairs(item.fields) do
      put("- `%s`: %s%s", field.name, code(field.type), more(field.text))
    end
    if #item.fields > 0 then put "" end
  end
end
