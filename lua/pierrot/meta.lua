---@meta pierrot

-- Annotations for editors (LuaCATS): what `require "pierrot"` returns. This file is never run.
--
-- Conventions: misuse raises at the caller's line. What can fail in an orderly program returns nil and a reason.
-- Times are seconds. "Inside" is in an actor; "outside" is a plain LuaJIT program. "Waits" means that the calling
-- actor is suspended and its worker goes on with others; outside, the calling thread blocks. Functions of which
-- nothing is said do not wait.
-- luacheck: ignore 241

-- Types ------------------------------------------------------------------------------------------------------------

--- An actor, by its id: a small value, equal (`==`) for the same actor, good as a table key and in messages, valid
--- across restarts. `tostring(ref)` shows id, behaviour and name.
---@class pierrot.Ref
local Ref = {}

--- Whom a message goes to: a ref, or a registered name.
---@alias pierrot.Target pierrot.Ref|string

--- What may be in a message: nil, boolean, number, 64-bit integer, string, ref, and tables of these up to 100 deep,
--- without cycles. Tables are copied, metatables stay behind.
---@alias pierrot.Value nil|boolean|number|string|integer|table|pierrot.Ref

--- Why a message was not accepted.
---@alias pierrot.Refusal "dead"|"stopping"|"full"

---@alias pierrot.LogLevel "debug"|"info"|"warn"|"error"|"none"

--- A handler. What it returns is the reply when the message was an ask, and is dropped otherwise.
---@alias pierrot.Handler fun(self: table, ...: any): ...

--- What an actor does. All fields are optional. Its code is carried to the worker that runs the actor: it may read
--- variables outside itself (by value), and may not assign to them.
---
--- ```lua
--- local Counter = {
---   start = function(self, first) self.n = first end,
---   on = { inc = function(self, by) self.n = self.n + by end },
--- }
--- ```
---@class pierrot.Behaviour
---@field name? string what logs call it; default: the file and line, or the module
---@field start? fun(self: table, ...: any) once a life, before any message, with spawn's arguments
---@field on? table<string, pierrot.Handler> takes messages whose first value is that string, and gets the values after it
---@field receive? pierrot.Handler takes every other message; without it that is a dead letter
---@field stop? fun(self: table, reason: any) at the end of each life whose `start` succeeded
---@field supervise? pierrot.Supervise how it treats failing children
---@field version? number|string what `info` shows and `upgrade` gets; default: 1, and one more with each reload
---@field upgrade? fun(self: table, old_version: number|string) before the first message after a reload; it cannot wait
---@field trap_exit? boolean exits of links arrive as messages: "exit", ref, reason

--- The option `mailbox` of spawn as a table. `overflow` is what happens to a message that is too many: nil and "full"
--- for the sender; the sender waits; it is dropped; the oldest is dropped.
---@class pierrot.Mailbox
---@field capacity? integer 1 to 1000000; default: no bound
---@field overflow? "reject"|"suspend"|"drop_newest"|"drop_oldest"
---@field priority? fun(...: any): number higher first; gets the message's values
---@field overload? integer threshold of the event "overload"; default: half the capacity, at most 1000

--- How an actor treats failing children; decided on its turn, ahead of what is queued. `strategy`: who is restarted with
--- one that failed. At most `intensity` restarts (3) in `period` seconds (5) of each child, or of all with `count` =
--- "all"; beyond that the child is stopped, or with `exceeded` = "escalate" this actor fails. `on_failure` may decide
--- otherwise than the child's `restart`; it cannot wait.
---@class pierrot.Supervise
---@field strategy? "one_for_one"|"one_for_all"|"rest_for_one"
---@field intensity? integer
---@field period? number
---@field count? "child"|"all"
---@field exceeded? "stop"|"escalate"
---@field backoff? pierrot.Backoff default: none, restart at once
---@field on_failure? fun(err: pierrot.Error, child: pierrot.Ref): "restart"|"resume"|"stop"|"escalate"|nil

--- Seconds before a restart: `min` (0.1), times `factor` (2) each time, at most `max` (10), varied by the share `jitter`
--- (0.1). It starts anew once a life has been longer than `max`.
---@class pierrot.Backoff
---@field min? number
---@field max? number
---@field factor? number
---@field jitter? number

--- A behaviour and the arguments of its `start` in the array part, and options. `restart`: after a failure
--- ("transient", the default), always, never.
---@class pierrot.Spawn
---@field [1] pierrot.Behaviour|pierrot.Handler|string
---@field [integer] any
---@field name? string unique in the runtime, 1 to 255 bytes
---@field restart? "transient"|"permanent"|"temporary"
---@field mailbox? integer|pierrot.Mailbox a capacity, or more; default: no bound
---@field timeslice? number seconds that a handler may run before it is put back in line; it is interpreted then
---@field reentrant? boolean|integer messages are taken while handlers are suspended; a number: so many under way at once
---@field dispatcher? string "default", "blocking", or one named at start; default: "default", whoever spawns
---@field worker? "here"|integer the spawner's worker, or an index from 1 within the dispatcher; default: any
---@field shutdown? number seconds to stop in, default 5; 0: killed at once; math.huge: no limit
---@field link? boolean links it to the spawner from its birth
---@field monitor? boolean monitors it from its birth: `spawn` returns the monitor as well

