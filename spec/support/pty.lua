-- A program in a terminal of its own: types, and sees the screen.
--
-- Nothing here waits for a time to pass: `wait` reads until what is waited for has come, and fails after its limit
-- with the screen as it is.

local ffi = require "ffi"
local Screen = require "support.screen"

ffi.cdef [[
struct pr_winsize { unsigned short rows, columns, x, y; };
struct pr_pollfd { int fd; short events, revents; };
int forkpty(int *, char *, const void *, const struct pr_winsize *);
int execve(const char *, const char *const *, const char *const *);
void _exit(int);
long read(int, void *, size_t);
long write(int, const void *, size_t);
int close(int);
int poll(struct pr_pollfd *, unsigned long, int);
int ioctl(int, unsigned long, ...);
int kill(int, int);
int waitpid(int, int *, int);
extern char **environ;
]]
local C = ffi.C
local TIOCSWINSZ, POLLIN, EINTR = 0x5414, 1, 4

local Pty = {}
Pty.__index = Pty

-- open(command line, { columns = 80, rows = 24, env = { NAME = value or false } })
function Pty.open(command, options)
  options = options or {}
  local env, own = {}, options.env or {}
  for i = 0, math.huge do
    if C.environ[i] == nil then break end
    local entry = ffi.string(C.environ[i])
    if own[entry:match "^[^=]*"] == nil then env[#env + 1] = entry end
  end
  for name, value in pairs(own) do
    if value then env[#env + 1] = name .. "=" .. value end
  end
  local argv = ffi.new("const char *[4]", { "sh", "-c", "exec " .. command, nil })
  local envp = ffi.new("const char *[?]", #env + 1)
  for i, entry in ipairs(env) do envp[i - 1] = entry end
  local size = ffi.new("struct pr_winsize", options.rows or 24, options.columns or 80, 0, 0)
  local master = ffi.new "int[1]"
  local pid = C.forkpty(master, nil, nil, size)
  assert(pid >= 0, "forkpty failed")
  if pid == 0 then
    C.execve("/bin/sh", argv, envp)
    C._exit(127)
  end
  return setmetatable({ pid = pid, fd = master[0], raw = "", screen = Screen.new(size.columns, size.rows), anchors = env,
                        limit = options.limit or (os.getenv "PIERROT_SANITIZER" and 60 or 30) }, Pty)
end

function Pty:send(text)
  local at = 0
  while at < #text do
    local n = C.write(self.fd, ffi.cast("const char *", text) + at, #text - at)
    assert(n > 0 or ffi.errno() == EINTR, "the terminal takes no more")
    if n > 0 then at = at + tonumber(n) end
  end
end

local buffer = ffi.new "char[65536]"

-- Takes what comes within so many milliseconds; false at the end.
function Pty:read(ms)
  if self.closed then return false end
  local wait = ffi.new("struct pr_pollfd", self.fd, POLLIN, 0)
  if C.poll(wait, 1, ms) <= 0 then return true end
  local n = tonumber(C.read(self.fd, buffer, 65536))
  if n <= 0 then
    self.closed = true   -- EIO: nobody has the other end any more
    return false
  end
  local text = ffi.string(buffer, n)
  self.raw = self.raw .. text
  self.screen:feed(text)
  return true
end

function Pty:lines() return self.screen:text() end
function Pty:text() return table.concat(self:lines(), "\n") end

-- The screen in words, for failures.
function Pty:seen()
  return ("the screen is\n--\n%s\n-- and came from %q"):format(self:text(), self.raw:sub(-2000))
end

-- Until test(self) is true, or (a string) the screen's text has it.
function Pty:wait(test, what)
  local plain = type(test) == "string" and test
  local started = os.time()
  repeat
    if plain and self:text():find(plain, 1, true) or not plain and test(self) then return self end
    local open = self:read(200)
    if not open and not (plain and self:text():find(plain, 1, true) or not plain and test(self)) then
      error(("the program ended; waiting for %s, %s"):format(what or plain, self:seen()), 2)
    end
  until os.time() - started > self.limit
  error(("waited in vain for %s: %s"):format(what or plain or "?", self:seen()), 2)
end

-- The last line of the screen is this.
function Pty:wait_last(line)
  return self:wait(function(p)
    local lines = p:lines()
    return lines[#lines] == line
  end, ("the last line %q"):format(line))
end

function Pty:resize(columns, rows)
  self.screen:resize(columns, rows)
  C.ioctl(self.fd, TIOCSWINSZ, ffi.new("struct pr_winsize", rows, columns, 0, 0))
end

-- Until the program has ended: its exit status, or 128 and the signal.
function Pty:finish()
  local started = os.time()
  while self:read(200) do
    if os.time() - started > self.limit then
      local seen = self:seen()
      self:close()
      error("it does not end: " .. seen, 2)
    end
  end
  local status = ffi.new "int[1]"
  C.waitpid(self.pid, status, 0)
  C.close(self.fd)
  self.pid = nil
  local code = status[0]
  return code % 128 == 0 and math.floor(code / 256) or 128 + code % 128
end

function Pty:close()
  if not self.pid then return end
  C.kill(self.pid, 9)
  C.waitpid(self.pid, nil, 0)
  C.close(self.fd)
  self.pid = nil
end

return Pty
