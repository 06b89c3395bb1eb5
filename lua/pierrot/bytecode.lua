-- What a Lua function does to variables that are not its own, read from its bytecode.
--
-- `string.dump` gives a prototype and all prototypes nested in it. From that alone this file
-- tells which globals the code reads, which it assigns, which variables outside of the dumped
-- function it assigns, and which of its upvalues can never change.
--
-- Invariants:
-- * The result depends on the bytes of the dump and on nothing else, so it may be cached by them.
-- * Nothing is guessed: a dump whose version or layout is not the one known here is refused.
--
-- Layout of a dump, version 2 (U: ULEB128, B: byte):
--   "\27LJ" versionB flagsU [namelenU name]  proto+  0U
--   proto: lengthU flagsB numparamsB framesizeB numuvB numkgcU numknU numbcU
--          [debuglenU [firstlineU numlineU]]  instructions(4 bytes each)
--          uvdata(2 bytes each)  kgc*  kn*  debug
-- Nested prototypes come before the one that contains them, which takes them off a stack.

local bytecode = {}

local byte = string.byte
local floor = math.floor

local DUMP_VERSION = 2
local FLAG_BIG_ENDIAN, FLAG_STRIPPED, KNOWN_FLAGS = 1, 2, 15

-- In uvdata: the variable is a local of the enclosing function (otherwise an upvalue of it);
-- it is never assigned after its initialisation (said of locals only).
local UV_LOCAL, UV_IMMUTABLE = 0x8000, 0x4000

-- Kinds of collectable constants; strings carry their length in what is above KGC_STRING.
local KGC_CHILD, KGC_TABLE, KGC_COMPLEX, KGC_STRING = 0, 1, 4, 5
-- Kinds of values in a table constant.
local KTAB_INT, KTAB_NUM, KTAB_STRING = 3, 4, 5

-- Opcode number -> what it means here. Built on first use: `jit.vmdef` is a file outside the
-- LuaJIT library, and its absence should be an error message at spawn, not at require.
local relevant
local MEANING = {
  GGET = "read_global", GSET = "assign_global",
  USETV = "assign_upvalue", USETS = "assign_upvalue",
  USETN = "assign_upvalue", USETP = "assign_upvalue",
}

local function relevant_opcodes()
  if relevant then return relevant end
  local ok, vmdef = pcall(require, "jit.vmdef")
  if not ok then   -- a package.path without LuaJIT's own directory, as `luarocks path` sets it
    for _, prefix in ipairs { "/usr/share/", "/usr/local/share/" } do
      local chunk = loadfile(prefix .. jit.version:lower():gsub(" ", "-", 1) .. "/jit/vmdef.lua")
      if chunk then
        ok, vmdef = pcall(chunk)
        break
      end
    end
  end
  if not ok then
    return nil, "cannot inspect the code: LuaJIT's module jit.vmdef is not found; " ..
      "put LuaJIT's own directory on package.path (LUA_PATH should end in ;;)"
  end
  local names, found, count = vmdef.bcnames, {}, 0
  for opcode = 0, #names / 6 - 1 do
    local name = names:sub(opcode * 6 + 1, opcode * 6 + 6):gsub("%s+$", "")
    local meaning = MEANING[name]
    if meaning then
      found[opcode], count = meaning, count + 1
    end
  end
  if count ~= 6 then
    return nil, "cannot inspect the code: this LuaJIT has other opcodes than those known here"
  end
  relevant = found
  return relevant
end

local function read_uleb(dump, at)
  local value, scale = 0, 1
  while true do
    local b = byte(dump, at)
    at = at + 1
    if b < 128 then return value + b * scale, at end
    value, scale = value + (b - 128) * scale, scale * 128
  end
end

local function read_u16(dump, at)
  local low, high = byte(dump, at, at + 1)
  return low + high * 256
end

local function skip_table_value(dump, at)
  local kind
  kind, at = read_uleb(dump, at)
  if kind >= KTAB_STRING then return at + kind - KTAB_STRING end
  if kind == KTAB_INT or kind == KTAB_NUM then
    at = select(2, read_uleb(dump, at))
    if kind == KTAB_NUM then at = select(2, read_uleb(dump, at)) end
  end
  return at
end

local function skip_table(dump, at)
  local array_count, hash_count
  array_count, at = read_uleb(dump, at)
  hash_count, at = read_uleb(dump, at)
  for _ = 1, array_count + 2 * hash_count do at = skip_table_value(dump, at) end
  return at
end

