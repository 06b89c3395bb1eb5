// Counting: the same work as bench/count.lua, message for message.

#include "bench.hpp"

namespace count {

using namespace caf;

using increment_atom = atom_constant<atom("increment")>;

struct counter_state {
  std::int64_t total = 0;
};

behavior counter(stateful_actor<counter_state>* self) {
  return {
    [=](increment_atom, std::int64_t by) { self->state.total += by; },
    [=](bench::received_atom) { return self->state.total; },
  };
}

struct producer_state {
  std::int64_t started = 0;
};

void round(stateful_actor<producer_state>* self, actor target, actor main, std::int64_t messages,
           std::int64_t number, std::int64_t rounds) {
  for (std::int64_t i = 0; i < messages; ++i)
    self->send(target, increment_atom::value, std::int64_t{1});
  self->request(target, infinite, bench::received_atom::value).then([=](std::int64_t total) {
    bench::check("the counter's total", total, number * messages);
    if (number < rounds)
      round(self, target, main, messages, number + 1, rounds);
    else
      self->send(main, bench::done_atom::value, total, bench::now() - self->state.started);
  });
}

behavior producer(stateful_actor<producer_state>* self, actor target, actor main) {
  return {
    [=](bench::run_atom, std::int64_t messages, std::int64_t rounds) {
      self->state.started = bench::now();
      round(self, target, main, messages, 1, rounds);
    },
  };
}

bench::figure run(actor_system& system, const bench::parameters& parameters) {
  auto messages = parameters.at("messages"), rounds = parameters.at("rounds");
  scoped_actor self{system};
  auto target = system.spawn(counter);
  auto source = system.spawn(producer, target, actor_cast<actor>(self));
  self->send(source, bench::run_atom::value, messages, rounds);
  auto end = bench::wait(self);
  bench::stop(std::vector<actor>{target, source});
  return {end.result, messages * rounds, end.ns, {}};
}

bench::registration registered{"count", run};

} // namespace count
