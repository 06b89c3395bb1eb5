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

  function file:write(...)
    if self ~= stdout then
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
  local resume, yield, create = coroutine.resume, coroutine.yield, coroutine.create
  local mark = core.sentinel

  local function passed(co, ok, first, ...)
    if ok and first == mark then
      return passed(co, resume(co, yield(mark)))
    end
    return ok, first, ...
  end

  function coroutine.resume(co, ...)
    return passed(co, resume(co, ...))
  end

  local function unwrapped(ok, ...)
    if ok then
      return ...
    end
    error((...), 0)
  end

  function coroutine.wrap(fn)
    local co = create(fn)
    return function(...)
      return unwrapped(passed(co, resume(co, ...)))
    end
  end

  -- The worker's globals belong to all of its actors: only modules add to them, while they are being loaded.
  local loading = 0
  local real_require = require

  local function loaded(ok, ...)
    loading = loading - 1
    if not ok then
      error((...), 3)
    end
    return ...
  end

  function require(name)
    loading = loading + 1
    return loaded(pcall(real_require, name))
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

  -- These go by name, like the functions they stand for.
  for _, name in ipairs { "print", "require" } do
    transport.standard[name] = _G[name]
  end
end
