// The size limit of the disk cache. Times are set by hand: nothing waits.
#include "jit/eviction.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/wait.h>

#include <ctime>
#include <thread>

#include "contains.hpp"
#include "jit/disk_cache.hpp"
#include "jit_fixture.hpp"

using namespace deepgemm;
using test::contains;
using testing::CacheDirectory;
using testing::CapturedLog;

namespace {

constexpr long hour = 3600;

struct Limit {
  explicit Limit(const std::string& value) { setenv("DEEPGEMM_CACHE_MAX_BYTES", value.c_str(), 1); }
  ~Limit() { unsetenv("DEEPGEMM_CACHE_MAX_BYTES"); }
};

jit::EntryName entry_name(const std::string& config) {
  return {"deepgemm_test_kernel", jit::family_key(testing::test_kernel(config)), {13, 0}};
}

// As another process would have left it: this one has not used it.
std::string plant(const CacheDirectory& directory, const std::string& config, long seconds_ago,
                  std::size_t bytes = 1000) {
  REQUIRE(files::make_directories(directory.path).empty());
  const std::string path = directory.path + "/" + jit::file_name(entry_name(config));
  const std::string entry = jit::encode_entry(entry_name(config), std::string(bytes, 'x'));
  REQUIRE(files::write_atomically(path, entry).empty());
  const timespec times[2] = {{0, 0}, {std::time(nullptr) - seconds_ago, 0}};
  REQUIRE(utimensat(AT_FDCWD, path.c_str(), times, 0) == 0);
  return path;
}

bool there(const std::string& path) { return files::status(path).has_value(); }

std::int64_t age_in_seconds(const std::string& path) {
  return (files::now() - files::status(path)->modified) / 1'000'000'000;
}

}  // namespace

TEST_CASE("the limit is read at use; what is no size counts as not set, with one warning") {
  CHECK(jit::cache_limit() == std::uint64_t{1} << 30);
  CHECK((Limit("512M"), jit::cache_limit()) == std::uint64_t{512} << 20);
  Limit wrong("plenty");
  CapturedLog captured;
  CHECK(jit::cache_limit() == std::uint64_t{1} << 30);
  CHECK(jit::cache_limit() == std::uint64_t{1} << 30);
  REQUIRE(CapturedLog::messages().size() == 1);
  CHECK(contains(CapturedLog::messages()[0], "DEEPGEMM_CACHE_MAX_BYTES"));
}

TEST_CASE("the least recently used go, until a tenth of the limit is free") {
  CacheDirectory directory;
  const Limit limit("10000");
  std::vector<std::string> paths;
  for (long age = 9; age > 0; --age) {
    paths.push_back(plant(directory, join("lru ", age), age * hour));
  }
  jit::write_entry(entry_name("lru written"), "x");
  // 9 of about 1.2 KB and a small one: two have to go, the oldest.
  for (std::size_t i = 0; i < paths.size(); ++i) CHECK(there(paths[i]) == (i >= 2));
  CHECK(jit::read_entry(entry_name("lru written")).has_value());
}

TEST_CASE("within the limit, and with none, nothing goes") {
  CacheDirectory directory;
  const std::string old = plant(directory, "kept", 1000 * hour, 100000);
  {
    const Limit limit("200K");
    jit::write_entry(entry_name("kept too"), "x");
  }
  const Limit none("0");
  jit::write_entry(entry_name("kept as well"), std::string(500000, 'x'));
  CHECK(there(old));
  CHECK(directory.files().size() == 3);
}

TEST_CASE("a hit marks the entry as used, once per process, and so keeps it") {
  CacheDirectory directory;
  const std::string used = plant(directory, "used", 100 * hour);
  const std::string unused = plant(directory, "unused", 50 * hour);
  CHECK(jit::read_entry(entry_name("used")).has_value());
  CHECK(age_in_seconds(used) < 60);
  plant(directory, "used", 100 * hour);
  CHECK(jit::read_entry(entry_name("used")).has_value());
  CHECK(age_in_seconds(used) > 99 * hour);  // not marked again
  const Limit limit("2000");
  jit::write_entry(entry_name("third"), "x");
  CHECK(there(used));  // although it looks older: this process uses it
  CHECK_FALSE(there(unused));
}

TEST_CASE("a miss marks nothing") {
  CacheDirectory directory;
  const std::string path = plant(directory, "damaged", 100 * hour);
  plant(directory, "other", 100 * hour);
  REQUIRE(truncate(path.c_str(), 100) == 0);
  CapturedLog captured;
  CHECK_FALSE(jit::read_entry(entry_name("damaged")).has_value());
  CHECK_FALSE(there(path));
}

TEST_CASE("an entry larger than the limit stays when it has just been written") {
  CacheDirectory directory;
  const Limit limit("1000");
  CapturedLog captured;
  jit::write_entry(entry_name("large 1"), std::string(5000, 'x'));
  CHECK(directory.files().size() == 1);
  CHECK(CapturedLog::messages().empty());
  jit::write_entry(entry_name("large 2"), std::string(5000, 'x'));
  CHECK(directory.files() == std::vector<std::string>{jit::file_name(entry_name("large 2"))});
  // The first was this process's own: the limit is too small for it, and that is said once.
  REQUIRE(CapturedLog::messages().size() == 1);
  CHECK(contains(CapturedLog::messages()[0], "DEEPGEMM_CACHE_MAX_BYTES allows 1000 bytes"));
}

