// The cache under many processes, killed writers, full disks and links, down to the real system
// calls. Damaged entries and directories that are not to be trusted: disk_cache_test.cpp.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <csignal>
#include <ctime>
#include <functional>
#include <thread>

#include "contains.hpp"
#include "fake_driver/fake_driver.hpp"
#include "jit/cubin_source.hpp"
#include "jit/disk_cache.hpp"
#include "jit_fixture.hpp"

using namespace deepgemm;
using test::contains;
using testing::CacheDirectory;
using testing::CapturedLog;

namespace {

constexpr int processes = 16;

jit::EntryName entry_name(const std::string& config = "a") {
  return {"deepgemm_test_kernel", jit::family_key(testing::test_kernel(config)), {13, 0}};
}

std::string path_of(const CacheDirectory& directory, const std::string& config = "a") {
  return directory.path + "/" + jit::file_name(entry_name(config));
}

// A process of its own; its exit code is 0 if `body` says true. doctest is not told of what happens
// there.
pid_t start(const std::function<bool()>& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body() ? 0 : 1);
  return child;
}

int wait_for(pid_t child) {
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

// Loads the kernels with a table of its own, as a new program would: right cubins, and at most one
// compile of each.
bool load_all(const std::vector<jit::KernelSpec>& specs) {
  fake::use_fake_driver();
  int (*const compiles)() = testing::use_fake_nvrtc();
  const int before = compiles();
  CapturedLog captured;
  const auto load = [&specs](std::size_t first, bool& well) {
    well = true;
    for (std::size_t i = 0; i < specs.size(); ++i) {
      const jit::KernelSpec& spec = specs[(first + i) % specs.size()];
      well = well && jit::load(spec, 0).function != nullptr;
      well = well && jit::get_cubin(spec).bytes == "ELF " + spec.entry(spec);
    }
  };
  bool well[2] = {false, false};
  std::thread other(load, specs.size() / 2, std::ref(well[0]));
  load(0, well[1]);
  other.join();
  return well[0] && well[1] && compiles() - before <= static_cast<int>(specs.size()) &&
         CapturedLog::messages().empty();
}

void start_cold(const std::vector<jit::KernelSpec>& specs) {
  CacheDirectory directory;
  std::vector<pid_t> children;
  for (int i = 0; i < processes; ++i) {
    children.push_back(start([&specs] { return load_all(specs); }));
  }
  for (const pid_t child : children) CHECK(wait_for(child) == 0);
  CHECK(directory.files().size() == specs.size());
  const auto entries = jit::list_cache(true);
  CHECK(entries.size() == specs.size());
  for (const jit::CacheEntry& entry : entries) CHECK(entry.valid);
  // Who comes later compiles nothing.
  CHECK(wait_for(start([&specs] {
          return load_all(specs) && jit::counters().compiled == 0 &&
                 jit::counters().disk_hits == specs.size();
        })) == 0);
}

}  // namespace

TEST_CASE("16 processes start cold on one kernel") {
  start_cold({testing::test_kernel("SLOW kernel of all processes")});
}

TEST_CASE("16 processes start cold on many kernels") {
  std::vector<jit::KernelSpec> specs;
  for (int i = 0; i < 24; ++i) specs.push_back(testing::test_kernel(join("one of many ", i)));
  start_cold(specs);
}

TEST_CASE("a writer that is killed in the middle of a write leaves no entry") {
  CacheDirectory directory;
  // The kernel kills a process that writes past its limit, after part of the bytes is written.
  const int status = wait_for(start([] {
    const rlimit limit{1000, 1000}, no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    setrlimit(RLIMIT_FSIZE, &limit);
    signal(SIGXFSZ, SIG_DFL);
    jit::write_entry(entry_name(), std::string(5000, 'x'));
    return true;
  }));
  REQUIRE(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGXFSZ);
  const std::string left = directory.only_file();
  REQUIRE_FALSE(left.empty());
  CHECK(files::read(left)->size() == 1000);
  CHECK_FALSE(jit::read_entry(entry_name()).has_value());
  CHECK(jit::list_cache(true).empty());
  CHECK(jit::stored_versions("deepgemm_test_kernel", entry_name().family).empty());
  jit::write_entry(entry_name(), "whole");
  CHECK(jit::read_entry(entry_name()) == "whole");
  CHECK(jit::clear_cache() == 2);
}

TEST_CASE("writers killed at any moment leave whole entries or none") {
  CacheDirectory directory;
  for (int round = 0; round < 40; ++round) {
    const pid_t child = start([] {
      for (int i = 0;; ++i) {
        jit::write_entry(entry_name(join("killed ", i % 4)),
                         std::string(50000 + i % 1000, static_cast<char>('a' + i % 26)));
      }
      return true;
    });
    std::this_thread::sleep_for(std::chrono::microseconds(500 + 997 * round % 20000));
    kill(child, SIGKILL);
    const int status = wait_for(child);
    CHECK(WIFSIGNALED(status));
    for (const jit::CacheEntry& entry : jit::list_cache(true)) CHECK(entry.valid);
  }
  CHECK_FALSE(jit::list_cache(false).empty());
}

