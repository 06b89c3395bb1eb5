--- examples/wordcount.lua counts what coreutils count: over the licence texts, and over files made
-- to be awkward. PIERROT_BIN names the command to test; default build/pierrot.
-- sanitizers: address

local pierrot_bin = os.getenv("PIERROT_BIN") or "build/pierrot"
local licences = "/usr/share/common-licenses"
local sanitized = os.getenv "PIERROT_SANITIZER" ~= nil   -- then everything is slow: less of it

local function quote(word)
  return "'" .. word:gsub("'", "'\\''") .. "'"
end

--- Runs a shell command: its standard output and its exit status.
local function sh(command)
  local pipe = assert(io.popen("{ " .. command .. "\n}; echo \"status $?\""))
  local out, status = pipe:read("*a"):match("^(.*)status (%d+)\n$")
  pipe:close()
  return out, tonumber(status)
end

local directory

local function path_of(name) return directory .. "/" .. name end

--- Writes a file of these pieces into the test's directory; returns its path, quoted for the shell.
local function file_of(name, ...)
  local file = assert(io.open(path_of(name), "wb"))
  for _, piece in ipairs { ... } do file:write(piece) end
  file:close()
  return quote(path_of(name))
end

local function wordcount(arguments)
  return sh(("timeout --foreground 120 %s run examples/wordcount.lua %s 2>%s"):format(
    quote(pierrot_bin), arguments, quote(path_of("stderr"))))
end

local function stderr_text()
  local file = assert(io.open(path_of("stderr"), "rb"))
  local text = file:read("*a")
  file:close()
  return text
end

--- What coreutils make of the files: the table of --all, and the number of lines.
local function reference(files)
  local counted = sh("cat " .. files .. " | LC_ALL=C tr -cs A-Za-z '\\n' | LC_ALL=C tr A-Z a-z"
    .. " | grep . | LC_ALL=C sort | LC_ALL=C uniq -c"
    .. " | awk '{ print $1, $2 }' | LC_ALL=C sort -k1,1nr -k2,2")
  return counted, tonumber((sh("cat " .. files .. " | wc -l")))
end

--- A row of the table, short enough to be printed when it is not the wanted one.
local function row(count, word)
  if #word > 60 then word = word:sub(1, 20) .. "... " .. #word .. " letters" end
  return count .. " " .. word
end

--- A size that wordcount.lua works with: what is awkward for it lies around this many bytes.
local function size_in_source(name)
  local file = assert(io.open("examples/wordcount.lua"))
  local value = file:read("*a"):match("local " .. name .. " = ([%d *^]+)")
  file:close()
  return loadstring("return " .. value)()
end

local function field(report, name)
  return tonumber(report:match("\n" .. name .. " +(%d+)"))
end

