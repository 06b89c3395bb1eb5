-- Code transport: what is refused, and in which words. A refusal names variable, function and line.

local transport = require "pierrot.transport"
local bytecode = require "pierrot.bytecode"
local cjson = require "cjson"
local ffi = require "ffi"

local base = package.loaded._G
local unknown_c_function = package.loaders[1]

local function script(text)
  return setfenv(assert(loadstring(text, "@game.lua")), setmetatable({}, { __index = base }))()
end

local function refusal(behaviour, opts)
  local bytes, message = transport.pack(behaviour, opts)
  assert.is_nil(bytes)
  return message
end

local function carry_script(text)
  return transport.unpack(assert(transport.pack(script(text))), base)
end

describe("assignments to variables outside", function()
  local function assert_assigned(what, where, text)
    assert.equal(("%s is assigned by function at game.lua:%s: actors share no variables; keep it in self")
      :format(what, where), refusal(script(text)))
  end

  it("are refused with name, function and line", function()
    assert_assigned("upvalue 'n'", "2 (line 3)", "local n = 0\nreturn function()\n n = n + 1 end")
    assert_assigned("upvalue 'n'", "1 (line 1)", "local n; return { on = { x = function() n = nil end } }")
    assert_assigned("upvalue 's'", "1 (line 1)", "local a, s; return function() s = a and 'x' end")
    assert_assigned("upvalue 's'", "1 (line 1)", "local a, s; return function() s = a == 1 end")
    assert_assigned("upvalue 's'", "1 (line 1)", "local a, s; return function() s = 5 return a end")
  end)

  it("are refused in helpers and global functions", function()
    assert_assigned("upvalue 'n'", "2 (line 2)",
      "local n = 0\nlocal function bump() n = 1 end\nreturn function() bump() end")
    assert_assigned("global 'total'", "1 (line 2)",
      "function bump()\n total = 1 end\nreturn function() bump() end")
    assert_assigned("upvalue 'n'", "1 (line 1)",
      "local n; local t = { { f = function() n = 1 end } }; return function() return t end")
  end)

  it("are refused in nested functions, at any depth", function()
    assert_assigned("upvalue 'outer'", "2 (line 5)", [[
      local a, outer = 1, 2
      return function()
        local own = a
        return function() return function()
          outer = own end end end]])
    assert_assigned("global 'g'", "1 (line 2)", "return function() return function()\n g = 1 end end")
  end)

  it("are refused on late lines of long functions", function()
    for _, lines in ipairs { 254, 255, 256, 65535, 65536, 70000 } do
      assert_assigned("upvalue 'n'", ("1 (line %d)"):format(lines + 1),
        "local n; return function()" .. ("\n"):rep(lines) .. "n = 1 end")
    end
  end)

  it("are seen among many constants", function()
    local text = { "local a = ...; return function() local t = {}\n" }
    for i = 1, 400 do
      text[#text + 1] = ("t.k%d = %d.25; t['x%d'] = {a%d = {}, [%d] = 2.5, 'b'}\n"):format(i, i, i, i, i)
    end
    text[#text + 1] = "late = function() a = 1 end end"
    assert_assigned("upvalue 'a'", "1 (line 402)", table.concat(text))
    text[#text] = "last = t end"
    assert_assigned("global 'last'", "1 (line 402)", table.concat(text))
  end)

  it("are found without debug information", function()
    local fn = loadstring(string.dump(script "local n; return function() n = 1 end", true))
    assert.matches("^upvalue '%?' is assigned by function at .*: actors share no variables", refusal(fn))
  end)

  it("are fine where the variable is a local of carried code", function()
    local got = carry_script [[
      return function(self, ...)
        local count, seen = 0, {}
        local function each(f, ...) for i = 1, select("#", ...) do f((select(i, ...))) end end
        each(function(x)
          count = count + 1
          local inner = function() count = count + 10; self.last = x end
          inner()
          seen[#seen + 1] = x
        end, ...)
        return count, #seen
      end]]
    assert.same({ 33, 3 }, { got({}, "a", "b", "c") })
  end)

  it("are fine in the script itself, before the code goes", function()
    local got = carry_script "local n; n = 5; n = n + 1; return function() return n end"
    assert.equal(6, got())
  end)
end)

describe("what cannot be carried", function()
  local function with(value, text)
    return refusal(setfenv(loadstring(text, "@game.lua"), setmetatable({ value = value }, { __index = base }))())
  end

  it("is a userdata", function()
    local advice = " is a userdata, which cannot be carried to another worker; open it in start and keep it in self"
    local file = io.tmpfile()
    assert.equal("upvalue 'sock' of function at game.lua:2" .. advice,
      with(file, "local sock = value\nreturn function() return sock end"))
    assert.equal("upvalue 'sock' of function at game.lua:1" .. advice,
      with(newproxy(), "local sock = value return { on = { x = function() return sock end } }"))
    assert.equal("upvalue 'cfg.db[\"the conn\"][2]' of function at game.lua:1" .. advice,
      with(file, "local cfg = { db = { ['the conn'] = {1, value} } } return function() return cfg end"))
    assert.equal("upvalue 'cfg.<metatable>.__index' of function at game.lua:1" .. advice,
      with(file, "local cfg = setmetatable({}, { __index = value }) return function() return cfg end"))
    assert.equal("upvalue 'cfg.<key>' of function at game.lua:1" .. advice,
      with(file, "local cfg = { [value] = 1 } return function() return cfg end"))
    assert.equal("upvalue 'db' of function at game.lua:1" .. advice,
      with(file, "local db = value local function h() return db end\nreturn function() return h() end"))
    assert.equal("global 'DB.conn' read by function at game.lua:2" .. advice,
      with(file, "DB = { conn = value }\nreturn function() return DB end"))
    assert.equal("field 'on.x' of a behaviour must be a function, not a userdata", refusal { on = { x = file } })
    file:close()
  end)

  it("is a light userdata that is no ref", function()
    local null = cjson.decode "[null]"[1]
    assert.is_string(transport.pack(function() return null end)) -- a module's field
    local never = { is_ref = function() return false end }
    package.loaded.cjson = nil
    local message = refusal(function() return null end, never)
    package.loaded.cjson = cjson
    assert.matches("^upvalue 'null' of function at .* is a userdata", message)
  end)

  it("is a coroutine", function()
    assert.equal("upvalue 'co' of function at game.lua:1 is a coroutine, which cannot be carried "
      .. "to another worker; create it in start and keep it in self",
      with(coroutine.create(print), "local co = value return function() return co end"))
  end)

  it("is a C function of no module", function()
    assert.equal("upvalue 'f' of function at game.lua:1 is a C function of no loaded module, which cannot be "
      .. "carried to another worker; take it from a module that you require",
      with(unknown_c_function, "local f = value return function() return f end"))
    assert.matches("^the behaviour is a C function", refusal(unknown_c_function))
    assert.matches("^field 'on%.x' of the behaviour is a C function", refusal { on = { x = unknown_c_function } })
  end)

  it("is cdata other than 64-bit integers", function()
    for _, value in ipairs { ffi.new("int[2]"), ffi.typeof("int"), 2i, ffi.new("struct { int x; }") } do
      assert.matches("^upvalue 'c' of function at game.lua:1 is a cdata, which cannot be carried",
        with(value, "local c = value return function() return c end"))
    end
  end)

  it("is code whose dump is of an unknown kind", function()
    local dump = string.dump(function() end)
    local result, message = bytecode.analyse(dump:sub(1, 3) .. "\1" .. dump:sub(5))
    assert.is_nil(result)
    assert.matches("version 1, only version 2 is known", message)
    assert.matches("flags 1", select(2, bytecode.analyse(dump:sub(1, 4) .. "\1" .. dump:sub(6))))
    assert.matches("malformed", select(2, bytecode.analyse(dump:sub(1, 20))))
    assert.matches("version %?", select(2, bytecode.analyse "\27LJ"))
  end)
end)

describe("the shape of a behaviour", function()
  local function wrong(behaviour)
    local ok, message = transport.check(behaviour)
    assert.is_nil(ok)
    assert.equal(message, refusal(behaviour))
    return message
  end

  it("is checked, field by field", function()
    local f = function() end
    assert.is_true(transport.check(f))
    assert.is_true(transport.check {})
    assert.is_true(transport.check { name = "x", start = f, on = { a = f }, receive = f, stop = f, supervise = {},
                                     upgrade = f, trap_exit = false, version = 1 })
    assert.equal("a behaviour is a function or a table, not a number", wrong(5))
    assert.equal("a behaviour is a function or a table, not a nil", wrong(nil))
    assert.equal("unknown field 'recieve' in a behaviour; it may have: name, start, on, receive, stop, "
      .. "supervise, upgrade, trap_exit, version", wrong { recieve = f })
    assert.matches("^unknown field '%[1%]'", wrong { f })
    assert.equal("field 'start' of a behaviour must be a function, not a table", wrong { start = {} })
    assert.equal("field 'on' of a behaviour must be a table, not a function", wrong { on = f })
    assert.equal("field 'on.go' of a behaviour must be a function, not a boolean", wrong { on = { go = true } })
    assert.equal("field 'on' of a behaviour has a key that is not a string: 1", wrong { on = { f } })
    assert.equal("field 'version' of a behaviour must be a number or string, not a table", wrong { version = {} })
    assert.matches("^field 'trap_exit'", wrong { trap_exit = 1 })
    assert.matches("^field 'supervise'", wrong { supervise = "one_for_one" })
  end)
end)
