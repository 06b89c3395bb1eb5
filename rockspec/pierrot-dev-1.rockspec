-- Built from a checkout by `make rock`, or
--   LUAROCKS_CONFIG=rockspec/luarocks-config.lua luarocks make rockspec/pierrot-dev-1.rockspec
rockspec_format = "3.0"
package = "pierrot"
version = "dev-1"
source = { url = "." }
description = {
  summary = "An actor runtime scripted in Lua",
  detailed = "Actors written in Lua, run by a C core on all processor cores: mailboxes, supervision, timers.",
  license = "MIT",
}
supported_platforms = { "linux" }
dependencies = {
  "lua == 5.1", -- LuaJIT 2.1; a bound on `luajit` itself would not match Debian's 2.1.0-beta3
  "lua-cjson >= 2.1",
  "argparse >= 0.7",
}
-- The Makefile finds the sources and embeds the Lua half: a list here would only repeat it.
build = {
  type = "make",
  build_target = "module",
  build_variables = {
    CFLAGS = "$(CFLAGS)",
    LUA_CFLAGS = "-I$(LUA_INCDIR)",
    LUAJIT = "$(LUA)",
  },
  install_target = "rock-install",
  install_variables = { LIBDIR = "$(LIBDIR)", LUADIR = "$(LUADIR)" },
}
