-- A million idle actors, each with one field of state, take at most 512 bytes each of resident memory, all told; when
-- they are stopped, the next million live in the same memory.

local script = require "support.script"

local sanitized = os.getenv "PIERROT_SANITIZER"

describe("a million actors", function()
  it("fit into 512 bytes each, and so do the next million", function()
    local count = sanitized and 20000 or 1000000
    local out = script.output(([[
      local pierrot = require "pierrot"
      local N = %d
      local function resident()
        for line in io.lines "/proc/self/status" do
          local kb = line:match "^VmRSS:%%s+(%%d+)"
          if kb then return tonumber(kb) * 1024 end
        end
      end
      local Idle = { start = function(self, n) self.n = n end, on = { get = function(self) return self.n end } }
      local before = resident()
      for round = 1, 3 do
        local refs = {}
        for i = 1, N do refs[i] = pierrot.spawn(Idle, i) end
        for i = 1, N, 997 do assert(refs[i]:ask_within(60, "get") == i) end
        assert(refs[N]:ask_within(60, "get") == N and pierrot.stats().actors == N + 1)
        print(math.floor((resident() - before) / N))
        for i = 1, N do assert(refs[i]:stop()) end
        while pierrot.stats().actors > 1 do pierrot.sleep(0.01) end
        assert(not refs[1]:is_alive() and refs[N]:tell("get") == nil)
      end
    ]]):format(count), { limit = 120 })
    local rounds = 0
    for bytes in out:gmatch "(%d+)\n" do
      rounds = rounds + 1
      -- A sanitizer's own memory is not the runtime's.
      assert.is_true(sanitized ~= nil or tonumber(bytes) <= 512, ("round %d: %d bytes each"):format(rounds, bytes))
    end
    assert.equal(3, rounds)
  end)
end)
