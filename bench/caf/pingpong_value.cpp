// Pingpong with contents: the same work as bench/pingpong_value.lua, message for message. The table is a struct.
// Each side takes what it was sent by reference and moves it on, so nothing is copied that need not be.

#include "bench.hpp"

#include <array>

namespace pingpong_value {

struct item {
  int id;
  std::string name;
  std::array<double, 3> pos;
};

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, item& x) {
  return f(caf::meta::type_name("item"), x.id, x.name, x.pos);
}

inline std::int64_t seen(const item& x) {
  return static_cast<std::int64_t>(x.pos[2]);
}

inline std::int64_t seen(const std::string& x) {
  return static_cast<std::int64_t>(x.size());
}

using namespace caf;

struct state {
  actor partner;
  std::int64_t seen = 0;
  std::int64_t left = 0;
  std::int64_t started = 0;
};

template <class Value>
behavior pong(stateful_actor<state>* self) {
  return {
    [=](actor partner) { self->state.partner = std::move(partner); },
    [=](Value& value) {
      self->state.seen += seen(value);
      self->send(self->state.partner, std::move(value));
    },
    [=](bench::received_atom) { return self->state.seen; },
  };
}

template <class Value>
behavior ping(stateful_actor<state>* self, actor partner, actor main) {
  return {
    [=](bench::run_atom, Value& value, std::int64_t round_trips) {
      self->state.left = round_trips;
      self->state.started = bench::now();
      self->send(partner, std::move(value));
    },
    [=](Value& value) {
      auto& s = self->state;
      s.seen += seen(value);
      if (--s.left > 0)
        self->send(partner, std::move(value));
      else
        self->send(main, bench::done_atom::value, s.seen, bench::now() - s.started);
    },
  };
}

template <class Value>
bench::figure run_with(actor_system& system, std::int64_t round_trips, Value value) {
  auto weight = seen(value);
  scoped_actor self{system};
  auto first = system.spawn(pong<Value>);
  auto second = system.spawn(ping<Value>, first, actor_cast<actor>(self));
  self->send(first, second);
  self->send(second, bench::run_atom::value, std::move(value), round_trips);
  auto end = bench::wait(self);
  auto both = end.result + bench::number_of(self, first);
  bench::check("what both saw", both, 2 * round_trips * weight);
  bench::stop(std::vector<actor>{first, second});
  return {both, 2 * round_trips, end.ns, {}};
}

bench::figure run(actor_system& system, const bench::parameters& parameters) {
  auto bytes = parameters.at("bytes");
  if (bytes > 0)
    return run_with(system, parameters.at("round_trips"), std::string(static_cast<size_t>(bytes), 'x'));
  return run_with(system, parameters.at("round_trips"), item{1, "x", {{1, 2, 3}}});
}

bench::registration registered{"pingpong_value", run};

} // namespace pingpong_value
