-- A client of a Unix socket: sends bytes, reads lines.

local ffi = require "ffi"

ffi.cdef [[
struct pr_sockaddr_un { unsigned short family; char path[108]; };
int socket(int, int, int);
int connect(int, const void *, unsigned);
long send(int, const void *, size_t, int);
long recv(int, void *, size_t, int);
int shutdown(int, int);
]]
pcall(ffi.cdef, "int close(int);")
local C = ffi.C
local AF_UNIX, SOCK_STREAM, MSG_NOSIGNAL = 1, 1, 0x4000

local Client = {}
Client.__index = Client

function Client.connect(path)
  local fd = C.socket(AF_UNIX, SOCK_STREAM, 0)
  local address = ffi.new("struct pr_sockaddr_un", AF_UNIX, path)
  if C.connect(fd, address, ffi.sizeof(address)) ~= 0 then
    C.close(fd)
    return nil
  end
  return setmetatable({ fd = fd, rest = "" }, Client)
end

-- How much of it was taken: less than all when the other side has gone.
function Client:send(text)
  local at = 0
  while at < #text do
    local n = tonumber(C.send(self.fd, ffi.cast("const char *", text) + at, #text - at, MSG_NOSIGNAL))
    if n <= 0 then break end
    at = at + n
  end
  return at
end

local buffer = ffi.new "char[65536]"

-- The next line; nil at the end. Waits.
function Client:line()
  while true do
    local line, rest = self.rest:match "^([^\n]*)\n(.*)$"
    if line then
      self.rest = rest
      return line
    end
    local n = tonumber(C.recv(self.fd, buffer, 65536, 0))
    if n <= 0 then return nil end
    self.rest = self.rest .. ffi.string(buffer, n)
  end
end

function Client:close()
  if self.fd then C.close(self.fd) end
  self.fd = nil
end

return Client
