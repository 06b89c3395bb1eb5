// Fork-join throughput: the same work as bench/fjthroughput.lua, message for message. One actor sends to all, as
// Pierrot's and Erlang's main does.

#include "bench.hpp"

namespace fjthroughput {

using namespace caf;

struct state {
  std::int64_t left = 0;
  std::int64_t sum = 0;
};

behavior worker(stateful_actor<state>* self, actor latch, std::int64_t messages) {
  self->state.left = messages;
  return {
    [=](std::int64_t n) {
      auto& s = self->state;
      s.sum += n;
      if (--s.left == 0) {
        self->send(latch, s.sum);
        s.left = messages;
        s.sum = 0;
      }
    },
  };
}

behavior source(event_based_actor* self, std::vector<actor> workers) {
  return {
    [=](bench::run_atom, std::int64_t messages) {
      for (std::int64_t n = 1; n <= messages; ++n)
        for (auto& one : workers)
          self->send(one, n);
    },
  };
}

bench::figure run(actor_system& system, const bench::parameters& parameters) {
  auto actors = parameters.at("actors"), messages = parameters.at("messages"), rounds = parameters.at("rounds");
  scoped_actor self{system};
  auto latch = system.spawn(bench::latch, actor_cast<actor>(self), actors);
  std::vector<actor> workers;
  for (std::int64_t i = 0; i < actors; ++i)
    workers.push_back(system.spawn(worker, latch, messages));
  auto sender = system.spawn(source, workers);

  auto started = bench::now();
  bench::done end{0, 0};
  for (std::int64_t round = 1; round <= rounds; ++round) {
    self->send(sender, bench::run_atom::value, messages);
    end = bench::wait(self);
    bench::check("the sum", end.result, round * actors * (messages * (messages + 1) / 2));
  }
  bench::stop(workers);
  bench::stop(std::vector<actor>{sender, latch});
  return {end.result, actors * messages * rounds, end.ns - started, {}};
}

bench::registration registered{"fjthroughput", run};

} // namespace fjthroughput
