// Grouped products as plan takes them, for what makes plans without running anything.
#pragma once

#include <optional>

#include "deepgemm/grouped.hpp"
#include "plan/grouped_call.hpp"

namespace deepgemm::ops {

// With every check made but those of the values in the group vector; nothing for a product without
// groups, rows or columns, which has nothing to compute.
std::optional<plan::GroupedCall> grouped_call_of(const GroupedArgs& args);
std::optional<plan::GroupedCall> grouped_call_of(const MaskedArgs& args);
std::optional<plan::GroupedCall> grouped_call_of(const KGroupedArgs& args);

}  // namespace deepgemm::ops
