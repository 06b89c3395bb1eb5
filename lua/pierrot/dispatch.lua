-- The loop in which a worker handles messages: it takes the next one, calls its handler, and so on, until something
-- else is to be done than just the next message. The scheduler is C (pr_worker_next_message); but since the loop is
-- Lua, LuaJIT compiles it together with the handlers it calls, and a hot handler is entered, run and left without a
-- call from C to Lua, which costs more than the rest of a message.
--
-- The loop runs on the coroutine of the handlers (src/lua/lua_actor.c). A handler that suspends takes the coroutine
-- along, the loop below it included; when it has been resumed and is done, the loop goes on from there.
--
-- It is compiled before there is any message, in rounds that do nothing. So the loop's trace never is that of some
-- handler that cannot be compiled, and what a handler is and gets are branches of it, each compiled when it is hot. A
-- handler that cannot be compiled leaves the trace and comes back to it.

local buffer, ffi = require "string.buffer", require "ffi"
local recorder, shapes = require "pierrot.recorder", require "pierrot.shapes"

ffi.cdef [[
typedef struct pr_now {
  double number[3];
  const uint8_t *bytes[3];
  int32_t length[3];
  int32_t handler, page, self, ask, count, maker;
  uint8_t tag[3];
} pr_now;
]]

local NIL, FALSE, TRUE, NUMBER, STRING, REF, SHAPED = 0, 1, 2, 3, 4, 5, 32    -- enum pr_tag; dispatch.h
local END, PLAIN, AGAIN, BORN = 0, 1, 3, 4                        -- enum pr_next
local MOST_NAMES = 16

-- refs: the table of refs by place; metatables: those that travel; answer: quick.lua's; strike: nil, or called before
-- each handler in a test's runtime, which then compiles no loop.
return function(dispatch, refs, metatables, answer, strike)
  local next_message = ffi.cast("int (*)(void)", dispatch.next)
  local now = ffi.cast("pr_now *", dispatch.now)
  local take, values = dispatch.take, dispatch.values
  local kept, pages = dispatch.kept, dispatch.pages   -- functions; pages of selves: src/lua/handles.c
  local text, decoder = ffi.string, buffer.new { metatable = metatables }

  -- Tables of a shape that comes often: see src/lua/shapes.c.
  local leaves, shape, builders = ffi.cast("pr_leaves *", dispatch.leaves), shapes(dispatch.leaves, refs), {}
  for i = 1, dispatch.shapes do
    builders[i] = false
  end

  local compiling = false

  -- The i-th value of the message in hand.
  local function value(i)
    local tag = now.tag[i]
    if tag == NUMBER then
      return now.number[i]
    elseif tag == STRING then
      return text(now.bytes[i], now.length[i])
    elseif tag == REF then
      return refs[now.length[i]]
    elseif tag == SHAPED then
      return builders[leaves.shape]()
    elseif tag == TRUE then
      return true
    elseif tag == FALSE then
      return false
    elseif tag == NIL then
      return nil
    end
    decoder:set(now.bytes[i], now.length[i])
    return decoder:decode()
  end

  local function plain_maker()
    return {}
  end

  -- What makes the selves of a behaviour whose lives are short: with places for the names that one before them had,
  -- which is a template's copy, in place of growing with each. nil: as an empty table.
  local function maker(self)
    local names = {}
    for name in next, self do
      if type(name) == "string" then
        names[#names + 1] = ("[%q] = nil"):format(name)
      end
    end
    if #names == 0 or #names > MOST_NAMES then
      return nil
    end
    local code = "return function() return { " .. table.concat(names, ", ") .. " } end"
    return loadstring(code, "@pierrot/dispatch.lua")()
  end

  -- False at the end. `kept[handler](...)` rather than a local: so tracebacks show where a handler is defined, and
  -- not the name of a variable here.
  local function deliver(ask, handler, ...)
    if ask then
      answer(kept[handler](...))
    elseif handler then
      kept[handler](...)
    elseif ask == nil then
      return false
    end
    return true
  end

  local function loop()
    while true do
      if compiling then
        local what = next_message()
        if what == AGAIN then  -- luacheck: ignore 542
        elseif compiling and what == PLAIN then
          local handler, self, ask, count = now.handler, pages[now.page][now.self], now.ask ~= 0, now.count
          if count == 1 then
            deliver(ask, handler, self, value(0))
          elseif count == 0 then
            deliver(ask, handler, self)
          elseif count == 2 then
            deliver(ask, handler, self, value(0), (value(1)))
          else
            deliver(ask, handler, self, value(0), value(1), (value(2)))
          end
        elseif what == END then
          return
        elseif compiling and what == BORN then
          local handler, self, count = now.handler, kept[now.maker](), now.count
          pages[now.page][now.self] = self
          if handler == 0 then  -- luacheck: ignore 542
          elseif count == 1 then
            kept[handler](self, value(0))
          elseif count == 0 then
            kept[handler](self)
          elseif count == 2 then
            kept[handler](self, value(0), (value(1)))
          else
            kept[handler](self, value(0), value(1), (value(2)))
          end
        else
          deliver(values())
        end
      elseif not deliver(take()) then
        return
      end
    end
  end

  if strike then
    local function deliver_struck(ask, handler, ...)
      if handler then
        strike()
      end
      return deliver(ask, handler, ...)
    end
    dispatch.install(function()
      while deliver_struck(take()) do end  -- luacheck: ignore 542
    end, refs, shape, builders, maker, plain_maker)
    return
  end

  recorder.loop(loop)
  recorder.watch(loop, "compiling")
  recorder.on_flush(dispatch.warm)
  dispatch.install(loop, refs, shape, builders, maker, plain_maker)
  dispatch.warm()
end
