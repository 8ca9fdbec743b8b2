// What the tests of src/jit share: kernels that need no device sources, a private cache directory,
// and the fake NVRTC.
#pragma once

#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "core/files.hpp"
#include "core/log.hpp"
#include "core/text.hpp"
#include "jit/kernel.hpp"

namespace deepgemm::testing {

// A directory of mode 0700 that is removed with its files. DEEPGEMM_CACHE_DIR names `path`.
class CacheDirectory {
 public:
  CacheDirectory() {
    char name[] = "/tmp/deepgemm-test-XXXXXX";
    if (mkdtemp(name) == nullptr) std::abort();
    root_ = name;
    path = root_ + "/cache";
    setenv("DEEPGEMM_CACHE_DIR", path.c_str(), 1);
  }
  ~CacheDirectory() {
    unsetenv("DEEPGEMM_CACHE_DIR");
    const std::string command = "chmod -R u+rwx " + root_ + "; rm -rf " + root_;
    if (std::system(command.c_str()) != 0) std::abort();
  }
  std::vector<std::string> files() const { return deepgemm::files::list(path, ""); }
  std::string only_file() const {
    const auto found = files();
    return found.size() == 1 ? path + "/" + found.front() : std::string();
  }
  const std::string& root() const { return root_; }

  std::string path;

 private:
  std::string root_;
};

// Messages while it lives, in place of stderr.
class CapturedLog {
 public:
  CapturedLog() {
    messages().clear();
    log::set_sink([](log::Level level, std::string_view text) {
      if (level == log::Level::warning) messages().emplace_back(text);
    });
  }
  ~CapturedLog() { log::set_sink(nullptr); }
  static std::vector<std::string>& messages() {
    static std::vector<std::string> instance;
    return instance;
  }
};

// A trivial kernel; the config's text is put into its source, so it can ask for BROKEN or SLOW.
inline jit::KernelSpec test_kernel(const std::string& config) {
  jit::KernelSpec spec;
  spec.name = "deepgemm_test_kernel";
  spec.config = config;
  spec.entry = [](const jit::KernelSpec& kernel) {
    return join("// ", kernel.config, "\nextern \"C\" __global__ void ", kernel.name,
                "(float* x) { x[threadIdx.x] += 1; }\n");
  };
  return spec;
}

// A config that no other test of this process used, so that the table of the process has no entry.
inline jit::KernelSpec fresh_kernel(const std::string& marker = "") {
  static int counter = 0;
  return test_kernel(join("kernel ", ++counter, " ", marker));
}

// Makes the code under test use the fake NVRTC; returns its counter of compiles.
inline int (*use_fake_nvrtc())() {
  setenv("DEEPGEMM_NVRTC_PATH", FAKE_NVRTC_PATH, 1);
  void* library = dlopen(FAKE_NVRTC_PATH, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) std::abort();
  return reinterpret_cast<int (*)()>(dlsym(library, "fake_nvrtc_compiles"));
}

}  // namespace deepgemm::testing