--- What a failed ask raises, and what `stop` gets as its reason after a failure. `tostring(err)` is the message and
--- the traceback.
---@class pierrot.Error
---@field kind "timeout"|"dead"|"full"|"failed"|"deadlock"|"open" "open": of a circuit breaker
---@field message string one line
---@field traceback? string of the handler that failed
---@field cause? any what that handler raised
---@field ref? pierrot.Target whom it was about
---@field actor? pierrot.Ref who failed
---@field behaviour? string the name of its behaviour
---@field first? any the first value of the message that it failed at

---@class pierrot.Info
---@field ref pierrot.Ref
---@field id string
---@field name? string the first of its registered names
---@field behaviour string
---@field version? number|string of its behaviour: its field `version`, or 1, 2, ... (see reload); nil for a plain program's thread
---@field dispatcher? string nil for a plain program's thread
---@field worker? integer within its dispatcher; nil while it has not started
---@field state "idle"|"scheduled"|"processing"|"suspended"|"stopping"
---@field depth integer messages in its mailbox
---@field high_water? integer the most there ever were; this and the next three: with the option `mailbox`
---@field oldest? number seconds that the oldest has waited
---@field waiting? integer senders that wait for room
---@field capacity? integer
---@field processed integer messages handled, the one in hand included
---@field restarts integer
---@field parent? pierrot.Ref
---@field children pierrot.Ref[] in the order of their start
---@field age number seconds

--- Figures of one worker.
---@class pierrot.WorkerStats
---@field handled integer
---@field turns integer
---@field steals integer
---@field parks integer
---@field far integer messages to actors on other workers
---@field wakes integer sleeping workers that it woke for them
---@field lua_kb number memory of its Lua state, as of its last idle moment
---@field collections integer cycles of its collector
---@field current? pierrot.Ref the actor whose turn it is

--- Figures of one dispatcher, sums of its workers'.
---@class pierrot.DispatcherStats
---@field workers integer
---@field throughput integer
---@field running boolean whether its threads have been started: at the first spawn on it
---@field busy integer workers in a turn now
---@field queued integer actors in line that have not started
---@field handled integer
---@field turns integer
---@field steals integer
---@field parks integer
---@field by_worker pierrot.WorkerStats[]

--- Counters since the start, and what is there now. When nothing is under way,
--- `sent == handled + dead_letters + cancelled`.
---@class pierrot.Stats
---@field workers integer of the default dispatcher, as `throughput` and `by_worker`
---@field throughput integer
---@field dispatchers table<string, pierrot.DispatcherStats> by name
---@field uptime number seconds
---@field actors integer alive now
---@field names integer registered now
---@field memberships integer of actors in groups, now
---@field shared integer shared values, now
---@field shared_bytes integer what these take in the runtime, beside each worker's own tables
---@field log_dropped integer records that a slow disk or reader had no room for: see log_file
---@field events_lost integer events that slow subscribers did not get
---@field spawned integer
---@field ended integer
---@field failures integer
---@field restarts integer
---@field sent integer tells and asks that were accepted
---@field handled integer
---@field rejected integer tells and asks that were not accepted
---@field cancelled integer messages of cancelled timers
---@field dead_letters integer
---@field dead_letters_by_reason { dead: integer, stopping: integer, unhandled: integer, shutdown: integer, full: integer, drop_newest: integer, drop_oldest: integer }
---@field replies integer
---@field late_replies integer that came after their ask had given up
---@field turns integer
---@field steals integer
---@field parks integer times a worker fell asleep
---@field far integer messages from workers to actors on other workers, replies and orders included
---@field wakes integer sleeping workers that were woken for them
---@field by_worker pierrot.WorkerStats[]

---@class pierrot.DispatcherOptions
---@field workers integer threads, 1 to 1024; default for "blocking": 4
---@field throughput? integer messages an actor handles in one turn; default: start's, for "blocking" 1

---@class pierrot.StartOptions
---@field workers? integer threads, 1 to 1024; default: the cores, at least 2
---@field throughput? integer messages an actor handles in one turn; default 32
---@field ask_timeout? number default 5
---@field log? pierrot.LogLevel default "info"
---@field log_format? "text"|"json" default "text"
---@field log_file? string where the log goes; default: standard error
---@field dispatchers? table<string, integer|pierrot.DispatcherOptions> by name; workers, or more. "blocking" has 4 by default
---@field control? string path of a Unix socket to listen at, for `pierrot ctl` and `pierrot repl --attach`; mode 0600
---@field control_readonly? boolean there, only look; default false
---@field spin? integer looks for work before a worker sleeps, at most; default 1024

