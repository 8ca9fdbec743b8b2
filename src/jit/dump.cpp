#include "jit/dump.hpp"

#include <exception>
#include <optional>

#include "core/env.hpp"
#include "core/files.hpp"
#include "core/log.hpp"
#include "core/text.hpp"
#include "jit/disassembler.hpp"
#include "jit/kernel_key.hpp"

namespace deepgemm::jit {
namespace {

std::optional<std::string> directory() { return env::text("DEEPGEMM_DUMP"); }

// Runs a step of dumping; what goes wrong is told once.
template <class Step>
void attempt(Step&& step) noexcept {
  try {
    const std::string problem = step();
    if (!problem.empty()) log::warn_once(join("DEEPGEMM_DUMP: ", problem));
  } catch (const std::exception&) {  // out of memory: no dump
  }
}

std::string write(const std::string& file, const std::string& bytes) {
  const auto into = directory();
  if (!into) return {};
  std::string problem = files::make_directories(*into);
  if (problem.empty()) problem = files::write_atomically(join(*into, "/", file), bytes);
  return problem;
}

std::string write_cubin(const KernelSpec& spec, const Cubin& cubin) {
  const std::string stem = dump_stem(spec), path = join(*directory(), "/", stem);
  if (cubin.origin != Origin::compiled && files::read(path + ".cubin")) return {};
  std::string problem = write(stem + ".cubin", cubin.bytes);
  if (problem.empty() && !cubin.ptx.empty()) problem = write(stem + ".ptx", cubin.ptx);
  if (problem.empty()) problem = disassemble(path + ".cubin", path + ".sass");
  return problem;
}

}  // namespace

bool dumping() noexcept {
  try {
    return directory().has_value();
  } catch (const std::exception&) {
    return false;
  }
}

std::string dump_stem(const KernelSpec& spec) {
  return join(spec.name, "-", family_key(spec).substr(0, 16));
}

void dump(const std::string& file, const std::string& bytes) noexcept {
  attempt([&] { return write(file, bytes); });
}

void dump_source(const KernelSpec& spec) noexcept {
  if (!dumping()) return;
  attempt([&] { return write(dump_stem(spec) + ".cu", spec.entry(spec)); });
}

void dump_cubin(const KernelSpec& spec, const Cubin& cubin) noexcept {
  if (!dumping()) return;
  attempt([&] { return write_cubin(spec, cubin); });
}

}  // namespace deepgemm::jit
