-- Shared values: pierrot.share(value) freezes a table once; from then on it goes from actor to actor for the price of a
-- number, and each state holds it once, as ordinary tables that nobody can reach to write to.
--
-- What users hold is a handle: cdata of a struct without fields, as only cdata has `pairs` and `ipairs` by a metatable
-- in LuaJIT. What a handle stands for is found in tables with weak keys, so that reading compiles to a look-up. A table
-- inside a shared one is reached through a handle as well; as long as one handle of a share lives in this state, all of
-- it does (its store), and the same table gives the same handle: handles can be compared, and be keys.
--
-- In the runtime a share is bytes under a number (src/share.c). The store's token holds it; when the last handle is
-- collected, so are store and token. See src/lua/codec.c for handles in messages: alone, or in tables, where light
-- userdata stand for them on the way.

local share = {}

local ffi = require "ffi"
local buffer = require "string.buffer"
local values = require "pierrot.values"

local type, next, rawget, rawequal, setmetatable = type, next, rawget, rawequal, setmetatable
local real_metatable = debug.getmetatable
local MOST_DEPTH = 100

local raw_of = setmetatable({}, { __mode = "k" })      -- handle -> its table
local store_of = setmetatable({}, { __mode = "k" })    -- handle -> { number =, token =, tables =, levels =, place = }
local handle_of = setmetatable({}, { __mode = "kv" })  -- table -> its handle, while there is one
local stores = setmetatable({}, { __mode = "v" })      -- number -> store
local roots = setmetatable({}, { __mode = "v" })       -- number -> handle of its first table; for C
local tokens = setmetatable({}, { __mode = "k" })      -- handle of a first table -> token; for C

local Handle, core, misuse   -- the latter two: set by install

local function handle(t, store)
  local h = handle_of[t]
  if not h then
    h = Handle()
    raw_of[h], store_of[h], handle_of[t] = t, store, h
    if rawequal(t, store.tables[1]) then
      roots[store.number], tokens[h] = h, store.token
    end
  end
  return h
end

-- Reading --------------------------------------------------------------------------------------------------------

local mt = {}

function mt.__index(h, key)
  local value = raw_of[h][key]
  if type(value) == "table" then
    return handle(value, store_of[h])
  end
  return value
end

function mt.__newindex(_, key)
  error(("a shared value cannot be written to (key %s): make a copy with pierrot.thaw(value), change that, and share "
         .. "it anew"):format(type(key) == "string" and "'" .. key .. "'" or tostring(key)), 2)
end

function mt.__len(h) return #raw_of[h] end

local function each(h, key)
  local next_key, value = next(raw_of[h], key)
  if type(value) == "table" then
    value = handle(value, store_of[h])
  end
  return next_key, value
end

share.each = each

function mt.__pairs(h) return each, h, nil end

local function each_place(h, i)
  local value = raw_of[h][i + 1]
  if value == nil then
    return nil
  elseif type(value) == "table" then
    value = handle(value, store_of[h])
  end
  return i + 1, value
end

function mt.__ipairs(h) return each_place, h, 0 end

-- Each table has one handle: another cdata is another value.
function mt.__eq(a, b) return rawequal(a, b) end

function mt.__tostring(h)
  local store = store_of[h]
  return ("shared value %d.%d"):format(store.number, share.place(h))
end

Handle = ffi.metatype("struct {}", mt)

function share.is(value)
  return type(value) == "cdata" and raw_of[value] ~= nil
end

-- The number of its table in its share.
function share.place(h)
  local store = store_of[h]
  if rawequal(raw_of[h], store.tables[1]) then
    return 1
  end
  if not store.place then
    store.place = {}
    for i, t in ipairs(store.tables) do
      store.place[t] = i
    end
  end
  return store.place[raw_of[h]]
end

-- The number of its share.
function share.number(h) return store_of[h].number end

function share.token(h) return store_of[h].token end

