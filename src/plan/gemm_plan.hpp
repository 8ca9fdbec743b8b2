// How a dense product is launched on one device: kernel, config, and what each call fills in.
#pragma once

#include <string>

#include "deepgemm/gemm.hpp"
#include "heuristics/decode_heuristics.hpp"
#include "heuristics/gemm_heuristics.hpp"
#include "jit/kernel.hpp"
#include "plan/gemm_batch.hpp"
#include "plan/hopper.hpp"
#include "plan/operands.hpp"
#include "plan/prepared_call.hpp"

namespace deepgemm::plan {

enum class GemmKernel { general, persistent, decode };

// Decided from shapes, dtypes, strides and alignment; holds no address.
struct GemmPlan {
  GemmKernel kernel = GemmKernel::general;
  bool whole_batch = false;         // one launch computes all products of a batch
  heuristics::GemmChoice choice;    // persistent only
  heuristics::DecodeChoice decode;  // decode only
  std::string reason;               // why this kernel, in words
  jit::KernelSpec spec;
  int threads = 0;
  std::int64_t grid = 0;
  int cluster = 1;
  int shared_bytes = 0;  // dynamic
  std::string range;     // the name of the NVTX range around its launches; empty: none
};

// A config that shows how TMA would see the operands.
device::GemmConfig smallest_config(const GemmProblem& problem, const RowsByK& a, const RowsByK& b);
// Empty if the persistent kernel can take the problem, else why not.
std::string why_not_persistent(const GemmProblem& problem, const RowsByK& a, const RowsByK& b);
// What it would be asked.
heuristics::GemmRequest persistent_request(const GemmProblem& problem, const GemmArgs& args,
                                           const RowsByK& a, const RowsByK& b, int num_sms);
GemmPlan persistent_plan(const heuristics::GemmRequest& request, const Policy* policy);

// Of a batch: the plan for all of it, or where no launch takes that, the one for each product.
// `policy` may be null. Throws ValueError that names the field or the rule for a policy that is
// illegal or that the problem rules out.
GemmPlan make_gemm_plan(const GemmProblem& problem, const GemmArgs& args, const Policy* policy,
                        const SmBudget& sms, const GemmBatch& batch = {});
// What make_gemm_plan() weighs without a policy, cheapest first; empty where only the general
// kernel can take the problem.
struct GemmCandidates {
  std::vector<heuristics::GemmChoice> persistent;
  std::vector<heuristics::DecodeChoice> decode;
};
GemmCandidates gemm_candidates(const GemmProblem& problem, const GemmArgs& args,
                               const SmBudget& sms, const GemmBatch& batch = {});
// Parameters and launch of one product, or with a plan for a whole batch, of all of them.
PreparedLaunch prepare_launch(const GemmPlan& plan, CUfunction function, const GemmProblem& problem,
                              const GemmArgs& args, const GemmBatch& batch,
                              const CallOptions& options);

}  // namespace deepgemm::plan
