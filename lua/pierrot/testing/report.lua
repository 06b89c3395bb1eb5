-- What is said of a test that fails: the error, the seed and how to repeat it, and what happened in which order.

local core = require "pierrot.core"
local show = require "pierrot.testing.show"

local report = {}

local MOST_LINES = 60

local function indented(text, by)
  return by .. text:gsub("\n", "\n" .. by)
end

-- The lines of what has happened, while the runtime still runs.
function report.interleaving(t)
  local happened, lines, names = core.explore_happened(1), {}, t._names
  for _, it in ipairs(happened) do
    names(it.actor, it.name)
  end
  local notes, next_note = t._notes, 1
  local function add(time, who, what)
    lines[#lines + 1] = { time = time - t._since, who = who, what = what }
  end
  local function add_notes(before)
    while notes[next_note] and notes[next_note].at < before do
      local note = notes[next_note]
      next_note = next_note + 1
      add(note.time, tostring(note.probe), ("gets %s%s"):format(show.message(note.values, names),
        note.sender and " from " .. names(note.sender) or ""))
    end
  end
  for i, it in ipairs(happened) do
    add_notes(i)
    local what
    if it.what == "start" then
      what = "starts"
    elseif it.what == "message" then
      local from = it.timed and "a timer" or it.sender and names(it.sender)
      what = ("%s %s%s"):format(it.asked and "is asked" or "gets",
        it.values and show.message(it.values, names) or "(a big message)", from and " from " .. from or "")
    elseif it.what == "resume" and it.failed then
      what = "has no answer: " .. tostring(it.values and (it.values[2] or it.values[1]) or "?")
    elseif it.what == "resume" then
      what = it.values and "is answered " .. show.message(it.values, names) or "goes on"
    elseif it.what == "log" then
      what = "logs " .. (it.text or "?"):gsub("^actor [^:]*%): ", "")
    elseif it.what == "failure" then
      what = "FAILS: " .. (it.text or "?"):match "^[^\n]*"
    elseif it.what == "fault" then
      what = "fault: " .. (it.text or "?")
    else
      what = "ends" .. (it.text and (": " .. it.text) or "")
    end
    add(it.time, names(it.actor), what)
  end
  add_notes(math.huge)
  return lines
end

local function laid_out(lines)
  local width, out = 0, {}
  local first = math.max(#lines - MOST_LINES + 1, 1)
  for i = first, #lines do
    width = math.max(width, #lines[i].who)
  end
  if first > 1 then
    out[1] = ("    ... %d before"):format(first - 1)
  end
  for i = first, #lines do
    local line = lines[i]
    out[#out + 1] = ("    %8.3f  %-" .. math.min(width, 40) .. "s  %s"):format(line.time, line.who, line.what)
  end
  return table.concat(out, "\n")
end

-- failure: see testing.explore; command: how to repeat it.
function report.text(failure, command)
  local out = { failure.message }
  local function add(fmt, ...)
    out[#out + 1] = select("#", ...) > 0 and fmt:format(...) or fmt
  end
  if failure.actor_traceback then
    add(indented(failure.actor_traceback, "  "))
  end
  if failure.hint then
    add("  (%s)", failure.hint)
  end
  local seed = ("seed %d"):format(failure.seed)
  if failure.unrepeatable then
    add("%s. Run again, it went another way: the test depends on more than its actors (time, files, state of its own?)",
        seed)
  elseif #failure.taken == 0 then
    add("%s, and any other: it fails when all is done first come, first served", seed)
  elseif failure.only and failure.shrunk_from then
    add("%s: of the %d choices in which it differs from first come, first served, %d %s", seed, failure.shrunk_from,
        #failure.only, #failure.only == 1 and "matters" or "matter")
  else
    add(seed)
  end
  if failure.lines and #failure.lines > 0 then
    add("what happened (seconds, who, what):")
    add(laid_out(failure.lines))
  end
  if failure.log and failure.log ~= "" and not failure.lines then
    add("log:\n" .. indented(failure.log:gsub("\n$", ""), "    "))
  end
  add("to repeat it: %s", command)
  return table.concat(out, "\n")
end

return report
