#include "jit/bundle.hpp"

namespace deepgemm::jit {

std::optional<std::string> find_in_bundle(const std::string& /*kernel*/,
                                          const std::string& /*family*/) {
  return std::nullopt;
}

}  // namespace deepgemm::jit
