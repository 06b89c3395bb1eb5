-- What handles the next messages: become and unbecome, stash and unstash. Thin, as init.lua is: core does it.

return function(pierrot, core, misuse)
  local transport = require "pierrot.transport"
  local type, rawget = type, rawget

  if not core.inside then
    for _, name in ipairs { "become", "unbecome", "stash", "unstash" } do
      pierrot[name] = function()
        misuse(2, "%s: inside an actor only", name)
      end
    end
    return
  end

  -- A table of handlers, or a behaviour that has such a table or a `receive`.
  local function as_behaviour(value)
    local is_map = type(value) == "table" and type(rawget(value, "on")) ~= "table" and
      type(rawget(value, "receive")) ~= "function"
    if is_map then
      return { on = value }
    end
    return value
  end

  function pierrot.become(behaviour, replace)
    local value = behaviour
    if type(value) == "string" then
      value = require(value)
    end
    if type(value) ~= "table" and type(value) ~= "function" then
      misuse(2, "become: handlers by name, a behaviour or a module's name expected, got %s", type(value))
    end
    if not core.become(value, replace) then
      local made = as_behaviour(value)
      local ok, problem = transport.check(made)
      if not ok then
        misuse(2, "become: %s", problem)
      end
      core.become(value, replace, made)
    end
    return true
  end

  for _, name in ipairs { "unbecome", "stash", "unstash" } do
    pierrot[name] = core[name]
  end
end
