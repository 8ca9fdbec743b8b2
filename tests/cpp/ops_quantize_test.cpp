#include <doctest/doctest.h>

#include <cstring>
#include <limits>
#include <string>

#include "deepgemm/quantize.hpp"
#include "test_tensors.hpp"

using namespace deepgemm;
using test::contains;
using test::message_of;
using test::Tensor;

namespace {

struct Call {
  Tensor x{DType::float32, {4, 256}}, values{DType::float8_e4m3fn, {4, 256}};
  Tensor sf{DType::float32, {4, 2}};
  QuantizeOptions options;
  void run() const { quantize(x.view, values.view, sf.view, options); }
};

template <class Exception>
void refuses(const Call& call, std::initializer_list<const char*> parts) {
  std::string message = message_of<Exception>([&] { call.run(); });
  REQUIRE_FALSE(message.empty());
  for (const char* part : parts) {
    INFO(message);
    CHECK(contains(message, part));
  }
}

template <class Exception>
void refuses_dequantize(const ScaledView& x, const TensorView& out, const char* part) {
  std::string message = message_of<Exception>([&] { dequantize(x, out); });
  INFO(message);
  CHECK(contains(message, part));
}

}  // namespace

TEST_CASE("quantize: each bad argument is named") {
  Call call;
  call.run();
  SUBCASE("integer x") {
    call.x.view.dtype = DType::int32;
    refuses<TypeError>(call, {"x: found int32"});
  }
  SUBCASE("float64 on a GPU") {
    call.x.view.dtype = DType::float64;
    call.x.view.device = {DeviceKind::cuda, 0};
    refuses<TypeError>(call, {"x: found float64"});
  }
  SUBCASE("rank of x") {
    call.x.view.rank = 1;
    refuses<ValueError>(call, {"x: found shape [4], rank 1"});
  }
  SUBCASE("uint8 values") {
    call.values.view.dtype = DType::uint8;
    refuses<TypeError>(call, {"values: found uint8", "deepgemm.view"});
  }
  SUBCASE("shape of values") {
    call.values.view.shape[1] = 255;
    refuses<ValueError>(call, {"values: found shape [4, 255], need [4, 256]"});
  }
  SUBCASE("shape of sf") {
    call.sf.view.shape = {2, 4};
    refuses<ValueError>(call, {"sf: found shape [2, 4], need shape [4, 2]", "(1, 128)"});
  }
  SUBCASE("e8m0 without power_of_two") {
    call.sf.view.dtype = DType::float8_e8m0fnu;
    refuses<TypeError>(call, {"sf: found float8_e8m0fnu", "power_of_two"});
    call.options.power_of_two = true;
    call.run();
  }
  SUBCASE("devices") {
    call.sf.view.device = {DeviceKind::cuda, 0};
    refuses<ValueError>(call, {"sf: found an array on cuda:0"});
  }
  SUBCASE("read-only") {
    call.values.view.read_only = true;
    refuses<ValueError>(call, {"values: found a read-only"});
  }
  SUBCASE("stride 0") {
    call.sf.view.strides = {0, 1};
    refuses<ValueError>(call, {"sf: ", "stride of 0"});
  }
  SUBCASE("overlap") {
    call.values.view.data = call.x.view.data;
    refuses<ValueError>(call, {"values: found memory that overlaps x"});
  }
  SUBCASE("fake") {
    call.x.view.data = nullptr;
    refuses<ValueError>(call, {"x: ", "fake or meta"});
  }
  SUBCASE("floor") {
    for (float bad : {-1.0F, std::numeric_limits<float>::quiet_NaN()}) {
      call.options.amax_floor = bad;
      refuses<ValueError>(call, {"amax_floor: "});
    }
  }
  SUBCASE("granularity") {
    call.options.granularity = {1, -128};
    refuses<ValueError>(call, {"granularity: ", "(1, -128)"});
  }
}

TEST_CASE("a per-tensor sf may have rank 0") {
  Call call;
  call.options.granularity = per_tensor;
  call.sf.view.rank = 0;
  call.x.set(3, 200, -896.0);
  call.run();
  CHECK(call.sf.at(0, 0) == 2);
  CHECK(call.values.at(3, 200) == -448);
}

