-- How code can know that it is being compiled. A function declares an upvalue `compiling = false` that no Lua code
-- assigns: so LuaJIT's trace recorder takes its present value for a constant. It is true only between the events
-- "start" and "stop" (or "abort") of a recording. Traces therefore hold the way for true alone, without a test, and the
-- interpreter always goes the way for false. Should a LuaJIT not fold the upvalue, a trace tests it, finds false,
-- and goes the interpreter's way: slower, not wrong.

local recorder = {}

-- An upvalue `from_loop` is true only in what belongs to the loop of dispatch.lua: its own traces, and those that
-- branch off from them. All frames above the loop's have been entered by such a trace, which restores them whole should
-- it be left with an error; frames that the interpreter has entered it would not.

local watched = {}          -- { function, index of its upvalue, whether it is `from_loop` }
local branches = {}         -- by a trace's number: whether it belongs to the loop
local loop
local flushed = {}          -- called when all traces have been thrown away

--- `fn` has an upvalue of that name, "compiling" or "from_loop".
function recorder.watch(fn, name)
  local index = 1
  while debug.getupvalue(fn, index) ~= name do
    index = index + 1
  end
  watched[#watched + 1] = { fn, index, name == "from_loop" }
end

--- `fn` is the loop.
function recorder.loop(fn)
  loop = fn
end

function recorder.on_flush(fn)
  flushed[#flushed + 1] = fn
end

local attach, users = jit.attach, nil

-- Of a trace that goes on where another one had to be left for a call, `from` is that one and `exit` -1.
local function belongs(fn, from, exit)
  if from then
    return exit ~= -1 and branches[from] or false
  end
  return fn == loop
end

attach(function(what, ...)
  if what == "start" then
    local trace, fn, _, from, exit = ...
    branches[trace] = belongs(fn, from, exit)
    for i = 1, #watched do
      local each = watched[i]
      debug.setupvalue(each[1], each[2], not each[3] or branches[trace])
    end
  elseif what == "flush" then
    for i = 1, #flushed do
      flushed[i]()
    end
  else
    for i = 1, #watched do
      debug.setupvalue(watched[i][1], watched[i][2], false)
    end
  end
  if users then
    users(what, ...)
  end
end, "trace")

-- LuaJIT has one place for a handler of these events. Tools like jit.v share it with us.
function jit.attach(fn, event)  -- luacheck: ignore 122
  if event == "trace" then
    users = fn
  else
    if fn == users then
      users = nil
    end
    attach(fn, event)
  end
end

return recorder
