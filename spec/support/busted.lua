-- The `busted` command for spec/run, which chooses the interpreter itself.
require "busted.runner" { standalone = false }
