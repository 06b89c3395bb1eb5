-- Strolls about, and keeps away from players.

local pierrot = require "pierrot"
local world = require "world"
local measured = require "measured"

-- How long until its next thought: each is its own timer, so a new tuning holds from the next one on.
local function think_later(self, seconds)
  pierrot.send_after(seconds, pierrot.self(), "think")
end

return {
  name = "wanderer",
  start = function(self, id)
    self.id, self.angle, self.thoughts = id, id % 63 / 10, 0
    pierrot.join "wanderer"
    self.tuning = pierrot.ask("director", "tuning", "wanderer")
    think_later(self, self.tuning.think * math.random())   -- not all at once
  end,
  on = measured {
    think = function(self)
      local tuning = self.tuning
      local _, px, py = world.nearest(self.id, tuning.sight, "player")
      if px then
        local x, y = world.place(self.id)
        self.angle = math.atan2(y - py, x - px)
      else
        self.angle = self.angle + (math.random() - 0.5)
      end
      local step = tuning.speed * tuning.think
      local _, _, free = world.move(self.id, math.cos(self.angle) * step, math.sin(self.angle) * step)
      if not free then self.angle = self.angle + 2 end
      self.thoughts = self.thoughts + 1
      think_later(self, tuning.think)
    end,
    tune = function(self, tuning) self.tuning = tuning end,
    report = function(self) return self.thoughts end,
  },
}
