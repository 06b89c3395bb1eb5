-- Code transport: what arrives, what goes by name, when a pack is stale, what the bytes are like.
-- Most tests unpack in the state that packed: for the code there it is another one, as nothing
-- but the bytes passes. The last block goes through a process of its own.

local transport = require "pierrot.transport"
local cjson = require "cjson"
local ffi = require "ffi"

local base = package.loaded._G

-- A chunk as a script would be: its own globals over the standard ones, a fixed name in messages.
local function script(text, env)
  env = env or setmetatable({}, { __index = base })
  return setfenv(assert(loadstring(text, "@game.lua")), env)(), env
end

local function carry(behaviour, opts)
  return transport.unpack(assert(transport.pack(behaviour, opts)), base)
end

local function carry_script(text)
  return carry((script(text)))
end

local function refusal(behaviour, opts)
  local bytes, message = transport.pack(behaviour, opts)
  assert.is_nil(bytes)
  return message
end

-- The value of a function's upvalue after the journey.
local function carry_value(value, opts)
  return carry(function() return value end, opts)()
end

local unknown_c_function = package.loaders[1]

describe("what is carried", function()
  it("is a function and what it returns", function()
    assert.equal(7, carry_script "return function(a, b) return a + b end" (3, 4))
  end)

  it("is a table with functions anywhere in it", function()
    local got = carry_script [[
      return {
        name = "counter", trap_exit = true, version = 2,
        start = function(self, n) self.n = n end,
        on = { inc = function(self, by) self.n = self.n + by; return self.n end },
        supervise = { intensity = 3, on_failure = function() return "stop" end },
      }]]
    local self = {}
    got.start(self, 4)
    assert.equal(9, got.on.inc(self, 5))
    assert.equal("stop", got.supervise.on_failure())
    assert.same({ "counter", true, 2, 3 }, { got.name, got.trap_exit, got.version, got.supervise.intensity })
  end)

  it("is varargs with their nils", function()
    local got = carry_script "return function(...) return select('#', ...), ... end"
    assert.same({ 4, nil, 2, nil, nil }, { got(nil, 2, nil, nil) })
    assert.equal(0, got())
  end)

  it("is helpers, and helpers of helpers", function()
    local got = carry_script [[
      local factor = 3
      local function scale(x) return x * factor end
      local function twice(x) return scale(scale(x)) end
      return function(_, x) return twice(x) end]]
    assert.equal(18, got(nil, 2))
  end)

  it("is recursive and mutually recursive locals", function()
    local got = carry_script [[
      local function fact(n) return n < 2 and 1 or n * fact(n - 1) end
      local even, odd
      function even(n) return n == 0 or odd(n - 1) end
      function odd(n) return n ~= 0 and even(n - 1) end
      return function(_, n) return fact(n), even(n), odd(n) end]]
    assert.same({ 120, false, true }, { got(nil, 5) })
  end)

  it("is an upvalue that two functions share, as one variable", function()
    local got = carry_script [[
      local limit, other = 10, 10
      return { start = function() return limit, other end, stop = function() return limit end }]]
    assert.equal(debug.upvalueid(got.start, 1), debug.upvalueid(got.stop, 1))
    assert.not_equal(debug.upvalueid(got.start, 1), debug.upvalueid(got.start, 2))
    debug.setupvalue(got.start, 1, 11)
    assert.equal(11, got.stop())
  end)

  it("is one table where it was one, and keeps copies apart", function()
    local a = carry_script "local t, u = {1}, {1}; return function() return {t, u, t} end"()
    assert.equal(a[1], a[3])
    assert.not_equal(a[1], a[2])
    local got = carry { start = function() return a end, stop = function() return { a } end }
    assert.equal(got.start(), got.stop()[1])
    assert.not_equal(a, got.start())
  end)

  it("is cycles, and tables deeper than the encoder goes", function()
    local t = { name = "root" }
    t.self, t[t] = t, "key"
    local got = carry_value(t)
    assert.equal(got, got.self)
    assert.equal("key", got[got])

    local list
    for i = 1, 20000 do list = { i, list } end
    local sum, at = 0, carry_value(list)
    while at do sum, at = sum + at[1], at[2] end
    assert.equal(20000 * 20001 / 2, sum)
  end)

  it("is metatables, set without running them", function()
    local got = carry_script [[
      local Point = {}
      Point.__index = Point
      Point.__newindex = function() error "no" end
      Point.__metatable = "locked"
      function Point.norm(p) return p.x + p.y end
      local p = setmetatable({}, Point)
      rawset(p, "x", 3); rawset(p, "y", 4)
      return function() return p:norm(), getmetatable(p), pcall(function() p.z = 1 end) end]]
    local norm, meta, ok, message = got()
    assert.same({ 7, "locked", false }, { norm, meta, ok })
    assert.matches("game.lua:3: no", message)
  end)

  it("is every plain value", function()
    local values = { 0, -1, 2 ^ 53, 1e308, 5e-324, math.huge, -math.huge, true, false, "", "a\0\255\n" }
    for i, value in ipairs(values) do assert.equal(value, carry_value(values)[i]) end
    assert.equal(-math.huge, 1 / carry_value(-0.0))
    assert.equal(math.huge, 1 / carry_value(0))
    local nan = carry_value(0 / 0)
    assert.is_true(nan ~= nan)
    assert.is_nil(carry_value(nil))
    assert.equal(-9007199254740993LL, carry_value(-9007199254740993LL))
    assert.equal("18446744073709551615ULL", tostring(carry_value { 18446744073709551615ULL }[1]))
    assert.equal("function", type(carry_script "return function() return 5LL, 6ULL, 2i end"))
  end)

  it("is refs, as values and keys", function()
    local ref = cjson.null -- stands in: it is a light userdata
    local opts = { is_ref = function(v) return v == ref end }
    local got = carry_value({ ref, [ref] = "key" }, opts)
    assert.equal(ref, got[1])
    assert.equal("key", got[ref])
    assert.equal(ref, carry_value(ref, { is_shared = opts.is_ref }))
  end)

  it("keeps sparse tables, odd keys and holes", function()
    local t = { 1, 2, nil, 4, [0] = 0, [-1] = -1, [1.5] = "x", [2 ^ 40] = "y", [true] = 1, [false] = 0,
                [math.huge] = "inf", s = "str", ["not a name"] = {} }
    assert.same(t, carry_value(t))
  end)

  it("is large functions, long ones, and all kinds of control flow", function()
    local text = { "local x = ...; local s = 0\n" }
    for i = 1, 600 do text[#text + 1] = ("s = s + (x['k%d'] or %d.5)\n"):format(i, i) end
    text[#text + 1] = [[
      for i = 1, 3 do s = s + i end
      for _, v in pairs { 1, 2, nil, 4 } do s = s + v end
      local n = 5
      while n > 0 do n = n - 1 if n == 2 then goto out end end
      ::out::
      repeat local m = n; n = n + 1 until m > 4
      local f = function(...) n = n + select("#", ...) return n end
      f(1, 2)
      return s + n]]
    local source = loadstring(table.concat(text), "@game.lua")
    local got = carry(source)
    assert.equal(source { k7 = 1000 }, got { k7 = 1000 })
  end)

  it("keeps names and lines for tracebacks", function()
    local got = carry_script "return function()\n\n error 'here' end"
    assert.matches("^game.lua:3: here", select(2, pcall(got)))
  end)

  it("is code without debug information", function()
    local stripped = loadstring(string.dump(script "local t = {5}; return function() return t[1] end", true))
    debug.setupvalue(stripped, 1, { 6 })
    assert.equal(6, carry(stripped)())
  end)

  it("is random graphs, as they were", function()
    local function random_graph(pick)
      local tables = {}
      for i = 1, pick(1, 30) do tables[i] = {} end
      local function any()
        local kind = pick(1, 7)
        if kind == 1 then return pick(-5, 5) / 2 end
        if kind == 2 then return ("s"):rep(pick(0, 300)) end
        if kind == 3 then return pick(0, 1) == 1 end
        if kind == 4 then return pick(1, 20) end
        return tables[pick(1, #tables)]
      end
      for _, t in ipairs(tables) do
        for _ = 1, pick(0, 12) do t[any()] = any() end
        if pick(1, 5) == 1 then setmetatable(t, tables[pick(1, #tables)]) end
      end
      return tables[1]
    end

    -- Walks both by string, number and boolean keys; `twin` maps tables to their copies.
    local function check_same(a, b, twin)
      if type(a) ~= "table" then return assert.equal(a, b) end
      if twin[a] then return assert.equal(twin[a], b) end
      assert.not_equal(a, b)
      twin[a] = b
      local count = 0
      for key, value in next, a do
        if type(key) ~= "table" then check_same(value, rawget(b, key), twin) end
        count = count + 1
      end
      for _ in next, b do count = count - 1 end
      assert.equal(0, count)
      check_same(debug.getmetatable(a), debug.getmetatable(b), twin)
    end

    local state = 42
    local function pick(low, high)
      state = (state * 16807) % 2147483647
      return low + state % (high - low + 1)
    end
    for _ = 1, 200 do
      local graph = random_graph(pick)
      check_same(graph, carry_value(graph), {})
    end
  end)
end)

describe("what goes by identity", function()
  it("is modules and library functions", function()
    local format, encode, null, out, C = string.format, cjson.encode, cjson.null, io.stdout, ffi.C
    local got = { carry(function() return string, cjson, format, encode, null, out, C, math.deg end)() }
    assert.same({ string, cjson, string.format, encode, null, out, C, math.deg }, got)
  end)

  it("is functions of Lua modules, their variables left alone", function()
    local count = 0
    local module = { next = function() count = count + 1; return count end, list = {} }
    package.loaded["spec.numbers"] = module
    local next_number, list = module.next, module.list
    local got = carry { start = function() return next_number(), list end }
    local behaviour = carry { receive = module.next }
    package.loaded["spec.numbers"] = nil
    assert.equal(list, select(2, got.start()))
    assert.equal(module.next, behaviour.receive)
  end)

  it("is what a module has got since the first look", function()
    local module = {}
    package.loaded["spec.late"] = module
    carry(function() return module end)
    module.loader = unknown_c_function
    local got = carry { start = unknown_c_function }
    module.loader = nil
    assert.equal(unknown_c_function, got.start)
    assert.matches("a C function of no loaded module", refusal { start = unknown_c_function })
    package.loaded["spec.late"] = nil
  end)

  it("is not a script's addition to a library", function()
    local function trim() return "script" end
    rawset(string, "spec_trim", trim)
    local got = carry(function() return trim end)()
    rawset(string, "spec_trim", nil)
    assert.not_equal(trim, got)
    assert.equal("script", got())
  end)

  it("is a behaviour that a module has returned", function()
    package.loaded["spec.behaviour"] = { start = function() end }
    local bytes = transport.pack(package.loaded["spec.behaviour"])
    assert.equal(bytes, transport.module "spec.behaviour")
    assert.equal(package.loaded["spec.behaviour"], transport.unpack(bytes, base))
    package.loaded["spec.behaviour"] = nil
    local ok, message = pcall(transport.unpack, bytes, base)
    assert.is_false(ok)
    assert.matches("^module 'spec.behaviour' cannot be loaded on this worker: ", message)
  end)

  it("is checked where a module is named", function()
    package.loaded["spec.number"] = 5
    local ok, message = pcall(transport.unpack, transport.module "spec.number", base)
    package.loaded["spec.number"] = nil
    assert.is_false(ok)
    assert.equal("'spec.number' is no behaviour: a behaviour is a function or a table, not a number", message)
  end)

  it("names what is missing on the other side", function()
    package.loaded["spec.gone"] = { encode = unknown_c_function }
    local encode = unknown_c_function
    local bytes = transport.pack(function() return encode end)
    package.loaded["spec.gone"] = {}
    local _, message = pcall(transport.unpack, bytes, base)
    package.loaded["spec.gone"] = nil
    assert.equal("module 'spec.gone' has no field 'encode' on this worker", message)
    _, message = pcall(transport.unpack, transport.pack((script "local p = print; return function() p() end")), {})
    assert.equal("global 'print' is missing on this worker", message)
    _, message = pcall(transport.unpack, "rubbish", base)
    assert.matches("not a behaviour", message)
  end)

  it("are refused at once when a count in them is damaged", function()
    local buffer = require "string.buffer"
    local list = { 7, 8, name = "list" }
    local helper = function(x) return list[x] and print end
    local packed = buffer.decode(assert(transport.pack { on = { go = function(_, x) return helper(x) end } }))
    local numbers, refused = 0, 0
    for at, value in ipairs(packed[3]) do
      if type(value) == "number" then
        numbers = numbers + 1
        for _, damaged in ipairs { 1e15, math.huge, -1, 0 / 0 } do
          packed[3][at] = damaged
          local bytes = buffer.encode(packed)
          local co = coroutine.create(transport.unpack)
          jit.off()
          debug.sethook(co, function() error("it does not end", 0) end, "", 1e6)
          local ok, message = coroutine.resume(co, bytes, base)
          debug.sethook()   -- LuaJIT has one hook for all coroutines
          jit.on()
          assert.not_equal("it does not end", message)
          refused = refused + (not ok and message:find("they are damaged", 1, true) and 1 or 0)
        end
        packed[3][at] = value
      end
    end
    assert.is_true(numbers > 8 and refused > 4 * 6, ("%d of %d"):format(refused, 4 * numbers))
  end)
end)

describe("globals", function()
  it("of the script go along, with what they reach", function()
    local got = carry_script [[
      LIMIT = 3
      function ping(n) return n == 0 and "ping" or pong(n - 1) end
      function pong(n) return n == 0 and "pong" or ping(n - 1) end
      UNUSED = io.tmpfile()
      return function() return (function() return LIMIT end)(), ping(3), tostring(LIMIT) end]]
    assert.same({ 3, "pong", "3" }, { got() })
    assert.is_nil(rawget(getfenv(got), "UNUSED"))
    assert.is_nil(rawget(getfenv(got), "tostring"))
  end)

  it("share one environment, which is _G there", function()
    local got = carry_script [[
      local g = _G
      return { start = function() return g, _G end, stop = function() return helper() end,
               on = { x = function() return getfenv() end } }]]
    local env = getfenv(got.start)
    assert.equal(env, getfenv(got.stop))
    assert.equal(env, getfenv(got.on.x))
    assert.equal(env, rawget(env, "_G"))
    assert.equal(env, select(2, got.start()))
  end)

  it("keep the environments of functions apart", function()
    local one = script("x = 1; return function() return x end")
    local two = script("x = 2; return function() return x end")
    local got = carry { start = one, stop = two }
    assert.same({ 1, 2 }, { got.start(), got.stop() })
  end)

  it("that are standard come from the worker's table", function()
    local bytes = transport.pack((script "local p = print; return function() return print, p, math end"))
    local globals = setmetatable({ print = error }, { __index = base })
    assert.same({ error, error, math }, { transport.unpack(bytes, globals)() })
  end)

  it("that the script has replaced go along", function()
    local got = carry_script "print = function() return 'mine' end; return function() return print() end"
    assert.equal("mine", got())
  end)

  it("that a worker has replaced by a C function do not", function()
    local env = setmetatable({}, { __index = { print = unknown_c_function } })
    local fn = script("return function() return print end", env)
    assert.equal(print, carry(fn)())
  end)

  it("survive a second journey", function()
    local first = carry_script "A = {1}; function f() return A[1] end; return function() return f(), type(_G) end"
    assert.same({ 1, "table" }, { carry(carry(first))() })
  end)

  it("are found through __index functions, which may raise", function()
    local env = setmetatable({}, { __index = function(_, name)
      return name == "KNOWN" and 5 or base[name] or error("undeclared " .. name)
    end })
    local fn = script("return function() return KNOWN, tostring(KNOWN), UNKNOWN end", env)
    assert.same({ 5, "5", nil }, { carry(fn)() })
  end)

  it("cannot be assigned inside, at the line that tries", function()
    local got = carry_script "return function()\n _G.count = 1 end"
    local ok, message = pcall(got)
    assert.is_false(ok)
    assert.equal("game.lua:2: assignment to global 'count' inside an actor: "
      .. "actors share no variables; keep it in self", message)
    assert.is_nil(rawget(base, "count"))
  end)
end)

describe("a watch", function()
  local function watch_of(behaviour)
    local bytes, watch = transport.pack(behaviour)
    assert.is_string(bytes)
    return watch
  end

  it("is nil where nothing can change", function()
    local n, t = 1, {}
    local function helper() return n, t, tostring(n) end
    assert.is_nil(watch_of(function() return helper(), math.floor(n) end))
    assert.is_false(transport.changed(nil))
  end)

  it("sees another value of an upvalue", function()
    for _, values in ipairs { { 1, 2 }, { nil, 1 }, { 1, nil }, { {}, {} }, { false, nil }, { 0 / 0, 1 } } do
      local v = values[1]
      local behaviour = { start = function() return v end }   -- held: a watch does not
      local watch = watch_of(behaviour)
      assert.is_false(transport.changed(watch))
      v = values[2]
      assert.is_true(transport.changed(watch))
      v = values[1]
      assert.is_false(transport.changed(watch))
    end
  end)

  it("looks at helpers, and not into tables", function()
    local t, n = {}, 1
    local function helper() return t, n end
    local function behaviour() return helper() end
    local watch = watch_of(behaviour)
    t.x = 1
    assert.is_false(transport.changed(watch))
    n = 2
    assert.is_true(transport.changed(watch))
    t = behaviour
  end)

  it("sees globals appear, change and vanish", function()
    local fn, env = script "A = 1; return function() return A, B, print end"
    local watch = watch_of(fn)
    assert.is_false(transport.changed(watch))
    env.A = 2
    assert.is_true(transport.changed(watch))
    env.A = 1
    assert.is_false(transport.changed(watch))
    env.B = false
    assert.is_true(transport.changed(watch))
    env.A, env.B = nil, nil
    assert.is_true(transport.changed(watch))
  end)

  it("keeps alive neither the behaviour nor the values", function()
    local v = {}
    local probe = setmetatable({ fn = function() return v end, v = v }, { __mode = "v" })
    local watch = watch_of(probe.fn)
    v = nil
    collectgarbage() collectgarbage()
    assert.is_nil(probe.fn)
    assert.is_nil(probe.v)
    assert.is_true(transport.changed(watch))
  end)
end)

describe("the bytes", function()
  it("are the same for the same content", function()
    local make = loadstring [[
      local n, word = ...
      local t = { 1, x = { n }, y = true, z = word, [2.5] = 1, [true] = 2, [false] = 3 }
      t.self = t
      local function helper(k) return t[k] end
      return { start = function() return helper(n) end, on = { b = helper, a = function() end } }]]
    local first = transport.pack(make(1, "w"))
    assert.equal(first, (transport.pack(make(1, "w"))))
    assert.not_equal(first, (transport.pack(make(2, "w"))))
    assert.not_equal(first, (transport.pack(make(1, "v"))))
  end)

  it("do not depend on the order in which a table was filled", function()
    local a, b = {}, {}
    for i = 1, 100 do a["k" .. i], a[i * 1.5] = i, i end
    for i = 100, 1, -1 do b["k" .. i], b[i * 1.5] = i, i end
    local function make(t) return function() return t end end
    assert.equal((transport.pack(make(a))), (transport.pack(make(b))))
  end)

  it("are the same after the code was compiled to machine code", function()
    local function handler(_, n)
      local sum = 0
      for i = 1, n do sum = sum + i end
      while sum > 10 do sum = sum / 2 end
      return sum
    end
    local before = transport.pack(handler)
    for _ = 1, 300 do handler(nil, 300) end
    assert.equal(before, (transport.pack(handler)))
  end)

  it("hold the code of closures of one function once", function()
    local function make(n) return function() return n, ("x"):rep(100), "a constant that takes some room" end end
    local one = transport.pack { start = make(1) }
    local two = transport.pack { start = make(1), stop = make(2) }
    assert.is_true(#two < #one + 100)
    local got = transport.unpack(two, base)
    assert.same({ 1, 2 }, { (got.start()), (got.stop()) })
  end)
end)

describe("another process", function()
  it("runs what was packed here", function()
    local count = script [[
      local cjson, format = require "cjson", string.format
      PREFIX = "n="
      local shared = { 1, nan = 0/0 }
      local function show(n) return PREFIX .. format("%d", n) end
      return {
        start = function(self, n) self.n = n; return shared end,
        on = { inc = function(self, by) self.n = self.n + by
          return cjson.encode { show(self.n), shared.nan ~= shared.nan } end },
      }]]
    local bytes_path, program_path = os.tmpname(), os.tmpname()
    local file = assert(io.open(bytes_path, "wb"))
    file:write((assert(transport.pack(count))))
    file:close()
    file = assert(io.open(program_path, "w"))
    file:write(([[
      package.path, package.cpath = %q, %q
      local bytes = assert(io.open(%q, "rb")):read "*a"
      local got = require "pierrot.transport".unpack(bytes, _G)
      local self = {}
      got.start(self, 40)
      print(got.on.inc(self, 2))]]):format(package.path, package.cpath, bytes_path))
    file:close()
    local pipe = assert(io.popen(("%s %s 2>&1"):format(os.getenv "PIERROT_LUAJIT" or "luajit", program_path)))
    local output = pipe:read "*a"
    pipe:close()
    os.remove(bytes_path)
    os.remove(program_path)
    assert.equal('["n=42",true]\n', output)
  end)
end)
