// DEEPGEMM_DUMP: files for people to read, all of one kernel beside each other. A failure is one
// warning, never an exception.
#pragma once

#include <string>

#include "jit/kernel.hpp"

namespace deepgemm::jit {

bool dumping() noexcept;
// "deepgemm_fp8_gemm-0123456789abcdef": what the names of a kernel's files begin with.
std::string dump_stem(const KernelSpec& spec);
// Writes a file into the directory.
void dump(const std::string& file, const std::string& bytes) noexcept;
void dump_source(const KernelSpec& spec) noexcept;
// Its .cubin, .ptx if NVRTC has given it, .sass if a disassembler is found; nothing where the
// .cubin of a stored kernel is there already.
void dump_cubin(const KernelSpec& spec, const Cubin& cubin) noexcept;

}  // namespace deepgemm::jit
