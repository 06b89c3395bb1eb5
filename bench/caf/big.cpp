// Big: the same work as bench/big.lua, message for message, with the same random numbers.

#include "bench.hpp"

namespace big {

using namespace caf;

using ping_atom = atom_constant<atom("ping")>;
using pong_atom = atom_constant<atom("pong")>;

struct state {
  std::vector<actor> neighbours;
  std::int64_t left = 0;
  std::int64_t received = 0;
  std::int64_t random = 0;
  std::int64_t expected = -1;
};

behavior member(stateful_actor<state>* self, std::int64_t id, std::int64_t pings, actor sink) {
  self->state.left = pings;
  self->state.random = id;
  return {
    [=](std::vector<actor>& neighbours) { self->state.neighbours = std::move(neighbours); },
    [=](ping_atom, std::int64_t from) {
      auto& s = self->state;
      ++s.received;
      self->send(s.neighbours[static_cast<size_t>(from - 1)], pong_atom::value, id);
    },
    [=](pong_atom, std::int64_t from) {
      auto& s = self->state;
      bench::check("the pong's sender", from, s.expected);
      if (s.left == 0) {
        self->send(sink, id);
        return;
      }
      --s.left;
      s.random = (s.random * 1309 + 13849) % 65536;
      s.expected = s.random % static_cast<std::int64_t>(s.neighbours.size()) + 1;
      self->send(s.neighbours[static_cast<size_t>(s.expected - 1)], ping_atom::value, id);
    },
    [=](bench::received_atom) { return self->state.received; },
  };
}

bench::figure run(actor_system& system, const bench::parameters& parameters) {
  auto actors = parameters.at("actors"), pings = parameters.at("pings");
  scoped_actor self{system};
  auto sink = system.spawn(bench::latch, actor_cast<actor>(self), actors);
  std::vector<actor> members;
  for (std::int64_t id = 1; id <= actors; ++id)
    members.push_back(system.spawn(member, id, pings, sink));
  for (auto& one : members)
    self->send(one, members);

  auto started = bench::now();
  for (auto& one : members)
    self->send(one, pong_atom::value, std::int64_t{-1});
  auto end = bench::wait(self);

  std::int64_t received = 0, result = 0;
  for (std::int64_t id = 1; id <= actors; ++id) {
    auto& one = members[static_cast<size_t>(id - 1)];
    auto count = bench::number_of(self, one);
    received += count;
    result += id * count;
    self->send(one, std::vector<actor>{}); // a circle of refs would keep itself alive
  }
  bench::check("pings received", received, actors * pings);
  bench::stop(members);
  bench::stop(std::vector<actor>{sink});
  return {result, actors * pings, end.ns - started, {}};
}

bench::registration registered{"big", run};

} // namespace big
