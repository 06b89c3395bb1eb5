// Bank transfers: the same work as bench/bank.lua, message for message. An account awaits the answer of the other one:
// until it is there, CAF keeps what else arrives.

#include "bench.hpp"

#include <algorithm>

namespace bank {

using namespace caf;

using transfer_atom = atom_constant<atom("transfer")>;
using deposit_atom = atom_constant<atom("deposit")>;
using moved_atom = atom_constant<atom("moved")>;

struct account_state {
  std::int64_t balance = 0;
};

behavior account(stateful_actor<account_state>* self) {
  return {
    [=](transfer_atom, std::int64_t amount, const actor& to, const actor& teller) {
      self->state.balance -= amount;
      self->request(to, infinite, deposit_atom::value, amount).await([=](bool) {
        self->send(teller, moved_atom::value);
      });
    },
    [=](deposit_atom, std::int64_t amount) {
      self->state.balance += amount;
      return true;
    },
    [=](bench::received_atom) { return self->state.balance; },
  };
}

struct teller_state {
  std::int64_t left = 0;
  std::int64_t started = 0;
};

behavior teller(stateful_actor<teller_state>* self, std::vector<actor> accounts, actor main) {
  return {
    [=](bench::run_atom, std::int64_t transfers) {
      self->state.left = transfers;
      self->state.started = bench::now();
      auto count = static_cast<std::int64_t>(accounts.size());
      std::int64_t random = 12345;
      auto below = [&](std::int64_t n) {
        random = (random * 1309 + 13849) % 65536;
        return random % n;
      };
      for (std::int64_t i = 0; i < transfers; ++i) {
        auto from = below(count / 10 * 8) + 1;
        auto to = from + std::max<std::int64_t>(1, below(count - from + 1));
        self->send(accounts[static_cast<size_t>(from - 1)], transfer_atom::value, below(1000),
                   accounts[static_cast<size_t>(to - 1)], actor_cast<actor>(self));
      }
    },
    [=](moved_atom) {
      if (--self->state.left == 0)
        self->send(main, bench::done_atom::value, std::int64_t{0}, bench::now() - self->state.started);
    },
  };
}

bench::figure run(actor_system& system, const bench::parameters& parameters) {
  auto transfers = parameters.at("transfers");
  scoped_actor self{system};
  std::vector<actor> accounts;
  for (std::int64_t i = 0; i < parameters.at("accounts"); ++i)
    accounts.push_back(system.spawn(account));
  auto clerk = system.spawn(teller, accounts, actor_cast<actor>(self));
  self->send(clerk, bench::run_atom::value, transfers);
  auto end = bench::wait(self);
  std::int64_t sum = 0, result = 0;
  for (size_t i = 0; i < accounts.size(); ++i) {
    auto balance = bench::number_of(self, accounts[i]);
    sum += balance;
    result += static_cast<std::int64_t>(i + 1) * balance;
  }
  bench::check("all the money", sum, 0);
  bench::stop(accounts);
  bench::stop(std::vector<actor>{clerk});
  return {result, transfers, end.ns, {}};
}

bench::registration registered{"bank", run};

} // namespace bank
