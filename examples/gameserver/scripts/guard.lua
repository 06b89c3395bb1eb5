-- Walks from post to post by the shortest way; runs after a player that it sees, and hits it.

local pierrot = require "pierrot"
local world = require "world"
local measured = require "measured"
local plan = require "plan"

local side = world.side

local function think_later(self, seconds)
  pierrot.send_after(seconds, pierrot.self(), "think")
end

local function go_to(self, x, y, px, py)
  local dx, dy = px - x, py - y
  local distance = math.sqrt(dx * dx + dy * dy)
  local step = math.min(self.tuning.speed * self.tuning.think, distance)
  if distance > 0 then
    world.move(self.id, dx / distance * step, dy / distance * step)
  end
  return distance
end

local function patrol(self, x, y)
  if not self.way or #self.way == 0 then
    local post = plan.tile(1 + math.random() * (side - 2), 1 + math.random() * (side - 2))
    self.way = plan.way(plan.tile(x, y), post)   -- the long part: some thousand tiles
    return
  end
  if go_to(self, x, y, plan.middle(self.way[#self.way])) < 0.1 then
    self.way[#self.way] = nil
  end
end

return {
  name = "guard",
  start = function(self, id)
    self.id, self.thoughts = id, 0
    pierrot.join "guard"
    self.tuning = pierrot.ask("director", "tuning", "guard")
    think_later(self, self.tuning.think * math.random())
  end,
  on = measured {
    think = function(self)
      local x, y = world.place(self.id)
      local player, px, py = world.nearest(self.id, self.tuning.sight, "player")
      if not player then
        patrol(self, x, y)
      else
        self.way = nil
        local ref = go_to(self, x, y, px, py) < 1 and world.ref(player)
        if ref then ref:tell("hit", self.tuning.damage) end
      end
      self.thoughts = self.thoughts + 1
      think_later(self, self.tuning.think)
    end,
    tune = function(self, tuning) self.tuning = tuning end,
    report = function(self) return self.thoughts end,
  },
}
