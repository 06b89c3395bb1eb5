-- Tables of text: cells that line up.

local columns = {}

-- Columns that it takes on a screen, near enough: colours none, a character one.
local function width_of(text)
  text = text:gsub("\27%[%d*m", "")
  return #text - select(2, text:gsub("[\128-\191]", ""))
end
columns.width_of = width_of

function columns.seconds(s)
  if s < 100 then return ("%.1f s"):format(s) end
  if s < 6000 then return ("%.0f min"):format(s / 60) end
  if s < 360000 then return ("%.0f h"):format(s / 3600) end
  return ("%.0f d"):format(s / 86400)
end

-- Cells that line up; numbers to the right. `rows` are lists of strings, the first is the head.
function columns.columns(rows, right, most)
  local widths = {}
  for _, row in ipairs(rows) do
    for i, cell in ipairs(row) do
      if most[i] and width_of(cell) > most[i] then
        cell = cell:sub(1, most[i] - 2) .. ".."
        row[i] = cell
      end
      widths[i] = math.max(widths[i] or 0, width_of(cell))
    end
  end
  local lines = {}
  for n, row in ipairs(rows) do
    local cells = {}
    for i, cell in ipairs(row) do
      local pad = (" "):rep(widths[i] - width_of(cell))
      cells[i] = right[i] and pad .. cell or cell .. pad
    end
    lines[n] = table.concat(cells, "  "):gsub("%s+$", "")
  end
  return lines
end

return columns
