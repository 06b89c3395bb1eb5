--- An installed Pierrot in a prefix of its own, and programs in C that use it: shared, static, by CMake, in event loops.
--
-- Mutants caught: pierrot.pc with a path of the build; a header that needs another one; an uninstall that leaves a file.

local script = require "support.script"
local quote, sh = script.quote, script.sh

local root = sh("pwd"):match("[^\n]+")
local prefix

-- MAKEFLAGS: this may run below a make that has a job server.
local function make(targets)
  local out, status = sh(("env -u MAKEFLAGS -u MAKELEVEL make -s %s BUILD=%s PREFIX=%s 2>&1"):format(
    targets, quote(script.build), quote(prefix)))
  assert(status == 0, out)
end

local function has(command)
  return select(2, sh("command -v " .. command .. " >/dev/null 2>&1")) == 0
end

local function pc(arguments)
  local out, status = sh(("PKG_CONFIG_PATH=%s/lib/pkgconfig pkg-config %s 2>&1"):format(quote(prefix), arguments))
  assert(status == 0, out)
  return (out:gsub("\n", " "))
end

-- Compiles and runs: its output.
local function program(line, name)
  local out, status = sh(("%s -o %s 2>&1"):format(line, quote(script.path(name))))
  assert(status == 0 and out == "", out)
  local run = script.command(("env LD_LIBRARY_PATH=%s/lib %s"):format(quote(prefix), quote(script.path(name))), 60)
  assert(run.status == 0, run.err .. run.out)
  return run.out
end

local WARNINGS = "-Wall -Wextra -Werror -pedantic"
local HELLO = "Hello, Pierrot\nHello, Columbine\nHello, Harlequin\n3 greetings, by version %d+%.%d+%.%d+\n"

describe("the header", function()
  teardown(script.clean)

  local function compiles(compiler)
    local path = script.write("header.c", '#include "pierrot.h"\nint main(void) { return !pierrot_version(); }\n')
    local out, status = sh(("%s %s -I%s/src -fsyntax-only %s 2>&1"):format(compiler, WARNINGS, quote(root), quote(path)))
    assert(status == 0 and out == "", out)
  end

  it("is C11", function() compiles("${CC:-cc} -std=c11 -x c") end)

  it("is C++17", function()
    if not has "${CXX:-c++}" then return pending("there is no C++ compiler") end
    compiles("${CXX:-c++} -std=c++17 -x c++")
  end)
end)

describe("an installed Pierrot", function()
  if script.sanitized then
    it("is built without a sanitizer", function() pending("the plain build's test installs") end)
    return
  end

  setup(function()
    prefix = script.path("prefix")
    make "install"
  end)
  teardown(script.clean)

  it("says where it is, and nothing of where it was built", function()
    local text = script.read(prefix .. "/lib/pkgconfig/pierrot.pc")
    assert.is_nil(text:find(root, 1, true))
    assert.equal(script.read "man/pierrot.1", script.read(prefix .. "/share/man/man1/pierrot.1"))
    assert.is_truthy(pc("--modversion pierrot"):find("^%d+%.%d+%.%d+"))
    assert.equal("", (pc("--libs pierrot"):gsub("%-L%S+%s*", ""):gsub("%-lpierrot%s*", "")))
  end)

  it("goes into a staging directory, and can be moved", function()
    local kept = prefix
    prefix = "/opt/pierrot"
    make("install DESTDIR=" .. quote(script.path("stage")))
    prefix = kept
    local out, status = sh(("PKG_CONFIG_PATH=%s/opt/pierrot/lib/pkgconfig pkg-config --cflags pierrot"):format(
      quote(script.path("stage"))))
    assert.equal(0, status)
    assert.is_truthy(out:find(script.path("stage"), 1, true))
  end)

  it("is linked with, shared", function()
    local line = ("${CC:-cc} -std=c11 %s examples/embed/hello.c %s"):format(WARNINGS, pc "--cflags --libs pierrot")
    assert.is_truthy(program(line, "shared"):find("^" .. HELLO .. "$"))
    assert.is_truthy(sh("readelf -d " .. quote(script.path("shared"))):find("NEEDED[^\n]*libpierrot%.so%.%d+%]"))
  end)

  it("is linked with, static", function()
    local line = ("${CC:-cc} -std=c11 %s examples/embed/hello.c %s -l:libpierrot.a %s"):format(WARNINGS,
      pc "--cflags --libs-only-L pierrot", pc("--static --libs pierrot"):gsub("%-lpierrot", ""))
    assert.is_truthy(program(line, "static"):find("^" .. HELLO .. "$"))
    assert.is_nil(sh("readelf -d " .. quote(script.path("static"))):find("libpierrot", 1, true))
  end)

  it("is found by CMake", function()
    if not has "cmake" then return pending("there is no cmake") end
    local tree = quote(script.path("cmake"))
    local out, status = sh(("PKG_CONFIG_PATH=%s/lib/pkgconfig cmake -S examples/embed -B %s 2>&1 && "
      .. "env -u MAKEFLAGS -u MAKELEVEL cmake --build %s 2>&1"):format(quote(prefix), tree, tree))
    assert(status == 0, out)
    local run = script.command(quote(script.path("cmake/hello")), 60)
    assert.equal(0, run.status)
    assert.is_truthy(run.out:find("^" .. HELLO .. "$"))
  end)

  it("lives in an epoll loop", function()
    local line = ("${CC:-cc} -std=gnu11 %s examples/embed/epoll.c %s"):format(WARNINGS, pc "--cflags --libs pierrot")
    assert.is_truthy(program(line, "epoll"):find("^done after %d+ wake%-ups\n$"))
  end)

  it("lives in libuv's loop", function()
    if select(2, sh "pkg-config --exists libuv") ~= 0 then return pending("there is no libuv to compile with") end
    local line = ("${CC:-cc} -std=gnu11 %s examples/embed/uv.c %s"):format(WARNINGS, pc "--cflags --libs pierrot libuv")
    assert.equal("42\n", program(line, "uv"))
  end)

  it("leaves nothing behind", function()
    make "uninstall"
    assert.equal("", (sh(("find %s -type f -o -type l"):format(quote(prefix)))))
  end)
end)
