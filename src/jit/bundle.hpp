// Cubins shipped with the library or named by DEEPGEMM_BUNDLE: one file, mapped at first need, of
// which a look-up unpacks one kernel. A bundle that is not whole is passed by with one warning.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "jit/kernel_key.hpp"

namespace deepgemm::jit {

// The cubin of this family, or nothing.
// Why whatever compiler made it: a bundle is there so that nothing is compiled, with whichever
// NVRTC is installed and with none.
std::optional<std::string> find_in_bundle(const std::string& family);

struct BundleInfo {
  std::string path;     // empty if there is none
  std::string problem;  // why it is not used
  std::size_t kernels = 0, bytes = 0;
  CompilerVersion compiler;
};
// Of the bundle that look-ups use now.
BundleInfo bundle_info();

}  // namespace deepgemm::jit
