--- Ask: a client asks a server `asks` times, one after the other.
-- An operation is an ask with its answer. Measures the request and the reply, the wait between them
-- and the time limit (5 s on every side, which is everybody's default).
-- Timed by the client, from its first ask to its last answer. The result is the sum of the answers.

local pierrot = require "pierrot"
local support = require "support"

local Server = {
  name = "server",
  on = {
    double = function(_, n) return 2 * n end,
  },
}

local Client = {
  name = "client",
  on = {
    run = function(_, server, asks, main)
      local started, sum = pierrot.now(), 0
      for i = 1, asks do sum = sum + server:ask("double", i) end
      main:tell("done", sum, pierrot.now() - started)
    end,
  },
}

local function run(parameters)
  local asks = parameters.asks
  local server, client = pierrot.spawn(Server), pierrot.spawn(Client)
  client:tell("run", server, asks, pierrot.self())
  local sum, seconds = support.done "ask"
  support.check("ask: the sum of the answers", sum, asks * (asks + 1))
  support.stop { client, server }
  return sum, asks, seconds
end

return { run = run }
