-- tell, ask, sender, the reply of a handler, spawn without options, and stop, for workers: each is one function with
-- two ways through it. Interpreted, it calls a C function of core, which is the quicker way there. In compiled code it
-- calls C through the FFI, which, unlike a C function, does not end the trace: that makes a hot tell three times as
-- fast. How the two are told apart: recorder.lua.
--
-- What the FFI way cannot do (an actor that has ended, a value that does not travel, a fourth value) it leaves to the C
-- function, which does it or says what is wrong.

local buffer, ffi = require "string.buffer", require "ffi"
local recorder = require "pierrot.recorder"

ffi.cdef [[
typedef struct pr_out {
  double number[3];
  const uint8_t *bytes[3];
  int32_t length[3];
  uint8_t tag[3];
  int32_t mixed;
  int32_t place;
} pr_out;
typedef struct pr_quick {
  int (*tell_number)(double target, double value);
  int (*tell_string)(double target, const char *s, uint32_t len);
  int (*tell_string_number)(double target, const char *s, uint32_t len, double value);
  int (*tell_out)(double target, int count);
  int (*ask_string_number)(double target, double within, const char *s, uint32_t len, double value);
  int (*ask_out)(double target, double within, int count);
  int (*answer_out)(int count);
  int (*sender_place)(void);
  double (*spawn)(double behaviour, int count);
  int (*stop_self)(void);
} pr_quick;
]]

local NIL, FALSE, TRUE, NUMBER, STRING, REF, BLOB = 0, 1, 2, 3, 4, 5, 6    -- enum pr_tag
local SENT, ENOUGH = 0, 2                                                  -- quick.c

