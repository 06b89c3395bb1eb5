--- Chameneos (Savina): `creatures` actors of three colours ask a mall for a partner; those who met change colour
-- and come back, until there were `meetings` meetings.
-- An operation is a meeting: two messages to the mall, one from it, one between the two. Measures an actor that all
-- others wait for.
-- Timed by the mall, from before the creatures are told to begin to the last one's word of how often it has met. The
-- result is the sum of these.

local pierrot = require "pierrot"
local support = require "support"

-- Two different colours become the third one (they are 0, 1 and 2), two equal ones stay.
local function blend(a, b)
  return a == b and a or 3 - a - b
end

local Creature = {
  name = "creature",

  start = function(self, mall, colour)
    self.mall, self.colour, self.met = mall, colour, 0
  end,

  on = {
    start = function(self)
      self.mall:tell("meet", self.colour)
    end,

    -- The mall has passed on what another one sent it.
    meet = function(self, colour)
      self.colour = blend(self.colour, colour)
      self.met = self.met + 1
      pierrot.sender():tell("change", self.colour)
      self.mall:tell("meet", self.colour)
    end,

    change = function(self, colour)
      self.colour = colour
      self.met = self.met + 1
      self.mall:tell("meet", colour)
    end,

    closed = function(self)
      self.mall:tell("met", self.met)
    end,
  },
}

local Mall = {
  name = "mall",

  start = function(self, main, meetings)
    self.main, self.left = main, meetings
    self.sum, self.leaving = 0, 0
  end,

  on = {
    open = function(self, creatures)
      self.creatures, self.started = #creatures, pierrot.now()
      for _, creature in ipairs(creatures) do creature:tell "start" end
    end,

    meet = function(self)
      if self.left == 0 then
        pierrot.sender():tell "closed"
      elseif self.waiting then
        self.left = self.left - 1
        pierrot.forward(self.waiting)
        self.waiting = nil
      else
        self.waiting = pierrot.sender()
      end
    end,

    met = function(self, count)
      self.sum = self.sum + count
      self.leaving = self.leaving + 1
      if self.leaving == self.creatures then
        self.main:tell("done", self.sum, pierrot.now() - self.started)
      end
    end,
  },
}

local function run(parameters)
  local meetings = parameters.meetings
  local mall = pierrot.spawn(Mall, pierrot.self(), meetings)
  local creatures = {}
  for i = 1, parameters.creatures do creatures[i] = pierrot.spawn(Creature, mall, i % 3) end
  mall:tell("open", creatures)
  local met, seconds = support.done "chameneos"
  support.check("chameneos: what all met", met, 2 * meetings)
  support.stop(creatures)
  support.stop { mall }
  return met, meetings, seconds
end

return { run = run }
