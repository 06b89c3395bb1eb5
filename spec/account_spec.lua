-- examples/account.lua: the account that fails is started anew and has lost its balance; the one that replies has not.

local script = require "support.script"

describe("examples/account.lua", function()
  teardown(script.clean)

  it("restarts the account that fails, and keeps the balance of the one that replies", function()
    for _, workers in ipairs { 1, 2, 4 } do
      local result = script.command(("%s run --log error --workers %d examples/account.lua"):format(script.quote(script.bin), workers), 60)
      assert.equal(0, result.status, result.err)
      assert.equal(table.concat({
        "fragile",
        "\tdeposit 50\t50",
        "\twithdraw 80\tfailed: insufficient funds",
        "\tdeposit 5\t5",
        "\trestarts\t1",
        "careful",
        "\tdeposit 50\t50",
        "\twithdraw 80\trefused: insufficient funds",
        "\tdeposit 5\t55",
        "\trestarts\t0",
      }, "\n") .. "\n", result.out)
      local failures = 0
      for _ in result.err:gmatch "failed in its handler for \"withdraw\"" do failures = failures + 1 end
      assert.equal(1, failures)
    end
  end)
end)
