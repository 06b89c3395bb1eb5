--- The figures of a report as a picture: bars by benchmark and side, in SVG. Plain Lua.
--
-- A row is a benchmark, with a bar for each side, from the median; a thin line shows the fastest and the slowest
-- run. The scale is linear from 0, or, where the longest bar is more than 20 times the shortest, logarithmic.

local M = {}

local LEFT, RIGHT, TOP, BOTTOM = 130, 90, 84, 52     -- around the bars, in pixels
local WIDTH = 900
local BAR, GAP = 13, 12                              -- of a bar; between two rows
local COLOURS = { "#2b6cb0", "#c05621", "#2f855a", "#6b46c1" }
local LOGARITHMIC_FROM = 20

local function escape(text)
  return (text:gsub("[&<>]", { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;" }))
end

local function text(x, y, anchor, class, words)
  return ('<text x="%.1f" y="%.1f" text-anchor="%s" class="%s">%s</text>'):format(x, y, anchor, class, escape(words))
end

--- A number of nanoseconds as people write it.
local function duration(ns)
  if ns < 1e3 then return ("%.3g ns"):format(ns) end
  if ns < 1e6 then return ("%.3g µs"):format(ns / 1e3) end
  return ("%.3g ms"):format(ns / 1e6)
end

--- The axis: where a value lies (0 to 1), and the values to mark on it.
local function scale_of(lowest, highest)
  local marks = {}
  if highest / lowest > LOGARITHMIC_FROM then
    local from, to = math.floor(math.log10(lowest)), math.ceil(math.log10(highest))
    if 10 ^ from == lowest then from = from - 1 end
    for exponent = from, to do marks[#marks + 1] = 10 ^ exponent end
    return function(value) return (math.log10(value) - from) / (to - from) end, marks, "logarithmic"
  end
  local step = 10 ^ math.floor(math.log10(highest))
  if highest / step < 2 then step = step / 5 elseif highest / step < 5 then step = step / 2 end
  local top = math.ceil(highest / step) * step
  for i = 0, top / step do marks[#marks + 1] = i * step end
  return function(value) return value / top end, marks, "linear"
end

--- The picture, as the text of an SVG file.
---@param title string
---@param names string[] of the sides, in order
---@param rows { label: string, values: table<string, { median: number, min: number, max: number }> }[]
---@return string
function M.svg(title, names, rows)
  local lowest, highest = math.huge, 0
  for _, row in ipairs(rows) do
    for _, value in pairs(row.values) do
      lowest, highest = math.min(lowest, value.min), math.max(highest, value.max)
    end
  end
  local place, marks, kind = scale_of(lowest, highest)
  local across = WIDTH - LEFT - RIGHT
  local row_height = #names * BAR + GAP
  local bottom = TOP + #rows * row_height
  local height = bottom + BOTTOM
  local function x_of(value) return LEFT + across * math.max(0, place(value)) end

  local out = {
    ('<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" role="img">'):format(
      WIDTH, height, WIDTH, height),
    "<style>text{font:12px sans-serif;fill:#222}.title{font-size:16px}.small{font-size:10px;fill:#555}</style>",
    ('<rect width="%d" height="%d" fill="#fff"/>'):format(WIDTH, height),
    text(LEFT, 28, "start", "title", title),
  }
  local function add(line, ...) out[#out + 1] = select("#", ...) > 0 and line:format(...) or line end

  local legend_x = LEFT
  for i, name in ipairs(names) do
    add('<rect x="%.1f" y="46" width="12" height="12" fill="%s"/>', legend_x, COLOURS[(i - 1) % #COLOURS + 1])
    add(text(legend_x + 18, 56, "start", "label", name))
    legend_x = legend_x + 40 + 8 * #name
  end
  for _, mark in ipairs(marks) do
    add('<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="#ddd"/>', x_of(mark), TOP - 6, x_of(mark), bottom)
    add(text(x_of(mark), bottom + 16, "middle", "label", mark == 0 and "0" or duration(mark)))
  end
  add(text(LEFT + across / 2, bottom + 38, "middle", "label",
    ("time for one operation, median and extremes (%s scale; shorter is faster)"):format(kind)))

  for r, row in ipairs(rows) do
    local top = TOP + (r - 1) * row_height
    add(text(LEFT - 8, top + #names * BAR / 2 + 4, "end", "label", row.label))
    for i, name in ipairs(names) do
      local value = row.values[name]
      if value then
        local y = top + (i - 1) * BAR
        add('<rect x="%d" y="%.1f" width="%.1f" height="%d" fill="%s"/>', LEFT, y,
          math.max(1, x_of(value.median) - LEFT), BAR - 2, COLOURS[(i - 1) % #COLOURS + 1])
        add('<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="#222"/>', x_of(value.min), y + BAR / 2 - 1,
          x_of(value.max), y + BAR / 2 - 1)
        add(text(x_of(value.max) + 5, y + BAR - 3.5, "start", "small", duration(value.median)))
      end
    end
  end
  add(('<line x1="%d" y1="%d" x2="%d" y2="%d" stroke="#222"/>'):format(LEFT, TOP - 6, LEFT, bottom))
  add("</svg>\n")
  return table.concat(out, "\n")
end

return M
