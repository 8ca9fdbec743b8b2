// Where a cubin comes from when it is not in memory: bundle, disk, compiler. Counts what happened.
#pragma once

#include <atomic>
#include <cstddef>
#include <optional>

#include "jit/kernel.hpp"

namespace deepgemm::jit {

struct Counters {
  std::atomic<std::size_t> loaded{0}, compiled{0}, disk_hits{0}, bundle_hits{0};
};
Counters& counters() noexcept;

// Throws CompileError, or Error in strict mode if it would have to compile. `refused`: where the
// cubin came from that the driver does not take; it and what comes before it are passed by.
Cubin find_cubin(const KernelSpec& spec, std::optional<Origin> refused = {});

// From the disk cache, or compiled and stored there: never from a bundle, since this is what a
// bundle is made of. Needs NVRTC, and ignores strict mode. Throws CompileError.
Cubin compile_for_bundle(const KernelSpec& spec);

}  // namespace deepgemm::jit
