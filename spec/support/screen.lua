-- A terminal's screen, as far as the programs under test use one: what is to be seen after these bytes.
-- Cursor movement, erasing, inserting and deleting of characters, wrapping with the pause at the margin that xterm
-- makes, scrolling. Attributes are ignored. Characters of several bytes take one column.

local Screen = {}
Screen.__index = Screen

function Screen.new(columns, rows)
  local self = setmetatable({ columns = columns, rows = rows, row = 1, column = 1, lines = {}, rest = "" }, Screen)
  for i = 1, rows do self.lines[i] = {} end
  return self
end

-- What is on it stays where it is: programs redraw.
function Screen:resize(columns, rows)
  while #self.lines > rows do
    table.remove(self.lines, 1)
    self.row = math.max(self.row - 1, 1)
  end
  while #self.lines < rows do self.lines[#self.lines + 1] = {} end
  self.columns, self.rows = columns, rows
  self.column = math.min(self.column, columns)
end

function Screen:line_feed()
  if self.row < self.rows then
    self.row = self.row + 1
  else
    table.remove(self.lines, 1)
    self.lines[self.rows] = {}
  end
end

function Screen:put(character)
  if self.column > self.columns then
    self.column = 1
    self:line_feed()
  end
  self.lines[self.row][self.column] = character
  self.column = self.column + 1
end

local function erase(line, from, to)
  for i = from, to do line[i] = nil end
end

local function parameter(text, i, default)
  local n = 0
  for part in (text .. ";"):gmatch("(%d*);") do
    n = n + 1
    if n == i then return tonumber(part) or default end
  end
  return default
end

local sequences = {
  A = function(self, n) self.row = math.max(self.row - n, 1) end,
  B = function(self, n) self.row = math.min(self.row + n, self.rows) end,
  C = function(self, n) self.column = math.min(self.column + n, self.columns) end,
  D = function(self, n) self.column = math.max(math.min(self.column, self.columns) - n, 1) end,
  G = function(self, n) self.column = math.min(n, self.columns) end,
  d = function(self, n) self.row = math.min(n, self.rows) end,
  H = function(self, n, text)
    self.row, self.column = math.min(n, self.rows), math.min(parameter(text, 2, 1), self.columns)
  end,
  J = function(self, _, text)
    local what = parameter(text, 1, 0)
    if what == 0 then
      erase(self.lines[self.row], self.column, self.columns)
    end
    for i = what == 0 and self.row + 1 or 1, self.rows do self.lines[i] = {} end
  end,
  K = function(self, _, text)
    local what = parameter(text, 1, 0)
    erase(self.lines[self.row], what == 0 and self.column or 1, what == 1 and self.column or self.columns)
  end,
  P = function(self, n)
    local line = self.lines[self.row]
    for i = self.column, self.columns do line[i] = line[i + n] end
  end,
  ["@"] = function(self, n)
    local line = self.lines[self.row]
    for i = self.columns, self.column + n, -1 do line[i] = line[i - n] end
    erase(line, self.column, self.column + n - 1)
  end,
  X = function(self, n) erase(self.lines[self.row], self.column, self.column + n - 1) end,
  L = function(self, n)
    for _ = 1, n do
      table.insert(self.lines, self.row, {})
      table.remove(self.lines)
    end
  end,
  M = function(self, n)
    for _ = 1, n do
      table.remove(self.lines, self.row)
      self.lines[#self.lines + 1] = {}
    end
  end,
}

local controls = {
  ["\r"] = function(self) self.column = 1 end,
  ["\n"] = function(self) self:line_feed() end,
  ["\b"] = function(self) self.column = math.max(math.min(self.column, self.columns) - 1, 1) end,
  ["\t"] = function(self) self.column = math.min(self.column + 8 - (self.column - 1) % 8, self.columns) end,
}

-- Sequences that are cut off are kept for the next call.
function Screen:feed(bytes)
  local text, at = self.rest .. bytes, 1
  self.rest = ""
  while at <= #text do
    local c = text:sub(at, at)
    if c == "\27" then
      local from, to, parameters, final = text:find("^\27%[([%d;?>=]*)([@-~])", at)
      if not from then
        from, to = text:find("^\27[()].", at)
        if not from then from, to = text:find("^\27[^%[()]", at) end
      end
      if not from then
        self.rest = text:sub(at)
        return
      end
      local act = final and not parameters:find("[?>=]") and sequences[final]
      if act then act(self, parameter(parameters, 1, 1), parameters) end
      if parameters == "?1049" or (parameters or ""):find("^%?1049") then
        self.alternate = final == "h"
      end
      at = to + 1
    elseif controls[c] then
      controls[c](self)
      at = at + 1
    elseif c:byte() < 32 or c:byte() == 127 then
      at = at + 1
    else
      local length = c:byte() < 128 and 1 or c:byte() >= 240 and 4 or c:byte() >= 224 and 3 or 2
      if at + length - 1 > #text then
        self.rest = text:sub(at)
        return
      end
      self:put(text:sub(at, at + length - 1))
      at = at + length
    end
  end
end

-- Its lines, without the blanks at their ends and the empty lines at its end.
function Screen:text()
  local out, last = {}, 0
  for i = 1, self.rows do
    local line = {}
    for column = 1, self.columns do line[column] = self.lines[i][column] or " " end
    out[i] = table.concat(line):gsub("%s+$", "")
    if out[i] ~= "" then last = i end
  end
  for i = #out, last + 1, -1 do out[i] = nil end
  return out
end

return Screen
