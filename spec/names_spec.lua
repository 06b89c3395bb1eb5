-- Names: unique, found from everywhere, free again at their holder's end, kept over restarts.

local pierrot = require "pierrot"

local function echo(_, ...) return ... end

describe("names", function()
  before_each(function() assert(pierrot.start { workers = 2, log = "none" }) end)
  after_each(function() pierrot.shutdown() end)

  it("are given at spawn or later, and found by all calls", function()
    local a = pierrot.spawn { echo, name = "a" }
    local b = pierrot.spawn(echo)
    assert.is_true(pierrot.register("b", b))
    assert.is_true(pierrot.whereis "a" == a and pierrot.whereis "b" == b)
    assert.is_nil(pierrot.whereis "c")
    assert.is_true(pierrot.tell("a", 1))
    assert.equal(2, pierrot.ask("b", 2))
    assert.equal(3, pierrot.ask_within("b", 5, 3))
    assert.is_true(pierrot.is_alive "a")
    assert.is_false(pierrot.is_alive "c")
    assert.equal("a", pierrot.info("a").name)
    assert.same({ a, 5 }, { pierrot.spawn(function(_, name) return pierrot.whereis(name), pierrot.ask(name, 5) end):ask "a" })
  end)

  it("that are taken: nil, exists, and the holder; nothing is spawned", function()
    local a = pierrot.spawn { echo, name = "taken" }
    local before = pierrot.stats().actors
    local ref, why, holder = pierrot.spawn { echo, name = "taken" }
    assert.same({ nil, "exists", a }, { ref, why, holder })
    assert.equal(before, pierrot.stats().actors)
    local b = pierrot.spawn(echo)
    ref, why, holder = pierrot.register("taken", b)
    assert.same({ nil, "exists", a }, { ref, why, holder })
    assert.is_true(pierrot.whereis "taken" == a)
  end)

  it("are free at their holder's end, and when unregistered", function()
    for _ = 1, 50 do
      local a = pierrot.spawn { echo, name = "again" }
      assert.equal(1, a:ask(1))
      a:kill()
      while a:is_alive() do pierrot.sleep(0.001) end
      assert.is_nil(pierrot.whereis "again")
    end
    local b = pierrot.spawn { echo, name = "again" }
    assert.is_true(pierrot.unregister "again")
    assert.is_false(pierrot.unregister "again")
    assert.is_nil(pierrot.whereis "again")
    assert.is_true(pierrot.register("other", b))
    assert.is_true(pierrot.register("third", b))
    assert.is_true(pierrot.whereis "other" == pierrot.whereis "third")
    b:kill()
    while b:is_alive() do pierrot.sleep(0.001) end
    assert.is_nil(pierrot.whereis "other")
    assert.is_nil(pierrot.whereis "third")
  end)

  it("may hold any bytes, up to 255", function()
    for _, name in ipairs { "a\0b", "\0", " ", "\255\254", ("x"):rep(255), "a\nb", "%s" } do
      local a = assert(pierrot.spawn { echo, name = name })
      assert.is_true(pierrot.whereis(name) == a)
      assert.equal(name, a:info().name)
      assert.equal("string", type(tostring(a)))
      assert.equal(1, pierrot.ask(name, 1))
    end
  end)

  it("of the wrong kind raise at the caller's line", function()
    local a = pierrot.spawn(echo)
    for _, bad in ipairs { "", ("x"):rep(256), 5, true, {} } do
      for _, call in ipairs { "register", "whereis", "unregister" } do
        local ok, err = pcall(function() local r = pierrot[call](bad, a) return r end)
        assert.is_false(ok)
        assert.truthy(err:find("names_spec.lua:%d+: " .. call), err)
      end
      local ok, err = pcall(function() local r = pierrot.spawn { echo, name = bad } return r end)
      assert.is_false(ok)
      assert.truthy(err:find("names_spec.lua:%d+: spawn: name"), err)
    end
    assert.is_false((pcall(pierrot.register, "x")))
    assert.is_false((pcall(pierrot.register, "x", "y")))
    assert.is_nil(pierrot.whereis "x")
  end)

  it("of the dead are refused", function()
    local a = pierrot.spawn { echo, worker = 1 }
    a:kill()
    while a:is_alive() do pierrot.sleep(0.001) end
    assert.same({ nil, "dead" }, { pierrot.register("x", a) })
    assert.is_nil(pierrot.whereis "x")
  end)

  it("have one winner among many actors that race for them", function()
    local me = pierrot.self()
    for round = 1, 20 do
      for i = 1, 8 do
        pierrot.spawn { function(_, name)
          local ok, why, holder = pierrot.register(name, pierrot.self())
          me:tell(ok, why, holder or pierrot.self())
        end, worker = i % 2 + 1 }:tell("race" .. round)
      end
      local won, holders = 0, {}
      for _ = 1, 8 do
        local ok, _, holder = pierrot.receive(60)
        if ok then won = won + 1 end
        holders[holder] = true
      end
      assert.equal(1, won)
      assert.is_true(next(holders) == pierrot.whereis("race" .. round) and next(holders, (next(holders))) == nil)
    end
  end)
end)
