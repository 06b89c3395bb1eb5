-- What the actors of a simulated program do: the ops of program.lua, by the public API alone. Each thing that they see is noted
-- in a list that lies outside all Lua states, in the order in which it happens (one thread runs all workers).
--
-- A note is eight numbers: what (world.NOTES), who, three operands, the time in milliseconds. `model.lua` judges them.

local ffi = require "ffi"
local pierrot = require "pierrot"

local world = {}

world.NOTES = { "start", "started", "take", "done", "fail", "stop", "send", "sent", "ask", "answer", "order", "born", "timer",
                "cancel", "monitor", "down", "link", "unlink", "exit", "join", "leave", "publish", "finish", "stash", "wake",
                "broken", "jump", "alloc", "every" }
local NOTE = {}
for i, name in ipairs(world.NOTES) do
  NOTE[name] = i
end

local LIVES = 6

world.MOST = 20000
world.RESULTS = { "ok", "dead", "stopping", "full", "timeout", "failed", "deadlock", "memory", "exists", "other" }
local RESULT = {}
for i, name in ipairs(world.RESULTS) do
  RESULT[name] = i
end

local LAYOUT = [[
typedef struct {
  int32_t layout, count, lost, serial, run, interpreted, lives[64];
  struct { int32_t what, who, a, b, c, ms; } list[20000];
} simulation_notes;
]]
ffi.cdef(LAYOUT)

-- Each state reads this file when it starts. One that has read another one than the first says so in the field that is first
-- in all of them: see world.check.
local layout = 0
for _, text in ipairs { LAYOUT, table.concat(world.NOTES, " ") } do
  for byte in text:gmatch "." do
    layout = (layout * 31 + byte:byte()) % 2 ^ 31
  end
end

function world.new_notes()
  local notes = ffi.new "simulation_notes[1]"
  notes[0].layout = layout
  world.kept = notes
  return notes[0], tonumber(ffi.cast("uintptr_t", ffi.cast("void *", notes)))
end

local notes, notes_at

function world.open(address)
  notes, notes_at = ffi.cast("simulation_notes *", address), address
  if notes.layout ~= layout then
    notes.layout = -1
  end
  if notes.interpreted == 1 then
    jit.off()
  end
end

function world.check()
  assert(notes.layout == layout, "spec/simulation/world.lua has changed while this was running")
end

local function note(what, who, a, b, c)
  local n = notes.count
  if n == world.MOST then
    notes.lost = notes.lost + 1
    return
  end
  local it = notes.list[n]
  it.what, it.who, it.a, it.b, it.c = NOTE[what], who, a or 0, b or 0, c or 0
  it.ms = math.floor(pierrot.now() * 1000 + 0.5)
  notes.count = n + 1
end
world.note = note

-- A message is known by the number that it gets when it is sent: the same op is done again in each life.
local function serial()
  notes.serial = notes.serial + 1
  return notes.serial
end

local function name(k) return "a" .. k end

-- The actor of that number, or the last one that was known here: one may tell, watch and link what has ended.
local refs, refs_of = {}, -1

local function ref_of(k)
  if refs_of ~= notes.run then
    refs, refs_of = {}, notes.run
  end
  refs[k] = pierrot.whereis(name(k)) or refs[k]
  return refs[k]
end

-- A ref as a number, which holds after its end, too.
local function key_of(ref)
  local slot, generation = tostring(ref):match "(%d+)%.(%d+)"
  return tonumber(slot) * 4096 + tonumber(generation) % 4096
end

-- What a call came to: pcall's results.
local function result(ok, value, reason)
  if ok then
    return value == nil and (RESULT[reason] or reason == "not enough memory" and RESULT.memory or RESULT.other) or RESULT.ok
  elseif type(value) == "table" then
    return RESULT[value.kind] or RESULT.other
  end
  return RESULT[tostring(value):find "not enough memory" and "memory" or "other"]
end

-- Rules of parents ----------------------------------------------------------------------------------------------

local function rules_of(n)
  local strategies = { [0] = "one_for_one", "one_for_all", "rest_for_one" }
  return { strategy = strategies[n % 3], intensity = math.floor(n / 3) % 2 == 0 and 3 or 1, period = 5,
           exceeded = n >= 6 and "escalate" or "stop" }
end
world.rules_of = rules_of

local behaviours = {}

local function behaviour_of(rules, trap)
  local key = rules * 2 + (trap and 1 or 0)
  local made = behaviours[key]
  if not made then
    made = {
      name = "simulated", trap_exit = trap, supervise = rules_of(rules),
      start = function(self, ...) return require "simulation.world".start(self, ...) end,
      receive = function(self, ...) return require "simulation.world".receive(self, ...) end,
      stop = function(self) return require "simulation.world".stop(self) end,
    }
    behaviours[key] = made
  end
  return made
end

-- Ops -----------------------------------------------------------------------------------------------------------

local verbs = {}

local function run(self, ops)
  for _, op in ipairs(ops) do
    verbs[op.op](self, op)
  end
end

function verbs.spawn(self, op)
  local mailbox = op.capacity and { capacity = op.capacity, overflow = op.overflow } or nil
  local called, ref, reason = pcall(pierrot.spawn, { behaviour_of(op.rules, op.trap), notes_at, op.to, op.ops,
    name = name(op.to), restart = op.restart, mailbox = mailbox, link = op.link or nil, monitor = op.monitor or nil })
  local code = result(called, ref, type(reason) == "string" and reason or nil)
  note("born", self.k, op.to, code, code == RESULT.ok and key_of(ref) or 0)
  ref_of(op.to)
end

