-- How code can know that it is being compiled. A function declares an upvalue `compiling = false` that no Lua code
-- assigns: so LuaJIT's trace recorder takes its present value for a constant. It is true only between the events
-- "start" and "stop" (or "abort") of a recording. Traces therefore hold the way for true alone, without a test, and the
-- interpreter always goes the way for false. Should a LuaJIT not fold the upvalue, a trace tests it, finds false,
-- and goes the interpreter's way: slower, not wrong.

local recorder = {}

local watched = {}          -- { function, index of its upvalue }
local flushed = {}          -- called when all traces have been thrown away

--- `fn` has an upvalue `compiling`.
function recorder.watch(fn)
  local index = 1
  while debug.getupvalue(fn, index) ~= "compiling" do
    index = index + 1
  end
  watched[#watched + 1] = { fn, index }
end

function recorder.on_flush(fn)
  flushed[#flushed + 1] = fn
end

local attach, users = jit.attach, nil

attach(function(what, ...)
  if what == "flush" then
    for i = 1, #flushed do
      flushed[i]()
    end
  else
    for i = 1, #watched do
      debug.setupvalue(watched[i][1], watched[i][2], what == "start")
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
