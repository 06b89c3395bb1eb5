--- Dining philosophers (Savina): `philosophers` actors eat `meals` times each; an arbitrator gives out the forks.
-- An operation is a meal: three messages, hungry, eat, done. Unlike Savina's, the arbitrator remembers who waits
-- instead of refusing: how often one is refused depends on timing, and all sides shall do the same work.
-- Timed from before the philosophers are told to begin to the last one's word, by way of the arbitrator, that it has
-- had its last meal. The result is the number of meals, counted by the philosophers.

local pierrot = require "pierrot"
local support = require "support"

local Philosopher = {
  name = "philosopher",

  start = function(self, id, arbitrator, meals)
    self.id, self.arbitrator, self.left, self.eaten = id, arbitrator, meals, 0
  end,

  on = {
    start = function(self)
      self.arbitrator:tell("hungry", self.id)
    end,

    eat = function(self)
      self.eaten = self.eaten + 1
      self.left = self.left - 1
      self.arbitrator:tell("done", self.id)
      if self.left > 0 then
        self.arbitrator:tell("hungry", self.id)
      else
        self.arbitrator:tell "leave"
      end
    end,

    eaten = function(self) return self.eaten end,
  },
}

--- Gives the philosopher both forks if they lie there, or lets it wait.
local function seat(self, id)
  local taken, other = self.taken, id % #self.philosophers + 1
  if taken[id] or taken[other] then
    self.waiting[id] = true
  else
    taken[id], taken[other] = true, true
    self.waiting[id] = nil
    self.philosophers[id]:tell "eat"
  end
end

local Arbitrator = {
  name = "arbitrator",

  start = function(self, main)
    self.main, self.taken, self.waiting, self.gone = main, {}, {}, 0
  end,

  on = {
    open = function(self, philosophers)
      self.philosophers = philosophers
    end,

    hungry = seat,

    done = function(self, id)
      local count = #self.philosophers
      local left, right = (id - 2) % count + 1, id % count + 1
      self.taken[id], self.taken[right] = nil, nil
      if self.waiting[left] then seat(self, left) end
      if self.waiting[right] then seat(self, right) end
    end,

    leave = function(self)
      self.gone = self.gone + 1
      if self.gone == #self.philosophers then self.main:tell("done", pierrot.now()) end
    end,
  },
}

local function run(parameters)
  local count, meals = parameters.philosophers, parameters.meals
  local arbitrator = pierrot.spawn(Arbitrator, pierrot.self())
  local philosophers = {}
  for i = 1, count do philosophers[i] = pierrot.spawn(Philosopher, i, arbitrator, meals) end
  arbitrator:tell("open", philosophers)

  local started = pierrot.now()
  for _, philosopher in ipairs(philosophers) do philosopher:tell "start" end
  local ended = support.done "philosophers"

  local eaten = 0
  for _, philosopher in ipairs(philosophers) do eaten = eaten + philosopher:ask "eaten" end
  support.check("philosophers: meals", eaten, count * meals)
  support.stop(philosophers)
  support.stop { arbitrator }
  return eaten, eaten, ended - started
end

return { run = run }
