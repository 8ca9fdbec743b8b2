// Bulk tensor copies: boxes, clipping, zero fill, swizzle, multicast, addition.
#include <algorithm>
#include <cstring>
#include <vector>

#include "machine/api.hpp"
#include "machine/global.hpp"
#include "machine/machine.hpp"
#include "machine/mbarrier.hpp"
#include "machine/memory.hpp"
#include "machine/tensor_map.hpp"

namespace sm90 {
namespace {

Thread& self() { return Machine::thread(); }

TensorMapBytes map_of(const void* opaque, const Where& where) {
  TensorMapBytes map;
  std::memcpy(&map, opaque, sizeof(map));
  if (map.magic != tensor_map_magic) Machine::current().fail("not a tensor map", where);
  return map;
}

int rows_of(const TensorMapBytes& map) {
  int rows = 1;
  for (int i = 1; i < map.rank; ++i) rows *= map.box[i];
  return rows;
}

// One row of the box: where it lies in global memory, or null outside of the tensor.
struct Row {
  std::uint8_t* address;
  std::int64_t first;  // element of the tensor at the row's first element
};

Row row_of(const TensorMapBytes& map, const Coordinates& at, int row) {
  Row result{map.address, at.values[0]};
  for (int i = 1; i < map.rank; ++i) {
    const std::int64_t index = at.values[i] + row % map.box[i];
    row /= map.box[i];
    if (index < 0 || index >= map.extents[i]) return {nullptr, 0};
    result.address += static_cast<std::uint64_t>(index) * map.pitches[i - 1];
  }
  return result;
}

std::string describe(const char* what, const Coordinates& at, const Where& where) {
  return std::string(what) + " of " + line_of(where) + " at (" + std::to_string(at.values[0]) +
         ", " + std::to_string(at.values[1]) + ")";
}

// The box in the order of shared memory, before the swizzle; zeros outside of the tensor.
std::vector<std::uint8_t> gather_box(const TensorMapBytes& map, const Coordinates& at) {
  const int row_bytes = map.box[0] * map.element_bytes, rows = rows_of(map);
  std::vector<std::uint8_t> box(
      static_cast<std::size_t>(rows) * static_cast<std::size_t>(row_bytes), 0);
  for (int r = 0; r < rows; ++r) {
    const Row row = row_of(map, at, r);
    if (row.address == nullptr) continue;
    const std::int64_t from = std::max<std::int64_t>(row.first, 0);
    const std::int64_t to = std::min<std::int64_t>(row.first + map.box[0], map.extents[0]);
    if (from >= to) continue;
    const auto bytes = static_cast<std::size_t>((to - from) * map.element_bytes);
    const std::uint8_t* source = row.address + from * map.element_bytes;
    if (!is_allocated(source, bytes)) {
      Machine::current().fail_later("TMA reads global memory outside of every allocation");
      continue;
    }
    std::memcpy(box.data() + r * row_bytes + (from - row.first) * map.element_bytes, source, bytes);
  }
  return box;
}

void land(Cta& cta, Address target, const TensorMapBytes& map, const Coordinates& at,
          Address barrier, int id) {
  const std::vector<std::uint8_t> box = gather_box(map, at);
  end_access(cta, id);
  for (std::size_t i = 0; i < box.size(); i += 16) {
    const Address to = swizzle(target + static_cast<Address>(i), map.swizzle_span);
    std::memcpy(shared_bytes(cta, to), box.data() + i, 16);
  }
  mark_written(cta, target, static_cast<int>(box.size()), -1);
  complete_bytes(cta, barrier, static_cast<int>(box.size()));
}

int box_bytes(const TensorMapBytes& map) { return rows_of(map) * map.box[0] * map.element_bytes; }

void check_target(const Cta& cta, Address target, const TensorMapBytes& map, const Where& where) {
  Machine& machine = Machine::current();
  if (target % 128 != 0) machine.fail("TMA needs 128-byte alignment in shared memory", where);
  if (const std::string problem = forbids_write(cta, target, box_bytes(map)); !problem.empty()) {
    machine.fail("TMA load: " + problem, where);
  }
}

// Bytes of D that a row of the box covers; TMA clips in units of 16 bytes (seen on an H200).
std::int64_t clipped_bytes(const TensorMapBytes& map, const Row& row) {
  const std::int64_t extent = (std::int64_t{map.extents[0]} * map.element_bytes + 15) / 16 * 16;
  return std::min<std::int64_t>(map.box[0] * map.element_bytes,
                                extent - row.first * map.element_bytes);
}

void scatter(const TensorMapBytes& map, const Coordinates& at, const std::vector<std::uint8_t>& box,
             bool add) {
  const int row_bytes = map.box[0] * map.element_bytes;
  for (int r = 0; r < rows_of(map); ++r) {
    const Row row = row_of(map, at, r);
    if (row.address == nullptr) continue;
    const std::int64_t bytes = clipped_bytes(map, row);
    if (bytes <= 0 || row.first < 0) continue;
    std::uint8_t* target = row.address + row.first * map.element_bytes;
    if (!is_allocated(target, static_cast<std::size_t>(bytes))) {
      return Machine::current().fail_later("TMA writes global memory outside of every allocation");
    }
    const std::uint8_t* source = box.data() + r * row_bytes;
    if (!add) {
      std::memcpy(target, source, static_cast<std::size_t>(bytes));
      continue;
    }
    for (std::int64_t i = 0; i + 4 <= bytes; i += 4) {
      float sum, addend;
      std::memcpy(&sum, target + i, 4);
      std::memcpy(&addend, source + i, 4);
      sum += addend;
      std::memcpy(target + i, &sum, 4);
    }
  }
}

// The read half of a store: what the async proxy sees of shared memory now.
std::vector<std::uint8_t> take(Cta& cta, Address source, const TensorMapBytes& map,
                               const std::string& what, int id) {
  std::vector<std::uint8_t> box(static_cast<std::size_t>(box_bytes(map)));
  end_access(cta, id);
  if (std::string problem = forbids_read(cta, source, box_bytes(map), true); !problem.empty()) {
    Machine::current().fail_later(what + ": " + problem);
    return box;
  }
  for (std::size_t i = 0; i < box.size(); i += 16) {
    const Address from = swizzle(source + static_cast<Address>(i), map.swizzle_span);
    std::memcpy(box.data() + i, shared_bytes(cta, from), 16);
  }
  return box;
}

// Where a box begins in global memory must be a multiple of 16 bytes, coordinates included.
void check_start(const TensorMapBytes& map, const Coordinates& at, const Where& where) {
  if (at.values[0] * map.element_bytes % 16 == 0) return;
  Machine::current().fail("TMA at innermost coordinate " + std::to_string(at.values[0]) + " of " +
                              std::to_string(map.element_bytes) +
                              "-byte elements, which is no multiple of 16 bytes: an illegal "
                              "instruction on an H200",
                          where);
}

}  // namespace

void tma_load(Address target, const void* opaque, const Coordinates& at, Address barrier,
              unsigned cta_mask, const Where& where) {
  Machine& machine = Machine::current();
  machine.maybe_yield();
  const TensorMapBytes map = map_of(opaque, where);
  check_start(map, at, where);
  Cluster& cluster = *self().cta->cluster;
  const unsigned mask = cta_mask != 0 ? cta_mask : 1U << self().cta->rank;
  if (mask >> cluster.ctas.size() != 0) machine.fail("multicast to a CTA that is not there", where);
  for (int rank = 0; mask >> rank != 0; ++rank) {
    if ((mask >> rank & 1) == 0) continue;
    Cta& cta = peer_of(self(), rank, "TMA load into", where);
    check_target(cta, target, map, where);
    const std::string what = describe("the TMA load", at, where);
    const int id = machine.next_id();
    begin_write(cta, target, target + static_cast<Address>(box_bytes(map)), id, what);
    machine.enqueue(
        Unit::load, nullptr,
        [&cta, target, map, at, barrier, id] { land(cta, target, map, at, barrier, id); }, what);
  }
}

void tma_store(const void* opaque, const Coordinates& at, Address source, bool add,
               const Where& where) {
  Machine& machine = Machine::current();
  machine.maybe_yield();
  const TensorMapBytes map = map_of(opaque, where);
  check_start(map, at, where);
  Thread& t = self();
  Cta& cta = *t.cta;
  const std::string what = describe("the TMA store", at, where);
  if (source % 128 != 0) machine.fail("a TMA store needs 128-byte alignment", where);
  if (add && map.is_float == 0) machine.fail("TMA adds FP32 only in this model", where);
  // What is wrong with the data now stays wrong: no later fence orders it.
  if (const std::string problem = forbids_read(cta, source, box_bytes(map), true);
      !problem.empty()) {
    machine.fail("TMA store: " + problem, where);
  }
  const int id = machine.next_id();
  begin_read(cta, source, source + static_cast<Address>(box_bytes(map)), id, what);
  t.open_stores.push_back(id);
  machine.enqueue(
      Unit::store, nullptr,
      [&cta, source, map, at, add, what, id] {
        auto box = std::make_shared<std::vector<std::uint8_t>>(take(cta, source, map, what, id));
        Machine::current().mark_done(id);
        Machine::current().enqueue(
            Unit::store, nullptr, [map, at, add, box] { scatter(map, at, *box, add); }, what);
      },
      what);
}

void tma_commit(const Where&) {
  Thread& t = self();
  t.store_groups.push_back(std::move(t.open_stores));
  t.open_stores.clear();
}

void tma_wait_read(int pending, const Where& where) {
  Thread& t = self();
  Machine& machine = Machine::current();
  const auto done = [&t, &machine, pending] {
    for (std::size_t g = 0; g + static_cast<std::size_t>(pending) < t.store_groups.size(); ++g) {
      for (int id : t.store_groups[g]) {
        if (!machine.is_done(id)) return false;
      }
    }
    return true;
  };
  machine.block(
      {done, [] { return std::string("its bulk stores to have read shared memory"); }, where});
}

}  // namespace sm90
