// The values of group vectors: each wrong one is refused by name, and nothing is computed then. On
// a GPU, which the fake driver plays with memory of the host, they are looked at if
// DEEPGEMM_CHECK_GROUPS is set, and refused in the same words.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "fake_driver/fake_driver.hpp"
#include "grouped_case.hpp"
#include "ops/groups.hpp"

using namespace deepgemm;
using test::contains;
using test::Environment;
using test::message_of;
using test::RowGroups;
using test::sentinel;
using test::Tensor;
using test::Vector;

namespace {

using Values = std::vector<std::int64_t>;
constexpr std::int64_t huge = INT64_MAX;

constexpr Device gpu{DeviceKind::cuda, 0};

TensorView& vector_of(GroupedArgs& args) { return args.groups; }
TensorView& vector_of(MaskedArgs& args) { return args.rows; }
TensorView& vector_of(KGroupedArgs& args) { return args.k_sizes; }

void call(const GroupedArgs& args, const CallOptions& options = {}) { grouped_gemm(args, options); }
void call(const MaskedArgs& args, const CallOptions& options = {}) { masked_gemm(args, options); }
void call(const KGroupedArgs& args, const CallOptions& options = {}) {
  k_grouped_gemm(args, options);
}

template <class Args>
Args on_gpu(Args args) {
  for (TensorView* view : {&args.a.values, &*args.a.sf, &args.b.values, &*args.b.sf, &args.out}) {
    view->device = gpu;
  }
  vector_of(args).device = gpu;
  return args;
}

void check_words(const std::string& message, const std::string& want) {
  INFO(message);
  CHECK(contains(message, want));
}

template <class Args>
void check_refused(const Args& args, const std::string& want) {
  const std::string message = message_of<ValueError>([&] { call(args); });
  check_words(message, want);
  fake::CudaState& state = fake::use_fake_driver();
  state.waited_for = nullptr;
  const Environment set("DEEPGEMM_CHECK_GROUPS", "1");
  const auto stream = reinterpret_cast<Stream>(0x77);
  CHECK(message_of<ValueError>([&] { call(on_gpu(args), {.stream = stream}); }) == message);
  CHECK(state.waited_for == stream);
  CHECK(state.launches.empty());
}

// a has 12 rows, b 4 groups.
void refuses(GroupForm form, const Values& values, const char* want, std::int64_t alignment = 1) {
  RowGroups p(4, 12, 3, 128, false);
  auto args = test::as<GroupedArgs>(p);
  const Vector vector(values, DType::int64);
  args.groups = vector.view;
  args.form = form;
  args.alignment = alignment;
  check_refused(args, want);
  CHECK(p.is_right([](auto, auto) { return -1; }));
}

}  // namespace

TEST_CASE("sizes") {
  refuses(GroupForm::sizes, {3, -1, 4, 4}, "group_sizes: found -1 for group 1, need sizes of 0");
  refuses(GroupForm::sizes, {3, 4, 5, 1},
          "group_sizes: found 1 for group 3 after a sum of 12, need a sum of 12 at most (a has 12 "
          "rows)");
  refuses(GroupForm::sizes, {13, 0, 0, 0}, "found 13 for group 0 after a sum of 0");
  refuses(GroupForm::sizes, {1, huge, huge, 2}, "for group 1 after a sum of 1");  // no overflow
  refuses(GroupForm::sizes, {huge, huge, 2, 0}, "for group 0 after a sum of 0");
}

TEST_CASE("offsets") {
  refuses(GroupForm::offsets, {-1, 3, 4, 5, 6},
          "group_offsets: found -1 at 0, need 0 or more (rows count from 0)");
  refuses(GroupForm::offsets, {0, 3, 2, 5, 6},
          "group_offsets: found 2 at 2, need 3 or more (none is below the one before it)");
  refuses(GroupForm::offsets, {0, 3, 4, 5, 13},
          "group_offsets: found 13 at 4, need 12 at most (a has 12 rows)");
}

TEST_CASE("ends") {
  refuses(GroupForm::ends, {-4, 3, 4, 5}, "group_ends: found -4 at 0, need 0 or more");
  refuses(GroupForm::ends, {5, 4, 6, 7}, "group_ends: found 4 at 1, need 5 or more", 8);
  refuses(GroupForm::ends, {1, 9, 10, 13}, "group_ends: found 13 at 3, need 12 at most", 4);
}

TEST_CASE("labels") {
  Values labels(12, 0);
  labels[7] = 4;
  refuses(GroupForm::labels, labels,
          "labels: found 4 for row 7, need -1 to 3 (b has 4 groups; -1 is a row of none)");
  labels[7] = -2;
  refuses(GroupForm::labels, labels, "labels: found -2 for row 7");
}

TEST_CASE("rows of a masked product") {
  for (const auto& [values, want] :
       {std::pair{Values{0, 6, 5}, "rows: found 6 for group 1, need 0 to 5 (a has 5 rows for"},
        std::pair{Values{0, 5, -1}, "rows: found -1 for group 2"}}) {
    RowGroups p(3, 5, 3, 128, true);
    auto args = test::as<MaskedArgs>(p);
    const Vector vector(values);
    args.rows = vector.view;
    check_refused(args, want);
    CHECK(p.is_right([](auto, auto) { return -1; }));
  }
}