-- Refs -------------------------------------------------------------------------------------------------------------

--- Sends a message. True, or nil and a reason. Raises when a value cannot be sent, and names it by its path.
---@param ... pierrot.Value
---@return true|nil accepted
---@return pierrot.Refusal? reason
function Ref:tell(...) end

--- Sends a message and returns the reply. Waits, at most the runtime's `ask_timeout`. Raises a `pierrot.Error`
--- without a reply; a message when a value cannot be sent or where Lua cannot suspend.
---
--- ```lua
--- local total = counter:ask("get")
--- ```
---@param ... pierrot.Value
---@return any ...
function Ref:ask(...) end

--- As `ask`, with its own limit.
---@param seconds number
---@param ... pierrot.Value
---@return any ...
function Ref:ask_within(seconds, ...) end

--- Stops it ahead of everything queued: at most the message in hand is finished.
---@param reason? pierrot.Value default "normal"
---@return true|nil accepted
---@return pierrot.Refusal? reason
function Ref:stop(reason) end

--- Stops it after what is queued now.
---@param reason? pierrot.Value default "normal"
---@return true|nil accepted
---@return pierrot.Refusal? reason
function Ref:drain(reason) end

--- Stops it without its `stop`, and without waiting for a suspended handler.
---@return true|nil accepted
---@return pierrot.Refusal? reason
function Ref:kill() end

--- True until it has ended; between two lives too.
---@return boolean
function Ref:is_alive() end

--- A snapshot; nil and "dead" when it has ended.
---@return pierrot.Info? info
---@return "dead"? reason
function Ref:info() end

-- Timers and deferred replies --------------------------------------------------------------------------------------

--- What `send_after` and `send_every` return. It ends with the life of the actor that set it.
---@class pierrot.Timer
local Timer = {}

--- Whether it was still pending. After it nothing more arrives, even what was queued already.
---@return boolean
function Timer:cancel() end

--- What `monitor` returns: a small value, equal (`==`) to the one that comes with the "down", good as a table key.
---@class pierrot.Monitor
local Monitor = {}

--- Whether its "down" was still to come. After it none arrives, even if it was queued already.
---@return boolean
function Monitor:cancel() end

--- The reply of an ask, taken over by `defer`. May be kept, and sent to another actor.
---@class pierrot.Deferred
local Deferred = {}

--- Answers the ask. nil and "answered" the second time on this object. Raises when a value cannot be sent.
---@param ... pierrot.Value
---@return true|nil
---@return "answered"?
function Deferred:reply(...) end

--- Answers the ask by an error of kind "failed" with this cause.
---@param err any
---@return true|nil
---@return "answered"?
function Deferred:fail(err) end

-- The module -------------------------------------------------------------------------------------------------------

---@class pierrot
---@field version string
local pierrot = {}

--- Makes an actor and returns its ref at once; messages to it wait until its `start` is done. Inside, the caller is
--- its parent. Returns nil and "exists" and the holder for a taken name, nil and "stopping" during a shutdown, nil
--- and "not enough memory". Raises, and names the variable, when the code cannot be carried.
---
--- ```lua
--- local ref = pierrot.spawn(Counter, 10)
--- local hits = pierrot.spawn{ Counter, 10, name = "hits", restart = "permanent" }
--- ```
---@param behaviour pierrot.Behaviour|pierrot.Handler|string|pierrot.Spawn a string is a module's name
---@param ... pierrot.Value arguments of `start`
---@return pierrot.Ref? ref
---@return "exists"|"stopping"|"not enough memory"|pierrot.Monitor|nil reason with `monitor = true` and a ref: the monitor
---@return pierrot.Ref? holder
function pierrot.spawn(behaviour, ...) end

--- Puts a new version of a module in the place of the one that runs: on every worker its file is read anew, and what uses
--- the module (behaviours that it is, that lie in it, whose code refers to it) takes the new version. An actor has it with
--- its next message, `self` kept; before that `upgrade(self, old_version)` is called, if the new behaviour has it. With
--- two arguments, replaces a behaviour, given itself or by the name that `info` shows, by another.
--- A version that does not load changes nothing: nil and what is wrong. Else true, and how many workers were held up and
--- take it when they are free. Waits.
---
--- ```lua
--- assert(pierrot.reload "shop.cart")
--- assert(pierrot.reload("counter", { on = { inc = function(self, by) self.n = self.n + 2 * by end } }))
--- ```
---@param module string|pierrot.Behaviour|pierrot.Handler
---@param new? pierrot.Behaviour|pierrot.Handler|string
---@return true|nil ok
---@return number|string waiting how many workers have yet to take it; or what is wrong
function pierrot.reload(module, new) end

