-- The helpers of a prompt, by which it looks at the running system. They print, and return nothing unless it says so.
-- All are functions of this module, so that code typed at a prompt may use them in other actors too.

local core = require "pierrot.core"
local pierrot = require "pierrot"
local columns = require "pierrot.columns"

local tools = {}

local function misuse(fmt, ...)
  error(fmt:format(...), 3)
end

local seconds = columns.seconds
tools.columns = columns.columns

local function clean(text)
  return (text:gsub("%c", "?"))
end

local sorts = { depth = true, processed = true, restarts = true, age = true, children = true }

function tools.ps(options)
  if type(options) == "string" then
    options = { filter = options }
  elseif options ~= nil and type(options) ~= "table" then
    misuse("ps: a part of a name or behaviour, or { sort =, filter =, n = } expected, got %s", type(options))
  end
  options = options or {}
  local sort, n = options.sort or "depth", options.n or 20
  if not sorts[sort] then
    misuse('ps: sort: "depth", "processed", "restarts", "age" or "children" expected, got %s', tostring(sort))
  elseif type(n) ~= "number" or n < 1 or n % 1 ~= 0 or n > 10000 then
    misuse("ps: n: a whole number from 1 to 10000 expected, got %s", tostring(n))
  elseif options.filter ~= nil and type(options.filter) ~= "string" then
    misuse("ps: filter: a string expected, got %s", type(options.filter))
  end
  local list, total = core.census(sort, n, options.filter)
  local rows = { { "ID", "NAME", "BEHAVIOUR", "WORKER", "STATE", "DEPTH", "PROCESSED", "RESTARTS", "AGE" } }
  for i, a in ipairs(list) do
    rows[i + 1] = { a.id, clean(a.name or ""), clean(a.behaviour), tostring(a.worker or "-"), a.state,
                    ("%d"):format(a.depth), ("%.0f"):format(a.processed), ("%d"):format(a.restarts), seconds(a.age) }
  end
  local right = { [4] = true, [6] = true, [7] = true, [8] = true, [9] = true }
  print(table.concat(tools.columns(rows, right, { [2] = 24, [3] = 32 }), "\n"))
  if total > #list then
    print(("... %.0f more; ps{ n = %d } shows more of them"):format(total - #list, math.min(10 * n, 10000)))
  end
end

local TREE_LINES, TREE_CHILDREN = 200, 20

function tools.tree(ref)
  local left = TREE_LINES
  local lines = {}
  local function add(text)
    left = left - 1
    lines[#lines + 1] = text
  end
  local function line(info)
    local text = clean(info.behaviour)
    if info.name then
      text = ('"%s" %s'):format(clean(info.name), text)
    end
    text = ("%s  %s, %s"):format(text, info.id, info.state)
    if info.depth > 0 then text = text .. (", %d queued"):format(info.depth) end
    if info.restarts > 0 then text = text .. (", %d restarts"):format(info.restarts) end
    return text
  end
  local function below(parent, indent)
    local children, count = core.family(parent, TREE_CHILDREN)
    for i, child in ipairs(children) do
      local info = pierrot.info(child)
      if left <= 0 then
        return
      elseif info then
        local last = i == #children and count <= #children
        add(indent .. (last and "`- " or "|- ") .. line(info))
        below(child, indent .. (last and "   " or "|  "))
      end
    end
    if count > #children and left > 0 then
      add(("%s`- ... and %d more"):format(indent, count - #children))
    end
  end
  if ref ~= nil then
    local info = pierrot.info(ref)
    if not info then
      print "dead"
      return
    end
    add(line(info))
    below(info.ref, "")
  else
    add "the root"
    below(nil, "")
  end
  if left <= 0 then
    lines[#lines + 1] = ("... (%d lines shown; tree(ref) begins further down)"):format(TREE_LINES)
  end
  print(table.concat(lines, "\n"))
end

-- The last value is what is looked at: a big system has big tables of workers.
function tools.info(ref) return pierrot.info(ref) end

function tools.log(level)
  local before = pierrot.log.level(level)
  if level == nil then
    return before
  end
end

function tools.trace(ref, n)
  n = n == nil and 10 or n
  if type(n) ~= "number" or n < 1 or n % 1 ~= 0 or n > 1e6 then
    misuse("trace: a whole number of messages from 1 to 1000000 expected, got %s", tostring(n))
  end
  local info = pierrot.info(ref)
  if not info then
    misuse("trace: there is no such actor: %s", tostring(ref))
  end
  local options = { ref = info.ref, n = n, colour = tools.colour(), client = tools.client() }
  core.spawn_own("pierrot.prompt.tracer", "temporary", 1, options)
end

-- What goes wrong is an error here: at a prompt nobody looks at a second value.
function tools.reload(what, new)
  local ok, reason = pierrot.reload(what, new)
  if not ok then
    error(reason, 0)
  elseif reason > 0 then
    print(("%d workers take it when they have ended what holds them"):format(reason))
  end
end

tools.tell, tools.ask, tools.spawn, tools.stats = pierrot.tell, pierrot.ask, pierrot.spawn, pierrot.stats

local help = {
  { "ps()  ps\"part\"  ps{ sort = \"depth\", filter = \"part\", n = 20 }",
    "actors, as a table; sorted by depth, processed, restarts, age or children" },
  { "tree()  tree(ref)", "who has started whom" },
  { "info(ref)", "what is known of one actor" },
  { "tell(ref, ...)  ask(ref, ...)  spawn(behaviour, ...)", "as in pierrot; a name will do for a ref" },
  { "flush()", "messages that were sent to the prompt" },
  { "trace(ref, n)", "shows the next n messages of an actor (10): sender, values, time taken" },
  { "reload(module)  reload(old, new)", "replaces a module's code, or a behaviour (or its name), in running actors" },
  { "stats()", "counters of the runtime" },
  { "log(level)", "lowest level that is logged: debug, info, warn, error, none; log() says it" },
  { "edit()", "the last input in $EDITOR, then runs what comes of it" },
  { "_", "the last value; `pierrot` is the module; globals last as long as the session" },
  { "Ctrl-C", "ends a running line; Ctrl-D leaves" },
}

function tools.help()
  for _, entry in ipairs(help) do
    print(entry[1] .. "\n    " .. entry[2])
  end
end

return tools
