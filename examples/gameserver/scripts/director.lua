-- Keeps the tuning. Whoever begins asks for its part; when the file has changed, the server sends its text, and
-- everybody is told. A text that is not good changes nothing.

local pierrot = require "pierrot"

-- Every part, every field, and the most it may be.
local MOST = {
  wanderer = { speed = 8, sight = 30, think = 10 },
  guard = { speed = 8, sight = 30, think = 10, damage = 1000 },
  player = { speed = 8, health = 1e6, idle = 3600 },
}

-- The tuning that a text returns; or nil, and what is wrong with it. It sees no function, so it can do no harm but run
-- for ever.
local function read(text)
  local chunk, problem = load(text, "=tuning", "t", {})
  if not chunk then return nil, problem end
  local ok, given = pcall(chunk)
  if not ok then return nil, tostring(given) end
  if type(given) ~= "table" then return nil, "a table expected, got " .. type(given) end
  local tuning = {}
  for part, fields in pairs(MOST) do
    if type(given[part]) ~= "table" then return nil, part .. ": a table expected" end
    tuning[part] = {}
    for field, most in pairs(fields) do
      local value = given[part][field]
      if type(value) ~= "number" or not (value > 0 and value <= most) then
        return nil, ("%s.%s: a number above 0, and at most %g, expected; got %s"):format(part, field, most,
          tostring(value))
      end
      tuning[part][field] = value
    end
  end
  return tuning
end

return {
  name = "director",
  start = function(self, text)
    self.tuning = assert(read(text))
  end,
  on = {
    tuning = function(self, part) return self.tuning[part] end,
    tune = function(self, text)
      local tuning, problem = read(text)
      if not tuning then return nil, problem end
      self.tuning = tuning
      for part, fields in pairs(tuning) do
        pierrot.publish(part, "tune", fields)
      end
      return true
    end,
  },
}
