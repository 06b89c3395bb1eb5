// A compute kernel in actors: the same work as bench/nbody.lua, with additions and multiplications in the same order.

#include "bench.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace nbody {

using namespace caf;

using advance_atom = atom_constant<atom("advance")>;
using report_atom = atom_constant<atom("report")>;

struct body {
  double x, y, z, vx, vy, vz, mass;
};

using bodies = std::array<body, 5>;

bodies solar_system() {
  constexpr double days = 365.24, solar_mass = 4 * 3.141592653589793 * 3.141592653589793;
  bodies all{{
    {0, 0, 0, 0, 0, 0, 1},
    {4.84143144246472090, -1.16032004402742839, -0.103622044471123109, 0.00166007664274403694,
     0.00769901118419740425, -0.0000690460016972063023, 0.000954791938424326609},
    {8.34336671824457987, 4.12479856412430479, -0.403523417114321381, -0.00276742510726411043,
     0.00499852801234917238, 0.0000230417297573763929, 0.000285885980666130812},
    {12.8943695621391310, -15.1111514016986312, -0.223307578892655734, 0.00296460137564761618,
     0.00237847173959480950, -0.0000296589568540237556, 0.0000436624404335156298},
    {15.3796971148509165, -25.9193146099879641, 0.179258772950371181, 0.00268067772490389322,
     0.00162824170038242295, -0.0000951592254519715870, 0.0000515138902046611451},
  }};
  for (auto& one : all) {
    one.vx *= days;
    one.vy *= days;
    one.vz *= days;
    one.mass *= solar_mass;
  }
  return all;
}

void advance(bodies& all, double dt) {
  for (size_t i = 0; i < all.size(); ++i) {
    auto& a = all[i];
    for (size_t j = i + 1; j < all.size(); ++j) {
      auto& b = all[j];
      double dx = a.x - b.x, dy = a.y - b.y, dz = a.z - b.z;
      double squared = dx * dx + dy * dy + dz * dz;
      double magnitude = dt / (squared * std::sqrt(squared));
      double ours = b.mass * magnitude, theirs = a.mass * magnitude;
      a.vx -= dx * ours;
      a.vy -= dy * ours;
      a.vz -= dz * ours;
      b.vx += dx * theirs;
      b.vy += dy * theirs;
      b.vz += dz * theirs;
    }
    a.x += dt * a.vx;
    a.y += dt * a.vy;
    a.z += dt * a.vz;
  }
}

double energy(const bodies& all) {
  double sum = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    auto& a = all[i];
    sum = sum + 0.5 * a.mass * (a.vx * a.vx + a.vy * a.vy + a.vz * a.vz);
    for (size_t j = i + 1; j < all.size(); ++j) {
      auto& b = all[j];
      double dx = a.x - b.x, dy = a.y - b.y, dz = a.z - b.z;
      sum = sum - a.mass * b.mass / std::sqrt(dx * dx + dy * dy + dz * dz);
    }
  }
  return sum;
}

struct state {
  bodies all = solar_system();
};

behavior solar(stateful_actor<state>* self, double dt) {
  return {
    [=](advance_atom, std::int64_t steps) {
      for (std::int64_t i = 0; i < steps; ++i)
        advance(self->state.all, dt);
    },
    [=](report_atom, const actor& main) {
      auto units = std::floor(energy(self->state.all) * 1e9 + 0.5);
      self->send(main, bench::done_atom::value, static_cast<std::int64_t>(units), bench::now());
    },
  };
}

bench::figure run(actor_system& system, const bench::parameters& parameters) {
  auto count = parameters.at("actors"), messages = parameters.at("messages"), steps = parameters.at("steps");
  scoped_actor self{system};
  std::vector<actor> systems;
  for (std::int64_t i = 1; i <= count; ++i)
    systems.push_back(system.spawn(solar, 0.001 * static_cast<double>(i)));

  auto started = bench::now();
  for (std::int64_t i = 0; i < messages; ++i)
    for (auto& one : systems)
      self->send(one, advance_atom::value, steps);
  for (auto& one : systems)
    self->send(one, report_atom::value, actor_cast<actor>(self));
  std::int64_t result = 0, last = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    auto end = bench::wait(self);
    result += end.result;
    last = std::max(last, end.ns);
  }
  bench::stop(systems);
  return {result, count * messages * steps, last - started, {}};
}

bench::registration registered{"nbody", run};

} // namespace nbody
