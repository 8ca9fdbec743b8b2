// SHA-256 for cache keys and file checksums; a fast 64-bit hash for tables in memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace deepgemm {

std::array<unsigned char, 32> sha256(std::string_view bytes) noexcept;
std::string sha256_hex(std::string_view bytes);
// By words, with a final mix. Not for anything that outlives the process.
std::uint64_t hash_bytes(const void* data, std::size_t bytes) noexcept;

}  // namespace deepgemm
