--- How the prompt shows values: bounded, readable, safe with cycles and with whatever a metatable does.

local pierrot = require "pierrot"
local show = require "pierrot.prompt.show"

local function shown(value, width) return show.value(value, { width = width or 80 }) end

describe("the prompt shows", function()
  it("numbers that read back as the same", function()
    for text, value in pairs { ["1"] = 1, ["0.1"] = 0.1, ["-0"] = -0, ["1e+100"] = 1e100, nan = 0 / 0, inf = math.huge,
                               ["-inf"] = -math.huge, ["0.30000000000000004"] = 0.1 + 0.2 } do
      assert.equal(text, shown(value))
    end
    assert.equal(2 ^ 53, tonumber(shown(2 ^ 53)))
  end)

  it("strings with what cannot be seen as escapes, characters of UTF-8 as they are", function()
    assert.equal([["a\n\t\"\\\0z\0001\200ä€\127"]], shown("a\n\t\"\\\0z\0" .. "1\200ä€\127"))
    assert.equal('"\\027[31m"', shown("\27[31m"))
  end)

  it("tables on one line where they fit, else a line for each item", function()
    assert.equal("{}", shown {})
    assert.equal('{ 1, 2, nil_at_4 = false, x = { y = "z" } }', shown { 1, 2, x = { y = "z" }, nil_at_4 = false })
    assert.equal("{\n  a = 1,\n  b = {\n    c = 2,\n    dddddd = 3\n  }\n}", shown({ a = 1, b = { c = 2, dddddd = 3 } }, 20))
    assert.equal('{ 1, [3] = 3, ["end"] = 1, ["x y"] = 2 }', shown { 1, [3] = 3, ["x y"] = 2, ["end"] = 1 })
  end)

  it("a cycle by where it leads, and one table twice as twice", function()
    local t = { name = "t" }
    t.me, t.list = t, { t }
    assert.equal('{ list = { <cycle: it> }, me = <cycle: it>, name = "t" }', shown(t))
    local inner = { a = {} }
    inner.a.up = inner
    assert.equal("{ inner = { a = { up = <cycle: it.inner> } } }", shown { inner = inner })
    local one = { 1 }
    assert.equal("{ { 1 }, { 1 } }", shown { one, one })
  end)

  it("no more than a bounded part of what is deep, long or wide", function()
    local deep = {}
    for _ = 1, 1000 do deep = { deep } end
    assert.equal("{ { { { { { ... } } } } } }", shown(deep))
    local long = {}
    for i = 1, 1e6 do long[i] = i end
    local text = shown(long)
    assert.is_true(#text < 2000)
    assert.is_truthy(text:find("more", 1, true))
    local wide = {}
    for i = 1, 100 do
      wide[i] = {}
      for k = 1, 100 do wide[i]["key" .. k] = ("x"):rep(10000) end
    end
    assert.is_true(#shown(wide) < 200000)
    assert.is_true(#shown(("x"):rep(1e6)) < 5000)
    assert.is_truthy(shown(("x"):rep(1e6)):find("1000000 bytes", 1, true))
  end)

  it("what a metatable says, and goes on where it raises", function()
    assert.equal("a point", shown(setmetatable({}, { __tostring = function() return "a point" end })))
    assert.is_truthy(shown(setmetatable({}, { __tostring = error })):find("__tostring failed", 1, true))
    assert.is_truthy(shown(setmetatable({}, { __tostring = function() return {} end })):find("__tostring failed", 1, true))
    local trap = setmetatable({ a = 1 }, { __index = error, __newindex = error, __len = error, __call = error, __metatable = 1 })
    assert.equal("{ a = 1 }", shown(trap))
    local keys = { [setmetatable({}, { __tostring = error })] = 1, [setmetatable({}, { __tostring = error })] = 2 }
    assert.is_truthy(shown(keys):find("= 1", 1, true))
  end)

  it("functions by where they are, the rest by name", function()
    assert.is_truthy(shown(function() end):find("^<function .*show_spec.lua:%d+>$"))
    assert.equal("<function in C>", shown(print))
    assert.is_truthy(shown(coroutine.create(print)):find("^<thread: "))
    assert.is_truthy(shown(io.stdout):find("^<file "))
  end)

  it("refs by behaviour, name and state", function()
    assert(pierrot.start{ workers = 2, log = "error" })
    local ref = pierrot.spawn{ { name = "counter", receive = function() return true end }, name = "hits" }
    ref:ask()
    while ref:info().state ~= "idle" do pierrot.sleep(0.001) end   -- its answer is out before its turn ends
    assert.is_truthy(shown(ref):find('^<actor "hits" %(counter, .-%), idle>$'), shown(ref))
    assert.is_truthy(shown{ ref }:find('^{ <actor "hits"'))
    local monitor = pierrot.monitor(ref)
    ref:kill()
    pierrot.receive(10)
    monitor:cancel()
    assert.is_truthy(shown(ref):find("dead>$"), shown(ref))
    assert(pierrot.shutdown())
  end)

  it("colours only when it is told to", function()
    assert.is_nil(shown { 1, "x" }:find("\27", 1, true))
    assert.is_truthy(show.value({ 1, "x" }, { colour = true }):find("\27[32m\"x\"\27[0m", 1, true))
  end)
end)
