--- examples/fleet.lua in small: 2,000 devices, a short reporting period, many malformed readings.
-- What it prints must add up. PIERROT_BIN names the command to test; default build/pierrot.
-- sanitizers: thread

local pierrot_bin = os.getenv("PIERROT_BIN") or "build/pierrot"

-- Begins a run; the function that it returns waits for the end. A device that is restarted later than its next report is due
-- leaves that out: so what counts failures runs with little beside it.
local function begin(arguments)
  local pipe = assert(io.popen(("timeout --foreground 120 '%s' run examples/fleet.lua %s 2>&1; echo status $?")
    :format(pierrot_bin, arguments)))
  return function()
    local out, status = pipe:read("*a"):match("^(.*)status (%d+)\n$")
    pipe:close()
    return out, tonumber(status)
  end
end

local function field(report, name)
  return tonumber(report:match("\n" .. name .. " +(%d+)"))
end

describe("examples/fleet.lua", function()
  it("restarts a device for each of its malformed readings, and adds up", function()
    local report, status = begin("2000 3 0.5 100")()
    assert.equal(0, status, report)
    assert.equal(2000, field(report, "devices"))
    assert.equal(2000 * 6, field(report, "reports due"))
    -- one in a hundred: that many, give or take
    assert.is_true(field(report, "malformed") > 60 and field(report, "malformed") < 240)
    assert.equal(field(report, "malformed"), field(report, "restarts"))
    assert.equal(0, field(report, "misplaced"))
    assert.is_true(field(report, "alerts") > 0)
    assert.equal(field(report, "reports due") + field(report, "alerts") + field(report, "malformed"),
      field(report, "messages"))
  end)

  it("bounds each device's mailbox: the newest readings are kept, and the alarm is shown", function()
    local report, status = begin("2000 2 0.5 1000000")()
    assert.equal(0, status, report)
    assert.equal(2, select(2, report:gsub(" s +%d+ messages/s", "")))   -- one line a second
    assert.equal(0, field(report, "restarts"))
    assert.same({ 80, 32, 48 }, { field(report, "held back"), field(report, "kept"), field(report, "dropped") })
    assert.equal(4, field(report, "alarms"))
    assert.truthy(report:find('\nwriters +4 on "blocking"\n'), report)
    for _, line in ipairs { "8 waiting, the alarm is at 8", "16 waiting, the alarm is at 8",
                            "4 waiting, the alarm is at 8; it is over" } do
      assert.truthy(report:find("overload    device 1: " .. line .. "\n", 1, true), report)
    end
  end)

  it("gives the same on every run", function()
    local function counts(finish)
      local report = finish()
      return { field(report, "alerts"), field(report, "malformed"), field(report, "restarts") }
    end
    local first, second = begin "100 1 0.5 10", begin "100 1 0.5 10"
    assert.same(counts(first), counts(second))
  end)

  it("explains wrong arguments", function()
    local report, status = begin("many")()
    assert.equal(1, status)
    assert.truthy(report:find("usage: pierrot run examples/fleet.lua", 1, true))
  end)
end)
