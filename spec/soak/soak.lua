-- Everything at once, for a while, on real threads: `make soak MINUTES=10`. Runs as `pierrot run soak.lua SECONDS FOLDER`.
--
-- Each player below does its part over and over, checks what it can see, and counts rounds. What must hold all along:
--   * an ask is answered by its own reply, or by an error that fits;
--   * what one sender tells one target arrives in order, once, and all of it while neither ends;
--   * a bounded mailbox never holds more than its bound, and what was accepted is handled;
--   * a monitor tells once; a life follows another one only after a failure; children end with their parents;
--   * a timer that was cancelled does not come, the others do;
--   * actors that have ended are gone: their number comes back to that of the players;
--   * resident memory is flat once all has happened a few times.
-- The first thing that does not hold ends the process with status 1 and says what it was. Clients at the control socket are
-- spec/soak/client.lua.

local pierrot = require "pierrot"

local seconds, folder = tonumber(arg[1]), arg[2]
local until_then = pierrot.now() + seconds

-- Of whatever is to come: more than a machine that is busy, or stopped by somebody who measures, takes.
local LIMIT = 240

local function holds(condition, fmt, ...)
  if not condition then
    io.stderr:write("soak: does not hold: ", fmt:format(...), "\n")
    os.exit(1)
  end
  return condition
end

local function over() return pierrot.now() >= until_then end

-- pcall of an ask, whose error must be one of these kinds.
local function try(kinds, fn, ...)
  local ok, a, b = pcall(fn, ...)
  if not ok and not (type(a) == "table" and kinds[a.kind]) then
    local info = type(...) == "userdata" and pierrot.info((...)) or {}
    holds(false, "an ask failed by: %s (%s, %s messages, on %s)", tostring(a), tostring(info.state), tostring(info.depth),
      tostring(info.worker))
  end
  return ok, a, b
end

local players = {}