--- Watches an actor: once, at its end, `"down", ref, reason, monitor` arrives as a message; at once with the reason
--- "noproc" when it is dead. Reasons: "normal", "shutdown", "killed", an error object, or what `stop` was given. A
--- restart is no end. nil and "dead" for a name that nobody has.
---
--- ```lua
--- self.jobs[pierrot.monitor(worker)] = job
--- ```
---@param target pierrot.Target
---@return pierrot.Monitor? monitor
---@return "dead"? reason
function pierrot.monitor(target) end

--- Links this actor and another one: whichever ends with another reason than "normal" ends the other, unless that one
--- has `trap_exit = true` and gets `"exit", ref, reason` as a message. A dead target: an exit of reason "noproc".
--- Outside: as if the program had `trap_exit`. nil and "dead" for a name that nobody has.
---@param target pierrot.Target
---@return true|nil linked
---@return "dead"? reason
function pierrot.link(target) end

--- Whether there was a link. No exit comes from it any more, but for one that is a queued message already.
---@param target pierrot.Target
---@return boolean
function pierrot.unlink(target) end

--- Starts an actor that keeps its children and does nothing else: they are started in order, each when the one before
--- has started, and stopped in reverse. Options are the fields of `pierrot.Supervise`, with OTP's meaning (`count` is
--- "all", `exceeded` is "escalate"), and of `spawn`; a child's spec is what `spawn` takes, or
--- `{ supervisor = { ... }, name = ... }`. It can be asked: "children" (refs), "count" (living children, specs),
--- "specs" (what it keeps), "start_child" with a spec, "stop_child", "restart_child" and "delete_child" with a name or a
--- ref. With `auto_shutdown = "any_significant"` or `"all_significant"` it ends with its children of `significant = true`.
---
--- ```lua
--- local sup = pierrot.supervisor{ strategy = "one_for_all", { Reader, "in.txt" }, { Writer, name = "writer" } }
--- sup:ask("start_child", { Counter, 10, name = "hits" })
--- ```
---@param options pierrot.Supervise|pierrot.Spawn
---@return pierrot.Ref? ref
---@return "exists"|"stopping"|"not enough memory"|pierrot.Monitor|nil reason
---@return pierrot.Ref? holder
function pierrot.supervisor(options) end

--- As `ref:tell(...)`; nil and "dead" for a name that nobody has.
---
--- ```lua
--- pierrot.tell("hits", "inc")
--- ```
---@param target pierrot.Target
---@param ... pierrot.Value
---@return true|nil accepted
---@return pierrot.Refusal? reason
function pierrot.tell(target, ...) end

--- As `ref:ask(...)`. Waits.
---@param target pierrot.Target
---@param ... pierrot.Value
---@return any ...
function pierrot.ask(target, ...) end

--- As `ref:ask_within(seconds, ...)`. Waits.
---@param target pierrot.Target
---@param seconds number
---@param ... pierrot.Value
---@return any ...
function pierrot.ask_within(target, seconds, ...) end

--- `pierrot.stop(ref [, reason])` stops another actor as `ref:stop` does. Inside, `pierrot.stop([reason])` ends this
--- actor after the message in hand: a string is a reason there. Outside, a string is a registered name.
---
--- ```lua
--- if self.left == 0 then pierrot.stop("done") end
--- ```
---@param ref_or_reason? pierrot.Ref|pierrot.Value
---@param reason? pierrot.Value
---@return true|nil accepted
---@return pierrot.Refusal? refusal
function pierrot.stop(ref_or_reason, reason) end

--- As `ref:drain([reason])`.
---@param target pierrot.Target
---@param reason? pierrot.Value
---@return true|nil accepted
---@return pierrot.Refusal? refusal
function pierrot.drain(target, reason) end

--- As `ref:kill()`.
---@param target pierrot.Target
---@return true|nil accepted
---@return pierrot.Refusal? refusal
function pierrot.kill(target) end

--- As `ref:is_alive()`.
---@param target pierrot.Target
---@return boolean
function pierrot.is_alive(target) end

--- As `ref:info()`.
---@param target pierrot.Target
---@return pierrot.Info? info
---@return "dead"? reason
function pierrot.info(target) end

--- The running actor. Outside: a ref to the program, which can be told and asked (see `receive`).
---@return pierrot.Ref
function pierrot.self() end

--- Who sent the message in hand; nil when there is none.
---@return pierrot.Ref?
function pierrot.sender() end

--- Who spawned this actor; nil at the top, and outside.
---@return pierrot.Ref?
function pierrot.parent() end

--- The living children of this actor, in the order of their start; empty outside.
---@return pierrot.Ref[]
function pierrot.children() end

--- Takes over the reply of the ask in hand; what the handler returns is then no reply. Raises when the message in
--- hand is no ask, or is answered already.
---
--- ```lua
--- enter = function(self, name) table.insert(self.waiting, pierrot.defer()) end,
--- ```
---@return pierrot.Deferred
function pierrot.defer() end

--- Passes the message in hand on, with its sender and its pending ask. A refused one stays in hand. Raises when there
--- is no message in hand.
---@param target pierrot.Target
---@return true|nil accepted
---@return pierrot.Refusal? reason
function pierrot.forward(target) end

