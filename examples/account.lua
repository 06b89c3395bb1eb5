-- A bank account, twice: how failure is ordinary.
--
-- The first account treats a withdrawal that is too big as an error of its own: it fails, its supervisor starts it
-- anew, and the balance is gone with its `self`. The second one replies that there is not enough: nothing fails,
-- and the balance survives. Run it:  pierrot run --log none examples/account.lua

local pierrot = require "pierrot"

-- What both have in common.
local function deposit(self, amount)
  self.balance = self.balance + amount
  return self.balance
end

local Fragile = {
  name = "fragile account",
  start = function(self, balance) self.balance = balance end,
  on = {
    deposit = deposit,
    withdraw = function(self, amount)
      if amount > self.balance then
        error({ code = "insufficient funds", balance = self.balance, asked = amount })
      end
      self.balance = self.balance - amount
      return self.balance
    end,
    balance = function(self) return self.balance end,
  },
}

local Careful = {
  name = "careful account",
  start = Fragile.start,
  on = {
    deposit = deposit,
    withdraw = function(self, amount)
      if amount > self.balance then
        return nil, "insufficient funds"
      end
      self.balance = self.balance - amount
      return self.balance
    end,
    balance = Fragile.on.balance,
  },
}

local function try(account, ...)
  local ok, result, reason = pcall(account.ask, account, ...)
  if not ok then
    return ("failed: %s"):format(result.cause.code)
  end
  return result or ("refused: %s"):format(reason)
end

pierrot.supervisor{
  { Fragile, 0, name = "fragile" },
  { Careful, 0, name = "careful" },
}:ask("count")   -- both have started

for _, name in ipairs { "fragile", "careful" } do
  local account = pierrot.whereis(name)
  print(name)
  print("", "deposit 50", try(account, "deposit", 50))
  print("", "withdraw 80", try(account, "withdraw", 80))
  print("", "deposit 5", try(account, "deposit", 5))
  print("", "restarts", account:info().restarts)
end
pierrot.shutdown()
