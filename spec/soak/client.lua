-- Clients of the control socket beside soak.lua:  luajit client.lua SOCKET SECONDS. They look, evaluate, attach, hang up in
-- the middle, and send rubbish. What is answered must be JSON, and to what was asked.

local json, Client, ffi = require "cjson", require "support.unix", require "ffi"
ffi.cdef "int usleep(unsigned);"
local path, seconds = arg[1], tonumber(arg[2])
local until_then, rounds = os.time() + seconds, 0

local function ask(c, request, id)
  request.id = id
  c:send(json.encode(request) .. "\n")
  while true do
    local line = assert(c:line(), "the connection has ended")
    local answer = json.decode(line)
    if answer.id == id then return answer end
  end
end

while os.time() < until_then do
  local c = assert(Client.connect(path), "cannot connect")
  rounds = rounds + 1
  local kind = rounds % 6
  if kind == 0 then
    assert(ask(c, { cmd = "ps", n = 20 }, rounds).ok)
    assert(ask(c, { cmd = "tree" }, rounds + 1).ok)
  elseif kind == 1 then
    local answer = ask(c, { cmd = "eval", code = "return 1 + 1" }, rounds)
    assert(answer.ok)
  elseif kind == 2 then
    for i = 1, 3 do assert(ask(c, { cmd = "top", n = 10, sort = "rate" }, rounds * 10 + i).ok) end
  elseif kind == 3 then
    c:send '{"cmd":"attach"}\n{"line":"for i = 1, 1e9 do end"}\n\3\n'
  elseif kind == 4 then
    c:send(("{rubbish\n"):rep(20) .. '{"cmd":')
  else
    local answer = ask(c, { cmd = "stats" }, rounds)
    assert(answer.ok and answer.result.actors > 0)
  end
  c:close()
  ffi.C.usleep(20000)   -- the processors are for the players
end
print(("ok  clients    %d rounds"):format(rounds))
