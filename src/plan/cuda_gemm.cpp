// gemm on a CUDA device: which kernels, and their parameters.
#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>
#include <vector>

#include "driver/driver.hpp"
#include "plan/cuda_backend.hpp"
#include "plan/hopper.hpp"
#include "plan/new_plan.hpp"

namespace deepgemm::plan {
namespace {

using Distances = std::array<std::int64_t, role_count>;

// From the arrays of one product to those of the next, in bytes.
Distances distances_of(const GemmArgs& first, const GemmBatch& batch) {
  Distances distances{};
  const auto set = [&](Role role, const TensorView& view, std::int64_t elements) {
    distances[static_cast<std::size_t>(role)] = elements * size_in_bytes(view.dtype);
  };
  set(Role::a, first.a.values, batch.a);
  set(Role::b, first.b.values, batch.b);
  set(Role::out, first.out, batch.out);
  if (first.a.sf) set(Role::sfa, *first.a.sf, batch.sfa);
  if (first.b.sf) set(Role::sfb, *first.b.sf, batch.sfb);
  if (first.c) set(Role::c, *first.c, batch.c);
  return distances;
}

// A launch for each product, with as many plans as there are places within 16 bytes.
Prepared prepare_each(const GemmProblem& problem, const GemmArgs& first, const GemmBatch& batch,
                      int device, const SmBudget& sms, const CallOptions& options) {
  GemmBatch different = batch;
  different.count = std::min(batch.count, period_of_plans(first, batch));
  std::vector<PreparedLaunch> launches;
  jit::LoadedKernel first_kernel;
  for_each_product(first, different, [&](const GemmArgs& args, std::int64_t i) {
    GemmPlan plan = make_gemm_plan(problem, args, options.policy, sms);
    const jit::LoadedKernel& kernel =
        load_new_plan(plan, {device, sms, options.policy}, problem, args, {});
    launches.push_back(prepare_launch(plan, kernel.function, problem, args, {}, options));
    if (i == 0) first_kernel = kernel;
  });
  return {PreparedCall(device, std::move(launches), batch.count, distances_of(first, batch)),
          first_kernel};
}

}  // namespace

Prepared prepare(const GemmProblem& problem, const GemmArgs& first, const GemmBatch& batch,
                 const CallOptions& options) {
  const int device = first.out.device.index;
  const SmBudget sms = sm_budget(hopper_device(device).sm_count, options.num_sms, options.policy);
  const driver::ContextGuard context(device);
  GemmPlan plan = make_gemm_plan(problem, first, options.policy, sms, batch);
  if (batch.count > 1 && !plan.whole_batch) {
    return prepare_each(problem, first, batch, device, sms, options);
  }
  const jit::LoadedKernel& kernel =
      load_new_plan(plan, {device, sms, options.policy}, problem, first, batch);
  const PreparedLaunch launch =
      prepare_launch(plan, kernel.function, problem, first, batch, options);
  return {PreparedCall(device, {launch}), kernel};
}

}  // namespace deepgemm::plan
