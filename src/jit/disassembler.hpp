// nvdisasm, NVIDIA's disassembler of cubins, if there is one: it is run for DEEPGEMM_DUMP only.
#pragma once

#include <string>

namespace deepgemm::jit {

// Path of nvdisasm: on PATH, in CUDA_HOME or CUDA_PATH, in /usr/local/cuda, or in the Python wheel
// nvidia-cuda-nvdisasm beside NVRTC's. Empty if there is none.
std::string find_disassembler();
// Writes the SASS of a cubin to `output`. Empty, also where there is no disassembler, or what went
// wrong.
std::string disassemble(const std::string& cubin, const std::string& output);

}  // namespace deepgemm::jit