--- Swaps what handles the next messages: a table of handlers by name, a behaviour, or a module's name. `on` and
--- `receive` alone are taken from it. A stack: `unbecome` goes back. Inside an actor only.
---
--- ```lua
--- pierrot.become{ ready = function(self) pierrot.unbecome() end }
--- ```
---@param what table<string, pierrot.Handler>|pierrot.Behaviour|pierrot.Handler|string
---@param replace? boolean true: in place of what the last `become` gave
---@return true
function pierrot.become(what, replace) end

--- Goes back to what handled messages before the last `become`. Whether there was something to go back to.
---@return boolean
function pierrot.unbecome() end

--- Keeps the message in hand for later, with its sender and its pending ask. Raises when there is none in hand, or it
--- is kept already.
---@return true|nil kept
---@return "full"|"not enough memory"|nil reason
function pierrot.stash() end

--- Puts all kept messages back in front of the mailbox, in their order. How many.
---@return integer
function pierrot.unstash() end

--- Waits for the next message, for which `match(...)` is true if that is given, and returns its values; nothing when
--- the time has passed. The others stay in line. Raises where Lua cannot suspend.
---
--- ```lua
--- local kind, value = pierrot.receive(1, function(kind) return kind == "answer" end)
--- ```
---@param seconds? number default: no limit
---@param match? fun(...: any): boolean must not wait or receive
---@return any ...
function pierrot.receive(seconds, match) end

--- Waits. Raises where Lua cannot suspend (in a `table.sort` comparator, a `string.gsub` callback).
---@param seconds number 0: as `yield`
function pierrot.sleep(seconds) end

--- Waits for the others on this worker to have their turn. Outside it does nothing.
function pierrot.yield() end

--- Sends a message once, later. nil and "dead", "stopping" or "not enough memory" when that cannot be.
---
--- ```lua
--- local timer = pierrot.send_after(0.5, pierrot.self(), "timeout")
--- ```
---@param seconds number
---@param target pierrot.Target
---@param ... pierrot.Value
---@return pierrot.Timer? timer
---@return pierrot.Refusal|"not enough memory"|nil reason
function pierrot.send_after(seconds, target, ...) end

--- Sends a message after each period until it is cancelled, its setter's life or the target ends.
---@param seconds number more than 0
---@param target pierrot.Target
---@param ... pierrot.Value
---@return pierrot.Timer? timer
---@return pierrot.Refusal|"not enough memory"|nil reason
function pierrot.send_every(seconds, target, ...) end

--- Seconds, monotonic: for differences.
---@return number
function pierrot.now() end

--- Gives an actor a name. nil and "exists" and the holder when it is taken; nil and "dead" or "not enough memory".
---@param name string 1 to 255 bytes
---@param ref pierrot.Ref
---@return true|nil registered
---@return "exists"|"dead"|"not enough memory"|nil reason
---@return pierrot.Ref? holder
function pierrot.register(name, ref) end

--- Frees a name. Whether it was taken.
---@param name string
---@return boolean
function pierrot.unregister(name) end

--- The holder of a name, or nil.
---@param name string
---@return pierrot.Ref?
function pierrot.whereis(name) end

--- Joins a group: this actor (outside: the program), or another one. A group is there while it has members; an actor
--- leaves its groups with its end, and not with a restart. False when it was in there already.
---@param group string 1 to 255 bytes
---@param ref? pierrot.Ref default: who calls
---@return boolean|nil joined
---@return "dead"|"not enough memory"|nil reason
function pierrot.join(group, ref) end

--- Leaves a group. Whether it was in there.
---@param group string
---@param ref? pierrot.Ref default: who calls
---@return boolean
function pierrot.leave(group, ref) end

--- The members of a group, in the order of joining.
---@param group string
---@return pierrot.Ref[]
function pierrot.members(group) end

--- Sends a message to all members of a group, the sender too if it is one. How many took it. Does not wait: a member
--- whose mailbox is full does not get it.
---
--- ```lua
--- pierrot.publish("rooms/lobby", "joined", name)
--- ```
---@param group string
---@param ... pierrot.Value
---@return integer reached
function pierrot.publish(group, ...) end

--- What `router` takes: a behaviour with the arguments of its `start`, or `group`, and options. `name` and `worker` are
--- the router's own; all other options of spawn go to each routee.
---@class pierrot.Router : pierrot.Spawn
---@field size? integer routees; default: the number of workers
---@field strategy? "round_robin"|"random"|"hash"|"smallest_mailbox"|"broadcast"|"scatter_gather"
---@field within? number for "scatter_gather": seconds for each ask; default: the runtime's `ask_timeout`
---@field key? fun(...: any): string|number|boolean|pierrot.Ref for "hash"; default: the message's second value, or its only one
---@field group? string routes to the members of a group, instead of to actors of its own

