// Cubins shipped with the library. A seam: there is no bundle yet, so nothing is ever found.
#pragma once

#include <optional>
#include <string>

#include "jit/kernel_key.hpp"

namespace deepgemm::jit {

// Bytes of the cubin of this family, built by any compiler version, or nothing.
std::optional<std::string> find_in_bundle(const std::string& kernel, const std::string& family);

}  // namespace deepgemm::jit
