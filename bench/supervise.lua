--- What supervision costs:  pierrot run --log none [--workers N] bench/supervise.lua [CHILDREN [SUPERVISORS]]
--
-- spawn     a child is spawned, and has started
-- restart   a child raises (with its traceback), its parent decides, it is started anew; and how many spawns that is
-- in turn   one child at a time, so that the caches hold it all: its whole life (spawn, start, stop), and a restart
-- raise     what LuaJIT takes of a restart whatever the runtime does: a coroutine whose error is caught
-- tree      supervisors with children, 100,000 in all: from the call to the last child's start, and from the order to
--           stop to the last end
-- memory    an idle actor without children, monitors and links; and what a monitor on it adds
--
-- Times are the best of five rounds.

local pierrot = require "pierrot"

local children = tonumber(arg[1] or 100000)
local supervisors = tonumber(arg[2] or 100)
local ROUNDS = 5

local function resident()
  for line in io.lines "/proc/self/status" do
    local kb = line:match "^VmRSS:%s+(%d+)"
    if kb then return tonumber(kb) * 1024 end
  end
end

local function await_end(ref)
  while ref:is_alive() do pierrot.sleep(0.0005) end
end

-- Best of some rounds, each of which returns several figures.
local function best(round)
  local least = {}
  for _ = 1, ROUNDS do
    for i, figure in ipairs { round() } do least[i] = math.min(least[i] or math.huge, figure) end
  end
  return unpack(least)
end

-- Children tell their parent that they have started: the last one answers the ask that waits for it.
local Child = {
  start = function() pierrot.parent():tell "started" end,
  on = { fail = function() error("failed", 0) end },
}
local Parent = {
  supervise = { intensity = 1e6, period = 1e9 },
  start = function(self) self.refs, self.started = {}, 0 end,
  on = {
    spawn = function(self, n, here)
      self.wanted, self.answer = n, pierrot.defer()
      for i = 1, n do self.refs[i] = pierrot.spawn { Child, worker = here } end
    end,
    fail = function(self)
      self.wanted, self.started, self.answer = #self.refs, 0, pierrot.defer()
      for _, ref in ipairs(self.refs) do ref:tell "fail" end
    end,
    started = function(self)
      self.started = self.started + 1
      if self.started == self.wanted then self.answer:reply(true) end
    end,
  },
}

local function spawn_and_restart(n)
  return best(function()
    local parent = pierrot.spawn { Parent, worker = 1 }
    local begin = pierrot.now()
    parent:ask_within(60, "spawn", n, 1)
    local spawned = pierrot.now()
    parent:ask_within(60, "fail")
    local restarted = pierrot.now()
    parent:stop()
    await_end(parent)
    return (spawned - begin) / n * 1e9, (restarted - spawned) / n * 1e9
  end)
end

-- One child at a time: the next begins when this one has started.
local InTurn = {
  supervise = { intensity = 1e6, period = 1e9 },
  on = {
    go = function(self, what, n)
      self.what, self.left, self.answer = what, n, pierrot.defer()
      self.child = pierrot.spawn(Child)
    end,
    started = function(self)
      self.left = self.left - 1
      if self.left == 0 then
        self.child:stop()
        self.answer:reply(true)
      elseif self.what == "restart" then
        self.child:tell "fail"
      else
        self.child:stop()
        self.child = pierrot.spawn(Child)
      end
    end,
  },
}

local function in_turn(n)
  local parent = pierrot.spawn { InTurn, worker = 1 }
  local function each(what)
    return best(function()
      local begin = pierrot.now()
      parent:ask_within(60, "go", what, n)
      return (pierrot.now() - begin) / n * 1e9
    end)
  end
  local life, restart = each "life", each "restart"
  parent:stop()
  await_end(parent)
  return life, restart
end

local function raise(n)
  return best(function()
    local begin = pierrot.now()
    for _ = 1, n do coroutine.resume(coroutine.create(error), "failed", 0) end
    return (pierrot.now() - begin) / n * 1e9
  end)
end

local function tree()
  local Leaf = { receive = function(_, x) return x end }
  local each = math.floor(children / supervisors)
  local options = { name = "tree" }
  for s = 1, supervisors do
    local inner = {}
    for i = 1, each do inner[i] = { Leaf } end
    options[s] = { supervisor = inner }
  end
  return best(function()
    local before = pierrot.stats().actors
    local begin = pierrot.now()
    local top = pierrot.supervisor(options)
    top:ask_within(60, "count")   -- answered once the last one has started
    local started = pierrot.now()
    assert(pierrot.stats().actors - before == supervisors * (each + 1) + 1)
    top:stop()
    await_end(top)
    return started - begin, pierrot.now() - started
  end)
end

-- In a process that has had no other actors: what they take is new.
local function memory()
  local Idle = { receive = function(_, x) return x end }
  local watcher = pierrot.spawn { { receive = function(_, ref) pierrot.monitor(ref) end } }
  local refs = {}
  for i = 1, 1000 do   -- code, traces and blocks are there before
    local ref = pierrot.spawn(Idle)
    ref:ask(i)
    watcher:ask(ref)
    ref:kill()
  end
  collectgarbage() collectgarbage()
  local before = resident()
  for i = 1, children do refs[i] = pierrot.spawn(Idle) end
  for i = 1, children do refs[i]:ask_within(60, i) end
  local plain = resident()
  for i = 1, children do watcher:ask_within(60, refs[i]) end
  local monitored = resident()
  for i = 1, children do refs[i]:kill() end
  watcher:stop()
  while pierrot.stats().actors > 1 do pierrot.sleep(0.001) end
  return (plain - before) / children, (monitored - plain) / children
end

local plain, monitor = memory()
print(("memory   %8.0f bytes an idle actor, %.0f more for a monitor on it, both ends"):format(plain, monitor))
local n = math.min(children, 20000)
local spawn, restart = spawn_and_restart(n)
print(("spawn    %8.0f ns"):format(spawn))
print(("restart  %8.0f ns   %.1f spawns"):format(restart, restart / spawn))
local life, again = in_turn(n)
print(("in turn  %8.0f ns a life, %.0f ns a restart   %.1f lives"):format(life, again, again / life))
print(("raise    %8.0f ns"):format(raise(n)))
local start, stop = tree()
print(("tree     %8.2f s to start, %.2f s to stop %d actors"):format(start, stop, children + supervisors + 1))
