// What the model's cuTensorMapEncodeTiled leaves in the 128 opaque bytes.
#pragma once

#include <cstdint>

namespace sm90 {

struct TensorMapBytes {
  std::uint64_t magic;
  std::uint8_t* address;
  std::uint64_t pitches[4];  // bytes, of dimensions 1..
  std::uint32_t extents[5];  // in elements; extents of 2^32 are not modelled
  std::uint16_t box[5];
  std::uint8_t rank, element_bytes, swizzle_span, is_float;
};
inline constexpr std::uint64_t tensor_map_magic = 0x5439304D4F44454C;
static_assert(sizeof(TensorMapBytes) <= 128);

}  // namespace sm90
