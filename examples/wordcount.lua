--- Counts words, as a map-reduce of actors on all workers.
--
--     pierrot run examples/wordcount.lua [--all] [FILE...]
--
-- Without FILE it reads the licence texts that Debian installs. A word is a run of ASCII letters,
-- in lower case; a line is a newline. So the counts are those of
--
--     cat FILE... | LC_ALL=C tr -cs A-Za-z '\n' | tr A-Z a-z | grep . | sort | uniq -c
--     cat FILE... | wc -l
--
-- to the last word, in text and in any other bytes. It prints the 20 most frequent words and how
-- fast it went, or with --all one "COUNT WORD" for every word and nothing else. Files that cannot
-- be read are named on stderr, and the exit status is then 1.
--
-- Who does what:
--
--     this script --- "read" a split --> readers --- "add" words and counts --> counters
--                 <-- "done" -----------           <-- the reply to "add" ----
--     this script --- "reduce" --> reducer --- "top" --> counters
--
--   * Files are cut into splits, so that one big file keeps every worker busy too.
--   * A reader counts what it reads in a table of its own, and hands that on when it is full:
--     a batch of counts for each counter, instead of a message for each word.
--   * A counter owns the words of one shard: two counters never count the same word.
--   * A reader hands on by `ask` and goes on when the batch has been counted. So there is never
--     more than one batch a reader under way, and memory holds distinct words, not the input.

local pierrot = require "pierrot"

local DEFAULT_DIRECTORY = "/usr/share/common-licenses"
local TOP = 20                     -- words to print without --all
local BLOCK_BYTES = 64 * 1024      -- read at once; LuaJIT maps and unmaps strings from 128 KB on
local SPLIT_BYTES = 8 * 1024^2     -- the share of a file that one reader takes
local BATCH_WORDS = 8192           -- distinct words after which a reader hands on its counts
local PATIENCE_SECONDS = 600       -- the longest that sorting a shard may take
local USAGE = "usage: pierrot run examples/wordcount.lua [--all] [FILE...]"

local byte, sub = string.byte, string.sub

-- Readers -----------------------------------------------------------------------------------------

--- Adds the words of `text` to `counts`. The text must end with something that is no letter.
-- All the time goes here. Plain bytes compile to machine code, which string.gmatch does not.
-- @return the number of newlines, and of words that were not in `counts`
local function count_words(counts, text)
  local newlines, new_words = 0, 0
  local i, size = 1, #text
  text = text:lower()
  while i <= size do
    local c = byte(text, i)
    if c >= 97 and c <= 122 then
      local first = i
      repeat
        i = i + 1
        c = byte(text, i)
      until c < 97 or c > 122
      local word = sub(text, first, i - 1)
      local count = counts[word]
      if count then
        counts[word] = count + 1
      else
        counts[word] = 1
        new_words = new_words + 1
      end
    end
    if c == 10 then newlines = newlines + 1 end
    i = i + 1
  end
  return newlines, new_words
end

--- Where in `text` the last byte is that is no letter; 0 if it is letters throughout.
local function last_non_letter(text)
  for i = #text, 1, -1 do
    local c = byte(text, i)
    if c < 65 or c > 122 or (c > 90 and c < 97) then return i end
  end
  return 0
end

--- The next bytes of the file, at most `size`; nil at its end. Raises what went wrong.
local function read(file, size)
  local block, why = file:read(size)
  if why then error(why, 0) end
  return block
end

--- Moves a cut at `offset` to where no word is cut: just after the first byte, from the one before
-- the cut on, that is no letter. Both neighbours of a cut find the same place.
local function settle_cut(file, offset)
  local position = offset - 1
  assert(file:seek("set", position))
  while true do
    local block = read(file, BLOCK_BYTES)
    if not block then return position end
    local at = block:find("%A")
    if at then return position + at end
    position = position + #block
  end
end

--- Which of `shards` counters owns a word.
local function shard_of(word, shards)
  local size = #word
  return (byte(word) * 31 + byte(word, size) * 7 + byte(word, (size + 1) / 2) + size) % shards + 1
end

