#include "jit/nvrtc_api.hpp"

#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <utility>

#include "core/env.hpp"
#include "core/log.hpp"
#include "core/text.hpp"
#include "jit/nvrtc_search.hpp"

namespace deepgemm::jit {
namespace {

// 12.0 is the first that knows sm_90a and C++20; 12.3 is the oldest that is tested.
constexpr int oldest_major = 12, oldest_minor = 3;
constexpr std::chrono::seconds retry_pause{1};

struct Search {
  std::string explicit_path;
  std::vector<std::string> directories;
  friend bool operator==(const Search&, const Search&) = default;
};
struct Failure {
  Search search;
  std::string message;
  std::chrono::steady_clock::time_point retry_at;
};
struct State {
  std::mutex mutex;
  std::vector<std::string> directories;
  std::optional<Failure> failure;
};

std::atomic<const NvrtcApi*> loaded{nullptr};

State& state() {
  static State* const instance = new State;  // never destroyed: threads may outlive main
  return *instance;
}

std::string last_dl_error() {
  const char* text = dlerror();
  return text != nullptr ? text : "unknown error";
}

std::string path_of(void* library, const std::string& fallback) {
  link_map* map = nullptr;
  if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr) return fallback;
  return map->l_name != nullptr && map->l_name[0] != '\0' ? map->l_name : fallback;
}

// Why: libnvrtc of CUDA 13.0 has no RPATH, so it finds its builtins only if they are on the
// loader's path or already in the process; without them every compile fails
// (BUILTIN_OPERATION_FAILURE).
void preload_builtins(const std::string& library) {
  for (const std::string& path : sibling_builtins(library)) {
    if (dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) {
      log::write(log::Level::info, join("cannot preload ", path, ": ", last_dl_error()));
    }
  }
}

template <class Function>
bool resolve(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

bool fill_table(void* library, NvrtcApi& api) {
  resolve(library, "nvrtcGetPTXSize", api.GetPTXSize);  // for dumps only: need not be there
  resolve(library, "nvrtcGetPTX", api.GetPTX);
  return resolve(library, "nvrtcVersion", api.Version) &&
         resolve(library, "nvrtcGetErrorString", api.GetErrorString) &&
         resolve(library, "nvrtcCreateProgram", api.CreateProgram) &&
         resolve(library, "nvrtcDestroyProgram", api.DestroyProgram) &&
         resolve(library, "nvrtcCompileProgram", api.CompileProgram) &&
         resolve(library, "nvrtcGetCUBINSize", api.GetCUBINSize) &&
         resolve(library, "nvrtcGetCUBIN", api.GetCUBIN) &&
         resolve(library, "nvrtcGetProgramLogSize", api.GetProgramLogSize) &&
         resolve(library, "nvrtcGetProgramLog", api.GetProgramLog);
}

// Empty if `api` was filled from `library`, else why not.
std::string adopt(void* library, NvrtcApi& api) {
  if (!fill_table(library, api)) return "not an NVRTC library";
  if (api.Version(&api.major, &api.minor) != NVRTC_SUCCESS) return "nvrtcVersion failed";
  if (std::pair(api.major, api.minor) < std::pair(oldest_major, oldest_minor)) {
    return join("version ", api.major, ".", api.minor, ", need ", oldest_major, ".", oldest_minor,
                " or newer");
  }
  return {};
}

std::string try_candidate(const NvrtcCandidate& candidate, NvrtcApi& api) {
  if (!candidate.already_loaded) preload_builtins(candidate.path);
  const int mode = RTLD_NOW | RTLD_LOCAL | (candidate.already_loaded ? RTLD_NOLOAD : 0);
  void* library = dlopen(candidate.path.c_str(), mode);
  if (library == nullptr) {
    return candidate.already_loaded ? std::string("not loaded in this process") : last_dl_error();
  }
  std::string problem = adopt(library, api);
  if (!problem.empty()) {
    dlclose(library);
    return problem;
  }
  api.path = path_of(library, candidate.path);
  preload_builtins(api.path);  // a bare soname shows its directory only now
  return {};
}

const NvrtcApi* find(const Search& search) {
  std::string trail;
  for (const auto& candidate : nvrtc_candidates(search.explicit_path, search.directories)) {
    NvrtcApi api{};
    const std::string problem = try_candidate(candidate, api);
    if (problem.empty()) {
      log::write(log::Level::debug, join("NVRTC ", api.major, ".", api.minor, " from ", api.path));
      return new NvrtcApi(std::move(api));
    }
    const bool named = problem.starts_with(candidate.path);  // dlerror() begins with the path
    trail += join("\n  ", named ? "" : candidate.path + ": ", problem);
  }
  if (!search.explicit_path.empty()) {
    throw CompileError(join("DEEPGEMM_NVRTC_PATH is set, to ", search.explicit_path,
                            ", which is no usable NVRTC, and nothing else was tried: name a "
                            "libnvrtc.so or its directory, or unset it. Tried:",
                            trail),
                       {});
  }
  throw CompileError(
      join("no usable NVRTC, which compiles the kernels. Install it with: pip install "
           "\"nvidia-cuda-nvrtc>=13,<14\", or set DEEPGEMM_NVRTC_PATH. Tried:",
           trail),
      {});
}

const NvrtcApi& find_once() {
  State& shared = state();
  std::lock_guard lock(shared.mutex);
  if (const NvrtcApi* api = loaded.load(std::memory_order_acquire)) return *api;
  Search search{env::text("DEEPGEMM_NVRTC_PATH").value_or(""), shared.directories};
  const auto now = std::chrono::steady_clock::now();
  if (shared.failure && shared.failure->search == search && now < shared.failure->retry_at) {
    throw CompileError(shared.failure->message, {});
  }
  try {
    const NvrtcApi* api = find(search);
    loaded.store(api, std::memory_order_release);
    return *api;
  } catch (const CompileError& error) {
    shared.failure = Failure{std::move(search), error.what(), now + retry_pause};
    throw;
  }
}

}  // namespace

const NvrtcApi& nvrtc_api() {
  if (const NvrtcApi* api = loaded.load(std::memory_order_acquire)) return *api;
  return find_once();
}

NvrtcInfo nvrtc_info() noexcept {
  NvrtcInfo info;
  try {
    const NvrtcApi& api = nvrtc_api();
    info.path = api.path;
    info.major = api.major;
    info.minor = api.minor;
  } catch (const std::exception& error) {
    try {
      info.problem = error.what();
    } catch (...) {  // no memory even for the reason
    }
  }
  return info;
}

void set_nvrtc_search_path(std::vector<std::string> directories) {
  State& shared = state();
  std::lock_guard lock(shared.mutex);
  shared.directories = std::move(directories);
}

}  // namespace deepgemm::jit
