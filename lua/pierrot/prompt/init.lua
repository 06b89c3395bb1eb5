-- The prompt: an actor that runs the lines it is given, one at a time, and shows what comes of them.
--
-- * Its lines come as messages from a front: the terminal of this process (src/terminal.c) or a client at the control
--   socket. It asks for the next line when one is done, so there is never more than one in its mailbox.
-- * It stands on the first worker of the dispatcher "prompts", which compile nothing: so a line can be ended anywhere
--   (src/lua/prompt.c), and one that never ends holds up nobody but other prompts.
-- * A line runs on a coroutine of its own, inside the handler: what waits in it suspends the prompt.
-- * A session is what outlives a restart of its actor: it is kept here, by ref.
-- * Messages of others are stashed until a line runs, which finds them in its mailbox in their order.

local core = require "pierrot.core"
local pierrot = require "pierrot"
local errors = require "pierrot.errors"
local show = require "pierrot.prompt.show"
local tools = require "pierrot.prompt.tools"

local MOST_KEPT = 10000   -- messages of others

local sessions = {}

-- Fronts ------------------------------------------------------------------------------------------------------

local terminal = {
  ask = function(_, text) core.terminal_ask(text) end,
  completed = function(_, insert, choices) core.terminal_completed(insert, choices) end,
  close = function(session)
    if session.failed and not session.interactive then
      core.fail_process()
    end
  end,   -- the process ends with the prompt at a terminal, else when nothing is left to happen: see core.hold
}

-- A client at the control socket: see control.lua for what is sent.
local function client_front(client)
  local json = require "cjson"
  local function send(message) core.control_send(client, json.encode(message) .. "\n") end
  return {
    client = client,
    ask = function(_, text)
      send { prompt = text }
      core.control_next(client)
    end,
    completed = function(_, insert, choices)
      send { completed = { insert, choices } }
      core.control_next(client)
    end,
    edit = function(session)   -- over there; what comes of it is the next line
      send { edit = session.last_line or "" }
      core.control_next(client)
    end,
    evaluated = function(session)
      session.answered = true
      send { id = session.request, ok = not session.failed, error = session.failed and "the code failed" or nil }
    end,
    close = function(session)
      if not session.evaluates then
        send { bye = true, failed = session.failed }
      end
    end,
  }
end

-- Sessions ----------------------------------------------------------------------------------------------------

local function key_of(ref)
  return tostring(core.id_of(ref))
end

local function present()
  local session = sessions[key_of(pierrot.self())]
  if not session then
    error("this works at a prompt only", 3)
  end
  return session
end

local function new_session(options)
  local env = { pierrot = pierrot }
  for _, name in ipairs { "help", "ps", "tree", "info", "tell", "ask", "spawn", "stats", "log", "flush", "trace",
                          "edit", "reload" } do
    env[name] = tools[name]
  end
  env._G = env
  return {
    env = setmetatable(env, { __index = _G }), interactive = options.interactive,
    front = options.client and client_front(options.client) or terminal, evaluates = options.eval, request = options.id,
    look = { colour = options.coloured, width = options.width }, buffer = nil, kept = 0, dropped = 0,
  }
end

local function complain(session, text)
  session.failed = true
  text = show.paint(session.look, "error", text) .. "\n"
  if session.interactive or session.front.client then
    io.write(text)
  else
    io.flush()
    io.stderr:write(text)
  end
end

