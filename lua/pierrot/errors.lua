-- Error objects: what a failed ask raises, what `stop` gets as its reason after a failure, what monitors and links
-- tell, what `on_failure` is asked about, what deferred:fail sends. Fields: kind, message, traceback, cause, ref, and
-- of a failure: actor, behaviour, first (the message's first value). Any may be nil but kind and message.

local errors = {}

local Error = { __name = "pierrot.error" }
Error.__index = Error
errors.Error = Error

function Error:__tostring()
  local text = self.message or self.kind
  if self.traceback then
    text = text .. "\n" .. self.traceback
  end
  return text
end

function errors.new(kind, message, traceback, cause, actor, behaviour, first)
  if cause == nil then
    cause = message
  end
  return setmetatable({ kind = kind, message = message, traceback = traceback, cause = cause, actor = actor,
                        behaviour = behaviour, first = first }, Error)
end

-- An error value in words.
local function text_of(err)
  if type(err) == "string" then
    return err
  elseif type(err) == "table" then
    local mt = getmetatable(err)
    if getmetatable(err) == Error then
      return err.message
    elseif type(mt) == "table" and mt.__tostring then
      local ok, text = pcall(tostring, err)
      return ok and text or "(an error object whose __tostring failed)"
    elseif type(err.message) == "string" then
      return err.message
    end
    local parts = {}
    for k, v in next, err do
      if #parts == 6 then
        parts[7] = "..."
        break
      end
      parts[#parts + 1] = ("%s = %s"):format(tostring(k), type(v) == "string" and ("%q"):format(v) or tostring(v))
    end
    return "(error object) { " .. table.concat(parts, ", ") .. " }"
  end
  return ("error(%s)"):format(tostring(err))
end

-- Frames of the runtime's own tell a script's author nothing. What fails again fails with the same text, so the
-- last ones are kept: half of a restart's cost was this.
local MOST_KEPT = 128
local kept, kept_count = {}, 0

local function clean(traceback)
  local text = kept[traceback]
  if not text then
    text = traceback:gsub("\n[^\n]*%[C%]: at 0x%x+$", ""):gsub("\n\tpierrot/%w+%.lua:[^\n]*", "")
    if kept_count == MOST_KEPT then
      kept, kept_count = {}, 0
    end
    kept[traceback], kept_count = text, kept_count + 1
  end
  return text
end

-- For C, and deferred:fail: an error value as the four values that travel.
function errors.failure(err, traceback)
  if traceback then
    traceback = clean(traceback)
  end
  return "failed", text_of(err), traceback, err
end

-- Raises what a failed ask reports, as core gives it.
function errors.raise_ask(ref, within, kind, message, traceback, cause, actor, behaviour, first)
  local who = tostring(ref)
  if type(ref) == "string" then
    who = ("actor %q"):format(ref)
  end
  local err
  if kind == "failed" then
    if cause == nil then cause = message end
    local text = ("ask: %s failed: %s"):format(who, message or "?")
    err = errors.new(kind, text, traceback, cause, actor, behaviour, first)
  elseif kind == "timeout" then
    local limit = within and (" within %g s"):format(within) or " in time"
    err = errors.new(kind, ("ask: no reply from %s%s"):format(who, limit))
  else
    local text = message or kind or "not enough memory for the reply"
    err = errors.new(kind or "failed", ("ask: %s: %s"):format(who, text))
  end
  err.ref = ref
  if kind ~= "failed" then
    err.cause = nil
  end
  error(err, 0)
end

return errors
