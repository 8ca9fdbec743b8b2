#include "ops/batches.hpp"

#include <string>

#include "core/text.hpp"
#include "ops/checks.hpp"
#include "ops/granularity.hpp"
#include "ops/stacks.hpp"

namespace deepgemm::ops {
namespace {

std::int64_t matrices_in(const TensorView& view) { return view.rank == 3 ? view.shape[0] : 1; }

// Leaves the first matrix of a stack; returns the distance to the others.
std::int64_t take_first(TensorView& view) {
  if (view.rank != 3) return 0;
  const std::int64_t distance = view.shape[0] > 1 ? view.strides[0] : 0;
  view = without_first(view);
  return distance;
}
std::int64_t take_first(std::optional<TensorView>& view) { return view ? take_first(*view) : 0; }

// The factors of values of rank 2 are one matrix, or one element of any rank.
std::int64_t take_first_factors(ScaledView& operand) {
  return operand.values.rank == 3 ? take_first(operand.sf) : 0;
}

}  // namespace

std::int64_t batch_of(const GemmArgs& args) {
  const std::int64_t a = matrices_in(args.a.values), b = matrices_in(args.b.values);
  if (a == b || b == 1) return a;
  if (a == 1) return b;
  throw ValueError(complaint("b", join("shape ", shape_text(args.b.values), ", ", b, " matrices"),
                             join(a, " matrices, or 1 for all"),
                             join("a has shape ", shape_text(args.a.values))));
}

TensorView batched_addend(const TensorView& c, const GemmProblem& problem) {
  const bool is_one = c.rank == 2 || (c.rank == 3 && c.shape[0] == 1);
  if (!is_one || c.shape[c.rank - 2] != problem.m || c.shape[c.rank - 1] != problem.n) return c;
  TensorView all = c;
  all.rank = 3;
  all.shape = {problem.batch, problem.m, problem.n};
  all.strides = {0, c.strides[c.rank - 2], c.strides[c.rank - 1]};
  return all;
}

FirstProduct first_product(const GemmArgs& given, const GemmProblem& problem) {
  FirstProduct first;
  first.batch.count = problem.batch;
  if (!is_batched(given)) {
    first.changed = with_scales_by_rows(given);
    return first;
  }
  GemmArgs args = given;
  first.batch.sfa = take_first_factors(args.a);
  first.batch.sfb = take_first_factors(args.b);
  first.batch.a = take_first(args.a.values);
  first.batch.b = take_first(args.b.values);
  first.batch.out = take_first(args.out);
  first.batch.c = take_first(args.c);
  first.changed = with_scales_by_rows(args);
  if (!first.changed) first.changed = args;
  return first;
}

}  // namespace deepgemm::ops
