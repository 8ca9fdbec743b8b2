// Descriptors as the driver is asked for them (by the fake driver), and every rule that can break.
#include "deepgemm/tma.hpp"

#include <doctest/doctest.h>

#include "deepgemm/error.hpp"
#include "fake_driver/fake_driver.hpp"

using namespace deepgemm;
using tma::Swizzle;
using tma::Tile;

namespace {

constexpr std::uintptr_t base = 0x7f0000000000;

TensorView view_of(DType dtype, std::initializer_list<std::int64_t> shape,
                   std::uintptr_t address = base) {
  return make_view(reinterpret_cast<void*>(address), dtype, shape, {DeviceKind::cuda, 0});
}

const fake::TensorMapCall& encoded(const TensorView& view, const Tile& tile, Swizzle swizzle,
                                   tma::L2Promotion promotion = tma::L2Promotion::b256) {
  static fake::CudaState& state = fake::use_fake_driver();
  const tma::Descriptor descriptor = tma::make_descriptor(view, tile, swizzle, promotion);
  CHECK(descriptor.opaque[15] == 0x5a5a5a5a5a5a5a5a);
  return state.tensor_maps.back();
}

using Extents = std::vector<std::uint64_t>;
using Box = std::vector<std::uint32_t>;

}  // namespace

