-- Serves the control socket: an actor that takes clients' requests, a JSON object in a line each, and answers in kind.
--
-- A request: { "cmd": "ps" | "tree" | "stats" | "info" | "top" | "stop" | "log" | "eval" | "attach", "id": anything,
-- ... }.
-- An answer: { "id":, "ok": true, "result": } or { "id":, "ok": false, "error": }. An attached client sends
-- { "line": }, { "complete": }, { "giveup": true }, { "end": true }, or the byte 3 alone, which src/control.c takes; it
-- is sent { "out": }, { "prompt": }, { "edit": text }, { "completed": [insert, choices] }, { "bye": true }.
--
-- It stands on the second worker of the dispatcher "prompts": it answers while lines of prompts run, on the first.

local core = require "pierrot.core"
local pierrot = require "pierrot"
local json = require("cjson").new()
local show = require "pierrot.prompt.show"

json.decode_max_depth(20)
json.encode_invalid_numbers(true)

local TREE_NODES = 10000

local control = { name = "control", on = {} }

-- Encoding: lists are marked, since cjson takes an empty table for an object; and what is encoded already.
local LIST, ENCODED = {}, {}

local function list(t) return setmetatable(t, LIST) end

local function encode(value)
  if type(value) == "userdata" and value ~= json.null then
    value = tostring(value)
  end
  if type(value) ~= "table" then
    return json.encode(value)
  end
  local parts = {}
  if getmetatable(value) == LIST then
    for i, item in ipairs(value) do
      parts[i] = encode(item)
    end
    return "[" .. table.concat(parts, ",") .. "]"
  elseif getmetatable(value) == ENCODED then
    return value[1]
  end
  for key, item in pairs(value) do
    parts[#parts + 1] = json.encode(tostring(key)) .. ":" .. encode(item)
  end
  table.sort(parts)
  return "{" .. table.concat(parts, ",") .. "}"
end

local function send(client, message)
  core.control_send(client, encode(message) .. "\n")
end

-- Requests ------------------------------------------------------------------------------------------------------

-- Raises what is told to the client.
local function refuse(fmt, ...)
  error({ text = fmt:format(...) }, 0)
end

local function row(info)
  info.ref = nil
  return info
end

local function actor_of(request)
  local name = request.name
  if type(name) ~= "string" then
    refuse "name: a registered name or the id of an actor expected"
  end
  local ref = #name <= 255 and #name > 0 and pierrot.whereis(name)
  local slot, generation = name:match "^(%d+)%.(%d+)$"
  if not ref and slot and tonumber(slot) < 2 ^ 24 and tonumber(generation) < 2 ^ 20 then
    ref = core.ref_of(tonumber(slot), tonumber(generation))
  end
  if not ref or not pierrot.is_alive(ref) then
    refuse("there is no actor '%s'", name)
  end
  return ref
end

local commands, changing = {}, { stop = true, log = true, eval = true, attach = true }

function commands.ps(request)
  local n = request.n or 20
  if type(n) ~= "number" or n < 1 or n > 10000 or n % 1 ~= 0 then
    refuse "n: a whole number from 1 to 10000 expected"
  elseif request.filter ~= nil and type(request.filter) ~= "string" then
    refuse "filter: a string expected"
  end
  local sort = request.sort or "depth"
  local ok, rows, total = pcall(core.census, sort, n, request.filter)
  if not ok then
    refuse "sort: depth, processed, restarts, age or children expected"
  end
  for _, info in ipairs(rows) do
    row(info)
  end
  return { actors = list(rows), total = total }
end

function commands.tree()
  local left = TREE_NODES
  local function below(parent)
    local children, nodes = core.family(parent, math.max(left, 0)), list {}
    for _, child in ipairs(children) do
      local info = left > 0 and pierrot.info(child)
      if info then
        left = left - 1
        info.children = below(child)
        nodes[#nodes + 1] = row(info)
      end
    end
    return nodes
  end
  local nodes = below(nil)
  return { children = nodes, complete = left > 0 }
end

function commands.stats()
  local stats = pierrot.stats()
  list(stats.by_worker)
  for _, dispatcher in pairs(stats.dispatchers or {}) do
    list(dispatcher.by_worker)
  end
  return stats
end

function commands.info(request)
  local info = pierrot.info(actor_of(request))
  if not info then
    refuse("there is no actor '%s'", request.name)
  end
  list(info.children)
  return row(info)
end

function commands.stop(request)
  local ref = actor_of(request)
  if ref == pierrot.self() then
    refuse("'%s' answers here: it ends with the process", request.name)
  end
  local ok, reason = pierrot.stop(ref, "stopped by pierrot ctl")
  if not ok then
    refuse("cannot stop '%s': %s", request.name, reason)
  end
  return true
end

function commands.log(request)
  local ok, before = pcall(pierrot.log.level, request.level)
  if not ok or type(request.level) ~= "string" then
    refuse "level: debug, info, warn, error or none expected"
  end
  return { before = before }
end

-- top -----------------------------------------------------------------------------------------------------------
--
-- A client's view lives as long as its connection. While there is one, this actor samples the workers and hears of
-- failures. Those that stand in a picture are asked where they are, and the next one has the answer.
-- A picture goes as plain lists, which cost a tenth of encoding objects: see lua/pierrot/top.lua.
--
-- How long the oldest message of an unbounded mailbox has waited costs the mailbox nothing: a view remembers, of the
-- actors that it has shown, how many messages had come when. A mailbox is a line: the oldest is the one after all that
-- were handled, so it had come by the first picture that had counted as many. It is at least as old as that; one that
-- was there before the first picture may be older.

local SAMPLE_SECONDS, MOST_FAILURES, RECENT, MARKS, MOST_PLACES = 0.02, 200, 10, 60, 2000
local keys = { depth = true, rate = true, time = true, restarts = true, age = true, actors = true }

local function view_of(self, client)
  local view = self.views[client]
  if not view then
    if not next(self.views) then
      self.sampling = pierrot.send_every(SAMPLE_SECONDS, pierrot.self(), "\0sample")
      pierrot.subscribe "failure"
    end
    view = { counted = core.top_view(), marks = {} }
    self.views[client] = view
  end
  return view
end

local function key_of(ref) return tostring(core.id_of(ref)) end

-- Where they are: answered by "\0seen", to be shown in the next picture.
local function look_at(self, ref, id, ties)
  if self.placed > MOST_PLACES then
    self.places, self.placed = {}, 0
  end
  if not core.look(ref, ties) then
    self.places[id] = nil
  end
end

-- Whom an actor is tied to: of each kind how many, and the first of them.
control.on["\0seen"] = function(self, ref, place, links, watches, watched, ...)
  local id = key_of(ref)
  if self.places[id] == nil then
    self.placed = self.placed + 1
  end
  self.places[id] = place or ""
  if links then
    local at, lists = 1, {}
    for i, count in ipairs { links, watches, watched } do
      local names = {}
      for k = 1, math.min(count, 20) do
        names[k] = tostring((select(at, ...)))
        at = at + 1
      end
      lists[i] = list { count, list(names) }
    end
    self.ties[id] = lists
  end
end

-- Seconds that the oldest message has waited at least, and whether it may have been there before the watch began.
local function oldest_of(marks, id, info, now)
  local seen = marks[id]
  if info.depth <= 0 then
    marks[id] = { first = 1, last = 0 }
    return nil
  elseif not seen then
    seen = { first = 1, last = 0, since = now }
    marks[id] = seen
  end
  while seen.first <= seen.last and seen[seen.first].come <= info.processed do   -- all of these are handled
    seen[seen.first] = nil
    seen.first = seen.first + 1
  end
  if seen.last - seen.first >= MARKS then   -- every second one will do
    local kept = { first = 1, last = 0, since = seen.since }
    for i = seen.first, seen.last, 2 do
      kept.last = kept.last + 1
      kept[kept.last] = seen[i]
    end
    marks[id], seen = kept, kept
  end
  seen.last = seen.last + 1
  seen[seen.last] = { come = info.processed + info.depth, at = now }
  local first = seen[seen.first]
  return now - first.at, first.at == seen.since
end

local function close_view(self, client)
  self.views[client] = nil
  if self.sampling and not next(self.views) then
    self.sampling:cancel()
    pierrot.unsubscribe "failure"
    self.sampling, self.failures, self.failed, self.recent = nil, {}, {}, {}
    self.places, self.placed, self.ties = {}, 0, {}
  end
end

control.on["\0sample"] = function(self)
  for _, view in pairs(self.views) do
    core.top_sample(view.counted)
  end
end

function control.on.event(self, topic, details)
  if topic == "failure" then
    local id = key_of(details.actor)
    if not self.failures[id] then
      self.failed[#self.failed + 1] = id
    end
    self.failures[id] = { message = tostring(details.error), traceback = details.traceback, at = pierrot.now() }
    if #self.failed > MOST_FAILURES then
      self.failures[table.remove(self.failed, 1)] = nil
    end
  end
end

-- One of the next messages of an actor that somebody looks at.
control.on["\0trace"] = function(self, ref, sender, seconds, outcome, _, ...)
  local id = key_of(ref)
  local recent = self.recent[id] or {}
  self.recent[id] = recent
  local from = sender and tostring(sender) or "outside"
  recent[#recent + 1] = { show.values({ width = math.huge }, ...), from, outcome, seconds }
  if #recent > RECENT then
    table.remove(recent, 1)
  end
end

-- known: the marks of this view, of which those of this actor are kept
local function details_of(self, known, id, kept)
  local ref = actor_of { name = id }
  local info = pierrot.info(ref)
  if not info then
    refuse("there is no actor '%s'", id)
  end
  local key = key_of(ref)
  core.trace(ref, RECENT)   -- those until the next picture
  look_at(self, ref, key, true)
  local fields = {}
  for name, value in pairs(info) do
    if name == "parent" then
      value = tostring(value)
    elseif name == "children" then
      value = #value
    end
    fields[name] = name ~= "ref" and value or nil
  end
  fields.place = self.places[key]
  if not fields.oldest then
    if not kept[key] then   -- else the row has just been counted
      fields.oldest, fields.longer = oldest_of(known, key, info, pierrot.now())
      kept[key] = known[key]
    elseif kept[key].last > 0 then
      local first = kept[key][kept[key].first]
      fields.oldest, fields.longer = pierrot.now() - first.at, first.at == kept[key].since
    end
  end
  local failure = self.failures[key]
  return { info = fields, ties = self.ties[key], recent = self.recent[key], failure = failure and
           { failure.message, failure.traceback or "", pierrot.now() - failure.at } }
end

function commands.top(request, self, client)
  local n, sort = request.n or 20, request.sort or "depth"
  if type(n) ~= "number" or n < 0 or n > 1000 or n % 1 ~= 0 then
    refuse "n: a whole number from 0 to 1000 expected"
  elseif not keys[sort] then
    refuse "sort: depth, rate, time, restarts, age or actors expected"
  elseif request.filter ~= nil and (type(request.filter) ~= "string" or #request.filter > 60) then
    refuse "filter: a string of at most 60 bytes expected"
  end
  local view = view_of(self, client)
  local grouped = request.by == "behaviour"
  local found, total, head = core.top_look(view.counted, grouped, sort, n, request.filter)
  local rows, now, marks = {}, pierrot.now(), {}
  for i, a in ipairs(found) do
    local key, oldest, longer = key_of(a.ref), a.oldest, false
    if not grouped then
      if not oldest then
        oldest, longer = oldest_of(view.marks, key, a, now)
      end
      marks[key] = view.marks[key]
      look_at(self, a.ref, key, false)
    end
    rows[i] = { a.id, a.name or "", a.behaviour, a.state, a.depth, oldest or -1, a.rate, a.time, a.restarts, a.age,
                a.actors or 1, a.deepest or a.depth, a.worker or 0, a.version or 1,
                self.places[key] or "", longer }
  end
  local detail = request.detail and details_of(self, view.marks, tostring(request.detail), marks) or nil
  view.marks = marks   -- those that are not shown any more are forgotten
  local stats = pierrot.stats()
  local lua_kb, collections = 0, 0
  for _, dispatcher in pairs(stats.dispatchers) do
    for _, worker in ipairs(dispatcher.by_worker) do
      lua_kb, collections = lua_kb + worker.lua_kb, collections + worker.collections
    end
  end
  if head.seconds > 0 and view.handled then   -- a first picture may have been refused
    view.rate = (stats.handled - view.handled) / head.seconds
    view.cycles = (collections - view.collections) / head.seconds
  end
  if head.seconds > 0 or not view.handled then
    view.handled, view.collections = stats.handled, collections
  end
  return setmetatable({ json.encode {
    pid = core.pid(), uptime = stats.uptime, actors = stats.actors, queued = head.queued, busy = head.busy,
    rate = view.rate or 0, memory = head.resident_kb, lua = lua_kb, collections = view.cycles or 0,
    dead_letters = stats.dead_letters, failures = stats.failures, restarts = stats.restarts, total = total, rows = rows,
    detail = detail,
  } }, ENCODED)
end

-- Sessions --------------------------------------------------------------------------------------------------------

local function open_session(self, client, request)
  local session = core.spawn_own("pierrot.prompt", request.cmd == "eval" and "temporary" or "transient", 1, {
    client = client, id = request.id, interactive = request.cmd == "attach" and request.interactive == true,
    coloured = request.coloured == true, eval = request.cmd == "eval",
    width = type(request.columns) == "number" and math.max(20, math.min(request.columns, 1000)) or 80,
  })
  if not session then
    refuse "the runtime is stopping"
  end
  self.sessions[client] = session
  self.clients[session] = client
  pierrot.monitor(session)
  return session
end

function commands.attach(request, self, client)
  local session = open_session(self, client, request)
  self.attached[client] = true
  session:tell("\0go", request.interactive == true and ("attached to process %d"):format(core.pid()) or nil)
end

function commands.eval(request, self, client)
  if type(request.code) ~= "string" then
    refuse "code: a string expected"
  end
  local session = open_session(self, client, request)
  self.evaluated[session] = { id = request.id }
  session:tell("\0eval", request.code)
end

local function take(self, client, request)
  local session = self.attached[client] and self.sessions[client]
  if session then
    local line = request.line or request.complete
    if line ~= nil and type(line) ~= "string" then
      refuse "a string expected"
    end
    session:tell(request.line and "\0line" or request.complete and "\0complete" or request.giveup and "\0giveup"
      or "\0end", line or "")
    return false
  end
  local command = commands[request.cmd]
  if not command then
    refuse("unknown cmd (there are ps, tree, stats, info, top, stop, log, eval, attach)")
  elseif self.readonly and changing[request.cmd] then
    refuse("%s: this control socket is read-only", request.cmd)
  end
  local result = command(request, self, client)
  if result ~= nil then
    send(client, { id = request.id, ok = true, result = result })
    return true
  end
  return false   -- its session will
end

local begun = false   -- in this state, which is the actor's for all its lives

function control.start(self, options)
  self.readonly = options == true or type(options) == "table" and options.readonly   -- of a host in C: true or false
  if begun then   -- after a failure of its own: nothing is known of those who are here
    core.control_anew()
  end
  begun = true
  self.sessions, self.clients, self.attached, self.evaluated = {}, {}, {}, {}
  self.views, self.failures, self.failed, self.recent = {}, {}, {}, {}
  self.places, self.placed, self.ties = {}, 0, {}
end

control.on["\0request"] = function(self, client, line)
  local ok, request = pcall(json.decode, line)
  local done = true
  if not ok or type(request) ~= "table" then
    send(client, { ok = false, error = "not a JSON object" })
  else
    local problem
    ok, problem = pcall(take, self, client, request)
    if ok then
      done = problem
    else
      local text = type(problem) == "table" and problem.text or "error: " .. tostring(problem)
      send(client, { id = type(request.id) ~= "table" and request.id or nil, ok = false, error = text })
    end
  end
  if done then
    core.control_next(client)
  end
end

control.on["\0gone"] = function(self, client)
  close_view(self, client)
  local session = self.sessions[client]
  self.sessions[client], self.attached[client] = nil, nil
  if session then
    session:stop()
    control.on["\0again"](self, session)
  end
end

-- A line that the session was only about to begin has missed the first interrupt: until it has ended.
control.on["\0again"] = function(_, session)
  if pierrot.is_alive(session) then
    core.interrupt(session)
    pierrot.send_after(0.05, pierrot.self(), "\0again", session)
  end
end

function control.on.down(self, session, reason)
  local client, request = self.clients[session], self.evaluated[session]
  self.clients[session], self.evaluated[session] = nil, nil
  if client and self.sessions[client] == session then
    self.sessions[client] = nil
    if request and reason == "killed" then   -- else it has answered
      send(client, { id = request.id, ok = false, error = "the code has ended its session" })
    end
    if self.attached[client] then   -- it has ended by itself: by pierrot.stop(), or killed
      self.attached[client] = nil
      core.control_hang_up(client)
    end
    core.control_next(client)
  end
end

function control.receive() end   -- what others send to it is nothing to it

return control
