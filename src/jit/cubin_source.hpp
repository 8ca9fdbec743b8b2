// Where a cubin comes from when it is not in memory: bundle, disk, compiler. Counts what happened.
#pragma once

#include <atomic>
#include <cstddef>

#include "jit/kernel.hpp"

namespace deepgemm::jit {

struct Counters {
  std::atomic<std::size_t> loaded{0}, compiled{0}, disk_hits{0}, bundle_hits{0};
};
Counters& counters() noexcept;

// Throws CompileError, or Error in strict mode if it would have to compile. `recompile` passes the
// stored cubins by and replaces the one on disk: for a cubin that the driver refused.
Cubin find_cubin(const KernelSpec& spec, bool recompile = false);

}  // namespace deepgemm::jit
