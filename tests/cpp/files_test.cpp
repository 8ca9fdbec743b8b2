#include "core/files.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <string>
#include <thread>
#include <vector>

#include "test_tensors.hpp"

using namespace deepgemm;

namespace {

// A fresh directory, removed with what is in it.
struct Scratch {
  std::string path = "/tmp/deepgemm-files-test.XXXXXX";
  Scratch() { REQUIRE(::mkdtemp(path.data()) != nullptr); }
  ~Scratch() {
    ::chmod(path.c_str(), 0700);
    std::system(("rm -rf " + path).c_str());
  }
};

}  // namespace

TEST_CASE("what is written is read back, bytes and all") {
  Scratch scratch;
  std::string path = scratch.path + "/file";
  std::string bytes(200000, 'x');
  bytes[5] = '\0';
  CHECK(files::write_atomically(path, bytes).empty());
  CHECK(files::read(path).value() == bytes);
  struct stat info{};
  REQUIRE(::stat(path.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);
  CHECK(files::write_atomically(path, "", 0644).empty());  // replaces
  REQUIRE(::stat(path.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0644);
  CHECK(files::read(path).value().empty());
  CHECK(files::list(scratch.path, "") == std::vector<std::string>{"file"});  // no temporary left
  CHECK(files::remove(path));
  CHECK_FALSE(files::remove(path));
  CHECK_FALSE(files::read(path));
  CHECK_FALSE(files::read(scratch.path));  // a directory
}

TEST_CASE("what is no file of a sensible size is not read, and does not block") {
  Scratch scratch;
  const std::string path = scratch.path + "/file";
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  CHECK_FALSE(files::read(path));
  CHECK(files::remove(path));
  REQUIRE(::symlink("/dev/zero", path.c_str()) == 0);
  CHECK_FALSE(files::read(path));
  CHECK(files::remove(path));
  CHECK(files::write_atomically(path, "x").empty());
  REQUIRE(::truncate(path.c_str(), off_t{1} << 40) == 0);  // sparse
  CHECK_FALSE(files::read(path));
  REQUIRE(::truncate(path.c_str(), 5) == 0);
  CHECK(files::read(path).value().size() == 5);
}

TEST_CASE("whether a directory can be written is tried, and leaves nothing") {
  Scratch scratch;
  CHECK(files::why_not_writable(scratch.path).empty());
  CHECK(files::why_not_writable(scratch.path + "/not/there/yet").empty());
  CHECK(files::list(scratch.path, "").empty());
  CHECK_FALSE(files::why_not_writable("/proc/deepgemm").empty());
  CHECK(files::write_atomically(scratch.path + "/file", "x").empty());
  CHECK(test::contains(files::why_not_writable(scratch.path + "/file/below"), "no directory"));
}

TEST_CASE("concurrent writers leave one whole file") {
  Scratch scratch;
  std::string path = scratch.path + "/file";
  std::vector<std::thread> threads;
  for (char c = 'a'; c < 'e'; ++c) {
    threads.emplace_back([&, c] {
      for (int i = 0; i < 20; ++i) files::write_atomically(path, std::string(50000, c));
    });
  }
  for (int i = 0; i < 200; ++i) {
    std::optional<std::string> bytes = files::read(path);
    if (bytes) REQUIRE(*bytes == std::string(50000, bytes->at(0)));
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(files::list(scratch.path, "").size() == 1);
}

TEST_CASE("failures are reasons, and leave nothing behind") {
  Scratch scratch;
  std::string missing = files::write_atomically(scratch.path + "/no/file", "x");
  CHECK(test::contains(missing, "cannot create"));
  CHECK(test::contains(missing, "/no/file"));
  // A directory in the place of the file: the rename fails, the temporary goes.
  REQUIRE(files::make_directories(scratch.path + "/taken/inside").empty());
  CHECK(test::contains(files::write_atomically(scratch.path + "/taken", "x"), "cannot write"));
  CHECK(files::list(scratch.path, "") == std::vector<std::string>{"taken"});
  CHECK(files::list(scratch.path + "/no", "").empty());
}

TEST_CASE("an unwritable directory is a reason") {
  Scratch scratch;
  ::chmod(scratch.path.c_str(), 0500);
  if (::geteuid() != 0) {  // root may write everywhere
    CHECK(test::contains(files::write_atomically(scratch.path + "/file", "x"), "ermission"));
    CHECK_FALSE(files::make_directories(scratch.path + "/sub").empty());
  }
  CHECK_FALSE(files::write_atomically("/proc/deepgemm", "x").empty());
  CHECK_FALSE(files::make_directories("/proc/deepgemm/sub").empty());
}

TEST_CASE("make_directories makes parents, private ones, and is content with what is there") {
  Scratch scratch;
  std::string path = scratch.path + "/a/b/c";
  CHECK(files::make_directories(path).empty());
  CHECK(files::make_directories(path + "/").empty());
  struct stat info{};
  REQUIRE(::stat((scratch.path + "/a/b").c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0700);
  REQUIRE(files::write_atomically(scratch.path + "/file", "x").empty());
  CHECK(test::contains(files::make_directories(scratch.path + "/file/sub"), "/file"));
  CHECK_FALSE(files::make_directories("").empty());
}

TEST_CASE("a private directory is ours and closed to others") {
  Scratch scratch;
  CHECK(files::why_not_private(scratch.path).empty());
  ::chmod(scratch.path.c_str(), 0755);
  CHECK(files::why_not_private(scratch.path).empty());
  ::chmod(scratch.path.c_str(), 0770);
  CHECK(test::contains(files::why_not_private(scratch.path), "other users"));
  ::chmod(scratch.path.c_str(), 0702);
  CHECK(test::contains(files::why_not_private(scratch.path), "other users"));
  CHECK(test::contains(files::why_not_private(scratch.path + "/no"), "cannot look at"));
  CHECK(test::contains(files::why_not_private("/tmp"), "other users"));
  if (::geteuid() == 0) {  // only root can give a directory away
    ::chmod(scratch.path.c_str(), 0700);
    REQUIRE(::chown(scratch.path.c_str(), 12345, 12345) == 0);
    CHECK(test::contains(files::why_not_private(scratch.path), "belongs to user 12345"));
    REQUIRE(::chown(scratch.path.c_str(), 0, 0) == 0);
    std::string link = scratch.path + "/link";
    REQUIRE(::symlink(scratch.path.c_str(), link.c_str()) == 0);
    CHECK(files::why_not_private(link).empty());
    REQUIRE(::lchown(link.c_str(), 12345, 12345) == 0);
    CHECK(test::contains(files::why_not_private(link), "belongs to user 12345"));
  }
}

TEST_CASE("list filters by suffix and sorts") {
  Scratch scratch;
  for (const char* name : {"b.cubin", "a.cubin", "c.txt"}) {
    REQUIRE(files::write_atomically(scratch.path + "/" + name, "x").empty());
  }
  CHECK(files::list(scratch.path, ".cubin") == std::vector<std::string>{"a.cubin", "b.cubin"});
}

TEST_CASE("what several threads append does not mix; a full disk is told") {
  Scratch scratch;
  const std::string path = scratch.path + "/lines";
  std::vector<std::thread> threads;
  for (char letter : {'a', 'b', 'c', 'd'}) {
    threads.emplace_back([&, letter] {
      const std::string line = std::string(300, letter) + "\n";
      for (int i = 0; i < 50; ++i) CHECK(files::append(path, line).empty());
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::string text = files::read(path).value();
  REQUIRE(text.size() == 4 * 50 * 301);
  for (std::size_t i = 0; i < text.size(); i += 301)
    CHECK(text.substr(i, 301) == std::string(300, text[i]) + "\n");
  CHECK(files::append("/dev/full", "x") == "cannot write /dev/full: No space left on device");
  CHECK(files::append(scratch.path + "/no/such", "x").starts_with("cannot open "));
}

TEST_CASE("the status is that of the name: size, time of the last change, no link followed") {
  Scratch scratch;
  const std::string path = scratch.path + "/file", link = scratch.path + "/link";
  REQUIRE(files::write_atomically(path, "12345").empty());
  REQUIRE(::symlink(path.c_str(), link.c_str()) == 0);
  CHECK(files::status(path)->bytes == 5);
  CHECK(files::status(link)->bytes == path.size());
  CHECK(std::abs(files::now() - files::status(path)->modified) < std::int64_t{60'000'000'000});
  CHECK_FALSE(files::status(scratch.path).has_value());
  CHECK_FALSE(files::status(scratch.path + "/nothing").has_value());
}

TEST_CASE("touch sets the time of the name itself, whatever it was") {
  Scratch scratch;
  const std::string path = scratch.path + "/file", link = scratch.path + "/link";
  REQUIRE(files::write_atomically(path, "12345").empty());
  REQUIRE(::symlink(path.c_str(), link.c_str()) == 0);
  for (const std::time_t when : {std::time_t{0}, std::time_t{1} << 33, std::time_t{-1} << 30}) {
    const timespec times[2] = {{when, 500}, {when, 500}};
    for (const std::string& name : {path, link}) {
      REQUIRE(::utimensat(AT_FDCWD, name.c_str(), times, AT_SYMLINK_NOFOLLOW) == 0);
    }
    CHECK(files::status(path)->modified == std::int64_t{when} * 1'000'000'000 + 500);
    CHECK(files::touch(link));
    CHECK(files::status(path)->modified == std::int64_t{when} * 1'000'000'000 + 500);
    CHECK(files::touch(path));
    CHECK(files::now() - files::status(path)->modified < std::int64_t{60'000'000'000});
  }
  CHECK_FALSE(files::touch(scratch.path + "/nothing"));
}