--- Spawns a router: an actor that passes each message on to one of its routees (or to all), with its sender and its
--- pending ask. The routees are its children. One that has ended is replaced when a message would go to it.
---
--- ```lua
--- local cache = pierrot.router{ Cache, size = 8, strategy = "hash" }
--- cache:tell("put", "key", 1)
--- ```
---@param spec pierrot.Router
---@return pierrot.Ref? ref
---@return "exists"|"stopping"|"not enough memory"|nil reason
---@return pierrot.Ref? holder
function pierrot.router(spec) end

--- Sets the number of a router's routees. Those that leave finish what they have been given. Waits.
---@param router pierrot.Target
---@param size integer
---@return integer
function pierrot.resize(router, size) end

--- A router's routees. Waits.
---@param router pierrot.Target
---@return pierrot.Ref[]
function pierrot.routees(router) end

---@alias pierrot.Topic "dead_letter"|"failure"|"restart"|"overload"|"slow_turn"|"stopped"

--- Asks for the runtime's own events: each arrives as `"event", topic, details`. At most 256 of a topic are in line;
--- more are lost, and the next one says how many in `details.lost`. False when the caller has that topic already.
---
--- ```lua
--- pierrot.subscribe("failure")
--- ```
---@param topic pierrot.Topic
---@return boolean|nil new
---@return "dead"|"stopping"|"not enough memory"|nil reason
function pierrot.subscribe(topic) end

--- Ends a subscription, and drops what is queued of it. Whether there was one.
---@param topic pierrot.Topic
---@return boolean
function pierrot.unsubscribe(topic) end

--- A reply, or why there is none: `err`, else the values in [1] to [n].
---@class pierrot.Result
---@field n? integer
---@field err? pierrot.Error
---@field [integer] any

--- Makes several asks at once and waits for all of them: a result for each, in the order of the asks. A failed one
--- spoils no other. Each target sees a small actor of the runtime's as the sender. Waits.
---
--- ```lua
--- local results = pierrot.ask_all({ { a, "get" }, { b, "get" } }, 2)
--- ```
---@param list any[][] each { ref or name, values... }
---@param seconds? number for all of them; default: the runtime's `ask_timeout`
---@return pierrot.Result[]
function pierrot.ask_all(list, seconds) end

--- Makes an ask whose reply arrives as a message: `name, values...`, or `name, nil, err`; without a name `values...`, or
--- `nil, err`. Does not wait. Ends with the caller.
---
--- ```lua
--- pierrot.pipe({ store, "get", "x" }, pierrot.self(), "got")
--- ```
---@param ask any[] { ref or name, values... }
---@param to pierrot.Target
---@param name? string
---@param seconds? number default: the runtime's `ask_timeout`
---@return true|nil
---@return "stopping"|"not enough memory"|nil reason
function pierrot.pipe(ask, to, name, seconds) end

--- Calls `fn(...)` on a thread of the dispatcher "blocking" and returns its values: for what holds a thread (C that
--- waits, files, long computations). Waits, without a limit. `fn` is carried like a behaviour, arguments and values like a
--- message. An error in `fn` is raised here, as a `pierrot.Error` of kind "failed" with its traceback.
---
--- ```lua
--- local text = pierrot.blocking(function(path)
---   local file = assert(io.open(path))
---   local all = file:read "*a"
---   file:close()
---   return all
--- end, "/etc/hosts")
--- ```
---@param fn function
---@param ... pierrot.Value
---@return any ...
function pierrot.blocking(fn, ...) end

