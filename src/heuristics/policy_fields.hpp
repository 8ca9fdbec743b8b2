// Fields of a Policy in place of a config's own.
#pragma once

#include <limits>
#include <optional>

#include "core/text.hpp"
#include "deepgemm/error.hpp"

namespace deepgemm::heuristics {

// `policy.<name>` as a value of the narrow type that a config holds; unset leaves `field` as it is.
// What is 0, negative or too large for the type is a ValueError: cast, it would be another config.
template <class Field>
void override_with(const char* name, const std::optional<int>& given, Field& field) {
  if (!given) return;
  constexpr int largest = std::numeric_limits<Field>::max();
  if (*given < 1 || *given > largest) {
    throw ValueError(complaint(join("policy.", name), to_text(*given), join("1 to ", largest)));
  }
  field = static_cast<Field>(*given);
}

}  // namespace deepgemm::heuristics
