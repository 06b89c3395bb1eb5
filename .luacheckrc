-- Read by luacheck (`make check`).
std = "luajit"
cache = false
max_line_length = 120
ignore = {
  "212/self", -- handlers get `self` whether they need it or not
  "581",      -- `not (a >= b)` is not `a < b` where NaN may come
}

exclude_files = { "build*" }

files["spec"] = { std = "+busted", max_line_length = 140 }
files["lua/pierrot/inside.lua"] = { ignore = { "121", "122" } } -- its job is to replace globals
files["lua/pierrot/meta.lua"] = { -- annotations: bodies are empty, lines are prose
  ignore = { "211", "212" },
  max_line_length = false,
}
