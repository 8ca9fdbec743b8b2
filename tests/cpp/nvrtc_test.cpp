// The search for NVRTC, and compiles by the real one. Without it the compiles are skipped.
#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "contains.hpp"
#include "deepgemm/error.hpp"
#include "jit/embedded_sources.hpp"
#include "jit/nvrtc_compiler.hpp"
#include "jit/nvrtc_search.hpp"
#include "jit_fixture.hpp"

using namespace deepgemm;
using test::contains;
using testing::test_kernel;

namespace {

// The setting that this process was started with; the first test changes it.
const char* const configured = std::getenv("DEEPGEMM_NVRTC_PATH");

bool has_nvrtc() {
  const jit::NvrtcInfo info = jit::nvrtc_info();
  if (!info.path.empty()) return true;
  MESSAGE("skipped: ", info.problem);
  return false;
}

std::string compile_error(const jit::KernelSpec& spec) {
  try {
    jit::compile(spec);
  } catch (const CompileError& error) {
    CHECK(contains(error.what(), error.log));
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("a wrong explicit path is an error that names it") {
  const std::string before = configured != nullptr ? configured : "";
  setenv("DEEPGEMM_NVRTC_PATH", "/nonexistent/libnvrtc.so.13", 1);
  const jit::NvrtcInfo info = jit::nvrtc_info();
  CHECK(info.path.empty());
  CHECK(contains(info.problem, "/nonexistent/libnvrtc.so.13"));
  CHECK(info.problem.starts_with("DEEPGEMM_NVRTC_PATH is set, to /nonexistent/"));
  setenv("DEEPGEMM_NVRTC_PATH", FAKE_DRIVER_PATH, 1);
  CHECK(contains(jit::nvrtc_info().problem, "not an NVRTC library"));
  if (before.empty()) {
    unsetenv("DEEPGEMM_NVRTC_PATH");
  } else {
    setenv("DEEPGEMM_NVRTC_PATH", before.c_str(), 1);
  }
}

TEST_CASE("the places are tried in the documented order, newest version first") {
  setenv("CUDA_HOME", "/opt/some-cuda", 1);
  const auto all = jit::nvrtc_candidates("", {"/wheels/nvidia/cu13/lib"});
  unsetenv("CUDA_HOME");
  std::vector<std::string> paths;
  for (const auto& candidate : all) paths.push_back(candidate.path);
  const auto position = [&paths](const std::string& path) {
    return std::find(paths.begin(), paths.end(), path) - paths.begin();
  };
  CHECK(all[0].path == "libnvrtc.so.13");
  CHECK(all[0].already_loaded);
  CHECK(position("/wheels/nvidia/cu13/lib/libnvrtc.so.13") == 2);
  CHECK(position("/wheels/nvidia/cu13/lib/libnvrtc.so.12") == 3);
  CHECK(position("/opt/some-cuda/lib64/libnvrtc.so.13") <
        position("/usr/local/cuda/lib64/libnvrtc.so.13"));
  CHECK(all.back().path == "libnvrtc.so.12");
  CHECK_FALSE(all.back().already_loaded);
}

TEST_CASE("an explicit directory is searched for both versions and nothing else is") {
  const auto all = jit::nvrtc_candidates("/tmp", {"/wheels"});
  REQUIRE(all.size() == 2);
  CHECK(all[0].path == "/tmp/libnvrtc.so.13");
  CHECK(all[1].path == "/tmp/libnvrtc.so.12");
}

TEST_CASE("builtins are those beside the library, of its major version") {
  testing::CacheDirectory directory;
  const std::string root = directory.root();
  for (const char* file : {"libnvrtc-builtins.so.12.9", "libnvrtc-builtins.so.13.0",
                           "libnvrtc-builtins.alt.so.13.0", "libnvrtc.so.13"}) {
    CHECK(files::write_atomically(root + "/" + file, "x").empty());
  }
  const auto found = jit::sibling_builtins(root + "/libnvrtc.so.13");
  REQUIRE(found.size() == 1);
  CHECK(found[0] == root + "/libnvrtc-builtins.so.13.0");
  CHECK(jit::sibling_builtins(root + "/renamed.so").size() == 2);
  CHECK(jit::sibling_builtins("libnvrtc.so.13").empty());
}

TEST_CASE("a kernel becomes a cubin, with ptxas' report") {
  if (!has_nvrtc()) return;
  const jit::Cubin cubin = jit::compile(test_kernel("plain"));
  CHECK(cubin.bytes.substr(1, 3) == "ELF");
  CHECK(cubin.origin == jit::Origin::compiled);
  CHECK(contains(cubin.log, "Compiling entry function 'deepgemm_test_kernel' for 'sm_90a'"));
  CHECK(contains(cubin.log, "0 bytes spill stores"));
  CHECK(cubin.milliseconds > 0);
  CHECK(jit::compile_with_nvrtc(test_kernel("plain"), false).log.empty());
}

TEST_CASE("two compiles of one kernel give the same bytes") {
  if (!has_nvrtc()) return;
  CHECK(jit::compile(test_kernel("same")).bytes == jit::compile(test_kernel("same")).bytes);
}

TEST_CASE("embedded sources are found by their include names") {
  if (!has_nvrtc() || jit::embedded_sources().empty()) return;
  CHECK(jit::embedded_sources_digest().size() == 64);
  jit::KernelSpec spec = test_kernel("headers");
  spec.entry = [](const jit::KernelSpec& kernel) {
    return join("#include \"common/types.cuh\"\nextern \"C\" __global__ void ", kernel.name,
                "(deepgemm::device::u32* x) { *x = 1; }\n");
  };
  CHECK(jit::compile(spec).bytes.size() > 0);
}

TEST_CASE("no file of the working directory is included") {
  if (!has_nvrtc()) return;
  testing::CacheDirectory directory;
  CHECK(files::write_atomically(directory.root() + "/mine.cuh", "").empty());
  char before[4096];
  REQUIRE(getcwd(before, sizeof(before)) != nullptr);
  REQUIRE(chdir(directory.root().c_str()) == 0);
  jit::KernelSpec spec = test_kernel("cwd");
  spec.entry = [](const jit::KernelSpec&) { return std::string("#include \"mine.cuh\"\n"); };
  CHECK(contains(compile_error(spec), "mine.cuh"));
  REQUIRE(chdir(before) == 0);
}

TEST_CASE("an error carries kernel, config and NVRTC's words") {
  if (!has_nvrtc()) return;
  jit::KernelSpec spec = test_kernel("\x01\x02");
  spec.entry = [](const jit::KernelSpec&) { return std::string("this is no program"); };
  const std::string error = compile_error(spec);
  CHECK(contains(error, "deepgemm_test_kernel (config 0102)"));
  CHECK(contains(error, "NVRTC_ERROR_COMPILATION"));
  CHECK(contains(error, "deepgemm_test_kernel.cu(1): error"));
}

TEST_CASE("threads compile in parallel") {
  if (!has_nvrtc()) return;
  std::vector<std::thread> threads;
  std::atomic<int> compiled{0};
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&compiled, i] {
      if (!jit::compile(test_kernel(join("thread ", i))).bytes.empty()) ++compiled;
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(compiled == 4);
}
