--- A compute kernel in actors: `actors` solar systems (the n-body problem with five bodies), each in an actor that is
-- told `messages` times to go on by `steps` steps of time.
-- An operation is a step of one system. Measures how fast handlers compute, and whether all cores do.
-- Timed from the first message to the last system's energy. Each has another step of time; the result is the sum of
-- their energies in units of 1e-9: additions and multiplications come in the same order on every side, so the
-- figures are equal to the last bit.

local pierrot = require "pierrot"
local support = require "support"

local DAYS, SOLAR_MASS = 365.24, 4 * 3.141592653589793 * 3.141592653589793

local function body(x, y, z, vx, vy, vz, mass)
  return { x = x, y = y, z = z, vx = vx * DAYS, vy = vy * DAYS, vz = vz * DAYS, mass = mass * SOLAR_MASS }
end

local function solar_system()
  return {
    body(0, 0, 0, 0, 0, 0, 1),
    body(4.84143144246472090, -1.16032004402742839, -0.103622044471123109,
      0.00166007664274403694, 0.00769901118419740425, -0.0000690460016972063023, 0.000954791938424326609),
    body(8.34336671824457987, 4.12479856412430479, -0.403523417114321381,
      -0.00276742510726411043, 0.00499852801234917238, 0.0000230417297573763929, 0.000285885980666130812),
    body(12.8943695621391310, -15.1111514016986312, -0.223307578892655734,
      0.00296460137564761618, 0.00237847173959480950, -0.0000296589568540237556, 0.0000436624404335156298),
    body(15.3796971148509165, -25.9193146099879641, 0.179258772950371181,
      0.00268067772490389322, 0.00162824170038242295, -0.0000951592254519715870, 0.0000515138902046611451),
  }
end

local function advance(bodies, dt)
  local count = #bodies
  for i = 1, count do
    local a = bodies[i]
    local x, y, z, vx, vy, vz, mass = a.x, a.y, a.z, a.vx, a.vy, a.vz, a.mass
    for j = i + 1, count do
      local b = bodies[j]
      local dx, dy, dz = x - b.x, y - b.y, z - b.z
      local squared = dx * dx + dy * dy + dz * dz
      local magnitude = dt / (squared * math.sqrt(squared))
      local ours, theirs = b.mass * magnitude, mass * magnitude
      vx, vy, vz = vx - dx * ours, vy - dy * ours, vz - dz * ours
      b.vx, b.vy, b.vz = b.vx + dx * theirs, b.vy + dy * theirs, b.vz + dz * theirs
    end
    a.vx, a.vy, a.vz = vx, vy, vz
    a.x, a.y, a.z = x + dt * vx, y + dt * vy, z + dt * vz
  end
end

local function energy(bodies)
  local sum = 0
  for i, a in ipairs(bodies) do
    sum = sum + 0.5 * a.mass * (a.vx * a.vx + a.vy * a.vy + a.vz * a.vz)
    for j = i + 1, #bodies do
      local b = bodies[j]
      local dx, dy, dz = a.x - b.x, a.y - b.y, a.z - b.z
      sum = sum - a.mass * b.mass / math.sqrt(dx * dx + dy * dy + dz * dz)
    end
  end
  return sum
end

local System = {
  name = "solar system",

  start = function(self, dt)
    self.dt, self.bodies = dt, solar_system()
  end,

  on = {
    advance = function(self, steps)
      for _ = 1, steps do advance(self.bodies, self.dt) end
    end,

    report = function(self, main)
      main:tell("done", energy(self.bodies), pierrot.now())
    end,
  },
}

local function run(parameters)
  local count, messages, steps = parameters.actors, parameters.messages, parameters.steps
  local systems = {}
  for i = 1, count do systems[i] = pierrot.spawn(System, 0.001 * i) end

  local started, last = pierrot.now(), 0
  for _ = 1, messages do
    for _, system in ipairs(systems) do system:tell("advance", steps) end
  end
  for _, system in ipairs(systems) do system:tell("report", pierrot.self()) end
  local result = 0
  for _ = 1, count do
    local one, ended = support.done "nbody"
    result, last = result + math.floor(one * 1e9 + 0.5), math.max(last, ended)
  end
  support.stop(systems)
  return result, count * messages * steps, last - started
end

return { run = run }
