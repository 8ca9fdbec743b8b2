#include <doctest/doctest.h>

#include <cstring>
#include <string>
#include <thread>

#include "deepgemm/deepgemm.h"
#include "test_tensors.hpp"

using test::contains;

namespace {

deepgemm_tensor matrix(void* data, int32_t dtype, int64_t rows, int64_t columns) {
  deepgemm_tensor tensor{};
  tensor.data = data;
  tensor.dtype = dtype;
  tensor.rank = 2;
  tensor.shape[0] = rows, tensor.shape[1] = columns;
  tensor.strides[0] = columns, tensor.strides[1] = 1;
  return tensor;
}

// a = [[1, 2], [3, 4]], b = the identity.
struct Call {
  float a_data[4] = {1, 2, 3, 4}, b_data[4] = {1, 0, 0, 1}, out_data[4] = {};
  deepgemm_tensor a = matrix(a_data, DEEPGEMM_FLOAT32, 2, 2);
  deepgemm_tensor b = matrix(b_data, DEEPGEMM_FLOAT32, 2, 2);
  deepgemm_tensor out = matrix(out_data, DEEPGEMM_FLOAT32, 2, 2);
  deepgemm_gemm_args args{};
  Call() {
    args.struct_bytes = sizeof(args);
    args.a = &a, args.b = &b, args.out = &out;
    args.alpha = 2;
  }
  deepgemm_status run() const { return deepgemm_gemm(&args, nullptr); }
};

std::string last_error() { return deepgemm_last_error(); }

}  // namespace

TEST_CASE("version and devices") {
  CHECK(std::strlen(deepgemm_version()) >= 5);
  CHECK(deepgemm_device_count() >= 0);
}

TEST_CASE("gemm") {
  Call call;
  CHECK(call.run() == DEEPGEMM_SUCCESS);
  CHECK(last_error().empty());
  CHECK(call.out_data[0] == 2);
  CHECK(call.out_data[3] == 8);
  float bias_data[2] = {-100, 1};
  deepgemm_tensor bias = matrix(bias_data, DEEPGEMM_FLOAT32, 2, 1);
  bias.rank = 1;
  bias.strides[0] = 1;
  call.args.bias = &bias;
  call.args.c = &call.out;
  call.args.activation = DEEPGEMM_ACTIVATION_RELU;
  CHECK(call.run() == DEEPGEMM_SUCCESS);
  CHECK(call.out_data[0] == 2);
  CHECK(call.out_data[3] == 17);
}

TEST_CASE("a batch") {
  Call call;
  float weights[8] = {1, 0, 0, 1, 2, 0, 0, 2}, out_data[8] = {};
  deepgemm_tensor stack = matrix(weights, DEEPGEMM_FLOAT32, 2, 4);
  stack.rank = 3;
  stack.shape[1] = stack.shape[2] = 2;
  stack.strides[1] = 2, stack.strides[2] = 1;
  deepgemm_tensor out = stack;
  out.data = out_data;
  call.args.b = &stack;
  call.args.out = &out;
  CHECK(call.run() == DEEPGEMM_SUCCESS);
  for (int i = 0; i < 4; ++i) {
    CHECK(out_data[i] == 2 * call.a_data[i]);
    CHECK(out_data[4 + i] == 4 * call.a_data[i]);
  }
  out.shape[0] = 1;
  CHECK(call.run() == DEEPGEMM_INVALID_VALUE);
  CHECK(contains(last_error(), "out: found shape [1, 2, 2], need [2, 2, 2]"));
}

TEST_CASE("failures are statuses with words") {
  Call call;
  SUBCASE("shape") {
    call.b.shape[1] = 1;
    CHECK(call.run() == DEEPGEMM_INVALID_VALUE);
    CHECK(contains(last_error(), "b: found shape [2, 1]"));
    call.b.shape[1] = 2;
    CHECK(call.run() == DEEPGEMM_SUCCESS);
    CHECK(last_error().empty());
  }
  SUBCASE("dtype") {
    call.a.dtype = DEEPGEMM_FLOAT64;
    CHECK(call.run() == DEEPGEMM_INVALID_TYPE);
    call.a.dtype = 99;
    CHECK(call.run() == DEEPGEMM_INVALID_TYPE);
    CHECK(contains(last_error(), "a: found dtype 99"));
  }
  SUBCASE("NULL") {
    CHECK(deepgemm_gemm(nullptr, nullptr) == DEEPGEMM_INVALID_VALUE);
    call.args.out = nullptr;
    CHECK(call.run() == DEEPGEMM_INVALID_VALUE);
    CHECK(contains(last_error(), "out: found NULL"));
  }
  SUBCASE("fields") {
    call.args.struct_bytes = 8;
    CHECK(call.run() == DEEPGEMM_INVALID_VALUE);
    CHECK(contains(last_error(), "struct_bytes"));
    call.args.struct_bytes = sizeof(call.args);
    call.args.layout = 4;
    CHECK(call.run() == DEEPGEMM_INVALID_VALUE);
    CHECK(contains(last_error(), "layout: found 4"));
    call.args.layout = 0;
    call.out.rank = 5;
    CHECK(call.run() == DEEPGEMM_INVALID_VALUE);
    CHECK(contains(last_error(), "out: found rank 5"));
  }
}

