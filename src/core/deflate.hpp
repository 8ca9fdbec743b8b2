// zlib's deflate for cubins that resemble one another: what a reference cubin already says is not
// said again. Without zlib at build time nothing is packed or unpacked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace deepgemm::deflate {

bool available() noexcept;  // built with zlib

// Raw deflate streams at the highest level, one after the other: with a `reference` (may be empty)
// one for every 8 KiB, each with the bytes around the same place of the reference as its
// dictionary. Why: deflate looks back 32 KiB, and cubins of neighbouring configs are 60 KiB that
// differ in a third.
std::string pack(std::string_view bytes, std::string_view reference, int level = 9);
// The `bytes` bytes that were packed with this reference; nothing if `packed` does not say exactly
// so many. That they are the right ones only a checksum can tell.
std::optional<std::string> unpack(std::string_view packed, std::size_t bytes,
                                  std::string_view reference);

// For finding damage; several times faster than SHA-256. 0 without zlib.
std::uint32_t crc32(std::string_view bytes, std::uint32_t before = 0) noexcept;

}  // namespace deepgemm::deflate
