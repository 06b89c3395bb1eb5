-- `pierrot top`: what the actors of another process are doing, a picture a second. It runs in the command's own state,
-- as client.lua does; what is counted is counted over there (src/lua/top.c), and only the rows of a picture come here.
--
-- Three layers: `picture` makes the lines of a screen of what has come, and knows no terminal; `keys` say what a key
-- changes; `run` asks, waits for answers, keys, and a new size, and draws.

local core = require "pierrot.core"
local json = require "cjson"
local columns = require "pierrot.columns"

local top = {}

local format, max, min = string.format, math.max, math.min
local seconds = columns.seconds

-- Pictures ----------------------------------------------------------------------------------------------------------

local function count(n)
  if n < 0 then return "-" end
  if n < 9999.5 then return format(n < 10 and n % 1 > 0.05 and "%.1f" or "%.0f", n) end
  if n < 999.5e3 then return format("%.0fk", n / 1e3) end
  if n < 999.5e6 then return format("%.1fM", n / 1e6) end
  return format("%.1fG", n / 1e9)
end

local function megabytes(kb)
  return format(kb < 10240 and "%.1f MB" or "%.0f MB", kb / 1024)
end

local function percent(share)
  return format("%.0f%%", 100 * share)
end

local function clean(text)
  return (text:gsub("%c", "?"))
end

-- As many characters as fit.
local function cut(text, width)
  if columns.width_of(text) <= width then
    return text
  end
  local kept, n = {}, 0
  for character in text:gmatch "[%z\1-\127\194-\244][\128-\191]*" do
    if n == width then break end
    n = n + 1
    kept[n] = character
  end
  return table.concat(kept)
end

-- In the lists that come: see control.lua.
local ID, NAME, BEHAVIOUR, STATE, DEPTH, OLDEST, RATE, TIME, RESTARTS, AGE = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
local ACTORS, DEEPEST, WORKER, VERSION, PLACE, LONGER = 11, 12, 13, 14, 15, 16

-- How long the oldest message has waited; "more than" where it may have been there before top looked.
local function waited(age, longer)
  return age <= 0 and "-" or (longer and ">" or "") .. seconds(age)
end

-- Of an actor that does something.
local function line_in(r)
  local idle = r[STATE] == "idle" and r[RATE] == 0 and r[TIME] == 0
  return idle and "" or clean(r[PLACE]:match "[^/]*$")
end

-- Title, width at least, to the right, what of a row; the first that does not fit is left out, and those after it.
local by_actor = {
  { "ID", 9, false, function(r) return r[ID] end },
  { "NAME", 12, false, function(r) return clean(r[NAME]) end },
  { "BEHAVIOUR", 14, false, function(r) return clean(r[BEHAVIOUR]) end },
  { "STATE", 10, false, function(r) return r[STATE] end },
  { "DEPTH", 7, true, function(r) return count(r[DEPTH]) end, "depth" },
  { "MSG/S", 7, true, function(r) return count(r[RATE]) end, "rate" },
  { "TIME", 5, true, function(r) return percent(r[TIME]) end, "time" },
  { "OLDEST", 8, true, function(r) return waited(r[OLDEST], r[LONGER]) end },
  { "RESTARTS", 9, true, function(r) return count(r[RESTARTS]) end, "restarts" },
  { "LINE", 18, false, line_in },
  { "AGE", 8, true, function(r) return seconds(r[AGE]) end, "age" },
  { "WORKER", 6, true, function(r) return r[WORKER] == 0 and "-" or format("%d", r[WORKER]) end },
}
local by_behaviour = {
  { "BEHAVIOUR", 33, false, function(r) return clean(r[BEHAVIOUR]) end },
  { "ACTORS", 7, true, function(r) return count(r[ACTORS]) end, "actors" },
  { "DEPTH", 7, true, function(r) return count(r[DEPTH]) end, "depth" },
  { "DEEPEST", 7, true, function(r) return count(r[DEEPEST]) end },
  { "MSG/S", 7, true, function(r) return count(r[RATE]) end, "rate" },
  { "TIME", 5, true, function(r) return percent(r[TIME]) end, "time" },
  { "RESTARTS", 9, true, function(r) return count(r[RESTARTS]) end, "restarts" },
  { "AGE", 8, true, function(r) return seconds(r[AGE]) end, "age" },
  { "VERSION", 7, true, function(r) return clean(tostring(r[VERSION])) end },
}

local function pad(text, width, right)
  text = cut(text, width)
  local blanks = (" "):rep(width - columns.width_of(text))
  return right and blanks .. text or text .. blanks
