-- Values as people read them: bounded in depth, in items and in length, safe with cycles, and with any metatable.
--
-- A table stands on one line where it fits, else it has a line for each item. Every table that is shown costs items
-- of one budget, so that the whole is bounded too.

local pierrot = require "pierrot"
local columns = require "pierrot.columns"
local values = require "pierrot.values"

local show = {}

local DEPTH, ITEMS, ALL_ITEMS, STRING, TOP_STRING = 5, 60, 300, 200, 4000

local colours = { string = "32", number = "36", boolean = "33", ["nil"] = "33", key = "34", ref = "35", note = "2",
                  other = "35", error = "31" }

local function paint(s, kind, text)
  return s.colour and ("\27[%sm%s\27[0m"):format(colours[kind], text) or text
end

local width_of = columns.width_of

local escapes = { ["\n"] = "\\n", ["\t"] = "\\t", ["\r"] = "\\r", ['"'] = '\\"', ["\\"] = "\\\\", ["\0"] = "\\0" }

-- The length of the UTF-8 character at `at`, or nil.
local function character(text, at)
  local found = text:match("^[\194-\223][\128-\191]", at) or text:match("^[\224-\239][\128-\191][\128-\191]", at)
    or text:match("^[\240-\244][\128-\191][\128-\191][\128-\191]", at)
  return found and #found
end

