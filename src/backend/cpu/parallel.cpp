#include "backend/cpu/parallel.hpp"

#include <algorithm>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "core/env.hpp"
#include "core/math.hpp"

namespace deepgemm::cpu {
namespace {

// Why: starting a thread costs some 20 us, about as long as this many steps take.
constexpr std::int64_t steps_worth_a_thread = 200'000;

}  // namespace

int thread_count() {
  const std::int64_t found = std::max<std::int64_t>(std::thread::hardware_concurrency(), 1);
  const std::int64_t wanted = env::integer("DEEPGEMM_CPU_THREADS", 1, found);
  return static_cast<int>(std::min<std::int64_t>(wanted, 256));
}

void parallel_for(std::int64_t count, std::int64_t cost,
                  const std::function<void(std::int64_t, std::int64_t)>& body) {
  if (count <= 0) return;
  std::int64_t worthwhile = product_or_max({count, cost}) / steps_worth_a_thread;
  std::int64_t threads = std::clamp<std::int64_t>(std::min(count, worthwhile), 1, thread_count());
  std::int64_t share = ceil_div(count, threads);

  std::mutex mutex;
  std::exception_ptr failure;
  auto run = [&](std::int64_t begin, std::int64_t end) noexcept {
    try {
      body(begin, end);
    } catch (...) {
      std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
    }
  };
  std::vector<std::thread> workers;
  workers.reserve(static_cast<std::size_t>(threads));
  for (std::int64_t begin = share; begin < count; begin += share) {
    std::int64_t end = std::min(begin + share, count);
    try {
      workers.emplace_back(run, begin, end);
    } catch (const std::exception&) {
      run(begin, end);  // no more threads, or no memory for one: do it here
    }
  }
  run(0, std::min(share, count));
  for (std::thread& worker : workers) worker.join();
  if (failure) std::rethrow_exception(failure);
}

}  // namespace deepgemm::cpu
