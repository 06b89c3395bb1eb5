--- Independent pairs: `pairs` pairs of actors play pingpong with a number, all at once, `round_trips` times each.
-- With `across` 0 the runtime places them; with 1 one of each pair is on worker 1, the other on worker 2, so that every
-- message crosses, and both workers are busy with the other pairs meanwhile; with 2 each pair is together, the pairs on
-- the workers in turn.
-- An operation is a message. With `across` its time is the workers' (two, so twice what passes for all).
-- Timed from before the pairs are told to begin to the last one's word. The result is the number of catches.

local pierrot = require "pierrot"
local support = require "support"

local Player = {
  name = "player",

  start = function(self, main)
    self.main, self.caught = main, 0
  end,

  on = {
    partner = function(self, partner) self.partner = partner end,
    serve = function(self, round_trips) self.partner:tell(2 * round_trips - 1) end,
    caught = function(self) return self.caught end,
  },

  receive = function(self, left)
    self.caught = self.caught + 1
    if left > 0 then
      self.partner:tell(left - 1)
    else
      self.main:tell("done", pierrot.now())
    end
  end,
}

local function run(parameters)
  local count, round_trips, across = parameters.pairs, parameters.round_trips, parameters.across == 1
  local workers = pierrot.stats().workers
  local players, main = {}, pierrot.self()
  for i = 1, 2 * count do
    local worker = across and (i - 1) % 2 + 1 or parameters.across == 2 and math.floor((i - 1) / 2) % workers + 1 or nil
    players[i] = pierrot.spawn { Player, main, worker = worker }
  end
  for i = 1, 2 * count, 2 do
    players[i]:ask("partner", players[i + 1])
    players[i + 1]:ask("partner", players[i])
  end

  local started, ended = pierrot.now(), 0
  for i = 1, 2 * count, 2 do players[i]:tell("serve", round_trips) end
  for _ = 1, count do ended = math.max(ended, (support.done "pairs")) end
  local caught = 0
  for _, player in ipairs(players) do caught = caught + player:ask "caught" end
  support.check("pairs: catches", caught, 2 * count * round_trips)
  support.stop(players)
  return caught, caught, (ended - started) * (across and 2 or 1)
end

return { run = run }
