-- Supervisors: an actor that does nothing but keep its children. What follows their failures is the core's work, by
-- `supervise`; here is the list of them, their start in order, and what can be asked for.
--
-- A child's spec is what spawn takes, and `significant`; the specs travel with the supervisor's code. A spec outlives
-- its child (its place in the list is kept for restart_child), but for that of a temporary one.
--
-- A significant child is monitored: its own end, as opposed to one that its supervisor has ordered, may be the
-- supervisor's.

local supervisor = {}

local pierrot, core   -- set by install, in each state
local type, pairs, ipairs, error, tostring = type, pairs, ipairs, error, tostring

-- The actor -------------------------------------------------------------------------------------------------------

-- The spec without what is not spawn's; whether the child is significant. Errors are texts.
local function split(child, auto_shutdown)
  local significant = child.significant
  if significant == nil then
    return child, false
  elseif type(significant) ~= "boolean" then
    error(("significant: true or false expected, got %s"):format(tostring(significant)), 0)
  elseif significant and auto_shutdown == "never" then
    error("significant is for supervisors with auto_shutdown", 0)
  elseif significant and child.restart == "permanent" then
    error("significant: a permanent child never ends by itself", 0)
  end
  local spec = {}
  for key, value in pairs(child) do
    spec[key] = value
  end
  spec.significant = nil
  return spec, significant
end

