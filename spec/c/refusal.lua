-- What the actors of refusal_test.c do, each by its name. All of it may fail for want of memory, anywhere.
jit.off() -- compiled code may crash where LuaJIT is refused memory: see src/lua/heap.h
local pierrot = require 'pierrot'
-- What has been promised is so: one allocation fails in a run, and by now it has.
local function must(holds, what) if not holds then pierrot.tell('witness', 'wrong', what) end end
local function echo(_, ...) return ... end
local function failing() error('as it was told', 0) end
local function slow() pierrot.sleep(0.01) return 'slept' end
-- A supervisor with these rules, whose children fail one after the other, and are waited for.
local function fail_below(rules)
  local below = { on = { fail = failing, wait = slow }, stop = function() pierrot.sleep(0.001) end }
  rules[1], rules[2], rules[3] = { below, name = 'one' }, { below }, { below, name = 'two', restart = 'permanent' }
  local s = pierrot.supervisor(rules)
  for _ = 1, 2 do
    for _, child in ipairs(s and select(2, pcall(s.ask, s, 'children')) or {}) do
      child:tell 'wait'
      child:tell 'fail'
      pierrot.sleep(0.001)
    end
  end
  pierrot.sleep(0.02)
end

local todo = {
  spawn = function() pierrot.spawn(echo) pierrot.spawn({ start = function() end, on = { x = echo } }) end,
  options = function()
    local one = pierrot.spawn { echo, name = 'one', mailbox = 3, link = true }
    must(not one or pierrot.info(one).capacity == 3, 'the bound of a mailbox')
    must(not one or pierrot.whereis 'one' == one, 'the name of an actor')
    pierrot.spawn { echo, name = 'two', mailbox = { capacity = 2, overflow = 'drop_oldest' }, monitor = true }
    pierrot.spawn { echo, name = 'two', monitor = true, link = true }
    pierrot.spawn { echo, restart = 'permanent', shutdown = 1, reentrant = 5, worker = 2 }
  end,
  tell = function()
    local to = pierrot.spawn(echo)
    for i = 1, 5 do to:tell(i, 'x', true, nil, { 1, { a = 2 } }, to) end
    to:tell(('x'):rep(100000)) to:tell(1.5, ('y'):rep(300))
    pcall(to.ask, to)
  end,
  ask = function()
    local to = pierrot.spawn(echo)
    assert(to:ask(7) == 7) assert(to:ask_within(1, 'x') == 'x')
    pcall(to.ask, to, ('x'):rep(5000))
    pcall(pierrot.ask, pierrot.spawn(failing))
    pcall(to.ask_within, pierrot.spawn(slow), 0.001)
  end,
  ['ask all'] = function()
    local list = { { pierrot.spawn(echo), 1 }, { pierrot.spawn(slow), 2 }, { pierrot.spawn(failing) } }
    pierrot.ask_all(list, 1)
    pierrot.pipe({ pierrot.spawn(echo), 1 }, pierrot.self(), 'piped')
    pierrot.receive(1)
  end,
  monitor = function()
    local to = pierrot.spawn(echo)
    local _, n = pierrot.monitor(to), pierrot.monitor(to)
    if n then n:cancel() end
    to:stop 'enough'
    must(pierrot.receive(1) == 'down', 'a monitor')
    pierrot.monitor(to)
    pierrot.receive(1)
  end,
  ['fails: link'] = function()
    local to, other = pierrot.spawn(echo), pierrot.spawn(echo)
    pierrot.link(to) pierrot.link(other) pierrot.unlink(other)
    to:kill()
    pierrot.receive(1)
  end,
  timers = function()
    local me = pierrot.self()
    local a, b = pierrot.send_after(0.01, me, 'a', {}), pierrot.send_every(0.01, me, 'b')
    local c = pierrot.send_after(60, pierrot.spawn(echo), 'c')
    must(not a or pierrot.receive(1, function(what) return what == 'a' end), 'a timer')
    must(not b or pierrot.receive(1, function(what) return what == 'b' end), 'a timer that goes on')
    if b then b:cancel() end
    if c then c:cancel() end
    pierrot.sleep(0.01)
  end,
  receive = function()
    local me = pierrot.self()
    me:tell 'x' me:tell(1) me:tell { 2 }
    pierrot.receive(1, function(v) return v == 1 end)
    pierrot.receive(0.001, function(v) return v == 'none' end)
  end,
  become = function() pierrot.become(echo) pierrot.become({ on = { x = failing } }, true) pierrot.unbecome() end,
  names = function()
    local to = pierrot.spawn(echo)
    must(not pierrot.register('somebody', to) or pierrot.whereis 'somebody' == to, 'a name')
    pierrot.register('sb', pierrot.self()) pierrot.tell('somebody', 1)
    pierrot.unregister 'somebody'
  end,
  groups = function()
    pierrot.join('most', pierrot.self())
    local joined = 0
    for _ = 1, 9 do joined = joined + (pierrot.join('all', pierrot.spawn(echo)) and 1 or 0) end
    must(#pierrot.members 'all' == joined, 'a group')
    pierrot.publish('all', 'x') pierrot.members 'all' pierrot.leave('most', pierrot.self())
  end,
  events = function()
    for _, topic in ipairs { 'dead_letter', 'restart', 'failure', 'overload', 'slow_turn' } do
      pcall(pierrot.subscribe, topic)
    end
    local gone = pierrot.spawn(echo)
    gone:kill() gone:tell(1)
    pierrot.spawn(failing):tell(1)
    pierrot.receive(1) pierrot.receive(1)
    pcall(pierrot.unsubscribe, 'restart')
  end,
  share = function()
    local s = pierrot.share { 1, { 2 }, x = 'y' }
    local to = pierrot.spawn { echo, worker = 2 }
    to:tell(s) to:tell { s, pierrot.share { s } } to:ask(s[2])
    pierrot.thaw(s)
  end,
  router = function()
    local r = pierrot.router { echo, size = 2, strategy = 'hash' }
    if r then r:ask('k', 1) pierrot.resize(r, 3) pierrot.resize(r, 1) pierrot.routees(r) end
    local b = pierrot.router { echo, size = 2, strategy = 'scatter_gather', within = 1 }
    if b then b:ask(1) end
  end,
  ['one for all'] = function() fail_below { strategy = 'one_for_all', backoff = { min = 0.001 } } end,
  ['rest for one'] = function() fail_below { strategy = 'rest_for_one', intensity = 1 } end,
  ['exceeded'] = function() fail_below { intensity = 0, exceeded = 'escalate' } end,
  ['counted for all'] = function() fail_below { strategy = 'one_for_all', count = 'all', intensity = 2 } end,
  verdicts = function()
    for _, verdict in ipairs { 'restart', 'resume', 'stop', 'escalate' } do
      local above = pierrot.spawn {
        { start = function(self, name)
            local below = { on = { fail = failing, wait = slow }, stop = function() pierrot.sleep(0.001) end }
            self.first = pierrot.spawn { below, link = name == 'resume' }
            self.second = pierrot.spawn(below)
          end,
          on = { go = function(self) self.second:tell 'wait' self.first:tell 'fail' self.second:tell 'fail' end },
          supervise = { strategy = 'one_for_all', on_failure = function() return verdict end } },
        verdict }
      if above then above:tell 'go' end
    end
    pierrot.sleep(0.02)
  end,
  ['fails: handler'] = failing,
  ['children fail'] = function()
    for i = 1, 3 do pierrot.spawn { failing, restart = i == 1 and 'temporary' or 'permanent' }:tell(i) end
    pierrot.sleep(0.01)
  end,
  defer = function()
    local to = pierrot.spawn(function(_, what)
      if what == 'forward' then return pierrot.forward(pierrot.spawn(echo)) end
      local d = pierrot.defer()
      if what == 'fail' then d:fail { 'so' } else pierrot.spawn(function(_, e) e:reply(1) end):tell(d) end
    end)
    pcall(to.ask, to, 'forward') pcall(to.ask, to, 'fail') pcall(to.ask, to, 'later')
  end,
  stash = function()
    local to = pierrot.spawn { function(_, what)
      if what == 'open' then pierrot.become(echo) pierrot.unstash() else pierrot.stash() end
    end, mailbox = 10 }
    for i = 1, 3 do to:tell(i) end
    to:tell 'open'
    assert(to:ask(1) == 1)
  end,
  boxes = function()
    local full = pierrot.spawn { slow, mailbox = { capacity = 1, overflow = 'suspend' } }
    local least = pierrot.spawn { slow, mailbox = { capacity = 2, overflow = 'drop_newest' } }
    for i = 1, 4 do
      pierrot.spawn(function() full:tell(i) full:tell('again') end):tell 'go'
      least:tell(i)
    end
    pcall(full.ask, full, 1)
  end,
  reentrant = function()
    local to = pierrot.spawn { slow, reentrant = 3 }
    for i = 1, 5 do to:tell(i) end
    to:ask(6)
  end,
  look = function()
    local to = pierrot.spawn { slow, name = 'looked at' }
    to:tell(1) pierrot.info(to) pierrot.children() pierrot.stats() pierrot.whereis 'looked at'
    print(to, 'a line') io.write('half a line')
    pierrot.log.warn('%s', ('x'):rep(3000))
  end,
}
return {
  stop = function() pierrot.tell('witness', 'stopped') end,
  on = {
    ['to do'] = function() local list = {} for k in pairs(todo) do list[#list + 1] = k end table.sort(list)
      return table.concat(list, ',') end,
    ['do'] = function(self, what) todo[what]() pierrot.tell('witness', 'done') end,
    down = function() end, piped = function() end, event = function() end, echo = echo,
  },
}
