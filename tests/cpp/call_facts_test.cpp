// What tells two calls apart: the quick comparison of plans says no more than signatures do.
#include "plan/call_facts.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "planned_product.hpp"

using namespace deepgemm;
using test::PlannedProduct;

namespace {

template <class Args>
struct Change {
  const char* what;
  std::function<void(Args&)> apply;
};

TensorView view(std::uintptr_t place, DType dtype, std::initializer_list<std::int64_t> shape) {
  return make_view(reinterpret_cast<void*>(place << 48), dtype, shape, test::gpu);
}

template <class Args>
Args moved(Args args) {
  const auto move = [](TensorView& x) { PlannedProduct::shift(x, 4096); };
  move(args.a.values), move(args.b.values), move(args.out);
  if (args.c) move(*args.c);
  return args;
}

// What every operation has.
template <class Args>
std::vector<Change<Args>> common_changes() {
  return {
      {"nothing", [](Args&) {}},
      {"dtype of a", [](Args& x) { x.a.values.dtype = DType::float8_e5m2; }},
      {"rows of a", [](Args& x) { x.a.values.shape[0] -= 1; }},
      {"stride of a", [](Args& x) { x.a.values.strides[0] += 16; }},
      {"rank of a", [](Args& x) { x.a.values.rank = 1; }},
      {"no such rank of a", [](Args& x) { x.a.values.rank = 1000; }},
      {"place of a", [](Args& x) { PlannedProduct::shift(x.a.values, 4); }},
      {"no memory of a", [](Args& x) { x.a.values.data = nullptr; }},
      {"device of a", [](Args& x) { x.a.values.device.index = 1; }},
      {"a in host memory", [](Args& x) { x.a.values.device = {}; }},
      {"columns of b", [](Args& x) { x.b.values.shape[1] += 1; }},
      {"place of b", [](Args& x) { PlannedProduct::shift(x.b.values, 8); }},
      {"factors of a", [](Args& x) { x.a.sf = view(4, DType::float32, {64, 2}); }},
      {"dtype of factors", [](Args& x) { x.a.sf = view(4, DType::float8_e8m0fnu, {64, 2}); }},
      {"factors of b", [](Args& x) { x.b.sf = view(4, DType::float32, {64, 2}); }},
      {"granularity of a", [](Args& x) { x.a.granularity = {1, 128}; }},
      {"another of a", [](Args& x) { x.a.granularity = {1, 64}; }},
      {"granularity of b", [](Args& x) { x.b.granularity = {1, 128}; }},
      {"dtype of out", [](Args& x) { x.out.dtype = DType::float16; }},
      {"stride of out", [](Args& x) { x.out.strides[0] += 1; }},
      {"a read-only out", [](Args& x) { x.out.read_only = true; }},
      {"c", [](Args& x) { x.c = view(6, DType::bfloat16, {64, 128}); }},
      {"dtype of c", [](Args& x) { x.c = view(6, DType::float32, {64, 128}); }},
      {"c in place", [](Args& x) { x.c = x.out; }},
      {"alpha", [](Args& x) { x.alpha = 2; }},
      {"layout", [](Args& x) { x.layout = Layout::nn; }},
  };
}

template <class Args>
void add_changes_of_rows(std::vector<Change<Args>>& changes) {
  changes.push_back({"bias", [](Args& x) { x.bias = view(7, DType::float32, {128}); }});
  changes.push_back({"dtype of bias", [](Args& x) { x.bias = view(7, DType::bfloat16, {128}); }});
  changes.push_back({"activation", [](Args& x) { x.activation = Activation::silu; }});
}

// Each of the calls is alike to itself wherever it lies, and to no other.
template <class Args>
void check(const Args& base, const std::vector<Change<Args>>& changes) {
  const CallOptions options;
  std::vector<Args> calls;
  for (const auto& change : changes) change.apply(calls.emplace_back(base));
  for (std::size_t i = 0; i < calls.size(); ++i) {
    for (std::size_t j = 0; j < calls.size(); ++j) {
      CAPTURE(changes[i].what);
      CAPTURE(changes[j].what);
      const bool same = plan::Signature(calls[i], options) == plan::Signature(calls[j], options);
      CHECK(plan::alike(calls[i], calls[j]) == same);
      CHECK(same == (i == j && calls[i].a.values.rank <= max_rank));
    }
    Args other = moved(calls[i]);
    if (other.alpha != 1) other.alpha = 3;
    CHECK(plan::alike(other, calls[i]) ==
          (plan::Signature(other, options) == plan::Signature(calls[i], options)));
  }
}

template <class Args>
Args product() {
  Args args;
  args.a.values = view(1, DType::float8_e4m3fn, {64, 256});
  args.b.values = view(2, DType::float8_e4m3fn, {128, 256});
  args.out = view(3, DType::bfloat16, {64, 128});
  return args;
}

}  // namespace

TEST_CASE("dense calls are alike if they differ in addresses and the values of scalars alone") {
  auto changes = common_changes<GemmArgs>();
  add_changes_of_rows(changes);
  changes.push_back({"out_scale", [](GemmArgs& x) { x.out_scale = 4; }});
  changes.push_back({"no such out_scale", [](GemmArgs& x) { x.out_scale = 0; }});
  check(product<GemmArgs>(), changes);
}

TEST_CASE("grouped calls are alike by their groups too") {
  auto rows = common_changes<GroupedArgs>();
  add_changes_of_rows(rows);
  rows.push_back({"groups", [](GroupedArgs& x) { x.groups = view(8, DType::int32, {5}); }});
  rows.push_back({"dtype of groups", [](GroupedArgs& x) { x.groups.dtype = DType::int64; }});
  rows.push_back({"form", [](GroupedArgs& x) { x.form = GroupForm::ends; }});
  rows.push_back({"alignment", [](GroupedArgs& x) { x.alignment = 128; }});
  auto base = product<GroupedArgs>();
  base.groups = view(8, DType::int32, {4});
  check(base, rows);

  auto masked = common_changes<MaskedArgs>();
  add_changes_of_rows(masked);
  masked.push_back({"rows", [](MaskedArgs& x) { x.rows = view(8, DType::int32, {4}); }});
  masked.push_back({"expected_rows", [](MaskedArgs& x) { x.expected_rows = 0; }});
  masked.push_back({"more of them", [](MaskedArgs& x) { x.expected_rows = 9; }});
  check(product<MaskedArgs>(), masked);

  auto k = common_changes<KGroupedArgs>();
  k.push_back({"k_sizes", [](KGroupedArgs& x) { x.k_sizes = view(8, DType::int32, {4}); }});
  check(product<KGroupedArgs>(), k);
}

TEST_CASE("a stride that means nothing is no difference to a signature") {
  auto args = product<GemmArgs>();
  args.a.values.shape[0] = 1;
  GemmArgs other = args;
  other.a.values.strides[0] = 77;
  CHECK(plan::Signature(args, {}) == plan::Signature(other, {}));
}
