// Fan-in: the same work as bench/fanin.lua, message for message. The consumer is a latch for all messages.

#include "bench.hpp"

namespace fanin {

using namespace caf;

behavior producer(event_based_actor* self, actor consumer) {
  return {
    [=](bench::run_atom, std::int64_t messages) {
      for (std::int64_t n = 1; n <= messages; ++n)
        self->send(consumer, n);
    },
  };
}

bench::figure run(actor_system& system, const bench::parameters& parameters) {
  auto count = parameters.at("producers"), messages = parameters.at("messages"), rounds = parameters.at("rounds");
  scoped_actor self{system};
  auto consumer = system.spawn(bench::latch, actor_cast<actor>(self), count * messages);
  std::vector<actor> producers;
  for (std::int64_t i = 0; i < count; ++i)
    producers.push_back(system.spawn(producer, consumer));

  auto started = bench::now();
  bench::done end{0, 0};
  for (std::int64_t round = 1; round <= rounds; ++round) {
    for (auto& one : producers)
      self->send(one, bench::run_atom::value, messages);
    end = bench::wait(self);
    bench::check("the sum", end.result, round * count * (messages * (messages + 1) / 2));
  }
  bench::stop(producers);
  bench::stop(std::vector<actor>{consumer});
  return {end.result, count * messages * rounds, end.ns - started, {}};
}

bench::registration registered{"fanin", run};

} // namespace fanin