--- Hands the reader's counts to the counters; returns when they have been counted.
local function hand_on(self)
  local batches = {}
  for shard = 1, #self.counters do batches[shard] = {} end
  for word, count in pairs(self.counts) do
    batches[shard_of(word, #batches)][word] = count
  end
  self.counts, self.distinct, self.bytes = {}, 0, 0
  for shard, counter in ipairs(self.counters) do
    if next(batches[shard]) then counter:ask_within(PATIENCE_SECONDS, "add", batches[shard]) end
  end
end

local function count_into(self, text)
  local newlines, new_words = count_words(self.counts, text)
  self.distinct = self.distinct + new_words
  self.bytes = self.bytes + #text
  if self.distinct >= BATCH_WORDS or self.bytes >= SPLIT_BYTES then hand_on(self) end
  return newlines
end

--- Counts a file between two cuts; without `to`, up to its end or, if that is far, the first split.
local function count_split(self, file, path, from, to)
  if from == 0 then
    local size = file:seek("end")            -- nil: a pipe, which is read as it comes
    if size then file:seek("set", 0) end
    read(file, 0)                            -- a directory opens, and has a size, but does not read
    if size and size > SPLIT_BYTES then
      self.main:tell("split", path, size)
      to = SPLIT_BYTES
    end
  end
  local last = to and settle_cut(file, to) or math.huge
  local position = from > 0 and settle_cut(file, from) or 0
  if from > 0 or to then assert(file:seek("set", position)) end

  local unfinished = {}                      -- pieces of the word that the last block ended in
  while position < last do
    local block = read(file, math.min(BLOCK_BYTES, last - position))
    if not block then break end
    position = position + #block
    local newlines = 0
    local stop = last_non_letter(block)
    if stop > 0 then
      unfinished[#unfinished + 1] = sub(block, 1, stop)
      newlines = count_into(self, table.concat(unfinished))
      unfinished = {}
    end
    unfinished[#unfinished + 1] = sub(block, stop + 1)
    self.main:tell("progress", #block, newlines)
    pierrot.yield()                          -- to the counters, and whoever else is on this worker
  end
  count_into(self, table.concat(unfinished) .. " ")
  hand_on(self)
end

local Reader = {
  name = "reader",

  start = function(self, main, counters)
    self.main, self.counters = main, counters
    self.counts, self.distinct, self.bytes = {}, 0, 0
  end,

  on = {
    --- One split; "done" or "failed" goes back.
    read = function(self, path, from, to)
      local me = pierrot.self()
      local file, why = io.open(path, "rb")
      if not file then return self.main:tell("failed", me, path, why) end
      local ok, err = pcall(count_split, self, file, path, from, to)
      file:close()
      if not ok then return self.main:tell("failed", me, path, path .. ": " .. tostring(err)) end
      self.main:tell("done", me)
    end,
  },
}

-- Counters and the reducer ------------------------------------------------------------------------

local function more_frequent(a, b)
  if a[2] ~= b[2] then return a[2] > b[2] end
  return a[1] < b[1]
end

--- Sorts `{word, count}` rows, most frequent first, and keeps `limit` of them.
local function sort_and_cut(rows, limit)
  table.sort(rows, more_frequent)
  for i = #rows, limit + 1, -1 do rows[i] = nil end
end

local Counter = {
  name = "counter",

  start = function(self)
    self.counts = {}
  end,

  on = {
    add = function(self, batch)
      local counts = self.counts
      for word, count in pairs(batch) do counts[word] = (counts[word] or 0) + count end
    end,

    top = function(self, limit, reducer)
      local rows, least, words, distinct = {}, 0, 0, 0
      for word, count in pairs(self.counts) do
        words, distinct = words + count, distinct + 1
        if count >= least then               -- else `limit` words are known to be before this one
          rows[#rows + 1] = { word, count }
          if #rows == 50 * limit then
            sort_and_cut(rows, limit)
            least = rows[limit][2]
          end
        end
      end
      sort_and_cut(rows, limit)
      reducer:tell("top", rows, words, distinct)
    end,
  },
}

local Reducer = {
  name = "reducer",

  on = {
    reduce = function(_, counters, limit)
      for _, counter in ipairs(counters) do counter:tell("top", limit, pierrot.self()) end
      local all = { rows = {}, words = 0, distinct = 0 }
      for _ = 1, #counters do
        local answer, rows, words, distinct = pierrot.receive(PATIENCE_SECONDS)
        if not answer then error("a counter did not answer") end
        for _, row in ipairs(rows) do all.rows[#all.rows + 1] = row end
        all.words, all.distinct = all.words + words, all.distinct + distinct
      end
      sort_and_cut(all.rows, limit)
      return all
    end,
  },
}

-- The script: hands out splits, shows progress, prints the result ---------------------------------

local function parse_arguments(arguments)
  local paths, all, options_over = {}, false, false
  for _, argument in ipairs(arguments) do
    if options_over or argument:sub(1, 1) ~= "-" then
      paths[#paths + 1] = argument
    elseif argument == "--all" then
      all = true
    elseif argument == "--" then
      options_over = true
    else
      error(("wordcount: unknown option %s\n%s"):format(argument, USAGE), 0)
    end
  end
  return paths, all
end

--- The regular files of the default directory. Links are left out: they lead to others of them.
local function default_paths()
  local paths = {}
  local find = assert(io.popen("find " .. DEFAULT_DIRECTORY .. " -maxdepth 1 -type f -print0"))
  for path in find:read("*a"):gmatch("[^%z]+") do paths[#paths + 1] = path end
  find:close()
  if #paths == 0 then
    error(("wordcount: no files in %s: name some\n%s"):format(DEFAULT_DIRECTORY, USAGE), 0)
  end
  table.sort(paths)
  return paths
end

--- A function that draws `fmt:format(...)` over the last such line; nothing if stderr is no terminal.
local function progress_line()
  local ffi = require "ffi"
  ffi.cdef "int isatty(int fd);"
  if ffi.C.isatty(2) == 0 then return function() end end
  local drawn = 0
  return function(fmt, ...)
    local now = pierrot.now()
    if fmt ~= "" and now - drawn < 0.1 then return end
    drawn = now
    io.stderr:write("\r", fmt:format(...), "\27[K")
  end
end

--- Gives each reader in turn a split, until none is left.
-- @return the number of newlines, and of files that could not be read
local function read_all(readers, paths)
  local splits, next_split, in_hand = {}, 1, 0
  for _, path in ipairs(paths) do splits[#splits + 1] = { path, 0 } end
  local idle = readers
  local lines, bytes, failures, failed = 0, 0, 0, {}
  local show = progress_line()

  local on = {
    progress = function(more_bytes, more_lines)
      bytes, lines = bytes + more_bytes, lines + more_lines
    end,
    split = function(path, size)
      for from = SPLIT_BYTES, size - 1, SPLIT_BYTES do
        local to = from + SPLIT_BYTES
        splits[#splits + 1] = { path, from, to < size and to or nil }
      end
    end,
    done = function(reader)
      in_hand = in_hand - 1
      idle[#idle + 1] = reader
    end,
    failed = function(reader, path, why)
      in_hand = in_hand - 1
      idle[#idle + 1] = reader
      if failed[path] then return end
      failed[path] = true
      failures = failures + 1
      show("")
      io.stderr:write("wordcount: ", why, "\n")
    end,
  }
  local function take(event, ...)
    if event then on[event](...) end
  end

  while true do
    while #idle > 0 and splits[next_split] do
      table.remove(idle):tell("read", unpack(splits[next_split]))
      next_split, in_hand = next_split + 1, in_hand + 1
    end
    if in_hand == 0 then break end
    take(pierrot.receive(1))
    show("part %d of %d, %.1f MB, %d lines", next_split - in_hand, #splits, bytes / 1e6, lines)
  end
  show("")
  return lines, failures
end

local paths, all = parse_arguments(arg)
if #paths == 0 then paths = default_paths() end

local started = pierrot.now()
local workers = pierrot.stats().workers
-- "temporary": after a restart its words would be missing, so a failure has to show.
local counters, readers = {}, {}
for worker = 1, workers do
  counters[worker] = pierrot.spawn{ Counter, worker = worker, restart = "temporary" }
end
for i = 1, 2 * workers do          -- two a worker: one reads on while the other waits for a counter
  readers[i] = pierrot.spawn{ Reader, pierrot.self(), counters,
                              worker = (i - 1) % workers + 1, restart = "temporary" }
end
local reducer = pierrot.spawn{ Reducer, restart = "temporary" }

local lines, failures = read_all(readers, paths)
local result = reducer:ask_within(PATIENCE_SECONDS, "reduce", counters, all and math.huge or TOP)
local seconds = pierrot.now() - started

local out = {}
for i, row in ipairs(result.rows) do
  out[i] = (all and "%d %s\n" or "%9d %s\n"):format(row[2], row[1])
end
if not all then
  out[#out + 1] = ([[

files    %d
lines    %d
words    %d
distinct %d
seconds  %.3f
lines/s  %.0f
words/s  %.0f
]]):format(#paths - failures, lines, result.words, result.distinct, seconds,
           lines / seconds, result.words / seconds)
end
io.write(table.concat(out))

if failures > 0 then
  error(("wordcount: %d file%s could not be read"):format(failures, failures == 1 and "" or "s"), 0)
end