// Two groups; b is the identity and twice the identity, a as above.
struct GroupedCall : Call {
  float weights[8] = {1, 0, 0, 1, 2, 0, 0, 2};
  int32_t numbers[2] = {1, 1};
  deepgemm_tensor stack = matrix(weights, DEEPGEMM_FLOAT32, 2, 4);
  deepgemm_tensor groups = matrix(numbers, DEEPGEMM_INT32, 2, 1);
  GroupedCall() {
    stack.rank = 3;
    stack.shape[1] = stack.shape[2] = 2;
    stack.strides[1] = 2, stack.strides[2] = 1;
    groups.rank = 1;
  }
};

TEST_CASE("grouped") {
  GroupedCall call;
  deepgemm_grouped_args grouped{};
  grouped.struct_bytes = sizeof(grouped);
  grouped.a = &call.a, grouped.b = &call.stack, grouped.out = &call.out;
  grouped.groups = &call.groups;
  grouped.alpha = 10;
  CHECK(deepgemm_grouped_gemm(&grouped, nullptr) == DEEPGEMM_SUCCESS);
  CHECK(call.out_data[1] == 20);
  CHECK(call.out_data[2] == 60);
  grouped.form = DEEPGEMM_GROUP_LABELS;
  call.numbers[0] = -1;
  call.out_data[1] = -5;
  CHECK(deepgemm_grouped_gemm(&grouped, nullptr) == DEEPGEMM_SUCCESS);
  CHECK(call.out_data[1] == -5);
  CHECK(call.out_data[2] == 60);
  grouped.form = 4;
  CHECK(deepgemm_grouped_gemm(&grouped, nullptr) == DEEPGEMM_INVALID_VALUE);
  CHECK(contains(last_error(), "form: found 4"));
  grouped.form = DEEPGEMM_GROUP_SIZES;
  CHECK(deepgemm_grouped_gemm(&grouped, nullptr) == DEEPGEMM_INVALID_VALUE);
  CHECK(contains(last_error(), "group_sizes: found -1 for group 0"));
  for (deepgemm_tensor* tensor : {&call.a, &call.stack, &call.out, &call.groups})
    tensor->device_kind = DEEPGEMM_CUDA;
  setenv("DEEPGEMM_CUDA_DRIVER_PATH", "/nonexistent/libcuda.so.1", 1);
  CHECK(deepgemm_grouped_gemm(&grouped, nullptr) == DEEPGEMM_DRIVER_ERROR);
  CHECK(contains(last_error(), "no CUDA driver"));
  grouped.groups = nullptr;
  CHECK(deepgemm_grouped_gemm(&grouped, nullptr) == DEEPGEMM_INVALID_VALUE);
  CHECK(contains(last_error(), "groups: found NULL"));
}

TEST_CASE("masked and k-grouped") {
  GroupedCall call;
  float out_data[8] = {};
  deepgemm_tensor out = call.stack;
  out.data = out_data;
  const int64_t expected = 3;
  deepgemm_masked_args masked{};
  masked.struct_bytes = sizeof(masked);
  masked.a = masked.b = &call.stack, masked.out = &out;
  masked.rows = &call.groups;
  masked.expected_rows = &expected;
  masked.alpha = 1;
  call.numbers[0] = 2;
  CHECK(deepgemm_masked_gemm(&masked, nullptr) == DEEPGEMM_SUCCESS);
  CHECK(out_data[3] == 1);
  CHECK(out_data[4] == 4);
  CHECK(out_data[7] == 0);
  call.numbers[0] = 3;
  CHECK(deepgemm_masked_gemm(&masked, nullptr) == DEEPGEMM_INVALID_VALUE);
  CHECK(contains(last_error(), "rows: found 3 for group 0, need 0 to 2"));

  deepgemm_k_grouped_args along_k{};
  along_k.struct_bytes = sizeof(along_k);
  along_k.a = &call.a, along_k.b = &call.b, along_k.out = &out;
  along_k.k_sizes = &call.groups;
  along_k.alpha = 1;
  call.numbers[0] = 1;
  CHECK(deepgemm_k_grouped_gemm(&along_k, nullptr) == DEEPGEMM_SUCCESS);
  CHECK(out_data[2] == 3);  // column 0 of a, row 0 of the identity
  CHECK(out_data[7] == 4);
  along_k.struct_bytes = 8;
  CHECK(deepgemm_k_grouped_gemm(&along_k, nullptr) == DEEPGEMM_INVALID_VALUE);
}

