// Runs one benchmark inside CAF, once to warm up and then RUNS times.
//
//     caf-bench WORKERS PROGRAM RUNS PARAMETER=NUMBER...
//
// The counterpart of bench/run.lua: it prints the same line for each run, program, nanoseconds an operation,
// operations, result. All but the number of scheduler threads is left at CAF's defaults.

#include "bench.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>

int main(int argc, char** argv) {
  if (argc < 4 || bench::programs().count(argv[2]) == 0) {
    std::fprintf(stderr, "usage: %s WORKERS PROGRAM RUNS PARAMETER=NUMBER...\n", argv[0]);
    return 2;
  }
  bench::parameters parameters;
  for (int i = 4; i < argc; ++i) {
    const char* equals = std::strchr(argv[i], '=');
    if (equals == nullptr)
      return 2;
    parameters[std::string(static_cast<const char*>(argv[i]), equals)] = std::atoll(equals + 1);
  }
  caf::actor_system_config config;
  config.set("scheduler.max-threads", std::atoi(argv[1]));
  caf::actor_system system{config};
  auto& run = bench::programs()[argv[2]];
  try {
    run(system, parameters);
    for (int i = 0; i < std::atoi(argv[3]); ++i) {
      auto figure = run(system, parameters);
      std::printf("%s %.3f %lld %lld", argv[2], double(figure.ns) / double(figure.ops),
                  static_cast<long long>(figure.ops), static_cast<long long>(figure.result));
      for (auto& more : figure.more)
        std::printf(" %s=%.1f", more.first.c_str(), more.second);
      std::printf("\n");
    }
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "%s: %s\n", argv[2], problem.what());
    std::fflush(stdout);
    std::_Exit(1); // actors of the failed work may still wait for each other
  }
}
