--- What the programs here share: waiting for the end of the work, checks, and percentiles.

local pierrot = require "pierrot"

local M = { TIME_LIMIT_SECONDS = 120 }

--- Waits for the message ("done", ...) and returns what comes after "done".
function M.done(what)
  local function values(done, ...)
    if done ~= "done" then
      error(("%s: not done after %d s"):format(what, M.TIME_LIMIT_SECONDS), 0)
    end
    return ...
  end
  return values(pierrot.receive(M.TIME_LIMIT_SECONDS))
end

--- Raises unless the work was done to the last message.
function M.check(what, found, wanted)
  if found ~= wanted then
    error(("%s: %s, instead of %s"):format(what, tostring(found), tostring(wanted)), 0)
  end
end

--- Stops actors and waits until they have ended, so that their end is not in the next run's time.
function M.stop(actors)
  for _, actor in ipairs(actors) do actor:stop() end
  for _, actor in ipairs(actors) do
    while actor:is_alive() do pierrot.sleep(0.001) end
  end
end

--- Further figures of a run, from latencies in seconds, for which this sorts the list: in nanoseconds.
function M.percentiles(latencies)
  table.sort(latencies)
  local function at(share) return latencies[math.max(1, math.ceil(share * #latencies))] * 1e9 end
  return { { "p50", at(0.5) }, { "p99", at(0.99) }, { "p99.9", at(0.999) }, { "max", at(1) } }
end

return M
