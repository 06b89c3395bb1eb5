// Ask: the same work as bench/ask.lua: request and then, in event-based actors. Without the time limit that the others
// have: with one of 5 s, CAF sets a timer for each request, and takes twice as long.

#include "bench.hpp"

namespace ask {

using namespace caf;

using double_atom = atom_constant<atom("double")>;

behavior server() {
  return {
    [](double_atom, std::int64_t n) { return 2 * n; },
  };
}

struct client_state {
  std::int64_t sum = 0;
  std::int64_t started = 0;
};

void next(stateful_actor<client_state>* self, const actor& target, const actor& main, std::int64_t i,
          std::int64_t asks) {
  self->request(target, infinite, double_atom::value, i).then([=](std::int64_t answer) {
    auto& s = self->state;
    s.sum += answer;
    if (i < asks)
      next(self, target, main, i + 1, asks);
    else
      self->send(main, bench::done_atom::value, s.sum, bench::now() - s.started);
  });
}

behavior client(stateful_actor<client_state>* self, actor target, actor main) {
  return {
    [=](bench::run_atom, std::int64_t asks) {
      self->state.started = bench::now();
      next(self, target, main, 1, asks);
    },
  };
}

bench::figure run(actor_system& system, const bench::parameters& parameters) {
  auto asks = parameters.at("asks");
  scoped_actor self{system};
  auto target = system.spawn(server);
  auto source = system.spawn(client, target, actor_cast<actor>(self));
  self->send(source, bench::run_atom::value, asks);
  auto end = bench::wait(self);
  bench::check("the sum of the answers", end.result, asks * (asks + 1));
  bench::stop(std::vector<actor>{target, source});
  return {end.result, asks, end.ns, {}};
}

bench::registration registered{"ask", run};

} // namespace ask
