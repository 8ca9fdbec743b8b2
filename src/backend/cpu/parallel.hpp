// Splits a loop over a few threads that live no longer than the call.
#pragma once

#include <cstdint>
#include <functional>

namespace deepgemm::cpu {

// DEEPGEMM_CPU_THREADS, else the hardware's. At least 1.
int thread_count();

// Calls body(begin, end) with ranges that cover [0, count), from several threads if there is work
// enough: `cost` is a rough number of elementary steps per index. Returns when all have ended;
// rethrows the first exception. Callers must not let results depend on where the ranges begin.
void parallel_for(std::int64_t count, std::int64_t cost,
                  const std::function<void(std::int64_t begin, std::int64_t end)>& body);

}  // namespace deepgemm::cpu
