// The file of a bundle, little-endian:
//   BundleHeader
//   BundleRecord x kernels   sorted by family
//   the packed cubins
// Header and records are guarded by a CRC-32, each cubin by its SHA-256. Packing: core/deflate.hpp,
// with the cubin of another record as the reference.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace deepgemm::jit {

inline constexpr std::string_view bundle_magic = "deepgemm-bundle\n";
// Raise it when the meaning of anything here changes.
inline constexpr std::uint32_t bundle_format_version = 1;
inline constexpr std::uint32_t no_reference = 0xffffffff;

using Digest = std::array<unsigned char, 32>;

struct BundleHeader {
  char magic[16];
  std::uint32_t format;
  std::uint32_t kernels;
  std::uint64_t bytes;  // of the whole file
  std::uint32_t compiler_major, compiler_minor;
  Digest sources;       // of src/device
  std::uint32_t crc32;  // of the header with 0 here, and of the records
  std::uint32_t unused;
};
static_assert(sizeof(BundleHeader) == 80);

struct BundleRecord {
  Digest family;
  Digest checksum;       // of the cubin
  std::uint64_t offset;  // of the packed cubin, from the file's start
  std::uint32_t packed_bytes, cubin_bytes;
  std::uint32_t reference;  // number of the record it is packed against, which has none itself
  std::uint32_t unused;
};
static_assert(sizeof(BundleRecord) == 88);

}  // namespace deepgemm::jit
