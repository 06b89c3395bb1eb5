-- What is different in a worker's state: output by whole lines, globals that actors cannot assign, and
-- coroutines of the script's own through which a waiting actor can be seen.

return function(core, transport)
  -- print, io.write and file:write on stdout: an actor's line goes out whole (src/lua/output.c).
  print = core.print
  local stdout, real_write, real_flush = io.stdout, io.write, io.flush
  local file = getmetatable(stdout).__index
  local file_write, file_flush = file.write, file.flush

  function io.write(...)
    if io.output() ~= stdout then
      return real_write(...)
    end
    local ok, message, code = core.write(...)
    return ok, message, code
  end

  function io.flush()
    if io.output() == stdout then
      core.flush()
    end
    return real_flush()
  end

  local stderr, write_error = io.stderr, core.write_error   -- the latter where a prompt is on the screen
  function file:write(...)
    if self == stderr and write_error then
      local ok, message, code = write_error(...)
      return ok, message, code
    elseif self ~= stdout then
      return file_write(self, ...)
    end
    local ok, message, code = core.write(...)
    return ok, message, code
  end

  function file:flush()
    if self == stdout then
      core.flush()
    end
    return file_flush(self)
  end

  -- A question on the terminal shows before its answer is read.
  local real_read, file_read = io.read, file.read
  function io.read(...)
    core.flush()
    return real_read(...)
  end
  function file:read(...)
    if self == io.stdin then
      core.flush()
    end
    return file_read(self, ...)
  end

  -- A call that waits yields a mark up to the worker. In a coroutine that the script made itself, that yield
  -- arrives at its resume, which passes it on and later brings back what was waited for.
  local resume, yield, create, running = coroutine.resume, coroutine.yield, coroutine.create, coroutine.running
  local mark = core.sentinel

  -- A time slice that ends inside one yields nothing instead: core.sliced says so.
  local sliced = core.sliced

  local function passed(co, ok, first, ...)
    if ok and (first == mark or first == nil and sliced()) then
      return passed(co, resume(co, yield(mark)))
    end
    return ok, first, ...
  end

  core.create, core.traceback = create, debug.traceback

  local yieldable, block = core.yieldable, core.block

  local function unblocked(...)
    block(-1)
    return ...
  end

  -- Below a call from C (a sort's comparator) a yield could come up to here and no further: waiting calls are told.
  local function resume_through(co, ...)
    if yieldable() then
      return passed(co, resume(co, ...))
    end
    block(1)
    return unblocked(resume(co, ...))
  end

  function coroutine.resume(co, ...)
    if type(co) ~= "thread" then
      error(("bad argument #1 to 'resume' (coroutine expected, got %s)"):format(type(co)), 2)
    end
    return resume_through(co, ...)
  end

  local function unwrapped(ok, ...)
    if ok then
      return ...
    end
    error((...), 0)
  end

  -- The script's own coroutines; a handler's is none of them, and yields by waiting calls alone.
  local own = setmetatable({}, { __mode = "k" })

  function coroutine.create(fn)
    if type(fn) ~= "function" then
      error(("bad argument #1 to 'create' (function expected, got %s)"):format(type(fn)), 2)
    end
    local co = create(fn)
    own[co] = true
    return co
  end

  function coroutine.yield(...)
    if not own[running()] then
      error("attempt to yield from outside a coroutine (pierrot.yield() lets other actors run)", 2)
    end
    return yield(...)
  end

  function coroutine.wrap(fn)
    if type(fn) ~= "function" then
      error(("bad argument #1 to 'wrap' (function expected, got %s)"):format(type(fn)), 2)
    end
    local co = coroutine.create(fn)
    return function(...)
      return unwrapped(resume_through(co, ...))
    end
  end

  -- The collector calls finalizers at any allocation: in whichever actor's turn, in the middle of an encoding, inside
  -- compiled code. Here it only notes them; the worker runs them between turns, where they do no harm, and their
  -- errors go to the log.
  local noted, count, closing = {}, 0, false

  local function finalize(finalizer, object)
    local ok, message = pcall(finalizer, object)
    if not ok and core.log_on(2) then
      core.log(2, "an error in a finalizer (__gc): " .. tostring(message))
    end
  end

  local function guarded(finalizer)
    if type(finalizer) ~= "function" then
      return finalizer
    end
    return function(object)
      if closing then
        return finalize(finalizer, object)
      end
      noted[count + 1], noted[count + 2] = finalizer, object
      count = count + 2
      core.chores()
    end
  end

  core.hook("finalize", function(last)
    closing = last
    while count > 0 do
      local others = {}   -- first: the collector may come in here, and note some more
      local now, n = noted, count
      noted, count = others, 0
      for i = 1, n, 2 do
        finalize(now[i], now[i + 1])
      end
    end
  end)

  local real_newproxy = newproxy
  function newproxy(with_metatable)
    local proxy = real_newproxy(with_metatable)
    local mt = with_metatable == true and getmetatable(proxy)
    if mt then
      mt.__metatable = setmetatable({}, {
        __index = mt,
        __newindex = function(_, key, value)
          mt[key] = key == "__gc" and guarded(value) or value
        end,
      })
    end
    return proxy
  end

  local ffi = require "ffi"
  local real_ffi_gc, real_metatype = ffi.gc, ffi.metatype
  function ffi.gc(cdata, finalizer)
    return real_ffi_gc(cdata, guarded(finalizer))
  end
  function ffi.metatype(ct, mt)
    if type(mt) == "table" and rawget(mt, "__gc") then
      rawset(mt, "__gc", guarded(mt.__gc))
    end
    return real_metatype(ct, mt)
  end

  -- The collector's pace is the worker's: one actor's `stop` would be everybody's.
  local real_collect, paces = collectgarbage, { stop = true, restart = true, setpause = true, setstepmul = true }
  function collectgarbage(what, ...)
    if paces[what] then
      return 0
    end
    local result = real_collect(what, ...)
    return result
  end

  -- Level 0 means the coroutine, which serves other actors' handlers next.
  local real_setfenv = setfenv
  function setfenv(of, env)
    if of == 0 then
      error("setfenv: level 0 is shared with other actors: set the environment of a function", 2)
    end
    local fn = real_setfenv(type(of) == "number" and of + 1 or of, env)
    return fn
  end

  -- The worker's globals belong to all of its actors: only modules add to them, while they are being loaded.
  local loading = 0
  local real_require = require

  -- Of modules that a host in C opens by itself.
  core.hook("opening", function(n)
    loading = loading + n
  end)

  local function loaded(name, known, ok, ...)
    loading = loading - 1
    if not ok then
      if known == nil then
        package.loaded[name] = nil   -- not LuaJIT's mark of a load under way, which would hide the error the next time
      end
      error((...), 3)
    end
    return ...
  end

  -- Runs the chunk of a module, which may add globals, without its becoming the module: as pcall.
  local function ran(...)
    loading = loading - 1
    return ...
  end
  function core.run_module(chunk, name)
    loading = loading + 1
    return ran(pcall(chunk, name))
  end

  function require(name)
    loading = loading + 1
    return loaded(name, type(name) == "string" and package.loaded[name], pcall(real_require, name))
  end

  -- The end of the process takes along what this worker's actors have begun to write.
  local exit = os.exit
  function os.exit(...)
    if core.hosted then
      error("os.exit: the process is the host's to end; pierrot.shutdown() ends the runtime", 2)
    end
    core.flush_all()
    return exit(...)
  end

  setmetatable(_G, {
    __newindex = function(globals, name, value)
      if loading == 0 then
        error(("assignment to global '%s' inside an actor: actors share no variables; keep it in self"):format(
          tostring(name)), 2)
      end
      rawset(globals, name, value)
    end,
  })

  if core.seeded then
    rawset(_G, "pairs", require "pierrot.ordered")
  end

  -- These go by name, like the functions they stand for.
  for _, name in ipairs { "print", "require", "newproxy", "pairs", "setfenv", "collectgarbage" } do
    transport.standard[name] = _G[name]
  end
end
