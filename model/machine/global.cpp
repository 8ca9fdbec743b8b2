#include "machine/global.hpp"

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "machine/api.hpp"
#include "machine/machine.hpp"

namespace sm90 {
namespace {

struct Table {
  std::mutex mutex;
  std::map<std::uint64_t, std::size_t> blocks;  // address, bytes
};

Table& table() {
  static Table& instance = *new Table;
  return instance;
}

}  // namespace

std::uint64_t allocate(std::size_t bytes) {
  void* memory = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
  if (memory == nullptr) return 0;
  std::memset(memory, 0xFF, bytes);  // NaN in every format: nothing is right by accident
  std::lock_guard lock(table().mutex);
  const auto address = reinterpret_cast<std::uint64_t>(memory);
  table().blocks[address] = bytes;
  return address;
}

bool release(std::uint64_t address) {
  std::lock_guard lock(table().mutex);
  if (table().blocks.erase(address) == 0) return false;
  std::free(reinterpret_cast<void*>(address));
  return true;
}

bool is_allocated(const void* pointer, std::size_t bytes) {
  std::lock_guard lock(table().mutex);
  const auto address = reinterpret_cast<std::uint64_t>(pointer);
  auto block = table().blocks.upper_bound(address);
  if (block == table().blocks.begin()) return false;
  --block;
  return address + bytes <= block->first + block->second;
}

float load_global_f32(const float* address, const Where& where) {
  Machine::current().maybe_yield();
  if (!is_allocated(address, sizeof(float))) {
    Machine::current().fail("load from global memory outside of every allocation", where);
  }
  return *address;
}

}  // namespace sm90
