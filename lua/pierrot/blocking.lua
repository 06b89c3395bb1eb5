-- pierrot.blocking(fn, ...): one call on the dispatcher "blocking", for what holds its thread: the caller waits as in
-- an ask, its worker goes on with others.
--
-- A new actor makes the call, so whichever of the dispatcher's threads is free takes it; with its one message, in one
-- turn (PR_KIND_CALL): once started it would be that thread's, and could come to stand behind another call. It is the
-- root's child and not the caller's: a caller that is restarted or ends meanwhile does not have to wait for a thread
-- that is inside C. What `fn` raises is no failure of that actor, but the caller's: it comes back as an error of the
-- ask.

local dispatchers = require "pierrot.dispatchers"
local errors = require "pierrot.errors"
local share = require "pierrot.share"
local transport = require "pierrot.transport"

local blocking = {}

local select, unpack, pcall, xpcall, error, type = select, unpack, pcall, xpcall, error, type
local pierrot, core

-- In the actor --------------------------------------------------------------------------------------------------------

local function raised(err)
  return { err, (debug.traceback("", 2):gsub("^\n", "")) }
end

local function answer(asker, number, ok, ...)
  if ok then
    local sent, problem = pcall(core.reply, asker, number, ...)
    if not sent then
      core.fail(asker, number, "failed", (problem:gsub("^pierrot/[%w/]+%.lua:%d+: ", "")), nil, nil)
    end
    return
  end
  local what = ...
  local kind, message, traceback, cause = errors.failure(what[1], what[2])
  if not pcall(core.fail, asker, number, kind, message, traceback, cause) then   -- its text travels
    core.fail(asker, number, kind, message, traceback, nil)
  end
end

-- What an actor does whose behaviour is such a call.
local function behaviour(fn)
  return {
    start = function(self, ...)
      self.n = select("#", ...)
      for i = 1, self.n do
        self[i] = (select(i, ...))
      end
    end,
    receive = function(self)
      pierrot.stop()   -- after this
      local asker, number = core.defer()
      answer(asker, number, xpcall(fn, raised, unpack(self, 1, self.n)))
    end,
  }
end

local MARK = "\0call\0"

-- The behaviour that these bytes are, if they are a call's.
function blocking.load(bytes)
  if bytes:sub(1, #MARK) == MARK then
    return behaviour(transport.unpack(bytes:sub(#MARK + 1), core.globals or _G))
  end
end

-- The module's part ---------------------------------------------------------------------------------------------------

-- fn -> { handle, watch }, as in init.lua; C functions -> Lua functions that call them
local carried, wrapped

function blocking.reset()
  carried = setmetatable({}, { __mode = "k" })
  wrapped = {}
end

local function wrap(fn)
  local function call(...)
    return fn(...)
  end
  wrapped[fn] = call
  return call
end

local function carry(fn, is_ref, name_of)
  if debug.getinfo(fn, "S").what == "C" then
    fn = wrapped[fn] or wrap(fn)
  end
  local entry = carried[fn]
  if entry and not (entry.watch and transport.changed(entry.watch)) then
    return entry.handle
  end
  local bytes, watch, shared = transport.pack(fn, { is_ref = is_ref })
  if not bytes then
    return nil, watch
  end
  local handle = core.intern(MARK .. bytes, name_of(fn), share.tokens(shared))
  carried[fn] = { handle = handle, watch = watch }
  return handle
end

local function raise(kind, message, traceback, cause, actor)
  local text = kind == "dead" and "the runtime is shutting down" or message or "not enough memory for the reply"
  local err = errors.new(kind or "failed", "blocking: " .. text, traceback, cause, actor)
  if kind ~= "failed" then
    err.cause = nil
  end
  error(err, 0)
end

local function returned(ref, asked, ok, ...)
  if not asked then   -- no memory to wait by
    core.kill(ref)
    error(ok, 0)
  elseif ok then
    return ...
  end
  raise(...)
end

function blocking.install(the_pierrot, the_core, misuse, is_ref, name_of)
  pierrot, core = the_pierrot, the_core
  blocking.reset()
  local TEMPORARY, CALL = 2, { root = true, call = true }

  function pierrot.blocking(fn, ...)
    if type(fn) ~= "function" then
      misuse(2, "blocking: a function expected, got %s", type(fn))
    end
    core.check_wait "blocking"
    local handle, problem = carry(fn, is_ref, name_of)
    if not handle then
      misuse(2, "blocking: %s", (problem:gsub("actors share no variables; keep it in self",
                                            "it runs on another thread, with copies; return what it finds")))
    end
    local ref, reason = core.spawn(handle, nil, TEMPORARY, dispatchers.place(core, "blocking", 0), CALL, ...)
    if not ref then
      raise(reason == "stopping" and "dead" or "failed", reason)
    end
    return returned(ref, pcall(core.ask_within, ref, math.huge))
  end
end

return blocking
