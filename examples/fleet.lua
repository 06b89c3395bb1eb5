--- A fleet of devices, each an actor with a timer, a rolling window and a life of its own.
--
--     pierrot run examples/fleet.lua [DEVICES [SECONDS [PERIOD [ONE_IN]]]]
--
-- 200,000 devices for 30 seconds, each of which reports every 10: 20,000 messages a second, spread
-- evenly. A device reads its sensor, checks the reading, keeps the last eight, and raises an alert
-- when a reading is far from their mean. Alerts go to a small pool of writers, which stand for what
-- writes to a disk or a database: they are on the dispatcher "blocking", whose threads may wait.
--
-- One reading in ONE_IN (10,000) is malformed. Then the device's handler simply fails: the runtime
-- logs that, and restarts this device and no other. It starts with an empty window and takes up its
-- place in the schedule again, for `self` and timers end with the life that made them.
--
-- Of readings the newest count: a device's mailbox holds 16, and drops the oldest when more come. In
-- the end some gateways come back after an outage, and deliver at once what they have held back. The
-- runtime's alarm about the depth of a mailbox (the event "overload") is shown.
--
-- Readings are a function of device and time slot, so every run has the same alerts, the same
-- failures. That is what the result is checked against; if it differs, the exit status is 1.
-- Failures are logged on stderr: add 2>/dev/null, or --log none before the file, for the numbers
-- alone.

local bit = require "bit"
local pierrot = require "pierrot"

local USAGE = "usage: pierrot run examples/fleet.lua [DEVICES [SECONDS [PERIOD [ONE_IN]]]]"

local function argument(i, default)
  local value = tonumber(arg[i] or default)
  if not value or value <= 0 or arg[5] then error(USAGE, 0) end
  return value
end

local devices = argument(1, 200000)
local seconds = argument(2, 30)
local period = argument(3, 10)           -- seconds between two reports of a device
local one_in = argument(4, 10000)        -- one reading in so many is malformed

local WINDOW = 8                         -- readings that a device keeps
local ALERT_KELVIN = 20                  -- further from the window's mean than this is an alert
local WRITERS = 4
local MAILBOX = 16                       -- what waits for a device at most; the alarm comes at half of it
local HELD_BACK = 40                     -- readings that a gateway delivers after an outage
local GATEWAYS = math.min(20, math.ceil(devices / 1000))
local MEMORY_LIMIT_MB = 400              -- what 200,000 devices may take
local TIMER_SLACK_SECONDS = 0.002        -- timers may be early by a little

-- The first report is due when all devices are up.
local epoch = pierrot.now() + 1 + devices / 50000

-- The world outside: sensors ----------------------------------------------------------------------

--- 32 bits that look random, the same for the same device and slot.
local function noise(number, slot)
  local h = bit.bxor(number * 0x1b873, slot * 0x19d9f)
  for _ = 1, 2 do
    h = bit.tobit(bit.bxor(h, bit.rshift(h, 16)) * 0x1b873)
  end
  return bit.band(bit.bxor(h, bit.rshift(h, 13)), 0x7fffffff)
end

local function is_malformed(number, slot)
  return noise(number, slot) % one_in == 0
end

--- What a device's sensor says in one time slot: degrees Celsius, as text.
local function read_sensor(number, slot)
  if is_malformed(number, slot) then return "--.-" end
  local h = noise(number, -slot - 1)
  local celsius = 15 + number % 10 + (h % 100) / 20
  if h % 97 == 0 then celsius = celsius + 50 end
  return ("%.1f"):format(celsius)
end

--- When a device reports in a slot, in seconds from the epoch.
local function due_at(number, slot)
  return ((number - 1) / devices + slot) * period
end

-- Actors ------------------------------------------------------------------------------------------

