// mbarriers: arrivals, bytes, phases.
#include "machine/mbarrier.hpp"
#include "machine/api.hpp"
#include "machine/machine.hpp"
#include "machine/memory.hpp"

namespace sm90 {
namespace {

Thread& self() { return Machine::thread(); }

Mbarrier& find(Cta& cta, Address address, const Where& where) {
  const auto found = cta.mbarriers.find(address);
  if (found == cta.mbarriers.end()) {
    Machine::current().fail("no mbarrier at shared byte " + std::to_string(address - shared_base) +
                                " of CTA " + std::to_string(cta.index),
                            where);
  }
  return found->second;
}

void settle(Cta& cta, Mbarrier& barrier) {
  if (barrier.pending == 0 && barrier.bytes < 0) {
    Machine::current().fail_later(barrier.name + " of CTA " + std::to_string(cta.index) + ": " +
                                  std::to_string(-barrier.bytes) +
                                  " bytes more than it was armed for, phase " +
                                  std::to_string(barrier.phase));
  }
  if (barrier.pending != 0 || barrier.bytes != 0) return;
  barrier.pending = barrier.count;
  ++barrier.phase;
  if (!Machine::tracing()) return;
  Machine::current().trace("CTA " + std::to_string(cta.index) + " " + barrier.name, '!',
                           "completes phase " + std::to_string(barrier.phase - 1));
}

void arrive(Cta& cta, Address address, int bytes, const Where& where) {
  Mbarrier& barrier = find(cta, address, where);
  if (barrier.pending == 0) {
    Machine::current().fail(barrier.name + " gets more than " + std::to_string(barrier.count) +
                                " arrivals in phase " + std::to_string(barrier.phase),
                            where);
  }
  barrier.bytes += bytes;
  --barrier.pending;
  settle(cta, barrier);
  Machine::current().maybe_yield();
}

std::string state_of(const Cta& cta, const Mbarrier& barrier, std::uint32_t parity) {
  return barrier.name + " of CTA " + std::to_string(cta.index) + ", parity " +
         std::to_string(parity) + "; it is in phase " + std::to_string(barrier.phase) + ", lacks " +
         std::to_string(barrier.pending) + " of " + std::to_string(barrier.count) +
         " arrivals and " + std::to_string(barrier.bytes) + " bytes";
}

}  // namespace

void complete_bytes(Cta& cta, Address address, int bytes) {
  const auto found = cta.mbarriers.find(address);
  if (found == cta.mbarriers.end()) {
    Machine::current().fail_later("TMA completes on no mbarrier");
    return;
  }
  found->second.bytes -= bytes;
  settle(cta, found->second);
}

void mbarrier_init(Address address, int arrivals, const Where& where) {
  Cta& cta = *self().cta;
  Machine& machine = Machine::current();
  if (address % 8 != 0) machine.fail("an mbarrier needs 8-byte alignment", where);
  if (std::string problem = outside(cta, address, 8); !problem.empty())
    machine.fail(problem, where);
  if (arrivals < 1) machine.fail("an mbarrier needs 1 arrival or more", where);
  int same_line = 0;
  const std::string line = line_of(where);
  for (const auto& [at, barrier] : cta.mbarriers) same_line += barrier.name.starts_with(line);
  Mbarrier barrier;
  barrier.count = barrier.pending = static_cast<std::uint32_t>(arrivals);
  barrier.name = line + "[" + std::to_string(same_line) + "]";
  if (!cta.mbarriers.emplace(address, barrier).second) {
    machine.fail("an mbarrier is initialised twice", where);
  }
  cta.unfenced_initialiser = self().index;
}

void mbarrier_init_fence(const Where&) {
  Thread& t = self();
  if (t.cta->unfenced_initialiser == t.index) t.cta->unfenced_initialiser = -1;
}

void mbarrier_arrive(Address address, int bytes, const Where& where) {
  arrive(*self().cta, address, bytes, where);
}

void mbarrier_arrive_remote(Address address, int rank, const Where& where) {
  arrive(peer_of(self(), rank, "arrival at", where), address, 0, where);
}

bool mbarrier_test(Address address, std::uint32_t parity, const Where& where) {
  const bool passed = (find(*self().cta, address, where).phase & 1) != parity;
  if (!passed) Machine::current().yield();  // or a loop around this would never end
  return passed;
}

void mbarrier_wait(Address address, std::uint32_t parity, const Where& where) {
  Thread& t = self();
  Cta& cta = *t.cta;
  Machine& machine = Machine::current();
  warp_together("mbarrier wait", where);
  const Mbarrier& barrier = find(cta, address, where);
  if (cta.unfenced_initialiser >= 0)
    machine.fail(barrier.name + " was initialised without a fence", where);
  const std::uint64_t began = barrier.phase;
  machine.block({[&barrier, parity] { return (barrier.phase & 1) != parity; },
                 [&cta, &barrier, parity] { return state_of(cta, barrier, parity); }, where});
  if ((began & 1) == parity && barrier.phase != began + 1) {
    machine.fail(barrier.name + " ran ahead: phase " + std::to_string(barrier.phase) +
                     " before this wait for phase " + std::to_string(began) + " was over",
                 where);
  }
}

}  // namespace sm90
