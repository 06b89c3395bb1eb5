-- The shortest way over the map: a search in widening circles.
--
-- The tables are this worker's, and used by one call at a time: a plan does not wait. They are never cleared; a tile
-- has been seen by this search when it bears its number.

local world = require "world"

local side, map = world.side, world.map()
local byte, WALL = string.byte, string.byte "#"
local seen, came, queue, search = {}, {}, {}, 0

for tile = 0, side * side do
  seen[tile], came[tile], queue[tile] = 0, 0, 0
end

local plan = {}

function plan.tile(x, y) return math.floor(y) * side + math.floor(x) end
function plan.middle(tile) return tile % side + 0.5, math.floor(tile / side) + 0.5 end

-- The tiles from the one to the other, the last one first; nil when there is no way.
function plan.way(from, to)
  search = search + 1
  local first, last = 1, 1
  queue[1], seen[from] = from, search
  while first <= last and queue[first] ~= to do
    local tile = queue[first]
    first = first + 1
    for direction = 1, 4 do   -- the map has walls all round: no step leaves it
      local next_tile = tile + (direction == 1 and 1 or direction == 2 and -1 or direction == 3 and side or -side)
      if seen[next_tile] ~= search and byte(map, next_tile + 1) ~= WALL then
        last = last + 1
        queue[last], seen[next_tile], came[next_tile] = next_tile, search, tile
      end
    end
  end
  if first > last then return nil end
  local way, n = {}, 0
  while to ~= from do
    n = n + 1
    way[n], to = to, came[to]
  end
  return way
end

return plan
