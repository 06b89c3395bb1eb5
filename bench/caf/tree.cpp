// A tree of actors: the same work as bench/tree.lua, message for message.

#include "bench.hpp"

namespace tree {

using namespace caf;

struct state {
  std::int64_t left = 0;
  std::int64_t sum = 0;
};

behavior node(stateful_actor<state>* self, actor parent, std::int64_t first, std::int64_t leaves,
              std::int64_t children) {
  if (leaves == 1) {
    self->send(parent, first);
    return {}; // no behaviour: it ends
  }
  self->state.left = children;
  auto each = leaves / children;
  for (std::int64_t i = 0; i < children; ++i)
    self->spawn(node, actor_cast<actor>(self), first + i * each, each, children);
  return {
    [=](std::int64_t n) {
      self->state.sum += n;
      if (--self->state.left == 0) {
        self->send(parent, self->state.sum);
        self->quit();
      }
    },
  };
}

bench::figure run(actor_system& system, const bench::parameters& parameters) {
  auto leaves = parameters.at("leaves"), children = parameters.at("children");
  std::int64_t actors = 0;
  for (auto level = leaves; level >= 1; level /= children)
    actors += level;
  scoped_actor self{system};
  auto started = bench::now();
  self->spawn(node, actor_cast<actor>(self), std::int64_t{0}, leaves, children);
  std::int64_t sum = 0;
  self->receive([&](std::int64_t n) { sum = n; });
  auto ns = bench::now() - started;
  bench::check("the sum of the leaves' numbers", sum, leaves * (leaves - 1) / 2);
  return {sum, actors, ns, {}};
}

bench::registration registered{"tree", run};

} // namespace tree
