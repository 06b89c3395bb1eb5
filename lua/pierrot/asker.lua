-- The actor that asks for another one: see asks.lua. It ends with its one message.

local asks = require "pierrot.asks"

return {
  name = "asker",
  on = {
    one = function(_, to, number, seconds, ...)
      asks.one(to, number, seconds, ...)
      asks.last()
    end,
    all = function(_, seconds, list)
      local results = asks.all(seconds, list)
      asks.last()
      return results
    end,
    first = function(_, answer, seconds, refs, ...)
      asks.first(answer, seconds, refs, ...)
      asks.last()
    end,
    pipe = function(_, to, names, seconds, ...)
      asks.piped(to, names, seconds, ...)
      asks.last()
    end,
  },
}
