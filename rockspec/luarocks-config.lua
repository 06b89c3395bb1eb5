-- For `make rock` (LUAROCKS_CONFIG): without it Debian's luarocks builds for PUC Lua 5.1.
-- The Makefile passes where LuaJIT is; the defaults are Debian's places.
local luajit = os_getenv "LUAJIT_BIN" or "/usr/bin/luajit"

lua_version = "5.1"
lua_interpreter = luajit:match "[^/]+$"
variables = {
  LUA = luajit,
  LUA_BINDIR = luajit:match "^(.*)/",
  LUA_INCDIR = os_getenv "LUAJIT_INCDIR" or "/usr/include/luajit-2.1",
}