TEST_CASE("an FP8 operand") {
  const auto& call =
      encoded(view_of(DType::float8_e4m3fn, {4096, 7168}), {128, 128}, Swizzle::b128);
  CHECK(call.type == CU_TENSOR_MAP_DATA_TYPE_UINT8);
  CHECK(call.rank == 2);
  CHECK(call.address == reinterpret_cast<void*>(base));
  CHECK(call.extents == Extents{7168, 4096});
  CHECK(call.pitches_bytes == Extents{7168});
  CHECK(call.box == Box{128, 128});
  CHECK(call.element_strides == Box{1, 1});
  CHECK(call.interleave == CU_TENSOR_MAP_INTERLEAVE_NONE);
  CHECK(call.swizzle == CU_TENSOR_MAP_SWIZZLE_128B);
  CHECK(call.promotion == CU_TENSOR_MAP_L2_PROMOTION_L2_256B);
  CHECK(call.fill == CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

TEST_CASE("a BF16 result, a slice of a wider tensor") {
  TensorView view = view_of(DType::bfloat16, {100, 576});
  view.strides[0] = 4096;
  const auto& call = encoded(view, {64, 32}, Swizzle::b64, tma::L2Promotion::none);
  CHECK(call.type == CU_TENSOR_MAP_DATA_TYPE_BFLOAT16);
  CHECK(call.extents == Extents{576, 100});
  CHECK(call.pitches_bytes == Extents{8192});
  CHECK(call.box == Box{32, 64});
  CHECK(call.swizzle == CU_TENSOR_MAP_SWIZZLE_64B);
  CHECK(call.promotion == CU_TENSOR_MAP_L2_PROMOTION_NONE);
}

TEST_CASE("an FP32 scale map, unswizzled") {
  const auto& call = encoded(view_of(DType::float32, {56, 4096}), {1, 128}, Swizzle::none);
  CHECK(call.type == CU_TENSOR_MAP_DATA_TYPE_FLOAT32);
  CHECK(call.extents == Extents{4096, 56});
  CHECK(call.pitches_bytes == Extents{16384});
  CHECK(call.box == Box{128, 1});
  CHECK(call.swizzle == CU_TENSOR_MAP_SWIZZLE_NONE);
}

TEST_CASE("grouped weights have rank 3, innermost first") {
  const auto& call =
      encoded(view_of(DType::float8_e5m2, {8, 2048, 512}), {1, 256, 32}, Swizzle::b32);
  CHECK(call.rank == 3);
  CHECK(call.extents == Extents{512, 2048, 8});
  CHECK(call.pitches_bytes == Extents{512, 512 * 2048});
  CHECK(call.box == Box{32, 256, 1});
}

TEST_CASE("the stride of a dimension of extent 1 means nothing") {
  TensorView view = view_of(DType::bfloat16, {1, 1, 40});
  view.strides = {-7, 3, 1};
  const auto& call = encoded(view, {1, 1, 64}, Swizzle::b128);
  CHECK(call.pitches_bytes == Extents{80, 80});
  TensorView column = view_of(DType::bfloat16, {16, 1});
  column.strides = {8, 99};
  CHECK(encoded(column, {16, 8}, Swizzle::none).pitches_bytes == Extents{16});
}

TEST_CASE("a broadcast dimension has pitch 0, a vector no pitch") {
  TensorView view = view_of(DType::float32, {128, 64});
  view.strides[0] = 0;
  CHECK(encoded(view, {64, 32}, Swizzle::b128).pitches_bytes == Extents{0});
  const auto& vector = encoded(view_of(DType::float32, {128}), {64}, Swizzle::none);
  CHECK(vector.rank == 1);
  CHECK(vector.pitches_bytes.empty());
  CHECK(vector.box == Box{64});
}

TEST_CASE("every dtype has a type code") {
  const std::pair<DType, CUtensorMapDataType> cases[] = {
      {DType::float8_e8m0fnu, CU_TENSOR_MAP_DATA_TYPE_UINT8},
      {DType::float16, CU_TENSOR_MAP_DATA_TYPE_FLOAT16},
      {DType::float64, CU_TENSOR_MAP_DATA_TYPE_FLOAT64},
      {DType::uint8, CU_TENSOR_MAP_DATA_TYPE_UINT8},
      {DType::int8, CU_TENSOR_MAP_DATA_TYPE_UINT8},
      {DType::uint16, CU_TENSOR_MAP_DATA_TYPE_UINT16},
      {DType::int16, CU_TENSOR_MAP_DATA_TYPE_UINT16},
      {DType::int32, CU_TENSOR_MAP_DATA_TYPE_INT32},
      {DType::int64, CU_TENSOR_MAP_DATA_TYPE_INT64},
  };
  for (const auto& [dtype, type] : cases) {
    CHECK(encoded(view_of(dtype, {64, 64}), {16, 16}, Swizzle::none).type == type);
  }
}

TEST_CASE("each broken rule is named with its value") {
  const TensorView good = view_of(DType::bfloat16, {64, 64});
  const Tile tile{64, 64};
  CHECK(tma::broken_rule(good, tile, Swizzle::b128).empty());

  TensorView view = good;
  view.rank = 0;
  CHECK(tma::broken_rule(view, tile, Swizzle::b128) == "rank is 0, must be 1 to 4");
  view = good;
  view.shape[0] = 0;
  CHECK(tma::broken_rule(view, tile, Swizzle::b128) ==
        "extent of dimension 0 is 0, must be 1 to 2^32");
  view.shape[0] = (std::int64_t{1} << 32) + 1;
  CHECK(tma::broken_rule(view, tile, Swizzle::b128) ==
        "extent of dimension 0 is 4294967297, must be 1 to 2^32");
  view = good;
  view.strides = {1, 64};
  CHECK(tma::broken_rule(view, tile, Swizzle::b128) ==
        "stride of the last dimension is 64, must be 1 (contiguous)");
  view = good;
  view.strides[0] = 65;
  CHECK(tma::broken_rule(view, tile, Swizzle::b128) ==
        "row pitch is 130 bytes, must be a multiple of 16");
  view.strides[0] = -64;
  CHECK(tma::broken_rule(view, tile, Swizzle::b128) ==
        "row pitch is -64 elements, must be from 0 to below 2^40 bytes");
  view.strides[0] = std::int64_t{1} << 39;
  CHECK(tma::broken_rule(view, tile, Swizzle::b128) ==
        "row pitch is 549755813888 elements, must be from 0 to below 2^40 bytes");
  view = good;
  view.data = reinterpret_cast<void*>(base + 8);
  CHECK(tma::broken_rule(view, tile, Swizzle::b128) ==
        "address is 8 bytes past a multiple of 16, must be 16-byte aligned");
}

TEST_CASE("each broken rule of the box is named") {
  const TensorView view = view_of(DType::bfloat16, {64, 64});
  CHECK(tma::broken_rule(view, {257, 64}, Swizzle::b128) ==
        "tile extent of dimension 0 is 257, must be 1 to 256");
  CHECK(tma::broken_rule(view, {0, 64}, Swizzle::b128) ==
        "tile extent of dimension 0 is 0, must be 1 to 256");
  CHECK(tma::broken_rule(view, {64, 4}, Swizzle::none) ==
        "tile row is 8 bytes, must be a multiple of 16");
  CHECK(tma::broken_rule(view, {64, 128}, Swizzle::b128) ==
        "tile row is 256 bytes, must be at most the swizzle's 128 bytes");
  CHECK(tma::broken_rule(view, {64, 64}, Swizzle::b64) ==
        "tile row is 128 bytes, must be at most the swizzle's 64 bytes");
  CHECK(tma::broken_rule(view, {64, 24}, Swizzle::b32) ==
        "tile row is 48 bytes, must be at most the swizzle's 32 bytes");
  CHECK(tma::broken_rule(view, {64, 128}, Swizzle::none).empty());
  const TensorView wide = view_of(DType::float32, {512, 512});
  CHECK(tma::broken_rule(wide, {228, 256}, Swizzle::none).empty());
  CHECK(tma::broken_rule(wide, {229, 256}, Swizzle::none) ==
        "tile is 234496 bytes, must be at most an SM's shared memory of 233472 bytes");
}

TEST_CASE("null data counts as aligned") {
  CHECK(tma::broken_rule(view_of(DType::bfloat16, {64, 64}, 0), {64, 64}, Swizzle::b128).empty());
}

TEST_CASE("the outer pitch has the dimension in its name") {
  TensorView view = view_of(DType::uint8, {2, 3, 64});
  view.strides[0] = 200;
  CHECK(tma::broken_rule(view, {1, 1, 64}, Swizzle::none) ==
        "pitch of dimension 0 is 200 bytes, must be a multiple of 16");
}

TEST_CASE("the error names operand, value, rule and tensor") {
  fake::use_fake_driver();
  const TensorView view = view_of(DType::bfloat16, {64, 65});
  try {
    tma::make_descriptor(view, {64, 64}, Swizzle::b128, tma::L2Promotion::b256, "weights");
    FAIL("no exception");
  } catch (const ValueError& error) {
    CHECK(std::string(error.what()) ==
          "weights: found row pitch of 130 bytes, need a multiple of 16 (TMA of " + describe(view) +
              ")");
  }
}

TEST_CASE("a refusal of the driver is a DriverError") {
  fake::CudaState& state = fake::use_fake_driver();
  state.fail("cuTensorMapEncodeTiled", CUDA_ERROR_INVALID_VALUE);
  CHECK_THROWS_AS(tma::make_descriptor(view_of(DType::bfloat16, {64, 64}), {64, 64}, Swizzle::b128),
                  DriverError);
  state.heal();
}