TEST_CASE("sizes of K") {
  const auto refused = [](const Values& values, std::int64_t multiple) {
    const Vector vector(values, DType::int64);
    return message_of<ValueError>([&] { ops::sizes_of_k(vector.view, 64, multiple, nullptr); });
  };
  CHECK_FALSE(refused({16, 24}, 16).empty());
  CHECK(refused({16, 24}, 1).empty());
  CHECK(refused({0, 64}, 16).empty());
  const auto refuses_k = [](const Values& values, const char* want) {
    const Tensor a(DType::float8_e4m3fn, {3, 64}), sf(DType::float32, {3, 2});
    Tensor out(DType::float32, {static_cast<std::int64_t>(values.size()), 3, 3});
    fill_flat(out, [] { return sentinel; });
    const Vector vector(values);
    KGroupedArgs args;
    args.a = args.b = {a.view, sf.view, {}};
    args.out = out.view, args.k_sizes = vector.view;
    check_refused(args, want);
    for (std::int64_t i = 0; i < out.view.size(); ++i) CHECK(test::flat(out, i) == sentinel);
  };
  refuses_k({16, -16}, "k_sizes: found -16 for group 1, need sizes of 0");
  refuses_k({16, 64},
            "k_sizes: found 64 for group 1 after a sum of 16, need a sum of 64 at most (a has K = "
            "64)");
  refuses_k({16, 24}, "k_sizes: found 24 for group 1, need multiples of 16 (groups of float8");
  refuses_k({16, 16, 16}, "sfa: found shape [3, 2], 2 blocks, need 3 or more");
}

TEST_CASE("values are read with their strides, aligned or not, in host memory and on a GPU") {
  fake::CudaState& state = fake::use_fake_driver();
  const auto values_of = [](TensorView view, Device device) {
    view.device = device;
    return ops::integers_of(view, reinterpret_cast<Stream>(0x77));
  };
  for (const Device device : {Device{}, gpu}) {
    Vector vector({7, 1, -5, 2, 9, 3}, DType::int64);
    vector.view.shape[0] = 3;
    vector.view.strides[0] = 2;
    CHECK(values_of(vector.view, device) == Values{7, -5, 9});
    vector.view.strides[0] = 0;
    CHECK(values_of(vector.view, device) == Values{7, 7, 7});
    vector.view.strides[0] = -1;
    vector.view.data = vector.memory.data() + 16;
    CHECK(values_of(vector.view, device) == Values{-5, 1, 7});
    vector.view.shape[0] = 0;
    const int copies = state.count("cuMemcpyDtoHAsync");
    CHECK(values_of(vector.view, device).empty());
    CHECK(state.count("cuMemcpyDtoHAsync") == copies);
    Vector narrow({-70000, 1});
    std::vector<unsigned char> shifted(9);
    std::copy_n(narrow.memory.begin(), 8, shifted.begin() + 1);
    narrow.view.data = shifted.data() + 1;
    CHECK(values_of(narrow.view, device) == Values{-70000, 1});
  }
}

TEST_CASE("a GPU's values are copied once, its span alone, and only if the setting says so") {
  fake::CudaState& state = fake::use_fake_driver();
  RowGroups p(4, 12, 3, 128, false);
  auto args = test::as<GroupedArgs>(p);
  Vector vector({3, 9, 4, 9, 5, 9, 0});
  args.groups = vector.view;
  args.groups.shape[0] = 4, args.groups.strides[0] = 2;
  args = on_gpu(args);
  args.out.shape[1] = 0, args.b.values.shape[1] = 0, args.b.sf->shape[1] = 0;  // nothing to launch
  const auto copies = [&] { return state.count("cuMemcpyDtoHAsync"); };
  const int before = copies();
  for (const char* off : {static_cast<const char*>(nullptr), "0"}) {
    const Environment set("DEEPGEMM_CHECK_GROUPS", off);
    grouped_gemm(args);
    CHECK(copies() == before);
  }
  const Environment set("DEEPGEMM_CHECK_GROUPS", "on");
  grouped_gemm(args);
  CHECK(copies() == before + 1);
  CHECK(state.bytes_copied == 28);
  const Environment bad("DEEPGEMM_CHECK_GROUPS", "maybe");  // a warning, and as if it were not set
  grouped_gemm(args);
  CHECK(copies() == before + 1);
}

TEST_CASE("a stream that a graph captures is neither copied on nor waited for") {
  fake::CudaState& state = fake::use_fake_driver();
  const Environment set("DEEPGEMM_CHECK_GROUPS", "1");
  RowGroups p(3, 5, 3, 128, true);
  auto args = test::as<MaskedArgs>(p);
  const Vector vector({0, 5, 1});
  args.rows = vector.view;
  args = on_gpu(args);
  const int copies = state.count("cuMemcpyDtoHAsync"), waits = state.count("cuStreamSynchronize");
  state.capture_status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  check_words(message_of<Error>([&] { masked_gemm(args); }),
              "stream: found one that a CUDA graph captures, need one that can be waited for "
              "(DEEPGEMM_CHECK_GROUPS is set");
  state.capture_status = CU_STREAM_CAPTURE_STATUS_NONE;
  CHECK(state.count("cuMemcpyDtoHAsync") == copies);
  CHECK(state.count("cuStreamSynchronize") == waits);
  CHECK(state.launches.empty());
}
