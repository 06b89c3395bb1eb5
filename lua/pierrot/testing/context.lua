-- What a test's function gets: `t`. It makes probes, lets time pass, says what is to fail, and knows at the end
-- whether all went as it should. One for each run.

local pierrot = require "pierrot"
local core = require "pierrot.core"
local match = require "pierrot.testing.match"
local show = require "pierrot.testing.show"
local new_probe = require("pierrot.testing.probe").new

local Context = { __name = "pierrot.test" }
Context.__index = Context
local Fault = { __name = "pierrot.fault" }
Fault.__index = Fault

local context = { Test = Context, Fault = Fault }

local function misuse(level, fmt, ...)
  error(fmt:format(...), level + 1)
end

local function check_seconds(value, what, level)
  if type(value) ~= "number" or not (value >= 0) or value == math.huge then
    misuse(level + 1, "%s: a number of seconds, 0 or more, expected, got %s", what, tostring(value))
  end
end

-- Probes and time ----------------------------------------------------------------------------------------------

function Context:probe(name)
  if name ~= nil and type(name) ~= "string" then
    misuse(2, "probe: a name (string) or nothing expected, got %s", type(name))
  end
  local count = #self._probes + 1
  local probe = new_probe(self, name or ("#%d"):format(count))
  self._probes[count] = probe
  self._named[probe.ref] = tostring(probe)
  return probe
end

-- Seconds since the test began, by its clock.
function Context:elapsed()
  return pierrot.now() - self._since
end

function Context:_waited(how, what, level)
  if how == "restless" then
    misuse(level + 1, "%s: %s", what, self:_restless())
  end
end

-- Lets so many seconds pass: whatever is due happens.
function Context:advance(within)
  check_seconds(within, "advance", 2)
  self:_waited(core.explore_wait(within), "advance", 2)
end

-- Until nothing is left to do without time's passing.
function Context:settle()
  self:_waited(core.explore_wait(0), "settle", 2)
end

-- Until fn() is true, which it is to be within so many seconds; returns what it returns.
function Context:eventually(fn, within)
  within = within or 5
  check_seconds(within, "eventually", 2)
  local due = pierrot.now() + within
  while true do
    self:_waited(core.explore_wait(0), "eventually", 2)
    local value = fn()
    if value then
      return value
    end
    local left = due - pierrot.now()
    if left <= 0 then
      misuse(2, "eventually: it is not so within %g s", within)
    end
    core.explore_wait(math.min(left, within / 100))
  end
end

-- Compares by what values hold.
function Context:equal(expected, got, text)
  if not match.same(expected, got) then
    misuse(2, "%s%s expected, got %s", text and text .. ": " or "", show.value(expected, self._names),
           show.value(got, self._names))
  end
  return got
end

-- Failures -----------------------------------------------------------------------------------------------------

-- Actors may fail with this text in their error (a Lua pattern; nil: any); at least one has to, or as many as `count`
-- says.
function Context:expect_failure(pattern, count)
  if pattern ~= nil and type(pattern) ~= "string" then
    misuse(2, "expect_failure: a pattern (string) or nothing expected, got %s", type(pattern))
  elseif count ~= nil and (type(count) ~= "number" or count < 0) then
    misuse(2, "expect_failure: a number of failures expected, got %s", tostring(count))
  end
  self._expected[#self._expected + 1] = { pattern = pattern or "", count = count, seen = 0,
                                          where = debug.getinfo(2, "Sl") }
end

-- Faults -------------------------------------------------------------------------------------------------------

local actions = { fail = true, slow = true, mute = true, kill = true }
local rule_fields = { to = true, message = true, action = true, seconds = true, chance = true, nth = true,
                      every = true, most = true, error = true }

-- How often it has struck.
function Fault:count()
  return core.explore_fault_done(self._number)
end

function Context:fault(rule)
  if type(rule) ~= "table" then
    misuse(2, "fault: a rule (table) expected, got %s", type(rule))
  end
  for key in pairs(rule) do
    if not rule_fields[key] then
      misuse(2, "fault: unknown field '%s' (there are to, message, action, seconds, chance, nth, every, most, error)",
             tostring(key))
    end
  end
  if not actions[rule.action] then
    misuse(2, 'fault: action: "fail", "slow", "mute" or "kill" expected, got %s', tostring(rule.action))
  end
  for _, key in ipairs { "seconds", "chance", "nth", "every", "most" } do
    if rule[key] ~= nil and (type(rule[key]) ~= "number" or not (rule[key] >= 0)) then
      misuse(2, "fault: %s: a number, 0 or more, expected, got %s", key, tostring(rule[key]))
    end
  end
  for _, key in ipairs { "nth", "every" } do
    if rule[key] ~= nil and (rule[key] < 1 or rule[key] % 1 ~= 0) then
      misuse(2, "fault: %s: a whole number, 1 or more, expected, got %s", key, tostring(rule[key]))
    end
  end
  if rule.action == "slow" and not rule.seconds then
    misuse(2, "fault: a slow handler takes `seconds`")
  end
  for _, key in ipairs { "message", "error" } do
    if rule[key] ~= nil and type(rule[key]) ~= "string" then
      misuse(2, "fault: %s: a string expected, got %s", key, type(rule[key]))
    end
  end
  local to = rule.to
  if to ~= nil and type(to) ~= "string" and type(to) ~= "userdata" then
    misuse(2, "fault: to: a ref, or the name of an actor or of a behaviour, expected, got %s", type(to))
  end
  local info = debug.getinfo(2, "Sl")
  local text = rule.error or ("injected fault (%s:%d)"):format(info.short_src, info.currentline)
  local number = core.explore_fault { action = rule.action, actor = type(to) == "userdata" and to or nil,
    name = type(to) == "string" and to or "", first = rule.message or "", seconds = rule.seconds, chance = rule.chance,
    from = rule.nth, every = rule.every, most = rule.most or (rule.nth and not rule.every and 1) or nil, text = text }
  if not number then
    misuse(2, "fault: a test has at most 64 rules")
  end
  self._injected[text] = true
  return setmetatable({ _number = number }, Fault)
