--- Pierrot and its peers: how each is made ready, and the command that runs one benchmark in it.
--
-- The command does the work once to warm up and once with the timer on, and prints a line
-- "PROGRAM NANOSECONDS OPERATIONS RESULT", where further figures, in ns, may follow as "NAME=NANOSECONDS".

local shell = require "pierrot.bench.shell"
local sh, quote = shell.sh, shell.quote

---@class pierrot.bench.Context
---@field dir string        where the benchmarks are
---@field scratch string    a directory for what is compiled
---@field pierrot string    the executable
---@field workers integer
---@field throughput? integer
---@field programs table<string, string[]> that will run, by side

---@class pierrot.bench.Side
---@field name string
---@field prepare fun(context: pierrot.bench.Context): string?, string?   what it is; or nil and why it is left out
---@field command fun(context: pierrot.bench.Context, program: string, parameters: string): string

local CC, CXX = os.getenv "CC" or "cc", os.getenv "CXX" or "g++"

local function write_file(path, text)
  local file = assert(io.open(path, "w"))
  file:write(text)
  file:close()
end

local function pierrot_command(context, workers, program, parameters)
  local throughput = context.throughput and "--throughput " .. context.throughput or ""
  return ("%s run --workers %d %s %s %s 1 %s"):format(quote(context.pierrot), workers, throughput,
    quote(context.dir .. "/run.lua"), program, parameters)
end

---@type pierrot.bench.Side[]
return {
  {
    name = "pierrot",
    prepare = function(context)
      return ("%s, %d workers%s"):format(jit.version, context.workers,
        context.throughput and ", throughput " .. context.throughput or "")
    end,
    command = function(context, program, parameters)
      return pierrot_command(context, context.workers, program, parameters)
    end,
  },
  {
    name = "erlang",
    prepare = function(context)
      if not (shell.is_installed("erl") and shell.is_installed("erlc")) then
        return nil, "not installed (Debian: erlang-base)"
      end
      local _, why = sh(("erlc -o %s %s/erlang/*.erl"):format(
        quote(context.scratch), quote(context.dir)))
      if why then return nil, why end
      local release = sh("erl -noshell -eval 'io:format(erlang:system_info(otp_release)), halt()'")
      return ("OTP %s, +S %d:%d"):format(release or "?", context.workers, context.workers)
    end,
    command = function(context, program, parameters)
      return ("erl +S %d:%d +P 4194304 -noshell -pa %s -run bench main -extra %s 1 %s"):format(
        context.workers, context.workers, quote(context.scratch), program, parameters)
    end,
  },
  {
    name = "caf",
    -- All programs are one unit: parsing CAF's headers takes longer than what is in them.
    prepare = function(context)
      if not shell.is_installed(CXX) then return nil, ("no C++ compiler (%s)"):format(CXX) end
      local version = sh(("printf '#include <caf/config.hpp>\\nCAF_VERSION\\n' | %s -E -P -x c++ - 2>/dev/null")
        :format(quote(CXX)))
      local number = tonumber((version or ""):match("(%d+)%s*$"))
      if not number then return nil, "not installed (Debian: libcaf-dev)" end
      local unit = {}
      for i, program in ipairs(context.programs.caf) do unit[i] = ('#include "%s.cpp"\n'):format(program) end
      write_file(context.scratch .. "/caf.cpp", table.concat(unit) .. '#include "main.cpp"\n')
      local _, why = sh(("%s -std=c++17 -O3 -I %s -o %s %s -lcaf_core -pthread"):format(quote(CXX),
        quote(context.dir .. "/caf"), quote(context.scratch .. "/caf-bench"), quote(context.scratch .. "/caf.cpp")))
      if why then return nil, why end
      return ("CAF %d.%d.%d, C++17 -O3, %d scheduler threads"):format(number / 10000, number / 100 % 100,
        number % 100, context.workers)
    end,
    command = function(context, program, parameters)
      return ("%s %d %s 1 %s"):format(quote(context.scratch .. "/caf-bench"), context.workers, program, parameters)
    end,
  },
  {
    name = "one worker",
    prepare = function() return "Pierrot, 1 worker" end,
    command = function(context, program, parameters)
      return pierrot_command(context, 1, program, parameters)
    end,
  },
  {
    name = "futex",
    prepare = function(context)
      if not shell.is_installed(CC) then return nil, ("no C compiler (%s)"):format(CC) end
      local _, why = sh(("%s -O2 -pthread -o %s %s"):format(quote(CC), quote(context.scratch .. "/futex"),
        quote(context.dir .. "/futex.c")))
      if why then return nil, why end
      return "two threads in C"
    end,
    command = function(context, program, parameters)
      return ("%s %s 1 %s"):format(quote(context.scratch .. "/futex"), program, parameters)
    end,
  },
}
