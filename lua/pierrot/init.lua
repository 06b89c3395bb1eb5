-- The module as scripts see it: `require "pierrot"`, in a worker's state and in a plain program's.
--
-- `core` holds the C functions of this state (src/lua/*.c). What is here is thin: it checks arguments, turns
-- failed asks into errors, and carries behaviours. Misuse raises at the caller's line, which is why wrappers
-- make no tail calls into core: C counts the levels.

local core = ...

local transport = require "pierrot.transport"
local values = require "pierrot.values"
local errors = require "pierrot.errors"
local mailboxes = require "pierrot.mailbox"
local dispatchers = require "pierrot.dispatchers"
local blocking = require "pierrot.blocking"
local share = require "pierrot.share"
local reload = require "pierrot.reload"

local pierrot = { version = core.version }
package.preload["pierrot.core"] = function() return core end   -- for the modules of the prompt and the command
local inside = core.inside
local unpack, select, type, error = unpack, select, type, error

local function misuse(level, fmt, ...)
  error(fmt:format(...), level + 1)
end

-- Passes results on without becoming a tail call of core.
local function answer(...)
  return ...
end

-- Refs and messages --------------------------------------------------------------------------------------------

local function finish(ref, within, ok, ...)
  if ok then
    return ...
  end
  errors.raise_ask(ref, within, ...)
end

-- ("start_child", spec): the one message that may hold code. Its behaviour goes as the bytes that are carried.
local carried_spec

function pierrot.ask(ref, ...)
  local first, spec = ...
  if first == "start_child" and type(spec) == "table" then
    return finish(ref, nil, core.ask(ref, first, carried_spec(spec), select(3, ...)))
  end
  return finish(ref, nil, core.ask(ref, ...))
end

function pierrot.ask_within(ref, seconds, ...)
  local first, spec = ...
  if first == "start_child" and type(spec) == "table" then
    return finish(ref, seconds, core.ask_within(ref, seconds, first, carried_spec(spec), select(3, ...)))
  end
  return finish(ref, seconds, core.ask_within(ref, seconds, ...))
end

for _, name in ipairs { "tell", "drain", "kill", "is_alive", "info", "self", "sender", "parent", "children",
                        "forward", "sleep", "yield", "send_after", "send_every", "now", "register", "unregister",
                        "whereis", "stats", "join", "leave", "members", "publish", "monitor", "link", "unlink",
                        "subscribe", "unsubscribe" } do
  pierrot[name] = core[name]
end

local Deferred = { __name = "pierrot.deferred" }
Deferred.__index = Deferred
local travelling = { Deferred, errors.Error }   -- metatables
core.metatables(travelling)

-- Refs by place, for compiled code: see quick.lua and dispatch.lua.
local spawn_quick, stop_self
if inside then
  local refs = {}
  for i = 1, core.dispatch.ref_places do
    refs[i] = false
  end
  local quick = require "pierrot.quick"(core, refs, travelling, pierrot.ask, pierrot.ask_within, finish)
  pierrot.tell, pierrot.sender, pierrot.ask, pierrot.ask_within = quick.tell, quick.sender, quick.ask, quick.ask_within
  spawn_quick, stop_self = quick.spawn, quick.stop_self
  require "pierrot.dispatch"(core.dispatch, refs, travelling, quick.answer,
                             core.explored and require "pierrot.testing.faults"(core))
end

core.ref_methods {
  tell = pierrot.tell, ask = pierrot.ask, ask_within = pierrot.ask_within, stop = core.stop, drain = core.drain,
  kill = core.kill, is_alive = core.is_alive, info = core.info,
  cancel = core.cancel,   -- of monitors, which are numbered like refs
}

-- pierrot.stop(ref [, reason]); inside an actor also pierrot.stop([reason]), which ends that actor. A string is a
-- reason inside and a registered name outside.
function pierrot.stop(...)
  local first = ...
  if type(first) == "userdata" or (not inside and select("#", ...) > 0) then
    return answer(core.stop_wrapped(...))
  end
  if not inside then
    misuse(2, "stop: a ref or a registered name expected; without one it ends an actor from inside only")
  end
  return stop_self(first)
end

function Deferred:reply(...)
  if not self.number then
    return nil, "answered"
  end
  core.reply(self.asker, self.number, ...)
  self.number = false
  return true
end

function Deferred:fail(err)
  if not self.number then
    return nil, "answered"
  end
  local kind, message, traceback, cause = errors.failure(err, nil)
  core.fail(self.asker, self.number, kind, message, traceback, cause)
  self.number = false
  return true
end

function core.deferred(asker, number)
  return setmetatable({ asker = asker, number = number }, Deferred)
end

function pierrot.defer()
  local asker, number = core.defer()
  if not asker then
    misuse(2, "defer: the message in hand is no ask, or is answered already")
  end
  return core.deferred(asker, number)
end

local function received(due, match, found, ...)
  if found == true then
    return ...
  end
  local tested = ...
  if not core.await(due, tested) then
    return
  end
  return received(due, match, core.take(match, tested))
end

function pierrot.receive(seconds, match)
  if seconds ~= nil and (type(seconds) ~= "number" or not (seconds >= 0)) then
    misuse(2, "receive: a number of seconds, 0 or more, or nil expected, got %s", tostring(seconds))
  end
  if match ~= nil and type(match) ~= "function" then
    misuse(2, "receive: a match function or nil expected, got %s", type(match))
  end
  return received(seconds and core.now() + seconds, match, core.take(match, 0))
end

require "pierrot.flow"(pierrot, core, misuse)

-- Spawning -----------------------------------------------------------------------------------------------------

local restarts = { transient = 0, permanent = 1, temporary = 2 }
local known = { name = true, restart = true, worker = true, link = true, monitor = true, shutdown = true,
                mailbox = true, dispatcher = true, reentrant = true, timeslice = true }
local NO_BOUND = 2 ^ 32 - 1   -- of handlers under way

-- behaviour -> { handle, watch }; a behaviour is packed once while what it reads stays the same
local carried = setmetatable({}, { __mode = "k" })
local modules = {}

local function is_ref(value)
  return values.is_ref(value)
end

local function name_of(behaviour)
  local fn = behaviour
  if type(behaviour) == "table" then
    if behaviour.name then
      return behaviour.name
    end
    fn = behaviour.receive or behaviour.start
    if not fn and behaviour.on then
      fn = select(2, next(behaviour.on))
    end
    fn = fn or behaviour.stop
    if not fn then
      return "empty"
    end
  end
  local info = debug.getinfo(fn, "S")
  return ("%s:%d"):format(info.short_src, info.linedefined)
end

-- A behaviour in a message: { [CARRIED] = its bytes, [SEAL] = that of them, name =, shared = { shared values in it } }.
local CARRIED, SEAL = "\0carried", "\0seal"

-- The handle of a behaviour for core.spawn, or nil and what is wrong with it.
local function carry(behaviour)
  if type(behaviour) == "function" and debug.getinfo(behaviour, "S").what == "C" then
    return nil, "a C function cannot be a behaviour: wrap it in a Lua function"
  end
  if type(behaviour) == "table" and rawget(behaviour, CARRIED) then
    local bytes = rawget(behaviour, CARRIED)
    -- Where bytecode is not for scripts, neither is making it up: the seal says that a worker has packed this.
    if core.globals and rawget(behaviour, SEAL) ~= core.seal(bytes) then
      return nil, "these bytes are not a behaviour that was carried here"
    end
    return core.intern(bytes, behaviour.name, share.tokens(behaviour.shared))
  end
  if behaviour == "" then
    return nil, "a module's name is not empty"
  elseif core.globals and type(behaviour) == "string" and behaviour:find "^pierrot%." then
    return nil, ("there is no module '%s'"):format(behaviour)   -- of the Lua half, which sees more than scripts may
  elseif type(behaviour) == "string" then
    local handle = modules[behaviour] or core.native(behaviour)   -- defined by a host in C
    if not handle then
      handle = core.intern(transport.module(behaviour), behaviour)
      modules[behaviour] = handle
    end
    return handle
  end
  local entry = carried[behaviour]
  if entry and not (entry.watch and transport.changed(entry.watch)) then
    return entry.handle
  end
  local bytes, watch, shared = transport.pack(behaviour, { is_ref = is_ref })
  if not bytes then
    return nil, watch
  end
  local handle = core.intern(bytes, name_of(behaviour), share.tokens(shared))
  carried[behaviour] = { handle = handle, watch = watch, number = inside and core.quick.behaviour_number(handle) }
  return handle
end

-- What is no spec with a behaviour is left as it is.
function carried_spec(spec)
  local plain = spec.supervisor ~= nil and require("pierrot.supervisor").spec(spec) or spec
  local behaviour = plain[1]
  if type(behaviour) ~= "function" and type(behaviour) ~= "table" then
    return plain
  end
  local bytes, problem, shared = transport.pack(behaviour, { is_ref = is_ref })
  if not bytes then
    local code = type(behaviour) == "function"
    for _, value in pairs(code and {} or behaviour) do
      code = code or type(value) == "function"
    end
    if code then
      misuse(3, "start_child: %s", problem)
    end
    return plain
  end
  local copy = {}
  for key, value in pairs(plain) do
    copy[key] = value
  end
  copy[1] = { [CARRIED] = bytes, [SEAL] = core.globals and core.seal(bytes), name = name_of(behaviour),
              shared = shared }
  return copy
end

local function check_options(options)
  for key in pairs(options) do
    if type(key) == "string" and not known[key] then
      misuse(3, "spawn: unknown option '%s' (there are name, restart, dispatcher, worker, link, monitor, shutdown, "
                .. "mailbox, reentrant, timeslice)", key)
    end
  end
  local name, restart, worker = options.name, options.restart, options.worker
  if name ~= nil and (type(name) ~= "string" or #name < 1 or #name > 255) then
    misuse(3, "spawn: name: a string of 1 to 255 bytes expected, got %s",
           type(name) == "string" and #name .. " bytes" or type(name))
  end
  if restart ~= nil and not restarts[restart] then
    misuse(3, 'spawn: restart: "transient", "permanent" or "temporary" expected, got %s', tostring(restart))
  end
  if worker == nil then
    worker = 0
  elseif worker == "here" then
    worker = dispatchers.HERE
  elseif type(worker) ~= "number" or worker < 1 or worker % 1 ~= 0 or worker > 65000 then
    misuse(3, 'spawn: worker: "here" or an index from 1 expected, got %s', tostring(worker))
  end
  local place = worker
  if options.dispatcher ~= nil then
    local found, wrong = dispatchers.place(core, options.dispatcher, worker)
    if not found then
      misuse(3, "spawn: %s", wrong)
    end
    place = found
  end
  local problem = options.mailbox ~= nil and mailboxes.problem_of(options.mailbox)
  if problem then
    misuse(3, "spawn: mailbox: %s", problem)
  end
  local link, monitor, shutdown = options.link, options.monitor, options.shutdown
  local reentrant, timeslice = options.reentrant, options.timeslice
  if link == nil and monitor == nil and shutdown == nil and timeslice == nil and not reentrant then
    return name, restarts[restart or "transient"], place, false
  end
  for _, key in ipairs { "link", "monitor" } do
    if options[key] ~= nil and type(options[key]) ~= "boolean" then
      misuse(3, "spawn: %s: true or false expected, got %s", key, tostring(options[key]))
    end
  end
  if shutdown ~= nil and (type(shutdown) ~= "number" or not (shutdown >= 0)) then
    misuse(3, "spawn: shutdown: a number of seconds, 0 or more, expected, got %s", tostring(shutdown))
  end
  if reentrant and reentrant ~= true and
     (type(reentrant) ~= "number" or not (reentrant >= 1 and reentrant <= 1e6) or reentrant % 1 ~= 0) then
    misuse(3, "spawn: reentrant: true, false or a whole number of handlers from 1 to 1000000 expected, got %s",
           tostring(reentrant))
  end
  if timeslice ~= nil and (type(timeslice) ~= "number" or not (timeslice >= 1e-5 and timeslice <= 1e6)) then
    misuse(3, "spawn: timeslice: a number of seconds from 0.00001 to 1000000 expected, got %s", tostring(timeslice))
  end
  return name, restarts[restart or "transient"], place,
         { link = link, monitor = monitor, shutdown = shutdown and math.ceil(shutdown * 1000),
           reentrant = reentrant == true and NO_BOUND or reentrant or 0,
           timeslice = timeslice and math.ceil(timeslice * 1e6) or 0 }
end

local function highest(options)
  local n = 0
  for key in pairs(options) do
    if type(key) == "number" and key > n then
      n = key
    end
  end
  return n
end

core.check_options = check_options

-- For the spawn that follows. Returns what must not be collected until then, or nil and what is wrong.
local function set_mailbox(mailbox)
  local handle
  if type(mailbox) == "table" and mailbox.priority then
    local problem
    handle, problem = carry(mailbox.priority)
    if not handle then
      return nil, problem
    end
  end
  local capacity, overflow, overload = mailboxes.numbers(mailbox)
  core.mailbox(capacity, overflow, overload, handle)
  return handle or true
end

function pierrot.spawn(behaviour, ...)
  local entry = carried[behaviour]
  if entry and not entry.watch then
    if spawn_quick then
      return spawn_quick(entry, ...)
    end
    return answer(core.spawn(entry.handle, nil, 0, 0, false, ...))
  end
  if type(behaviour) == "table" and behaviour[1] ~= nil then
    if select("#", ...) > 0 then
      misuse(2, "spawn: with options, the arguments for `start` go into the table, behind the behaviour: " ..
                "spawn{ Counter, 10, name = \"hits\" }")
    end
    local name, restart, place, rare = check_options(behaviour)
    local last = highest(behaviour)
    if last > values.MOST then
      misuse(2, "spawn: at most %d arguments for `start` expected", values.MOST)
    end
    local handle, problem = carry(behaviour[1])
    if not handle then
      misuse(2, "spawn: %s", problem)
    end
    if behaviour.mailbox ~= nil then
      local kept, trouble = set_mailbox(behaviour.mailbox)
      if not kept then
        misuse(2, "spawn: mailbox: %s", trouble)
      end
      local ref, reason, holder = core.spawn(handle, name, restart, place, rare, unpack(behaviour, 2, last))
      return kept and ref, reason, holder
    end
    return answer(core.spawn(handle, name, restart, place, rare, unpack(behaviour, 2, last)))
  end
  if behaviour == nil then
    misuse(2, "spawn: a behaviour (a function, a table or a module's name) expected, got nil")
  end
  local handle, problem = carry(behaviour)
  if not handle then
    misuse(2, "spawn: %s", problem)
  end
  return answer(core.spawn(handle, nil, 0, 0, false, ...))
end

-- An actor of the Lua half itself, on the workers of prompts: also where scripts may not spawn such.
function core.spawn_own(name, restart, worker, ...)
  local handle = core.intern(transport.module(name), name)
  return answer(core.spawn(handle, nil, restarts[restart], dispatchers.place(core, "prompts", worker), false, ...))
end

-- What a worker runs: the other end of `carry`. A script's "behaviour" is its path; a host in C also gives code, and
-- names of modules.
local script_mark, chunk_mark, module_mark = "\0script\0", "\0chunk\0", "\0module\0"
local loadfile, load = loadfile, load

-- The modes of load that scripts may use.
core.load_mode = "bt"

local function run_script(path, code)
  return function(self, ...)
    local chunk, problem
    if code then
      chunk, problem = load(code, "@" .. path, core.load_mode)
    else
      chunk, problem = loadfile(path, core.load_mode)
    end
    if not chunk then
      error(problem, 0)
    end
    local meta = { __index = core.globals or _G }
    if core.globals then
      meta.__metatable = false   -- the globals of a worker are for reading
    end
    local env = setmetatable({ arg = { [0] = path, ... } }, meta)
    env._G = env
    setfenv(chunk, env)
    local result = chunk(...)
    if type(result) ~= "function" and type(result) ~= "table" then
      return
    end
    local ok, message = transport.check(result)
    if not ok then
      error(("%s returns what is no behaviour: %s"):format(path, message), 0)
    end
    core.become_script(result)
    if type(result) == "table" and result.start then
      result.start(self, ...)
    end
  end
end

-- C calls these from within handlers. They are not compiled: hot ones made LuaJIT's recorder read past their caller's
-- frame.
local function hook(name, fn)
  jit.off(fn)
  core.hook(name, fn)
end

hook("load", function(bytes)
  if bytes:sub(1, #script_mark) == script_mark then
    return { start = run_script(bytes:sub(#script_mark + 1)) }
  elseif bytes:sub(1, #chunk_mark) == chunk_mark then
    return { start = run_script(bytes:match("^([^%z]*)%z(.*)$", #chunk_mark + 1)) }
  elseif bytes:sub(1, #module_mark) == module_mark then
    bytes = transport.module(bytes:sub(#module_mark + 1))
  end
  return blocking.load(bytes) or reload.load(bytes) or transport.unpack(bytes, core.globals or _G)
end)

share.install(pierrot, core, misuse, hook)
hook("explain", values.explain)
hook("failure", errors.failure)
core.hook("error_metatable", errors.Error)
hook("reason", function(is_error, first, message, traceback, cause, actor, behaviour, of)
  if is_error then
    local err = errors.new(first, message, traceback, cause, actor, behaviour, of)
    return err
  end
  return first
end)

require("pierrot.router").install(pierrot, core, misuse)
require("pierrot.supervisor").install(pierrot, core, misuse, function(spec)
  local ok, problem = pcall(check_options, spec)
  if ok then
    ok, problem = carry(spec[1])
    return not ok and problem or nil
  end
  return (tostring(problem):gsub("^.-spawn: ", ""))
end)
require("pierrot.asks").install(pierrot, misuse)
blocking.install(pierrot, core, misuse, is_ref, name_of)
reload.install(pierrot, core, misuse, carry, name_of)

-- The log ------------------------------------------------------------------------------------------------------

local levels = { debug = 0, info = 1, warn = 2, error = 3, none = 4 }
pierrot.log = {}
for name, level in pairs(levels) do
  if name ~= "none" then
    pierrot.log[name] = function(fmt, ...)
      if core.log_on(level) then
        local text = tostring(fmt)
        if select("#", ...) > 0 then
          local ok, formatted = pcall(string.format, fmt, ...)
          if not ok then
            misuse(2, "log.%s: %s", name, formatted)
          end
          text = formatted
        end
        core.log(level, text)
      end
    end
  end
end
pierrot.log.level = core.log_level

-- Starting and ending ------------------------------------------------------------------------------------------

if inside then
  require("pierrot.inside")(core, transport)
  hook("interpret", require "pierrot.interpret")
  core.hook("restrict", function(allowed)
    return (require "pierrot.restrict"(core, pierrot, allowed))
  end)
  -- The first pack of a state learns all library names, in a millisecond or two: now, not in a handler.
  transport.pack(function() end, { is_ref = is_ref })

  function pierrot.start()
    misuse(2, "start: pierrot is running: this is one of its actors")
  end

  -- Returns at once: this actor, too, is asked to end after the message in hand.
  function pierrot.shutdown()
    return core.stop_all()
  end

  return pierrot
end

local function number_option(options, name, default, least, most, whole)
  local value = options[name]
  if value == nil then
    return default
  end
  if type(value) ~= "number" or not (value >= least and value <= most) or (whole and value % 1 ~= 0) then
    misuse(3, "start: %s: a%s number from %g to %g expected, got %s", name, whole and " whole" or "", least, most,
           tostring(value))
  end
  return value
end

-- For the command: a dispatcher for prompts and control, whose workers compile nothing.
local PROMPTS = {}
pierrot._prompts = PROMPTS
-- For pierrot.testing: a runtime that a test drives; see src/explore.h.
local EXPLORE = {}
pierrot._explore = EXPLORE

local start_options = { workers = true, throughput = true, ask_timeout = true, log = true, spin = true,
                        dispatchers = true, control = true, control_readonly = true,
                        log_format = true, log_file = true }
local start_later = { memory_limit = true, seed = true }

function pierrot.start(options)
  options = options or {}
  if type(options) ~= "table" then
    misuse(2, "start: a table of options expected, got %s", type(options))
  end
  for key in pairs(options) do
    if start_later[key] then
      misuse(2, "start: the option '%s' is not in this version of pierrot", key)
    elseif not start_options[key] and key ~= PROMPTS and key ~= EXPLORE then
      misuse(2, "start: unknown option '%s' (there are workers, throughput, ask_timeout, log, spin, dispatchers, "
             .. "log_format, log_file, control, control_readonly)", tostring(key))
    end
  end
  local level = levels[options.log or "info"]
  if not level then
    misuse(2, 'start: log: "debug", "info", "warn", "error" or "none" expected, got %s', tostring(options.log))
  end
  local format, file = options.log_format or "text", options.log_file
  if format ~= "text" and format ~= "json" then
    misuse(2, 'start: log_format: "text" or "json" expected, got %s', tostring(format))
  elseif file ~= nil and (type(file) ~= "string" or file == "" or file:find "%z") then
    misuse(2, "start: log_file: the path of a file (string) expected, got %s",
           type(file) == "string" and "none" or type(file))
  end
  local workers = number_option(options, "workers", nil, 1, 1024, true)
  local throughput = number_option(options, "throughput", 32, 1, 1e9, true)
  local ask_timeout = number_option(options, "ask_timeout", 5, 0, 1e9)
  local spin = number_option(options, "spin", nil, 0, 1e9, true)
  local list, problem = dispatchers.list(options.dispatchers)
  if not list then
    misuse(2, "start: dispatchers%s", problem)
  end
  local control = options.control
  if control ~= nil and type(control) ~= "string" then
    misuse(2, "start: control: the path of a socket (string) expected, got %s", type(control))
  elseif control and not pcall(require, "cjson") then
    misuse(2, "start: control: the Lua module cjson is missing (Debian: lua-cjson, LuaRocks: lua-cjson)")
  end
  if options[PROMPTS] or control then
    list[#list + 1] = { "prompts", 2, false, true }
  end
  local started, reason = core.start(workers, throughput, ask_timeout, level, spin, list, file, format == "json",
                                     options[EXPLORE])
  if not started then
    return nil, reason
  end
  carried = setmetatable({}, { __mode = "k" })   -- handles belong to one runtime
  modules = {}
  blocking.reset()
  share.begin()
  if not control then
    return true
  end
  started, reason = core.control_open(control)
  if not started then
    core.shutdown(5)
    return nil, reason
  end
  core.control_serve(pierrot.spawn { "pierrot.control", { readonly = options.control_readonly == true }, worker = 2,
                                     dispatcher = "prompts", restart = "permanent" })
  return true
end

function pierrot.shutdown(seconds)
  return answer(core.shutdown(seconds == nil and 5 or seconds))
end

-- For the command: runs a script as the first actor; see cli.lua.
function pierrot._run_script(path, catch_signals, ...)
  catch_signals()
  local handle = core.intern(script_mark .. path, path)
  local ref, reason = core.spawn(handle, nil, restarts.temporary, 0, { script = true }, ...)
  if not ref then
    return nil, reason
  end
  core.wait_quiet()
  local failed = core.script_failed
  core.stop_all()
  return true, failed
end

return pierrot
