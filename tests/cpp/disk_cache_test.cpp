// The cache against a hostile file system: every damage is a miss or a warning, never a wrong
// cubin.
#include "jit/disk_cache.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>

#include "contains.hpp"
#include "core/hash.hpp"
#include "jit_fixture.hpp"

using namespace deepgemm;
using test::contains;
using testing::CacheDirectory;
using testing::CapturedLog;

namespace {

const std::string cubin_bytes = std::string("ELF\0\n\n cubin with odd bytes \xff", 29);

jit::EntryName entry_name(const std::string& config = "a") {
  return {"deepgemm_test_kernel", jit::family_key(testing::test_kernel(config)), {13, 0}};
}

// Replaces the entry's file and expects a miss, one warning with `reason`, and the file gone.
void expect_refused(const CacheDirectory& directory, const std::string& bytes,
                    const std::string& reason) {
  const std::string path = directory.path + "/" + jit::file_name(entry_name());
  REQUIRE(files::write_atomically(path, bytes).empty());
  CapturedLog captured;
  CHECK_FALSE(jit::read_entry(entry_name()).has_value());
  REQUIRE(CapturedLog::messages().size() == 1);
  CHECK(contains(CapturedLog::messages()[0], reason));
  CHECK_FALSE(files::read(path).has_value());
  CHECK_FALSE(jit::read_entry(entry_name()).has_value());
  CHECK(CapturedLog::messages().size() == 1);
}

// Runs `body` as a user without root's rights, which would see through permissions.
template <class Body>
void as_another_user(Body body) {
  const bool is_root = geteuid() == 0;
  if (is_root) REQUIRE(seteuid(65534) == 0);
  body();
  if (is_root) REQUIRE(seteuid(0) == 0);
}

}  // namespace

TEST_CASE("what was written is read") {
  CacheDirectory directory;
  CHECK_FALSE(jit::read_entry(entry_name()).has_value());
  jit::write_entry(entry_name(), cubin_bytes);
  CHECK(jit::read_entry(entry_name()) == cubin_bytes);
  CHECK_FALSE(jit::read_entry(entry_name("b")).has_value());
  CHECK(directory.files().size() == 1);
  struct stat status{};
  REQUIRE(stat(directory.path.c_str(), &status) == 0);
  CHECK((status.st_mode & 0777) == 0700);
}

TEST_CASE("reading creates nothing") {
  CacheDirectory directory;
  CHECK_FALSE(jit::read_entry(entry_name()).has_value());
  CHECK(jit::stored_versions("x", std::string(64, '0')).empty());
  CHECK_FALSE(jit::directory_exists(directory.path));
}

TEST_CASE("the file's name holds kernel, key and compiler") {
  const jit::EntryName name = entry_name();
  CHECK(jit::file_name(name) ==
        "deepgemm_test_kernel-" + name.family.substr(0, 32) + "-nvrtc13.0.deepgemm");
}

TEST_CASE("versions of one kernel are kept apart and listed newest first") {
  CacheDirectory directory;
  for (const jit::CompilerVersion version : {jit::CompilerVersion{12, 9}, {13, 10}, {13, 2}}) {
    jit::EntryName name = entry_name();
    name.compiler = version;
    jit::write_entry(name, join("cubin of ", version.major));
  }
  CHECK(jit::stored_versions("deepgemm_test_kernel", entry_name().family) ==
        std::vector<jit::CompilerVersion>{{13, 10}, {13, 2}, {12, 9}});
  CHECK_FALSE(jit::read_entry(entry_name()).has_value());
}

TEST_CASE("a truncated entry") {
  CacheDirectory directory;
  jit::write_entry(entry_name(), cubin_bytes);
  const std::string whole = jit::encode_entry(entry_name(), cubin_bytes);
  expect_refused(directory, whole.substr(0, whole.size() - 1), "cut off or too long");
}

TEST_CASE("an entry cut at any length, or longer, is never served") {
  const std::string whole = jit::encode_entry(entry_name(), cubin_bytes);
  CHECK(jit::decode_entry(whole).problem.empty());
  for (std::size_t length = 0; length < whole.size(); ++length) {
    CHECK_FALSE(jit::decode_entry(whole.substr(0, length)).problem.empty());
  }
  CHECK_FALSE(jit::decode_entry(whole + "x").problem.empty());
}

TEST_CASE("an entry with any one bit flipped is never served as this kernel") {
  const std::string whole = jit::encode_entry(entry_name(), cubin_bytes);
  const std::string key = jit::kernel_key(entry_name().family, entry_name().compiler);
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << bit % 8));
    const jit::DecodedEntry entry = jit::decode_entry(damaged);
    const bool accepted =
        entry.problem.empty() && entry.key == key && entry.kernel == entry_name().kernel;
    CHECK_FALSE(accepted);
  }
}

