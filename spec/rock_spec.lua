-- The rock: built from the source rock of what is committed, packed, and installed into an empty tree from a server that
-- is a directory, with what it depends on made into rocks of what this machine has. No network.
-- begun first

local script = require "support.script"
local quote, sh = script.quote, script.sh

local function has(command) return select(2, sh("command -v " .. command .. " >/dev/null")) == 0 end

describe("the rock", function()
  if os.getenv "PIERROT_SANITIZER" then return pending("is built without sanitizers") end
  if not (has "luarocks" and has "zip" and has "unzip" and has "git" and select(2, sh "git rev-parse HEAD >/dev/null 2>&1") == 0) then
    return pending "needs luarocks, zip, unzip and a git checkout"
  end
  teardown(script.clean)

  local top = sh "pwd":match "[^\n]+"
  local server, tree = script.path "server", script.path "tree"
  -- Quickly built: the optimising across files is the same as in any other build.
  local environment = ("MAKEFLAGS='-j2 -- LTO=' LUAROCKS_CONFIG=%s LUAJIT_BIN=$(command -v %s) HOME=%s "
    .. "LUAJIT_INCDIR=$(pkg-config --variable=includedir luajit)"):format(
    quote(top .. "/rockspec/luarocks-config.lua"), script.luajit, quote(script.path "home"))

  local function must(command)
    local out, status = sh(command .. " 2>&1")
    assert(status == 0, command .. "\n" .. out)
    return out
  end

  -- A module that is installed here, as a rock on the server.
  local function serve(name, version, module, kind, file)
    local dir = script.path("rock-" .. name)
    must(("mkdir -p %s && cp %s %s/"):format(quote(dir), quote(file), quote(dir)))
    script.write("rock-" .. name .. "/" .. name .. "-" .. version .. ".rockspec", ([[
      package, version, source, dependencies = %q, %q, { url = "." }, { "lua == 5.1" }
      build = { type = "none", install = { %s = { [%q] = %q } } }
    ]]):format(name, version, kind, module, file:match "[^/]+$"))
    must(("cd %s && %s luarocks --tree=%s make %s-%s.rockspec && cd %s && %s luarocks --tree=%s pack %s"):format(quote(dir),
      environment, quote(dir .. "/tree"), name, version, quote(server), environment, quote(dir .. "/tree"), name))
  end

  it("is described twice, for the checkout and for the release, alike", function()
    local version = script.read "src/pierrot.h":match 'PIERROT_VERSION "(.-)"'
    local function body(name)
      return script.read("rockspec/pierrot-" .. name .. ".rockspec"):match "rockspec_format.*":gsub("\nversion[^\n]*\nsource[^\n]*", "")
    end
    assert.equal(body "scm-1", body(version .. "-1"))
  end)

  it("installs into an empty tree: the module and the command", function()
    must(("mkdir -p %s %s"):format(quote(server), quote(script.path "home")))
    serve("lua-cjson", "2.1.0-1", "cjson", "lib", assert(package.searchpath("cjson", package.cpath)))
    serve("argparse", "0.7.1-1", "argparse", "lua", assert(package.searchpath("argparse", package.path)))
    local release = script.path "release"
    must(("make BUILD=%s release"):format(quote(release)))
    must(("cd %s && %s luarocks --tree=%s build --deps-mode=none --pack-binary-rock %s"):format(quote(server), environment,
      quote(script.path "build"), (must(("ls %s/release/*.src.rock"):format(quote(release))):gsub("\n", ""))))
    must(("%s luarocks-admin make_manifest %s"):format(environment, quote(server)))
    must(("%s luarocks --tree=%s --only-server=%s install pierrot"):format(environment, quote(tree), quote(server)))
    local program = script.write("program.lua", [[
      local pierrot = require "pierrot"
      assert(pierrot.start { log = "none" })
      print(pierrot.spawn(function(_, x) return x + 1 end):ask(41))
      pierrot.shutdown()
    ]])
    assert.equal("42\n", must(("env -i PATH=\"$PATH\" LUA_PATH='%s/share/lua/5.1/?.lua;;' LUA_CPATH='%s/lib/lua/5.1/?.so;;' %s %s"):format(
      tree, tree, script.luajit, quote(program))))
    local actors = script.write("actors.lua", [[
      local pierrot = require "pierrot"
      print(pierrot.spawn(function() return require("cjson").encode { 1 } end):ask())
    ]])
    assert.equal("[1]\n", must(("env -i %s/bin/pierrot run %s"):format(quote(tree), quote(actors))))
  end)

  it("says under another Lua what to do", function()
    if not has "lua5.1" then return pending "needs lua5.1" end
    local out = sh(("env -i PATH=\"$PATH\" LUA_CPATH='%s/lib/lua/5.1/?.so' lua5.1 -e 'require \"pierrot\"' 2>&1"):format(tree))
    assert.truthy(out:find("LuaJIT", 1, true), out)
  end)
end)
