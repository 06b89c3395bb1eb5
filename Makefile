# Pierrot: build, test, install.  `make help` lists the targets.
#
# Everything built lies in $(BUILD); sanitizer builds are the same rules with another $(BUILD).
# Sources are found by wildcard: a new .c, .lua or test file needs no change here.
#   make CFLAGS=-O3        adds flags after ours         make V=1    shows the commands
#   make test SPEC=timer   only test files with "timer" in their name

BUILD   = build
PREFIX  ?= /usr/local
OBJCOPY ?= objcopy
DESTDIR ?=
LUAJIT  ?= luajit
FUZZ_SECONDS ?= 60
# Lazily, so that `make help` and `make clean` work where LuaJIT is still missing.
LUA_CFLAGS ?= $(shell pkg-config --cflags luajit)
LUA_LIBS   ?= $(shell pkg-config --libs luajit)

WARNINGS = -Wall -Wextra -Wshadow -Wpedantic -Wpointer-arith -Wstrict-prototypes -Wvla
BASE_CFLAGS = -std=c11 -O2 -g -fPIC -fvisibility=hidden -D_GNU_SOURCE $(WARNINGS)

# SANITIZE=address|thread, set by the asan and tsan targets.
# -fexceptions: LuaJIT raises errors by unwinding through C frames, and only with it does GCC run
# ThreadSanitizer's function-exit hook there; without, its shadow stack grows with every Lua error
# until it overflows (some ten thousand errors later).
# No object-size: AddressSanitizer finds the same, says more, and writes it where spec/run looks.
SAN_address = -O1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize=object-size \
              -fno-sanitize-recover=undefined
SAN_thread  = -O1 -fno-omit-frame-pointer -fsanitize=thread -fexceptions
SAN_fuzz    = -O1 -fno-omit-frame-pointer -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined
# -O0: a branch is one of the source then, and none of the compiler's. What is wrapped, spec/coverage/counted.c says.
SAN_coverage = -O0 --coverage -fprofile-update=atomic -Wl,--wrap=_exit,--wrap=luaL_loadbuffer,--wrap=lua_sethook
SAN = $(SAN_$(SANITIZE))

# One hop of a message crosses six files: inlining across them is worth a quarter of its time. Objects stay usable
# without it (fat), for the archive. Sanitizer builds keep their frames.
LTO = $(if $(SANITIZE),,-flto=auto -ffat-lto-objects)

COMPILE = $(CC) $(BASE_CFLAGS) $(LTO) $(SAN) -pthread -Isrc $(CPPFLAGS) $(CFLAGS)
LINK    = $(CC) -O2 $(LTO) $(SAN) -pthread $(CFLAGS) $(LDFLAGS)
# The tests' programs are many and run once: they are linked without it, which takes a tenth of the time.
LINK_TEST = $(CC) -O2 -fno-lto $(SAN) -pthread $(CFLAGS) $(LDFLAGS)
# Both ways to name the target: BUILD may be given absolute or relative, from one call to the next.
DEPS    = -MMD -MP -MT '$(patsubst $(CURDIR)/%,%,$@)' -MT '$(abspath $@)'

Q = $(if $(V),,@)
say = $(if $(V),,@printf '  %-6s %s\n' $(1) $(2);)

