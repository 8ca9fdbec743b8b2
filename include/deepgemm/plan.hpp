// A call prepared ahead: checked, its config chosen, its kernel loaded, its descriptors encoded.
#pragma once

#include <memory>
#include <variant>

#include "deepgemm/gemm.hpp"
#include "deepgemm/grouped.hpp"
#include "deepgemm/runtime.hpp"

namespace deepgemm {

using Problem = std::variant<GemmProblem, GroupedProblem>;

// Runs calls that differ from the one it was made for in addresses, in stream, in what the arrays
// hold, and in the values of alpha and out_scale. It keeps no array alive and holds no address.
// Copies share what they hold; any number of threads may run one at once.
class DEEPGEMM_API Plan {
 public:
  // The arrays have the dtypes, devices, shapes and strides of the example's, and on a GPU their
  // place within 16 bytes; c is out where it was out there; alpha and out_scale are 1 where they
  // were, and any other number where they were not; factors without a granularity have the plan's,
  // and a given one means the same; the rest is equal. What differs is named by a
  // ValueError or TypeError, and so is an out that overlaps an input. The values of group vectors
  // are checked as by the operation itself.
  void run(const GemmArgs& args, Stream stream = nullptr) const;
  void run(const GroupedArgs& args, Stream stream = nullptr) const;
  void run(const MaskedArgs& args, Stream stream = nullptr) const;
  void run(const KGroupedArgs& args, Stream stream = nullptr) const;

  const Problem& problem() const noexcept;
  // What was chosen, and why; of a gemm on a GPU also what else was weighed.
  const KernelReport& explain() const noexcept;

 private:
  struct State;
  friend struct PlanMaker;
  explicit Plan(std::shared_ptr<const State> state) : state_(std::move(state)) {}
  std::shared_ptr<const State> state_;
};

// Makes every check of the operation, and of `options` all but the stream a part of the plan.
// Launches nothing. Throws as the operation does.
DEEPGEMM_API Plan make_plan(const GemmArgs& example, const CallOptions& options = {});
DEEPGEMM_API Plan make_plan(const GroupedArgs& example, const CallOptions& options = {});
DEEPGEMM_API Plan make_plan(const MaskedArgs& example, const CallOptions& options = {});
DEEPGEMM_API Plan make_plan(const KGroupedArgs& example, const CallOptions& options = {});

}  // namespace deepgemm
