#include "jit/nvrtc_search.hpp"

#include <dlfcn.h>
#include <glob.h>

#include "core/env.hpp"
#include "core/files.hpp"

namespace deepgemm::jit {
namespace {

// Newest first. The file names of all Linux wheels and toolkits; also the sonames.
constexpr const char* sonames[] = {"libnvrtc.so.13", "libnvrtc.so.12"};

using Candidates = std::vector<NvrtcCandidate>;

std::string directory_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string() : path.substr(0, slash);
}

std::vector<std::string> matches(const std::string& pattern) {
  std::vector<std::string> paths;
  glob_t found{};
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0) {
    paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  globfree(&found);
  return paths;
}

void add_directories(Candidates& candidates, const std::vector<std::string>& directories) {
  for (const char* soname : sonames) {
    for (const std::string& directory : directories) {
      candidates.push_back({directory + "/" + soname, false});
    }
  }
}

// libdeepgemm.so lies in site-packages/deepgemm/lib, or in site-packages/deepgemm; the wheels'
// libraries lie in site-packages/nvidia/cu13/lib or site-packages/nvidia/cuda_nvrtc/lib.
std::vector<std::string> wheel_directories_beside_this_library() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&sibling_builtins), &info) == 0) return {};
  if (info.dli_fname == nullptr) return {};
  const std::string here = directory_of(info.dli_fname);
  if (here.empty()) return {};
  std::vector<std::string> found = matches(here + "/../../nvidia/*/lib");
  for (std::string& path : matches(here + "/../nvidia/*/lib")) found.push_back(std::move(path));
  return found;
}

std::vector<std::string> toolkit_directories() {
  std::vector<std::string> found;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"}) {
    if (const auto root = env::foreign(variable)) found.push_back(*root + "/lib64");
  }
  found.emplace_back("/usr/local/cuda/lib64");
  return found;
}

// "12" of ".../libnvrtc.so.12" and ".../libnvrtc.so.12.3.107"; empty if there is no number.
std::string major_version(const std::string& library) {
  const std::size_t at = library.rfind(".so.");
  if (at == std::string::npos) return {};
  const std::string version = library.substr(at + 4);
  return version.substr(0, version.find('.'));
}

}  // namespace

std::vector<NvrtcCandidate> nvrtc_candidates(const std::string& explicit_path,
                                             const std::vector<std::string>& directories) {
  Candidates candidates;
  if (!explicit_path.empty()) {
    // Why nothing else: a wrong setting that is silently replaced hides which compiler was used.
    if (files::is_directory(explicit_path)) {
      add_directories(candidates, {explicit_path});
    } else {
      candidates.push_back({explicit_path, false});
    }
    return candidates;
  }
  for (const char* soname : sonames) candidates.push_back({soname, true});
  add_directories(candidates, directories);
  add_directories(candidates, wheel_directories_beside_this_library());
  add_directories(candidates, toolkit_directories());
  for (const char* soname : sonames) candidates.push_back({soname, false});
  return candidates;
}

std::vector<std::string> sibling_builtins(const std::string& library) {
  const std::string directory = directory_of(library);
  if (directory.empty()) return {};
  return matches(directory + "/libnvrtc-builtins.so." + major_version(library) + "*");
}

}  // namespace deepgemm::jit
