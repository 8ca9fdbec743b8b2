// Makes the file of a bundle.
#pragma once

#include <string>
#include <vector>

#include "jit/kernel_key.hpp"

namespace deepgemm::jit {

struct BundleMember {
  std::string kernel;  // its name: kernels of one name resemble one another
  std::string family;
  std::string cubin;
};
// The whole file; of several members of one family the first counts. Neighbours should resemble one
// another. Throws Error without zlib.
std::string encode_bundle(const std::vector<BundleMember>& members, CompilerVersion compiler);

}  // namespace deepgemm::jit
