-- Shows the next messages of an actor as they are handled, then ends; earlier when that actor ends.

local core = require "pierrot.core"
local pierrot = require "pierrot"
local show = require "pierrot.prompt.show"

local tracer = { name = "tracer", on = {} }

local function took(seconds)
  if seconds < 1e-3 then return ("%.1f us"):format(seconds * 1e6) end
  if seconds < 1 then return ("%.1f ms"):format(seconds * 1e3) end
  return ("%.2f s"):format(seconds)
end

function tracer.start(self, options)
  self.look = { width = math.huge, colour = options.colour }
  if options.client then
    core.redirect(options.client)
  end
  pierrot.monitor(options.ref)
  core.trace(options.ref, options.n)
end

tracer.on["\0trace"] = function(self, ref, sender, seconds, outcome, left, ...)
  print(("%s  %s"):format(show.values(self.look, ...), show.paint(self.look, "note",
    ("%s <- %s, %s in %s"):format(tostring(ref), sender and tostring(sender) or "outside", outcome, took(seconds)))))
  if left == 0 then
    pierrot.stop()
  end
end

function tracer.on.down(_, ref)
  print(("%s has ended"):format(tostring(ref)))
  pierrot.stop()
end

return tracer
