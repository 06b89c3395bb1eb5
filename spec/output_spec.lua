-- print and io.write from many workers: no line is ever mixed with another actor's, nothing is lost.

local script = require "support.script"

describe("output", function()
  teardown(script.clean)

  it("of 8 workers never mixes within a line", function()
    local out = script.output([[
      local pierrot = require "pierrot"
      local function writer(_, id, n)
        for k = 1, n do
          if id % 3 == 0 then
            print(id, k, ("p"):rep(id * 7))
          elseif id % 3 == 1 then
            io.write(id, "\t") io.write(k, "\t", ("p"):rep(id * 3)) pierrot.yield() io.write(("p"):rep(id * 4), "\n")
          else
            io.stdout:write(id, "\t", k) io.write("\t") io.stdout:write(("p"):rep(id * 7) .. "\n")
          end
        end
      end
      for id = 1, 16 do pierrot.spawn { writer, worker = (id - 1) % 8 + 1 }:tell(id, 300) end
    ]], { flags = "--workers 8 --log error" })
    local next_of, n = {}, 0
    for line in out:gmatch "([^\n]*)\n" do
      local id, k, p = line:match "^(%d+)\t(%d+)\t(p+)$"
      assert.truthy(id, line)
      id, k = tonumber(id), tonumber(k)
      assert(#p == id * 7, line)
      assert.equal((next_of[id] or 0) + 1, k)
      next_of[id] = k
      n = n + 1
    end
    assert.equal(16 * 300, n)
  end)

  it("keeps an unfinished line until it is finished, flushed, or its actor ends", function()
    assert.equal("abc\n", (script.output [[ io.write "a" io.write("b", "c\n") ]]))
    assert.equal("unfinished", (script.output [[ io.write "unfinished" ]]))
    assert.equal("one\ntwo", (script.output [[ io.write "one\ntwo" ]]))
    assert.equal("ab-\n", (script.output [[
      local pierrot = require "pierrot"
      io.write "a"
      io.flush()
      local b = pierrot.spawn(function() io.write "b" pierrot.stop() return 1 end)
      b:ask()
      while b:is_alive() do pierrot.sleep(0.001) end
      print "-"
    ]]))
  end)

  it("is as in plain Lua", function()
    assert.equal("1\tnil\ttrue\t1.5\tx\0y\n\n1e+20\tinf\n", (script.output [[
      print(1, nil, true, 1.5, "x\0y") print() print(1e20, math.huge) io.write() io.write ""
    ]]))
    assert.equal("called\tx\n", (script.output [[ print(setmetatable({}, { __tostring = function() return "called" end }), "x") ]]))
    assert.equal("12\ttrue\nfalse\n", (script.output [[ local r = io.write(1, 2, "\t") print(r == true or r == io.stdout)
      print((pcall(io.write, {}))) ]]))
    assert.equal(("x"):rep(300000) .. "\n", (script.output [[ print(("x"):rep(300000)) ]]))
    assert.equal(200000, #(script.output [[ for i = 1, 100000 do io.write "ab" end ]]))
  end)

  it("reaches a full or closed pipe without a crash", function()
    local r = script.sh(("%s run %s | head -n 1"):format(script.quote(script.bin),
      script.quote(script.write("pipe.lua", "for i = 1, 100000 do print(i) end"))))
    assert.equal("1\n", r)
    local path = script.write("full.lua", "for i = 1, 10000 do print(i) end")
    local result = script.command(("sh -c %s"):format(script.quote(("%s run %s >/dev/full"):format(
      script.quote(script.bin), script.quote(path)))))
    assert.equal(1, result.status)
    assert.truthy(#result.err > 0)
  end)

  -- 600 KB and more through a pipe of 64 KB whose reader comes late.
  it("loses nothing on a non-blocking stdout, from the start or made so on the way", function()
    for _, before in ipairs { "", "print(0) io.flush()", 'io.write(0) print ""' } do
      local path = script.write("nonblocking.lua", ([[
        local ffi = require "ffi"
        ffi.cdef "int fcntl(int, int, ...);"
        %s
        assert(ffi.C.fcntl(1, 4, ffi.cast("int", 2048)) == 0)
        for i = 1, 100000 do print(i) end
      ]]):format(before))
      local out = script.sh(("%s run %s | { sleep 0.2; grep -v ^0 | cksum; }"):format(script.quote(script.bin),
        script.quote(path)))
      assert.equal(script.sh "seq 100000 | cksum", out)
    end
  end)

  it("leaves other files alone", function()
    local path = script.path "written"
    assert.equal("on stdout\n", (script.output(([[
      local f = io.open(%q, "w") f:write("to ", "file\n") f:flush() f:close()
      io.output(%q) io.write "second\n" io.close() io.output(io.stdout)
      print "on stdout"
    ]]):format(path, path .. "2"))))
    assert.equal("to file\n", script.read(path))
    assert.equal("second\n", script.read(path .. "2"))
  end)
end)