-- Reads the collectable constants. Strings are kept by the operand that names them: operands
-- count from the end of the list. Returns the strings and the prototypes nested in this one.
local function read_constants(dump, at, count, stack)
  local strings, children = {}, {}
  for operand = count - 1, 0, -1 do
    local kind
    kind, at = read_uleb(dump, at)
    if kind >= KGC_STRING then
      local length = kind - KGC_STRING
      strings[operand] = dump:sub(at, at + length - 1)
      at = at + length
    elseif kind == KGC_CHILD then
      children[#children + 1] = table.remove(stack)
    elseif kind == KGC_TABLE then
      at = skip_table(dump, at)
    else -- a 64-bit integer is two numbers, a complex one four
      for _ = 1, kind == KGC_COMPLEX and 4 or 2 do at = select(2, read_uleb(dump, at)) end
    end
  end
  return strings, children, at
end

-- The line of an instruction (counted from 0), or nil without debug information. Lines are
-- stored as distances from the first one, in as many bytes as the longest distance needs.
local function line_of(dump, proto, index)
  if not proto.first_line then return nil end
  if proto.line_count < 256 then return proto.first_line + byte(dump, proto.debug_at + index) end
  if proto.line_count < 65536 then
    return proto.first_line + read_u16(dump, proto.debug_at + 2 * index)
  end
  local at = proto.debug_at + 4 * index
  return proto.first_line + read_u16(dump, at) + 65536 * read_u16(dump, at + 2)
end

-- Assignments to upvalues are kept with the prototype: a variable that is a local of the enclosing
-- function is that function's own affair; otherwise it is an upvalue of the enclosing one too, and
-- is noted there when that prototype is reached.
local function scan_instructions(dump, proto, at, count, strings, result)
  for i = 0, count - 1 do
    local meaning = relevant[byte(dump, at + 4 * i)]
    if meaning == "assign_upvalue" then
      local index = byte(dump, at + 4 * i + 1)
      proto.assigned[#proto.assigned + 1] = { index = index, line = line_of(dump, proto, i) }
    elseif meaning then
      local name = strings[read_u16(dump, at + 4 * i + 2)]
      if meaning == "assign_global" then
        result.assigned[#result.assigned + 1] = { global = name, line = line_of(dump, proto, i) }
      elseif not result.seen[name] then
        result.seen[name] = true
        result.reads[#result.reads + 1] = name
      end
    end
  end
end

local function read_proto(dump, at, stripped, stack, result)
  local length
  length, at = read_uleb(dump, at)
  if length == 0 then return nil end
  local proto_end = at + length
  assert(proto_end <= #dump + 1)
  local _, _, _, upvalue_count = byte(dump, at, at + 3)
  local kgc_count, instruction_count, debug_length
  kgc_count, at = read_uleb(dump, at + 4)
  _, at = read_uleb(dump, at)
  instruction_count, at = read_uleb(dump, at)

  local proto = { upvalue_count = upvalue_count, uv = {}, assigned = {} }
  if not stripped then
    debug_length, at = read_uleb(dump, at)
    if debug_length > 0 then
      proto.first_line, at = read_uleb(dump, at)
      proto.line_count, at = read_uleb(dump, at)
      proto.debug_at = proto_end - debug_length
    end
  end

  local code_at = at
  at = at + 4 * instruction_count
  for i = 0, upvalue_count - 1 do proto.uv[i] = read_u16(dump, at + 2 * i) end
  local strings, children, constants_end =
    read_constants(dump, at + 2 * upvalue_count, kgc_count, stack)
  assert(constants_end <= proto_end)

  scan_instructions(dump, proto, code_at, instruction_count, strings, result)
  for _, child in ipairs(children) do
    for _, assignment in ipairs(child.assigned) do
      local where = child.uv[assignment.index]
      if where < UV_LOCAL then
        proto.assigned[#proto.assigned + 1] = { index = where, line = assignment.line }
      end
    end
  end
  stack[#stack + 1] = proto
  return proto_end
end

local function read_dump(dump, result)
  local flags, at = read_uleb(dump, 5)
  if flags > KNOWN_FLAGS or flags % 2 == FLAG_BIG_ENDIAN then
    return nil, ("cannot inspect the code: its dump has flags %d, which are not known here"):format(flags)
  end
  local stripped = floor(flags / FLAG_STRIPPED) % 2 == 1
  if not stripped then
    local name_length
    name_length, at = read_uleb(dump, at)
    at = at + name_length
  end
  local stack = {}
  repeat
    local following = read_proto(dump, at, stripped, stack, result)
    at = following or at
  until not following
  assert(#stack == 1)
  return stack[1]
end

-- The one that comes first in the text, where lines are known.
local function first_assignment(upvalues, globals)
  local first
  for _, list in ipairs { upvalues, globals } do
    for _, assignment in ipairs(list) do
      if not first or (assignment.line or 0) < (first.line or 0) then first = assignment end
    end
  end
  if not first then return nil end
  return { upvalue = first.index and first.index + 1, global = first.global, line = first.line }
end

-- bytecode.analyse(dump) -> result, or nil and why the dump cannot be read.
-- `dump` is what string.dump gave. The result is shared between callers, not to be changed:
--   reads       list of the names of globals read, by it and by functions nested in it
--   upvalue_count
--   immutable   [upvalue number] = true where that variable is never assigned by anyone
--   assignment  nil, or the first assignment to a variable outside of the function:
--               { upvalue = number } or { global = name }, both with `line` if it is known
function bytecode.analyse(dump)
  if dump:sub(1, 3) ~= "\27LJ" or byte(dump, 4) ~= DUMP_VERSION then
    return nil, ("cannot inspect the code: its dump is of version %s, only version %d is known here")
      :format(byte(dump, 4) or "?", DUMP_VERSION)
  end
  local opcodes, message = relevant_opcodes()
  if not opcodes then return nil, message end

  local found = { reads = {}, seen = {}, assigned = {} }
  local ok, root
  ok, root, message = pcall(read_dump, dump, found)
  if not ok then return nil, "cannot inspect the code: its dump is malformed" end
  if not root then return nil, message end
  local immutable = {}
  for i, uv in pairs(root.uv) do immutable[i + 1] = uv >= UV_LOCAL + UV_IMMUTABLE or nil end
  local assignment = first_assignment(root.assigned, found.assigned)
  return {
    reads = found.reads, assignment = assignment,
    upvalue_count = root.upvalue_count, immutable = immutable,
  }
end

return bytecode