-- Spawns and waits until its `start` is done, or it has ended. -> ref | nil, reason, holder
local function start(self, spec, significant)
  local ref, reason, holder = pierrot.spawn(spec)
  if not ref then
    return nil, reason, holder
  end
  local record = { spec = spec, ref = ref, significant = significant }
  self.records[#self.records + 1] = record
  if significant then
    self.significant[pierrot.monitor(ref)] = record
  end
  if not core.await_start(ref) then
    return nil, "failed"
  end
  return ref
end

function supervisor.start(self, specs, auto_shutdown)
  self.records, self.waiting, self.significant, self.auto_shutdown = {}, {}, {}, auto_shutdown
  for i, child in ipairs(specs) do
    local spec, significant = split(child, auto_shutdown)
    local ref, reason = start(self, spec, significant)
    if not ref and reason ~= "failed" then
      error(("supervisor: child %s: %s"):format(spec.name and ("%q"):format(spec.name) or i, reason), 0)
    end
  end
end

-- By name or ref; those of temporary children that have ended are dropped on the way.
local function find(self, who)
  local found, at
  for i = #self.records, 1, -1 do
    local record = self.records[i]
    if record.spec.restart == "temporary" and not core.is_alive(record.ref) then
      table.remove(self.records, i)
      at = at and at - 1
    elseif record.ref == who or (type(who) == "string" and record.spec.name == who) then
      found, at = record, i
    end
  end
  return found, at
end

function supervisor.children()
  return core.children()
end

-- Living children, and specs.
function supervisor.count(self)
  find(self, nil)
  return #core.children(), #self.records
end

-- What there is: also those that have ended and could be restarted. In the order of their start.
function supervisor.specs(self)
  find(self, nil)
  local list = {}
  for i, record in ipairs(self.records) do
    local spec = record.spec
    list[i] = { name = spec.name, ref = core.is_alive(record.ref) and record.ref or nil,
                restart = spec.restart or "transient", shutdown = spec.shutdown or 5, significant = record.significant,
                supervisor = type(spec[1]) == "table" and spec[1].name == "supervisor" }
  end
  return list
end

-- What is wrong with a request is its asker's error, and not the supervisor's failure.
local function refuse(text)
  local asked, answer = pcall(pierrot.defer)
  if asked then
    answer:fail(text)
  else
    pierrot.log.warn("%s", text)
  end
end

function supervisor.start_child(self, spec)
  if type(spec) ~= "table" then
    return refuse("start_child: a table as spawn takes it expected, got " .. type(spec))
  end
  local same = type(spec.name) == "string" and find(self, spec.name)
  if same then
    return nil, "exists", same.ref
  end
  local proper, plain, significant = pcall(split, spec, self.auto_shutdown)
  if not proper then
    return refuse("start_child: " .. plain)
  end
  local ok, ref, reason, holder = pcall(start, self, plain, significant)
  if not ok then
    return refuse("start_child: " .. tostring(ref):gsub("^.-spawn: ", ""))
  end
  return ref, reason, holder
end

-- Tells it to stop; `after` runs once it has ended.
local function stop(self, record, after)
  local monitor = pierrot.monitor(record.ref)
  self.waiting[monitor] = { answer = pierrot.defer(), after = after }
  record.ordered = true
  core.stop(record.ref, "shutdown")
end

function supervisor.stop_child(self, who)
  local record = find(self, who)
  if not record then
    return nil, "no such child"
  elseif not core.is_alive(record.ref) then
    return true
  end
  stop(self, record, function() return true end)
end

function supervisor.restart_child(self, who)
  local record, at = find(self, who)
  if not record then
    return nil, "no such child"
  end
  local function again()
    local _, now = find(self, record.ref)
    table.remove(self.records, now or at)
    return start(self, record.spec, record.significant)
  end
  if not core.is_alive(record.ref) then
    return again()
  end
  stop(self, record, again)
end

function supervisor.delete_child(self, who)
  local record, at = find(self, who)
  if not record then
    return nil, "no such child"
  elseif core.is_alive(record.ref) then
    return nil, "running"
  end
  table.remove(self.records, at)
  return true
end

-- A significant child has ended. What was ordered by its supervisor (stop_child, the strategy) does not count.
local function significant_ended(self, record, reason)
  if record.ordered or reason == "shutdown" then
    return
  end
  if self.auto_shutdown == "all_significant" then
    for _, other in pairs(self.significant) do
      if core.is_alive(other.ref) then
        return
      end
    end
  end
  pierrot.stop "shutdown"
end

function supervisor.down(self, _, reason, monitor)
  local record = self.significant[monitor]
  if record then
    self.significant[monitor] = nil
    significant_ended(self, record, reason)
    return
  end
  local waiting = self.waiting[monitor]
  if waiting then
    self.waiting[monitor] = nil
    waiting.answer:reply(waiting.after())
  end
end

-- Its upvalues travel with it.
local function behaviour(rules, specs, auto_shutdown)
  return {
    name = "supervisor",
    supervise = rules,
    start = function(self) supervisor.start(self, specs, auto_shutdown) end,
    on = {
      children = function() return supervisor.children() end,
      count = function(self) return supervisor.count(self) end,
      specs = function(self) return supervisor.specs(self) end,
      start_child = function(self, spec) return supervisor.start_child(self, spec) end,
      stop_child = function(self, who) return supervisor.stop_child(self, who) end,
      delete_child = function(self, who) return supervisor.delete_child(self, who) end,
      restart_child = function(self, who) return supervisor.restart_child(self, who) end,
      down = function(self, ...) supervisor.down(self, ...) end,
    },
  }
end

-- The module's part -------------------------------------------------------------------------------------------------

local rule_names = { strategy = true, intensity = true, period = true, count = true, exceeded = true, backoff = true,
                     on_failure = true }
local shutdowns = { never = true, any_significant = true, all_significant = true }
local option_names = { name = true, restart = true, worker = true, link = true, monitor = true, shutdown = true,
                       mailbox = true }

local spec_of

local function nested(child, check_spawn)
  if type(child.supervisor) ~= "table" or child[1] ~= nil then
    error("supervisor: a table of its options and children expected, and no behaviour beside it", 0)
  end
  local inner = spec_of(child.supervisor, check_spawn)
  for key, value in pairs(child) do
    if key ~= "supervisor" then
      inner[key] = value
    end
  end
  return inner
end

-- The spec for spawn of a supervisor by these options. Errors are texts.
function spec_of(options, check_spawn)
  local rules, spec, specs = { count = "all", exceeded = "escalate" }, { shutdown = math.huge }, {}
  local auto_shutdown = options.auto_shutdown or "never"
  if not shutdowns[auto_shutdown] then
    error(("auto_shutdown: \"never\", \"any_significant\" or \"all_significant\" expected, got %s"):format(
      tostring(auto_shutdown)), 0)
  end
  for key, value in pairs(options) do
    if key == "auto_shutdown" then  -- luacheck: ignore 542
    elseif rule_names[key] then
      rules[key] = value
    elseif option_names[key] then
      spec[key] = value
    elseif type(key) ~= "number" or key < 1 or key > #options or key % 1 ~= 0 then
      error(("unknown option '%s'"):format(tostring(key)), 0)
    end
  end
  for i, child in ipairs(options) do
    if type(child) ~= "table" then
      error(("child %d: a table as spawn takes it expected, got %s"):format(i, type(child)), 0)
    end
    if child.supervisor ~= nil then
      child = nested(child, check_spawn)
    elseif child.link or child.monitor then
      error(("child %d: link and monitor are not for children of a supervisor"):format(i), 0)
    elseif child[1] == nil then
      error(("child %d has no behaviour"):format(i), 0)
    end
    local proper, plain = pcall(split, child, auto_shutdown)
    local problem = not proper and plain or check_spawn(plain)
    if problem then
      error(("child %d: %s"):format(i, problem), 0)
    end
    specs[i] = child
  end
  spec[1] = behaviour(rules, specs, auto_shutdown)
  return spec
end

-- A child's spec with `supervisor` as spawn takes it. Raises a text.
function supervisor.spec(child)
  return nested(child, function() end)
end

-- check_spawn(spec) -> nil, or what spawn would say against it. spawn(spec): as pierrot.spawn, answers at `level`.
function supervisor.install(the_pierrot, the_core, misuse, check_spawn)
  pierrot, core = the_pierrot, the_core

  function pierrot.supervisor(options)
    if type(options) ~= "table" then
      misuse(2, "supervisor: a table of options and children expected, got %s", type(options))
    end
    local ok, spec = pcall(spec_of, options, check_spawn)
    local problem = not ok and spec or check_spawn(spec)
    if problem then
      misuse(2, "supervisor: %s", problem)
    end
    return pierrot.spawn(spec)
  end
end

return supervisor
