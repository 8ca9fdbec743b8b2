// A product without data, whose every operand can be bent, for the tests of src/plan.
#pragma once

#include <optional>
#include <string>

#include "deepgemm/gemm.hpp"
#include "plan/gemm_plan.hpp"

namespace test {

using namespace deepgemm;

inline constexpr Device gpu{DeviceKind::cuda, 0};

// Aligned E4M3 operands, (1, 128) and (128, 128) factors in the fast layout, bfloat16 out.
// Addresses are never read: one range of 2^48 bytes each.
struct PlannedProduct {
  PlannedProduct(std::int64_t m, std::int64_t n, std::int64_t k,
                 Granularity b_granularity = {128, 128}) {
    args.a.values = view(1, DType::float8_e4m3fn, m, k);
    args.b.values = view(2, DType::float8_e4m3fn, n, k);
    args.out = view(3, DType::bfloat16, m, n);
    set_factors(args.a, 4, {1, 128}, m, k);
    set_factors(args.b, 5, b_granularity, n, k);
  }

  // The same of 16-bit operands, as they lie in memory in `layout`.
  PlannedProduct(std::int64_t m, std::int64_t n, std::int64_t k, DType dtype,
                 Layout layout = Layout::nt) {
    args.layout = layout;
    args.a.values = a_is_k_by_m(layout) ? view(1, dtype, k, m) : view(1, dtype, m, k);
    args.b.values = b_is_k_by_n(layout) ? view(2, dtype, k, n) : view(2, dtype, n, k);
    args.out = view(3, dtype, m, n);
  }

  static TensorView view(std::uintptr_t place, DType dtype, std::int64_t rows,
                         std::int64_t columns) {
    return make_view(reinterpret_cast<void*>(place << 48), dtype, {rows, columns}, gpu);
  }
  static void set_factors(ScaledView& x, std::uintptr_t place, const Granularity& granularity,
                          std::int64_t rows, std::int64_t k) {
    const ScaleExtents extents = scale_extents(granularity, rows, k);
    x.granularity = granularity;
    x.sf = view(place, DType::float32, extents.rows, extents.k);
    if (granularity.rows == 1) x.sf->strides = {1, fast_scale_pitch(extents.rows)};
  }
  static void shift(TensorView& view, std::int64_t bytes) {
    view.data = static_cast<char*>(view.data) + bytes;
  }
  void set_out(DType dtype) { args.out = view(3, dtype, args.out.shape[0], args.out.shape[1]); }
  void add_c_of_its_own() {
    args.c = view(6, args.out.dtype, args.out.shape[0], args.out.shape[1]);
  }

  plan::GemmPlan plan(const Policy* policy = nullptr, plan::SmBudget sms = {132, false}) const {
    return plan::make_gemm_plan(make_problem(args), args, policy, sms);
  }

  GemmArgs args;
};

}  // namespace test
