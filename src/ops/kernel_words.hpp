// The config of a kernel in words.
#pragma once

#include <string>

#include "jit/kernel.hpp"

namespace deepgemm::ops {

// "e4m3 x e4m3, out bf16, 128x128x128, 4 stages, ...": types and what explain() says of a config.
// Empty for a kernel that is none of the library's. Messages of src/jit have it too.
std::string config_words(const jit::KernelSpec& spec);

}  // namespace deepgemm::ops