TEST_CASE("dequantize: each bad argument is named") {
  Tensor values(DType::float8_e4m3fn, {4, 256}), sf(DType::float32, {4, 2});
  Tensor out(DType::float32, {4, 256});
  ScaledView x{values.view, sf.view, std::nullopt};
  dequantize(x, out.view);
  SUBCASE("x") {
    x.values.dtype = DType::uint8;
    refuses_dequantize<TypeError>(x, out.view, "values: found uint8");
  }
  SUBCASE("sf dtype") {
    x.sf->dtype = DType::float16;
    refuses_dequantize<TypeError>(x, out.view, "sf: found float16");
  }
  SUBCASE("sf shape") {
    x.sf->shape = {4, 3};
    refuses_dequantize<ValueError>(x, out.view, "sf: found shape [4, 3]");
  }
  SUBCASE("out shape") {
    out.view.shape[0] = 3;
    refuses_dequantize<ValueError>(x, out.view, "out: found shape [3, 256]");
  }
  SUBCASE("out dtype") {
    out.view.dtype = DType::float8_e4m3fn;
    refuses_dequantize<TypeError>(x, out.view, "out: found float8_e4m3fn");
  }
  SUBCASE("out overlaps") {
    x.values.data = out.view.data;
    refuses_dequantize<ValueError>(x, out.view, "out: found memory that overlaps values");
  }
  SUBCASE("fake") {
    out.view.data = nullptr;
    refuses_dequantize<ValueError>(x, out.view, "out: ");
  }
}

TEST_CASE("a stack is quantised matrix by matrix") {
  Tensor x(DType::float32, {3, 4, 256}), values(DType::float8_e4m3fn, {3, 4, 256});
  Tensor sf(DType::float32, {3, 4, 2}), back(DType::float32, {3, 4, 256});
  test::Random random;
  auto* numbers = reinterpret_cast<float*>(x.memory.data());
  for (std::int64_t i = 0; i < x.view.size(); ++i) numbers[i] = float(random.real(-9, 9));
  quantize(x.view, values.view, sf.view, {});
  dequantize({values.view, sf.view, std::nullopt}, back.view);
  for (std::int64_t g = 0; g < 3; ++g) {
    Call one;
    Tensor part(DType::float32, {4, 256});
    one.x.view = selected(x.view, g);
    one.run();
    dequantize({one.values.view, one.sf.view, std::nullopt}, part.view);
    CHECK(std::memcmp(one.values.memory.data(), selected(values.view, g).data, 1024) == 0);
    CHECK(std::memcmp(one.sf.memory.data(), selected(sf.view, g).data, 32) == 0);
    CHECK(std::memcmp(part.memory.data(), selected(back.view, g).data, 4096) == 0);
  }
}

TEST_CASE("the factors of a stack") {
  Tensor x(DType::float32, {3, 4, 256}), values(DType::float8_e4m3fn, {3, 4, 256});
  Tensor sf(DType::float32, {3, 1, 1}), all(DType::float32, {1});
  QuantizeOptions options{.granularity = per_tensor};
  quantize(x.view, values.view, sf.view, options);
  dequantize({values.view, sf.view, std::nullopt}, x.view);
  all.set(0, 0, 0.5);
  values.memory[3 * 1024 - 1] = 0x38;  // 1 in the last matrix
  dequantize({values.view, all.view, std::nullopt}, x.view);
  CHECK(reinterpret_cast<float*>(x.memory.data())[3 * 1024 - 1] == 0.5F);

  auto refused = [&](const TensorView& factors) {
    return message_of<ValueError>([&] { quantize(x.view, values.view, factors, options); });
  };
  CHECK(contains(refused(all.view), "sf: found shape [1], need [3, 1, 1]"));
  sf.view.shape = {2, 1, 1};
  CHECK(contains(refused(sf.view), "sf: found shape [2, 1, 1], need [3, 1, 1]"));
  refuses_dequantize<ValueError>({values.view, sf.view, std::nullopt}, x.view,
                                 "sf: found shape [2, 1, 1], 2 groups, need 3 groups");
  Tensor odd(DType::float32, {3, 5, 2});
  refuses_dequantize<ValueError>({values.view, odd.view, std::nullopt}, x.view,
                                 "sf[g]: found shape [5, 2], need [4, 2] for (1, 128)");
  x.view.shape = {2, 6, 256};
  CHECK(contains(refused(sf.view), "values: found shape [3, 4, 256], need [2, 6, 256]"));
}
