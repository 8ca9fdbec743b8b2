// A batch of products as that of its first matrices and the distances to the others.
#pragma once

#include <cstdint>
#include <optional>

#include "deepgemm/gemm.hpp"

namespace deepgemm::plan {

// What a batched product adds to that of its first matrices: how many, and the distances between
// them in elements; 0: one for all.
struct GemmBatch {
  std::int64_t count = 1, a = 0, sfa = 0, b = 0, sfb = 0, out = 0, c = 0;
};

inline void advance(TensorView& view, std::int64_t elements) {
  view.data = static_cast<char*>(view.data) + elements * size_in_bytes(view.dtype);
}
inline void advance(std::optional<TensorView>& view, std::int64_t elements) {
  if (view) advance(*view, elements);
}

// Calls function(args, i) with the arguments of each product of the batch.
template <class Function>
void for_each_product(const GemmArgs& first, const GemmBatch& batch, Function&& function) {
  if (batch.count == 0) return;
  function(first, std::int64_t{0});
  if (batch.count == 1) return;
  GemmArgs args = first;
  for (std::int64_t i = 1; i < batch.count; ++i) {
    advance(args.a.values, batch.a);
    advance(args.a.sf, batch.sfa);
    advance(args.b.values, batch.b);
    advance(args.b.sf, batch.sfb);
    advance(args.out, batch.out);
    advance(args.c, batch.c);
    function(static_cast<const GemmArgs&>(args), i);
  }
}

// After how many matrices every operand lies at the same address modulo 16 bytes again: plans
// depend on that, and on nothing else that differs within a batch.
inline std::int64_t period_of_plans(const GemmArgs& first, const GemmBatch& batch) {
  std::int64_t bits = 16;
  const auto add = [&](const TensorView& view, std::int64_t distance) {
    bits |= distance * size_in_bytes(view.dtype);
  };
  add(first.a.values, batch.a);
  add(first.b.values, batch.b);
  add(first.out, batch.out);
  if (first.a.sf) add(*first.a.sf, batch.sfa);
  if (first.b.sf) add(*first.b.sf, batch.sfb);
  if (first.c) add(*first.c, batch.c);
  const std::int64_t step = bits & -bits;  // the power of two that divides every distance
  return 16 / step;
}

}  // namespace deepgemm::plan
