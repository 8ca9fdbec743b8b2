// The device sources, compiled into the library by cmake/EmbedSources.cmake.
#pragma once

#include <span>
#include <string_view>

namespace deepgemm::jit {

struct EmbeddedSource {
  std::string_view include_name;  // relative to src/device, e.g. "ptx/wgmma.cuh"
  std::string_view text;          // followed by a NUL in memory
};

std::span<const EmbeddedSource> embedded_sources() noexcept;
// SHA-256 over all names and texts, 64 hex digits.
std::string_view embedded_sources_digest() noexcept;

}  // namespace deepgemm::jit