function verbs.tell(self, op)
  local id = serial()
  note("send", self.k, op.to, id)
  local code = result(pcall(pierrot.tell, name(op.to), "m", id, self.k, op.ops))
  note("sent", self.k, op.to, id, code)
end

function verbs.ask(self, op)
  local id = serial()
  note("ask", self.k, op.to, id, math.floor(op.seconds * 1000 + 0.5))
  local ok, value = pcall(pierrot.ask_within, name(op.to), op.seconds, "m", id, self.k, op.ops)
  local code = result(ok, value)
  if ok and value ~= id + 1000000 then
    code = RESULT.other
  end
  note("answer", self.k, op.to, id, code)
end

function verbs.after(self, op)
  local id = serial()
  local ok, timer, reason = pcall(pierrot.send_after, op.seconds, name(op.to), "t", id, self.k, op.ops)
  local code = result(ok, timer, reason)
  if code == RESULT.ok then
    self.timers[id], self.last = timer, id
  end
  note("timer", self.k, op.to, id, code == RESULT.ok and math.floor(op.seconds * 1000 + 0.5) or -1)
end

function verbs.every(self, op)
  local id = serial()
  local ok, timer, reason = pcall(pierrot.send_every, op.seconds, pierrot.self(), "e", id, self.k, {})
  if result(ok, timer, reason) == RESULT.ok then
    self.timers[id], self.every[id] = timer, op.times
    note("every", self.k, self.k, id, math.floor(op.seconds * 1000 + 0.5))
  end
end

-- The one that was set last.
function verbs.cancel(self)
  if self.last then
    note("cancel", self.k, self.last, self.timers[self.last]:cancel() and 1 or 0)
  end
end

local function order(verb)
  return function(self, op)
    local ref = pierrot.whereis(name(op.to))   -- by its name, an actor's `stop` would be its own
    local code = RESULT.dead
    if ref then
      code = result(pcall(ref[verb], ref))
    end
    note("order", self.k, op.to, ({ stop = 1, drain = 2, kill = 3 })[verb], code)
  end
end
verbs.stop, verbs.drain, verbs.kill = order "stop", order "drain", order "kill"

function verbs.sleep(self, op)
  local due = pierrot.now() + op.seconds
  pierrot.sleep(op.seconds)
  note("wake", self.k, math.floor(due * 1000))
end

function verbs.yield() pierrot.yield() end

function verbs.fail(self)
  note("fail", self.k, self.hand or 0)
  error "simulated"
end

function verbs.finish(self)
  note("finish", self.k)
  pierrot.stop()
end

-- Noted first: what comes after the stash may fail for want of memory, and the message is kept nevertheless.
function verbs.stash(self)
  if self.hand and not self.stashed then
    note("stash", self.k, self.hand)
    if pcall(pierrot.stash) then
      self.stashed, self.seen[self.hand] = self.hand, true
    else
      note("stash", self.k, self.hand, 1)
    end
  end
end

function verbs.monitor(self, op)
  local ref = ref_of(op.to)
  if ref then
    local ok, monitor, reason = pcall(pierrot.monitor, ref)
    note("monitor", self.k, op.to, result(ok, monitor, reason), key_of(ref))
  end
end

function verbs.link(self, op)
  local ok, linked, reason = pcall(pierrot.link, name(op.to))
  note("link", self.k, op.to, result(ok, linked, reason))
end

function verbs.unlink(self, op)
  local ok = pcall(pierrot.unlink, name(op.to))
  note("unlink", self.k, op.to, ok and 1 or 0)
end

function verbs.join(self, op)
  local ref = pierrot.whereis(name(op.to))
  if ref then
    local ok, joined, reason = pcall(pierrot.join, "g" .. op.group, ref)
    note("join", self.k, op.to, op.group, ok and joined ~= nil and 1 or (reason == "dead" and 2 or 0))
  end
end

function verbs.leave(self, op)
  local ref = pierrot.whereis(name(op.to))
  if ref then
    local ok, left = pcall(pierrot.leave, "g" .. op.group, ref)
    note("leave", self.k, op.to, op.group, ok and left and 1 or 0)
  end
end

function verbs.publish(self, op)
  local id = serial()
  local ok, reached = pcall(pierrot.publish, "g" .. op.group, "m", id, self.k, op.ops)
  note("publish", self.k, op.group, id, ok and reached or -2)
end

-- Behaviours ----------------------------------------------------------------------------------------------------

function world.start(self, address, k, ops)
  world.open(address)
  self.k, self.timers, self.every, self.seen = k, {}, {}, {}
  note("start", k)
  notes.lives[k] = notes.lives[k] + 1
  if notes.lives[k] <= LIVES then   -- else a program might never come to rest
    run(self, ops)
  end
  note("started", k)
end

function world.receive(self, what, id, from, ops)
  if what == "down" then
    note("down", self.k, key_of(id))
    return
  elseif what == "exit" then
    note("exit", self.k, key_of(id))
    return
  elseif what ~= "m" and what ~= "t" and what ~= "e" then
    note("broken", self.k)
    return
  end
  note("take", self.k, id, from)
  local outer = self.hand
  self.hand = id
  if not self.seen[id] and notes.lives[self.k] <= LIVES then   -- else it has been stashed, and is here again
    run(self, ops)
  end
  if what == "e" then
    self.every[id] = self.every[id] - 1
    if self.every[id] <= 0 then
      self.timers[id]:cancel()
    end
  end
  self.hand = outer
  note("done", self.k, id)
  if self.stashed and self.stashed ~= id then
    self.stashed = nil
    pierrot.unstash()
  end
  return id + 1000000
end

function world.stop(self)
  note("stop", self.k)
end

world.run, world.verbs, world.key_of = run, verbs, key_of
world.name = name
return world
