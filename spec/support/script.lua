-- Runs scripts in processes of their own: the `pierrot` command of the build under test, and plain programs.
-- Everything is waited for; a process that does not end within its limit is killed and reported as status 124.

local script = {}

local count = 0
local directory

function script.quote(text)
  return "'" .. tostring(text):gsub("'", "'\\''") .. "'"
end
local quote = script.quote

-- A shell command's standard output and exit status.
function script.sh(command)
  local pipe = assert(io.popen("{ " .. command .. "\n}; echo \"status $?\""))
  local out, status = pipe:read("*a"):match("^(.*)status (%d+)\n$")
  pipe:close()
  return out, tonumber(status)
end

-- A path in a directory of this process, which `script.clean` removes.
function script.path(name)
  if not directory then directory = script.sh("mktemp -d"):match("[^\n]+") end
  return directory .. "/" .. name
end

function script.clean()
  if directory then script.sh("rm -rf " .. quote(directory)) end
  directory = nil
end

function script.write(name, text)
  local path = script.path(name)
  local file = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
  return path
end

function script.read(path)
  local file = io.open(path, "rb")
  if not file then return nil end
  local text = file:read("*a")
  file:close()
  return text
end

script.bin = os.getenv "PIERROT_BIN" or "build/pierrot"
script.luajit = os.getenv "PIERROT_LUAJIT" or "luajit"
script.build = os.getenv "PIERROT_BUILD" or "build"
script.sanitized = os.getenv "PIERROT_SANITIZER" ~= nil

-- A command line -> { out =, err =, status = }. `limit`: seconds, 30.
function script.command(line, limit)
  count = count + 1
  local out, err = script.path("out" .. count), script.path("err" .. count)
  local _, status = script.sh(("timeout --foreground -s KILL %d %s </dev/null >%s 2>%s"):format(
    limit or 30, line, quote(out), quote(err)))
  local result = { out = script.read(out), err = script.read(err), status = status }
  os.remove(out)
  os.remove(err)
  return result
end

-- Runs a script's source with `pierrot run`. opts: flags ("--workers 2"), args (text for the shell), limit, env,
-- name (the file's).
function script.run(source, opts)
  opts = opts or {}
  local path = script.write(opts.name or "script.lua", source)
  local result = script.command(("env %s %s run %s %s %s"):format(opts.env or "", quote(script.bin),
    opts.flags or "--log error", quote(path), opts.args or ""), opts.limit)
  result.path = path
  return result
end

-- Runs a plain program's source under LuaJIT.
function script.plain(source, opts)
  opts = opts or {}
  local path = script.write(opts.name or "plain.lua", source)
  local result = script.command(("env %s %s %s %s"):format(opts.env or "", quote(script.luajit), quote(path),
    opts.args or ""), opts.limit)
  result.path = path
  return result
end

-- What a process says when it went as wanted: status 0 and nothing on stderr.
function script.output(source, opts)
  local result = script.run(source, opts)
  if result.status ~= 0 or result.err ~= "" then
    error(("status %d\nstdout: %s\nstderr: %s"):format(result.status, result.out, result.err), 2)
  end
  return result.out
end

return script