TEST_CASE("a flipped bit on disk") {
  CacheDirectory directory;
  jit::write_entry(entry_name(), cubin_bytes);
  std::string bytes = jit::encode_entry(entry_name(), cubin_bytes);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  expect_refused(directory, bytes, "checksum is wrong");
}

TEST_CASE("an empty file") {
  CacheDirectory directory;
  jit::write_entry(entry_name(), cubin_bytes);
  expect_refused(directory, "", "it is empty");
}

TEST_CASE("a foreign file") {
  CacheDirectory directory;
  jit::write_entry(entry_name(), cubin_bytes);
  expect_refused(directory, "#!/bin/sh\necho hello\n", "not a cache entry");
}

TEST_CASE("the entry of another kernel under this name") {
  CacheDirectory directory;
  jit::write_entry(entry_name(), cubin_bytes);
  expect_refused(directory, jit::encode_entry(entry_name("b"), cubin_bytes),
                 "holds another kernel");
}

TEST_CASE("a directory in the place of an entry") {
  CacheDirectory directory;
  const std::string path = directory.path + "/" + jit::file_name(entry_name());
  REQUIRE(files::make_directories(path).empty());
  CapturedLog captured;
  CHECK_FALSE(jit::read_entry(entry_name()).has_value());
  jit::write_entry(entry_name(), cubin_bytes);
  CHECK(CapturedLog::messages().size() == 1);
}

TEST_CASE("a read-only directory is read, and warned of once") {
  CacheDirectory directory;
  jit::write_entry(entry_name(), cubin_bytes);
  REQUIRE(chmod(directory.root().c_str(), 0755) == 0);
  REQUIRE(chmod(directory.path.c_str(), 0555) == 0);
  REQUIRE(chmod(directory.only_file().c_str(), 0444) == 0);
  CapturedLog captured;
  as_another_user([] {
    CHECK(jit::read_entry(entry_name()) == cubin_bytes);
    jit::write_entry(entry_name("b"), cubin_bytes);
    jit::write_entry(entry_name("c"), cubin_bytes);
    CHECK(contains(jit::cache_info().problem, "kept in memory only"));
  });
  REQUIRE(CapturedLog::messages().size() == 1);
  CHECK(contains(CapturedLog::messages()[0], "memory only"));
  CHECK(directory.files().size() == 1);
}

TEST_CASE("a directory that others can write to is refused") {
  CacheDirectory directory;
  jit::write_entry(entry_name(), cubin_bytes);
  REQUIRE(chmod(directory.path.c_str(), 0777) == 0);
  CapturedLog captured;
  CHECK_FALSE(jit::read_entry(entry_name()).has_value());
  jit::write_entry(entry_name("b"), cubin_bytes);
  CHECK(CapturedLog::messages().size() == 1);
  CHECK(directory.files().size() == 1);
  const jit::CacheInfo info = jit::cache_info();
  CHECK(info.directory.empty());
  CHECK(contains(info.problem, "written by other users"));
}

TEST_CASE("another user's directory is refused") {
  if (geteuid() != 0) return;  // only root can give a directory away
  CacheDirectory directory;
  jit::write_entry(entry_name(), cubin_bytes);
  REQUIRE(chown(directory.path.c_str(), 65533, 65533) == 0);
  CapturedLog captured;
  CHECK_FALSE(jit::read_entry(entry_name()).has_value());
  CHECK(CapturedLog::messages().size() == 1);
}

TEST_CASE("a link to a private directory is followed, to an open one refused") {
  CacheDirectory directory;
  const std::string target = directory.root() + "/target";
  REQUIRE(files::make_directories(target).empty());
  REQUIRE(symlink(target.c_str(), directory.path.c_str()) == 0);
  jit::write_entry(entry_name(), cubin_bytes);
  CHECK(jit::read_entry(entry_name()) == cubin_bytes);
  CHECK(files::list(target, jit::cache_suffix).size() == 1);
  REQUIRE(chmod(target.c_str(), 0777) == 0);
  CapturedLog captured;
  CHECK_FALSE(jit::read_entry(entry_name()).has_value());
}

TEST_CASE("a directory that cannot be created") {
  CacheDirectory directory;
  REQUIRE(files::write_atomically(directory.root() + "/file", "x").empty());
  setenv("DEEPGEMM_CACHE_DIR", (directory.root() + "/file/cache").c_str(), 1);
  CapturedLog captured;
  jit::write_entry(entry_name(), cubin_bytes);
  jit::write_entry(entry_name("b"), cubin_bytes);
  CHECK(CapturedLog::messages().size() == 1);
  CHECK_FALSE(jit::read_entry(entry_name()).has_value());
}