local Writer = {
  name = "writer",

  start = function(self)
    self.alerts, self.malformed = 0, 0
  end,

  on = {
    alert = function(self, number, celsius, mean)
      self.alerts = self.alerts + 1
      self.last = ("device %d: %.1f C, where %.1f C is usual"):format(number, celsius, mean)
    end,
    malformed = function(self)
      self.malformed = self.malformed + 1
    end,
    totals = function(self)
      return { alerts = self.alerts, malformed = self.malformed, last = self.last }
    end,
  },
}

local writers = {}
for i = 1, WRITERS do writers[i] = pierrot.spawn{ Writer, dispatcher = "blocking" } end

--- Sets the timer for the device's next report, unless the run is over by then.
local function schedule(self)
  local due = due_at(self.number, self.slot)
  if due >= seconds then return end
  pierrot.send_after(math.max(0, epoch + due - pierrot.now()), pierrot.self(), "report")
end

--- The reading as a number, if it is one and the sensor can have measured it.
local function validate(reading)
  local celsius = tonumber(reading)
  return celsius and celsius > -60 and celsius < 150 and celsius
end

local function mean_of(window)
  local sum = 0
  for i = 1, #window do sum = sum + window[i] end
  return sum / #window
end

local Device = {
  name = "device",

  -- Runs again after a failure: it finds the first slot that is not past by the clock.
  start = function(self, number)
    self.number = number
    local since_first = pierrot.now() + TIMER_SLACK_SECONDS - epoch - due_at(number, 0)
    self.slot = math.max(0, math.floor(since_first / period) + 1)
    schedule(self)                       -- the window is the array part of self: empty now
  end,

  on = {
    -- Suspended until the gateway answers: what that delivers first has to wait.
    connect = function(self, gateway)
      self.held = {}
      return gateway:ask("hello", pierrot.self())
    end,
    held = function(self, reading) self.held[#self.held + 1] = reading end,
    kept = function(self) return self.held end,

    report = function(self)
      local number, slot = self.number, self.slot
      local writer = writers[number % WRITERS + 1]
      local reading = read_sensor(number, slot)
      local celsius = validate(reading)
      if not celsius then
        writer:tell("malformed")         -- counted apart from the restarts, to compare
        error(("device %d: malformed reading %q"):format(number, reading), 0)
      end

      if #self > 0 then
        local mean = mean_of(self)
        if math.abs(celsius - mean) > ALERT_KELVIN then
          writer:tell("alert", number, celsius, mean)
        end
      end
      if #self == WINDOW then table.remove(self, 1) end
      self[#self + 1] = celsius

      self.slot = slot + 1
      schedule(self)
    end,
  },
}

local Gateway = {
  name = "gateway",
  on = { hello = function(_, device)
    for reading = 1, HELD_BACK do device:tell("held", reading) end
    return HELD_BACK
  end },
}

-- The script: starts the fleet, watches, adds up --------------------------------------------------

local function resident_mb()
  local status = assert(io.open("/proc/self/status")):read("*a")
  return tonumber(status:match("VmRSS:%s*(%d+)")) / 1024
end

--- What the readings make happen: reports, malformed ones, and the restarts of each such device.
local function expected()
  local reports, malformed, restarts_of = 0, 0, {}
  for number = 1, devices do
    local slot = 0
    while due_at(number, slot) < seconds do
      reports = reports + 1
      if is_malformed(number, slot) then
        malformed = malformed + 1
        restarts_of[number] = (restarts_of[number] or 0) + 1
      end
      slot = slot + 1
    end
  end
  return reports, malformed, restarts_of
end

local function totals_of_writers()
  local alerts, malformed, last = 0, 0, nil
  for _, writer in ipairs(writers) do
    local totals = writer:ask("totals")
    alerts, malformed = alerts + totals.alerts, malformed + totals.malformed
    last = totals.last or last
  end
  return alerts, malformed, last
end

--- On a busy machine that may be over already.
local function sleep_until(time) pierrot.sleep(math.max(0, time - pierrot.now())) end

local started, first = pierrot.now(), pierrot.stats()
local fleet = {}
for number = 1, devices do
  fleet[number] = pierrot.spawn{ Device, number, mailbox = { capacity = MAILBOX, overflow = "drop_oldest" } }
end
print(("%d devices spawned in %.2f s, %.0f MB resident"):format(
  devices, pierrot.now() - started, resident_mb()))

sleep_until(epoch - 0.1)     -- a little before the first report
local before, elapsed = pierrot.stats(), 0
while elapsed < seconds do
  local step = math.min(1, seconds - elapsed)
  sleep_until(epoch + elapsed + step)
  elapsed = elapsed + step
  local now = pierrot.stats()
  print(("%4.0f s  %6.0f messages/s  %d restarts  %.0f MB"):format(elapsed,
    (now.handled - before.handled) / step, now.restarts - first.restarts, resident_mb()))
  before = now
end
local reports, malformed_expected, restarts_of = expected()
local give_up = pierrot.now() + 30
local last, settled
repeat                                   -- what is late is waited for
  local handled = pierrot.stats().handled
  pierrot.sleep(0.25)
  last = pierrot.stats()
  settled = last.handled == handled and handled - first.handled >= reports and
    last.restarts - first.restarts >= malformed_expected
until settled or pierrot.now() > give_up

local took = pierrot.now() - epoch - 0.25
local alerts, malformed, last_alert = totals_of_writers()
local messages, restarts = last.handled - first.handled, last.restarts - first.restarts

local misplaced = 0                      -- devices restarted more or less often than they should
for number, device in ipairs(fleet) do
  if device:info().restarts ~= (restarts_of[number] or 0) then misplaced = misplaced + 1 end
end

-- The gateways come back. Each mailbox keeps the newest, and the alarm comes at half its capacity, when
-- it is full, and when it is empty enough again.
pierrot.subscribe("overload")
local number_of, alarms = {}, 0
local dropped_before = pierrot.stats().dead_letters_by_reason.drop_oldest
for i = 1, GATEWAYS do
  local device = fleet[i]
  number_of[device] = i
  device:ask("connect", pierrot.spawn(Gateway))
end
local kept = 0
for i = 1, GATEWAYS do
  for at, reading in ipairs(fleet[i]:ask("kept")) do
    if reading ~= HELD_BACK - MAILBOX + at then error("fleet: it is not the newest readings that are kept", 0) end
    kept = kept + 1
  end
end
local dropped = pierrot.stats().dead_letters_by_reason.drop_oldest - dropped_before
for _ = 1, 3 * GATEWAYS do
  local _, _, alarm = pierrot.receive(5)
  if not alarm then break end
  alarms = alarms + (alarm.over and 1 or 0)
  if number_of[alarm.actor] == 1 then
    print(("overload    device 1: %d waiting, the alarm is at %d%s"):format(alarm.depth, alarm.threshold,
      alarm.over and "" or "; it is over"))
  end
end

print(([[

devices     %d
reports due %d
messages    %d
throughput  %.0f messages/s
alerts      %d
malformed   %d
restarts    %d
misplaced   %d
held back   %d
kept        %d
dropped     %d
alarms      %d
writers     %d on "%s"
resident    %.0f MB (at most %d for 200000 devices)]]):format(devices, reports, messages,
  messages / took, alerts, malformed, restarts, misplaced, GATEWAYS * HELD_BACK, kept, dropped, alarms,
  WRITERS, writers[1]:info().dispatcher, resident_mb(), MEMORY_LIMIT_MB))
if last_alert then print("last alert  " .. last_alert) end

if malformed ~= malformed_expected or restarts ~= malformed or misplaced > 0 then
  error(("fleet: %d malformed readings were due; the restarts are not theirs"):format(
    malformed_expected), 0)
end
if kept ~= GATEWAYS * MAILBOX or kept + dropped ~= GATEWAYS * HELD_BACK then
  error("fleet: the mailboxes did not keep the newest 16", 0)
end
print("Each malformed reading restarted its own device, and no other was restarted.")
