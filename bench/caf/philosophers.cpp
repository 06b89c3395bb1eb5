// Dining philosophers: the same work as bench/philosophers.lua, message for message.

#include "bench.hpp"

namespace philosophers {

using namespace caf;

using start_atom = atom_constant<atom("start")>;
using open_atom = atom_constant<atom("open")>;
using hungry_atom = atom_constant<atom("hungry")>;
using eat_atom = atom_constant<atom("eat")>;
using finished_atom = atom_constant<atom("finished")>;
using leave_atom = atom_constant<atom("leave")>;

struct philosopher_state {
  std::int64_t eaten = 0;
};

behavior philosopher(stateful_actor<philosopher_state>* self, size_t id, actor arbitrator, std::int64_t meals) {
  return {
    [=](start_atom) { self->send(arbitrator, hungry_atom::value, id); },
    [=](eat_atom) {
      self->send(arbitrator, finished_atom::value, id);
      if (++self->state.eaten < meals)
        self->send(arbitrator, hungry_atom::value, id);
      else
        self->send(arbitrator, leave_atom::value);
    },
    [=](bench::received_atom) { return self->state.eaten; },
  };
}

struct arbitrator_state {
  std::vector<actor> philosophers;
  std::vector<bool> taken;
  std::vector<bool> waiting;
  size_t gone = 0;
};

// Gives the philosopher both forks if they lie there, or lets it wait.
void seat(stateful_actor<arbitrator_state>* self, size_t id) {
  auto& s = self->state;
  auto other = (id + 1) % s.philosophers.size();
  if (s.taken[id] || s.taken[other]) {
    s.waiting[id] = true;
    return;
  }
  s.taken[id] = s.taken[other] = true;
  s.waiting[id] = false;
  self->send(s.philosophers[id], eat_atom::value);
}

behavior arbitrator(stateful_actor<arbitrator_state>* self, actor main) {
  return {
    [=](open_atom, std::vector<actor>& philosophers) {
      auto& s = self->state;
      s.taken.resize(philosophers.size());
      s.waiting.resize(philosophers.size());
      s.philosophers = std::move(philosophers);
    },
    [=](hungry_atom, size_t id) { seat(self, id); },
    [=](finished_atom, size_t id) {
      auto& s = self->state;
      auto count = s.philosophers.size();
      auto left = (id + count - 1) % count, right = (id + 1) % count;
      s.taken[id] = s.taken[right] = false;
      if (s.waiting[left])
        seat(self, left);
      if (s.waiting[right])
        seat(self, right);
    },
    [=](leave_atom) {
      auto& s = self->state;
      if (++s.gone == s.philosophers.size()) {
        self->send(main, bench::done_atom::value, std::int64_t{0}, bench::now());
        s.philosophers.clear(); // a circle of refs would keep itself alive
      }
    },
  };
}

bench::figure run(actor_system& system, const bench::parameters& parameters) {
  auto count = parameters.at("philosophers"), meals = parameters.at("meals");
  scoped_actor self{system};
  auto waiter = system.spawn(arbitrator, actor_cast<actor>(self));
  std::vector<actor> all;
  for (std::int64_t id = 0; id < count; ++id)
    all.push_back(system.spawn(philosopher, static_cast<size_t>(id), waiter, meals));
  self->send(waiter, open_atom::value, all);

  auto started = bench::now();
  for (auto& one : all)
    self->send(one, start_atom::value);
  auto end = bench::wait(self);
  std::int64_t eaten = 0;
  for (auto& one : all)
    eaten += bench::number_of(self, one);
  bench::check("meals", eaten, count * meals);
  bench::stop(all);
  bench::stop(std::vector<actor>{waiter});
  return {eaten, eaten, end.ns - started, {}};
}

bench::registration registered{"philosophers", run};

} // namespace philosophers
