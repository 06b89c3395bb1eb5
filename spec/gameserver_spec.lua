--- examples/gameserver, whole: 200 bots, in ticks and with threads; its own figures must add up.
--
-- Nothing here is timed by the wall clock: ticks and handlers measure the time of their thread, and the bots wait.
--
-- Mutants caught: a tick that does not look at its budget; an answer that finds no client; a director that takes any tuning; an
-- end that is not told to the map.
-- sanitizers: thread

local script = require "support.script"
local quote, sh = script.quote, script.sh

local sanitizer = os.getenv "PIERROT_SANITIZER"
local FLAGS = { thread = "-O1 -g -fsanitize=thread", address = "-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=undefined" }
local WANDERERS = sanitizer and 300 or 3000
local MOVES = sanitizer and 5 or 15

local TUNING = "return { wanderer = { speed = %s, sight = 5, think = 0.2 }, guard = { speed = 2.5, sight = 8, think = 0.1, damage = 2 },\n"
  .. "player = { speed = 6, health = 100, idle = 60 } }\n"
-- A bug in one NPC.
local PLANTED = 'think = function(self)\n      if self.id == 7 then error "planted" end\n'

local pid

local function out() return script.read(script.path "server.out") or "" end
local function err() return script.read(script.path "server.err") or "" end

-- Until what the server says has it.
local function wait_for(pattern, where)
  for _ = 1, 6000 do
    local found = { (where or out)():match(pattern) }
    if found[1] then return unpack(found) end
    sh "sleep 0.01"
  end
  error(("no %q in:\n%s%s"):format(pattern, out(), err()))
end

local function serve(flags, wanderer)
  local scripts = quote(script.path "scripts")
  sh(("rm -rf %s; cp -r examples/gameserver/scripts %s"):format(scripts, scripts))
  if wanderer then script.write("scripts/wanderer.lua", wanderer) end
  script.write("tuning.lua", TUNING:format "1.5")
  pid = sh(("%s --scripts %s --tuning %s --measure %s >%s 2>%s </dev/null & echo $!"):format(quote(script.path "server"), scripts,
    quote(script.path "tuning.lua"), flags, quote(script.path "server.out"), quote(script.path "server.err"))):match "%d+"
  return wait_for "listening on port (%d+)"
end

-- Its last words, all of them.
local function ended()
  wait_for "\nended: [^\n]*\n"
  pid = nil
  return out()
end

local function play(port)
  local run = script.command(("%s --port %s --bots 200 --moves %d --limit 120"):format(quote(script.path "bots"), port, MOVES), 150)
  assert(run.status == 0, run.out .. run.err .. out() .. err())
  assert.is_truthy(run.out:find(("200 bots: %d of %d moves answered"):format(200 * MOVES, 200 * MOVES), 1, true))
end

local function figures(text, pattern)
  local found = { text:match(pattern) }
  assert(found[1], text)
  for i = 1, #found do found[i] = tonumber(found[i]) end
  return unpack(found)
end

-- The budget is checked between handlers, so a tick ends with the one in hand. What is no handler (births, timers, the
-- collector's step) is the slack; a tick that looked at no budget would take all that is due.
local function assert_within_budget(text)
  local budget, over, worst = figures(text, "budget: (%d+) us; (%d+) ticks over it, by (%d+) us at most")
  local longest = figures(text, "longest handler: (%d+) us")
  assert(longest > 0, text)
  assert(worst <= longest + (sanitizer and 50000 or 5000), text)
  return budget, over
end

local function assert_ends_well(text, lost)
  local asked, answered = figures(text, "moves: (%d+) asked, (%d+) answered")
  assert(asked >= 200 * MOVES and answered == asked, text)
  local reported, npcs, gone = figures(text, "roll call: (%d+) of (%d+) NPCs answer, (%d+) lost")
  assert.same({ npcs - gone, lost }, { reported, gone })
  assert.is_truthy(text:find("\nended: ok\n", 1, true))
end

local function broken_wanderer()
  local text, replaced = script.read("examples/gameserver/scripts/wanderer.lua"):gsub("think = function%(self%)\n",
    function() return PLANTED end)
  assert.equal(1, replaced)
  return text
end

describe("examples/gameserver", function()
  setup(function()
    local line = ("env -u MAKEFLAGS -u MAKELEVEL make -s -C examples/gameserver OUT=%s CFLAGS=%s PIERROT=%s 2>&1"):format(
      quote((script.path("x"):gsub("/x$", ""))), quote((FLAGS[sanitizer] or "-O2") .. " -Werror"),
      quote(("-I%s/src -L%s -lpierrot -Wl,-rpath,%s %s"):format(sh("pwd"):match "[^\n]+", script.build, script.build,
        sh "pkg-config --cflags --libs luajit":match "[^\n]+")))
    local said, status = sh(line)
    assert(status == 0 and said == "", said)
  end)
  after_each(function()
    if pid then sh("kill -9 " .. pid .. " 2>/dev/null") end
    pid = nil
  end)
  teardown(script.clean)

  it("answers every move in ticks, takes a new tuning, and loses no more than the NPC that fails", function()
    local port = serve(("--wanderers %d"):format(WANDERERS), broken_wanderer())
    play(port)
    script.write("tuning.lua", TUNING:format "'fast'")
    assert.equal("wanderer.speed: a number above 0, and at most 8, expected; got fast",
      wait_for "tuning: refused, the old one stays: ([^\n]+)")
    script.write("tuning.lua", TUNING:format "2")
    wait_for "tuning: taken"
    wait_for "lost: entity 7, "
    sh("kill -TERM " .. pid)
    local text = ended()
    assert_ends_well(text, 1)
    assert(figures(text, "; (%d+) failures") >= 4, text)
    for failure in err():gmatch "[^\n]*failed in its[^\n]*" do
      assert.is_truthy(failure:find("planted", 1, true), failure)
    end
    assert_within_budget(text)
  end)

  it("does the same with threads", function()
    local port = serve(("--threads --wanderers %d"):format(WANDERERS))
    play(port)
    sh("kill -INT " .. pid)
    assert_ends_well(ended(), 0)
    assert.equal("", err())
  end)

  it("is over its budget by the longest handler at most, when every tick is full", function()
    serve(("--wanderers 0 --guards %d --budget 1000 --seconds 1"):format(sanitizer and 100 or 500))
    local text = ended()
    local _, over = assert_within_budget(text)
    assert(over > 0 or sanitizer, text)
  end)

  it("says what is wrong with its start", function()
    local server = quote(script.path "server")
    local run = script.command(server .. " --guards many")
    assert.same({ 2, "gameserver: many: a number from 0 to 7168 expected\n" }, { run.status, run.err })
    run = script.command(server .. " --tuning /no/such/file")
    assert.same({ 1, "gameserver: /no/such/file: No such file or directory\n" }, { run.status, run.err })
    script.write("tuning.lua", "return 1")
    run = script.command(("%s --scripts examples/gameserver/scripts --tuning %s"):format(server, quote(script.path "tuning.lua")))
    assert.equal(1, run.status)
    assert.is_truthy(run.err:find "a table expected, got number")
    assert.is_truthy(run.err:find "it cannot be used; the log says why\n$")
  end)
end)