--- Freezes a table: the result is read like one (index, pairs, ipairs, #), cannot be written to, is held once by each
--- worker, and is sent for the price of a number. It is cdata, no table: see `thaw`. Other values are given back as they
--- are. Raises what cannot be shared, by its path.
---
--- ```lua
--- local prices = pierrot.share{ apple = 3, pear = 4 }
--- till:tell(prices)
--- ```
---@generic T
---@param value T what may be sent
---@return T
function pierrot.share(value) end

--- An ordinary copy of a shared value, with all tables in it. Other values are given back as they are.
---
--- ```lua
--- local mine = pierrot.thaw(prices)
--- mine.apple = 5
--- ```
---@generic T
---@param value T
---@return T
function pierrot.thaw(value) end

--- Counters of the whole runtime.
---
--- ```lua
--- local before = pierrot.stats().handled
--- ```
---@return pierrot.Stats
function pierrot.stats() end

--- Starts the runtime of a plain program: true, or nil and a reason. Raises when one runs, and inside.
---
--- ```lua
--- assert(pierrot.start{ workers = 2, log = "warn" })
--- ```
---@param options? pierrot.StartOptions
---@return true|nil started
---@return string? reason
function pierrot.start(options) end

--- Outside: stops all actors, waits at most so long (default 5), ends the runtime: true, or nil and "timeout" when a
--- handler does not return. Inside: asks all actors to stop, this one too after the message in hand, and returns true
--- at once.
---@param seconds? number outside only
---@return true|nil ended
---@return "timeout"? reason
function pierrot.shutdown(seconds) end

--- The log: one record a call, on standard error. Each takes a format and values as `string.format` does, or one
--- value of any kind; what is below the level costs next to nothing.
---
--- ```lua
--- pierrot.log.warn("%d retries left", n)
--- ```
---@class pierrot.Log
local log = {}
pierrot.log = log

---@param fmt any
---@param ... any
function log.debug(fmt, ...) end

---@param fmt any
---@param ... any
function log.info(fmt, ...) end

---@param fmt any
---@param ... any
function log.warn(fmt, ...) end

---@param fmt any
---@param ... any
function log.error(fmt, ...) end

--- The lowest level that is logged; sets a new one, for the whole runtime.
---@param level? pierrot.LogLevel
---@return pierrot.LogLevel before
function log.level(level) end

-- require "pierrot.testing" ------------------------------------------------------------------------------------------

--- Tests of actors, each in a runtime of its own that repeats from a seed, by a clock that takes no time; see
--- docs/testing.md.
---
--- ```lua
--- local testing = require "pierrot.testing"
--- testing.run(function(t)
---   local probe = t:probe()
---   probe:tell(pierrot.spawn(function(_, whom) whom:tell("hello") end), probe.ref)
---   probe:expect("hello")
--- end)
--- ```
---@class pierrot.testing
---@field any any fits every value, and every message
local testing = {}

---@class pierrot.TestOptions
---@field seeds? integer how many: 1, 2, ... (20)
---@field seed? integer|string one alone: a number, or one with its choices, "17:3,9"
---@field workers? integer of each runtime (2)
---@field turns? number after so many (a million), actors that do not come to rest are a failure
---@field ask_timeout? number seconds (5)
---@field dispatchers? table<string, integer|table> as of pierrot.start
---@field log? pierrot.LogLevel the lowest level that is kept for the report ("warn")
---@field shrink? boolean false: a failing seed is reported as it is

--- Runs a test with all its seeds, and returns how many; raises the report of the first that fails.
---@param fn fun(t: pierrot.Test)
---@param options? pierrot.TestOptions
---@return integer runs
function testing.run(fn, options) end

--- A function without arguments that runs the test: for other frameworks.
---@param fn fun(t: pierrot.Test)
---@param options? pierrot.TestOptions
---@return fun()
function testing.test(fn, options) end

--- As `it` of `pierrot test`, and under busted.
---@param name string
---@param options pierrot.TestOptions|fun(t: pierrot.Test) may be left out
---@param fn? fun(t: pierrot.Test)
function testing.it(name, options, fn) end

--- A message as tests write it: the list of its values, or its only value; tables are compared by what they hold,
--- `testing.any` fits all, a function decides by itself.
---@alias pierrot.Expected any

--- What the function of a test gets.
---@class pierrot.Test
local Test = {}

--- A stand-in for an actor.
---@param name? string for reports
---@return pierrot.Probe
function Test:probe(name) end

--- Seconds since the test began, by its clock.
---@return number
function Test:elapsed() end

--- Lets so many seconds pass; whatever is due happens.
---@param seconds number
function Test:advance(seconds) end

--- Until nothing is left to do without time's passing.
function Test:settle() end

--- Until fn() is true, within so many seconds (5); returns what it returns.
---@generic T
---@param fn fun(): T
---@param within? number
---@return T
function Test:eventually(fn, within) end

--- Raises unless both hold the same; returns the second.
---@param expected any
---@param got any
---@param text? string
---@return any got
function Test:equal(expected, got, text) end

--- Actors may fail with this in their error's text: a Lua pattern, nil for any. At least one has to, or `count`.
---@param pattern? string
---@param count? integer
function Test:expect_failure(pattern, count) end

--- What happens to a message before its handler is called. "fail": that raises; "slow": it takes `seconds` more; "mute": the
--- message is not answered; "kill": its actor is killed.
---@class pierrot.FaultRule
---@field action "fail"|"slow"|"mute"|"kill"
---@field to? pierrot.Ref|string the name of an actor or of a behaviour; default: any
---@field message? string its first value; default: any
---@field seconds? number of "slow"
---@field nth? integer the nth message that fits; default: each
---@field every? integer from the nth on, each so many
---@field most? integer how often at most
---@field chance? number 0 to 1, drawn from the seed
---@field error? string of "fail": its text

---@param rule pierrot.FaultRule
---@return pierrot.Fault
function Test:fault(rule) end

--- No fault strikes from now on.
function Test:no_faults() end

---@class pierrot.Fault
local Fault = {}

--- How often it has struck.
---@return integer
function Fault:count() end

--- Times are seconds of the test's clock, 5 where none are given.
---@class pierrot.Probe
---@field ref pierrot.Ref
---@field name string
local Probe = {}

--- The next message is this one; returns its values.
---@param message pierrot.Expected
---@param within? number
---@return any ...
function Probe:expect(message, within) end

--- Picks out the first message that is this one, and returns its values; others stay.
---@param message pierrot.Expected
---@param within? number
---@return any ...
function Probe:await(message, within) end

--- The next messages are these; returns them as they came, each as a list.
---@param messages pierrot.Expected[]
---@param within? number for all of them
---@return any[][]
function Probe:expect_in_any_order(messages, within) end

--- Nothing comes for so long.
---@param within? number
function Probe:expect_none(within) end

--- The end of an actor, which the probe watches; returns its reason.
---@param ref pierrot.Ref
---@param reason? any
---@param within? number
---@return any reason
function Probe:expect_down(ref, reason, within) end

--- The next message's values, or nothing.
---@param within? number
---@return any ...
function Probe:receive(within) end

--- All that have come, each as a list.
---@return any[][]
function Probe:messages() end

--- Monitors an actor, for expect_down.
---@param ref pierrot.Ref
---@return pierrot.Monitor|nil monitor
---@return "dead"? reason
function Probe:watch(ref) end

--- Answers the message that came last.
---@param ... pierrot.Value
---@return true|nil ok
---@return "answered"? reason
function Probe:reply(...) end

--- Fails the ask that came last.
---@param err any
---@return true|nil ok
---@return "answered"? reason
function Probe:fail(err) end

--- Who sent the message that came last.
---@return pierrot.Ref?
function Probe:sender() end

---@param target pierrot.Target
---@param ... pierrot.Value
---@return true|nil sent
---@return pierrot.Refusal? reason
function Probe:tell(target, ...) end

---@param target pierrot.Target
---@param ... pierrot.Value
---@return any ...
function Probe:ask(target, ...) end

---@param target pierrot.Target
---@param seconds number
---@param ... pierrot.Value
---@return any ...
function Probe:ask_within(target, seconds, ...) end

---@param target pierrot.Target
---@return true|nil linked
---@return "dead"? reason
function Probe:link(target) end

---@param topic pierrot.Topic
function Probe:subscribe(topic) end

---@param group string
function Probe:join(group) end
-- require "pierrot.breaker" ------------------------------------------------------------------------------------------

local breaker = {}

---@class pierrot.BreakerOptions
---@field failures? integer so many asks in a row without a reply open it; default 5
---@field reset? number seconds until it tries one again; default 10
---@field within? number seconds for each ask; default: the runtime's `ask_timeout`

--- A circuit breaker: asks that stop being made once they have failed too often. It belongs to the actor that made it, and is
--- kept in its `self`.
---
--- ```lua
--- self.prices = require("pierrot.breaker").new{ failures = 5, reset = 10 }
--- local ok, price = pcall(self.prices.ask, self.prices, ref, "price", "apple")
--- ```
---@param options? pierrot.BreakerOptions
---@return pierrot.Breaker
function breaker.new(options) end

---@class pierrot.Breaker
local Breaker = {}

--- Whether asks are made, raise at once, or one of them is tried.
---@return "closed"|"open"|"half_open"
function Breaker:state() end

--- As `ref:ask(...)`; raises an error of kind "open" when it is not even tried. Waits.
---@param target pierrot.Target
---@param ... pierrot.Value
---@return any ...
function Breaker:ask(target, ...) end

-- require "pierrot.stream" -------------------------------------------------------------------------------------------

local stream = {}

--- What `run` takes: the parts in order, the source first and the sink last.
---@class pierrot.Stream
---@field [integer] pierrot.Behaviour
---@field window? integer values that each part holds at most; default 64
---@field within? number seconds for all of it; default: no limit

---@class pierrot.StreamSource
---@field pull fun(self: table): pierrot.Value the next value; nil at the end
---@field start? fun(self: table, ...: any)

---@class pierrot.StreamSink
---@field each fun(self: table, value: any) gets each value
---@field finish? fun(self: table): ... what `run` returns
---@field start? fun(self: table, ...: any)

--- The behaviour of a source.
---@param spec pierrot.StreamSource
---@return pierrot.Behaviour
function stream.source(spec) end

--- The behaviour of a stage: what `map` returns goes on, nil leaves a value out.
---@param map fun(self: table, value: any): pierrot.Value
---@return pierrot.Behaviour
function stream.map(map) end

--- The behaviour of a sink.
---@param spec pierrot.StreamSink
---@return pierrot.Behaviour
function stream.sink(spec) end

--- Spawns the parts, runs the stream to its end, and returns what the sink's `finish` does. Raises what a part failed with.
--- Waits.
---
--- ```lua
--- local total = stream.run{
---   stream.source{ pull = function(self) self.n = (self.n or 0) + 1 return self.n <= 1000 and self.n or nil end },
---   stream.sink{ each = function(self, n) self.sum = (self.sum or 0) + n end, finish = function(self) return self.sum end },
--- }
--- ```
---@param parts pierrot.Stream
---@return any ...
function stream.run(parts) end

return pierrot