--- Both ways of running it, against coreutils over the same files.
local function assert_counts(files, arguments)
  local table_wanted, lines_wanted = reference(files)
  local words_wanted, distinct_wanted, top_wanted = 0, 0, {}
  for count, word in table_wanted:gmatch("(%d+) (%a+)\n") do
    words_wanted, distinct_wanted = words_wanted + count, distinct_wanted + 1
    if distinct_wanted <= 20 then top_wanted[distinct_wanted] = row(count, word) end
  end

  local report, status = wordcount(arguments or files)
  assert.equal("", stderr_text())
  assert.equal(0, status)
  local top = {}
  for count, word in report:gmatch(" (%d+) (%a+)\n") do top[#top + 1] = row(count, word) end
  assert.same(top_wanted, top)
  assert.equal(lines_wanted, field(report, "lines"))
  assert.equal(words_wanted, field(report, "words"))
  assert.equal(distinct_wanted, field(report, "distinct"))

  local all = wordcount("--all " .. (arguments or files))
  -- Not assert.equal on the two: a difference in a megabyte of text would print a megabyte.
  assert.is_true(all == table_wanted, "the table of --all is not that of coreutils")
end

describe("examples/wordcount.lua", function()
  setup(function()
    directory = sh("mktemp -d"):match("[^\n]+")
  end)

  teardown(function()
    sh("rm -rf " .. quote(directory))
  end)

  it("counts the licence texts without arguments, links left out", function()
    if sh("ls " .. licences) == "" then return pending("no " .. licences .. " here") end
    assert_counts("$(find " .. licences .. " -type f)", " ")
  end)

  it("counts files named as arguments, one named twice as two", function()
    local file = file_of("named", "one two two\n")
    assert_counts(file .. " " .. file)
  end)

  it("needs no newline at the end of a file, nor joins words of two files", function()
    -- cat joins the two files' words, so here the wanted counts are written out
    local first, second = file_of("first", "one two"), file_of("second", "three\nfour")
    assert.equal("1 four\n1 one\n1 three\n1 two\n", (wordcount("--all " .. first .. " " .. second)))
    assert.equal(1, field(wordcount(first .. " " .. second), "lines"))
    assert_counts(first)
  end)

  it("takes CRLF, empty files and files without a letter", function()
    assert_counts(file_of("crlf", "one\r\ntwo\r\n\r\nOne\r\n"))
    assert_counts(file_of("empty"))
    assert_counts(file_of("newlines", "\n\n\n"))
    assert_counts(file_of("digits", "1 2 3 -- 4\n"))
  end)

  it("takes bytes of every value", function()
    local bytes = {}
    for value = 0, 255 do bytes[#bytes + 1] = string.char(value) .. "x" end
    assert_counts(file_of("bytes", table.concat(bytes), "\0\0ab\0cd\255Ef\n\0"))
    assert_counts(file_of("utf8", "naïve café Ünïted Straße\n"))
  end)

  it("takes random bytes, a few megabytes of them", function()
    sh(("head -c %d /dev/urandom >%s"):format(sanitized and 300000 or 3000000, quote(path_of("random"))))
    assert_counts(quote(path_of("random")))
  end)

  it("takes a huge line and a huge word", function()
    local n = sanitized and 30000 or 300000
    assert_counts(file_of("line", ("word and word; "):rep(n)))
    assert_counts(file_of("word", "short ", ("LongWord"):rep(n), " short"))
  end)

  it("sees a word whole wherever it lies in what is read at once", function()
    local block = size_in_source("BLOCK_BYTES")
    for _, offset in ipairs(sanitized and { -3, 0 } or { -6, -3, -1, 0, 1 }) do
      assert_counts(file_of("block", ("."):rep(block + offset), "straddle", ("\n"):rep(block), "End"))
    end
  end)

  it("sees a word whole wherever it lies in the split of a big file", function()
    local split = size_in_source("SPLIT_BYTES")
    local line = (("."):rep(63) .. "\n"):rep(split / 64)   -- few words: coreutils' sort is slow
    for _, offset in ipairs(sanitized and { -1 } or { -1, 0, 1 }) do
      -- the two cuts: one in a word, with a newline beside it; one in a word longer than a block
      assert_counts(file_of("split",
        line:sub(1, split + offset - 4), "\nstraddle\nnext\n", line:sub(1, split - 300000),
        ("x"):rep(600000), "\nlast\n", line:sub(1, 100)))
    end
    os.remove(path_of("split"))
  end)

  it("gives a word that spans whole splits to one reader", function()
    if os.getenv "PIERROT_SANITIZER" == "thread" then return pending "a word of 20 MB takes 20 s" end
    local long_word = ("b"):rep(2.5 * size_in_source("SPLIT_BYTES"))
    assert_counts(file_of("spans", "a ", long_word, sanitized and " c\n" or ""))
    os.remove(path_of("spans"))
  end)

  it("reads a pipe", function()
    local out = sh(("printf 'one two\\nTwo' | %s run examples/wordcount.lua --all /dev/stdin")
      :format(quote(pierrot_bin)))
    assert.equal("2 two\n1 one\n", out)
  end)

  it("names what it cannot read, counts the rest, and ends with status 1", function()
    local good = file_of("good", "one two\n")
    local missing = path_of("missing")
    local out, status = wordcount(("--all %s %s %s"):format(quote(missing), good, quote(directory)))
    assert.equal("1 one\n1 two\n", out)
    assert.equal(1, status)
    assert.truthy(stderr_text():find(
      "wordcount: " .. missing .. ": No such file or directory\n", 1, true))
    assert.truthy(stderr_text():find("wordcount: " .. directory .. ": Is a directory\n", 1, true))
    assert.truthy(stderr_text():find("wordcount: 2 files could not be read", 1, true))
  end)

  it("explains a wrong option", function()
    local out, status = wordcount("--frobnicate")
    assert.equal("", out)
    assert.equal(1, status)
    assert.truthy(stderr_text():find("unknown option --frobnicate", 1, true))
  end)

  it("draws no progress line into a file", function()
    wordcount(file_of("quiet", "one\n"))
    assert.equal("", stderr_text())
  end)
end)
