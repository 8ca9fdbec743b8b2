#include "core/env.hpp"

#include <doctest/doctest.h>

#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/log.hpp"
#include "test_tensors.hpp"

using namespace deepgemm;
using test::Environment;

namespace {

std::vector<std::string> warnings;

// The one warning that `body` makes; empty if it makes another number of them.
template <class Body>
std::string warning_of(Body&& body) {
  warnings.clear();
  log::set_sink([](log::Level level, std::string_view text) {
    if (level == log::Level::warning) warnings.emplace_back(text);
  });
  body();
  log::set_sink(nullptr);
  return warnings.size() == 1 ? warnings.front() : std::string();
}

}  // namespace

TEST_CASE("the table lists each setting once, with its words") {
  std::set<std::string_view> seen;
  for (const env::Setting& setting : env::settings()) {
    CHECK(setting.variable.starts_with("DEEPGEMM_"));
    CHECK(seen.insert(setting.variable).second);
    CHECK_FALSE(setting.type.empty());
    CHECK_FALSE(setting.fallback.empty());
    CHECK_FALSE(setting.meaning.empty());
  }
  for (const char* name :
       {"DEEPGEMM_CACHE_DIR", "DEEPGEMM_NVRTC_PATH", "DEEPGEMM_CUDA_DRIVER_PATH", "DEEPGEMM_LOG",
        "DEEPGEMM_STRICT_JIT", "DEEPGEMM_CACHE_MAX_BYTES", "DEEPGEMM_BUNDLE",
        "DEEPGEMM_CHECK_GROUPS", "DEEPGEMM_DUMP", "DEEPGEMM_CPU_THREADS"}) {
    CHECK(seen.count(name) == 1);
  }
}

TEST_CASE("text is read at use, and empty counts as unset") {
  Environment unset("DEEPGEMM_DUMP", nullptr);
  CHECK_FALSE(env::text("DEEPGEMM_DUMP"));
  {
    Environment set("DEEPGEMM_DUMP", "/somewhere");
    CHECK(env::text("DEEPGEMM_DUMP").value() == "/somewhere");
  }
  Environment empty("DEEPGEMM_DUMP", "");
  CHECK_FALSE(env::text("DEEPGEMM_DUMP"));
}

TEST_CASE("a setting outside the table is a mistake of ours") {
  CHECK_THROWS_AS(env::text("DEEPGEMM_NOT_IN_TABLE"), std::logic_error);
}

TEST_CASE("flag") {
  for (const char* word : {"1", "true", "YES", "On"}) {
    Environment set("DEEPGEMM_STRICT_JIT", word);
    CHECK(env::flag("DEEPGEMM_STRICT_JIT", false));
  }
  for (const char* word : {"0", "False", "no", "off"}) {
    Environment set("DEEPGEMM_STRICT_JIT", word);
    CHECK_FALSE(env::flag("DEEPGEMM_STRICT_JIT", true));
  }
  Environment unset("DEEPGEMM_STRICT_JIT", nullptr);
  CHECK(env::flag("DEEPGEMM_STRICT_JIT", true));
  Environment bad("DEEPGEMM_STRICT_JIT", "maybe");
  CHECK(warning_of([] {
          CHECK(env::flag("DEEPGEMM_STRICT_JIT", true));
          CHECK_FALSE(env::flag("DEEPGEMM_STRICT_JIT", false));
        }) ==
        "DEEPGEMM_STRICT_JIT: found \"maybe\", need 1/true/yes/on or 0/false/no/off (environment "
        "variable); it counts as not set: false");
}

TEST_CASE("integer") {
  Environment unset("DEEPGEMM_CPU_THREADS", nullptr);
  const auto threads = [] { return env::integer("DEEPGEMM_CPU_THREADS", 1, 5); };
  CHECK(threads() == 5);
  Environment set("DEEPGEMM_CPU_THREADS", "12");
  CHECK(threads() == 12);
  for (const char* word : {"12x", "x", "1.5", "0", "-1", "99999999999999999999"}) {
    Environment bad("DEEPGEMM_CPU_THREADS", word);
    const std::string warning = warning_of([&] { CHECK(threads() == 5); });
    CHECK(test::contains(warning, "DEEPGEMM_CPU_THREADS: found \""));
    CHECK(test::contains(warning, "need a whole number of 1 or more"));
  }
}

TEST_CASE("foreign") {
  Environment set("XDG_CACHE_HOME", "/cache");
  CHECK(env::foreign("XDG_CACHE_HOME").value() == "/cache");
  Environment empty("XDG_CACHE_HOME", "");
  CHECK_FALSE(env::foreign("XDG_CACHE_HOME"));
}

TEST_CASE("sizes have units of powers of 1024") {
  const auto bytes = [](const char* value) {
    const Environment set("DEEPGEMM_CACHE_MAX_BYTES", value);
    return env::bytes("DEEPGEMM_CACHE_MAX_BYTES", 7);
  };
  CHECK(bytes(nullptr) == 7);
  CHECK(bytes("") == 7);
  CHECK(bytes("0") == 0);
  CHECK(bytes("1000") == 1000);
  CHECK(bytes("1000B") == 1000);
  for (const char* text : {"3k", "3K", "3KB", "3KiB", "3kib"}) CHECK(bytes(text) == 3 << 10);
  CHECK(bytes("512M") == std::uint64_t{512} << 20);
  CHECK(bytes("2G") == std::uint64_t{2} << 30);
  CHECK(bytes("16777215T") == std::uint64_t{16777215} << 40);
  for (const char* text : {"M", "-1", "+1", "1.5G", "1 G", "1X", "1Gx", "1GG", "16777216T", " 1",
                           "99999999999999999999", "ib", "1ib"}) {
    const std::string warning = warning_of([&] { CHECK(bytes(text) == 7); });
    CHECK(test::contains(warning, "DEEPGEMM_CACHE_MAX_BYTES: found \""));
    CHECK(test::contains(warning, "it counts as not set: 1G"));
  }
}
