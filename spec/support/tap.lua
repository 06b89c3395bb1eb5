-- A busted output handler for spec/run: TAP, into the file that PIERROT_TAP names.
-- Not to stdout, where what tests and their child processes print would come between. Each test is
-- announced before it runs, so that after a crash or a hang the file's last line says which it was. Then it says how long it took.

local function text_of(message)
  if message == nil then return "error value is nil" end
  return type(message) == "string" and message or require "pl.pretty".write(message)
end

return function()
  local busted = require "busted"
  local handler = require "busted.outputHandlers.base"()
  local out = assert(io.open(assert(os.getenv "PIERROT_TAP", "PIERROT_TAP is not set"), "w"))
  local count = 0

  local function put(...)
    out:write(...)
    out:write("\n")
    out:flush()
  end

  local function put_comment(text)
    put("# ", (text:gsub("\n", "\n# ")))
  end

  local function put_failure(failure)
    local trace = failure.trace or {}
    put("not ok ", count, " - ", failure.name)
    put_comment(text_of(failure.message))
    if trace.traceback then put_comment((trace.traceback:gsub("^\n", ""))) end
  end

  local function test_start(element)
    local trace = element.trace or {}
    put("# run ", trace.short_src or "?", ":", trace.currentline or 0, ": ", handler.getFullName(element))
    return nil, true
  end

  local function test_end(element, _, status)
    count = count + 1
    if status == "success" then
      put("ok ", count, " - ", handler.getFullName(element))
    elseif status == "pending" then
      put("ok ", count, " - # SKIP ", handler.getFullName(element))
    else
      local list = status == "failure" and handler.failures or handler.errors
      put_failure(list[#list])
    end
    put(("# took %.2f s"):format(element.duration))
    return nil, true
  end

  -- Outside of a test: the file did not load, a setup or teardown failed.
  local function other_failure(element)
    if element.descriptor ~= "it" then
      count = count + 1
      put_failure(handler.errors[#handler.errors])
    end
    return nil, true
  end

  local function suite_end()
    put("1..", count)
    return nil, true
  end

  busted.subscribe({ "test", "start" }, test_start)
  busted.subscribe({ "test", "end" }, test_end)
  busted.subscribe({ "error" }, other_failure)
  busted.subscribe({ "failure" }, other_failure)
  busted.subscribe({ "suite", "end" }, suite_end)
  return handler
end
