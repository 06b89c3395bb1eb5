--- man/pierrot.1 has the commands and options that the command itself lists with --help, and no others.

local script = require "support.script"
local quote = script.quote

local function set(list)
  table.sort(list)
  local out = {}
  for _, item in ipairs(list) do
    if out[#out] ~= item then out[#out + 1] = item end
  end
  return out
end

-- The page as one reads it, without its markup.
local page = assert(script.read "man/pierrot.1"):gsub("\\%-", "-")

local function help(command)
  local out, status = script.sh(quote(script.bin) .. " " .. command .. " --help")
  assert(status == 0, out)
  return out
end

describe("the man page", function()
  it("names each command, and no other", function()
    local listed, described = {}, {}
    for command in help "":match("Commands:\n(.*)"):gmatch "\n?%s+(%l+) [^\n]+" do listed[#listed + 1] = command end
    for command in page:match("\n%.SH DESCRIPTION\n(.-)\n%.SH "):gmatch "\n%.TP\n%.B (%l+)\n" do
      described[#described + 1] = command
    end
    assert.is_true(#listed >= 6)
    assert.same(set(listed), set(described))
    for _, command in ipairs(listed) do
      assert.is_truthy(page:find("\n.B pierrot " .. command .. "\n", 1, true), command)
    end
  end)

  it("describes the options of each command, and no other", function()
    local sections, title = {}, nil
    for line in (page:match("\n%.SH OPTIONS\n(.-)\n%.SH ") .. "\n"):gmatch "([^\n]*)\n" do
      title = line:match "^%.SS (.*)" or title
      if title then sections[title] = (sections[title] or "") .. line .. "\n" end
    end
    for _, command in ipairs { "run", "repl", "ctl", "top", "test", "bench", "version" } do
      local described = {}
      for heading, text in pairs(sections) do
        if heading == "all" or (", " .. heading .. ","):find(", " .. command .. ",", 1, true) then
          for option in text:gmatch "\n%.B[IR]? ([^\n]*)" do
            for name in option:gmatch "%-%-[%l-]+" do described[#described + 1] = name end
          end
        end
      end
      local own = {}
      for line in help(command):match("\nOptions:\n(.*)"):gmatch "[^\n]+" do
        local name = line:match "^   %-h, (%-%-help)" or line:match "^   (%-%-[%l-]+)"
        own[#own + 1] = name
      end
      assert.is_true(#own > 0)
      assert.same(set(own), set(described), command)
    end
  end)
end)
