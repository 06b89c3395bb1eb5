-- What could follow the cursor: globals, fields, methods, names of actors and of modules.
--
-- Nothing is called for it: tables are looked into without their metamethods, but along __index tables.

local core = require "pierrot.core"
local show = require "pierrot.prompt.show"

local MOST = 200

local keywords = {}
for word in ([[and break do else elseif end false for function goto if in local nil not or repeat return then true until
  while]]):gmatch "%a+" do
  keywords[#keywords + 1] = word
end

-- Tables in which a field of `value` is looked for, in order.
local function places(value)
  local list, seen = {}, {}
  if type(value) == "table" then
    list[1] = value
  end
  for _ = 1, 20 do
    local mt = debug.getmetatable(value)
    local index = type(mt) == "table" and rawget(mt, "__index")
    if type(index) ~= "table" or seen[index] then
      break
    end
    seen[index] = true
    list[#list + 1] = index
    value = index
  end
  return list
end

local function field(value, name)
  for _, place in ipairs(places(value)) do
    local found = rawget(place, name)
    if found ~= nil then
      return found
    end
  end
end

local function add_fields(found, value, prefix, only_functions)
  for _, place in ipairs(places(value)) do
    for key, item in next, place do
      if type(key) == "string" and key:sub(1, #prefix) == prefix and show.is_name(key) and not found[key] and
         (key:sub(1, 1) ~= "_" or prefix ~= "") and (not only_functions or type(item) == "function") then
        found[key] = true
      end
    end
  end
end

local ffi = require "ffi"
pcall(ffi.cdef, [[
typedef struct { size_t pr_count; char **pr_paths; size_t pr_rest[16]; } pr_glob;
int glob(const char *, int, void *, void *);
void globfree(void *);
]])

-- Files that a module's name beginning with `prefix` could be.
local function add_files(found, prefix)
  if prefix:find "[^%w_.%-]" then
    return
  end
  for template in package.path:gmatch "[^;]+" do
    local head, tail = template:match "^(.-)%?(.*)$"
    if head and not tail:find("?", 1, true) then
      local result = ffi.new "pr_glob"
      if ffi.C.glob(head .. prefix:gsub("%.", "/") .. "*" .. tail, 0, nil, result) == 0 then
        for i = 0, math.min(tonumber(result.pr_count), MOST) - 1 do
          local path = ffi.string(result.pr_paths[i])
          found[path:sub(#head + 1, #path - #tail):gsub("/", ".")] = true
        end
      end
      ffi.C.globfree(result)
    end
  end
end

local function add_modules(found, prefix)
  for _, list in ipairs { package.loaded, package.preload } do
    for name in next, list do
      if type(name) == "string" and name:sub(1, #prefix) == prefix then
        found[name] = true
      end
    end
  end
  add_files(found, prefix)
end

local function answer(found, prefix, closing)
  local list = {}
  for name in pairs(found) do
    list[#list + 1] = name
  end
  table.sort(list)
  if #list == 0 then
    return "", ""
  elseif #list == 1 then
    return list[1]:sub(#prefix + 1) .. closing, ""
  end
  local first, last, common = list[1], list[#list], #prefix
  while common < #first and first:byte(common + 1) == last:byte(common + 1) do
    common = common + 1
  end
  local more = #list - MOST
  for i = #list, MOST + 1, -1 do
    list[i] = nil
  end
  if more > 0 then
    list[#list + 1] = ("... %d more"):format(more)
  end
  return first:sub(#prefix + 1, common), table.concat(list, "\n")
end

-- The string that the text ends in: what stands before it, its quote, what there is of it; nil: it ends in none.
local function open_string(text)
  local at = 1
  while true do
    local from, _, quote = text:find("([\"'])", at)
    local comment = text:find("--", at, true)
    if not from or comment and comment < from then
      return nil
    end
    local stop = from + 1
    while true do
      local c = text:sub(stop, stop)
      if c == "" then
        return text:sub(1, from - 1), quote, text:sub(from + 1)
      elseif c == quote then
        break
      end
      stop = stop + (c == "\\" and 2 or 1)
    end
    at = stop + 1
  end
end

-- complete(text up to the cursor, environment) -> what to insert, choices (a line each)
return function(text, env)
  local found = {}
  local before, quote, part = open_string(text)
  if before then
    if before:find "require%s*%(?%s*$" or before:find "reload%s*%(?%s*$" then
      add_modules(found, part)
    else
      for name in core.names(part):gmatch "[^\n]+" do
        found[name] = true
      end
    end
    return answer(found, part, quote)
  end
  local path = text:match "[%w_.:]*$"
  local owner, separator, prefix = path:match "^(.*)([.:])([%w_]*)$"
  if not owner then
    prefix = path
    if prefix:find "^%d" then
      return "", ""
    end
    add_fields(found, env, prefix)
    for _, word in ipairs(keywords) do
      if prefix ~= "" and word:sub(1, #prefix) == prefix then
        found[word] = true
      end
    end
    return answer(found, prefix, "")
  end
  -- A call or an index in front: what it gives is not known.
  if text:sub(1, #text - #path):find "[%)%]\"'}]%s*$" or owner == "" then
    return "", ""
  end
  local value = env
  for name in owner:gmatch "[^.:]+" do
    value = field(value, name)
    if value == nil then
      return "", ""
    end
  end
  add_fields(found, value, prefix, separator == ":")
  return answer(found, prefix, "")
end
