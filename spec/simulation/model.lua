-- What may happen: judges the notes of a simulated program (world.lua), one after the other, and what is left at the end. It
-- knows no runtime, only what docs/guide.md promises.
--
-- An actor is *sure* as long as nothing has happened that may end or restart it, but its own failures within its parent's
-- limits. Of a sure actor everything must come about: it lives, refuses nothing, handles all it was sent. Of one that is not,
-- no more is said than what may never happen: two handlers at once, messages out of order, twice, early, after the end.

local model = {}

local CODE = { OK = 1, DEAD = 2, STOPPING = 3, FULL = 4, TIMEOUT = 5, FAILED = 6, DEADLOCK = 7, MEMORY = 8, EXISTS = 9 }

local Model = {}
Model.__index = Model

local function wrong(fmt, ...)
  error({ violation = fmt:format(...) }, 0)
end

-- specs: the spawn ops by number; rules_of(number): of a parent
function model.new(specs, rules_of)
  local root = { k = 0, sure = true, started = true, alive = true, children = {}, links = {}, lives = 1, rules = {
    strategy = "one_for_one", intensity = 3, period = 5, exceeded = "stop" }, failures = {}, ended = {}, life = 1 }
  return setmetatable({ specs = specs, rules_of = rules_of, actors = { [0] = root }, messages = {}, last = {},
                        sequence = 0, asks = {}, timers = {}, groups = { [0] = {}, {} }, monitors = {}, by_key = {},
                        lacks_memory = false, time = 0 }, Model)
end

function Model:actor(k)
  local a = self.actors[k]
  if not a then
    a = { k = k, spec = self.specs[k], children = {}, links = {}, lives = 0, failures = {}, starts = {}, ended = {}, life = 0 }
    a.rules = a.spec and self.rules_of(a.spec.rules)
    self.actors[k] = a
  end
  return a
end

-- Whether it lives for certain: neither ended nor about to.
local function is_sure(a) return a.born and a.sure end

-- Something may end or restart this actor, and so those that hang on it.
function Model:doubt(a)
  if not a.sure or a.k == 0 then
    return
  end
  a.sure = false
  for _, child in ipairs(a.children) do
    self:doubt(child)
  end
  for other in pairs(a.links) do
    self:doubt(other)
  end
  local parent = a.parent
  if parent and parent.rules.strategy ~= "one_for_one" then
    for _, sibling in ipairs(parent.children) do
      self:doubt(sibling)
    end
  end
  if parent and parent.rules.exceeded == "escalate" then
    self:doubt(parent)
  end
end

-- Those that go down with one that fails, though it comes back itself.
function Model:doubt_around(a)
  for _, child in ipairs(a.children) do
    self:doubt(child)
  end
  for other in pairs(a.links) do
    self:doubt(other)
  end
  local parent = a.parent
  if parent.rules.strategy ~= "one_for_one" then
    for _, sibling in ipairs(parent.children) do
      if sibling ~= a then
        self:doubt(sibling)
      end
    end
  end
end

-- Lives -------------------------------------------------------------------------------------------------------

local on = {}

function on.born(self, by, k, code, key)
  local a = self:actor(k)
  if code == CODE.EXISTS then
    if not a.born then
      wrong("a%d cannot be born for its name is taken, by nobody", k)
    end
    return
  elseif code ~= CODE.OK then
    if code ~= CODE.MEMORY and is_sure(self.actors[by]) and by ~= 0 then
      wrong("a%d cannot be born of a%d: %d", k, by, code)
    end
    return
  end
  if a.born then   -- its former bearer has ended
    if is_sure(a) then
      wrong("a%d is born, and lives already", k)
    end
    local again = { k = k, spec = a.spec, children = {}, links = {}, lives = 0, failures = {}, starts = {}, rules = a.rules,
                    again = true, life = a.life, ended = a.ended }
    self.actors[k] = again
    a = again
  end
  a.born, a.parent = true, self.actors[by]
  a.sure = not a.again and not self.lacks_memory and (by == 0 or is_sure(self.actors[by]))
  self.by_key[key] = a
  for _, sibling in ipairs(a.parent.rules.strategy ~= "one_for_one" and a.parent.children or {}) do
    a.sure = a.sure and sibling.sure and not sibling.failed   -- what has happened to that may still come to the others
  end
  table.insert(a.parent.children, a)
  if a.spec.link then
    a.links[a.parent], a.parent.links[a] = true, true
    if not a.sure then
      self:doubt(a.parent)
    end
  end
  if a.spec.monitor then
    self:watch(a.parent, a)
  end
