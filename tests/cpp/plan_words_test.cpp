// The descriptors that DEEPGEMM_DUMP puts into words are those that the driver is asked for.
#include "plan/plan_words.hpp"

#include <doctest/doctest.h>

#include <functional>
#include <vector>

#include "core/text.hpp"
#include "deepgemm/grouped.hpp"
#include "fake_driver/fake_driver.hpp"
#include "jit_fixture.hpp"
#include "planned_product.hpp"
#include "test_tensors.hpp"

using namespace deepgemm;
using test::Environment;
using test::PlannedProduct;

namespace {

// The driver's arguments, put into words by other code than the library's.
std::string words_of(const fake::TensorMapCall& call) {
  const char* types[] = {"uint8", "uint16",  "uint32",  "int32",   "uint64",
                         "int64", "float16", "float32", "float64", "bfloat16"};
  const int swizzles[] = {0, 32, 64, 128}, promotions[] = {0, 64, 128, 256};
  std::string text = std::string(types[call.type]) + ", ";
  for (std::uint32_t i = 0; i < call.rank; ++i)
    text += (i == 0 ? "" : " x ") + std::to_string(call.extents[i]);
  text += ", pitch ";
  for (std::uint32_t i = 0; i + 1 < call.rank; ++i)
    text += (i == 0 ? "" : " and ") + std::to_string(call.pitches_bytes[i]);
  text += " bytes, box ";
  for (std::uint32_t i = 0; i < call.rank; ++i)
    text += (i == 0 ? "" : " x ") + std::to_string(call.box[i]);
  const int swizzle = swizzles[call.swizzle];
  text += swizzle == 0 ? ", no swizzle" : ", swizzle " + std::to_string(swizzle) + " bytes";
  return text + ", L2 promotion " + std::to_string(promotions[call.promotion]) + " bytes";
}

TensorView view(std::uintptr_t place, DType dtype, std::initializer_list<std::int64_t> shape) {
  return make_view(reinterpret_cast<void*>(place << 48), dtype, shape, test::gpu);
}

struct Case {
  const char* what;
  std::function<void()> run;
  std::size_t descriptors;
};

std::vector<Case> cases() {
  using P = PlannedProduct;
  const auto dense = [](const char* what, std::size_t descriptors, const P& product) {
    return Case{what, [product] { gemm(product.args); }, descriptors};
  };
  P adds(2048, 1024, 1024, DType::bfloat16);
  adds.add_c_of_its_own();
  P general = P(300, 640, 1024);
  general.args.activation = Activation::relu;
  P float32(30, 40, 50, DType::float32);
  return {
      dense("factors of blocks, edges", 6, P(300, 648, 1024)),
      dense("factors of columns", 6, P(300, 640, 1024, {1, 128})),
      dense("few tokens", 2, P(4, 640, 1024)),
      dense("general epilogue", 4, general),
      dense("adds C", 4, adds),
      dense("MN-major", 3, P(256, 512, 1024, DType::float16, Layout::tn)),
      dense("no TMA", 0, float32),
      {"a batch",
       [] {
         GemmArgs args;
         args.a.values = view(1, DType::bfloat16, {3, 256, 128});
         args.b.values = view(2, DType::bfloat16, {3, 512, 128});
         args.out = view(3, DType::bfloat16, {3, 256, 512});
         gemm(args);
       },
       3},
      {"groups",
       [] {
         GroupedArgs args;
         args.a.values = view(1, DType::bfloat16, {256, 128});
         args.b.values = view(2, DType::bfloat16, {4, 512, 128});
         args.out = view(3, DType::bfloat16, {256, 512});
         args.groups = view(4, DType::int32, {4});
         grouped_gemm(args);
       },
       3},
      {"groups of K with factors",
       [] {
         KGroupedArgs args;
         for (ScaledView* x : {&args.a, &args.b}) {
           const std::uintptr_t place = x == &args.a ? 1 : 3;
           x->values = view(place, DType::float8_e4m3fn, {256, 512});
           x->sf = view(place + 1, DType::float32, {256, 6});
           x->sf->strides = {1, 256};
         }
         args.out = view(5, DType::float32, {2, 256, 256});
         args.k_sizes = view(6, DType::int64, {2});
         k_grouped_gemm(args);
       },
       5},
  };
}

std::vector<std::string> lines_after(const std::string& text, const std::string& head) {
  std::vector<std::string> lines;
  std::size_t begin = text.find(head) + head.size();
  while (begin < text.size()) {
    const std::size_t end = text.find('\n', begin);
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

}  // namespace

TEST_CASE("dumped descriptors are the driver's") {
  testing::CacheDirectory directory;
  testing::use_fake_nvrtc();
  fake::CudaState& cuda = fake::use_fake_driver();
  for (const Case& each : cases()) {
    CAPTURE(each.what);
    const std::string dump = directory.root() + "/" + std::to_string(each.descriptors) + each.what;
    const Environment set("DEEPGEMM_DUMP", dump.c_str());
    cuda.tensor_maps.clear();
    each.run();
    const auto plans = files::list(dump, ".plan.txt");
    REQUIRE(plans.size() == 1);
    const std::string text = files::read(dump + "/" + plans.front()).value_or("");
    const auto lines = lines_after(text, "innermost dimension first:\n");
    REQUIRE(cuda.tensor_maps.size() == each.descriptors);
    if (each.descriptors == 0) {
      CHECK(lines == std::vector<std::string>{"none: this kernel does not use TMA"});
      continue;
    }
    REQUIRE(lines.size() == each.descriptors);
    for (std::size_t i = 0; i < lines.size(); ++i) {
      CHECK(lines[i].substr(lines[i].find(": ") + 2) == words_of(cuda.tensor_maps[i]));
    }
    // Source and cubin lie beside it, under the same beginning of the name.
    CHECK(files::list(dump, ".cu").size() == 1);
    CHECK(files::list(dump, ".cubin").size() == 1);
    CHECK(plans.front().starts_with(files::list(dump, ".cu").front().substr(0, 30)));
  }
}
