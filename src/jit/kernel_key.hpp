// What makes two compiles the same compile. Content only: no paths, no times, no source text, so
// that a cache directory can be moved, shared and shipped in an image.
#pragma once

#include <string>

#include "jit/kernel.hpp"

namespace deepgemm::jit {

struct CompilerVersion {
  int major = 0, minor = 0;
  friend auto operator<=>(const CompilerVersion&, const CompilerVersion&) = default;
};

// Raise it when the meaning of a key or of a cache file changes.
inline constexpr int cache_format_version = 1;

// 64 hex digits over everything but the compiler's version: name, config, digest of the device
// sources, options (with the architecture), NVRTC_APPEND_FLAGS, format version.
std::string family_key(const KernelSpec& spec);
// 64 hex digits over the family key and the compiler's version: the identity of one cubin.
std::string kernel_key(const std::string& family, CompilerVersion compiler);

}  // namespace deepgemm::jit
