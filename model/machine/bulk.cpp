// cp.async.bulk: runs of bytes between global and shared memory, without a tensor map. st.async:
// registers into a peer's shared memory.
#include <cstring>
#include <memory>
#include <vector>

#include "machine/api.hpp"
#include "machine/global.hpp"
#include "machine/machine.hpp"
#include "machine/mbarrier.hpp"
#include "machine/memory.hpp"

namespace sm90 {
namespace {

void check(const void* global, Address shared, int bytes, const Where& where) {
  if (bytes <= 0 || bytes % 16 != 0 || shared % 16 != 0 ||
      reinterpret_cast<std::uintptr_t>(global) % 16 != 0) {
    Machine::current().fail("a bulk copy needs addresses and a size in units of 16 bytes", where);
  }
  if (!is_allocated(global, static_cast<std::size_t>(bytes))) {
    Machine::current().fail("a bulk copy of global memory outside of every allocation", where);
  }
}

}  // namespace

void bulk_load(Address target, const void* source, int bytes, Address barrier, const Where& where) {
  Machine& machine = Machine::current();
  machine.maybe_yield();
  check(source, target, bytes, where);
  Cta& cta = *Machine::thread().cta;
  if (const std::string problem = forbids_write(cta, target, bytes); !problem.empty()) {
    machine.fail("bulk load: " + problem, where);
  }
  const std::string what = "the bulk load of " + line_of(where);
  const int id = machine.next_id();
  begin_write(cta, target, target + static_cast<Address>(bytes), id, what);
  machine.enqueue(
      Unit::load, nullptr,
      [&cta, target, source, bytes, barrier, id] {
        end_access(cta, id);
        std::memcpy(shared_bytes(cta, target), source, static_cast<std::size_t>(bytes));
        mark_written(cta, target, bytes, -1);
        complete_bytes(cta, barrier, bytes);
      },
      what);
}

void bulk_store(void* target, Address source, int bytes, const Where& where) {
  Machine& machine = Machine::current();
  machine.maybe_yield();
  check(target, source, bytes, where);
  Thread& t = Machine::thread();
  Cta& cta = *t.cta;
  if (const std::string problem = forbids_read(cta, source, bytes, true); !problem.empty()) {
    machine.fail("bulk store: " + problem, where);
  }
  const std::string what = "the bulk store of " + line_of(where);
  const int id = machine.next_id();
  begin_read(cta, source, source + static_cast<Address>(bytes), id, what);
  t.open_stores.push_back(id);
  machine.enqueue(
      Unit::store, nullptr,
      [&cta, target, source, bytes, what, id] {
        end_access(cta, id);
        const std::uint8_t* from = shared_bytes(cta, source);
        auto data = std::make_shared<std::vector<std::uint8_t>>(from, from + bytes);
        Machine::current().mark_done(id);
        Machine::current().enqueue(
            Unit::store, nullptr,
            [target, data] { std::memcpy(target, data->data(), data->size()); }, what);
      },
      what);
}

void write_remote_async(Address target, int rank, const void* source, int bytes, Address barrier,
                        const Where& where) {
  Machine& machine = Machine::current();
  machine.maybe_yield();
  Cta& peer = peer_of(Machine::thread(), rank, "asynchronous write into", where);
  if (const std::string problem = forbids_write(peer, target, bytes); !problem.empty()) {
    machine.fail("asynchronous write: " + problem, where);
  }
  const std::string what = "the asynchronous write of " + line_of(where);
  const int id = machine.next_id();
  begin_write(peer, target, target + static_cast<Address>(bytes), id, what);
  const auto* from = static_cast<const std::uint8_t*>(source);
  auto data = std::make_shared<std::vector<std::uint8_t>>(from, from + bytes);
  machine.enqueue(
      Unit::load, nullptr,
      [&peer, target, data, barrier, id, what] {
        if (peer.running == 0) {
          Machine::current().fail_later(what + " comes to a CTA that has exited");
          return;
        }
        const int size = static_cast<int>(data->size());
        end_access(peer, id);
        std::memcpy(shared_bytes(peer, target), data->data(), data->size());
        mark_written(peer, target, size, -1);
        complete_bytes(peer, barrier, size);
      },
      what);
}

}  // namespace sm90
