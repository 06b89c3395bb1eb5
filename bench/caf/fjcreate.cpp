// Fork-join create: the same work as bench/fjcreate.lua, message for message. The thread of main makes the actors, as
// in Savina's own program for CAF: they are dealt out to the workers. (Made by an actor they all lie in the queue of
// its worker; the other one steals them from its end, for which CAF walks through the whole of it. That takes 3 to 10
// times as long.)

#include "bench.hpp"

namespace fjcreate {

using namespace caf;

behavior worker(event_based_actor* self, actor latch) {
  return {
    [=](std::int64_t n) {
      self->send(latch, n);
      self->quit();
    },
  };
}

bench::figure run(actor_system& system, const bench::parameters& parameters) {
  auto actors = parameters.at("actors"), rounds = parameters.at("rounds");
  scoped_actor self{system};
  auto latch = system.spawn(bench::latch, actor_cast<actor>(self), actors);
  std::int64_t sum = 0, ns = 0;
  for (std::int64_t round = 1; round <= rounds; ++round) {
    auto started = bench::now();
    for (std::int64_t i = 1; i <= actors; ++i)
      self->send(system.spawn(worker, latch), i);
    auto end = bench::wait(self);
    bench::check("the sum", end.result, round * (actors * (actors + 1) / 2));
    sum = end.result;
    ns += end.ns - started;
  }
  bench::stop(std::vector<actor>{latch});
  return {sum, actors * rounds, ns, {}};
}

bench::registration registered{"fjcreate", run};

} // namespace fjcreate