TEST_CASE("a file that cannot grow is given up, with one warning and nothing left behind") {
  CacheDirectory directory;
  const int status = wait_for(start([] {
    const rlimit limit{1000, 1000};
    setrlimit(RLIMIT_FSIZE, &limit);
    signal(SIGXFSZ, SIG_IGN);  // as Python does
    return load_all({}) && [] {
      CapturedLog captured;
      const jit::KernelSpec spec = testing::test_kernel(std::string(5000, 'x'));
      const bool loaded = jit::load(spec, 0).function != nullptr;
      jit::write_entry(entry_name("b"), std::string(5000, 'x'));
      return loaded && CapturedLog::messages().size() == 1 &&
             contains(CapturedLog::messages()[0], "File too large");
    }();
  }));
  CHECK(status == 0);
  CHECK(directory.files().empty());
}

TEST_CASE("a full file system") {
  CacheDirectory directory;
  REQUIRE(mkdir(directory.path.c_str(), 0700) == 0);
  if (mount("deepgemm-test", directory.path.c_str(), "tmpfs", 0, "size=64k,mode=0700") != 0) {
    MESSAGE("skipped: a file system cannot be mounted here");
    return;
  }
  {
    CapturedLog captured;
    int written = 0;
    for (; written < 50; ++written) {
      jit::write_entry(entry_name(join("full ", written)), std::string(10000, 'x'));
      if (!CapturedLog::messages().empty()) break;
    }
    CHECK(written > 2);
    CHECK(written < 50);
    REQUIRE(CapturedLog::messages().size() == 1);
    CHECK(contains(CapturedLog::messages()[0], "No space left on device"));
    jit::write_entry(entry_name("one more"), std::string(10000, 'x'));
    CHECK(CapturedLog::messages().size() == 1);
    CHECK(static_cast<int>(directory.files().size()) == written);
    for (const jit::CacheEntry& entry : jit::list_cache(true)) CHECK(entry.valid);
    CHECK(jit::read_entry(entry_name("full 0")).has_value());
    CHECK(contains(jit::cache_info().problem, "No space left on device"));
  }
  CHECK(umount(directory.path.c_str()) == 0);
}

TEST_CASE("a directory that is removed while it is in use comes back") {
  CacheDirectory directory;
  jit::write_entry(entry_name(), "first");
  REQUIRE(unlink(path_of(directory).c_str()) == 0);
  REQUIRE(rmdir(directory.path.c_str()) == 0);
  CapturedLog captured;
  CHECK_FALSE(jit::read_entry(entry_name()).has_value());
  jit::write_entry(entry_name(), "second");
  CHECK(jit::read_entry(entry_name()) == "second");
  CHECK(CapturedLog::messages().empty());
}

TEST_CASE("an entry of another format version") {
  CacheDirectory directory;
  std::string bytes = jit::encode_entry(entry_name(), "cubin");
  const std::size_t version = bytes.find('\n') - 1;
  bytes[version] = static_cast<char>(bytes[version] + 1);
  REQUIRE(files::make_directories(directory.path).empty());
  REQUIRE(files::write_atomically(path_of(directory), bytes).empty());
  CapturedLog captured;
  CHECK_FALSE(jit::read_entry(entry_name()).has_value());
  REQUIRE(CapturedLog::messages().size() == 1);
  CHECK(contains(CapturedLog::messages()[0], "not a cache entry"));
}

TEST_CASE("links in the place of an entry: what they lead to counts, and they are replaced") {
  CacheDirectory directory;
  REQUIRE(files::make_directories(directory.path).empty());
  const std::string path = path_of(directory), target = directory.root() + "/target";
  REQUIRE(files::write_atomically(target, jit::encode_entry(entry_name(), "linked")).empty());
  CapturedLog captured;
  const auto lead_to = [&path](const std::string& place) {
    unlink(path.c_str());
    REQUIRE(symlink(place.c_str(), path.c_str()) == 0);
  };
  lead_to(target);
  CHECK(jit::read_entry(entry_name()) == "linked");
  for (const std::string& place :
       {directory.root() + "/nowhere", path, std::string("/dev/zero"), std::string("/dev/full"),
        directory.root(), std::string("/proc/self/mem")}) {
    lead_to(place);
    CHECK_FALSE(jit::read_entry(entry_name()).has_value());
    CHECK(jit::cache_info().entries == 1);
    jit::write_entry(entry_name(), "own");
    CHECK(jit::read_entry(entry_name()) == "own");
  }
  lead_to(target);
  jit::write_entry(entry_name(), "own");
  CHECK(jit::read_entry(entry_name()) == "own");
  CHECK(jit::decode_entry(*files::read(target)).cubin == "linked");
  CHECK(CapturedLog::messages().empty());
}

TEST_CASE("a link that leads nowhere in the place of the directory") {
  CacheDirectory directory;
  REQUIRE(symlink((directory.root() + "/nowhere").c_str(), directory.path.c_str()) == 0);
  CapturedLog captured;
  CHECK_FALSE(jit::read_entry(entry_name()).has_value());
  jit::write_entry(entry_name(), "x");
  jit::write_entry(entry_name("b"), "x");
  CHECK(CapturedLog::messages().size() == 1);
  CHECK_FALSE(jit::directory_exists(directory.root() + "/nowhere"));
}

TEST_CASE("clocks: entries of 1970 and of the future are read as any") {
  CacheDirectory directory;
  for (const std::time_t when : {std::time_t{0}, std::time_t{1} << 33}) {
    const std::string config = join("of ", std::int64_t{when});
    jit::write_entry(entry_name(config), config);
    const timespec times[2] = {{when, 0}, {when, 0}};
    REQUIRE(utimensat(AT_FDCWD, path_of(directory, config).c_str(), times, 0) == 0);
    CHECK(jit::read_entry(entry_name(config)) == config);
    CHECK(jit::list_cache(true).size() == directory.files().size());
  }
}