end

-- From now on none strikes.
function Context:no_faults()
  core.explore_clear()
end

-- How it went --------------------------------------------------------------------------------------------------

-- The message handler of a test's pcall.
function context.caught(err)
  if type(err) == "table" and err.pierrot_failure then
    return err.pierrot_failure
  end
  local text = tostring(err)
  local trace = type(err) == "table" and rawget(err, "traceback") or nil
  local message = type(err) == "table" and rawget(err, "message") or text
  if type(message) ~= "string" then
    message = text
  end
  -- An ask that fails raises without a place: the test's own line.
  if not message:find "^[^\n]-:%d+: " or type(err) == "table" then
    for level = 2, 30 do
      local info = debug.getinfo(level, "Sl")
      if not info then
        break
      elseif info.currentline > 0 and not info.short_src:find "^pierrot/" then
        message = ("%s:%d: %s"):format(info.short_src, info.currentline, message)
        break
      end
    end
  end
  return { message = message, actor_traceback = type(trace) == "string" and trace or nil,
           traceback = debug.traceback("", 2):gsub("^\n", ""), value = err }
end

function Context:_restless()
  return ("after %d turns the actors do not come to rest: somebody sends without end (option turns)"):format(
    core.explore_state().turns)
end

-- Behind "nothing came": what may be the cause.
function Context:_why_nothing()
  local state = core.explore_state()
  if state.turns >= state.turns_most then
    return "; " .. self:_restless()
  end
  local failed = self:_failures()
  local last = failed[#failed]
  if last then
    return ("; %s had failed at %s: %s"):format(self._names(last.actor), last.during, last.text)
  end
  return ""
end

function Context:_failures()
  local list = {}
  for _, it in ipairs(core.explore_happened(1)) do
    if it.what == "failure" then
      list[#list + 1] = it
    end
  end
  return list
end

-- nil, or the first failure that nobody expects.
function Context:_unexpected(from)
  local list = self:_failures()
  for i = from, #list do
    local it, known = list[i], false
    for text in pairs(self._injected) do
      known = known or it.text:find(text, 1, true) ~= nil
    end
    for _, expected in ipairs(self._expected) do
      if it.text:find(expected.pattern) and not (expected.count and expected.seen >= expected.count) then
        expected.seen = expected.seen + 1
        known = true
        break
      end
    end
    if not known then
      return { message = ("%s failed at %s: %s"):format(self._names(it.actor), it.during, it.text),
               place = it.text, actor_traceback = it.traceback ~= "" and it.traceback or nil,
               hint = "t:expect_failure(pattern) is for failures that belong to the test" }, #list
    end
  end
  return nil, #list
end

function Context:_verdict()
  local failure
  failure, self._judged = self:_unexpected(1)
  if failure then
    return failure
  end
  for _, expected in ipairs(self._expected) do
    if expected.seen == 0 and expected.count ~= 0 or (expected.count and expected.seen < expected.count) then
      local where = expected.where
      return { message = ("%s:%d: %s%s expected, and there %s"):format(where.short_src, where.currentline,
        expected.count and expected.count .. " failures" or "a failure",
        expected.pattern ~= "" and (" like %q"):format(expected.pattern) or "",
        expected.seen == 0 and "was none" or "were " .. expected.seen) }
    end
  end
end

-- After the shutdown: `stop` may have failed.
function Context:_late_verdict()
  return (self:_unexpected((self._judged or 0) + 1))
end

-- A probe has got a message: for the report.
function Context:_note(probe, values)
  if self._records then
    self._notes[#self._notes + 1] = { at = core.explore_state().happened, time = pierrot.now(), probe = probe,
                                      values = values, sender = probe:sender() }
  end
end

function context.new(records)
  local t
  t = setmetatable({ _records = records, _probes = {}, _expected = {}, _injected = {}, _notes = {},
                     _since = pierrot.now(), _named = { [pierrot.self()] = "test" } }, Context)
  -- What people call an actor: names are given in the order in which the report needs them.
  local counts, by_ref = {}, t._named
  function t._names(ref, name)
    if not by_ref[ref] then
      local text = tostring(ref)
      if text:find "^monitor" then
        return "(monitor)"
      end
      if not name then
        for _, it in ipairs(core.explore_happened(1)) do
          name = it.actor == ref and it.name or name
        end
        local info = core.is_running() and pierrot.info(ref)
        name = name or info and info.behaviour or text
      end
      counts[name] = (counts[name] or 0) + 1
      by_ref[ref] = counts[name] == 1 and name or ("%s#%d"):format(name, counts[name])
    end
    return by_ref[ref]
  end
  return t
end

return context
