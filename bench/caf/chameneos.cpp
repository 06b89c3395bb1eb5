// Chameneos: the same work as bench/chameneos.lua, message for message.

#include "bench.hpp"

namespace chameneos {

using namespace caf;

using start_atom = atom_constant<atom("start")>;
using meet_atom = atom_constant<atom("meet")>;
using change_atom = atom_constant<atom("change")>;
using closed_atom = atom_constant<atom("closed")>;
using met_atom = atom_constant<atom("met")>;
using open_atom = atom_constant<atom("open")>;

inline int blend(int a, int b) {
  return a == b ? a : 3 - a - b;
}

struct creature_state {
  int colour = 0;
  std::int64_t met = 0;
};

behavior creature(stateful_actor<creature_state>* self, actor mall, int colour) {
  self->state.colour = colour;
  auto change_to = [=](int now) {
    self->state.colour = now;
    ++self->state.met;
    self->send(mall, meet_atom::value, now, actor_cast<actor>(self));
  };
  return {
    [=](start_atom) { self->send(mall, meet_atom::value, self->state.colour, actor_cast<actor>(self)); },
    [=](meet_atom, int other, const actor& partner) {
      auto now = blend(self->state.colour, other);
      self->send(partner, change_atom::value, now);
      change_to(now);
    },
    [=](change_atom, int now) { change_to(now); },
    [=](closed_atom) { self->send(mall, met_atom::value, self->state.met); },
  };
}

struct mall_state {
  std::int64_t left = 0;
  std::int64_t sum = 0;
  std::int64_t started = 0;
  size_t creatures = 0;
  size_t leaving = 0;
  actor waiting;
};

behavior mall(stateful_actor<mall_state>* self, actor main, std::int64_t meetings) {
  self->state.left = meetings;
  return {
    [=](open_atom, const std::vector<actor>& creatures) {
      self->state.creatures = creatures.size();
      self->state.started = bench::now();
      for (auto& one : creatures)
        self->send(one, start_atom::value);
    },
    [=](meet_atom, int colour, actor& partner) {
      auto& s = self->state;
      if (s.left == 0) {
        self->send(partner, closed_atom::value);
      } else if (s.waiting) {
        --s.left;
        self->send(s.waiting, meet_atom::value, colour, std::move(partner));
        s.waiting = nullptr;
      } else {
        s.waiting = std::move(partner);
      }
    },
    [=](met_atom, std::int64_t count) {
      auto& s = self->state;
      s.sum += count;
      if (++s.leaving == s.creatures)
        self->send(main, bench::done_atom::value, s.sum, bench::now() - s.started);
    },
  };
}

bench::figure run(actor_system& system, const bench::parameters& parameters) {
  auto meetings = parameters.at("meetings");
  scoped_actor self{system};
  auto place = system.spawn(mall, actor_cast<actor>(self), meetings);
  std::vector<actor> creatures;
  for (std::int64_t i = 1; i <= parameters.at("creatures"); ++i)
    creatures.push_back(system.spawn(creature, place, static_cast<int>(i % 3)));
  self->send(place, open_atom::value, creatures);
  auto end = bench::wait(self);
  bench::check("what all met", end.result, 2 * meetings);
  bench::stop(creatures);
  bench::stop(std::vector<actor>{place});
  return {end.result, meetings, end.ns, {}};
}

bench::registration registered{"chameneos", run};

} // namespace chameneos
