// DEEPGEMM_DUMP: what is written of a kernel, with a program that poses as nvdisasm.
#include "jit/dump.hpp"

#include <doctest/doctest.h>

#include <fstream>

#include "contains.hpp"
#include "jit/disassembler.hpp"
#include "jit_fixture.hpp"
#include "test_tensors.hpp"

using namespace deepgemm;
using test::contains;
using test::Environment;

namespace {

struct Dump {
  testing::CacheDirectory directory;
  testing::CapturedLog captured;
  std::string path = directory.root() + "/dump", tools = directory.root() + "/tools";
  Environment dump{"DEEPGEMM_DUMP", path.c_str()};
  Environment search{"PATH", ("/no/such:" + tools).c_str()};
  Dump() { testing::use_fake_nvrtc(); }

  void make_disassembler(const std::string& script) const {
    REQUIRE(files::make_directories(tools).empty());
    const std::string program = tools + "/nvdisasm";
    REQUIRE(files::write_atomically(program, "#!/bin/sh\n" + script).empty());
    REQUIRE(chmod(program.c_str(), 0700) == 0);
  }
  std::string only(const std::string& suffix) const {
    const auto found = files::list(path, suffix);
    return found.size() == 1 ? files::read(path + "/" + found.front()).value_or("") : "";
  }
};

}  // namespace

TEST_CASE_FIXTURE(Dump, "source, cubin and SASS of a compiled kernel, and of a stored one") {
  make_disassembler("echo \"SASS of $2 with ${HOME:-nothing}\"\n");
  const jit::KernelSpec spec = testing::fresh_kernel();
  const jit::Cubin cubin = jit::get_cubin(spec);
  CHECK(contains(only(".cu"), spec.config));
  CHECK(only(".cubin") == cubin.bytes);
  const std::string stem = path + "/" + jit::dump_stem(spec);
  CHECK(only(".sass") == "SASS of " + stem + ".cubin with nothing\n");
  CHECK(captured.messages().empty());
  // The next process finds the kernel on the disk.
  const std::string other = directory.root() + "/other";
  const Environment next("DEEPGEMM_DUMP", other.c_str());
  jit::Cubin stored = cubin;
  stored.origin = jit::Origin::disk;
  jit::dump_source(spec);
  jit::dump_cubin(spec, stored);
  CHECK(files::list(other, "").size() == 3);
}

TEST_CASE_FIXTURE(Dump, "a disassembler that fails costs a warning") {
  make_disassembler("echo half; exit 3\n");
  jit::get_cubin(testing::fresh_kernel());
  CHECK(files::list(path, ".sass").empty());
  CHECK(files::list(path, ".cubin").size() == 1);
  REQUIRE(captured.messages().size() == 1);
  CHECK(contains(captured.messages().front(), "failed with exit code 3"));
}

TEST_CASE_FIXTURE(Dump, "a program that cannot be run, and one that dies, are told") {
  REQUIRE(files::make_directories(tools).empty());
  make_disassembler("kill -9 $$\n");
  const std::string cubin = directory.root() + "/x.cubin", sass = directory.root() + "/x.sass";
  CHECK(contains(jit::disassemble(cubin, sass), "exit code 137"));
  CHECK(jit::find_disassembler() == tools + "/nvdisasm");
  REQUIRE(files::write_atomically(tools + "/nvdisasm", "no program").empty());
  REQUIRE(chmod((tools + "/nvdisasm").c_str(), 0700) == 0);
  CHECK(contains(jit::disassemble(cubin, sass), "cannot run "));
  CHECK_FALSE(files::read(sass));
}

TEST_CASE_FIXTURE(Dump, "a directory that cannot be written costs one warning") {
  make_disassembler("exit 0\n");
  const Environment nowhere("DEEPGEMM_DUMP", "/proc/no/such");
  jit::get_cubin(testing::fresh_kernel());
  CHECK(captured.messages().size() == 1);
  CHECK(contains(captured.messages().front(), "DEEPGEMM_DUMP: "));
}
