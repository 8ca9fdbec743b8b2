#include "plan/plan_cache.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <vector>

namespace deepgemm::plan {
namespace {

struct Entry {
  std::vector<std::uint64_t> signature;
  PreparedCall call;
  std::uint64_t plan = 0;  // the last that found it
};

// Why sets of 8 and not a hash map: a look-up reads two lines of memory, nothing is ever rehashed
// or cleared as a whole, and the bound holds by itself. A process that meets more shapes than fit
// makes the oldest of a set anew, which costs it microseconds.
constexpr std::size_t ways = 8, set_bits = 7;
static_assert(most_prepared_calls == ways << set_bits);

struct Set {
  std::array<std::uint64_t, ways> hashes{};
  std::array<std::unique_ptr<Entry>, ways> entries;
  std::size_t next = 0;  // to be replaced
};

using Sets = std::array<Set, std::size_t{1} << set_bits>;

// Made at the first call of a thread: thread-local memory of a library that is opened is scarce.
Sets& sets() {
  thread_local std::unique_ptr<Sets> made;
  if (!made) made = std::make_unique<Sets>();
  return *made;
}

Set& set_of(std::uint64_t hash) { return sets()[hash >> (64 - set_bits)]; }

bool same(const Entry& entry, const Signature& signature) {
  return entry.signature.size() == signature.size() &&
         std::memcmp(entry.signature.data(), signature.words(),
                     signature.size() * sizeof(std::uint64_t)) == 0;
}

}  // namespace

PreparedCall* find_call(const Signature& signature, std::uint64_t hash, std::uint64_t plan) {
  if (!signature.usable()) return nullptr;
  Set& set = set_of(hash);
  for (std::size_t i = 0; i < ways; ++i) {
    if (set.hashes[i] != hash || !set.entries[i]) continue;
    Entry& entry = *set.entries[i];
    if (plan != 0 && entry.plan == plan) return &entry.call;
    if (!same(entry, signature)) continue;
    if (plan != 0) entry.plan = plan;
    return &entry.call;
  }
  return nullptr;
}

PreparedCall& keep_call(const Signature& signature, std::uint64_t hash, PreparedCall call) {
  Set& set = set_of(hash);
  const std::size_t place = set.next;
  set.next = (place + 1) % ways;
  auto words = std::vector<std::uint64_t>(signature.words(), signature.words() + signature.size());
  set.entries[place] = std::make_unique<Entry>(std::move(words), std::move(call));
  set.hashes[place] = hash;
  return set.entries[place]->call;
}

std::size_t kept_calls() {
  std::size_t count = 0;
  for (const Set& set : sets()) {
    count +=
        static_cast<std::size_t>(std::count_if(set.entries.begin(), set.entries.end(),
                                               [](const auto& entry) { return entry != nullptr; }));
  }
  return count;
}

}  // namespace deepgemm::plan
