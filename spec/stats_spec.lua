-- The accounts add up: every message that was sent was handled, was a dead letter or was cancelled.

local pierrot = require "pierrot"
local script = require "support.script"

local function balance(s) return s.handled + s.dead_letters + s.cancelled end

describe("stats", function()
  after_each(function() pierrot.shutdown() end)
  teardown(script.clean)

  it("add up after a storm of tells, asks, timers, stops and failures", function()
    assert(pierrot.start { workers = 4, log = "none" })
    local n = script.sanitized and 20 or 100
    local targets = {}
    local behaviour = { on = { count = function(self) self.n = (self.n or 0) + 1 end, ask = function() return 1 end,
      fail = function() error "x" end, slow = function() pierrot.sleep(0.001) end } }
    for i = 1, 20 do targets[i] = pierrot.spawn { behaviour, worker = i % 3 ~= 0 and i % 4 + 1 or nil } end
    local function storm(_, all, count)
      for k = 1, count do
        local to = all[k % #all + 1]
        to:tell "count"
        if k % 7 == 0 then to:tell "nobody takes this" end
        if k % 11 == 0 then pcall(to.ask, to, "ask") end
        if k % 13 == 0 then to:tell "fail" end
        if k % 17 == 0 then pierrot.send_after(0.001, to, "count"):cancel() end
        if k % 19 == 0 then pierrot.send_after(0.001, to, "count") end
        if k % 23 == 0 then to:tell "slow" end
        if k == 60 then to:stop() end
        if k == 80 then to:kill() end
      end
      return "done"
    end
    local producers = {}
    for i = 1, 16 do producers[i] = pierrot.spawn { storm, worker = i % 4 + 1, restart = "temporary" } end
    for _, p in ipairs(producers) do p:tell(targets, n) end
    for _, p in ipairs(producers) do
      while p:info() and (p:info().processed == 0) do pierrot.sleep(0.002) end
      p:stop()
    end
    for _, t in ipairs(targets) do t:drain() end
    local all = { unpack(producers) }
    for _, t in ipairs(targets) do all[#all + 1] = t end
    for _, a in ipairs(all) do while a:is_alive() do pierrot.sleep(0.002) end end
    pierrot.sleep(0.02)
    local s = pierrot.stats()
    assert.equal(s.sent, balance(s), ("sent %d, handled %d, dead %d, cancelled %d"):format(s.sent, s.handled,
      s.dead_letters, s.cancelled))
    assert.equal(s.spawned - s.ended, s.actors)
    assert.equal(0, s.actors)
    local by_reason = 0
    for _, count in pairs(s.dead_letters_by_reason) do by_reason = by_reason + count end
    assert.equal(s.dead_letters, by_reason)
  end)

  it("count the collector's cycles of each worker", function()
    assert(pierrot.start { workers = 2, log = "none" })
    local a = pierrot.spawn { function(_, times) for _ = 1, times do collectgarbage() end end, worker = 2 }
    a:ask(1)
    local before = pierrot.stats().by_worker[2].collections
    a:ask(20)
    local after = pierrot.stats().by_worker[2].collections
    assert.is_true(after >= before + 20, after - before)
    assert.is_true(after <= before + 60, after - before)   -- some by itself
    assert(pierrot.shutdown())
  end)

  it("count exactly what was done", function()
    assert(pierrot.start { workers = 2, log = "none" })
    local a = pierrot.spawn { { on = { yes = function() end, ask = function() return 1 end } }, worker = 1 }
    for _ = 1, 10 do a:tell "yes" end
    for _ = 1, 5 do a:tell "no" end
    for _ = 1, 3 do a:ask "ask" end
    local s = pierrot.stats()
    assert.equal(18, s.sent)
    assert.equal(13, s.handled)
    assert.equal(5, s.dead_letters_by_reason.unhandled)
    assert.equal(3, s.replies)
    assert.equal(1, s.actors)
    assert.equal(2, s.workers)
    assert.equal(2, #s.by_worker)
    a:kill()
    while a:is_alive() do pierrot.sleep(0.001) end
    a:tell "yes"
    assert.equal(1, pierrot.stats().rejected)
  end)
end)
