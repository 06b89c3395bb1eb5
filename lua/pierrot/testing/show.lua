-- Values as a report shows them: on one line, in an order of their own, and short.

local show = {}

local MOST = 120

local function less(a, b)
  if type(a) ~= type(b) then
    return type(a) < type(b)
  end
  return type(a) == "number" and a < b or type(a) ~= "number" and tostring(a) < tostring(b)
end

local function value(v, names, depth)
  if type(v) == "string" then
    return (("%q"):format(#v > MOST and v:sub(1, MOST) .. "..." or v):gsub("\\\n", "\\n"))
  elseif type(v) == "userdata" then
    return names and names(v) or tostring(v)
  elseif type(v) == "function" then
    return "(a function's yes)"
  elseif type(v) ~= "table" or (getmetatable(v) or {}).__tostring then
    return tostring(v)
  elseif depth > 4 then
    return "{...}"
  end
  local parts, keys = {}, {}
  for i = 1, #v do
    parts[i] = value(v[i], names, depth + 1)
  end
  for key in pairs(v) do
    if not (type(key) == "number" and key >= 1 and key <= #v and key % 1 == 0) then
      keys[#keys + 1] = key
    end
  end
  table.sort(keys, less)
  for _, key in ipairs(keys) do
    local plain = type(key) == "string" and key:find "^[%a_][%w_]*$"
    local name = plain and key or "[" .. value(key, names, depth + 1) .. "]"
    parts[#parts + 1] = name .. " = " .. value(v[key], names, depth + 1)
  end
  return "{" .. table.concat(parts, ", ") .. "}"
end

function show.value(v, names)
  return value(v, names, 0)
end

-- values: { n =, ... }
function show.message(values, names)
  local parts = {}
  for i = 1, values.n do
    parts[i] = value(values[i], names, 0)
  end
  local text = #parts > 0 and table.concat(parts, ", ") or "(no values)"
  return #text > 2 * MOST and text:sub(1, 2 * MOST) .. " ..." or text
end

return show