-- Those of the shared values in a list, which may come in a message.
function share.tokens(list)
  local of = {}
  for _, h in ipairs(type(list) == "table" and list or {}) do
    if share.is(h) then
      of[#of + 1] = share.token(h)
    end
  end
  return of
end

-- Packing ----------------------------------------------------------------------------------------------------------

-- As values.explain says it of a message.
local function refuse(p, id, key, trouble)
  local path = ""
  while id do
    path = values.key_path(key) .. path
    id, key = p.above[id], p.key_in[id]
  end
  error({ ("share: cannot share value%s: %s"):format(path, trouble) }, 0)
end

local add

-- A scalar stays where it is; of anything else a false keeps the place.
local function put(p, id, key, value, depth)
  local kind, flat, links = type(value), p.tables[id], p.links
  if kind == "table" then
    flat[key] = false
    local n = #links
    links[n + 1], links[n + 2], links[n + 3] = id, key, 0
    links[n + 3] = add(p, value, id, key, depth + 1)
  elseif share.is(value) then
    flat[key] = false
    local n = #links
    links[n + 1], links[n + 2] = id, key
    links[n + 3] = -(#p.inner / 2 + 1)
    local store = store_of[value]
    if store.levels >= MOST_DEPTH then
      refuse(p, id, key, ("shared values nested more than %d deep in each other"):format(MOST_DEPTH))
    end
    p.levels = math.max(p.levels, store.levels + 1)
    p.tokens[#p.tokens + 1] = store.token
    p.inner[#p.inner + 1] = share.number(value)
    p.inner[#p.inner + 1] = share.place(value)
  else
    local trouble = values.trouble(value)
    if trouble then
      refuse(p, id, key, trouble)
    end
    flat[key] = value
  end
end

function add(p, t, above, key, depth)
  local id = p.number[t]
  if id and p.open[id] then
    refuse(p, above, key, "a cycle")
  elseif id then
    return id
  elseif depth > MOST_DEPTH then
    refuse(p, above, key, ("a table nested more than %d deep"):format(MOST_DEPTH))
  end
  id = #p.tables + 1
  p.tables[id], p.number[t], p.open[id], p.above[id], p.key_in[id] = {}, id, true, above, key
  local count = 0
  while rawget(t, count + 1) ~= nil do
    count = count + 1
    put(p, id, count, rawget(t, count), depth)
  end
  for k, v in next, t do
    local kind = type(k)
    if kind == "table" or share.is(k) then
      refuse(p, above, key, "a table is a key in it, which nobody could look up")
    elseif kind ~= "number" or k < 1 or k > count or k % 1 ~= 0 then
      local trouble = values.trouble(k)
      if trouble then
        refuse(p, above, key, "a key in it is a " .. trouble)
      end
      put(p, id, k, v, depth)
    end
  end
  p.open[id] = nil
  return id
end

-- The bytes: { tables, links, inner, levels }. tables: without the tables in them; links: table, key, and what belongs
-- there: a table's number, or minus the number of a pair in inner: a share and the table in it; levels: how deep shares
-- are nested, this one counted. So opening and freeing one never goes deeper than that.
local function pack(value)
  local p = { tables = {}, links = {}, inner = {}, tokens = {}, levels = 1,
              number = {}, open = {}, above = {}, key_in = {} }
  local ok, problem = pcall(add, p, value, nil, nil, 0)
  if not ok then
    if type(problem) == "table" then
      misuse(3, "%s", problem[1])
    end
    error(problem, 0)
  end
  return buffer.encode { p.tables, p.links, p.inner, p.levels }, p.tokens
end

-- Having ------------------------------------------------------------------------------------------------------------

local find

local function new_store(number, token, bytes)
  local packed = buffer.decode(bytes)
  local tables, links, inner = packed[1], packed[2], packed[3]
  for i = 1, #links, 3 do
    local to = links[i + 2]
    tables[links[i]][links[i + 1]] = to > 0 and tables[to] or find(inner[-2 * to - 1], inner[-2 * to])
  end
  local store = { number = number, token = token, tables = tables, levels = packed[4] }
  stores[number] = store
  return store
end

-- Table `place` of a share. Somebody holds that: a message, a behaviour, the share around it.
function find(number, place)
  local store = stores[number]
  if not store then
    local token, bytes = core.share_open(number)
    if not token then
      error("a shared value is gone", 0)
    end
    store = new_store(number, token, bytes)
  end
  return handle(store.tables[place], store)
end
share.find = find

-- In messages -------------------------------------------------------------------------------------------------------

-- A copy in which light userdata stand for shared values, and these: { token, place, ... }. nil: there are none, or
-- something else is wrong with it.
local function substitute(value)
  local list, mark_of, above = {}, {}, {}
  local function copy(t, depth)
    if depth > MOST_DEPTH or above[t] then
      return nil
    end
    above[t] = true
    local c = {}
    for k, v in next, t do
      if type(v) == "table" then
        v = copy(v, depth + 1)
        if v == nil then
          return nil
        end
      elseif share.is(v) then
        local mark = mark_of[v]
        if not mark then
          list[#list + 1] = share.token(v)
          list[#list + 1] = share.place(v)
          mark = core.share_mark(#list / 2)
          mark_of[v] = mark
        end
        v = mark
      elseif values.trouble(v) then   -- a mark of somebody's own, say
        return nil
      end
      c[k] = v
    end
    above[t] = nil
    return setmetatable(c, real_metatable(t))
  end
  local c = copy(value, 0)
  if c == nil or #list == 0 then
    return nil
  end
  return c, list
end

-- The other way round, in place.
local function restore(value, handles)
  for k, v in next, value do
    if type(v) == "table" then
      restore(v, handles)
    elseif type(v) == "userdata" and handles[v] then
      rawset(value, k, handles[v])
    end
  end
  return value
end

-- The module's part ---------------------------------------------------------------------------------------------------

-- A runtime has begun in this state: numbers are given out anew. Handles of an earlier one can still be read.
function share.begin()
  for number in next, stores do
    stores[number], roots[number] = nil, nil
  end
end

-- As deep as shares of shares may be: by a list of what is to be done, not by recursion.
local function thaw(value)
  local copies, handles = {}, {}
  local function copy_of(h)
    local copy = copies[h]
    if not copy then
      copy = {}
      copies[h] = copy
      handles[#handles + 1] = h
    end
    return copy
  end
  local whole, done = copy_of(value), 0
  while done < #handles do
    done = done + 1
    local h = handles[done]
    local copy = copies[h]
    for k, v in each, h, nil do
      copy[k] = share.is(v) and copy_of(v) or v
    end
  end
  return whole
end

function share.install(pierrot, the_core, the_misuse, hook)
  core, misuse = the_core, the_misuse

  function pierrot.share(value)
    if share.is(value) then
      return value
    elseif type(value) ~= "table" then
      local trouble = values.trouble(value)
      if trouble then
        misuse(2, "share: cannot share value: %s", trouble)
      end
      return value
    end
    local bytes, inner = pack(value)
    local token, number = core.share_make(bytes, inner)
    local store = new_store(number, token, bytes)
    return handle(store.tables[1], store)
  end

  function pierrot.thaw(value)
    return share.is(value) and thaw(value) or value
  end

  core.hook("share_tokens", tokens)
  core.hook("share_roots", roots)
  hook("share_of", function(value)
    if share.is(value) then
      return share.token(value), share.place(value)
    end
  end)
  hook("shared", find)
  hook("substitute", substitute)
  hook("restore", restore)
end

return share
