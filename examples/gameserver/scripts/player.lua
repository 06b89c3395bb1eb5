-- What a client moves. Its moves are numbered; a number that has been seen gets its answer again and moves nothing, as
-- the first answer may have been lost on the way.

local pierrot = require "pierrot"
local world = require "world"
local measured = require "measured"

local RATE = 30   -- moves a second that a client may make at full speed

return {
  name = "player",
  start = function(self, id)
    self.id, self.last, self.heard = id, 0, pierrot.now()
    pierrot.join "player"
    self.tuning = pierrot.ask("director", "tuning", "player")
    self.health = self.tuning.health
    self.x, self.y = world.place(id)
    pierrot.send_every(1, pierrot.self(), "watch")
  end,
  on = measured {
    move = function(self, number, dx, dy)
      if number > self.last then
        local length, most = math.sqrt(dx * dx + dy * dy), self.tuning.speed / RATE
        local scale = length > most and most / length or 1
        self.x, self.y = world.move(self.id, dx * scale, dy * scale)
        self.last = number
      end
      self.heard = pierrot.now()
      return number, self.x, self.y, self.health
    end,
    hit = function(self, damage)
      self.health = self.health - damage
      if self.health <= 0 then self.health = self.tuning.health end   -- a second life, on the spot
    end,
    watch = function(self)
      if pierrot.now() - self.heard > self.tuning.idle then pierrot.stop "idle" end
    end,
    leave = function() pierrot.stop "left" end,
    tune = function(self, tuning) self.tuning = tuning end,
    report = function(self) return self.last end,
  },
}
