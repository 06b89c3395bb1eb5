-- In a worker of a test's runtime: what happens to a message before its handler is called, as the rules of t:fault
-- say. C decides (src/explore.c), since the rules count over all workers.

return function(core)
  local strikes, error = core.strikes, error

  local function suffer(action, seconds, text)
    if action == "slow" then
      core.sleep(seconds)
    elseif action == "fail" then
      error(text, 0)
    elseif action == "mute" then
      core.defer()   -- nobody answers it from then on
    elseif action == "kill" then
      core.kill(core.self())
      core.sleep(math.huge)
    end
  end

  return function()
    suffer(strikes())
  end
end
