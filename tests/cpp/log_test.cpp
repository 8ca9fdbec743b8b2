#include "core/log.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "test_tensors.hpp"

using namespace deepgemm;
using test::Environment;

namespace {
std::vector<std::string> received;
void sink(log::Level, std::string_view message) { received.emplace_back(message); }
}  // namespace

TEST_CASE("levels follow DEEPGEMM_LOG; without it, warnings, or all to a sink") {
  Environment unset("DEEPGEMM_LOG", nullptr);
  CHECK(log::enabled(log::Level::warning));
  CHECK_FALSE(log::enabled(log::Level::info));
  log::set_sink(sink);
  CHECK(log::enabled(log::Level::debug));
  for (auto [setting, enabled] :
       {std::pair{"off", 0}, {"warning", 1}, {"info", 2}, {"debug", 3}, {"nonsense", 1}}) {
    Environment set("DEEPGEMM_LOG", setting);
    CHECK(log::enabled(log::Level::warning) == (enabled >= 1));
    CHECK(log::enabled(log::Level::info) == (enabled >= 2));
    CHECK(log::enabled(log::Level::debug) == (enabled >= 3));
  }
  log::set_sink(nullptr);
}

TEST_CASE("a word that DEEPGEMM_LOG has not counts as not set, with one warning") {
  Environment set("DEEPGEMM_LOG", "verbose");
  log::set_sink(sink);
  received.clear();
  log::write(log::Level::info, "hidden");
  for (int i = 0; i < 3; ++i) log::write(log::Level::warning, "shown");
  log::set_sink(nullptr);
  const std::string refused =
      "DEEPGEMM_LOG: found \"verbose\", need off, warning, info or debug (environment variable); "
      "it "
      "counts as not set: warning";
  CHECK(received == std::vector<std::string>{refused, "shown", "shown", "shown"});
}

TEST_CASE("a sink gets the text; warn_once writes it once") {
  Environment unset("DEEPGEMM_LOG", nullptr);
  log::set_sink(sink);
  received.clear();
  log::write(log::Level::info, "hello");
  for (int i = 0; i < 3; ++i) log::warn_once("only once");
  log::set_sink(nullptr);
  CHECK(received == std::vector<std::string>{"hello", "only once"});
}
