#include "deepgemm/tensor.hpp"

#include <doctest/doctest.h>

#include "test_tensors.hpp"

using namespace deepgemm;

TEST_CASE("make_view is row-major") {
  int byte = 0;
  TensorView view = make_view(&byte, DType::bfloat16, {2, 3, 5});
  CHECK(view.rank == 3);
  CHECK(view.size() == 30);
  CHECK(view.strides[0] == 15);
  CHECK(view.strides[1] == 5);
  CHECK(view.strides[2] == 1);
  CHECK(make_view(&byte, DType::float32, {}).size() == 1);
  CHECK(make_view(&byte, DType::float32, {4, 0}).size() == 0);
  CHECK(test::contains(
      test::message_of<ValueError>([] { make_view(nullptr, DType::int8, {1, 1, 1, 1, 1}); }),
      "5 dimensions"));
  CHECK_THROWS_AS(make_view(nullptr, DType::int8, {2, INT64_MAX, 2}), ValueError);
}

TEST_CASE("transposed swaps the last two dimensions") {
  TensorView view = transposed(make_view(nullptr, DType::float32, {2, 3, 5}));
  CHECK(view.shape[1] == 5);
  CHECK(view.strides[1] == 1);
  CHECK(view.strides[2] == 5);
  CHECK_THROWS_AS(transposed(make_view(nullptr, DType::float32, {2})), ValueError);
}

TEST_CASE("selected and narrowed are parts of the same memory") {
  float memory[30];
  TensorView view = make_view(memory, DType::float32, {2, 3, 5});
  TensorView item = selected(view, 1);
  CHECK(item.rank == 2);
  CHECK(item.shape[0] == 3);
  CHECK(item.shape[1] == 5);
  CHECK(item.strides[0] == 5);
  CHECK(item.data == memory + 15);
  TensorView part = narrowed(view, 2, 1, 3);
  CHECK(part.rank == 3);
  CHECK(part.shape[2] == 3);
  CHECK(part.strides[1] == 5);
  CHECK(part.data == memory + 1);
  CHECK(narrowed(view, 1, 3, 0).size() == 0);
  CHECK_THROWS_AS(selected(view, 2), ValueError);
  CHECK_THROWS_AS(selected(view, -1), ValueError);
  CHECK_THROWS_AS(selected(make_view(memory, DType::float32, {}), 0), ValueError);
  CHECK_THROWS_AS(narrowed(view, 3, 0, 1), ValueError);
  CHECK_THROWS_AS(narrowed(view, 1, 2, 2), ValueError);
  CHECK_THROWS_AS(narrowed(view, 1, 0, -1), ValueError);
  CHECK_THROWS_AS(narrowed(view, 1, 1, INT64_MAX), ValueError);
  view.data = nullptr;  // a shape alone
  CHECK(selected(view, 1).data == nullptr);
}

TEST_CASE("describe") {
  TensorView view = make_view(nullptr, DType::bfloat16, {4096, 7168}, {DeviceKind::cuda, 1});
  CHECK(describe(view) == "[4096, 7168] bfloat16 cuda:1, strides [7168, 1]");
  CHECK(describe(Device{}) == "cpu");
}

TEST_CASE("byte_range covers negative strides, and empties") {
  float memory[64];
  auto address = [&](int i) { return reinterpret_cast<std::uintptr_t>(memory + i); };
  TensorView view = make_view(memory + 32, DType::float32, {3, 4});
  CHECK(byte_range(view).begin == address(32));
  CHECK(byte_range(view).end == address(44));
  view.strides = {-8, 1};
  CHECK(byte_range(view).begin == address(16));
  CHECK(byte_range(view).end == address(36));
  view.strides = {0, -1};
  CHECK(byte_range(view).begin == address(29));
  CHECK(byte_range(view).end == address(33));
  view.shape = {3, 0};
  CHECK(byte_range(view).begin == byte_range(view).end);
}

TEST_CASE("byte_range of an impossible view is everything") {
  TensorView view = make_view(nullptr, DType::float32, {INT64_MAX / 2, 4});
  CHECK(byte_range(view).begin == 0);
  CHECK(byte_range(view).end == UINTPTR_MAX);
}
