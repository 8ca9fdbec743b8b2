// What the scale layouts launch, against the fake driver and the fake NVRTC.
#include <doctest/doctest.h>

#include "deepgemm/scale_layout.hpp"
#include "device/common/gemm_params.cuh"
#include "fake_driver/fake_driver.hpp"
#include "jit_fixture.hpp"
#include "planned_product.hpp"

using namespace deepgemm;
using device::ScaleWork;
using test::PlannedProduct;

namespace {

device::ScaleLayoutParams seen;

struct Launch {
  device::ScaleLayoutParams params;
  unsigned grid;
  std::size_t count;  // launches of the call
};

// Makes the call and returns what reached the driver.
template <class Call>
Launch launched(Call&& call) {
  testing::use_fake_nvrtc();
  fake::CudaState& state = fake::use_fake_driver();
  const std::size_t before = state.launches.size();
  state.on_launch = [](const fake::LaunchCall& launch) {
    seen = *static_cast<const device::ScaleLayoutParams*>(launch.parameters);
  };
  call();
  state.on_launch = nullptr;
  return {seen, state.launches.back().grid, state.launches.size() - before};
}

TensorView vector(std::int64_t extent) {
  TensorView view = PlannedProduct::view(9, DType::int32, 1, extent);
  view.rank = 1;
  view.shape = {extent};
  view.strides = {1};
  return view;
}

TensorView turned(TensorView view) {
  view.strides[0] = 1;
  view.strides[1] = fast_scale_pitch(view.shape[0]);
  return view;
}

}  // namespace

TEST_CASE("a copy is one launch with a CTA for each tile, and knows neighbours in memory") {
  testing::CacheDirectory directory;
  const TensorView sf = PlannedProduct::view(1, DType::float32, 130, 56);
  const TensorView out = turned(PlannedProduct::view(2, DType::float32, 130, 56));
  const Launch launch = launched([&] { copy_scales(sf, out); });
  CHECK(launch.count == 1);
  CHECK(launch.grid == 3 * 2);
  CHECK(launch.params.work == ScaleWork::copy);
  CHECK(launch.params.in_by_rows == 0);
  CHECK(launch.params.out_by_rows == 1);
  CHECK(launch.params.in_row == 56);
  CHECK(launch.params.out_column == 132);
  CHECK(launched([&] { copy_scales(sf, out, {.num_sms = 4}); }).grid == 4);
  const TensorView tall = PlannedProduct::view(1, DType::float32, 1 << 20, 56);
  const TensorView fast = turned(PlannedProduct::view(2, DType::float32, 1 << 20, 56));
  CHECK(launched([&] { copy_scales(tall, fast); }).grid == 132 * 16);
}

TEST_CASE("packing is one launch, of groups too") {
  testing::CacheDirectory directory;
  const TensorView sf = PlannedProduct::view(1, DType::float32, 100, 33);
  const TensorView packed = turned(PlannedProduct::view(2, DType::int32, 100, 9));
  PackGroups none, rows, k;
  rows.rows = RowEnds{vector(3), 128};
  k.k = KSizes{vector(5), 64};
  const Launch dense = launched([&] { pack_ue8m0(sf, packed, none); });
  CHECK(dense.count == 1);
  CHECK(dense.grid == 2 * 2);
  CHECK(dense.params.work == ScaleWork::pack);
  CHECK(dense.params.vector.groups == 0);
  const Launch by_rows = launched([&] { pack_ue8m0(sf, packed, rows); });
  CHECK(by_rows.count == 1);
  CHECK(by_rows.params.work == ScaleWork::pack);
  CHECK(by_rows.params.vector.groups == 3);
  CHECK(by_rows.params.vector.rows == 100);
  CHECK(by_rows.params.vector.alignment == 128);
  const TensorView wide = turned(PlannedProduct::view(2, DType::int32, 100, 13));
  const Launch along_k = launched([&] { pack_ue8m0(sf, wide, k); });
  CHECK(along_k.count == 1);
  CHECK(along_k.params.work == ScaleWork::pack_groups);
  CHECK(along_k.params.vector.groups == 5);
  CHECK(along_k.params.k_per_scale == 64);
  CHECK(launched([&] { unpack_ue8m0(packed, sf); }).params.work == ScaleWork::unpack);
  CHECK(launched([&] { unpack_ue8m0(wide, sf, k.k); }).params.work == ScaleWork::unpack_groups);
}

TEST_CASE("groups of more rows than 32 bits count are refused on a GPU, rows alone are not") {
  testing::CacheDirectory directory;
  const std::int64_t huge = std::int64_t{1} << 33;
  const TensorView sf = PlannedProduct::view(1, DType::float32, huge, 4);
  const TensorView packed = PlannedProduct::view(2, DType::int32, huge, 1);
  PackGroups rows;
  rows.rows = RowEnds{vector(3), 128};
  CHECK_THROWS_AS(pack_ue8m0(sf, packed, rows), ValueError);
  const Launch launch = launched([&] { pack_ue8m0(sf, packed); });
  CHECK(launch.params.rows == huge);
  CHECK(launch.params.tiles == huge / 64);
}
