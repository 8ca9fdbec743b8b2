// A problem as text: in words for people, and as one line of JSON from which the same plan can be
// made again without its arrays (DEEPGEMM_TRACE, `deepgemm warmup --trace`; docs/warmup.md).
#pragma once

#include <string>

#include "plan/gemm_batch.hpp"
#include "plan/grouped_call.hpp"
#include "plan/hopper.hpp"

namespace deepgemm::plan {

// Where a call runs: what a plan depends on beside the arrays.
struct CallSite {
  int device = 0;
  SmBudget sms;
  const Policy* policy = nullptr;
};

// "gemm 4096x7168x2048 float8_e4m3fn x float8_e4m3fn to bfloat16"; "masked_gemm of 8 groups, ...".
std::string words_of(const GemmProblem& problem, std::int64_t batch);
std::string words_of(const GroupedCall& call);

// Of the first product of a batch, with its factors as [rows, k], and the distances to the others.
std::string record_of(const GemmProblem& problem, const GemmArgs& first, const GemmBatch& batch,
                      const CallSite& site);
std::string record_of(const GroupedCall& call, const CallSite& site);
// Of one matrix of values: what its kernel depends on.
std::string record_of_quantize(const TensorView& values, const Granularity& granularity);
std::string record_of_dequantize(const TensorView& values);
// One kernel for all of them.
std::string record_of_scale_layout();

}  // namespace deepgemm::plan
