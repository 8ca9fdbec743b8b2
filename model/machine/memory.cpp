#include "machine/memory.hpp"

#include <algorithm>
#include <cstring>

#include "machine/api.hpp"

namespace sm90 {
namespace {

Thread& self() { return Machine::thread(); }

std::string range(Address address, int bytes) {
  return "shared bytes " + std::to_string(address - shared_base) + " to " +
         std::to_string(address - shared_base + static_cast<Address>(bytes) - 1);
}

const Region* overlap(const std::vector<Region>& regions, Address address, int bytes) {
  for (const Region& r : regions) {
    if (address < r.end && r.begin < address + static_cast<Address>(bytes)) return &r;
  }
  return nullptr;
}

void require(const std::string& problem, const std::string& what, const Where& where) {
  if (!problem.empty()) Machine::current().fail(what + ": " + problem, where);
}

void write_to(Cta& cta, Address target, const void* source, int bytes, const Where& where) {
  Machine::current().maybe_yield();
  require(forbids_write(cta, target, bytes), "write", where);
  std::memcpy(shared_bytes(cta, target), source, static_cast<std::size_t>(bytes));
  const bool own = &cta == self().cta;
  mark_written(cta, target, bytes, own ? self().index : -1);
  if (!own) return;
  for (Address unit = (target - shared_base) / 16;
       unit * 16 < target - shared_base + static_cast<Address>(bytes); ++unit) {
    self().unfenced_units.push_back(unit);
  }
}

}  // namespace

std::uint8_t* shared_bytes(Cta& cta, Address address) {
  return cta.shared.bytes.data() + (address - shared_base);
}

std::string outside(const Cta& cta, Address address, int bytes) {
  const auto size = static_cast<Address>(cta.shared.bytes.size());
  if (address >= shared_base && address - shared_base + static_cast<Address>(bytes) <= size)
    return {};
  return range(address, bytes) + " of CTA " + std::to_string(cta.index) + " are outside its " +
         std::to_string(size);
}

std::string forbids_read(const Cta& cta, Address address, int bytes, bool async_proxy,
                         bool allows_unwritten) {
  if (std::string problem = outside(cta, address, bytes); !problem.empty()) return problem;
  if (const Region* r = overlap(cta.shared.writes, address, bytes)) {
    return range(address, bytes) + " are still being written by " + r->what +
           ": read before its barrier completed";
  }
  for (int i = 0; i < bytes; ++i) {
    const Address at = address - shared_base + static_cast<Address>(i);
    if (cta.shared.written[at] == 0 && !allows_unwritten)
      return range(address, bytes) + " were never written";
    if (async_proxy && cta.shared.unfenced[at / 16] >= 0) {
      return range(address, bytes) + " were written by thread " +
             std::to_string(cta.shared.unfenced[at / 16]) +
             ", which has not executed fence.proxy.async since";
    }
  }
  return {};
}

std::string forbids_write(const Cta& cta, Address address, int bytes) {
  if (std::string problem = outside(cta, address, bytes); !problem.empty()) return problem;
  if (const Region* r = overlap(cta.shared.reads, address, bytes)) {
    return range(address, bytes) + " are still being read by " + r->what;
  }
  if (const Region* r = overlap(cta.shared.writes, address, bytes)) {
    return range(address, bytes) + " are also being written by " + r->what;
  }
  for (const auto& [barrier, state] : cta.mbarriers) {
    if (address < barrier + 8 && barrier < address + static_cast<Address>(bytes)) {
      return range(address, bytes) + " hold barrier " + state.name;
    }
  }
  return {};
}

void mark_written(Cta& cta, Address address, int bytes, int unfenced_thread) {
  const Address begin = address - shared_base, end = begin + static_cast<Address>(bytes);
  std::fill(cta.shared.written.begin() + begin, cta.shared.written.begin() + end, std::uint8_t{1});
  for (Address unit = begin / 16; unit <= (end - 1) / 16; ++unit) {
    cta.shared.unfenced[unit] = unfenced_thread;
  }
}

void begin_write(Cta& cta, Address begin, Address end, int operation, std::string what) {
  cta.shared.writes.push_back({begin, end, operation, std::move(what)});
}
void begin_read(Cta& cta, Address begin, Address end, int operation, std::string what) {
  cta.shared.reads.push_back({begin, end, operation, std::move(what)});
}
void end_access(Cta& cta, int operation) {
  const auto matches = [operation](const Region& r) { return r.operation == operation; };
  std::erase_if(cta.shared.writes, matches);
  std::erase_if(cta.shared.reads, matches);
}

Cta& peer_of(const Thread& thread, int rank, const char* access, const Where& where) {
  const auto stop = [&](const std::string& at) {
    Machine::current().fail(std::string(access) + " " + at, where);
  };
  const auto& ctas = thread.cta->cluster->ctas;
  if (rank < 0 || rank >= static_cast<int>(ctas.size())) {
    stop("rank " + std::to_string(rank) + " of the cluster");
  }
  Cta& peer = *ctas[static_cast<std::size_t>(rank)];
  if (peer.running == 0) stop("a CTA that has exited");
  if (&peer != thread.cta && !thread.peers_have_started) {
    stop("a CTA of the cluster that may not have started: no cluster barrier came before");
  }
  return peer;
}

Address dynamic_shared() { return shared_base; }

void read_shared(void* target, Address source, int bytes, const Where& where) {
  Cta& cta = *self().cta;
  Machine::current().maybe_yield();
  require(source % static_cast<Address>(bytes) == 0 ? "" : range(source, bytes) + " are misaligned",
          "read", where);
  require(forbids_read(cta, source, bytes, false), "read", where);
  std::memcpy(target, shared_bytes(cta, source), static_cast<std::size_t>(bytes));
}

void write_shared(Address target, const void* source, int bytes, const Where& where) {
  require(target % static_cast<Address>(bytes) == 0 ? "" : range(target, bytes) + " are misaligned",
          "write", where);
  write_to(*self().cta, target, source, bytes, where);
}

void fence_async_proxy(const Where&) {
  Thread& t = self();
  for (std::uint32_t unit : t.unfenced_units) {
    std::int32_t& thread = t.cta->shared.unfenced[unit];
    if (thread == t.index) thread = -1;
  }
  t.unfenced_units.clear();
}

void store_matrices(Address row, const std::uint32_t (&values)[4], const Where& where) {
  // Lane l gives the address of row l % 8 of matrix l / 8, and holds two neighbours of row l / 4 of
  // each matrix.
  Thread& t = self();
  std::copy(values, values + 4, t.posted);
  warp_together("stmatrix", where);
  std::uint32_t mine[4];
  for (int quarter = 0; quarter < 4; ++quarter) {
    mine[quarter] =
        t.warp->lanes[static_cast<std::size_t>(t.lane % 8 * 4 + quarter)]->posted[t.lane / 8];
  }
  warp_together("stmatrix", where);  // until all have read what was posted
  if (row % 16 != 0)
    Machine::current().fail("stmatrix to an address that is no multiple of 16", where);
  write_to(*t.cta, row, mine, 16, where);
}

std::uint32_t transpose_matrix(std::uint32_t value, const Where& where) {
  // Element (r, c) lies in lane r * 4 + c / 2, half c % 2; lane l wants (c, r) for its two.
  const int lane = self().lane, row = lane / 4, column = lane % 4 * 2;
  const auto low = static_cast<std::uint32_t>(shuffle(value, column * 4 + row / 2, where));
  const auto high = static_cast<std::uint32_t>(shuffle(value, (column + 1) * 4 + row / 2, where));
  const int shift = row % 2 * 16;
  return (low >> shift & 0xFFFF) | (high >> shift & 0xFFFF) << 16;
}

}  // namespace sm90
