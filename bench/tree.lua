--- A tree of actors (after "skynet"): each node makes `children` more, down to `leaves` leaves. A leaf tells its parent
-- its number; a node tells its parent the sum of what its children told it. Each ends when it has told.
-- An operation is an actor. Measures birth and end of very many, over all workers, many of them alive at once.
-- Timed from the root's birth to its sum, which is the result.

local pierrot = require "pierrot"
local support = require "support"

local Node = { name = "node" }

function Node.start(self, first, leaves, children)
  if leaves == 1 then
    pierrot.parent():tell(first)
    pierrot.stop()
    return
  end
  self.left, self.sum = children, 0
  local each = leaves / children
  for i = 0, children - 1 do pierrot.spawn(Node, first + i * each, each, children) end
end

function Node.receive(self, n)
  self.sum = self.sum + n
  self.left = self.left - 1
  if self.left == 0 then
    pierrot.parent():tell(self.sum)
    pierrot.stop()
  end
end

--- The root's parent: it knows the time.
local Trunk = {
  name = "trunk",

  on = {
    grow = function(self, main, leaves, children)
      self.main, self.started = main, pierrot.now()
      pierrot.spawn(Node, 0, leaves, children)
    end,
  },

  receive = function(self, sum)
    self.main:tell("done", sum, pierrot.now() - self.started)
  end,
}

local function run(parameters)
  local leaves, children = parameters.leaves, parameters.children
  local actors, level = 0, leaves
  while level >= 1 do actors, level = actors + level, level / children end
  local trunk = pierrot.spawn(Trunk)
  trunk:tell("grow", pierrot.self(), leaves, children)
  local sum, seconds = support.done "tree"
  support.check("tree: the sum of the leaves' numbers", sum, leaves * (leaves - 1) / 2)
  support.stop { trunk }
  return sum, actors, seconds
end

return { run = run }
