-- Routers: an actor that passes each message on to one of its routees (or to all), sender and pending ask included.
-- The routees are its children, made of one behaviour; or the members of a group.
--
-- A routee that has ended is replaced by a new one when the next message would go to it.

local values = require "pierrot.values"

local router = {}

local pierrot, core   -- set by install, in each state
local select, type, random, unpack = select, type, math.random, unpack

local RESIZE, ROUTEES = "pierrot.resize", "pierrot.routees"
local MOST = 100000
local COUNTED = { overload = 1e9 }   -- no capacity; and no alarm that could ever be

-- Strategies: (self, how many, message...) -> which, from 1 ------------------------------------------------------

local strategies = {}

function strategies.round_robin(self, n)
  self.last = self.last % n + 1
  return self.last
end

function strategies.random(_, n)
  return random(n)
end

-- The one with the fewest messages in line and in hand; among equals they take turns. Routees of this strategy have
-- mailboxes into which senders put their messages themselves (box.c), so none lies unseen in the inbox of another
-- worker. Members of a group have what they were spawned with.
function strategies.smallest_mailbox(self, n)
  local first = self.last % n
  local best, least
  for i = 1, n do
    local at = (first + i - 1) % n + 1
    local load = core.load(self.routees[at]) or 0
    if not least or load < least then
      best, least = at, load
      if load == 0 then
        break
      end
    end
  end
  self.last = best
  return best
end

-- The second value of a message is its key: the first is mostly its name.
local function second(...)
  if select("#", ...) > 1 then
    return (select(2, ...))
  end
  return (...)
end

function strategies.hash(self, n, ...)
  local key = (self.key or second)(...)
  local place = core.place(key, n)
  if not place then
    error(("router: a key is a string, number, boolean or ref; this message has a %s"):format(type(key)), 0)
  end
  return place
end

strategies.broadcast = true
strategies.scatter_gather = true   -- of an ask: see gather

