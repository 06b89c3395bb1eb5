// Thread ring: the same work as bench/ring.lua, message for message.

#include "bench.hpp"

namespace ring {

using namespace caf;

struct state {
  actor next;
  std::int64_t received = 0;
};

behavior member(stateful_actor<state>* self, actor main) {
  return {
    [=](actor next) { self->state.next = std::move(next); },
    [=](std::int64_t hops_left) {
      ++self->state.received;
      if (hops_left > 1)
        self->send(self->state.next, hops_left - 1);
      else
        self->send(main, bench::done_atom::value, std::int64_t{0}, bench::now());
    },
    [=](bench::received_atom) { return self->state.received; },
  };
}

bench::figure run(actor_system& system, const bench::parameters& parameters) {
  auto hops = parameters.at("hops");
  scoped_actor self{system};
  std::vector<actor> members;
  for (std::int64_t i = 0; i < parameters.at("actors"); ++i)
    members.push_back(system.spawn(member, actor_cast<actor>(self)));
  for (size_t i = 0; i < members.size(); ++i)
    self->send(members[i], members[(i + 1) % members.size()]);

  auto started = bench::now();
  self->send(members[0], hops);
  auto end = bench::wait(self);
  std::int64_t received = 0;
  for (auto& one : members) {
    received += bench::number_of(self, one);
    self->send(one, actor{}); // a ring of refs would keep itself alive
  }
  bench::check("deliveries", received, hops);
  bench::stop(members);
  return {received, hops, end.ns - started, {}};
}

bench::registration registered{"ring", run};

} // namespace ring
