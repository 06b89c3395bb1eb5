// Pingpong: the same work as bench/pingpong.lua, message for message.

#include "bench.hpp"

namespace pingpong {

using namespace caf;

struct pong_state {
  actor ping;
  std::int64_t received = 0;
};

behavior pong(stateful_actor<pong_state>* self) {
  return {
    [=](actor partner) { self->state.ping = std::move(partner); },
    [=](std::int64_t n) {
      ++self->state.received;
      self->send(self->state.ping, n);
    },
    [=](bench::received_atom) { return self->state.received; },
  };
}

struct ping_state {
  std::int64_t started = 0;
};

behavior ping(stateful_actor<ping_state>* self, actor partner, actor main) {
  return {
    [=](bench::run_atom, std::int64_t round_trips) {
      self->state.started = bench::now();
      self->send(partner, round_trips);
    },
    [=](std::int64_t n) {
      if (n > 1)
        self->send(partner, n - 1);
      else
        self->send(main, bench::done_atom::value, std::int64_t{0}, bench::now() - self->state.started);
    },
  };
}

bench::figure run(actor_system& system, const bench::parameters& parameters) {
  auto round_trips = parameters.at("round_trips");
  scoped_actor self{system};
  auto first = system.spawn(pong);
  auto second = system.spawn(ping, first, actor_cast<actor>(self));
  self->send(first, second);
  self->send(second, bench::run_atom::value, round_trips);
  auto end = bench::wait(self);
  auto received = bench::number_of(self, first);
  bench::check("pong's count", received, round_trips);
  bench::stop(std::vector<actor>{first, second});
  return {received, 2 * round_trips, end.ns, {}};
}

bench::registration registered{"pingpong", run};

} // namespace pingpong
