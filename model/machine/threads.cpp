// Indices, warp collectives, CTA and cluster barriers, registers.
#include <cstring>

#include "machine/api.hpp"
#include "machine/machine.hpp"

namespace sm90 {
namespace {

Thread& self() { return Machine::thread(); }

// Posts a value and waits for the other 31 lanes; afterwards warp.result holds all 32.
void gather(const char* kind, std::uint64_t value, const Where& where) {
  Thread& t = self();
  Warp& warp = *t.warp;
  if (warp.arrived == 0) {
    warp.kind = kind;
    warp.where = where;
  } else if (warp.kind != kind || warp.where.line() != where.line() ||
             warp.where.column() != where.column() ||
             std::strcmp(warp.where.file_name(), where.file_name()) != 0) {
    Machine::current().fail(std::string(kind) + " in divergent code: other lanes are at " +
                                warp.kind + " in " + line_of(warp.where),
                            where);
  }
  warp.gathered[static_cast<std::size_t>(t.lane)] = value;
  const std::uint64_t generation = warp.generation;
  if (++warp.arrived == 32) {
    warp.result = warp.gathered;
    warp.arrived = 0;
    ++warp.generation;
    return;
  }
  Machine::current().block({[&warp, generation] { return warp.generation != generation; },
                            [&warp, kind] {
                              return std::string(kind) + " of its warp, at which " +
                                     std::to_string(warp.arrived) + " of 32 lanes are";
                            },
                            where});
}

}  // namespace

void settle_cta_barrier(Cta& cta) {
  NamedBarrier& barrier = cta.named[0];
  if (barrier.arrived == 0 || barrier.arrived < cta.running) return;
  barrier.arrived = 0;
  ++barrier.generation;
}

void settle_cluster_barrier(Cluster& cluster) {
  if (cluster.arrived == 0 || cluster.arrived < cluster.running) return;
  cluster.arrived = 0;
  ++cluster.generation;
}

int thread_index() { return self().index; }
int cta_index() { return self().cta->index; }
int cta_count() { return Machine::current().launch.grid; }
int cta_threads() { return Machine::current().launch.block; }
int cluster_rank() { return self().cta->rank; }

void check_same_in_warp(std::uint64_t value, const Where& where) {
  gather("pinned", value, where);
  if (self().warp->result[0] != value)
    Machine::current().fail("a value that all lanes should have differs from lane 0's", where);
}

std::uint64_t shuffle(std::uint64_t value, int source_lane, const Where& where) {
  gather("shuffle", value, where);
  return self().warp->result[static_cast<std::size_t>(source_lane) % 32];
}

void warp_together(const char* kind, const Where& where) { gather(kind, 0, where); }

std::array<std::uint64_t, 32> warp_gather(const char* kind, std::uint64_t value,
                                          const Where& where) {
  gather(kind, value, where);
  return self().warp->result;
}

std::uint32_t ballot(bool predicate, const Where& where) {
  std::uint32_t votes = 0;
  const auto lanes = warp_gather("vote", predicate ? 1 : 0, where);
  for (std::size_t lane = 0; lane < lanes.size(); ++lane) {
    votes |= static_cast<std::uint32_t>(lanes[lane]) << lane;
  }
  return votes;
}

// All threads that have not exited.
void sync_cta(const Where& where) {
  Cta& cta = *self().cta;
  NamedBarrier& barrier = cta.named[0];
  const std::uint64_t generation = barrier.generation;
  ++barrier.arrived;
  settle_cta_barrier(cta);
  Machine::current().block({[&barrier, generation] { return barrier.generation != generation; },
                            [&barrier, &cta] {
                              return "the CTA's barrier, at which " +
                                     std::to_string(barrier.arrived) + " of " +
                                     std::to_string(cta.running) + " threads are";
                            },
                            where});
}

void named_barrier(int id, int threads, bool wait, const Where& where) {
  Machine& machine = Machine::current();
  if (id < 1 || id > 15) machine.fail("no named barrier " + std::to_string(id), where);
  if (threads % 32 != 0) machine.fail("a named barrier counts whole warps", where);
  gather("named barrier", 0, where);
  NamedBarrier& barrier = self().cta->named[static_cast<std::size_t>(id)];
  if (barrier.arrived > 0 && barrier.threads != threads) {
    machine.fail("named barrier " + std::to_string(id) + " expects " +
                     std::to_string(barrier.threads) + " threads, and now " +
                     std::to_string(threads),
                 where);
  }
  barrier.threads = threads;
  const std::uint64_t generation = barrier.generation;
  if (++barrier.arrived == threads) {
    barrier.arrived = 0;
    ++barrier.generation;
    return;
  }
  if (!wait) return machine.maybe_yield();
  machine.block({[&barrier, generation] { return barrier.generation != generation; },
                 [&barrier, id] {
                   return "named barrier " + std::to_string(id) + ", at which " +
                          std::to_string(barrier.arrived) + " of " +
                          std::to_string(barrier.threads) + " threads are";
                 },
                 where});
}

void cluster_arrive(const Where& where) {
  gather("cluster barrier", 0, where);
  Thread& t = self();
  if (t.arrived_at_cluster) Machine::current().fail("arrives twice at the cluster barrier", where);
  t.arrived_at_cluster = true;
  t.cluster_generation = t.cta->cluster->generation;
  ++t.cta->cluster->arrived;
  settle_cluster_barrier(*t.cta->cluster);
}

void cluster_wait(const Where& where) {
  gather("cluster barrier", 0, where);
  Thread& t = self();
  Cluster& cluster = *t.cta->cluster;
  if (!t.arrived_at_cluster) {
    Machine::current().fail("waits at the cluster barrier before it has arrived", where);
  }
  const std::uint64_t before = t.cluster_generation;
  Machine::current().block({[&cluster, before] { return cluster.generation != before; },
                            [&cluster] {
                              return "the cluster barrier, at which " +
                                     std::to_string(cluster.arrived) + " of " +
                                     std::to_string(cluster.running) + " threads are";
                            },
                            where});
  t.arrived_at_cluster = false;
  t.peers_have_started = true;
}

void set_registers(int count, bool raise, const Where& where) {
  Thread& t = self();
  Machine& machine = Machine::current();
  gather("setmaxnreg", 0, where);
  Warp& warp = *t.warp;
  if (t.lane != 0) return warp_together("setmaxnreg", where);
  if (count % 8 != 0 || count < 24 || count > 256) {
    machine.fail("setmaxnreg of " + std::to_string(count), where);
  }
  Cta& cta = *t.cta;
  const auto fits = [&warp, &cta, count] {
    int total = count * 32;
    for (const auto& other : cta.warps) total += other.get() == &warp ? 0 : other->registers * 32;
    return total <= 65536;
  };
  if (raise ? count < warp.registers : count > warp.registers) {
    machine.fail("setmaxnreg from " + std::to_string(warp.registers) + " to " +
                     std::to_string(count) + " in the wrong direction",
                 where);
  }
  if (raise) {
    machine.block(
        {fits, [count] { return "registers for " + std::to_string(count) + " a thread"; }, where});
  }
  warp.registers = count;
  warp_together("setmaxnreg", where);
}

void wait_for_previous_kernel(const Where& where) {
  Thread& t = self();
  Machine& machine = Machine::current();
  t.waits_for_previous = true;
  machine.block({[&machine] { return machine.previous_complete; },
                 [] { return std::string("the previous kernel"); }, where});
  t.waits_for_previous = false;
}

}  // namespace sm90
