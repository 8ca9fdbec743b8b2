// Where libnvrtc may be. Only names places; nvrtc_api.cpp tries them in this order.
#pragma once

#include <string>
#include <vector>

namespace deepgemm::jit {

struct NvrtcCandidate {
  std::string path;             // a file, or a bare soname
  bool already_loaded = false;  // take it only if the process has it
};

// `explicit_path` (DEEPGEMM_NVRTC_PATH: the library or its directory) excludes every other place.
// `directories` are those of the Python wheels.
std::vector<NvrtcCandidate> nvrtc_candidates(const std::string& explicit_path,
                                             const std::vector<std::string>& directories);

// Files named libnvrtc-builtins.so.* beside `library`, of its major version if its name has one.
std::vector<std::string> sibling_builtins(const std::string& library);

}  // namespace deepgemm::jit