# --- sources -----------------------------------------------------------------------------------
CORE_SRC   := $(wildcard src/*.c)
BORDER_SRC := $(filter-out src/lua/launcher.c,$(wildcard src/lua/*.c))
EMBED_SRC  := $(wildcard src/embed/*.c)
EMBED_LUA  := $(filter-out lua/pierrot/meta.lua,$(wildcard lua/pierrot/*.lua lua/pierrot/*/*.lua))
EMBED_DIRS := $(sort $(dir $(EMBED_LUA)))
TEST_SRC   := $(wildcard spec/c/*_test.c)
HELPER_SRC := $(filter-out $(TEST_SRC),$(wildcard spec/c/*.c))
FUZZ_SRC   := $(wildcard spec/fuzz/*.c)

obj = $(patsubst src/%.c,$(BUILD)/obj/%.o,$(1))
CORE_OBJ   = $(call obj,$(CORE_SRC))
BORDER_OBJ = $(call obj,$(BORDER_SRC)) $(BUILD)/embedded.o $(if $(filter coverage,$(SANITIZE)),$(BUILD)/counted.o)
EMBED_OBJ  = $(call obj,$(EMBED_SRC))
HELPER_OBJ = $(patsubst spec/c/%.c,$(BUILD)/spec/obj/%.o,$(HELPER_SRC))
TESTS      = $(patsubst spec/c/%.c,$(BUILD)/spec/%,$(TEST_SRC))
FUZZERS    = $(patsubst spec/fuzz/%.c,$(BUILD)/%,$(FUZZ_SRC))

# --- build -------------------------------------------------------------------------------------
.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.PHONY: all run test reference check asan tsan fuzz soak simulate coverage proof bench bench-embed install uninstall rock release clean help setup \
        module library tests test-build fuzzers rock-install

all: $(BUILD)/pierrot.so $(BUILD)/pierrot library ## build the Lua module, the launcher and the C library
module: $(BUILD)/pierrot.so
tests: $(TESTS)

# The core must not know Lua: its objects are compiled without Lua's include path.
$(BUILD)/obj/%.o: src/%.c
	@mkdir -p $(@D)
	$(call say,CC,$<)$(COMPILE) $(DEPS) -c -o $@ $<

$(BUILD)/obj/lua/%.o: src/lua/%.c
	@mkdir -p $(@D)
	$(call say,CC,$<)$(COMPILE) $(LUA_CFLAGS) $(DEPS) -c -o $@ $<

# The directories are prerequisites too: a removed Lua file changes only theirs.
$(BUILD)/embedded.c: src/lua/embed.lua $(EMBED_LUA) $(EMBED_DIRS)
	@mkdir -p $(@D)
	$(call say,EMBED,$@)$(LUAJIT) src/lua/embed.lua $@ lua/ $(EMBED_LUA)

$(BUILD)/embedded.o: $(BUILD)/embedded.c
	$(call say,CC,$<)$(COMPILE) $(DEPS) -c -o $@ $<

$(BUILD)/counted.o: spec/coverage/counted.c
	@mkdir -p $(@D)
	$(call say,CC,$<)$(COMPILE) $(LUA_CFLAGS) $(DEPS) -c -o $@ $<

# For the C tests, which see everything in it.
$(BUILD)/internal.a: $(CORE_OBJ) $(BORDER_OBJ) $(EMBED_OBJ)
	@mkdir -p $(@D)
	$(call say,AR,$@)rm -f $@ && $(AR) rcs $@ $^

# --- the C library: only pierrot.h is seen of it, and LuaJIT is taken from the system, once a process.
VERSION := $(shell sed -n 's/^.define PIERROT_VERSION "\(.*\)"/\1/p' src/pierrot.h)
SONAME  := libpierrot.so.$(firstword $(subst ., ,$(VERSION)))

library: $(BUILD)/libpierrot.a $(BUILD)/libpierrot.so $(BUILD)/pierrot.pc

$(BUILD)/libpierrot.so.$(VERSION): $(CORE_OBJ) $(BORDER_OBJ) $(EMBED_OBJ) src/embed/libpierrot.map
	$(call say,LINK,$@)$(LINK) -shared -Wl,-soname,$(SONAME) -Wl,-z,nodelete $(if $(SANITIZE),,-Wl,-z,defs) \
	  -Wl,--version-script=src/embed/libpierrot.map -o $@ $(filter %.o,$^) $(LDLIBS) $(LUA_LIBS) -lm

$(BUILD)/libpierrot.so: $(BUILD)/libpierrot.so.$(VERSION)
	$(call say,LN,$@)ln -sf $(<F) $(BUILD)/$(SONAME) && ln -sf $(SONAME) $@

# One object, in which what is hidden is local: a static program cannot come to depend on it, or clash with it.
$(BUILD)/libpierrot.a: $(CORE_OBJ) $(BORDER_OBJ) $(EMBED_OBJ)
	$(call say,AR,$@)rm -f $@ && $(CC) -O2 $(LTO) $(SAN) $(CFLAGS) -nostdlib -r $(if $(LTO),-flinker-output=nolto-rel) \
	  -o $(BUILD)/libpierrot.o $^ && $(OBJCOPY) --localize-hidden --localize-symbol=luaopen_pierrot --localize-symbol=luaopen_pierrot_testing \
	  $(BUILD)/libpierrot.o && $(AR) rcs $@ $(BUILD)/libpierrot.o

# Relative to itself, so that an installed tree can be moved; DESTDIR does not show in it.
$(BUILD)/pierrot.pc: src/embed/pierrot.pc.in src/pierrot.h
	@mkdir -p $(@D)
	$(call say,GEN,$@)sed 's/@VERSION@/$(VERSION)/' $< >$@

# The module takes Lua's API from the program that loads it, and so links no libluajit. It stays
# mapped after lua_close (nodelete), for its threads may be the last to leave it.
$(BUILD)/pierrot.so: $(CORE_OBJ) $(BORDER_OBJ) src/lua/module.map
	$(call say,LINK,$@)$(LINK) -shared -Wl,-z,nodelete -Wl,--version-script=src/lua/module.map \
	  -o $@ $(filter %.o,$^) $(LDLIBS) -lm

# The launcher takes LuaJIT in statically where its archive is there (calls into it cost less), and exports Lua's API
# to the C modules that scripts require.
LUA_STATIC ?= $(wildcard $(shell pkg-config --variable=libdir luajit)/libluajit-5.1.a)
$(BUILD)/pierrot: $(CORE_OBJ) $(BORDER_OBJ) $(BUILD)/obj/lua/launcher.o
	$(call say,LINK,$@)$(LINK) -Wl,-E -o $@ $^ $(LDLIBS) $(or $(if $(SANITIZE),,$(LUA_STATIC)),$(LUA_LIBS)) -lm -ldl

# --- tests -------------------------------------------------------------------------------------
$(BUILD)/spec/obj/%.o: spec/c/%.c
	@mkdir -p $(@D)
	$(call say,CC,$<)$(COMPILE) $(DEPS) -c -o $@ $<

$(TESTS): $(BUILD)/spec/%: $(BUILD)/spec/obj/%.o $(HELPER_OBJ) $(BUILD)/internal.a
	$(call say,LINK,$@)$(LINK_TEST) -o $@ $^ $(LDLIBS) $(LUA_LIBS) -lcmocka -lm

# Stands in for `luajit` in sanitizer builds; spec/run says why.
$(BUILD)/luajit-host: spec/support/luajit_host.c
	@mkdir -p $(@D)
	$(call say,CC,$<)$(COMPILE) $(LUA_CFLAGS) $(DEPS) -o $@ $< $(LDFLAGS) $(LDLIBS) $(LUA_LIBS) -lm

.SECONDARY:
-include $(wildcard $(BUILD)/*.d $(BUILD)/obj/*.d $(BUILD)/obj/*/*.d $(BUILD)/spec/obj/*.d)

# The targets below first see that the tools are there, then build in a make of their own, which
# finds what was installed. It uses all cores unless -j says how many.
SUBMAKE = +$(Q)$(MAKE) --no-print-directory $(if $(V),,-s) $(if $(findstring -j,$(MAKEFLAGS)),,-j$(shell nproc))

setup: ## install the packages that are missing (Debian), or name them
	@.ci/setup run test

run: ## build, then count words with the example: make run FILES="a.txt b.txt"
	@.ci/setup run
	$(SUBMAKE) all
	$(Q)$(BUILD)/pierrot run examples/wordcount.lua $(FILES)

test: ## build and run all C tests and specs; SPEC=part-of-a-name picks
	@.ci/setup run test
	$(SUBMAKE) test-build
	@spec/run --build "$(BUILD)" $(SPEC)

asan: ## the same tests under AddressSanitizer and UBSan, in build/asan
	@.ci/setup run test
	$(SUBMAKE) test-build BUILD="$(BUILD)/asan" SANITIZE=address
	@spec/run --build "$(BUILD)/asan" --sanitizer address $(SPEC)

tsan: ## the same tests under ThreadSanitizer, in build/tsan
	@.ci/setup run test
	$(SUBMAKE) test-build BUILD="$(BUILD)/tsan" SANITIZE=thread
	@spec/run --build "$(BUILD)/tsan" --sanitizer thread $(SPEC)

test-build: all tests $(if $(filter address thread,$(SANITIZE)),$(BUILD)/luajit-host)

reference: ## write docs/reference.md from the annotations in lua/pierrot/meta.lua
	$(Q)$(LUAJIT) src/lua/reference.lua lua/pierrot/meta.lua >docs/reference.md

check: ## luacheck, warnings of gcc and clang, clang-tidy, cppcheck, layout rules, SPIN models
	@.ci/setup run test check
	$(SUBMAKE) module library
	@spec/check "$(BUILD)"

bench: ## run the benchmarks: make bench BENCH="ping spawn"
	@.ci/setup run bench
	$(SUBMAKE) all
	$(Q)$(BUILD)/pierrot bench $(BENCH)

$(BUILD)/bench-embed: bench/embed.c $(BUILD)/libpierrot.so
	$(call say,CC,$<)$(CC) -std=gnu11 -O2 $(WARNINGS) -Isrc -o $@ $< -L$(BUILD) -lpierrot -pthread -Wl,-rpath,$(abspath $(BUILD))

bench-embed: ## what the C library costs: make bench-embed N=2000000
	@.ci/setup run
	$(SUBMAKE) $(BUILD)/bench-embed
	$(Q)$(BUILD)/bench-embed $(N)

PROGRAMS ?= 100000
simulate: ## random programs of actors against a model: PROGRAMS=100000; SEED=N runs one
	@.ci/setup run
	$(SUBMAKE) module
	@LUA_PATH="./spec/?.lua;;" LUA_CPATH="$(BUILD)/?.so;;" $(LUAJIT) spec/simulation/run.lua \
	  $(if $(SEED),--seed $(SEED),$(if $(BATCH),--batch $(BATCH),--programs $(PROGRAMS)))

# The share of CI that is no plain test: ten minutes on two cores. docs/PROOF.md says what each part can find.
proof: ## models, fuzzing, seeds, a soak of a minute: what docs/PROOF.md describes
	@.ci/setup run test fuzz
	$(Q)$(MAKE) --no-print-directory check
	$(Q)$(MAKE) --no-print-directory test SPEC="seeds runaway isolation order exclusion storm"
	$(Q)PIERROT_FUZZ_SEED=$${PIERROT_FUZZ_SEED:-1} $(MAKE) --no-print-directory fuzz FUZZ_SECONDS=30
	$(Q)$(MAKE) --no-print-directory soak MINUTES=1
	$(Q)$(MAKE) --no-print-directory soak MINUTES=1 SOAK_WORKERS=16

# Three times: as they are, and the simulation; the specs again, nothing compiled, for compiled code runs no line hooks; and the
# tests of refused memory where each envelope is an allocation. A test may fail for the time that all this takes, which spec/run says.
coverage: ## what the tests reach: lines and branches by file; fails where that is too little of the core
	@.ci/setup run test
	$(Q)mkdir -p "$(BUILD)/cov/lines" "$(BUILD)/cov/coverage" "$(BUILD)/apart"
	$(Q)find "$(BUILD)/cov" "$(BUILD)/apart" -name '*.gcda' -delete; rm -f "$(BUILD)"/cov/lines/*
	$(SUBMAKE) test-build BUILD="$(BUILD)/cov" SANITIZE=coverage
	$(SUBMAKE) "$(BUILD)/apart/spec/refusal_test" BUILD="$(BUILD)/apart" SANITIZE=coverage CPPFLAGS=-DPR_MSG_APART
	-@spec/run --build "$(BUILD)/cov" $(SPEC)
	-@LUA_PATH="./spec/?.lua;;" LUA_CPATH="$(BUILD)/cov/?.so;;" $(LUAJIT) spec/simulation/run.lua --programs 2000
	-@PIERROT_LINES="$(abspath $(BUILD))/cov/lines" spec/run --build "$(BUILD)/cov" $(or $(SPEC),_spec.lua)
	-@PIERROT_LINES="$(abspath $(BUILD))/cov/lines" "$(BUILD)/cov/spec/embed_test"
	-@PIERROT_HAMMER=1 "$(BUILD)/cov/spec/refusal_test" && PIERROT_HAMMER=1 "$(BUILD)/apart/spec/refusal_test"
	@$(LUAJIT) spec/coverage/report.lua "$(BUILD)/cov" "$(BUILD)/apart"

# SOAK=thread or address: under that sanitizer, in its build.
MINUTES ?= 10
SOAK_WORKERS ?= $(shell nproc)
SOAK_BUILD = $(BUILD)$(if $(SOAK),/$(if $(filter thread,$(SOAK)),tsan,asan))
soak: ## everything at once on real threads: make soak MINUTES=10 SOAK=thread|address SOAK_WORKERS=16
	@.ci/setup run test
	$(SUBMAKE) all BUILD="$(SOAK_BUILD)" SANITIZE=$(SOAK)
	@spec/soak/run "$(SOAK_BUILD)" "$(SOAK)" "$(MINUTES)" "$(SOAK_WORKERS)"

# A fuzz target is a libFuzzer program; it sees the whole runtime, the Lua border included. All run side by side.
# What they find lies in build/fuzz/NAME-..., and what they have learnt in build/fuzz/corpus/NAME.
fuzz: ## run each spec/fuzz/*.c for FUZZ_SECONDS (60); FUZZ=name picks one
	@.ci/setup run fuzz
	$(SUBMAKE) fuzzers BUILD="$(BUILD)/fuzz" SANITIZE=fuzz CC=clang
	$(Q)spec/fuzz/run "$(BUILD)/fuzz" $(FUZZ_SECONDS) $(FUZZ)

fuzzers: $(FUZZERS)
$(FUZZERS): $(BUILD)/%: spec/fuzz/%.c spec/fuzz/fuzz.h $(BUILD)/internal.a
	$(call say,FUZZ,$<)$(COMPILE) $(LUA_CFLAGS) $(DEPS) -fsanitize=fuzzer -o $@ $< $(BUILD)/internal.a $(LDFLAGS) $(LDLIBS) $(LUA_LIBS) -lm

# --- install -----------------------------------------------------------------------------------
D = $(DESTDIR)$(PREFIX)
DOCS := $(wildcard README.md CHANGELOG.md LICENSE docs/*.md)
EXAMPLES := $(shell find examples -type f 2>/dev/null)

install: all ## install below PREFIX (/usr/local), with DESTDIR in front
	install -D -m 755 $(BUILD)/pierrot "$(D)/bin/pierrot"
	install -D -m 644 $(BUILD)/pierrot.so "$(D)/lib/lua/5.1/pierrot.so"
	install -D -m 644 lua/pierrot/meta.lua "$(D)/share/lua/5.1/pierrot/meta.lua"
	install -D -m 644 src/pierrot.h "$(D)/include/pierrot.h"
	install -D -m 644 $(BUILD)/libpierrot.a "$(D)/lib/libpierrot.a"
	install -D -m 644 $(BUILD)/libpierrot.so.$(VERSION) "$(D)/lib/libpierrot.so.$(VERSION)"
	ln -sf libpierrot.so.$(VERSION) "$(D)/lib/$(SONAME)"
	ln -sf $(SONAME) "$(D)/lib/libpierrot.so"
	install -D -m 644 $(BUILD)/pierrot.pc "$(D)/lib/pkgconfig/pierrot.pc"
	install -D -m 644 man/pierrot.1 "$(D)/share/man/man1/pierrot.1"
	$(Q)for f in $(DOCS); do install -D -m 644 $$f "$(D)/share/doc/pierrot/$${f#docs/}" || exit 1; done
	$(Q)for f in $(EXAMPLES); do install -D -m 644 $$f "$(D)/share/pierrot/$$f" || exit 1; done

# Only what install put there: files by name, and our own directories once they are empty.
uninstall: ## remove what install put there
	rm -f "$(D)/bin/pierrot" "$(D)/lib/lua/5.1/pierrot.so"
	rm -f "$(D)/share/man/man1/pierrot.1" "$(D)/share/lua/5.1/pierrot/meta.lua" "$(D)/include/pierrot.h" "$(D)/lib/pkgconfig/pierrot.pc"
	rm -f "$(D)/lib/libpierrot.a" "$(D)/lib/libpierrot.so" "$(D)/lib/$(SONAME)" "$(D)/lib/libpierrot.so.$(VERSION)"
	$(Q)for f in $(DOCS); do rm -f "$(D)/share/doc/pierrot/$${f#docs/}"; done
	$(Q)for f in $(EXAMPLES); do rm -f "$(D)/share/pierrot/$$f"; done
	$(Q)for d in share/lua/5.1/pierrot share/doc/pierrot share/pierrot; do \
	  [ ! -d "$(D)/$$d" ] || find "$(D)/$$d" -depth -type d -empty -delete; done

# The rock goes into ROCK_TREE. LuaRocks calls back into `all` and `rock-install`.
ROCK_TREE ?= $(BUILD)/rock
LUAROCKS = LUAROCKS_CONFIG="$(CURDIR)/rockspec/luarocks-config.lua" LUAJIT_BIN="$$(command -v $(LUAJIT))" \
  LUAJIT_INCDIR="$$(pkg-config --variable=includedir luajit)" luarocks
rock: ## build and install the rock from this tree into ROCK_TREE (build/rock)
	@.ci/setup run rock
	+$(Q)$(LUAROCKS) --tree="$(ROCK_TREE)" make --deps-mode=none rockspec/pierrot-scm-1.rockspec

rock-install:
	install -D -m 755 $(BUILD)/pierrot.so "$(LIBDIR)/pierrot.so"
	install -D -m 644 lua/pierrot/meta.lua "$(LUADIR)/pierrot/meta.lua"
	install -D -m 755 $(BUILD)/pierrot "$(BINDIR)/pierrot"

# What is committed, as an archive, and a source rock made of it.
RELEASE := pierrot-$(VERSION)
release: ## build/release: the archive, its rockspec and the source rock
	@.ci/setup run rock
	@mkdir -p $(BUILD)/release
	git archive --format=tar.gz --prefix=$(RELEASE)/ -o $(BUILD)/release/$(RELEASE).tar.gz HEAD
	sed 's|url = "|&file://$(abspath $(BUILD)/release)/|' rockspec/$(RELEASE)-1.rockspec >$(BUILD)/release/$(RELEASE)-1.rockspec
	$(Q)cd $(BUILD)/release && $(LUAROCKS) pack $(RELEASE)-1.rockspec

clean: ## remove everything built
	rm -rf $(BUILD)

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