local function quoted(text, most)
  local cut = #text > most and #text or nil
  if cut then
    text = text:sub(1, most)
  end
  local out, at = {}, 1
  while at <= #text do
    local byte = text:byte(at)
    local n = byte >= 128 and character(text, at) or nil
    if n then
      out[#out + 1] = text:sub(at, at + n - 1)
    elseif byte >= 32 and byte < 127 or escapes[text:sub(at, at)] then
      local c = text:sub(at, at)
      -- Not \0 before a digit: that would read as another number.
      out[#out + 1] = c == "\0" and text:match("^%d", at + 1) and "\\000" or escapes[c] or c
    else
      out[#out + 1] = ("\\%03d"):format(byte)
    end
    at = at + (n or 1)
  end
  return '"' .. table.concat(out) .. '"' .. (cut and (" ... (%d bytes)"):format(cut) or "")
end

local function number(value)
  if value ~= value then return "nan" end
  if value == math.huge then return "inf" end
  if value == -math.huge then return "-inf" end
  if value == 0 and 1 / value < 0 then return "-0" end
  local short = ("%.14g"):format(value)
  return tonumber(short) == value and short or ("%.17g"):format(value)
end

local function described(value)
  local ok, text = pcall(tostring, value)
  if not ok or type(text) ~= "string" then
    text = "(" .. type(value) .. " whose __tostring failed)"
  end
  if #text > TOP_STRING then
    text = text:sub(1, TOP_STRING) .. " ..."
  end
  return (text:gsub("[%z\1-\8\11-\31\127]", "?"))
end

local function ref(value)
  local ok, info = pcall(pierrot.info, value)
  local text = described(value)
  return "<" .. text .. (ok and info and ", " .. info.state or ", dead") .. ">"
end

local function simple(s, value, most)
  local kind = type(value)
  if kind == "string" then
    return paint(s, "string", quoted(value, most or STRING))
  elseif kind == "number" then
    return paint(s, "number", number(value))
  elseif kind == "boolean" or kind == "nil" then
    return paint(s, kind, tostring(value))
  elseif kind == "userdata" and values.is_ref(value) then
    return paint(s, "ref", ref(value))
  elseif kind == "function" then
    local info = debug.getinfo(value, "S")
    return paint(s, "other", info.what == "C" and "<function in C>"
      or ("<function %s:%d>"):format(info.short_src, info.linedefined))
  end
  return paint(s, "other", "<" .. described(value) .. ">")
end

local ranks = { number = 1, string = 2, boolean = 3 }

local function sorted(a, b)
  local x, y = type(a), type(b)
  if x ~= y then
    return (ranks[x] or 4) < (ranks[y] or 4)
  elseif x == "number" or x == "string" then
    return a < b
  end
  return tostring(a) < tostring(b)
end

-- The items of a table: those from 1 on, then the others by key; at most ITEMS of them, and how many there are more.
local function items_of(t)
  local count, keys, total = 0, {}, 0
  while count < ITEMS and rawget(t, count + 1) ~= nil do
    count = count + 1
  end
  for key in next, t do
    total = total + 1
    if total > 100000 then
      break   -- no more than a glance at a huge one
    end
    if not (type(key) == "number" and key >= 1 and key <= count and key % 1 == 0) and #keys < 10000 then
      keys[#keys + 1] = key
    end
  end
  pcall(table.sort, keys, sorted)   -- where a __tostring fails, in any order
  for i = #keys, math.max(ITEMS - count, 0) + 1, -1 do
    keys[i] = nil
  end
  return count, keys, total - count - #keys, total > 100000
end

local words = {}
for word in ([[and break do else elseif end false for function goto if in local nil not or repeat return then true until
  while]]):gmatch "%a+" do
  words[word] = true
end

function show.is_name(text)
  return text:find "^[%a_][%w_]*$" ~= nil and not words[text]
end

local render

local function key_text(s, key)
  if type(key) == "string" and show.is_name(key) then
    return paint(s, "key", key)
  elseif type(key) == "table" then
    return "[" .. paint(s, "other", "<" .. described(key) .. ">") .. "]"
  end
  return "[" .. simple(s, key) .. "]"
end

local function step(path, key)
  if type(key) == "string" and show.is_name(key) then
    return path .. "." .. key
  end
  return ("%s[%s]"):format(path, type(key) == "string" and quoted(key, 20) or described(key))
end

local function render_table(s, t, depth, indent, path)
  if s.above[t] then
    return paint(s, "note", "<cycle: " .. s.above[t] .. ">")
  elseif next(t) == nil then
    return "{}"
  elseif depth >= DEPTH or s.left <= 0 then
    return paint(s, "note", "{ ... }")
  end
  s.above[t] = path
  local count, keys, more, huge = items_of(t)
  local texts, single, length = {}, true, 4
  local function add(key, value)
    if s.left <= 0 then
      more = more + 1
      return
    end
    s.left = s.left - 1
    local head = key and key_text(s, key) .. " = " or ""
    local text = head .. render(s, value, depth + 1, indent + 2, step(path, key or #texts + 1))
    single = single and not text:find("\n", 1, true)
    length = length + width_of(text) + 2
    texts[#texts + 1] = text
  end
  for i = 1, count do
    add(nil, rawget(t, i))
  end
  for _, key in ipairs(keys) do
    add(key, rawget(t, key))
  end
  if more > 0 then
    texts[#texts + 1] = paint(s, "note", ("... %s%d more"):format(huge and "at least " or "", more))
    length = length + 16
  end
  s.above[t] = nil
  if single and indent + length <= s.width then
    return "{ " .. table.concat(texts, ", ") .. " }"
  end
  local pad = (" "):rep(indent + 2)
  return "{\n" .. pad .. table.concat(texts, ",\n" .. pad) .. "\n" .. (" "):rep(indent) .. "}"
end

function render(s, value, depth, indent, path)
  if type(value) ~= "table" then
    return simple(s, value)
  end
  local mt = debug.getmetatable(value)
  if type(mt) == "table" and rawget(mt, "__tostring") ~= nil then
    local text = described(value):gsub("\n", "\n" .. (" "):rep(indent))
    return paint(s, "other", text)
  end
  return render_table(s, value, depth, indent, path)
end

-- show.value(value, options) -> text. options: width (80), colour (false)
function show.value(value, options)
  options = options or {}
  local s = { width = options.width or 80, colour = options.colour, above = {}, left = ALL_ITEMS }
  if type(value) == "string" then
    return simple(s, value, TOP_STRING)
  end
  return render(s, value, 0, 0, "it")
end

-- show.values(options, ...) -> one line of texts
function show.values(options, ...)
  local texts = {}
  for i = 1, select("#", ...) do
    texts[i] = show.value((select(i, ...)), options)
  end
  return table.concat(texts, "  ")
end

function show.paint(options, kind, text)
  return paint({ colour = options and options.colour }, kind, text)
end

return show