-- Asks of an echo that fails, sleeps, defers and forwards now and then.
function players.asks()
  local echo = pierrot.spawn { { name = "echo",
    on = {
      plain = function(_, n) return n end,
      fail = function() error("planned", 0) end,
      slow = function(_, n) pierrot.sleep(0.002) return n end,
      defer = function(_, n)
        local answer = pierrot.defer()
        pierrot.spawn { function(_, deferred) deferred:reply(n) pierrot.stop() end, restart = "temporary" }:tell(answer)
      end,
      pass = function(self, n)
        self.other = self.other or pierrot.spawn { function(_, _, m) return m end }
        return self.other:ask_within(LIMIT, "on", n)
      end,
    } }, restart = "temporary" }
  return function()
    local kinds = { "plain", "slow", "defer", "pass", "fail" }
    for _ = 1, 50 do
      local kind, n = kinds[math.random(#kinds)], math.random(1e6)
      local ok, got = try({ failed = true, dead = true, timeout = true }, echo.ask_within, echo, LIMIT, kind, n)
      if kind == "fail" then
        holds(not ok, "a failing handler answers")
        return players.asks()
      end
      holds(ok and got == n, "%s of %d gives %s", kind, n, tostring(got))
    end
  end
end

-- Streams of numbers to a target on any worker, in order and complete.
function players.order()
  return function()
    local me = pierrot.self()
    local senders, each = 4, 200
    local target = pierrot.spawn { { receive = function(self, from, n)
      self[from] = self[from] or 0
      holds(n == self[from] + 1, "%d comes after %d", n, self[from])
      self[from] = n
      self.total = (self.total or 0) + 1
      if self.total == senders * each then
        me:tell("all", self.total)
        pierrot.stop()
      end
    end } }
    for from = 1, senders do
      pierrot.spawn { function()
        for n = 1, each do holds(target:tell(from, n), "a tell is refused") end
        pierrot.stop()
      end }:tell()
    end
    local what = pierrot.receive(LIMIT, function(first) return first == "all" end)
    holds(what == "all", "a stream has not arrived in time")
  end
end

-- Bounded mailboxes of each kind.
function players.bounds()
  local overflows = { "reject", "suspend", "drop_newest", "drop_oldest" }
  return function()
    local overflow, capacity, n = overflows[math.random(#overflows)], math.random(20), 300
    local box = pierrot.spawn { { on = {
      count = function(self) return self.n or 0 end,
    }, receive = function(self)
      self.n = (self.n or 0) + 1
      holds(pierrot.info(pierrot.self()).depth <= capacity + 1, "%s: a mailbox over its bound", overflow)
    end }, mailbox = { capacity = capacity, overflow = overflow } }
    local accepted = 0
    for i = 1, n do
      if box:tell(i) then accepted = accepted + 1 end
    end
    pierrot.monitor(box)
    local ok, handled
    repeat
      ok, handled = try({ full = true, dead = true }, box.ask_within, box, LIMIT, "count")
      if not ok then pierrot.sleep(0.001) end   -- a refusal suspends nobody: the box would never have its turn
    until ok or overflow ~= "reject" or over()
    box:drain()
    local down = pierrot.receive(LIMIT, function(what, who) return what == "down" and who == box end)
    holds(down, "a bounded actor has not ended in time")
    if ok and overflow == "reject" then
      holds(handled == accepted, "%d were accepted and %d handled", accepted, handled)
    elseif ok and overflow == "suspend" then
      holds(handled == n, "%d of %d were handled", handled, n)
    end
  end
end

-- Trees of actors, ended from anywhere.
function players.trees()
  local function node(depth)
    return { name = "node", start = function(self, left)
      self.children = {}
      for i = 1, left > 0 and 3 or 0 do
        self.children[i] = pierrot.spawn { depth.node, left - 1, restart = "transient" }
      end
    end, on = {
      fail = function() error("planned", 0) end,
      size = function(self)
        local n = 1
        for _, child in ipairs(self.children) do
          local ok, below = pcall(child.ask_within, child, LIMIT, "size")
          n = n + (ok and below or 0)
        end
        return n
      end,
    } }
  end
  local shape = {}
  shape.node = node(shape)
  return function()
    local root = pierrot.spawn { shape.node, 3, monitor = true, restart = "temporary" }
    local ok, size = try({ failed = true }, root.ask_within, root, LIMIT, "size")
    holds(ok and size == 40, "a tree of 40 has %s", tostring(size))
    for _ = 1, math.random(3) do
      local victim = root
      for _ = 1, math.random(3) do
        local info = pierrot.info(victim)
        local children = info and info.children or {}
        victim = children[math.random(math.max(#children, 1))] or victim
      end
      if victim ~= root then
        if math.random(2) == 1 then victim:tell "fail" else victim:kill() end
      end
    end
    local ways = { "stop", "drain", "kill" }
    root[ways[math.random(3)]](root)
    local what = pierrot.receive(LIMIT, function(first, who) return first == "down" and who == root end)
    holds(what, "a tree has not ended in time")
    holds(pierrot.receive(0, function(first, who) return first == "down" and who == root end) == nil, "a second down")
  end
end

-- A supervisor whose children fail.
function players.restarts()
  return function()
    local child = { name = "frail", on = { fail = function() error("planned", 0) end, life = function() return 1 end } }
    local sup = pierrot.supervisor { strategy = "one_for_one", intensity = 1e6, period = 1,
                                     { child, restart = "permanent" }, { child, restart = "permanent" } }
    local children = sup:ask_within(LIMIT, "children")
    for _ = 1, 10 do
      for _, entry in ipairs(children) do
        local ref = type(entry) == "table" and entry.ref or entry
        if type(ref) == "userdata" then
          try({ failed = true }, ref.ask_within, ref, LIMIT, "fail")
          local ok, n = try({ failed = true }, ref.ask_within, ref, LIMIT, "life")
          holds(ok and n == 1, "a restarted child does not answer")
        end
      end
    end
    pierrot.monitor(sup)
    sup:stop()
    holds(pierrot.receive(LIMIT, function(what, who) return what == "down" and who == sup end), "a supervisor does not end")
  end
end

-- Timers, of which half are cancelled.
function players.timers()
  return function()
    local me, due = pierrot.self(), 0
    for i = 1, 100 do
      local timer = pierrot.send_after(math.random() * 0.05, me, "timer", i)
      if i % 2 == 0 then
        if not timer:cancel() then due = due + 1 end
      else
        due = due + 1
      end
    end
    for _ = 1, due do
      holds(pierrot.receive(LIMIT, function(what) return what == "timer" end), "a timer has not come in time")
    end
    holds(pierrot.receive(0.06, function(what) return what == "timer" end) == nil, "a cancelled timer comes")
  end
end

-- Loops with a time slice, killed; the neighbour goes on.
function players.slices()
  return function()
    local loop = pierrot.spawn { function() while true do end end, worker = "here", timeslice = 0.001, monitor = true }
    loop:tell()
    pierrot.sleep(0.005)
    loop:kill()
    holds(pierrot.receive(LIMIT, function(what, who) return what == "down" and who == loop end), "a loop is not killed")
  end
end

-- Groups, names, shared values, big messages, blocking calls.
function players.sundries()
  return function()
    local me, name, group = pierrot.self(), "name" .. math.random(10), "group" .. math.random(3)
    local ref, reason = pierrot.spawn { { receive = function(_, what, value)
      if what == "share" then return value.list[3] end
      return what
    end, start = function() pierrot.join(group) end }, name = name }
    if not ref then
      holds(reason == "exists", "a spawn by name: %s", tostring(reason))
      return
    end
    local ok, got = try({}, ref.ask_within, ref, LIMIT, "share", pierrot.share { list = { 1, 2, 3 } })
    holds(ok and got == 3, "a shared value gives %s", tostring(got))
    local big = { text = ("x"):rep(math.random(50000)), me = me }
    ok, got = try({}, ref.ask_within, ref, LIMIT, big)
    holds(ok and got.text == big.text and got.me == me, "a big message is another one")
    holds(pierrot.publish(group, "published") >= 1, "nobody is in the group")
    holds(pierrot.blocking(function(n) return n + 1 end, 4) == 5, "a blocking call gives another value")
    ref:kill()
  end
end

-- New versions of a module, each player's own.
function players.reloads()
  local module = "soak_module_" .. tostring(pierrot.self()):match "%d+"
  local path, version = ("%s/%s.lua"):format(folder, module), 0
  local function write()
    version = version + 1
    local file = assert(io.open(path, "w"))
    file:write(("return { receive = function() return %d end, upgrade = function(_, state) return state end }\n")
      :format(version))
    file:close()
  end
  write()
  local actor = pierrot.spawn(module)
  return function()
    write()
    local ok, problem = pierrot.reload(module)
    holds(ok, "reload: %s", tostring(problem))
    local answered, got = try({}, actor.ask_within, actor, LIMIT)
    holds(answered and got == version, "version %d answers as %s", version, tostring(got))
    pierrot.sleep(0.05)
  end
end

-- Resident memory in KB.
local function resident()
  local file = assert(io.open "/proc/self/status")
  local kb = tonumber(file:read "*a":match "VmRSS:%s*(%d+)")
  file:close()
  return kb
end

local names = {}
for name in pairs(players) do names[#names + 1] = name end
table.sort(names)

-- Each player twice, on whatever workers they come to.
for _ = 1, 2 do
  for _, name in ipairs(names) do
    local player, conductor = players[name], pierrot.self()
    pierrot.spawn { { name = "player " .. name, receive = function()
      local round, rounds = player(), 0
      math.randomseed(rounds + pierrot.now() * 1e6 % 1e6)
      while not over() do
        round = round() or round
        rounds = rounds + 1
        if rounds % 50 == 0 then collectgarbage "step" end
      end
      conductor:tell("done", name, rounds)
    end }, restart = "temporary" }:tell()
  end
end

pierrot.subscribe "failure"
local samples, left, rounds = {}, 2 * #names, {}
local next_sample = pierrot.now() + 1
while left > 0 do
  local what, a, b = pierrot.receive(math.max(0, next_sample - pierrot.now()))
  if what == "done" then
    left = left - 1
    rounds[a] = (rounds[a] or 0) + b
  elseif what == "event" then
    local text = tostring(b.error)
    holds(text:find("planned", 1, true) ~= nil, "%s failed: %s\n%s", tostring(b.actor), text, tostring(b.traceback))
  end
  if pierrot.now() >= next_sample then   -- however many failures come between
    samples[#samples + 1] = resident()
    next_sample = pierrot.now() + 1
    local stats = pierrot.stats()
    print(("%4d s  %8d actors  %9d handled  %6d failures  %7d KB"):format(#samples, stats.actors, stats.handled,
      stats.failures, samples[#samples]))
    holds(stats.actors < 20000, "%d actors: they pile up", stats.actors)
  end
  holds(pierrot.now() < until_then + 300, "players do not come to their end")
end
pierrot.unsubscribe "failure"

-- What is left are the players, this actor, and what players keep (an echo, its other, a module's actor).
local function settled() return pierrot.stats().actors <= 2 * (#names + 4) + 20 end
for _ = 1, 600 do
  if settled() then break end
  pierrot.sleep(0.05)
end
holds(settled(), "%d actors are left", pierrot.stats().actors)

-- The middle third beside the last one: what was needed once has been taken by then.
local third = math.floor(#samples / 3)
local function highest(from, to)
  local most = 0
  for i = from, to do most = math.max(most, samples[i]) end
  return most
end
if third >= 5 then
  local middle, last = highest(third + 1, 2 * third), highest(2 * third + 1, #samples)
  holds(last <= middle * 1.15 + 8192, "resident memory grows: %d KB, then %d KB", middle, last)
end
for _, name in ipairs(names) do
  holds(rounds[name] > 0, "%s has not come to a round", name)
  print(("ok  %-10s %d rounds"):format(name, rounds[name]))
end
pierrot.shutdown()
