// Calls on a GPU: prepared once with every check, then found and launched again.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "deepgemm/gemm.hpp"
#include "deepgemm/grouped.hpp"
#include "plan/cuda_backend.hpp"
#include "plan/plan_cache.hpp"

namespace deepgemm::ops {

// Whether the values of a group vector are looked at, if DEEPGEMM_CHECK_GROUPS says so.
enum class GroupValues : bool { unread, checked };

// Makes every check, plans and loads. Nothing where there is nothing to compute. The arrays are on
// a CUDA device.
std::optional<plan::Prepared> prepare(const GemmArgs& args, const CallOptions& options,
                                      GroupValues values);
std::optional<plan::Prepared> prepare(const GroupedArgs& args, const CallOptions& options,
                                      GroupValues values);
std::optional<plan::Prepared> prepare(const MaskedArgs& args, const CallOptions& options,
                                      GroupValues values);
std::optional<plan::Prepared> prepare(const KGroupedArgs& args, const CallOptions& options,
                                      GroupValues values);

// If DEEPGEMM_CHECK_GROUPS is set: the values of the group vector, as groups.hpp says. The rest of
// the arguments is checked already.
inline void check_group_values(const GemmArgs&, Stream) {}
void check_group_values(const GroupedArgs& args, Stream stream);
void check_group_values(const MaskedArgs& args, Stream stream);
void check_group_values(const KGroupedArgs& args, Stream stream);

// What a hit proves: a call of the same signature has passed every check that looks at no address.
// What is left is whether out overlaps an input now; memory that merely lies between the rows of
// another array is told apart by the checks themselves.
template <class Args>
void run_on_gpu(const Args& args, const CallOptions& options) {
  const plan::Signature signature(args, options);
  const plan::CallValues values(args);
  plan::PreparedCall* call = plan::find_call(signature, signature.hash());
  if (call == nullptr) {
    std::optional<plan::Prepared> made = prepare(args, options, GroupValues::checked);
    if (!made) return;
    call = &plan::keep_call(signature, signature.hash(), std::move(made->call));
  } else {
    if (call->may_overlap(values)) make_problem(args);
    check_group_values(args, options.stream);
  }
  call->run(values, options.stream);
}

}  // namespace deepgemm::ops
