-- What the tests cannot reach, and why. Each entry is a plain part of the text of a line (`text`), in files whose path matches
-- `file` if there is one. The lines of an entry that have not run, and the sides of their branches that were not taken, are not
-- counted; they are shown with the reason. What has run counts as ever.
local list = {}

local function because(reason, entries)
  for _, entry in ipairs(entries) do
    if type(entry) == "string" then entry = { text = entry } end
    list[#list + 1] = { reason = reason, kind = entry.kind or "branch", file = entry.file, text = entry.text }
  end
end

because("an assertion: its other side ends the process", { "assert(" })

because("a compare-and-swap: the other side is another thread that comes between, or (weak) chance", {
  "atomic_compare_exchange_",
  { file = "behaviour%.c", text = "revive(b)" },
  { file = "send_timer%.c", text = "memory_order_acquire) != PR_TIMER_PENDING" },
  { file = "ready_queue%.h", text = "tail - head <= PR_RING" },
})

because("the system refuses a lock, a thread, a descriptor or a clock", {
  "pthread_mutex_init(", "pthread_create(", "pthread_condattr_", "pr_cond_init(", "pr_parker_init(", "pr_global_init(",
  "pr_worker_init(", "timerfd_create(",
  { file = "parker%.c", text = "if (status == 0)" },
  { file = "parker%.c", text = "if (status != 0)" },
  { file = "dispatcher%.c", text = "if (status != 0) {" },
  { file = "dispatcher%.c", text = "if (status == 0) {" },
  { file = "dispatcher%.c", text = "if (!init(rt, &rt->dispatchers[i + 1]" },
  { file = "runtime%.c", text = "d->no_threads ? PR_BUSY" },
  { file = "src/control%.c", text = "fchmod(fd, 0600)" },
  { file = "src/control%.c", text = "listen(fd, 64)" },
  { file = "src/control%.c", text = "if (fd >= 0)" },
  { file = "src/control%.c", text = "if (probe >= 0" },
  { file = "src/control%.c", text = "if (fd < 0) {" },
  { file = "src/control%.c", text = "c->wake < 0" },
  { file = "src/control%.c", text = "if (status == 0)" },
  { file = "src/control%.c", text = "errno == EAGAIN || errno == EINTR" },
  { file = "src/control%.c", text = "c->broken ? -1" },
  { file = "src/control%.c", text = "POLLHUP | POLLERR | POLLNVAL" },
  { file = "log_writer%.c", text = "if (started)" },
  { file = "log_writer%.c", text = "errno == EINTR" },
  { file = "src/log%.c", text = "errno != EINTR" },
  { file = "src/log%.c", text = "wrote == 0" },
  { file = "watchdog%.c", text = "if (!dog->runs)" },
})

because("snprintf fails on no text of ours", {
  "if (n < 0)", "n < 0 ?", "(size_t)n < sizeof", "(size_t)n < cap",
  { file = "tick%.c", text = "if (n > 0)" },
})

because("sizes, counts and times beyond what a test can have: 2^31 and more", {
  "SIZE_MAX / 2", "size > PR_MSG_MAX", "PR_GENERATIONS", "PR_UNBOUNDED / 2", "len > UINT32_MAX", "UINT64_MAX / 1000000",
  { file = "actor%.c", text = "first + PR_SLAB > t->max" },
  { file = "tick%.c", text = "UINT64_MAX - now - 1" },
  { file = "explore%.c", text = "e->count == HAPPENED_MOST" },
})

because("a counter of a worker or, without one, of outside: PR_COUNT has both sides wherever it stands", { "PR_COUNT(" })

return list