TEST_CASE("the last error is the thread's own") {
  Call call;
  call.a.dtype = -1;
  CHECK(call.run() == DEEPGEMM_INVALID_TYPE);
  std::thread([] { CHECK(last_error().empty()); }).join();
  CHECK_FALSE(last_error().empty());
}

TEST_CASE("quantize and back") {
  float x_data[4] = {1, -2, 0.5F, 448}, sf_data[2] = {}, back_data[4] = {};
  unsigned char codes[4] = {};
  deepgemm_tensor x = matrix(x_data, DEEPGEMM_FLOAT32, 2, 2);
  deepgemm_tensor values = matrix(codes, DEEPGEMM_FLOAT8_E4M3FN, 2, 2);
  deepgemm_tensor sf = matrix(sf_data, DEEPGEMM_FLOAT32, 2, 1);
  deepgemm_tensor back = matrix(back_data, DEEPGEMM_FLOAT32, 2, 2);
  deepgemm_quantize_options options{sizeof(options), {1, 0}, 1, 1e-4F};
  CHECK(deepgemm_quantize(&x, &values, &sf, &options, nullptr) == DEEPGEMM_SUCCESS);
  CHECK(sf_data[1] == 1);
  CHECK(deepgemm_dequantize(&values, &sf, &options.granularity, &back, nullptr) ==
        DEEPGEMM_SUCCESS);
  for (int i = 0; i < 4; ++i) CHECK(back_data[i] == x_data[i]);
  CHECK(deepgemm_dequantize(&values, &sf, nullptr, &x, nullptr) == DEEPGEMM_SUCCESS);
  sf.shape[0] = 1;
  CHECK(deepgemm_quantize(&x, &values, &sf, &options, nullptr) == DEEPGEMM_INVALID_VALUE);
  CHECK(contains(last_error(), "sf: found shape [1, 1]"));
}

TEST_CASE("scale factors are copied, packed and unpacked") {
  float sf_data[12] = {1, 2, 1, 1, 1, 4, 1, 1, 1, 1, 1, 1}, back_data[12] = {};
  std::int32_t words[4] = {}, sizes_data[2] = {128, 640}, ends_data[1] = {1};
  deepgemm_tensor sf = matrix(sf_data, DEEPGEMM_FLOAT32, 2, 6);
  deepgemm_tensor back = matrix(back_data, DEEPGEMM_FLOAT32, 2, 6);
  deepgemm_tensor packed = matrix(words, DEEPGEMM_INT32, 2, 2);
  CHECK(deepgemm_copy_scales(&sf, &back, nullptr) == DEEPGEMM_SUCCESS);
  CHECK(back_data[5] == 4);
  CHECK(deepgemm_pack_ue8m0(&sf, &packed, nullptr, nullptr) == DEEPGEMM_SUCCESS);
  CHECK(words[0] == 0x7F7F807F);
  CHECK(words[1] == 0x817F);
  deepgemm_tensor vector = matrix(ends_data, DEEPGEMM_INT32, 1, 1);
  vector.rank = 1;
  vector.strides[0] = 1;
  deepgemm_pack_groups groups{sizeof(groups), &vector, 0, nullptr, 0};
  CHECK(deepgemm_pack_ue8m0(&sf, &packed, &groups, nullptr) == DEEPGEMM_SUCCESS);
  CHECK(words[1] == 0x817F);
  CHECK(words[2] == 0);  // row 1 is no group's
  CHECK(deepgemm_unpack_ue8m0(&packed, &back, &groups, nullptr) == DEEPGEMM_INVALID_VALUE);
  CHECK(contains(last_error(), "group_ends"));
  vector.data = sizes_data;
  vector.shape[0] = 2;
  deepgemm_tensor wide = packed;
  std::int32_t wide_words[6] = {};
  wide.data = wide_words;
  wide.shape[1] = wide.strides[0] = 3;
  groups = {sizeof(groups), nullptr, 0, &vector, 0};
  CHECK(deepgemm_pack_ue8m0(&sf, &wide, &groups, nullptr) == DEEPGEMM_SUCCESS);
  CHECK(wide_words[0] == 0x7F);
  CHECK(static_cast<std::uint32_t>(wide_words[1]) == 0x7F7F7F80U);
  CHECK(wide_words[2] == 0x81);
  back_data[5] = 0;
  CHECK(deepgemm_unpack_ue8m0(&wide, &back, &groups, nullptr) == DEEPGEMM_SUCCESS);
  CHECK(back_data[5] == 4);
  groups.struct_bytes = 8;
  CHECK(deepgemm_pack_ue8m0(&sf, &wide, &groups, nullptr) == DEEPGEMM_INVALID_VALUE);
}
