#include <doctest/doctest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "backend/cpu/parallel.hpp"
#include "test_tensors.hpp"

using namespace deepgemm;
using test::Environment;

namespace {
constexpr std::int64_t heavy = INT64_MAX;  // a cost that is worth every thread
}

TEST_CASE("every index once, whatever the thread count") {
  for (const char* threads : {"1", "2", "3", "16"}) {
    Environment set("DEEPGEMM_CPU_THREADS", threads);
    for (std::int64_t count : {0, 1, 2, 5, 16, 17, 1000}) {
      std::vector<std::atomic<int>> visits(static_cast<std::size_t>(count));
      cpu::parallel_for(count, heavy, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) ++visits[static_cast<std::size_t>(i)];
      });
      for (const auto& visit : visits) REQUIRE(visit == 1);
    }
  }
}

TEST_CASE("small work stays on the caller's thread") {
  Environment set("DEEPGEMM_CPU_THREADS", "8");
  std::mutex mutex;
  std::set<std::thread::id> seen;
  auto note = [&](std::int64_t, std::int64_t) {
    std::lock_guard lock(mutex);
    seen.insert(std::this_thread::get_id());
  };
  cpu::parallel_for(100, 1, note);
  CHECK(seen == std::set<std::thread::id>{std::this_thread::get_id()});
}

TEST_CASE("an exception of any thread reaches the caller, after all have ended") {
  Environment set("DEEPGEMM_CPU_THREADS", "4");
  std::atomic<int> ended = 0;
  auto body = [&](std::int64_t begin, std::int64_t) {
    ++ended;
    if (begin != 0) throw std::runtime_error("from a worker");
  };
  CHECK_THROWS_WITH(cpu::parallel_for(4, heavy, body), "from a worker");
  CHECK(ended == 4);
}

TEST_CASE("thread_count") {
  Environment unset("DEEPGEMM_CPU_THREADS", nullptr);
  const int usual = cpu::thread_count();
  CHECK(usual >= 1);
  Environment set("DEEPGEMM_CPU_THREADS", "3");
  CHECK(cpu::thread_count() == 3);
  for (const char* bad : {"0", "-1", "many"}) {
    Environment wrong("DEEPGEMM_CPU_THREADS", bad);
    CHECK(cpu::thread_count() == usual);  // and a warning
  }
}