-- refs: the table of refs by place; metatables: those that travel; core_ask, core_ask_within: the C function's way;
-- finish: what they end with.
return function(core, refs, metatables, core_ask, core_ask_within, finish)
  local type, select, pcall, tonumber = type, select, pcall, tonumber
  local MOST_BYTES = core.message_limit and core.message_limit / 4 or 1e9
  local core_tell, core_sender, core_answer = core.tell, core.sender, core.dispatch.answer
  local quick = core.quick
  local numbers, number_of, stand_back = quick.numbers, quick.number_of, quick.stand_back
  numbers[""] = false   -- never found; a trace made while the table is empty would hold only as long as it is
  local functions = ffi.cast("pr_quick *", quick.functions)
  local tell_number, tell_string = functions.tell_number, functions.tell_string
  local tell_string_number = functions.tell_string_number
  local tell_out, answer_out, sender_place = functions.tell_out, functions.answer_out, functions.sender_place
  local ask_string_number, ask_out = functions.ask_string_number, functions.ask_out
  local ask_made, resumed = core.ask_made, core.resumed
  local spawn_out, quick_stop = functions.spawn, functions.stop_self
  local core_spawn, core_stop, ref_of = core.spawn, core.stop_self, quick.ref_of
  local newest, newest_number = false, 0   -- who has been spawned last by compiled code: mostly told something next
  local out = ffi.cast("pr_out *", quick.out)
  local encoder = buffer.new { metatable = metatables }   -- core has its own
  local reset, encode, encoded = encoder.reset, encoder.encode, encoder.ref

  local compiling, from_loop = false, false

  local SHORT, LONG = ffi.typeof "uint32_t *", ffi.typeof "uint64_t *"
  local draw = 1

  -- The number of a ref that is not in the table, as the serializer writes it: light userdata of 32 or 64 bits. Now and
  -- then it is noted: those that are told again and again are found sooner there, but many that are told in turn would
  -- push each other out. nil: no ref.
  local function found(ref)
    draw = (draw * 1309 + 13849) % 65536
    reset(encoder)
    if draw >= 4096 and pcall(encode, encoder, ref) then
      local bytes, number = encoded(encoder), 0
      if bytes[0] == 4 then
        number = tonumber(ffi.cast(SHORT, bytes + 1)[0])
      elseif bytes[0] == 5 then
        number = tonumber(ffi.cast(LONG, bytes + 1)[0])
      end
      if number % 2 == 1 and number < 2 ^ 46 then   -- pr_id_valid
        return number
      end
    end
    return number_of(ref)
  end

  -- Puts a value into `out`; false: it does not go this way. At most one table, after the others: there is one encoder.
  -- At a table that holds what does not travel the encoder raises, and in a trace LuaJIT's message overwrites the stack
  -- where the last call of C ended: maybe another function's frame. So tables only where a trace restores all frames.
  local function put(i, value)
    local t = type(value)
    if t == "number" then
      out.tag[i] = NUMBER
      out.number[i] = value
    elseif t == "string" then
      if #value > MOST_BYTES then
        return false
      end
      out.tag[i] = STRING
      out.bytes[i] = value
      out.length[i] = #value
    elseif t == "userdata" then
      local number = numbers[value] or found(value)
      if not number then
        return false
      end
      out.tag[i] = REF
      out.number[i] = number
    elseif t == "table" then
      if not from_loop or out.mixed > 0 then   -- mixed: there may be shared values in it, see codec.c
        return false
      end
      reset(encoder)
      if not pcall(encode, encoder, value) then
        return false
      end
      local bytes, length = encoded(encoder)
      if length > MOST_BYTES then
        return false
      end
      out.tag[i] = BLOB
      out.bytes[i] = bytes
      out.length[i] = length
    elseif t == "nil" then
      out.tag[i] = NIL
    elseif t == "boolean" then
      out.tag[i] = value and TRUE or FALSE
    else
      return false
    end
    return true
  end

  -- All of one to three values. At most one table, and that one last.
  local function put_all(n, first, second, third)
    if n == 1 then
      return put(0, first)
    elseif n == 2 then
      return type(first) ~= "table" and put(0, first) and put(1, second)
    elseif n == 3 then
      return type(first) ~= "table" and type(second) ~= "table" and put(0, first) and put(1, second) and put(2, third)
    end
    return false
  end

  local function sent(result)
    if result == SENT then
      return true
    elseif result == ENOUGH then
      stand_back()
      return true
    end
    return false
  end

  -- False: it does not go this way.
  local function tell_quickly(ref, n, first, second, third)
    local to = numbers[ref] or ref == newest and newest_number or found(ref)
    if not to then
      return false
    elseif n == 1 and type(first) == "number" then
      return sent(tell_number(to, first))
    elseif n == 1 and type(first) == "string" then
      return #first < MOST_BYTES and sent(tell_string(to, first, #first))
    elseif n == 2 and type(first) == "string" and type(second) == "number" then
      return #first < MOST_BYTES and sent(tell_string_number(to, first, #first, second))
    end
    return put_all(n, first, second, third) and sent(tell_out(to, n))
  end

  -- Functions with `...` that LuaJIT compiles take their values at once, and pass them on one by one. In a trace that
  -- begins further on, where something was not as before, LuaJIT does not know how many there are: it looks on the
  -- stack, where the trace before has not put it, and each such trace is followed by another one, until there may be
  -- no more.
  local function tell(ref, ...)
    if compiling and type(ref) == "userdata" then
      local n, first, second, third = select("#", ...), ...
      if tell_quickly(ref, n, first, second, third) then
        return true
      elseif n == 1 then
        return core_tell(ref, first)
      elseif n == 2 then
        return core_tell(ref, first, second)
      elseif n == 3 then
        return core_tell(ref, first, second, third)
      end
    end
    return core_tell(ref, ...)
  end

  -- An ask has two halves: the message is made here, and a C function sends it and suspends the handler. That one ends
  -- the trace, and what comes after it is another one. `within`: below 0, as usual. False: it does not go this way.
  local function made(ref, within, n, first, second, third)
    local to = numbers[ref] or found(ref)
    if not to or first == "start_child" then   -- that one's code is carried
      return false
    elseif n == 2 and type(first) == "string" and type(second) == "number" then
      return #first < MOST_BYTES and ask_string_number(to, within, first, #first, second) == SENT
    end
    return put_all(n, first, second, third) and ask_out(to, within, n) == SENT
  end

  -- Called last: a trace cannot return from a function with `...` that it has not entered.
  local function wait(ref, within)
    local count, first, second, third = ask_made()
    if count == 1 then
      return first
    elseif count == 0 then
      return
    elseif count == 2 then
      return first, second
    elseif count == 3 then
      return first, second, third
    elseif count == nil then
      return finish(ref, within, nil, first, second)
    end
    return finish(ref, within, resumed())
  end

  local function ask(ref, ...)
    if compiling and type(ref) == "userdata" then
      local n, first, second, third = select("#", ...), ...
      if made(ref, -1, n, first, second, third) then
        return wait(ref)
      end
    end
    return core_ask(ref, ...)
  end

  local function ask_within(ref, seconds, ...)
    if compiling and type(ref) == "userdata" and type(seconds) == "number" and seconds >= 0 then
      local n, first, second, third = select("#", ...), ...
      if made(ref, seconds, n, first, second, third) then
        return wait(ref, seconds)
      end
    end
    return core_ask_within(ref, seconds, ...)
  end

  local function sender()
    if compiling then
      local place = sender_place()
      if place > 0 then
        return refs[place]
      end
    end
    return core_sender()
  end

  -- The values of a handler that was asked.
  local function answer(...)
    if compiling then
      local n, value = select("#", ...), ...
      if n == 1 then
        if not put(0, value) or answer_out(1) ~= SENT then
          core_answer(value)
        end
        return
      end
    end
    core_answer(...)
  end

  -- No tail call of core: so the caller of spawn or stop is two levels up from it.
  local function results(...)
    return ...
  end

  local function spawn_quickly(behaviour, n, first, second, third)
    if n == 0 or put_all(n, first, second, third) then
      return spawn_out(behaviour, n)
    end
    return 0
  end

  -- Of an entry of `carried` that needs no watch, without options.
  local function spawn(entry, ...)
    if compiling then
      local n, first, second, third = select("#", ...), ...
      local number = spawn_quickly(entry.number, n, first, second, third)
      if number > 0 then
        local place = out.place
        local ref = place > 0 and refs[place] or ref_of(number)
        newest, newest_number = ref, number
        return ref
      elseif n == 0 then
        return results(core_spawn(entry.handle, nil, 0, 0, false))
      elseif n == 1 then
        return results(core_spawn(entry.handle, nil, 0, 0, false, first))
      elseif n == 2 then
        return results(core_spawn(entry.handle, nil, 0, 0, false, first, second))
      elseif n == 3 then
        return results(core_spawn(entry.handle, nil, 0, 0, false, first, second, third))
      end
    end
    return results(core_spawn(entry.handle, nil, 0, 0, false, ...))
  end

  local function stop_self(reason)
    if compiling and reason == nil and quick_stop() == SENT then
      return true
    end
    return results(core_stop(reason))
  end

  recorder.watch(put, "from_loop")
  recorder.watch(tell, "compiling")
  recorder.watch(ask, "compiling")
  recorder.watch(ask_within, "compiling")
  recorder.watch(sender, "compiling")
  recorder.watch(answer, "compiling")
  recorder.watch(spawn, "compiling")
  recorder.watch(stop_self, "compiling")
  return { tell = tell, ask = ask, ask_within = ask_within, sender = sender, answer = answer, spawn = spawn,
           stop_self = stop_self }
end
