--- Bank transfers (Savina): a teller asks accounts for `transfers` transfers between two of `accounts` accounts. The
-- first account asks the second one to take the money, and takes no other order until that has said yes.
-- An operation is a transfer: the order, the ask and its answer, and the word to the teller. Measures actors that wait
-- for each other while their mailboxes fill. The money goes from lower numbers to higher ones, so there is no cycle.
-- Timed by the teller, from its first order to the last word. The result is the sum, over all accounts, of balance
-- times number.

local pierrot = require "pierrot"
local support = require "support"

local TIME_LIMIT_SECONDS = support.TIME_LIMIT_SECONDS

local Account = {
  name = "account",

  start = function(self)
    self.balance = 0
  end,

  on = {
    transfer = function(self, amount, to)
      local teller = pierrot.sender()
      self.balance = self.balance - amount
      to:ask_within(TIME_LIMIT_SECONDS, "deposit", amount)
      teller:tell "transferred"
    end,

    deposit = function(self, amount)
      self.balance = self.balance + amount
      return true
    end,

    balance = function(self) return self.balance end,
  },
}

local Teller = {
  name = "teller",

  start = function(self, main)
    self.main = main
  end,

  on = {
    work = function(self, accounts, transfers)
      self.left, self.started = transfers, pierrot.now()
      local count, random = #accounts, 12345
      local function below(n)
        random = (random * 1309 + 13849) % 65536
        return random % n
      end
      for _ = 1, transfers do
        local from = below(math.floor(count / 10) * 8) + 1
        local to = from + math.max(1, below(count - from + 1))
        accounts[from]:tell("transfer", below(1000), accounts[to])
      end
    end,

    transferred = function(self)
      self.left = self.left - 1
      if self.left == 0 then self.main:tell("done", pierrot.now() - self.started) end
    end,
  },
}

local function run(parameters)
  local transfers = parameters.transfers
  local accounts = {}
  for i = 1, parameters.accounts do accounts[i] = pierrot.spawn(Account) end
  local teller = pierrot.spawn(Teller, pierrot.self())
  teller:tell("work", accounts, transfers)
  local seconds = support.done "bank"

  local sum, result = 0, 0
  for i, account in ipairs(accounts) do
    local balance = account:ask "balance"
    sum, result = sum + balance, result + i * balance
  end
  support.check("bank: all the money", sum, 0)
  support.stop(accounts)
  support.stop { teller }
  return result, transfers, seconds
end

return { run = run }
