-- The actor "pierrot.reload": one reload after the other, in these steps.
--
--   1. A helper on each worker tries the new versions. If one refuses, nothing has happened.
--   2. They supersede the old ones: what is born or restarted from here on has them.
--   3. Each helper takes them: its worker's actors have them with their next messages.
--
-- A worker that does not answer within the runtime's ask_timeout, held up by a handler that does not end, holds up
-- nobody: both orders wait for it in its helper's mailbox.

local core = require "pierrot.core"
local pierrot = require "pierrot"
local reload = require "pierrot.reload"

-- A helper: lives for one reload.
local helper = { name = "pierrot.reloader", on = {} }

-- Its parent alone orders it about: anybody else could have made up the bytes.
helper.on["\0try"] = function(self, serial, module, behaviours)
  local problem
  if pierrot.sender() ~= pierrot.parent() then
    return
  end
  self.tried, problem = reload.try(module, behaviours)
  pierrot.parent():tell("\0tried", serial, not self.tried and problem or nil)
end

helper.on["\0take"] = function(self, serial)
  if pierrot.sender() ~= pierrot.parent() then
    return
  elseif self.tried then
    reload.take(self.tried)
  else
    pierrot.log.error "this worker keeps the old version, which others do not: the new one does not load here"
  end
  pierrot.parent():tell("\0taken", serial)
  pierrot.stop()
end

local function collect(helpers, patience, what, serial, on_answer)
  local due, left = pierrot.now() + patience, 0
  for _ in pairs(helpers) do
    left = left + 1
  end
  local function match(first, number) return first == what and number == serial end
  while left > 0 do
    local first, _, problem = pierrot.receive(math.max(due - pierrot.now(), 0), match)
    if not first then
      break
    end
    on_answer(problem)
    left = left - 1
  end
  return left
end

-- changes: { { handle, bytes of its next version, name, handle of what that is made of }... }
-- -> true, nil, how many workers have yet to take it; or nil and why not
local function roll_out(serial, module, changes)
  local behaviours, next_versions, helpers = {}, {}, {}
  for i, change in ipairs(changes) do
    behaviours[i] = { change[2], change[3] }
    next_versions[i] = core.intern(change[2], change[3])
    core.refers_like(next_versions[i], change[4])
  end
  local problem
  local workers, patience = core.running_workers()
  for i, worker in ipairs(workers) do
    local ref, reason = pierrot.spawn { helper, dispatcher = worker[1], worker = worker[2], restart = "temporary" }
    problem = problem or not ref and reason or nil
    helpers[i] = ref
  end
  local function stop(reason)
    for _, ref in pairs(helpers) do
      ref:kill()
    end
    return nil, reason
  end
  if problem then
    return stop(problem)
  end
  for _, ref in pairs(helpers) do
    ref:tell("\0try", serial, module, behaviours)
  end
  local silent = collect(helpers, patience, "\0tried", serial, function(refusal) problem = problem or refusal end)
  if problem then
    return stop(problem)
  elseif silent == #helpers then
    return stop "no worker has answered"
  end
  for i, change in ipairs(changes) do
    core.supersede(change[1], next_versions[i])
  end
  for _, ref in pairs(helpers) do
    ref:tell("\0take", serial)
  end
  return true, nil, collect(helpers, patience, "\0taken", serial, function() end)
end

local reloader = { name = "pierrot.reloader", on = {} }

function reloader.on.module(_, module)
  if module[1]:find "^pierrot%f[%.%z]" then
    return nil, ("the module '%s' is pierrot's own"):format(module[1])
  end
  local serial, changes = core.serial(), {}
  module[4] = serial
  for _, version in ipairs(core.versions()) do
    local bytes = reload.with_module(version[2], serial, module)
    if bytes then
      changes[#changes + 1] = { version[1], bytes, version[3], version[1] }
    end
  end
  return roll_out(serial, module, changes)
end

function reloader.on.behaviour(_, old, new)
  local changes = {}
  if not reload.is_genuine(new[1], new[3]) or type(old) == "table" and not reload.is_genuine(old[1], old[3]) then
    return nil, "these bytes are not a behaviour that was carried here"
  end
  local made_of = core.intern(new[1], new[2])   -- its sender holds it, and the shared values in it
  local function change(handle)
    changes[#changes + 1] = { handle, reload.version(new[1], core.serial()), new[2], made_of }
  end
  if type(old) == "table" then
    change(core.newest(core.intern(old[1], old[2])))
  else
    for _, version in ipairs(core.versions()) do
      if version[3] == old or version[4] == old then
        change(version[1])
      end
    end
  end
  if #changes == 0 then
    return nil, ("there is no behaviour '%s'"):format(tostring(old))
  end
  return roll_out(core.serial(), nil, changes)
end

function reloader.receive() end   -- late answers

return reloader
