// Grouped products on a CUDA device. They have no kernel yet: each says so.
#include <string_view>

#include "core/text.hpp"
#include "plan/cuda_backend.hpp"

namespace deepgemm::plan {
namespace {

[[noreturn]] void refuse(std::string_view operation, const TensorView& out) {
  throw Error(complaint(operation, join("arrays on ", describe(out.device)),
                        "arrays in host memory",
                        "this operation has no GPU kernel yet; the CPU reference computes it"));
}

}  // namespace

void grouped_gemm(const GroupedProblem&, const GroupedArgs& args, const CallOptions&) {
  refuse("grouped_gemm", args.out);
}

void masked_gemm(const GroupedProblem&, const MaskedArgs& args, const CallOptions&) {
  refuse("masked_gemm", args.out);
}

void k_grouped_gemm(const GroupedProblem&, const KGroupedArgs& args, const CallOptions&) {
  refuse("k_grouped_gemm", args.out);
}

}  // namespace deepgemm::plan