end

-- On a narrow screen names give way to figures. What is left of a line goes to names and behaviours.
local NARROW, LEAST = 70, { NAME = 9, BEHAVIOUR = 11 }

local function layout(list, width)
  local used, shown = -1, {}
  for _, column in ipairs(list) do
    local least = width < NARROW and LEAST[column[1]] or column[2]
    if used + 1 + least > width then break end
    used = used + 1 + least
    shown[#shown + 1] = { column, least }
  end
  local left = min(width - used, 60)
  for i, share in pairs(list == by_actor and { [2] = 0.4, [3] = 0.6 } or { [1] = 1 }) do
    if shown[i] then
      shown[i][2] = shown[i][2] + math.floor(left * share)
    end
  end
  return shown
end

local function line_of(shown, cell)
  local cells = {}
  for i, item in ipairs(shown) do
    cells[i] = pad(cell(item[1]), item[2], item[1][3])
  end
  return (table.concat(cells, " "):gsub("%s+$", ""))
end

local function header(view, data, width)
  local workers = {}
  for i, busy in ipairs(data.busy) do
    workers[i] = percent(busy)
  end
  local lines = {
    format("pierrot top: process %d, up %s%s", data.pid, seconds(data.uptime), view.paused and ", paused" or ""),
    format("workers %s, %s queued, %s actors, %s messages/s", table.concat(workers, " "), count(data.queued),
           count(data.actors), count(data.rate)),
    format("memory %s, Lua %s (%s gc/s), %s dead letters, %s failures, %s restarts", megabytes(data.memory),
           megabytes(data.lua), count(data.collections), count(data.dead_letters), count(data.failures),
           count(data.restarts)),
  }
  for i, line in ipairs(lines) do
    lines[i] = cut(line, width)
  end
  return lines
end

local function field_lines(lines, detail)
  local info = detail.info
  local function add(fmt, ...)
    lines[#lines + 1] = clean(format(fmt, ...))
  end
  add("actor %s%s, %s, version %s", info.id, info.name and format(" %q", info.name) or "", info.behaviour,
      tostring(info.version or 1))
  add("%s on worker %s of %s, %d in its mailbox, %.0f handled, %d restarts, %s old", info.state,
      tostring(info.worker or "-"), tostring(info.dispatcher or "-"), info.depth, info.processed, info.restarts,
      seconds(info.age))
  if info.place and info.place ~= "" then
    add("%s %s", info.state == "suspended" and "waits at" or "its handler, this or the last one, begins at",
        info.place)
  end
  if info.high_water then
    add("mailbox: at most %s, %d the most there were, oldest %s, %d senders wait",
        info.capacity and format("%d", info.capacity) or "any number", info.high_water, seconds(info.oldest),
        info.waiting)
  elseif info.oldest and info.oldest > 0 then
    add("mailbox: oldest %s", waited(info.oldest, info.longer))
  end
  add("parent: %s; children: %d", info.parent or "the root", info.children)
  for i, title in ipairs { "linked to", "watches", "watched by" } do
    local tie = detail.ties and detail.ties[i]
    if tie and tie[1] > 0 then
      add("%s: %s%s", title, table.concat(tie[2], ", "),
          tie[1] > #tie[2] and format(" and %d more", tie[1] - #tie[2]) or "")
    end
  end
  lines[#lines + 1] = ""
  if detail.failure then
    lines[#lines + 1] = clean(format("last failure, %s ago: %s", seconds(detail.failure[3]), detail.failure[1]))
    for line in detail.failure[2]:gmatch "[^\n]+" do
      lines[#lines + 1] = "  " .. clean(line:gsub("^\t", ""))
    end
  else
    lines[#lines + 1] = "no failure since top has looked"
  end
  lines[#lines + 1] = ""
  lines[#lines + 1] = "messages handled while this is shown:"
  for _, m in ipairs(detail.recent or {}) do
    lines[#lines + 1] = clean(format("  %s  from %s, %s in %.3f ms", m[1], m[2], m[3], 1000 * m[4]))
  end
end

local HELP = {
  "up, down     choose a row            Enter  its details; Esc, back",
  "d m t r a n  sort by depth, messages/s, time, restarts, age, actors",
  "s            the next sort           b      rows are actors, behaviours",
  "/            only names and behaviours with this; Enter alone: all",
  "k            stop the actor          space  pause", "+ -          more, less often        q      leave",
  "", "TIME is the share of one worker's time, sampled 50 times a second.",
  "LINE: where a suspended handler waits; of others, where the handler begins that runs, is next, or was last.",
}

-- view: what is chosen (see new_view); data: the answer to `top` -> lines, the number of the line that is chosen
function top.picture(view, data, width, height)
  local lines, chosen = header(view, data, width), nil
  local foot = view.message or view.asking and view.asking .. (view.typed or "")
    or format("sort %s%s   Enter details  b %s  / filter  k stop  h help  q quit", view.sort,
              view.filter ~= "" and format(", filter %q", view.filter) or "",
              view.by == "actor" and "behaviours" or "actors")
  lines[#lines + 1] = ""
  if view.help then
    for _, line in ipairs(HELP) do lines[#lines + 1] = cut(line, width) end
  elseif view.detail and data.detail then
    local more = {}
    field_lines(more, data.detail)
    for _, line in ipairs(more) do lines[#lines + 1] = cut(line, width) end
  else
    local list = view.by == "actor" and by_actor or by_behaviour
    local shown = layout(list, width)
    lines[#lines + 1] = line_of(shown, function(column) return column[1] .. (column[5] == view.sort and "*" or "") end)
    for i, row in ipairs(data.rows) do
      if #lines >= height - 2 then break end
      lines[#lines + 1] = line_of(shown, function(column) return column[4](row) end)
      if i == view.row then chosen = #lines end
    end
    local more = data.total - min(#data.rows, height - 7)
    if more > 0 then
      lines[#lines + 1] = format("... %s more", count(more))
    end
  end
  for i = #lines, height, -1 do lines[i] = nil end
  while #lines < height - 1 do lines[#lines + 1] = "" end
  lines[height] = cut(foot, width)
  return lines, chosen
end

-- Keys --------------------------------------------------------------------------------------------------------------

local SORTS = { actor = { "depth", "rate", "time", "restarts", "age" },
                behaviour = { "depth", "rate", "time", "restarts", "age", "actors" } }
local BY_KEY = { d = "depth", m = "rate", t = "time", r = "restarts", a = "age", n = "actors" }

local function new_view()
  return { by = "actor", sort = "depth", filter = "", row = 1, every = 1 }
end
top.new_view = new_view

local function next_sort(view)
  local sorts = SORTS[view.by]
  for i, name in ipairs(sorts) do
    if name == view.sort then
      view.sort = sorts[i % #sorts + 1]
      return
    end
  end
  view.sort = sorts[1]
end

local function chosen_row(view, data)
  return data and data.rows[view.row]
end

local acts = {}

acts["\27[A"] = function(view) view.row = max(view.row - 1, 1) end
acts["\27[B"] = function(view, data) view.row = min(view.row + 1, max(data and #data.rows or 1, 1)) end
acts["\27OA"], acts["\27OB"] = acts["\27[A"], acts["\27[B"]
acts.s = next_sort
acts.b = function(view)
  view.by = view.by == "actor" and "behaviour" or "actor"
  view.row, view.detail = 1, nil
  if view.by == "actor" and view.sort == "actors" then view.sort = "depth" end
end
acts["/"] = function(view)
  view.asking, view.typed = "filter: ", ""
  view.on_answer = function(text) view.filter, view.row = text, 1 end
end
acts["\r"] = function(view, data)
  local row = chosen_row(view, data)
  if view.by == "behaviour" and row then
    view.by, view.filter, view.row = "actor", row[BEHAVIOUR]:sub(1, 60), 1
    if view.sort == "actors" then view.sort = "depth" end
  elseif row then
    view.detail = row[ID]
  end
end
acts["\n"] = acts["\r"]
acts.k = function(view, data)
  local row = view.by == "actor" and chosen_row(view, data)
  local id = view.detail or row and row[ID]
  if not id then return end
  local who = view.detail and id or clean(format("%s %s (%s)", id, row[NAME], row[BEHAVIOUR]))
  view.asking, view.typed = format("stop actor %s? y to stop it, any other key leaves it ", who), nil
  view.on_key = function(key) if key == "y" then view.stop = id end end
end
acts[" "] = function(view) view.paused = not view.paused end
acts["+"] = function(view) view.every = max(view.every / 2, 0.25) end
acts["-"] = function(view) view.every = min(view.every * 2, 60) end
acts.h = function(view) view.help = not view.help end
acts["?"] = acts.h
acts["\27"] = function(view) view.help, view.detail = nil, nil end
acts.q = function(view) view.over = true end
acts["\3"], acts["\4"] = acts.q, acts.q
for key, sort in pairs(BY_KEY) do
  acts[key] = function(view) if sort ~= "actors" or view.by == "behaviour" then view.sort = sort end end
end

local function answer(view, key)
  if view.on_key then
    local on_key = view.on_key
    view.asking, view.on_key = nil, nil
    on_key(key)
  elseif key == "\r" or key == "\n" then
    view.on_answer(view.typed)
    view.asking = nil
  elseif key == "\27" or key == "\3" then
    view.asking = nil
  elseif key == "\127" or key == "\b" then
    view.typed = view.typed:gsub("[%z\1-\127\194-\244][\128-\191]*$", "")
  elseif key:byte() >= 32 then
    view.typed = (view.typed .. key):sub(1, 60)
  end
end

-- Changes the view by what was typed: one or more keys at once.
function top.key(view, data, bytes)
  view.message = nil
  local at = 1
  while at <= #bytes do
    local key = bytes:match("^\27[%[O]%d*[%a~]", at) or bytes:match("^[%z\1-\127\194-\244][\128-\191]*", at)
      or bytes:sub(at, at)
    at = at + #key
    if view.asking then
      answer(view, key)
    elseif acts[key] then
      acts[key](view, data)
    end
  end
end

-- The command -------------------------------------------------------------------------------------------------------

local function request(view, rows)
  return { cmd = "top", by = view.by, sort = view.sort, n = rows, filter = view.filter ~= "" and view.filter or nil,
           detail = view.detail, id = "top" }
end

local function ask(message)
  return core.client_send(json.encode(message) .. "\n")
end

local function draw(view, data, width, height)
  local lines, chosen = top.picture(view, data, width, height)
  local out = { "\27[H" }
  for i, line in ipairs(lines) do
    out[#out + 1] = format("%s%s%s\27[K%s", i == chosen and "\27[7m" or "", line, i == chosen and "\27[0m" or "",
                           i < #lines and "\r\n" or "")
  end
  io.write(table.concat(out))
  io.flush()
end

-- Where there is no screen: two pictures a second apart, of which the second has rates, as text.
local function once(view, complain)
  for round = 1, 2 do
    ask(request(view, 20))
    local kind, line = core.client_wait()
    local message = kind == "message" and json.decode(line)
    if not message or not message.ok then
      complain("%s", message and tostring(message.error) or "the process has ended the connection")
      return 1
    elseif round == 2 then
      local width = core.screen_size()
      local lines = top.picture(view, message.result, width, 27)
      for i = 1, #lines - 1 do
        if lines[i] ~= "" or i < 5 then print(lines[i]) end
      end
    else
      core.client_wait(view.every)
    end
  end
  return 0
end

-- The connection is open. -> exit status
function top.run(complain)
  local view, data = new_view(), nil
  if os.getenv "TERM" == "dumb" or not core.keys_open() then
    return once(view, complain)
  end
  io.write "\27[?1049h\27[?25l"   -- a screen of its own, without a cursor
  local width, height = core.screen_size()
  local due, waiting, problem = 0, false, nil
  local ok, err = pcall(function()
    while not view.over do
      local now = core.now()
      if not waiting and now >= due and not (view.paused and data) then
        due, waiting = now + view.every, true
        ask(request(view, max(height - 7, 1)))
      end
      local kind, what = core.client_wait(max(due - now, 0.01))
      if kind == "key" then
        local detail = view.detail
        top.key(view, data, what)
        if view.stop then
          ask { cmd = "stop", name = view.stop, id = "stop" }
          view.stop = nil
        end
        if detail ~= view.detail and data then data.detail = nil end
        due = view.paused and due or 0
      elseif kind == "message" then
        local decoded, message = pcall(json.decode, what)
        if not decoded or type(message) ~= "table" then
          error("what came is no answer of pierrot", 0)
        end
        waiting = waiting and message.id ~= "top"
        if message.id == "top" and message.ok then
          data = message.result
          view.row = max(min(view.row, #data.rows), 1)
        elseif not message.ok then
          view.message = tostring(message.error)
          if message.id == "top" then view.detail = nil end
        elseif message.id == "stop" then
          view.message = "told to stop"
        end
      elseif kind == "resize" then
        width, height = core.screen_size()
        io.write "\27[2J"
        due = 0
      elseif kind == "closed" or kind == "signal" then
        problem = kind == "closed" and "the process has ended the connection"
        view.over = true
      end
      if kind and data then draw(view, data, width, height) end
    end
  end)
  io.write "\27[?25h\27[?1049l"
  io.flush()
  core.keys_close()
  if not ok or problem then
    complain("%s", ok and problem or tostring(err))
    return 1
  end
  return 0
end

return top
