// What the programs of the CAF side share. Each program is one file, NAME.cpp, which defines its actors in a
// namespace of its own and registers a function that does the work once. They are compiled as one unit with
// main.cpp at its end, since parsing CAF's headers takes longer than all else.
#pragma once

#include <caf/all.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace bench {

using parameters = std::map<std::string, std::int64_t>;

// What a run did, and how long it took.
struct figure {
  std::int64_t result;
  std::int64_t ops;
  std::int64_t ns;
  std::vector<std::pair<std::string, double>> more; // further figures by name, in ns
};

using program = std::function<figure(caf::actor_system&, const parameters&)>;

inline std::map<std::string, program>& programs() {
  static std::map<std::string, program> all;
  return all;
}

struct registration {
  registration(const char* name, program run) {
    programs()[name] = std::move(run);
  }
};

inline std::int64_t now() {
  using namespace std::chrono;
  return duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
}

inline void check(const char* what, std::int64_t found, std::int64_t wanted) {
  if (found != wanted)
    throw std::runtime_error(std::string(what) + ": " + std::to_string(found) + ", instead of "
                             + std::to_string(wanted));
}

// What actors tell main, or the latch, at the end of the work: a result and the time, or what they have counted.
using done_atom = caf::atom_constant<caf::atom("done")>;
using received_atom = caf::atom_constant<caf::atom("received")>;
using run_atom = caf::atom_constant<caf::atom("run")>;

struct done {
  std::int64_t result;
  std::int64_t ns;
};

inline done wait(caf::scoped_actor& self) {
  done end{0, 0};
  self->receive([&](done_atom, std::int64_t result, std::int64_t ns) { end = {result, ns}; });
  return end;
}

// Asks an actor for a number.
inline std::int64_t number_of(caf::scoped_actor& self, const caf::actor& whom) {
  std::int64_t number = 0;
  self->request(whom, caf::infinite, received_atom::value)
    .receive([&](std::int64_t n) { number = n; },
             [](caf::error&) { throw std::runtime_error("an actor gave no answer"); });
  return number;
}

template <class Actors>
void stop(const Actors& actors) {
  for (auto& a : actors)
    caf::anon_send_exit(a, caf::exit_reason::user_shutdown);
}

// Counts the words of `actors` actors and adds up their numbers; tells main when it has them all, each time.
struct latch_state {
  std::int64_t left = 0;
  std::int64_t sum = 0;
};

inline caf::behavior latch(caf::stateful_actor<latch_state>* self, caf::actor main, std::int64_t actors) {
  self->state.left = actors;
  return {
    [=](std::int64_t n) {
      auto& s = self->state;
      s.sum += n;
      if (--s.left == 0) {
        self->send(main, done_atom::value, s.sum, now());
        s.left = actors;
      }
    },
  };
}

} // namespace bench