router.strategies = {}
for name in pairs(strategies) do
  router.strategies[#router.strategies + 1] = name
end
table.sort(router.strategies)

-- The actor -------------------------------------------------------------------------------------------------------

local function add(self)
  local spec = {}
  for key, value in pairs(self.options) do
    spec[key] = value
  end
  spec[1] = self.target
  if self.strategy == "smallest_mailbox" and spec.mailbox == nil then
    spec.mailbox = COUNTED
  end
  for i = 1, self.args.n do
    spec[i + 1] = self.args[i]
  end
  local ref, reason = pierrot.spawn(spec)
  if not ref then
    error("router: a routee cannot be spawned: " .. reason, 0)
  end
  return ref
end

function router.start(self, config, ...)
  self.target, self.options, self.key, self.group = config.target, config.options, config.key, config.group
  self.args = { n = select("#", ...), ... }
  self.strategy, self.last, self.routees, self.within = config.strategy, 0, {}, config.within
  for i = 1, config.size do
    self.routees[i] = add(self)
  end
end

function router.resize(self, n)
  if self.group then
    error("resize: the size of a group is that of its members", 0)
  end
  local routees = self.routees
  for i = #routees + 1, n do
    routees[i] = add(self)
  end
  for i = #routees, n + 1, -1 do
    routees[i]:drain()          -- what it has been given it still does
    routees[i] = nil
  end
  return n
end

function router.list(self)
  return self.group and core.members(self.group) or self.routees
end

-- The routee at this place; a new one for one that has ended.
local function alive(self, at)
  local ref = self.routees[at]
  if not core.is_alive(ref) and not self.group then
    ref = add(self)
    self.routees[at] = ref
  end
  return ref
end

-- All are asked, the first reply is the router's. Not an ask: as broadcast.
local function gather(self, n, ...)
  local asker, number = core.defer()
  if not asker then
    return false
  end
  for at = 1, n do
    alive(self, at)
  end
  local helper, reason = pierrot.spawn { "pierrot.asker", restart = "temporary" }
  if not helper then
    error("router: no actor can be spawned to gather: " .. reason, 0)
  end
  helper:tell("first", core.deferred(asker, number), self.within, self.routees, ...)
  return true
end

local function pass(self, at)
  local ok, reason = core.forward(alive(self, at))
  if not ok and reason == "dead" and not self.group then   -- it ended just now
    ok, reason = core.forward(alive(self, at))
  end
  return ok, reason
end

function router.route(self, ...)
  if self.group then
    self.routees = core.members(self.group)
  end
  local n = #self.routees
  if n == 0 then
    core.drop "dead"
    return
  end
  local choose = strategies[self.strategy]
  if choose ~= true then
    local ok, reason = pass(self, choose(self, n, ...))
    if not ok then
      core.drop(reason)
    end
    return
  end
  if self.strategy == "scatter_gather" and gather(self, n, ...) then
    return
  end
  local reached, why = 0, nil
  for at = 1, n do
    local ok, reason = pass(self, at)
    if ok then
      reached = reached + 1
    else
      why = reason
    end
  end
  if reached == 0 then
    core.drop(why)
  end
end

-- What a router does. Its upvalues travel with it: the routees' behaviour, and functions among the options.
local function behaviour(config)
  return {
    name = "router",
    start = function(self, ...) router.start(self, config, ...) end,
    on = {
      [RESIZE] = function(self, n) return router.resize(self, n) end,
      [ROUTEES] = function(self) return router.list(self) end,
    },
    receive = function(self, ...) return router.route(self, ...) end,
  }
end

-- The module's part -------------------------------------------------------------------------------------------------

local own = { size = true, strategy = true, key = true, name = true, worker = true, group = true,
              within = true }

function router.install(the_pierrot, the_core, misuse)
  pierrot, core = the_pierrot, the_core

  -- What spawn says of these things is said of the line that called.
  local function spawn_checked(level, what, ok, ...)
    if not ok then
      local problem = tostring((...)):gsub("^.-spawn: ", "")
      misuse(level + 1, "%s: %s", what, problem)
    end
    return ...
  end

  local function check_size(what, n)
    if type(n) ~= "number" or n % 1 ~= 0 or n < 1 or n > MOST then
      misuse(3, "%s: a whole number from 1 to %d expected, got %s", what, MOST, tostring(n))
    end
  end

  function pierrot.router(spec)
    if type(spec) ~= "table" then
      misuse(2, "router: a table of a behaviour and options expected, got %s", type(spec))
    end
    local strategy = spec.strategy or "round_robin"
    if not strategies[strategy] then
      misuse(2, "router: unknown strategy '%s' (there are %s)", tostring(strategy),
             table.concat(router.strategies, ", "))
    end
    if (spec[1] == nil) == (spec.group == nil) then
      misuse(2, "router: either a behaviour or a group expected")
    end
    if spec.group ~= nil and (type(spec.group) ~= "string" or spec.size ~= nil) then
      misuse(2, "router: a group is a name (string), and has no size of its own")
    end
    if spec.key ~= nil and type(spec.key) ~= "function" then
      misuse(2, "router: key: a function of the message's values expected, got %s", type(spec.key))
    end
    if spec.within ~= nil and (type(spec.within) ~= "number" or not (spec.within >= 0)) then
      misuse(2, "router: within: a number of seconds, 0 or more, expected, got %s", tostring(spec.within))
    end
    local there = pierrot.stats().dispatchers[spec.dispatcher or "default"]   -- an unknown one: check_options says so
    local size = spec.group and 0 or spec.size or there and there.workers or 1
    if not spec.group then
      check_size("router: size", size)
    end
    local options, highest = {}, 1
    for key, value in pairs(spec) do
      if type(key) == "number" then
        highest = math.max(highest, key)
      elseif not own[key] then
        options[key] = value
      end
    end
    if highest > values.MOST then
      misuse(2, "router: at most %d arguments for `start` expected", values.MOST)
    end
    local config = { target = spec[1], options = options, size = size, strategy = strategy, key = spec.key,
                     group = spec.group, within = spec.within }
    spawn_checked(2, "router", pcall(core.check_options, options))
    local actor = { behaviour(config), unpack(spec, 2, highest) }
    actor.name, actor.worker = spec.name, spec.worker
    local ref, reason, holder = spawn_checked(2, "router", pcall(pierrot.spawn, actor))   -- no tail call: levels count
    return ref, reason, holder
  end

  function pierrot.resize(ref, n)
    check_size("resize", n)
    return pierrot.ask(ref, RESIZE, n)
  end

  function pierrot.routees(ref)
    return pierrot.ask(ref, ROUTEES)
  end
end

return router
