// One-way latency under a paced load: the same work as bench/latency.lua, message for message, to the same targets.

#include "bench.hpp"

#include <algorithm>
#include <cmath>
#include <thread>

namespace latency {

using namespace caf;

using tick_atom = atom_constant<atom("tick")>;
using report_atom = atom_constant<atom("report")>;

constexpr auto tick = std::chrono::milliseconds(1);

struct target_state {
  std::vector<std::int64_t> latencies;
};

behavior target(stateful_actor<target_state>* self) {
  return {
    [=](std::int64_t sent) { self->state.latencies.push_back(bench::now() - sent); },
    [=](report_atom) { return self->state.latencies; },
  };
}

struct pacer_state {
  std::uint32_t random = 0;
  std::int64_t started = 0;
  std::int64_t sent = 0;
};

behavior pacer(stateful_actor<pacer_state>* self, actor main, std::vector<actor> targets, double rate,
               std::int64_t milliseconds, std::uint32_t random) {
  self->state.random = random;
  auto total = static_cast<std::int64_t>(rate * static_cast<double>(milliseconds) / 1000);
  return {
    [=](bench::run_atom) {
      self->state.started = bench::now();
      self->delayed_send(self, tick, tick_atom::value);
    },
    [=](tick_atom) {
      auto& s = self->state;
      auto passed = static_cast<double>(bench::now() - s.started) * 1e-9;
      auto due = std::min(total, static_cast<std::int64_t>(passed * rate));
      for (; s.sent < due; ++s.sent) {
        s.random = s.random * 1664525u + 1013904223u;
        self->send(targets[(std::uint64_t{s.random} * targets.size()) >> 32], bench::now());
      }
      if (s.sent < total)
        self->delayed_send(self, tick, tick_atom::value);
      else
        self->send(main, bench::done_atom::value, s.sent, std::int64_t{0});
    },
  };
}

bench::figure run(actor_system& system, const bench::parameters& parameters) {
  auto pacers = parameters.at("pacers");
  auto rate = static_cast<double>(parameters.at("rate")) / static_cast<double>(pacers);
  scoped_actor self{system};
  std::vector<actor> targets, sources;
  for (std::int64_t i = 0; i < parameters.at("actors"); ++i)
    targets.push_back(system.spawn(target));
  for (std::int64_t i = 1; i <= pacers; ++i)
    sources.push_back(system.spawn(pacer, actor_cast<actor>(self), targets, rate, parameters.at("milliseconds"),
                                   static_cast<std::uint32_t>(i)));
  auto started = bench::now();
  for (auto& one : sources)
    self->send(one, bench::run_atom::value);
  std::int64_t sent = 0;
  for (std::int64_t i = 0; i < pacers; ++i)
    sent += bench::wait(self).result;
  auto overrun = bench::now() - started - parameters.at("milliseconds") * 1000000;
  std::this_thread::sleep_for(std::chrono::milliseconds(100));

  std::vector<std::int64_t> all;
  std::int64_t sum = 0;
  for (auto& one : targets)
    self->request(one, infinite, report_atom::value)
      .receive(
        [&](const std::vector<std::int64_t>& latencies) {
          for (auto latency : latencies) {
            all.push_back(latency);
            sum += latency;
          }
        },
        [](caf::error&) { throw std::runtime_error("a target gave no report"); });
  bench::check("messages that arrived", static_cast<std::int64_t>(all.size()), sent);
  bench::stop(sources);
  bench::stop(targets);

  std::sort(all.begin(), all.end());
  bench::figure figure{sent, sent, sum, {}};
  auto add = [&](const char* name, double share) {
    auto at = std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(share * static_cast<double>(all.size()))));
    figure.more.emplace_back(name, static_cast<double>(all[static_cast<size_t>(at - 1)]));
  };
  add("p50", 0.5);
  add("p99", 0.99);
  add("p99.9", 0.999);
  add("max", 1);
  figure.more.emplace_back("overrun", static_cast<double>(overrun));
  return figure;
}

bench::registration registered{"latency", run};

} // namespace latency