TEST_CASE("the directory is chosen by DEEPGEMM_CACHE_DIR, XDG_CACHE_HOME, HOME, in this order") {
  const std::string home = std::getenv("HOME") != nullptr ? std::getenv("HOME") : "";
  unsetenv("DEEPGEMM_CACHE_DIR");
  setenv("HOME", "/home/someone", 1);
  setenv("XDG_CACHE_HOME", "/xdg", 1);
  CHECK(jit::cache_location().directory == "/xdg/deepgemm");
  setenv("XDG_CACHE_HOME", "relative", 1);
  CHECK(jit::cache_location().directory == "/home/someone/.cache/deepgemm");
  unsetenv("XDG_CACHE_HOME");
  CHECK(jit::cache_location().directory == "/home/someone/.cache/deepgemm");
  setenv("DEEPGEMM_CACHE_DIR", "/chosen", 1);
  CHECK(jit::cache_location().directory == "/chosen");
  unsetenv("DEEPGEMM_CACHE_DIR");
  unsetenv("HOME");
  CHECK(jit::cache_location().directory.empty());
  CapturedLog captured;
  jit::write_entry(entry_name(), cubin_bytes);
  jit::write_entry(entry_name("b"), cubin_bytes);
  REQUIRE(CapturedLog::messages().size() == 1);
  CHECK(contains(CapturedLog::messages()[0], "HOME is set"));
  CHECK(contains(jit::cache_info().problem, "HOME is set"));
  if (!home.empty()) setenv("HOME", home.c_str(), 1);
}

TEST_CASE("a leading ~ is HOME, and a relative directory stays where it was first used") {
  const std::string home = std::getenv("HOME") != nullptr ? std::getenv("HOME") : "";
  const std::string here = files::working_directory();
  setenv("HOME", "/home/someone", 1);
  setenv("DEEPGEMM_CACHE_DIR", "~/kernels", 1);
  CHECK(jit::cache_location().directory == "/home/someone/kernels");
  setenv("DEEPGEMM_CACHE_DIR", "~", 1);
  CHECK(jit::cache_location().directory == "/home/someone");
  unsetenv("HOME");
  CHECK(contains(jit::cache_location().problem, "HOME is not set"));
  if (!home.empty()) setenv("HOME", home.c_str(), 1);
  setenv("DEEPGEMM_CACHE_DIR", "some/kernels", 1);
  CHECK(jit::cache_location().directory == here + "/some/kernels");
  REQUIRE(chdir("/") == 0);
  CHECK(jit::cache_location().directory == here + "/some/kernels");
  REQUIRE(chdir(here.c_str()) == 0);
  unsetenv("DEEPGEMM_CACHE_DIR");
}

TEST_CASE("a pipe in the place of an entry is a miss, and replaced") {
  CacheDirectory directory;
  jit::write_entry(entry_name(), cubin_bytes);
  const std::string path = directory.only_file();
  REQUIRE(unlink(path.c_str()) == 0);
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);
  CHECK_FALSE(jit::read_entry(entry_name()).has_value());
  REQUIRE(jit::list_cache(true).size() == 1);
  CHECK_FALSE(jit::list_cache(true)[0].valid);
  CHECK_FALSE(jit::list_cache(false)[0].valid);
  jit::write_entry(entry_name(), cubin_bytes);
  CHECK(jit::read_entry(entry_name()) == cubin_bytes);
}

TEST_CASE("the report says when the cache cannot be written") {
  CacheDirectory directory;
  CHECK(jit::cache_info().problem.empty());  // not there yet, but it can be
  CHECK(directory.files().empty());
  setenv("DEEPGEMM_CACHE_DIR", "/proc/deepgemm", 1);
  CHECK(contains(jit::cache_info().problem, "memory only"));
}

TEST_CASE("the report lists, verifies and clears only this library's files") {
  CacheDirectory directory;
  CHECK(jit::cache_info().entries == 0);
  jit::write_entry(entry_name("a"), cubin_bytes);
  jit::write_entry(entry_name("b"), cubin_bytes);
  const std::string broken = directory.path + "/" + jit::file_name(entry_name("b"));
  REQUIRE(files::write_atomically(broken, "damaged").empty());
  REQUIRE(files::write_atomically(broken + ".Ab12Xy", "left over").empty());
  REQUIRE(files::write_atomically(directory.path + "/notes.txt", "mine").empty());
  CHECK(jit::cache_info().entries == 2);
  int valid = 0;
  for (const jit::CacheEntry& entry : jit::list_cache(true)) {
    if (entry.valid) {
      ++valid;
      CHECK(entry.kernel == "deepgemm_test_kernel");
    } else {
      CHECK(entry.problem == "it is not a cache entry");
    }
  }
  CHECK(valid == 1);
  CHECK(jit::list_cache(false).size() == 2);
  CHECK(jit::list_cache(false)[0].kernel == "deepgemm_test_kernel");
  CHECK(jit::clear_cache() == 3);
  CHECK(directory.files() == std::vector<std::string>{"notes.txt"});
}
