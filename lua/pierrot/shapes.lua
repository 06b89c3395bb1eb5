-- Makes the functions that src/lua/shapes.c asks for: from the signature of a table one that returns such a table, with
-- the values that C has found. LuaJIT compiles it into a template's copy and some stores.

local ffi = require "ffi"

ffi.cdef [[
typedef struct pr_leaves {
  double number[24];
  const uint8_t *bytes[24];
  int32_t length[24];
  int32_t shape;
} pr_leaves;
]]

local TRUE, REF, NUMBER, LIST, STRING = 2, 5, 7, 12, 32   -- shapes.c

local LEAF = {
  [TRUE] = "v.number[%d] ~= 0",
  [REF] = "refs[v.length[%d]]",
  [NUMBER] = "v.number[%d]",
  [STRING] = "text(v.bytes[%d], v.length[%d])",
}

-- The constructor of a table of that shape, as Lua; nil where it has a key twice, which the serializer refuses.
local function constructor(signature)
  local at, leaf = 1, 0
  local value

  local function byte()
    at = at + 1
    return signature:byte(at - 1)
  end

  local function tabular(tag)
    local values, keyed = tag >= LIST and byte() or 0, tag % 2 == 1 and byte() or 0
    local parts, keys = {}, {}
    for _ = 2, values do
      local inner = value()
      if not inner then
        return nil
      end
      parts[#parts + 1] = inner
    end
    for _ = 1, keyed do
      local size = byte() - STRING
      local key = signature:sub(at, at + size - 1)
      at = at + size
      if keys[key] then
        return nil
      end
      keys[key] = true
      local inner = value()
      if not inner then
        return nil
      end
      parts[#parts + 1] = ("[%q] = %s"):format(key, inner)
    end
    return "{ " .. table.concat(parts, ", ") .. " }"
  end

  function value()
    local kind = byte()
    if LEAF[kind] then
      local text = LEAF[kind]:gsub("%%d", tostring(leaf))
      leaf = leaf + 1
      return text
    end
    return tabular(kind)
  end

  return value()
end

-- leaves: C's pr_leaves; refs: the table of refs by place. Returns what makes a function for a signature; nil, where
-- there can be none.
return function(leaves, refs)
  local v, text = ffi.cast("pr_leaves *", leaves), ffi.string
  return function(signature)
    local code = constructor(signature)
    if not code then
      return nil
    end
    code = "local v, text, refs = ... return function() return " .. code .. " end"
    return loadstring(code, "@pierrot/shapes.lua")(v, text, refs)
  end
end
