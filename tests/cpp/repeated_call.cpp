// repeated_call OP COUNT: COUNT calls of one product on the fake driver, which records nothing. The
// difference between two counts under valgrind is what a repeated call costs in instructions, and
// the time that is printed what it costs here; tests/python/test_call_cost.py runs it.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>

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
  bool turn = false;
  const auto next = [&]() -> const GemmArgs& { return (turn = !turn) ? one.args : other.args; };
  if (op == "gemm") {
    repeat(calls, [&] { gemm(next()); });
  } else {
    return 2;
  }
}
