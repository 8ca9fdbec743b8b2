// repeated_call OP COUNT: COUNT calls of one product on the fake driver, which records nothing. The
// difference between two counts under valgrind is what a repeated call costs in instructions
// (tests/python/test_call_cost.py), and the time that is printed is what it costs here.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "deepgemm/plan.hpp"
#include "fake_driver/fake_driver.hpp"
#include "jit_fixture.hpp"
#include "planned_product.hpp"

using namespace deepgemm;
using test::PlannedProduct;

namespace {

using Clock = std::chrono::steady_clock;

template <class Call>
void repeat(long count, Call&& call) {
  call();  // plans, and loads the kernel
  const auto began = Clock::now();
  for (long i = 0; i < count; ++i) call();
  const std::chrono::duration<double, std::nano> took = Clock::now() - began;
  if (count > 0) std::printf("%.1f ns per call\n", took.count() / static_cast<double>(count));
}

}  // namespace

int main(int count, char** words) {
  if (count != 3) return 2;
  testing::CacheDirectory directory;
  testing::use_fake_nvrtc();
  fake::use_fake_driver().quiet = true;
  const std::string_view op = words[1];
  const long calls = std::strtol(words[2], nullptr, 10);
  PlannedProduct one(64, 512, 512), other = one;
  // Where arrays are new in each call, as results are.
  PlannedProduct::shift(other.args.a.values, 4096);
  PlannedProduct::shift(*other.args.a.sf, 4096);
  PlannedProduct::shift(other.args.out, 4096);
  GroupedArgs groups, others;
  groups.a = one.args.a, others.a = other.args.a;
  groups.b.values =
      make_view(one.args.b.values.data, DType::float8_e4m3fn, {4, 512, 512}, test::gpu);
  groups.b.sf = make_view(one.args.b.sf->data, DType::float32, {4, 4, 4}, test::gpu);
  others.b = groups.b;
  groups.out = one.args.out, others.out = other.args.out;
  groups.groups = others.groups =
      make_view(reinterpret_cast<void*>(std::uintptr_t{9} << 48), DType::int32, {4}, test::gpu);
  bool turn = false;
  const auto next = [&](const auto& x, const auto& y) -> const auto& {
    return (turn = !turn) ? x : y;
  };
  if (op == "gemm") {
    repeat(calls, [&] { gemm(next(one.args, other.args)); });
  } else if (op == "grouped_gemm") {
    repeat(calls, [&] { grouped_gemm(next(groups, others)); });
  } else if (op == "plan") {
    const Plan plan = make_plan(one.args);
    repeat(calls, [&] { plan.run(next(one.args, other.args)); });
  } else {
    return 2;
  }
}