-- Frames of the prompt's own tell nobody anything. LuaJIT does not know the line in the frame that an operator has
-- raised in, once its coroutine has ended: the message has it.
local function frames(traceback, err)
  local chunk, position = tostring(type(err) == "string" and err or ""):match "^(([^\n:]+):%d+): "
  if chunk then
    chunk, position = position, chunk
    local head = "\n\t" .. chunk .. ": in "
    local from, to = traceback:find(head, 1, true)
    if from then
      traceback = traceback:sub(1, from) .. "\t" .. position .. ": in " .. traceback:sub(to + 1)
    end
  end
  local lines = {}
  for line in traceback:gmatch "\n(\t[^\n]*)" do
    if not line:find "^\tpierrot/[%w/]+%.lua:" and not line:find "%[C%]: at 0x" then
      lines[#lines + 1] = line:gsub("in function 'chunk'$", "in main chunk")
    end
  end
  while #lines > 0 and lines[#lines]:find "^\t%[C%]" do
    lines[#lines] = nil
  end
  return lines
end

local function report(session, err, co)
  local lines = frames(core.traceback(co), err)
  if type(err) == "string" and err:find "interrupted$" then
    local at
    for _, line in ipairs(lines) do
      at = at or line:match "^\t([^%[].-:%d+):"
    end
    complain(session, at and "interrupted at " .. at or "interrupted")
    return
  end
  local text
  if type(err) == "string" then
    text = err:gsub("^pierrot/[%w_/]+%.lua:%d+: ", "")   -- where a helper of ours has called: no place of the user's
  elseif type(err) == "table" and getmetatable(err) == errors.Error then
    text = tostring(err)   -- of an ask that failed: with the other actor's traceback
  else
    text = "error: " .. show.value(err, session.look)
  end
  if #lines > 0 then
    text = text .. "\nstack traceback:\n" .. table.concat(lines, "\n")
  end
  complain(session, text)
end

local function display(session, n, ...)
  if n == 0 then
    return
  end
  session.env._ = (...)
  for i = 1, n do
    print(show.value((select(i, ...)), session.look))
  end
end

local function results(session, expression, ...)
  if expression then
    return display(session, select("#", ...) - 1, select(2, ...))
  end
  return display(session, select("#", ...), ...)
end

-- Runs it; true when it came to its end. expression: its first value is none.
local function run(session, chunk, expression, ...)
  local arguments, n = { ... }, select("#", ...)
  pierrot.unstash()
  session.kept = 0
  local co = core.create(function()
    return results(session, expression, chunk(unpack(arguments, 1, n)))
  end)
  core.line(true)
  local ok, err = coroutine.resume(co)
  core.line(false)
  io.flush()
  if not ok then
    report(session, err, co)
  end
  io.flush()
  return ok
end

-- What stands in quotes ends with its line, but for a backslash there.
local function unfinished(problem, text)
  return problem:find "near '?<eof>'?$" ~= nil and not (problem:find "unfinished string" and not text:find "\\\n*$")
end

-- An expression, or statements; nil and true: more is to come; nil and what is wrong.
local function compile(source, env)
  local text = source:gsub("^%s*=", "")
  -- After nil: no tail call, which would leave no trace.
  local expression, other_problem = loadstring("return nil, " .. text, "=prompt")
  if expression then
    return setfenv(expression, env), true
  end
  local chunk, problem = loadstring(text, "=prompt")
  if chunk then
    return setfenv(chunk, env), false
  end
  return nil, unfinished(problem, text) or unfinished(other_problem, text) or problem
end

local function ask_next(session)
  if session.editing then
    session.editing = nil
    session.front.edit(session)
    return
  end
  session.front.ask(session, session.buffer and ">> " or "> ")
end

local function run_source(session, source)
  local chunk, about = compile(source, session.env)
  if chunk then
    run(session, chunk, about)
    return
  end
  return about
end

local function take_line(session, text)
  local source = session.buffer and session.buffer .. "\n" .. text or text
  session.buffer = nil
  if source:find "^%s*$" then
    return
  end
  local problem = run_source(session, source)
  if problem == true then
    session.buffer = source
  elseif problem then
    complain(session, problem)
  end
  local after = session.after
  if after then   -- edit() has made it
    session.after = nil
    io.write(after:sub(-1) == "\n" and after or after .. "\n")
    problem = run_source(session, after)
    if problem then
      complain(session, problem == true and "the code is not finished" or problem)
    end
  end
end

local function run_file(session)
  local path = session.file
  session.file = nil
  local chunk, problem = loadfile(path)
  if not chunk then
    complain(session, problem)
    return
  end
  session.env.arg = { [0] = path, unpack(session.arguments) }
  run(session, setfenv(chunk, session.env), false, unpack(session.arguments))
end

-- Helpers that need the session ---------------------------------------------------------------------------------

-- Its own messages begin so: from its front, and of traces.
local function is_own(first)
  return type(first) == "string" and first:byte(1) == 0
end

local function flushed(session, found, ...)
  if found ~= true then
    return false
  end
  if not is_own((...)) then
    local sender = pierrot.sender()
    print(("%s  %s"):format(show.values({ width = math.huge, colour = session.look.colour }, ...),
                            show.paint(session.look, "note", sender and "from " .. tostring(sender) or "from outside")))
  end
  return true
end

-- The client that the prompt is of, or nil.
function tools.client()
  local session = sessions[key_of(pierrot.self())]
  return session and session.front.client
end

-- Whether what a helper prints may have colours.
function tools.colour()
  local session = sessions[key_of(pierrot.self())]
  return session ~= nil and session.look.colour or false
end

function tools.flush()
  local session = present()
  while flushed(session, core.take(nil, 0)) do end
  if session.dropped > 0 then
    print(("(%d more were dropped: the prompt keeps %d)"):format(session.dropped, MOST_KEPT))
    session.dropped = 0
  end
end

function tools.edit()
  local session = present()
  local editor = os.getenv "VISUAL" or os.getenv "EDITOR" or "vi"
  if not session.interactive then
    error("edit: it needs a terminal", 2)
  elseif session.front.edit then
    session.editing = true
    return
  end
  local path = os.tmpname()
  local file = assert(io.open(path, "w"))
  file:write(session.last_line or "", "\n")
  file:close()
  local status = core.terminal_run(editor .. " " .. path)
  file = io.open(path)
  local text = file and file:read "*a" or ""
  if file then
    file:close()
  end
  os.remove(path)
  if status ~= 0 then
    error(("edit: %s ended with status %d: nothing is run"):format(editor, status), 2)
  end
  if not text:find "^%s*$" then
    session.after = text
  end
end

-- The actor ---------------------------------------------------------------------------------------------------

local prompt = { name = "prompt", on = {} }

function prompt.start(self, options)
  local key = key_of(pierrot.self())
  local session = sessions[key]
  self.session = session or new_session(options)
  sessions[key] = self.session
  if options.client then
    core.redirect(options.client)
    core.control_bind(options.client)
  end
  if session then   -- after a failure of its own
    session.buffer = nil
    ask_next(session)
  else
    self.session.file, self.session.arguments = options.file, options.arguments or {}
  end
end

function prompt.stop(self)
  sessions[key_of(pierrot.self())] = nil
  if self.session.evaluates and not self.session.answered then   -- after a failure of its own
    self.session.failed = true
    self.session.front.evaluated(self.session)
  end
  self.session.front.close(self.session)
end

prompt.on["\0go"] = function(self, banner)
  if banner then
    print(banner)
  end
  if self.session.file then
    run_file(self.session)
  end
  ask_next(self.session)
end

prompt.on["\0line"] = function(self, text)
  local session = self.session
  if not session.buffer then
    session.last_line = session.typed
  end
  take_line(session, text)
  session.typed = session.buffer or text
  ask_next(session)
end

prompt.on["\0eval"] = function(self, source)
  local session = self.session
  local problem = run_source(session, source)
  if problem then
    complain(session, problem == true and "the code is not finished" or problem)
  end
  session.front.evaluated(session)
  pierrot.stop()
end

prompt.on["\0giveup"] = function(self)
  self.session.buffer = nil
  ask_next(self.session)
end

prompt.on["\0complete"] = function(self, text)
  local complete = require "pierrot.prompt.complete"
  local ok, insert, choices = pcall(complete, text, self.session.env)
  self.session.front.completed(self.session, ok and insert or "", ok and choices or "")
end

prompt.on["\0end"] = function(self, problem)
  local session = self.session
  if problem ~= "" then
    complain(session, problem)
  elseif session.buffer and not session.interactive then
    complain(session, "the input ends in the middle of a statement")
  end
  pierrot.stop()
end

function prompt.receive(self)
  local session = self.session
  if session.kept >= MOST_KEPT then
    session.dropped = session.dropped + 1
    core.drop "drop_newest"
    return
  end
  session.kept = session.kept + 1
  pierrot.stash()
end

return prompt
