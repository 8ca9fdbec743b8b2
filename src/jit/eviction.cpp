#include "jit/eviction.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>
#include <vector>

#include "core/env.hpp"
#include "core/files.hpp"
#include "core/log.hpp"
#include "core/text.hpp"
#include "jit/disk_cache.hpp"

namespace deepgemm::jit {
namespace {

constexpr std::int64_t second = 1'000'000'000;
// Not marked again within this time: the ranks of one job start together.
constexpr std::int64_t recent = 60 * second;
// A time further ahead was made by a clock that has been set back since.
constexpr std::int64_t ahead = 3600 * second;
// Writing an entry takes milliseconds; a rank that sleeps longer than this between write and rename
// loses the file and has the kernel in memory.
constexpr std::int64_t abandoned = 900 * second;
// Why not at each write: on a network file system a look at a thousand entries takes seconds.
constexpr int writes_between_looks = 32;

struct Watch {
  std::uint64_t bytes = 0;  // in the directory, as far as this process knows
  int writes = writes_between_looks;
};

// What this process has used, by path, with a number that grows; and its directories.
struct Uses {
  std::mutex mutex;
  std::map<std::string, std::uint64_t> order;
  std::uint64_t last = 0;
  std::map<std::string, Watch> watches;
  std::mutex trimming;  // two threads at once would each remove what the other keeps
};

Uses& uses() {
  static Uses& instance = *new Uses;
  return instance;
}

// 0 if this process has not used it.
std::uint64_t order_of(const std::string& path) {
  std::lock_guard lock(uses().mutex);
  const auto found = uses().order.find(path);
  return found == uses().order.end() ? 0 : found->second;
}

struct Found {
  std::string file;
  std::uint64_t bytes = 0;
  std::uint64_t order = 0;     // of this process's use
  std::int64_t last_used = 0;  // by the clock
};

// Entries, oldest use first. Removes what killed writers left.
std::vector<Found> look(const std::string& directory) {
  std::vector<Found> entries;
  const std::int64_t now = files::now();
  for (const std::string& file : files::list(directory, "")) {
    const std::string path = join(directory, "/", file);
    const bool leftover = is_leftover(file);
    if (!leftover && !file.ends_with(cache_suffix)) continue;
    const auto status = files::status(path);
    if (!status) continue;  // gone meanwhile, or no file
    if (leftover) {
      const std::int64_t age = now - status->modified;  // below 0 if the clock was set back
      if (age > abandoned || age < -ahead) files::remove(path);
      continue;
    }
    Found entry{file, status->bytes, order_of(path), status->modified};
    // Why: it would seem newer than all others for as long as the clock was wrong. It counts as
    // used now and ages from here; if that cannot be written down, it goes first.
    if (entry.last_used > now + ahead) entry.last_used = files::touch(path) ? now : 0;
    entries.push_back(std::move(entry));
  }
  std::sort(entries.begin(), entries.end(), [](const Found& a, const Found& b) {
    return std::tie(a.order, a.last_used, a.file) < std::tie(b.order, b.last_used, b.file);
  });
  return entries;
}

// Returns the bytes that stay.
std::uint64_t trim(const std::string& directory, const std::string& keep, std::uint64_t limit) {
  std::lock_guard lock(uses().trimming);
  const std::vector<Found> entries = look(directory);
  std::uint64_t total = 0;
  for (const Found& entry : entries) total += entry.bytes;
  if (limit == 0 || total <= limit) return total;
  const std::uint64_t enough = limit - limit / 10;  // so that the next write need not look again
  bool own = false;
  for (const Found& entry : entries) {
    if (total <= enough) break;
    const std::string path = join(directory, "/", entry.file);
    if (entry.file == keep) continue;
    // Another process may have been faster; what cannot be removed stays and is counted.
    if (!files::remove(path) && files::status(path)) continue;
    total -= entry.bytes;
    own = own || entry.order != 0;
  }
  if (own) {
    log::warn_once(join("the kernels that this process uses do not fit into the cache: ",
                        "DEEPGEMM_CACHE_MAX_BYTES allows ", limit, " bytes in ", directory,
                        ". The next process will compile some again"));
  }
  return total;
}

}  // namespace

std::uint64_t cache_limit() {
  return env::bytes("DEEPGEMM_CACHE_MAX_BYTES", std::uint64_t{1} << 30);
}

void mark_used(const std::string& directory, const std::string& file) {
  const std::string path = join(directory, "/", file);
  {
    std::lock_guard lock(uses().mutex);
    std::uint64_t& order = uses().order[path];
    const bool known = order != 0;
    order = ++uses().last;
    if (known) return;
  }
  const auto status = files::status(path);
  if (!status) return;
  const std::int64_t age = files::now() - status->modified;
  // May fail where the directory is read-only; then nothing is removed there either.
  if (age > recent || age < -recent) files::touch(path);
}

void make_room(const std::string& directory, const std::string& file, std::uint64_t bytes) {
  const std::uint64_t limit = cache_limit();
  {
    std::lock_guard lock(uses().mutex);
    uses().order[join(directory, "/", file)] = ++uses().last;
    Watch& watch = uses().watches[directory];
    watch.bytes += bytes;
    const bool fits = limit == 0 || watch.bytes <= limit;
    if (fits && watch.writes < writes_between_looks) {
      ++watch.writes;
      return;
    }
  }
  const std::uint64_t total = trim(directory, file, limit);
  std::lock_guard lock(uses().mutex);
  uses().watches[directory] = {total, 0};
}

}  // namespace deepgemm::jit
