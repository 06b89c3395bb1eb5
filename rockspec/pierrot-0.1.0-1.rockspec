-- The release: pierrot-scm-1.rockspec with a version and an archive, whose place `make release` fills in.
rockspec_format = "3.0"
package = "pierrot"
version = "0.1.0-1"
source = { url = "pierrot-0.1.0.tar.gz", dir = "pierrot-0.1.0" }
description = {
  summary = "An actor runtime scripted in Lua",
  detailed = "Actors written in Lua, run by a C core on all processor cores: mailboxes, supervision, timers. "
    .. "The module `pierrot` for LuaJIT and the command `pierrot`.",
  license = "MIT",
}
supported_platforms = { "linux" }
dependencies = {
  "lua == 5.1", -- LuaJIT 2.1; a bound on `luajit` itself would not match Debian's 2.1.0-beta3
  "lua-cjson >= 2.1",
  "argparse >= 0.7",
}
-- Named by LuaRocks where they are missing. The command has LuaJIT in it; the module takes it from its host.
external_dependencies = {
  LUAJIT = { header = "luajit-2.1/luajit.h", library = "luajit-5.1" },
}
-- The Makefile finds the sources and embeds the Lua half: a list here would only repeat it.
build = {
  type = "make",
  build_target = "all",
  build_variables = {
    CFLAGS = "$(CFLAGS)",
    LUA_CFLAGS = "-I$(LUA_INCDIR)",
    LUA_LIBS = "-L$(LUAJIT_LIBDIR) -lluajit-5.1",
    LUAJIT = "$(LUA)",
  },
  install_target = "rock-install",
  install_variables = { LIBDIR = "$(LIBDIR)", LUADIR = "$(LUADIR)", BINDIR = "$(BINDIR)" },
}
