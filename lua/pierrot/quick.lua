-- tell for workers: one function with two ways through it. Interpreted, it calls the C function core.tell, which is
-- the quicker way there. In compiled code it calls C through the FFI, which, unlike a C function, does not end the
-- trace: that makes a hot tell three times as fast.
--
-- How code can know that it is being compiled: `compiling` is an upvalue that no Lua code assigns, so the trace
-- recorder takes its present value for a constant. It is true only between the events "start" and "stop" (or "abort")
-- of a recording. Traces therefore hold the FFI way alone, without a test; the interpreter always sees false. Should
-- a LuaJIT not fold the upvalue, a trace tests it, finds false, and goes the ordinary way: slower, not wrong.

local ffi = require "ffi"

return function(core)
  local core_tell, ref_number = core.tell, core.ref_number
  local tell_number = ffi.cast("int (*)(double, double)", core.tell_number)
  local tell_string = ffi.cast("int (*)(double, const char *, uint32_t)", core.tell_string)
  local tell_string_number = ffi.cast("int (*)(double, const char *, uint32_t, double)", core.tell_string_number)

  -- A trace cannot turn a ref into a number, but it can look one up. Bounded: started anew when it is full.
  local MOST = 65536
  local numbers, count = {}, 0

  local function number_of(ref)
    local number = type(ref) == "userdata" and ref_number(ref)
    if number then
      if count >= MOST then
        numbers, count = {}, 0
      end
      numbers[ref] = number
      count = count + 1
    end
    return number
  end

  local compiling = false

  local function tell(ref, ...)
    if compiling and type(ref) == "userdata" then
      local to = numbers[ref] or number_of(ref)
      local n = select("#", ...)
      if to and n == 1 then
        local value = ...
        if type(value) == "number" then
          if tell_number(to, value) == 0 then
            return true
          end
        elseif type(value) == "string" and #value < 1e9 then
          if tell_string(to, value, #value) == 0 then
            return true
          end
        end
      elseif to and n == 2 then
        local name, value = ...
        if type(name) == "string" and type(value) == "number" and #name < 1e9 then
          if tell_string_number(to, name, #name, value) == 0 then
            return true
          end
        end
      end
    end
    return core_tell(ref, ...)
  end

  local index = 1
  while debug.getupvalue(tell, index) ~= "compiling" do
    index = index + 1
  end
  jit.attach(function(what)
    if what == "start" then
      debug.setupvalue(tell, index, true)
    elseif what == "stop" or what == "abort" then
      debug.setupvalue(tell, index, false)
    end
  end, "trace")

  return tell
end
