-- The other end of a control socket: `pierrot ctl` and `pierrot repl --attach`. It runs in the command's own state,
-- without a runtime.

local core = require "pierrot.core"
local ok, json = pcall(require, "cjson")

local client = {}

local function connect(path, complain)
  if not ok then
    complain("the Lua module cjson is missing (Debian: lua-cjson, LuaRocks: lua-cjson)")
    return nil
  end
  local opened, reason = core.client_open(path)
  if not opened then
    complain("cannot connect to %s: %s", path, reason)
  end
  return opened
end

local function ask(request)
  return core.client_send(json.encode(request) .. "\n")
end

-- ctl -----------------------------------------------------------------------------------------------------------

local columns, seconds

local shown = {}

function shown.ps(result)
  local rows = { { "ID", "NAME", "BEHAVIOUR", "WORKER", "STATE", "DEPTH", "PROCESSED", "RESTARTS", "AGE" } }
  for _, a in ipairs(result.actors) do
    rows[#rows + 1] = { a.id, a.name or "", a.behaviour, tostring(a.worker or "-"), a.state, ("%d"):format(a.depth),
                        ("%.0f"):format(a.processed), ("%d"):format(a.restarts), seconds(a.age) }
  end
  local right = { [4] = true, [6] = true, [7] = true, [8] = true, [9] = true }
  print(table.concat(columns(rows, right, { [2] = 24, [3] = 32 }), "\n"))
  if result.total > #result.actors then
    print(("... %.0f more"):format(result.total - #result.actors))
  end
end

function shown.tree(result)
  local function below(nodes, indent)
    for i, node in ipairs(nodes) do
      local name, queued = node.name and ("%q "):format(node.name) or "", ""
      if node.depth > 0 then
        queued = (", %d queued"):format(node.depth)
      end
      print(("%s%s%s%s  %s, %s%s"):format(indent, i == #nodes and "`- " or "|- ", name, node.behaviour, node.id,
        node.state, queued))
      below(node.children, indent .. (i == #nodes and "   " or "|  "))
    end
  end
  print "the root"
  below(result.children, "")
end

local function print_fields(t, indent)
  local keys = {}
  for key in pairs(t) do
    keys[#keys + 1] = key
  end
  table.sort(keys, function(a, b)
    if type(a) == type(b) then return a < b end
    return type(a) == "number"
  end)
  for _, key in ipairs(keys) do
    if type(t[key]) == "table" then
      print(("%s%s:"):format(indent, key))
      print_fields(t[key], indent .. "  ")
    else
      local value = t[key]
      print(("%s%s: %s"):format(indent, key, type(value) == "number" and ("%.14g"):format(value) or tostring(value)))
    end
  end
end

function shown.stats(result) print_fields(result, "") end
function shown.info(result) print_fields(result, "") end
function shown.stop() end
function shown.log(result) print("before: " .. result.before) end

local takes = { ps = "filter", tree = false, stats = false, info = "name", stop = "name", log = "level", eval = "code" }
local needs = { info = true, stop = true, log = true, eval = true }

function client.ctl(options, complain)
  local command, argument = options.request[1], options.request[2]
  if takes[command] == nil or (needs[command] and not argument) or (argument and not takes[command]) then
    complain("ctl: ps [PART], tree, stats, info NAME, stop NAME, log LEVEL or eval CODE expected (pierrot --help)")
    return 2
  end
  if not connect(options.socket, complain) then
    return 1
  end
  local request = { cmd = command }
  if argument then
    request[takes[command]] = argument
  end
  columns, seconds = require("pierrot.columns").columns, require("pierrot.columns").seconds
  ask(request)
  local out = {}
  while true do
    local kind, line = core.client_wait()
    if kind == "closed" then
      complain("the process has ended the connection")
      return 1
    end
    local decoded, message = pcall(json.decode, line)
    if not decoded or type(message) ~= "table" then
      complain("what came is no answer of pierrot: %s", tostring(line):sub(1, 60))
      return 1
    elseif message.out and options.json then
      out[#out + 1] = message.out
    elseif message.out then
      io.write(message.out)
    elseif options.json then
      if command == "eval" then
        message.output = table.concat(out)
        line = json.encode(message)
      end
      print(line)
      return message.ok and 0 or 1
    elseif not message.ok then
      if command ~= "eval" then
        complain("%s", tostring(message.error))
      end
      return 1
    else
      if shown[command] then
        shown[command](message.result)
      end
      return 0
    end
  end
end

function client.top(path, complain)
  if not connect(path, complain) then
    return 1
  end
  return require("pierrot.top").run(complain)
end

-- attach --------------------------------------------------------------------------------------------------------

-- The text as the user's editor leaves it; nil and what went wrong.
local function edited(text)
  local editor, path = os.getenv "VISUAL" or os.getenv "EDITOR" or "vi", os.tmpname()
  local file = io.open(path, "w")
  if file then
    file:write(text, "\n")
    file:close()
  end
  local status = os.execute(("%s %s"):format(editor, path))
  file = io.open(path)
  local result = file and file:read "*a"
  if file then
    file:close()
  end
  os.remove(path)
  if status ~= 0 or not result then
    return nil, ("edit: %s did not end well: nothing is run\n"):format(editor)
  end
  return result
end

function client.attach(path, history, complain)
  if not connect(path, complain) then
    return 1
  end
  local terminal = core.terminal_open(history, true)
  if not terminal then
    complain "cannot read the terminal: not enough memory"
    return 1
  end
  ask { cmd = "attach", interactive = terminal.interactive, coloured = terminal.coloured }
  local status
  local events = {
    line = function(text) ask { line = text } end,
    giveup = function() ask { giveup = true } end,
    complete = function(text) ask { complete = text } end,
    ["end"] = function() ask { ["end"] = true } end,
    ["break"] = function() status = 1 end,   -- the third interrupt: the line stays behind in the other process
  }
  local function message(line)
    local decoded, m = pcall(json.decode, line)
    if not decoded or type(m) ~= "table" then
      complain("what came is no message of pierrot")
      status = 1
    elseif m.out then
      core.terminal_write(m.out)
    elseif m.prompt then
      core.terminal_ask(m.prompt)
    elseif m.edit then
      local result, problem = edited(m.edit)
      core.terminal_write(problem or result:sub(-1) == "\n" and result or result .. "\n")
      ask { line = result or "" }
    elseif m.completed then
      core.terminal_completed(m.completed[1], m.completed[2])
    elseif m.bye then
      status = m.failed and not terminal.interactive and 1 or 0
    elseif m.ok == false then
      complain("%s", tostring(m.error))
      status = 1
    end
  end
  while not status do
    local kind, text = core.client_wait()
    if kind == "message" then
      message(text)
    elseif kind == "closed" then
      core.terminal_write "the process has ended the connection\n"
      status = 1
    else
      events[kind](text)
    end
  end
  core.terminal_close()
  return status
end

return client
