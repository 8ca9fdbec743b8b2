#include "jit/bundle.hpp"

#include <dlfcn.h>
#include <sys/stat.h>

#include <memory>
#include <mutex>
#include <tuple>
#include <utility>

#include "core/env.hpp"
#include "core/log.hpp"
#include "core/text.hpp"
#include "jit/bundle_file.hpp"
#include "jit/path_setting.hpp"

namespace deepgemm::jit {
namespace {

constexpr const char* shipped_name = "deepgemm.bundle";

// Beside libdeepgemm.so, or beside the program that it is linked into.
std::string shipped_path() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&bundle_info), &info) == 0) return {};
  if (info.dli_fname == nullptr) return {};
  const std::string library = info.dli_fname;
  return library.substr(0, library.rfind('/') + 1) + shipped_name;
}

// A file that is changed or replaced is another one.
using Identity = std::tuple<std::string, dev_t, ino_t, off_t, std::int64_t, std::int64_t>;

struct Bundle {
  std::string path;
  std::string problem;
  std::shared_ptr<const BundleFile> file;
};

Bundle open(const std::string& path, bool named) {
  struct stat status{};
  const bool there = ::stat(path.c_str(), &status) == 0;
  if (!there && !named) return {};  // it need not be shipped
  static std::mutex mutex;
  static auto& kept = *new std::pair<Identity, Bundle>;
  const Identity identity{path,           status.st_dev,         status.st_ino,
                          status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
  std::lock_guard lock(mutex);
  // Why compared at every look-up: memory mapped past the end of a file that was cut is no memory.
  if (kept.second.path != path || kept.first != identity) {
    Bundle bundle{path, {}, nullptr};
    bundle.file = BundleFile::open(path, bundle.problem);
    kept = {identity, bundle};
  }
  return kept.second;
}

// With one warning if there is one that cannot be used.
Bundle current() {
  const auto setting = env::text("DEEPGEMM_BUNDLE");
  if (setting == "off") return {};
  Bundle bundle;
  if (const auto named = path_setting("DEEPGEMM_BUNDLE")) {
    // Why nothing else: a wrong setting that is silently replaced hides which kernels are used.
    bundle = named->problem.empty() ? open(named->path, true)
                                    : Bundle{*setting, named->problem, nullptr};
  } else if (const std::string shipped = shipped_path(); !shipped.empty()) {
    bundle = open(shipped, false);
  }
  if (!bundle.problem.empty()) {
    log::warn_once(join("the kernel bundle ", bundle.path, " is not used: ", bundle.problem));
  }
  return bundle;
}

}  // namespace

std::optional<std::string> find_in_bundle(const std::string& family) {
  const Bundle bundle = current();
  if (!bundle.file) return std::nullopt;
  std::string problem;
  auto cubin = bundle.file->find(digest_of(family), problem);
  if (!problem.empty()) {
    log::warn_once(join("the kernel bundle ", bundle.path, " is damaged: ", problem));
  }
  return cubin;
}

BundleInfo bundle_info() {
  const Bundle bundle = current();
  BundleInfo info{bundle.path, bundle.problem, 0, 0, {}};
  if (bundle.file) {
    const BundleHeader& header = bundle.file->header();
    info.kernels = header.kernels;
    info.bytes = header.bytes;
    info.compiler = {static_cast<int>(header.compiler_major),
                     static_cast<int>(header.compiler_minor)};
  }
  return info;
}

}  // namespace deepgemm::jit