end

function on.start(self, k)
  local a = self:actor(k)
  if not a.born then
    wrong("a%d starts before it is born", k)
  elseif a.lives > 0 then
    if a.final then
      wrong("a%d starts again after the order to end", k)
    elseif a.spec.restart == "temporary" and a.parent.rules.strategy == "one_for_one" then
      wrong("a%d is temporary, and starts again", k)
    elseif is_sure(a) and not a.failed then
      wrong("a%d starts again without a cause", k)
    end
    local starts, rules = a.starts, a.parent.rules
    starts[#starts + 1] = a.failed and a.failed_at or a.life_ms   -- decided at then or later
    -- Whose parent cannot be asked, for want of memory, follows the usual rules for once.
    local first = starts[#starts - rules.intensity - (self.lacks_memory or 0)]
    if rules.strategy == "one_for_one" and first and self.time - first < rules.period * 1000 - 1 then
      wrong("a%d starts again more often than %d times in %g s", k, rules.intensity, rules.period)
    end
  end
  a.ended[a.life] = a.ended[a.life] or self.time
  a.lives, a.life, a.life_ms = a.lives + 1, a.life + 1, self.time
  a.failed, a.started, a.hand, a.finishing, a.stopped, a.starting = false, false, nil, false, false, true
  a.asking, a.sending = nil, nil
end

function on.started(self, k)
  local a = self:actor(k)
  a.started, a.starting = true, false
end

function on.fail(self, k, id)
  local a = self:actor(k)
  a.failed, a.starting = true, false
  a.failed_at = self.time
  local m = a.hand
  if id > 0 and not (m and m.id == id) then
    wrong("a%d fails at a message that is not in hand", k)
  elseif m then
    m.failed = true
    a.hand = nil
  end
  self:doubt_around(a)
  local rules, recent = a.parent.rules, 0
  a.failures[#a.failures + 1] = self.time
  for _, time in ipairs(a.failures) do
    if self.time - time <= rules.period * 1000 then
      recent = recent + 1
    end
  end
  if a.spec.restart == "temporary" or recent > rules.intensity or rules.strategy ~= "one_for_one" or a.finishing or
     not a.parent.sure then
    self:doubt(a)
  end
end

function on.stop(self, k)
  local a = self:actor(k)
  if not a.started and not a.failed then
    wrong("a%d: `stop` is called in a life that has not started", k)
  elseif a.stopped then
    wrong("a%d: `stop` is called twice in a life", k)
  elseif a.hand and is_sure(a) then
    wrong("a%d: `stop` is called inside a handler", k)
  elseif is_sure(a) and not a.failed and not a.finishing then
    wrong("a%d stops without a cause", k)
  end
  a.stopped, a.hand = true, nil
  a.ended[a.life] = self.time
end

function on.finish(self, k)
  local a = self:actor(k)
  a.finishing = true
  self:doubt(a)
end

-- b: 1 stop, 2 drain, 3 kill
function on.order(self, by, k, verb, code)
  local a = self:actor(k)
  if code == CODE.OK then
    if not a.born then
      wrong("an order to a%d is accepted, and it is not born", k)
    end
    if verb ~= 2 and (a.spec.restart ~= "permanent" or a.parent.k == by and by ~= 0) then
      a.final = true
    end
    a.drained = a.drained or {}
    if verb == 2 and a.spec.restart ~= "permanent" then
      a.drained[by] = self.sequence
    end
    self:doubt(a)
  elseif is_sure(a) and code ~= CODE.MEMORY then
    wrong("an order to a%d is refused: %d", k, code)
  end
end

-- Messages ----------------------------------------------------------------------------------------------------

-- By number and whom it goes to: what is published has one number for all.
function Model:message(kind, from, k, id)
  self.sequence = self.sequence + 1
  local m = { id = id, kind = kind, from = from, to = k, sequence = self.sequence, bearer = self:actor(k) }
  self.messages[id] = self.messages[id] or {}
  self.messages[id][k] = m
  return m
end

function Model:sent(k, id)
  return self.messages[id] and self.messages[id][k]
end

-- Whether the life that set it had ended before it was due: what is queued by then still comes. A life ends with its `stop`,
-- which may have to wait for the parent's word.
local function outlives(t)
  local ended = t.setter.ended[t.life]
  return t.setter.k ~= 0 and ended ~= nil and ended < t.due
end

local function waiting(self, a)
  local n = 0
  for _, list in pairs(self.messages) do
    for _, m in pairs(list) do
      n = n + ((m.bearer == a and m.accepted and not m.taken) and 1 or 0)
    end
  end
  return n
end

-- What a sender was told; `m` is what it has sent.
function Model:told(a, m, code)
  if code == CODE.OK then
    m.accepted = true
    if not a.born then
      wrong("a%d takes a message, and is not born", a.k)
    elseif is_sure(a) and a.spec.capacity and a.spec.overflow == "reject" and not a.vague and not m.taken and
           waiting(self, a) > a.spec.capacity then
      wrong("the mailbox of a%d holds more than %d", a.k, a.spec.capacity)
    end
    return
  end
  m.refused = true
  if m.taken and code ~= CODE.DEADLOCK then
    wrong("a%d takes message %d, which was refused", a.k, m.id)
  elseif code == CODE.DEAD or code == CODE.STOPPING then
    if is_sure(a) then
      wrong("message %d is refused as if a%d had ended", m.id, a.k)
    end
  elseif code == CODE.FULL then
    if not (a.spec and a.spec.capacity) then
      wrong("a%d is full, and its mailbox has no bound", a.k)
    elseif is_sure(a) and a.spec.overflow == "reject" and not a.vague and waiting(self, a) < a.spec.capacity then
      wrong("a%d is full with %d of %d messages", a.k, waiting(self, a), a.spec.capacity)
    end
  elseif code == CODE.MEMORY then
    if not self.lacks_memory then
      wrong("message %d: there is memory", m.id)
    end
  elseif code ~= CODE.DEADLOCK then
    wrong("message %d to a%d: the answer %d", m.id, a.k, code)
  end
end

function on.send(self, from, k, id)
  self:message("m", from, k, id)
  self:actor(from).sending = k
end

function on.sent(self, from, k, id, code)
  local m = self:sent(k, id)
  self:actor(from).sending = nil
  m.bearer = self:actor(k)   -- outside, others have turns before it is sent, and k may have been born again
  self:told(m.bearer, m, code)
end

function on.take(self, k, id, from)
  local a = self:actor(k)
  if a.final then
    wrong("a%d takes message %d after the order to end", k, id)
  elseif not a.started then
    wrong("a%d takes message %d before it has started", k, id)
  elseif a.hand then
    wrong("a%d takes message %d inside the handler of %d", k, id, a.hand.id)
  elseif a.failed or a.stopped or a.finishing then
    wrong("a%d takes message %d after the end of its life", k, id)
  end
  local m = self:sent(k, id)
  if not m or m.from ~= from then
    wrong("a%d takes message %d of a%d, which was not sent to it", k, id, from)
  elseif m.refused then
    wrong("a%d takes message %d, which was refused", k, id)
  elseif m.bearer ~= a and (m.from ~= 0 or m.accepted) then
    wrong("a%d takes message %d, which was sent to its former bearer", k, id)
  elseif m.stashed then
    m.stashed = false
    a.hand = m
    return
  elseif m.taken then
    wrong("a%d takes message %d twice", k, id)
  end
  local t = m.timer
  if t then
    if self.time < t.due then
      wrong("timer %d is early: %d ms, not %d", id, self.time, t.due)
    elseif t.cancelled then
      wrong("timer %d comes after it was cancelled", id)
    elseif outlives(t) then
      wrong("timer %d comes after the life that set it", id)
    end
    t.due = t.due + (t.period or 0)
  elseif m.kind == "m" then
    local line = from * 100 + k
    local drained = a.drained and a.drained[from]
    if m.sequence < (self.last[line] or 0) then
      wrong("a%d takes message %d of a%d after a later one", k, id, from)
    elseif drained and m.sequence > drained then
      wrong("a%d takes message %d, which a%d sent after it had it drained", k, id, from)
    end
    self.last[line] = math.max(m.sequence, self.last[line] or 0)
  end
  m.taken = not (t and t.period)
  a.hand = m
end

function on.done(self, k, id)
  local a = self:actor(k)
  if not a.hand or a.hand.id ~= id then
    wrong("a%d is done with message %d, which it has not in hand", k, id)
  end
  a.hand.done = true
  a.hand = nil
end

function on.stash(self, k, _, undone)
  self:actor(k).hand.stashed = undone ~= 1
end

-- Asks --------------------------------------------------------------------------------------------------------

function on.ask(self, from, k, id, ms)
  local asker = self:actor(from)
  local m = self:message("m", from, k, id)
  self:actor(k).vague = true   -- when it is accepted, nobody says
  asker.asking = { m = m, due = self.time + ms, life = asker.life, of = k }
end

-- Whether k waits for whom, directly or through others: for an answer, or for room in a mailbox.
function Model:waits(k, whom, depth)
  local a = self.actors[k]
  if k == whom then
    return true
  end
  local of = a and (a.asking and a.asking.of or a.sending)
  return of and depth < 20 and self:waits(of, whom, depth + 1) or false
end

function on.answer(self, from, k, id, code)
  local asker, a = self:actor(from), self:actor(k)
  local ask = asker.asking
  if not ask or ask.m.id ~= id or ask.life ~= asker.life then
    wrong("a%d is answered what it does not ask", from)
  end
  asker.asking = nil
  local m = ask.m
  if code == CODE.OK then
    if not m.done then
      wrong("a%d is answered message %d, which is not done", from, id)
    end
  elseif code == CODE.TIMEOUT then
    if self.time < ask.due then
      wrong("the ask %d of a%d is out of time too early", id, from)
    elseif m.done and is_sure(asker) and self.time > ask.due + 1 and not self.jumped then
      wrong("the ask %d of a%d has an answer, and runs out of time", id, from)
    end
  elseif code == CODE.FAILED then
    if is_sure(a) and not m.failed and not m.stashed then
      wrong("the ask %d of a%d has failed, and its handler has not", id, from)
    end
  elseif code == CODE.DEADLOCK then
    if not self:waits(k, from, 0) and is_sure(asker) then
      wrong("the ask %d of a%d is a deadlock, and a%d does not wait for it", id, from, k)
    end
  elseif m.taken and (code == CODE.DEAD or code == CODE.STOPPING) then
    if is_sure(a) then
      wrong("the ask %d of a%d ends as if a%d had ended", id, from, k)
    end
  else
    self:told(a, m, code)
  end
end

-- Timers ------------------------------------------------------------------------------------------------------

function on.timer(self, by, k, id, ms, period)
  local setter = self:actor(by)
  if ms < 0 then
    if is_sure(self:actor(k)) and not self.lacks_memory then
      wrong("timer %d cannot be set", id)
    end
    return
  end
  local m = self:message("t", by, k, id)
  m.timer = { due = self.time + ms, setter = setter, life = setter.life, period = period }
  self:actor(k).vague = true
  setter.timers = setter.timers or {}
  setter.timers[id] = m.timer
end

function on.every(self, by, k, id, ms)
  on.timer(self, by, k, id, ms, ms)
end

function on.cancel(self, by, id, pending)
  local t = self:actor(by).timers and self:actor(by).timers[id]
  if t and pending == 1 then
    t.cancelled = true
  end
end

function on.wake(self, k, due)
  if self.time < due then
    wrong("a%d sleeps until %d ms, and wakes at %d", k, due, self.time)
  elseif not self:actor(k).hand and not self:actor(k).starting then
    wrong("a%d wakes, and no handler of it sleeps", k)
  end
end

-- Ties --------------------------------------------------------------------------------------------------------

function Model:watch(a, whom)
  local key = a.k .. "," .. tostring(whom)
  self.monitors[key] = self.monitors[key] or { a = a, whom = whom, set = 0, downs = 0 }
  self.monitors[key].set = self.monitors[key].set + 1
end

function on.monitor(self, k, whom, code, key)
  if code == CODE.OK and self.by_key[key] then
    self:watch(self:actor(k), self.by_key[key])
  elseif code ~= CODE.OK and is_sure(self:actor(whom)) and not self.lacks_memory then
    wrong("a%d cannot watch a%d, which lives", k, whom)
  end
end

function on.down(self, k, key)
  local whom = self.by_key[key]
  local it = whom and self.monitors[k .. "," .. tostring(whom)]
  if not it then
    wrong("a%d is told of an end that it does not watch", k)
  elseif is_sure(whom) then
    wrong("a%d is told of the end of a%d, which lives", k, whom.k)
  end
  it.downs = it.downs + 1
  if it.downs > it.set then
    wrong("a%d is told of the end of a%d too often", k, whom.k)
  end
end

function on.link(self, k, whom, code)
  if code ~= CODE.OK then
    return
  end
  local a, other = self:actor(k), self:actor(whom)
  if a ~= other then
    a.links[other], other.links[a] = true, true
    if not other.sure then
      self:doubt(a)
    end
    if not a.sure then
      self:doubt(other)
    end
  end
end

function on.exit(self, k, key)
  local a, whom = self:actor(k), self.by_key[key]
  if k ~= 0 and not a.spec.trap then
    wrong("a%d gets an exit, and traps none", k)
  elseif whom and is_sure(whom) then
    wrong("a%d gets the exit of a%d, which lives", k, whom.k)
  end
end

-- Groups ------------------------------------------------------------------------------------------------------

function on.join(self, _, k, group, code)
  local a = self:actor(k)
  if code == 1 then
    self.groups[group][a] = true
  elseif code == 2 and is_sure(a) then
    wrong("a%d, which lives, cannot join", k)
  end
end

function on.leave(self, _, k, group)
  self.groups[group][self:actor(k)] = nil
end

function on.publish(self, by, group, id, reached)
  local count, exact = 0, true
  for a in pairs(self.groups[group]) do
    count = count + 1
    exact = exact and is_sure(a) and not a.spec.capacity
    local m = self:message("m", by, a.k, id)
    m.accepted = is_sure(a) and not a.spec.capacity and reached >= 0
    a.vague = true
  end
  if reached > count or (exact and reached ~= count and not self.lacks_memory) then
    wrong("message %d reaches %d of a group of %d", id, reached, count)
  end
end

function on.unlink() end
function on.jump(self) self.jumped = true end

function on.broken(_, k)
  wrong("a%d takes a message that nobody has sent", k)
end

-- From now on an allocation fails: an op may come to nothing, and an actor may fail anywhere.
function on.alloc(self)
  self.lacks_memory = (self.lacks_memory or 0) + 1
  for k, a in pairs(self.actors) do
    if k ~= 0 then
      a.sure = false
    end
  end
end

-- The judge ---------------------------------------------------------------------------------------------------

-- it: { what = name, who =, a =, b =, c =, ms = }
function Model:note(it)
  if it.ms < self.time then
    wrong("time goes back from %d to %d ms", self.time, it.ms)
  end
  self.time = it.ms
  on[it.what](self, it.who, it.a, it.b, it.c)
end

-- alive: by number; nothing is left that could happen.
function Model:finish(alive)
  for k, a in pairs(self.actors) do
    if k ~= 0 and is_sure(a) then
      if not alive[k] then
        wrong("a%d has ended without a cause", k)
      elseif a.failed or not a.started then
        wrong("a%d has not started (again)", k)
      elseif a.hand then
        wrong("a%d does not come back from message %d", k, a.hand.id)
      end
    end
    if k ~= 0 and a.born and alive[k] then
      if a.final then
        wrong("a%d lives on after the order to end", k)
      elseif a.parent.k ~= 0 and not alive[a.parent.k] and not a.again then
        wrong("a%d outlives its parent a%d", k, a.parent.k)
      end
    end
  end
  for id, list in pairs(self.messages) do
    for _, m in pairs(list) do
      local a, t = m.bearer, m.timer
      local due = m.accepted or (t and not t.period and not t.cancelled and is_sure(t.setter) and t.setter.life == t.life)
      if due and not m.taken and is_sure(a) and not a.spec.capacity then
        wrong("%s %d to a%d is lost", t and "timer" or "message", id, a.k)
      elseif due and m.accepted and not m.taken and is_sure(a) and a.spec.overflow:find "drop" == nil then
        wrong("message %d to a%d is lost", id, a.k)
      end
    end
  end
  for k, a in pairs(self.actors) do
    if a.asking and a.asking.life == a.life and not a.failed and (k == 0 or is_sure(a)) then
      wrong("the ask %d of a%d is never answered", a.asking.m.id, k)
    end
  end
  for _, it in pairs(self.monitors) do
    local lives = self.actors[it.whom.k] == it.whom and alive[it.whom.k]
    if it.a.k ~= 0 and is_sure(it.a) and #it.a.failures == 0 and not lives and it.downs < it.set and
       not it.a.spec.capacity then
      wrong("a%d is not told of the end of a%d", it.a.k, it.whom.k)
    end
  end
end

return model
