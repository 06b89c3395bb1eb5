--- The examples of README.md and of the pages in docs/: each is run, and prints what stands below it.
--
-- A block is fenced with ```lua and followed by ```output: what is on stdout, exactly, or by ```output~:
-- a Lua pattern for each line. What it logs follows in ```stderr or ```stderr~; without that, stderr must
-- be empty. After ```lua may stand: exit=N, the exit status (0); args=a,b, the script's arguments;
-- file=NAME, a file for the example that follows instead of an example; test=NAME, a file of that name for `pierrot test`.
-- An example whose first line is `-- plain` is a program for luajit, the others are for `pierrot run`.
--
-- PIERROT_BIN, PIERROT_LUAJIT and PIERROT_BUILD name what is tested; spec/run sets them.
-- sanitizers: address

local DOCUMENTS = { "README.md", "docs/guide.md", "docs/flow.md", "docs/reload.md", "docs/testing.md" }
-- What these use, others show sanitizers.
if not os.getenv "PIERROT_SANITIZER" then
  for _, name in ipairs { "operating", "tuning", "from-skynet", "from-otp", "from-akka" } do
    DOCUMENTS[#DOCUMENTS + 1] = "docs/" .. name .. ".md"
  end
end
-- Sessions at the prompt, fenced with ```prompt: lines after "> " and ">> " are typed, the others are what comes of them, on
-- stdout and stderr; after ```prompt~ each of those is a Lua pattern.
local SESSIONS = { "docs/prompt.md" }
local TIME_LIMIT_SECONDS = 60

local function quote(word)
  return "'" .. word:gsub("'", "'\\''") .. "'"
end

--- The output of a shell command.
local function sh(command)
  local pipe = assert(io.popen(command))
  local out = pipe:read("*a")
  pipe:close()
  return out
end

local root = sh("pwd -P"):match("[^\n]+")

local function absolute(path)
  return path:sub(1, 1) == "/" and path or root .. "/" .. path
end

local build = absolute(os.getenv("PIERROT_BUILD") or "build")
local pierrot_bin = absolute(os.getenv("PIERROT_BIN") or "build/pierrot")
local luajit = os.getenv("PIERROT_LUAJIT") or "luajit"

local function read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read("*a")
  file:close()
  return text
end

local function write(path, text)
  local file = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
end

--- All fenced blocks: { kind, attributes, text, line }.
local function blocks_of(document)
  local blocks, block, number = {}, nil, 0
  for line in (read(document) .. "\n"):gmatch("(.-)\n") do
    number = number + 1
    local info = line:match("^```(.*)$")
    if block and info == "" then
      block.text = #block > 0 and table.concat(block, "\n") .. "\n" or ""
      blocks[#blocks + 1], block = block, nil
    elseif block then
      block[#block + 1] = line
    elseif info then
      block = { kind = info:match("^%S*"), line = number, exit = "0" }
      for key, value in info:gmatch("(%w+)=(%S+)") do block[key] = value end
    end
  end
  assert(not block, document .. ": a block has no end")
  return blocks
end

--- Examples with what they need and what they print, in order.
local function examples_of(document)
  local blocks, examples, files = blocks_of(document), {}, {}
  for i, block in ipairs(blocks) do
    if block.kind == "lua" and block.file then
      files[#files + 1] = block
    elseif block.kind == "lua" then
      local example = { document = document, block = block, files = files }
      files = {}
      for j = i + 1, #blocks do
        local name = blocks[j].kind:match("^(%l+)~?$")
        if name ~= "output" and name ~= "stderr" then break end
        if example[name] then break end
        example[name] = blocks[j]
      end
      examples[#examples + 1] = example
    end
  end
  return examples
end

local function lines_of(text)
  local lines = {}
  for line in text:gmatch("([^\n]*)\n") do lines[#lines + 1] = line end
  return lines
end

--- Compares what came with what the document says.
local function assert_like(block, text)
  if not block or block.kind:sub(-1) ~= "~" then
    assert.equal(block and block.text or "", text)
    return
  end
  local wanted, got = lines_of(block.text), lines_of(text)
  for i, pattern in ipairs(wanted) do
    assert.is_truthy((got[i] or ""):find("^" .. pattern .. "$"),
      ("line %d should be like\n  %s\nand is\n  %s\nof\n%s"):format(i, pattern, got[i] or "(missing)", text))
  end
  assert.equal(#wanted, #got, "lines in\n" .. text)
end

local function run(example, directory)
  local block = example.block
  local name = block.test or "example.lua"
  write(directory .. "/" .. name, block.text)
  for _, file in ipairs(example.files) do write(directory .. "/" .. file.file, file.text) end
  local arguments = {}
  for argument in (block.args or ""):gmatch("[^,]+") do arguments[#arguments + 1] = quote(argument) end
  local command = block.text:find("^%-%- plain\n") and quote(luajit) or quote(pierrot_bin) .. (block.test and " test" or " run")
  local status = sh(("cd %s && LUA_PATH=';;' LUA_CPATH=%s timeout --foreground %d %s %s %s "
    .. ">stdout 2>stderr </dev/null; echo $?"):format(quote(directory), quote(build .. "/?.so;;"),
    TIME_LIMIT_SECONDS, command, name, table.concat(arguments, " ")))
  return read(directory .. "/stdout"), read(directory .. "/stderr"), status:match("%d+")
end

for _, document in ipairs(DOCUMENTS) do
  describe(document, function()
    local directory

    before_each(function() directory = sh("mktemp -d"):match("[^\n]+") end)
    after_each(function() sh("rm -rf " .. quote(directory)) end)

    local examples = examples_of(document)

    it("has examples", function()
      assert.is_true(#examples > 0)
    end)

    for _, example in ipairs(examples) do
      it(("line %d: the example prints what it says"):format(example.block.line), function()
        assert.is_truthy(example.output, "no output block follows the example")
        local stdout, stderr, status = run(example, directory)
        assert.equal(example.block.exit, status, "exit status; stderr: " .. stderr)
        assert_like(example.output, stdout)
        assert_like(example.stderr, stderr)
      end)
    end
  end)
end

for _, document in ipairs(SESSIONS) do
  describe(document, function()
    for _, block in ipairs(blocks_of(document)) do
      if block.kind:find "^prompt~?$" then
        it(("line %d: the session goes as it says"):format(block.line), function()
          local directory = sh("mktemp -d"):match("[^\n]+")
          local typed, answers = {}, {}
          for _, line in ipairs(lines_of(block.text)) do
            local text = line:match "^>>? (.*)$"
            table.insert(text and typed or answers, text or line)
          end
          write(directory .. "/lines", table.concat(typed, "\n") .. "\n")
          local out = sh(("cd %s && PIERROT_HISTORY= timeout --foreground %d %s repl --log error <lines 2>&1"):format(
            quote(directory), TIME_LIMIT_SECONDS, quote(pierrot_bin)))
          sh("rm -rf " .. quote(directory))
          assert_like({ kind = block.kind, text = table.concat(answers, "\n") .. "\n" }, out)
        end)
      end
    end
  end)
end