TEST_CASE("of this process's entries those used longest ago go first, after all others") {
  CacheDirectory directory;
  const Limit limit("5000");
  jit::write_entry(entry_name("own 1"), std::string(1000, 'x'));
  jit::write_entry(entry_name("own 2"), std::string(1000, 'x'));
  CHECK(jit::read_entry(entry_name("own 1")).has_value());
  const std::string other = plant(directory, "newer than all", -10);
  jit::write_entry(entry_name("own 3"), std::string(1000, 'x'));
  CHECK(there(other));  // 4.9 KB: it fits
  CapturedLog captured;
  jit::write_entry(entry_name("own 4"), std::string(1500, 'x'));
  CHECK_FALSE(there(other));
  CHECK_FALSE(jit::read_entry(entry_name("own 2")).has_value());
  CHECK(jit::read_entry(entry_name("own 1")).has_value());
}

TEST_CASE("clocks that jumped: times in the future count as now, times at 0 as old") {
  CacheDirectory directory;
  const std::string future = plant(directory, "future", -1000 * hour);
  const std::string far = plant(directory, "far future", 0);
  const timespec times[2] = {{0, 0}, {std::time_t{1} << 33, 0}};  // the year 2242
  REQUIRE(utimensat(AT_FDCWD, far.c_str(), times, 0) == 0);
  const std::string epoch = plant(directory, "1970", std::time(nullptr));
  const std::string old = plant(directory, "old", 10 * hour);
  const Limit limit("4500");
  CHECK(jit::read_entry(entry_name("1970")).has_value());  // used: no longer of 1970
  CHECK(age_in_seconds(epoch) < 60);
  jit::write_entry(entry_name("now"), "x");
  CHECK_FALSE(there(old));
  for (const std::string& path : {future, far}) {
    REQUIRE(there(path));
    CHECK(age_in_seconds(path) >= 0);
    CHECK(age_in_seconds(path) < 60);
  }
}

TEST_CASE("what killed writers left is removed once it is old, a live writer's file is not") {
  CacheDirectory directory;
  const std::string entry = plant(directory, "left", 0);
  const auto leave = [&](const char* ending, long seconds_ago) {
    const std::string path = entry + ending;
    REQUIRE(files::write_atomically(path, "half of it").empty());
    const timespec times[2] = {{0, 0}, {std::time(nullptr) - seconds_ago, 0}};
    REQUIRE(utimensat(AT_FDCWD, path.c_str(), times, 0) == 0);
    return path;
  };
  const std::string dead = leave(".AAAAAA", hour), live = leave(".BBBBBB", 10);
  const std::string skewed = leave(".CCCCCC", -10), jumped = leave(".DDDDDD", -100 * hour);
  REQUIRE(files::write_atomically(directory.path + "/notes.txt", "mine").empty());
  jit::write_entry(entry_name("any"), "x");
  CHECK_FALSE(there(dead));
  CHECK_FALSE(there(jumped));
  CHECK(there(live));
  CHECK(there(skewed));
  CHECK(there(entry));
  CHECK(there(directory.path + "/notes.txt"));
}

TEST_CASE("links, directories and pipes among the entries are no trouble") {
  CacheDirectory directory;
  const std::string target = directory.root() + "/elsewhere";
  REQUIRE(files::write_atomically(target, std::string(100000, 'x')).empty());
  const std::string link = plant(directory, "link", 0), folder = plant(directory, "folder", 0),
                    pipe = plant(directory, "pipe", 0);
  for (const std::string& path : {link, folder, pipe}) REQUIRE(unlink(path.c_str()) == 0);
  REQUIRE(symlink(target.c_str(), link.c_str()) == 0);
  REQUIRE(mkdir(folder.c_str(), 0700) == 0);
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  const std::string old = plant(directory, "old beside them", hour);
  const Limit limit("1200");
  jit::write_entry(entry_name("beside them"), std::string(500, 'x'));
  CHECK_FALSE(there(old));
  CHECK(files::read(target)->size() == 100000);
}

TEST_CASE("a read-only directory is read without a word") {
  if (geteuid() != 0) return;  // the test turns into another user
  CacheDirectory directory;
  const std::string path = plant(directory, "read only", 100 * hour);
  REQUIRE(chmod(directory.root().c_str(), 0755) == 0);
  REQUIRE(chmod(directory.path.c_str(), 0555) == 0);
  REQUIRE(chmod(path.c_str(), 0444) == 0);
  CapturedLog captured;
  REQUIRE(seteuid(65534) == 0);
  CHECK(jit::read_entry(entry_name("read only")).has_value());
  REQUIRE(seteuid(0) == 0);
  CHECK(CapturedLog::messages().empty());
  CHECK(age_in_seconds(path) > 99 * hour);
}

TEST_CASE("processes and threads that write and remove at once") {
  CacheDirectory directory;
  const Limit limit("20K");
  const auto work = [](int worker) {
    for (int i = 0; i < 40; ++i) {
      const std::string config = join("crowd ", worker % 3, " ", i);
      const std::string cubin(1000 + 10 * i, 'x');
      jit::write_entry(entry_name(config), cubin);
      const auto read = jit::read_entry(entry_name(config));
      if (read && *read != cubin) return false;
    }
    return true;
  };
  CapturedLog captured;
  std::vector<pid_t> children;
  for (int worker = 0; worker < 8; ++worker) {
    const pid_t child = fork();
    if (child == 0) {
      bool well[2] = {false, false};
      std::thread second([&] { well[0] = work(worker); });
      well[1] = work(worker + 1);
      second.join();
      // The only message there may be is that of the small limit.
      const bool quiet = CapturedLog::messages().size() <= 1;
      _exit(well[0] && well[1] && quiet ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(status == 0);
  }
  for (const jit::CacheEntry& entry : jit::list_cache(true)) CHECK(entry.valid);
  jit::write_entry(entry_name("last of all"), "x");
  CHECK(jit::cache_info().bytes <= 20 << 10);
  CHECK(jit::cache_info().limit == 20 << 10);
}
