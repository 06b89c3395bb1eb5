--- Commands and files of the machine, for the benchmarks: plain Lua, outside actors.

local M = {}

M.TIME_LIMIT_SECONDS = 300     -- for one process

function M.quote(word)
  return "'" .. tostring(word):gsub("'", "'\\''") .. "'"
end

--- Runs a command. Its standard output; or nil, and what went wrong.
function M.sh(command)
  local pipe = assert(io.popen("{ " .. command .. "\n} ; echo \"status $?\""))
  local out, status = pipe:read("*a"):match("^(.*)status (%d+)\n$")
  pipe:close()
  if status == "0" then return out end
  if status == "124" then return nil, ("no end after %d s: %s"):format(M.TIME_LIMIT_SECONDS, command) end
  return nil, ("status %s: %s"):format(status or "unknown", command)
end

function M.is_installed(command)
  return M.sh("command -v " .. M.quote(command)) ~= nil
end

function M.core_count()
  return tonumber(M.sh("nproc")) or 2
end

--- The running executable, if that is Pierrot.
function M.own_executable()
  local path = (M.sh("readlink /proc/$PPID/exe") or ""):match("^(.-)\n$")
  return path and path:match("pierrot[^/]*$") and path
end

--- What a pattern finds in a file of /proc; nil if nothing.
local function look_up(path, pattern)
  local file = io.open(path)
  if not file then return nil end
  local found = file:read("*a"):match(pattern)
  file:close()
  return found
end

--- Where the figures come from, and what else ran there in the last minute (1 is one busy core).
function M.machine()
  return {
    processor = look_up("/proc/cpuinfo", "model name%s*:%s*([^\n]+)") or "unknown processor",
    cores = M.core_count(),
    load = tonumber(look_up("/proc/loadavg", "^%S+")),
  }
end

return M
